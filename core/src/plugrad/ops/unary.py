"""Element-wise ops of one argument.

Kernels: ``Abs Ceil Erf Exp Expm1 Floor IsFinite IsInf IsNan Log Log1p Neg Reciprocal
Round Rsqrt Sign Sqrt Square``. More of them are in ``trigonometry`` and ``activation``.

dtypes stay, and whole numbers are integers' own result; roots, ``exp``, logarithms and
``erf`` make float32 of integers and bool.

Map: tools; sign and size; whole numbers; what is finite; powers and roots; exponential
and logarithm; the error function.
"""

from __future__ import annotations

import math

from plugrad._dtypes import BOOL, FLOAT32
from plugrad._engine import run
from plugrad._kernel import Kernel, compared, decomposition, gradients, same
from plugrad._tensor import Tensor, TensorLike

from . import _convert, binary, compare, complexes, creation

NUMBERS = "biufc"  # every kind of dtype but strings

# --- tools -----------------------------------------------------------------------


def kept(kernel: Kernel, x: TensorLike, kinds: str) -> Tensor:
    """Run a kernel on some kinds of dtypes; all others are their own result."""
    if type(x) is not Tensor:
        x = _convert.asarray(x)
    if x.dtype is FLOAT32 or x.dtype.kind in kinds:
        return _convert.unary(kernel, x)
    return creation.identity(_convert.floating(kernel.op, x, "biuf"))


def times(dy: Tensor, slope: Tensor) -> Tensor:
    """Return the cotangent of a function with the derivative ``slope``."""
    return dy * complexes.conj(slope)


def over(dy: Tensor, slope: Tensor) -> Tensor:
    """Return the cotangent of a function with the derivative ``1 / slope``."""
    return dy / complexes.conj(slope)


def odd(x: Tensor, y: Tensor) -> Tensor:
    """Return ``f(x)`` of an odd function from ``y = f(|x|)``; ``f(-0.0)`` is -0.0."""
    return compare.where(x > 0, y, compare.where(x < 0, -y, x))


# --- sign and size ---------------------------------------------------------------

NEG = Kernel("Neg(x)", out=same, op="negative")


def negative(x: TensorLike, /) -> Tensor:
    """Return ``-x``. Integers wrap; there is none of bool (TypeError)."""
    x = x if type(x) is Tensor else _convert.asarray(x)
    if x.dtype is BOOL:
        raise TypeError("negative: is not defined for bool; use logical_not, or astype")
    return _convert.floating_unary(NEG, x, NUMBERS)


# 0 - 0.0 is not -0.0.
decomposition(NEG, lambda x: x * -1 if x.dtype.kind == "f" else 0 - x)
gradients(NEG, x=lambda dy: -dy)


def positive(x: TensorLike, /) -> Tensor:
    """Return ``+x``: the same numbers as a new tensor."""
    return creation.identity(_convert.numbers("positive", x))


SIGN = Kernel("Sign(x)", out=same, op="sign")


def sign(x: TensorLike, /) -> Tensor:
    """Return -1, 0 or 1 as ``x`` is less than, equal to or more than 0; NaN for NaN.

    Of a complex number ``x / |x|``, and 0 for 0.
    """
    return kept(SIGN, x, "iufc")


@decomposition(SIGN)
def _(x: Tensor) -> Tensor:
    if x.dtype.kind == "c":
        return complexes.direction(x)
    y = creation.astype(x > 0, x.dtype) - creation.astype(x < 0, x.dtype)
    return compare.where(compare.equal(x, x), y, x) if x.dtype.kind == "f" else y


def _sign_gradient(dy: Tensor, x: Tensor) -> Tensor:
    """Return zeros; of complex numbers, what of ``dy`` is at right angles to ``x``."""
    if x.dtype.kind != "c":
        return creation.zeros_like(dy)
    y, null = run(SIGN, x), compare.equal(x, 0)
    size = compare.where(null, 1, x * complexes.conj(y))
    return compare.where(null, 0, (dy - y * y * complexes.conj(dy)) / (size * 2))


gradients(SIGN, x=_sign_gradient)


ABS = Kernel("Abs(x)", out=same, op="abs")


def abs(x: TensorLike, /) -> Tensor:
    """Return ``|x|``; the derivative at 0 is 0. The least integer wraps to itself.

    Of complex numbers ``√(Re² + Im²)``, which is real.
    """
    x = x if type(x) is Tensor else _convert.asarray(x)
    if x.dtype.kind == "c":
        return _convert.unary(complexes.COMPLEX_ABS, x)
    return kept(ABS, x, "if")


decomposition(ABS, lambda x: compare.where(x > 0, x, 0 - x))
gradients(ABS, x=lambda dy, x: dy * run(SIGN, x))


# --- whole numbers ---------------------------------------------------------------

FLOOR = Kernel("Floor(x)", out=same, op="floor")


def floor(x: TensorLike, /) -> Tensor:
    """Return ``⌊x⌋``, the greatest whole number that is not above ``x``.

    Integers are returned as they are. The gradient is 0, as of ``ceil`` and ``round``.
    """
    return kept(FLOOR, x, "f")


gradients(FLOOR, x=lambda dy: creation.zeros_like(dy))


CEIL = Kernel("Ceil(x)", out=same, op="ceil")


def ceil(x: TensorLike, /) -> Tensor:
    """Return ``⌈x⌉``, the least whole number that is not below ``x``."""
    return kept(CEIL, x, "f")


decomposition(CEIL, lambda x: -floor(-x))
gradients(CEIL, x=lambda dy: creation.zeros_like(dy))


ROUND = Kernel("Round(x)", out=same, op="round")


def round(x: TensorLike, /) -> Tensor:
    """Return the nearest whole number, of two the even one: 0.5 gives 0, 1.5 gives 2.

    Real and imaginary parts of complex numbers are rounded each.
    """
    return kept(ROUND, x, "fc")


@decomposition(ROUND)
def _(x: Tensor) -> Tensor:
    if x.dtype.kind == "c":
        return complexes.complex(round(complexes.real(x)), round(complexes.imag(x)))
    low = floor(x)
    rest, half = x - low, low * 0.5
    odd = compare.logical_and(compare.equal(rest, 0.5), half > floor(half))
    return compare.where(compare.logical_or(rest > 0.5, odd), ceil(x), low)


gradients(ROUND, x=lambda dy: creation.zeros_like(dy))


def trunc(x: TensorLike, /) -> Tensor:
    """Return ``x`` without its fraction: the next whole number towards 0."""
    x = _convert.real("trunc", x)
    if x.dtype.kind != "f":
        return creation.identity(x)
    return compare.where(x < 0, run(CEIL, x), run(FLOOR, x))


# --- what is finite --------------------------------------------------------------

IS_FINITE = Kernel("IsFinite(x)", out=compared, op="isfinite")


def isfinite(x: TensorLike, /) -> Tensor:
    """Return where ``x`` is neither infinite nor NaN, as bool."""
    return _convert.floating_unary(IS_FINITE, x, NUMBERS)


@decomposition(IS_FINITE)
def _(x: Tensor) -> Tensor:
    return compare.equal(x - x, 0) if x.dtype.kind in "fc" else compare.equal(x, x)


gradients(IS_FINITE, x=None)


IS_INF = Kernel("IsInf(x)", out=compared, op="isinf")


def isinf(x: TensorLike, /) -> Tensor:
    """Return where ``x``, or a part of it if it is complex, is ±infinity, as bool."""
    return _convert.floating_unary(IS_INF, x, NUMBERS)


@decomposition(IS_INF)
def _(x: Tensor) -> Tensor:
    if x.dtype.kind in "fc":
        return compare.equal(abs(x), math.inf)
    return compare.not_equal(x, x)


gradients(IS_INF, x=None)


IS_NAN = Kernel("IsNan(x)", out=compared, op="isnan")


def isnan(x: TensorLike, /) -> Tensor:
    """Return where ``x``, or a part of it if it is complex, is NaN, as bool."""
    return _convert.floating_unary(IS_NAN, x, NUMBERS)


decomposition(IS_NAN, lambda x: compare.not_equal(x, x))
gradients(IS_NAN, x=None)


# --- powers and roots ------------------------------------------------------------

SQUARE = Kernel("Square(x)", out=same, op="square")


def square(x: TensorLike, /) -> Tensor:
    """Return the square of each element, ``x²``. Integers wrap."""
    return kept(SQUARE, x, "iufc")


decomposition(SQUARE, lambda x: x * x)
gradients(SQUARE, x=lambda dy, x: times(dy, x * 2))


SQRT = Kernel("Sqrt(x)", out=same, op="sqrt")


def sqrt(x: TensorLike, /) -> Tensor:
    """Return the square root of each element, ``√x``; NaN where x < 0.

    Of a complex number the root with real part ≥ 0. Integers give float32.
    """
    return _convert.floating_unary(SQRT, x)


gradients(SQRT, x=lambda dy, y: over(dy, y * 2))


RSQRT = Kernel("Rsqrt(x)", out=same, op="rsqrt")


def rsqrt(x: TensorLike, /) -> Tensor:
    """Return ``1 / √x``; ±inf for ±0, NaN where x < 0."""
    return _convert.floating_unary(RSQRT, x)


decomposition(RSQRT, lambda x: 1 / run(SQRT, x))
gradients(RSQRT, x=lambda dy, x, y: over(times(dy, y), x * -2))


RECIPROCAL = Kernel("Reciprocal(x)", out=same, op="reciprocal")


def reciprocal(x: TensorLike, /) -> Tensor:
    """Return ``1 / x``; ±inf for ±0. Integers give float32."""
    return _convert.floating_unary(RECIPROCAL, x)


decomposition(RECIPROCAL, lambda x: 1 / x)
gradients(RECIPROCAL, x=lambda dy, y: times(times(-dy, y), y))


# --- exponential and logarithm ---------------------------------------------------

EXP = Kernel("Exp(x)", out=same, op="exp")


def exp(x: TensorLike, /) -> Tensor:
    """Return ``e`` to the power of each element, ``e^x``; integers give float32."""
    return _convert.floating_unary(EXP, x)


gradients(EXP, x=lambda dy, y: times(dy, y))


EXPM1 = Kernel("Expm1(x)", out=same, op="expm1")


def expm1(x: TensorLike, /) -> Tensor:
    """Return ``e^x - 1``, accurate next to 0 too."""
    return _convert.floating_unary(EXPM1, x)


gradients(EXPM1, x=lambda dy, x: times(dy, run(EXP, x)))


def exp2(x: TensorLike, /) -> Tensor:
    """Return ``2^x``; integers give float32."""
    return binary.pow(2, _convert.floating("exp2", x))


LOG = Kernel("Log(x)", out=same, op="log")


def log(x: TensorLike, /) -> Tensor:
    """Return the natural logarithm; -inf for 0, NaN where x < 0.

    Of a complex number the one whose imaginary part is in [-π, π]. Integers give
    float32.
    """
    return _convert.floating_unary(LOG, x)


gradients(LOG, x=lambda dy, x: over(dy, x))


LOG1P = Kernel("Log1p(x)", out=same, op="log1p")


def log1p(x: TensorLike, /) -> Tensor:
    """Return ``log(1 + x)``, accurate next to 0 too; -inf for -1, NaN below."""
    return _convert.floating_unary(LOG1P, x)


gradients(LOG1P, x=lambda dy, x: over(dy, x + 1))


def log2(x: TensorLike, /) -> Tensor:
    """Return the logarithm to the base 2, ``log x / log 2``.

    It is rounded twice: next to a whole number for a power of 2, not always on it.
    """
    return log(_convert.floating("log2", x)) / math.log(2)


def log10(x: TensorLike, /) -> Tensor:
    """Return the logarithm to the base 10, ``log x / log 10``; rounded as ``log2``."""
    return log(_convert.floating("log10", x)) / math.log(10)


# --- the error function ----------------------------------------------------------

ERF = Kernel("Erf(x)", out=same, op="erf")


def erf(x: TensorLike, /) -> Tensor:
    """Return ``2/√π · ∫ e^(-t²) dt`` from 0 to ``x``, between -1 and 1."""
    return _convert.floating_unary(ERF, x, "f")


# Minimax polynomials, highest power first: erf(x)/x - 1 in x² for |x| < 1, and beyond
# log(1 - erf x) in x, up to where erf rounds to 1; erf is exact to 1e-9 or 1e-17.
_INNER32 = (
    *(7.889119072e-5, -8.020841518e-4, 5.189535425e-3, -2.685444468e-2),
    *(1.128360018e-1, -3.761262714e-1, 1.283791659e-1),
)
_OUTER32 = (
    *(1.855712965e-4, -2.939580992e-3, 2.180521428e-2, -1.030371540e-1),
    *(-6.382259214e-1, -1.127039891, -3.537546911e-4),
)
_INNER64 = (
    *(-7.801188874097751e-10, 1.3722976265924504e-08, -1.6209175911748696e-07),
    *(1.6447517677871873e-06, -1.4924744663335489e-05, 0.00012055295320494294),
    *(-0.0008548325989696758, 0.005223977607423468, -0.02686617064327622),
    *(0.11283791670945253, -0.3761263890318355, 0.12837916709551256),
)
_OUTER64 = (
    *(-4.8653036146992094e-12, 2.0204202447143395e-10, -3.890150708232215e-09),
    *(4.5934715054282496e-08, -3.6957674109698616e-07, 2.1148618123443585e-06),
    *(-8.579036799493762e-06, 2.253368148755925e-05, -1.9524830219078924e-05),
    *(-0.00013655225745193793, 0.0007730402077688685, -0.001918942294676361),
    *(0.0004135336009249529, 0.018988044025058142, -0.10270229076741853),
    *(-0.6366440547765997, -1.128373991776822, -5.132353128429367e-07),
)


def _polynomial(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    y = x * coefficients[0]
    for c in coefficients[1:-1]:
        y = (y + c) * x
    return y + coefficients[-1]


@decomposition(ERF)
def _(x: Tensor) -> Tensor:
    fine = x.dtype.itemsize == 8
    inner, outer = (_INNER64, _OUTER64) if fine else (_INNER32, _OUTER32)
    a = abs(x)
    far = 1 - run(EXP, _polynomial(outer, binary.minimum(a, 6 if fine else 4)))
    near = x + x * _polynomial(inner, x * x)
    return compare.where(a < 1, near, odd(x, far))


gradients(ERF, x=lambda dy, x: dy * (run(EXP, -(x * x)) * (2 / math.sqrt(math.pi))))
