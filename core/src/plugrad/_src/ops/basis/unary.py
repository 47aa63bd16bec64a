"""Element-wise ops of one argument.

Kernels: ``Abs Ceil Exp Exp2 Expm1 Floor IsFinite IsInf IsNan Log Log1p Neg Reciprocal
Round Rsqrt Sign Sqrt Square Trunc``. More of these ops are in ``trigonometry``,
``error_functions`` and ``activation``.

Ops keep the dtype; rounding ops return integers unchanged. Roots, ``exp`` and
logarithms convert integers and bool to float32.

Contents: tools; sign and absolute value; rounding; NaN and infinities; powers and
roots; exponential and logarithm.
"""

from __future__ import annotations

import math
from functools import partial

from plugrad._src.engine.dispatch import run
from plugrad._src.registry.contract import (
    Kernel,
    compared,
    decomposition,
    gradients,
    same,
)
from plugrad._src.tensor.dtypes import BOOL, FLOAT32, dtype_kind
from plugrad._src.tensor.tensor import Tensor, TensorLike

from . import _convert, binary, compare, complexes, creation

__all__ = [
    "abs",
    "ceil",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log1p",
    "log2",
    "log10",
    "negative",
    "positive",
    "reciprocal",
    "round",
    "rsqrt",
    "sign",
    "sqrt",
    "square",
    "trunc",
]

NUMBERS = "biufc"  # every kind of dtype but strings

# Contracts with one input and an output with the same spec.
_elementwise = partial(Kernel, out=same)

# --- tools -----------------------------------------------------------------------


def run_or_identity(kernel: Kernel, x: TensorLike, kinds: str) -> Tensor:
    """Run a kernel for dtypes of ``kinds``; return other real tensors unchanged."""
    if type(x) is not Tensor:
        x = _convert.asarray(x)
    if x.dtype is FLOAT32 or dtype_kind(x.dtype) in kinds:
        return _convert.unary(kernel, x)
    return creation.identity(_convert.floating(kernel.op, x, "biuf"))


def chain(dy: Tensor, slope: Tensor) -> Tensor:
    """Return the gradient of a function whose derivative is ``slope``."""
    return dy * complexes.conjugate(slope)


def chain_inverse(dy: Tensor, slope: Tensor) -> Tensor:
    """Return the gradient of a function whose derivative is ``1 / slope``."""
    return dy / complexes.conjugate(slope)


def times_real(x: Tensor, factor: float) -> Tensor:
    """Return ``x`` times a real number, multiplying complex numbers part by part.

    A complex factor, whose imaginary part is 0, would turn infinite parts into NaN.
    """
    if dtype_kind(x.dtype) != "c":
        return x * factor
    real, imag = complexes.parts(x)
    return run(complexes.COMPLEX, real * factor, imag * factor)


def odd_extension(x: Tensor, y: Tensor) -> Tensor:
    """Return ``f(x)`` for an odd function f, given ``y = f(|x|)``; -0.0 for -0.0."""
    return compare.where(x > 0, y, compare.where(x < 0, -y, x))


def _polynomial(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    """Evaluate a polynomial at ``x``; the highest power's coefficient comes first."""
    y = x * coefficients[0]
    for c in coefficients[1:-1]:
        y = (y + c) * x
    return y + coefficients[-1]


# --- sign and absolute value -----------------------------------------------------

NEG = _elementwise(
    "Neg(x: number)",
    op="negative",
    doc="""``y = -x``; -0.0 for 0.0.

    Integers wrap.""",
)


def negative(x: TensorLike, /) -> Tensor:
    """Return ``-x`` for each element. Integers wrap.

    The result for 0.0 is -0.0. For an unsigned 1 it is the largest integer.

    Args:
        x: A tensor of numbers; for bool use ``logical_not``.

    Returns:
        A tensor with the shape and dtype of ``x``.

    Raises:
        TypeError: ``x`` is bool, or contains strings.

    Example:
        >>> pg.negative([1.0, -2.0])
        Tensor([-1.,  2.], dtype=float32, backend='cpu')

    """
    x = x if type(x) is Tensor else _convert.asarray(x)
    if x.dtype is BOOL:
        raise TypeError("negative: is not defined for bool; use logical_not, or astype")
    return _convert.floating_unary(NEG, x, NUMBERS)


@decomposition(NEG)
def _(x: Tensor) -> Tensor:
    if dtype_kind(x.dtype) == "f":  # 0 - 0.0 is not -0.0
        return x * -1
    return (complex(-0.0, -0.0) if dtype_kind(x.dtype) == "c" else 0) - x


gradients(NEG, x=lambda dy: -dy)


def positive(x: TensorLike, /) -> Tensor:
    """Return ``+x``: a new tensor with the same elements.

    Args:
        x: A tensor of numbers.

    Returns:
        A tensor with the shape and dtype of ``x``.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.positive([1.0, -2.0])
        Tensor([ 1., -2.], dtype=float32, backend='cpu')

    """
    return creation.identity(_convert.numbers("positive", x))


SIGN = _elementwise(
    "Sign(x: number)",
    op="sign",
    doc="""-1 where ``x < 0``, 0 where ``x = 0``, and 1 where ``x > 0``; NaN for NaN.

    For a complex number, ``x / |x|``, even if ``|x|²`` overflows; 0 for 0.""",
)


def sign(x: TensorLike, /) -> Tensor:
    """Return -1 where ``x < 0``, 0 where it is 0, 1 where ``x > 0``; NaN for NaN.

    The result for a complex number is ``x / |x|``, and 0 for 0. The derivative for real
    numbers is 0.

    Args:
        x: A tensor of numbers.

    Returns:
        A tensor with the shape and dtype of ``x``.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.sign([-2.0, 0.0, 3.0])
        Tensor([-1.,  0.,  1.], dtype=float32, backend='cpu')

    """
    return run_or_identity(SIGN, x, "iufc")


@decomposition(SIGN)
def _(x: Tensor) -> Tensor:
    if dtype_kind(x.dtype) == "c":
        return complexes.direction(x)
    y = creation.cast(x > 0, x.dtype) - creation.cast(x < 0, x.dtype)
    return compare.where(compare.equal(x, x), y, x) if dtype_kind(x.dtype) == "f" else y


def _sign_gradient(dy: Tensor, x: Tensor) -> Tensor:
    """Return zeros; for complex ``x``, use the part of ``dy`` orthogonal to ``x``."""
    if dtype_kind(x.dtype) != "c":
        return creation.zeros_like(dy)
    y = run(SIGN, x)
    null = compare.equal(x, 0)
    size = compare.where(null, 1, x * complexes.conjugate(y))
    return compare.where(null, 0, (dy - y * y * complexes.conjugate(dy)) / (size * 2))


gradients(SIGN, x=_sign_gradient)


ABS = _elementwise(
    "Abs(x: integer | floating)",
    op="abs",
    doc="""``|x|``; 0.0 for -0.0.

    The least integer wraps to itself.""",
)


def abs(x: TensorLike, /) -> Tensor:
    """Return ``|x|`` for each element, and ``√(Re² + Im²)`` for complex numbers.

    The derivative at 0 is 0. The least integer has no positive counterpart and wraps to
    itself.

    Args:
        x: A tensor of numbers.

    Returns:
        A tensor with the shape and dtype of ``x``, but float32 for complex64 and
        float64 for complex128.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.abs([-1.5, 2.0])
        Tensor([1.5, 2. ], dtype=float32, backend='cpu')

    """
    x = x if type(x) is Tensor else _convert.asarray(x)
    if dtype_kind(x.dtype) == "c":
        return _convert.unary(complexes.COMPLEX_ABS, x)
    return run_or_identity(ABS, x, "if")


decomposition(ABS, lambda x: compare.where(x > 0, x, 0 - x))
gradients(ABS, x=lambda dy, x: dy * run(SIGN, x))


# --- rounding --------------------------------------------------------------------

FLOOR = _elementwise(
    "Floor(x: floating)",
    op="floor",
    doc="""``⌊x⌋``, the greatest whole number that is not above ``x``.

    NaN, infinities and -0.0 are returned unchanged.""",
)


def floor(x: TensorLike, /) -> Tensor:
    """Return ``⌊x⌋``, the greatest whole number less than or equal to ``x``.

    NaN, infinities and -0.0 are returned unchanged, and so are integers and bool. The
    derivative is 0.

    Args:
        x: A tensor of real numbers.

    Returns:
        A tensor with the shape and dtype of ``x``.

    Raises:
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> pg.floor([-1.5, 1.5])
        Tensor([-2.,  1.], dtype=float32, backend='cpu')

    """
    return run_or_identity(FLOOR, x, "f")


gradients(FLOOR, x=lambda dy: creation.zeros_like(dy))


CEIL = _elementwise(
    "Ceil(x: floating)",
    op="ceil",
    doc="""``⌈x⌉``, the least whole number that is not below ``x``.

    NaN, infinities and -0.0 are returned unchanged; numbers between -1 and 0 give
    -0.0.""",
)


def ceil(x: TensorLike, /) -> Tensor:
    """Return ``⌈x⌉``, the least whole number greater than or equal to ``x``.

    NaN, infinities and -0.0 are returned unchanged, and so are integers and bool;
    between -1 and 0 the result is -0.0. The derivative is 0.

    Args:
        x: A tensor of real numbers.

    Returns:
        A tensor with the shape and dtype of ``x``.

    Raises:
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> pg.ceil([-1.5, 1.5])
        Tensor([-1.,  2.], dtype=float32, backend='cpu')

    """
    return run_or_identity(CEIL, x, "f")


decomposition(CEIL, lambda x: -floor(-x))
gradients(CEIL, x=lambda dy: creation.zeros_like(dy))


ROUND = _elementwise(
    "Round(x: inexact)",
    op="round",
    doc="""The nearest whole number; of two that are equally near, the even one.

    NaN, infinities and -0.0 are returned unchanged; numbers from -0.5 to 0 give -0.0.
    Real and imaginary parts of complex numbers are rounded separately.""",
)


def round(x: TensorLike, /) -> Tensor:
    """Return the nearest whole number; ties round to even.

    0.5 becomes 0 and 1.5 becomes 2. NaN, infinities and -0.0 are returned unchanged,
    and so are integers and bool. Real and imaginary parts of complex numbers are
    rounded separately. The derivative is 0.

    Args:
        x: A tensor of numbers.

    Returns:
        A tensor with the shape and dtype of ``x``.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.round([0.5, 1.5, 2.6])
        Tensor([0., 2., 3.], dtype=float32, backend='cpu')

    """
    return run_or_identity(ROUND, x, "fc")


@decomposition(ROUND)
def _(x: Tensor) -> Tensor:
    if dtype_kind(x.dtype) == "c":
        return complexes.complex(
            round(complexes.real_part(x)), round(complexes.imag(x))
        )
    low = floor(x)
    rest = x - low
    half = low * 0.5
    odd = compare.logical_and(compare.equal(rest, 0.5), half > floor(half))
    return compare.where(compare.logical_or(rest > 0.5, odd), ceil(x), low)


gradients(ROUND, x=lambda dy: creation.zeros_like(dy))


TRUNC = _elementwise(
    "Trunc(x: floating)",
    op="trunc",
    doc="""``x`` without its fraction: ``⌊x⌋``, and ``⌈x⌉`` where ``x < 0``.

    NaN, infinities and -0.0 are returned unchanged; numbers between -1 and 0 give
    -0.0.""",
)


def trunc(x: TensorLike, /) -> Tensor:
    """Return ``x`` without its fractional part, that is, rounded towards 0.

    NaN, infinities and -0.0 are returned unchanged, and so are integers and bool;
    between -1 and 0 the result is -0.0. The derivative is 0.

    Args:
        x: A tensor of real numbers.

    Returns:
        A tensor with the shape and dtype of ``x``.

    Raises:
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> pg.trunc([-1.5, 1.5])
        Tensor([-1.,  1.], dtype=float32, backend='cpu')

    """
    return run_or_identity(TRUNC, x, "f")


decomposition(TRUNC, lambda x: compare.where(x < 0, run(CEIL, x), run(FLOOR, x)))
gradients(TRUNC, x=lambda dy: creation.zeros_like(dy))


# --- NaN and infinities ----------------------------------------------------------

IS_FINITE = Kernel(
    "IsFinite(x: bool | number)",
    out=compared,
    op="isfinite",
    doc="""Whether ``x`` is neither infinite nor NaN, in both parts if it is complex.

    True for bool and integers.""",
)


def isfinite(x: TensorLike, /) -> Tensor:
    """Return True where ``x`` is neither infinite nor NaN, and False elsewhere.

    A complex number is finite if both of its parts are. Integers and bool are finite.

    Args:
        x: A tensor of numbers.

    Returns:
        A bool tensor with the shape of ``x``.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.isfinite([1.0, np.inf, np.nan])
        Tensor([ True, False, False], dtype=bool, backend='cpu')

    """
    return _convert.floating_unary(IS_FINITE, x, NUMBERS)


@decomposition(IS_FINITE)
def _(x: Tensor) -> Tensor:
    return (
        compare.equal(x - x, 0) if dtype_kind(x.dtype) in "fc" else compare.equal(x, x)
    )


gradients(IS_FINITE, x=None)


IS_INF = Kernel(
    "IsInf(x: bool | number)",
    out=compared,
    op="isinf",
    doc="""Whether ``x`` is infinite; for complex numbers, whether a part is.

    The other part may be NaN. False for bool and integers.""",
)


def isinf(x: TensorLike, /) -> Tensor:
    """Return True where ``x`` is infinite, with either sign, and False elsewhere.

    A complex number is infinite if either part is infinite, even if the other is NaN.

    Args:
        x: A tensor of numbers.

    Returns:
        A bool tensor with the shape of ``x``.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.isinf([1.0, -np.inf, np.nan])
        Tensor([False,  True, False], dtype=bool, backend='cpu')

    """
    return _convert.floating_unary(IS_INF, x, NUMBERS)


@decomposition(IS_INF)
def _(x: Tensor) -> Tensor:
    if dtype_kind(x.dtype) in "fc":
        return compare.equal(abs(x), math.inf)
    return compare.not_equal(x, x)


gradients(IS_INF, x=None)


IS_NAN = Kernel(
    "IsNan(x: bool | number)",
    out=compared,
    op="isnan",
    doc="""Whether ``x`` is NaN; for complex numbers, whether a part is.

    False for bool and integers.""",
)


def isnan(x: TensorLike, /) -> Tensor:
    """Return True where ``x``, or either part of a complex ``x``, is NaN.

    Args:
        x: A tensor of numbers.

    Returns:
        A bool tensor with the shape of ``x``.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.isnan([1.0, np.inf, np.nan])
        Tensor([False, False,  True], dtype=bool, backend='cpu')

    """
    return _convert.floating_unary(IS_NAN, x, NUMBERS)


decomposition(IS_NAN, lambda x: compare.not_equal(x, x))
gradients(IS_NAN, x=None)


# --- powers and roots ------------------------------------------------------------

SQUARE = _elementwise(
    "Square(x: number)",
    op="square",
    doc="""``y = x · x``.

    Integers wrap.""",
)


def square(x: TensorLike, /) -> Tensor:
    """Return ``x²`` for each element. Integers wrap.

    Args:
        x: A tensor of numbers.

    Returns:
        A tensor with the shape and dtype of ``x``.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.square([-2.0, 3.0])
        Tensor([4., 9.], dtype=float32, backend='cpu')

    """
    return run_or_identity(SQUARE, x, "iufc")


decomposition(SQUARE, lambda x: x * x)
gradients(SQUARE, x=lambda dy, x: chain(dy, x * 2))


SQRT = _elementwise(
    "Sqrt(x: inexact)",
    op="sqrt",
    doc="""``√x``; NaN where ``x < 0``, and -0.0 for -0.0.

    For a complex number, the root with real part ≥ 0. Where the real part is 0, the
    imaginary part has the sign of ``Im x``, even if that is a zero.""",
)


def sqrt(x: TensorLike, /) -> Tensor:
    """Return the square root of each element, ``√x``; NaN where ``x < 0``.

    The root of a complex number is the one with real part ≥ 0; where the real part is
    0, the imaginary part has the sign of ``Im x``. The root of -0.0 is -0.0. The
    derivative at 0 is infinite.

    Args:
        x: A tensor of numbers.

    Returns:
        A tensor with the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.sqrt([0.0, 4.0, -1.0])
        Tensor([ 0.,  2., nan], dtype=float32, backend='cpu')

    """
    return _convert.floating_unary(SQRT, x)


gradients(SQRT, x=lambda dy, y: chain_inverse(dy, y * 2))


RSQRT = _elementwise(
    "Rsqrt(x: inexact)",
    op="rsqrt",
    doc="""``1 / √x``; NaN where ``x < 0``, ±inf for ±0, and 0 for inf.

    For complex numbers other than 0, the reciprocal of ``Sqrt``.""",
)


def rsqrt(x: TensorLike, /) -> Tensor:
    """Return ``1 / √x`` for each element; ±inf for ±0, 0 for inf, NaN where ``x < 0``.

    Args:
        x: A tensor of numbers.

    Returns:
        A tensor with the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.rsqrt([0.25, 4.0])
        Tensor([2. , 0.5], dtype=float32, backend='cpu')

    """
    return _convert.floating_unary(RSQRT, x)


decomposition(RSQRT, lambda x: 1 / run(SQRT, x))
gradients(RSQRT, x=lambda dy, x, y: chain_inverse(chain(dy, y), x * -2))


RECIPROCAL = _elementwise(
    "Reciprocal(x: inexact)",
    op="reciprocal",
    doc="""``1 / x``.

    For real numbers, ±0 gives ±inf, and ±inf gives ±0. For complex numbers, it is
    ``conj(x) / |x|²``, with the signs of the parts of ``conj(x)``; 0 gives NaN, and an
    infinite number gives 0 unless both parts are infinite or NaN.""",
)


def reciprocal(x: TensorLike, /) -> Tensor:
    """Return ``1 / x`` for each element; ±inf for ±0, and ±0 for ±inf.

    For complex numbers, it is ``conj(x) / |x|²``, as in ``np.reciprocal``, and NaN for
    0.

    Args:
        x: A tensor of numbers.

    Returns:
        A tensor with the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.reciprocal([0.5, -4.0])
        Tensor([ 2.  , -0.25], dtype=float32, backend='cpu')

    """
    return _convert.floating_unary(RECIPROCAL, x)


@decomposition(RECIPROCAL)
def _(x: Tensor) -> Tensor:
    """Divide complex numbers by Smith's method, which avoids squares that overflow."""
    if dtype_kind(x.dtype) != "c":
        return 1 / x
    re, im = complexes.parts(x)
    flat = run(compare.GREATER_EQUAL, abs(re), abs(im))
    ratio = compare.where(flat, im, re) / compare.where(flat, re, im)
    size = compare.where(flat, re + im * ratio, re * ratio + im)
    re = compare.where(flat, 1, ratio)
    im = compare.where(flat, ratio, 1)
    return run(complexes.COMPLEX, re / size, -im / size)


gradients(RECIPROCAL, x=lambda dy, y: chain(chain(-dy, y), y))


# --- exponential and logarithm ---------------------------------------------------

EXP = _elementwise(
    "Exp(x: inexact)",
    op="exp",
    doc="""``e^x``; 0 for -inf, and inf where it overflows.

    Within 3 ulp in float32.""",
)


def exp(x: TensorLike, /) -> Tensor:
    """Return ``e^x`` for each element; 0 for -inf, and inf where it overflows.

    Args:
        x: A tensor of numbers.

    Returns:
        A tensor with the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.exp([0.0, 1.0])
        Tensor([1.    , 2.7183], dtype=float32, backend='cpu')

    """
    return _convert.floating_unary(EXP, x)


gradients(EXP, x=lambda dy, y: chain(dy, y))


EXPM1 = _elementwise(
    "Expm1(x: inexact)",
    op="expm1",
    doc="""``e^x - 1``, without cancellation near 0; -1 for -inf, and -0.0 for -0.0.

    For a complex 0, the real part is 0.0. For infinities and NaN, the result is
    ``e^x`` less 1. Within 3 ulp in float32.""",
)


def expm1(x: TensorLike, /) -> Tensor:
    """Return ``e^x - 1`` for each element, also accurate near 0; -1 for -inf.

    Args:
        x: A tensor of numbers.

    Returns:
        A tensor with the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.expm1(1e-7)
        Tensor(1.e-07, dtype=float32, backend='cpu')

    """
    return _convert.floating_unary(EXPM1, x)


gradients(EXPM1, x=lambda dy, x: chain(dy, run(EXP, x)))


EXP2 = _elementwise(
    "Exp2(x: floating)",
    op="exp2",
    doc="""``2^x``; 0 for -inf, and inf where it overflows.

    Exact where ``x`` is whole, including subnormal results. Within 3 ulp; on a backend
    that computes it by ``Pow``, as accurate as ``Pow``.""",
)


def exp2(x: TensorLike, /) -> Tensor:
    """Return ``2^x`` for each element; 0 for -inf, and inf where it overflows.

    The result is exact where ``x`` is a whole real number.

    Args:
        x: A tensor of numbers.

    Returns:
        A tensor with the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.exp2([-1.0, 3.0])
        Tensor([0.5, 8. ], dtype=float32, backend='cpu')

    """
    x = _convert.floating("exp2", x)
    if dtype_kind(x.dtype) == "c":
        return exp(times_real(x, math.log(2)))
    return run(EXP2, x)


decomposition(EXP2, lambda x: binary.pow(2, x))


def _exp2_gradient(dy: Tensor, x: Tensor) -> Tensor:
    """Multiply two factors ``2^(x/2)``: 2^x overflows before its derivative does."""
    root = run(EXP2, x * 0.5)
    return dy * (root * (root * math.log(2)))


gradients(EXP2, x=_exp2_gradient)


LOG = _elementwise(
    "Log(x: inexact)",
    op="log",
    doc="""The natural logarithm; NaN where ``x < 0``, and -inf for ±0.

    For a complex number, the logarithm whose imaginary part is in [-π, π] and has the
    sign of ``Im x``, even if that is a zero. Within 3 ulp in float32.""",
)


def log(x: TensorLike, /) -> Tensor:
    """Return the natural logarithm; -inf for 0, NaN where ``x < 0``.

    For a complex number, it is the logarithm whose imaginary part is in [-π, π].

    Args:
        x: A tensor of numbers.

    Returns:
        A tensor with the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.log([1.0, 10.0])
        Tensor([0.    , 2.3026], dtype=float32, backend='cpu')

    """
    return _convert.floating_unary(LOG, x)


gradients(LOG, x=lambda dy, x: chain_inverse(dy, x))


LOG1P = _elementwise(
    "Log1p(x: inexact)",
    op="log1p",
    doc="""``log(1 + x)``, without cancellation near 0; -0.0 for -0.0.

    -inf for -1, and NaN below. Within 3 ulp in float32.""",
)


def log1p(x: TensorLike, /) -> Tensor:
    """Return ``log(1 + x)``, also accurate near 0; -inf for -1, NaN below.

    Args:
        x: A tensor of numbers.

    Returns:
        A tensor with the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.log1p(1e-7)
        Tensor(1.e-07, dtype=float32, backend='cpu')

    """
    return _convert.floating_unary(LOG1P, x)


gradients(LOG1P, x=lambda dy, x: chain_inverse(dy, x + 1))


def log2(x: TensorLike, /) -> Tensor:
    """Return the logarithm to base 2, ``log(x) / log(2)``.

    The quotient is rounded twice, so the result for a power of 2 may differ from a
    whole number by a rounding error.

    Args:
        x: A tensor of numbers.

    Returns:
        A tensor with the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.log2([1.0, 8.0])
        Tensor([0., 3.], dtype=float32, backend='cpu')

    """
    return _logarithm(_convert.floating("log2", x), 2)


def log10(x: TensorLike, /) -> Tensor:
    """Return the logarithm to base 10, ``log(x) / log(10)``.

    The quotient is rounded twice, so the result for a power of 10 may differ from a
    whole number by a rounding error.

    Args:
        x: A tensor of numbers.

    Returns:
        A tensor with the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.log10([1.0, 1000.0])
        Tensor([0., 3.], dtype=float32, backend='cpu')

    """
    return _logarithm(_convert.floating("log10", x), 10)


def _logarithm(x: Tensor, base: int) -> Tensor:
    y = run(LOG, x)
    if dtype_kind(x.dtype) == "c":
        return times_real(y, 1 / math.log(base))
    return y / math.log(base)
