"""Angles and hyperbolic functions, element by element.

Kernels: ``Acos Acosh Asin Asinh Atan Atanh Cos Cosh Sin Sinh Tan Tanh``. Integers and
bool become float32. For complex numbers, the branch cuts are those of C; the sign of a
zero selects the side of a cut.

Contents: inverse functions of complex numbers; angles, in radians; hyperbolic
functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from plugrad._src.engine.dispatch import run
from plugrad._src.ops.basis import _convert, binary, compare, complexes, creation, unary
from plugrad._src.ops.basis.complexes import Pair
from plugrad._src.ops.custom import custom_grad
from plugrad._src.registry.contract import (
    Kernel,
    decomposition,
    gradients,
    one_shape,
    same,
)
from plugrad._src.tensor.dtypes import dtype_kind, floating_info
from plugrad._src.tensor.tensor import Tensor, TensorLike

from .signs import SIGN_BIT

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cos",
    "cosh",
    "sin",
    "sinh",
    "tan",
    "tanh",
]

# Contracts with one input and an output with the same spec.
_elementwise = partial(Kernel, out=same)

# --- inverse functions of complex numbers, in terms of their parts ---------------

# W. Kahan, "Branch Cuts for Complex Elementary Functions or Much Ado About Nothing's
# Sign Bit", 1987. The roots select the side of a cut, and no sum of products cancels.

_Rule = Callable[[Tensor, Tensor, Tensor], Pair]


def _decompose_inverse(
    kernel: Kernel, rule: _Rule, real: Callable[[Tensor], Tensor]
) -> None:
    """Register a decomposition: ``rule`` for complex numbers, ``real`` for real ones.

    ``rule`` is called with the results of ``_finite_parts``, and returns both parts of
    the result.
    """

    @decomposition(kernel)
    def _(x: Tensor) -> Tensor:
        if dtype_kind(x.dtype) == "c":
            return run(complexes.COMPLEX, *rule(*_finite_parts(x)))
        return real(x)


def _root(x: Tensor, y: Tensor) -> Pair:
    return complexes.parts(run(unary.SQRT, run(complexes.COMPLEX, x, y)))


def _finite_parts(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return finite stand-ins for both parts, and inf where a part is infinite, else 1.

    An infinite part becomes a huge number, and a finite part next to it becomes 0, so
    that angles are correct. A result that grows with both parts is infinite where the
    third value is infinite, even if the other part is NaN.
    """
    x, y = complexes.parts(z)
    one = creation.ones_like(x)
    growth = compare.where(unary.isinf(x) | unary.isinf(y), math.inf, one)

    def near(v: Tensor) -> Tensor:
        return compare.where(unary.isinf(v), unary.sign(v) * _huge(v), v / growth)

    return near(x), near(y), growth


def _huge(x: Tensor) -> float:
    return float(floating_info(x.dtype).max) / 8


def _where_zero(x: Tensor, exact: float | Tensor, y: Tensor) -> Tensor:
    """Return ``exact`` where ``x`` is 0, even if the other part is NaN, else ``y``."""
    return compare.where(compare.equal(x, 0), exact, y)


def _asinh_or_infinite(x: Tensor, growth: Tensor, like: Tensor) -> Tensor:
    """Return ``asinh(x)``; where a part is infinite, inf with the sign of ``like``."""
    return compare.where(growth > 1, _with_sign(growth, like), run(ASINH, x))


def _asin(x: Tensor, y: Tensor, growth: Tensor) -> Pair:
    a, b = _root(1 - x, -y)
    c, d = _root(1 + x, y)
    real = run(binary.ATAN2, x, a * c - b * d)
    return _where_zero(x, x, real), _asinh_or_infinite(a * d - b * c, growth, y)


def _acos(x: Tensor, y: Tensor, growth: Tensor) -> Pair:
    a, b = _root(1 - x, -y)
    c, d = _root(1 + x, y)
    real = run(binary.ATAN2, a, c) * 2
    return _where_zero(x, math.pi / 2, real), _asinh_or_infinite(
        b * c - a * d, growth, -y
    )


def _acosh(x: Tensor, y: Tensor, growth: Tensor) -> Pair:  # ±i acos(z)
    u, v = _acos(x, y, growth)
    return unary.abs(v), _with_sign(u, y)


def _atanh(x: Tensor, y: Tensor, growth: Tensor) -> Pair:
    """Compute ``log((1 + z) / (1 - z)) / 2`` for positive parts, then set the signs."""
    a = unary.abs(x)
    b = unary.abs(y)
    away = binary.hypot(1 - a, b)  # the distance from the pole
    near = run(unary.LOG, a) * 0.25 + (math.log(2) - run(unary.LOG, away)) * 0.5
    real = run(unary.LOG1P, a / away / away * 4) * 0.25
    real = compare.where(away < float(floating_info(x.dtype).eps) ** 0.5, near, real)
    real = compare.where(growth > 1, 0, _where_zero(x, 0, real))
    imag = run(binary.ATAN2, b * 2, (1 - a) * (1 + a) - b * b) * 0.5
    imag = compare.where(b >= _huge(x), math.pi / 2, imag)
    return _with_sign(real, x), _with_sign(imag, y)


def _asinh(x: Tensor, y: Tensor, growth: Tensor) -> Pair:  # i asin(-iz)
    u, v = _asin(y, -x, growth)
    return -v, u


def _atan(x: Tensor, y: Tensor, growth: Tensor) -> Pair:  # -i atanh(iz)
    u, v = _atanh(-y, x, growth)
    return v, -u


def _with_sign(size: Tensor, x: Tensor) -> Tensor:
    """Return ``size`` with the sign bit of ``x``, which may be a zero."""
    return compare.where(run(SIGN_BIT, x), -size, size)


def _times_i(z: Tensor) -> Tensor:
    """Return ``i·z``; a complex product would turn infinities into NaN."""
    x, y = complexes.parts(z)
    return run(complexes.COMPLEX, -y, x)


def _times_minus_i(z: Tensor) -> Tensor:
    """Return ``-i·z``."""
    x, y = complexes.parts(z)
    return run(complexes.COMPLEX, y, -x)


# --- angles ----------------------------------------------------------------------

SIN = _elementwise(
    "Sin(x: inexact)",
    op="sin",
    doc="""The sine of ``x`` in radians, with exact reduction of large arguments.

    NaN for ±inf. Within 3 ulp in float32.""",
)


def sin(x: TensorLike, /) -> Tensor:
    """Return the sine of ``x``, which is in radians; NaN for ±inf.

    Large arguments are reduced exactly.

    Args:
        x: A tensor of numbers.

    Returns:
        A tensor with the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.sin([0.0, 1.0])
        Tensor([0.    , 0.8415], dtype=float32, backend='cpu')

    """
    return _convert.floating_unary(SIN, x)


COS = _elementwise(
    "Cos(x: inexact)",
    op="cos",
    doc="""The cosine of ``x`` in radians, with exact reduction of large arguments.

    NaN for ±inf. Within 3 ulp in float32.""",
)


def cos(x: TensorLike, /) -> Tensor:
    """Return the cosine of ``x``, which is in radians; NaN for ±inf.

    Large arguments are reduced exactly.

    Args:
        x: A tensor of numbers.

    Returns:
        A tensor with the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.cos([0.0, 1.0])
        Tensor([1.    , 0.5403], dtype=float32, backend='cpu')

    """
    return _convert.floating_unary(COS, x)


gradients(SIN, x=lambda dy, x: unary.chain(dy, run(COS, x)))
gradients(COS, x=lambda dy, x: unary.chain(-dy, run(SIN, x)))


TAN = _elementwise(
    "Tan(x: inexact)",
    op="tan",
    doc="""The tangent of ``x`` in radians, with exact reduction of large arguments.

    NaN for ±inf, and -0.0 for -0.0. Within 3 ulp in float32; within 13 ulp on a backend
    that computes it from sine and cosine, each within 3 ulp.""",
)


def tan(x: TensorLike, /) -> Tensor:
    """Return the tangent of ``x`` in radians, ``sin x / cos x``; NaN for ±inf.

    Args:
        x: A tensor of numbers.

    Returns:
        A tensor with the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.tan([0.0, 1.0])
        Tensor([0.    , 1.5574], dtype=float32, backend='cpu')

    """
    return _convert.floating_unary(TAN, x)


@decomposition(TAN)
def _(x: Tensor) -> Tensor:
    if dtype_kind(x.dtype) == "c":  # sin and cos may overflow
        return _times_minus_i(run(TANH, _times_i(x)))
    return run(SIN, x) / run(COS, x)


gradients(TAN, x=lambda dy, y: unary.chain(dy, y * y + 1))


ASIN = _elementwise(
    "Asin(x: inexact)",
    op="asin",
    doc="""The angle in [-π/2, π/2] whose sine is ``x``; NaN where ``|x| > 1``.

    It is -0.0 for -0.0. Complex numbers have the branch cuts of C: the real axis beyond
    ±1, where the sign of a zero ``Im x`` selects the side. Within 4 ulp in
    float32.""",
)


def asin(x: TensorLike, /) -> Tensor:
    """Return the angle in [-π/2, π/2] whose sine is ``x``; NaN where ``|x| > 1``.

    For complex numbers, the branch cuts are those of C: the real axis beyond ±1.

    Args:
        x: A tensor of numbers.

    Returns:
        A tensor with the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.asin([0.0, 0.5, 1.0])
        Tensor([0.    , 0.5236, 1.5708], dtype=float32, backend='cpu')

    """
    return _convert.floating_unary(ASIN, x)


_decompose_inverse(
    ASIN, _asin, lambda x: binary.atan2(x, unary.sqrt((1 - x) * (1 + x)))
)


def _one_less_square(x: Tensor) -> Tensor:
    """Return ``1 - x²``, accurate near ±1; its derivative is accurate near 0."""
    product = (1 - x) * (1 + x)
    if dtype_kind(x.dtype) == "c":
        return product
    return compare.where(unary.abs(x) < 0.5, 1 - x * x, product)


gradients(ASIN, x=lambda dy, x: unary.chain(dy, unary.rsqrt(_one_less_square(x))))


ACOS = _elementwise(
    "Acos(x: inexact)",
    op="acos",
    doc="""The angle in [0, π] whose cosine is ``x``; NaN where ``|x| > 1``.

    Complex numbers have the branch cuts of C: the real axis beyond ±1, where the sign
    of a zero ``Im x`` selects the side. Within 3 ulp in float32.""",
)


def acos(x: TensorLike, /) -> Tensor:
    """Return the angle in [0, π] whose cosine is ``x``; NaN where ``|x| > 1``.

    For complex numbers, the branch cuts are those of C: the real axis beyond ±1.

    Args:
        x: A tensor of numbers.

    Returns:
        A tensor with the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.acos([-1.0, 0.5, 1.0])
        Tensor([3.1416, 1.0472, 0.    ], dtype=float32, backend='cpu')

    """
    return _convert.floating_unary(ACOS, x)


_decompose_inverse(
    ACOS, _acos, lambda x: binary.atan2(unary.sqrt((1 - x) * (1 + x)), x)
)
gradients(ACOS, x=lambda dy, x: unary.chain(-dy, unary.rsqrt(_one_less_square(x))))


ATAN = _elementwise(
    "Atan(x: inexact)",
    op="atan",
    doc="""The angle in [-π/2, π/2] whose tangent is ``x``; ±π/2 for ±inf.

    It is -0.0 for -0.0. Complex numbers have the branch cuts of C: the imaginary axis
    beyond ±i, where the sign of a zero ``Re x`` selects the side. Within 3 ulp in
    float32.""",
)


def atan(x: TensorLike, /) -> Tensor:
    """Return the angle in [-π/2, π/2] whose tangent is ``x``; ±π/2 for ±inf.

    For complex numbers, the branch cuts are those of C: the imaginary axis beyond ±i.

    Args:
        x: A tensor of numbers.

    Returns:
        A tensor with the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.atan([0.0, 1.0, np.inf])
        Tensor([0.    , 0.7854, 1.5708], dtype=float32, backend='cpu')

    """
    return _convert.floating_unary(ATAN, x)


_decompose_inverse(ATAN, _atan, lambda x: binary.atan2(x, 1))


def _root_of_one_more(x: Tensor) -> Tensor:
    """Return ``√(x² + 1)`` for real numbers, without overflow."""
    a = unary.abs(x)
    near = binary.minimum(a, _far_threshold(x))
    return binary.maximum(run(unary.SQRT, near * near + 1), a)


def _atan_gradient(dy: Tensor, x: Tensor) -> Tensor:
    if dtype_kind(x.dtype) == "c":
        return unary.chain_inverse(dy, x * x + 1)
    return _by_one_more_square(dy, x)


@custom_grad
def _by_one_more_square(dy: Tensor, x: Tensor) -> Any:
    """Return ``dy / (x² + 1)``; the gradient does not square the divisor."""
    divisor = x * x + 1
    y = dy / divisor
    return y, lambda ddx: (ddx / divisor, ddx * (y * x / divisor * -2))


gradients(ATAN, x=_atan_gradient)


# --- hyperbolic functions --------------------------------------------------------


def _far_threshold(x: Tensor) -> float:
    """Return a number whose square is finite, yet unchanged by adding 1."""
    return 1e9 if x.dtype.itemsize > 2 else 200.0


def _half_of_exp(x: Tensor) -> Tensor:
    """Return ``e^x / 2``, which overflows no earlier than cosh and sinh do.

    355/512 is close to log 2, and has so few significant bits that subtracting it from
    a large number is exact.
    """
    return run(unary.EXP, x - 355 / 512) * (math.exp(355 / 512) / 2)


SINH = _elementwise(
    "Sinh(x: inexact)",
    op="sinh",
    doc="""``(e^x - e^-x) / 2``, without cancellation near 0; -0.0 for -0.0.

    ±inf for ±inf. It is finite for some ``x`` where ``e^x`` overflows. Within 3 ulp in
    float32; within 10 ulp on a backend that computes it from ``Expm1`` and ``Exp``,
    each within 3 ulp.""",
)


def sinh(x: TensorLike, /) -> Tensor:
    """Return the hyperbolic sine, ``(e^x - e^-x) / 2``, also accurate near 0.

    Args:
        x: A tensor of numbers.

    Returns:
        A tensor with the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.sinh([0.0, 1.0])
        Tensor([0.    , 1.1752], dtype=float32, backend='cpu')

    """
    return _convert.floating_unary(SINH, x)


@decomposition(SINH)
def _(x: Tensor) -> Tensor:
    if dtype_kind(x.dtype) == "c":
        return _times_minus_i(run(SIN, _times_i(x)))
    small = (run(unary.EXPM1, x) - run(unary.EXPM1, -x)) * 0.5
    size = unary.abs(x)
    half = _half_of_exp(size)
    return compare.where(size < 1, small, unary.odd_extension(x, half - 0.25 / half))


COSH = _elementwise(
    "Cosh(x: inexact)",
    op="cosh",
    doc="""``(e^x + e^-x) / 2``.

    inf for ±inf. It is finite for some ``x`` where ``e^x`` overflows. Within 3 ulp in
    float32.""",
)


def cosh(x: TensorLike, /) -> Tensor:
    """Return the hyperbolic cosine, ``(e^x + e^-x) / 2``.

    Args:
        x: A tensor of numbers.

    Returns:
        A tensor with the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.cosh([0.0, 1.0])
        Tensor([1.    , 1.5431], dtype=float32, backend='cpu')

    """
    return _convert.floating_unary(COSH, x)


@decomposition(COSH)
def _(x: Tensor) -> Tensor:
    if dtype_kind(x.dtype) == "c":
        return run(COS, _times_i(x))
    half = _half_of_exp(unary.abs(x))
    return half + 0.25 / half


gradients(SINH, x=lambda dy, x: unary.chain(dy, run(COSH, x)))
gradients(COSH, x=lambda dy, x: unary.chain(dy, run(SINH, x)))


TANH = _elementwise(
    "Tanh(x: inexact)",
    op="tanh",
    doc="""``(e^x - e^-x) / (e^x + e^-x)``; ±1 for ±inf, and -0.0 for -0.0.

    For a complex number with an infinite real part, ±1, with a zero imaginary part that
    has the sign of ``Im x``. Within 3 ulp in float32.""",
)


def tanh(x: TensorLike, /) -> Tensor:
    """Return the hyperbolic tangent, ``(e^x - e^-x) / (e^x + e^-x)``; ±1 for ±inf.

    Args:
        x: A tensor of numbers.

    Returns:
        A tensor with the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.tanh([-np.inf, 0.0, 1.0])
        Tensor([-1.    ,  0.    ,  0.7616], dtype=float32, backend='cpu')

    """
    return _convert.floating_unary(TANH, x)


TANH_GRAD = Kernel(
    "TanhGrad(dy: inexact, x: dy) -> dx",
    out=one_shape,
    doc="""``dy · conj(1 / cosh(x)²)``; ``x`` is the input of ``Tanh``.

    Computed from the output instead, it would be 0 where the output rounds to 1. The
    shapes are equal.""",
)


@decomposition(TANH_GRAD)
def _(dy: Tensor, x: Tensor) -> Tensor:
    """Return ``dy · 4u / (1 + u)²`` with ``u = e^(-2|x|)``, which does not overflow."""
    if dtype_kind(x.dtype) == "c":
        u = run(unary.EXP, x * compare.where(complexes.real_part(x) < 0, 2.0, -2.0))
        return unary.chain(dy, u * 4 / (1 + u) / (1 + u))
    u = run(unary.EXP, unary.abs(x) * -2)
    r = 1 / (1 + u)
    return dy * (u * 4 * r * r)


def _slope_of_dy(ddx: Tensor, x: Tensor) -> Tensor:
    y = run(TANH_GRAD, complexes.conjugate(ddx), x)
    return complexes.conjugate(y)


def _slope_of_x(ddx: Tensor, dy: Tensor, x: Tensor) -> Tensor:
    y = run(TANH_GRAD, complexes.conjugate(ddx) * dy, x)
    return y * complexes.conjugate(run(TANH, x)) * -2


gradients(TANH_GRAD, dy=_slope_of_dy, x=_slope_of_x)
gradients(TANH, x=lambda dy, x: run(TANH_GRAD, dy, x))


ASINH = _elementwise(
    "Asinh(x: inexact)",
    op="asinh",
    doc="""``log(x + √(x² + 1))``, without overflow; ±inf for ±inf, and -0.0 for -0.0.

    Complex numbers have the branch cuts of C, as in ``Atan``. Within 3 ulp in
    float32.""",
)


def asinh(x: TensorLike, /) -> Tensor:
    """Return the number whose hyperbolic sine is ``x``, ``log(x + √(x² + 1))``.

    The square does not overflow, and the result for ±inf is ±inf. For complex numbers,
    the branch cuts are those of C: the imaginary axis beyond ±i.

    Args:
        x: A tensor of numbers.

    Returns:
        A tensor with the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.asinh([0.0, 1.0])
        Tensor([0.    , 0.8814], dtype=float32, backend='cpu')

    """
    return _convert.floating_unary(ASINH, x)


def _real_asinh(x: Tensor) -> Tensor:
    a = unary.abs(x)
    near = run(unary.LOG1P, a + a * a / (1 + unary.sqrt(a * a + 1)))
    far = run(unary.LOG, a) + math.log(2)
    return unary.odd_extension(x, compare.where(a < _far_threshold(x), near, far))


_decompose_inverse(ASINH, _asinh, _real_asinh)


def _asinh_gradient(dy: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Use ``√(x² + 1)``: ``cosh(y)`` would magnify the rounding error of ``y``."""
    if dtype_kind(x.dtype) == "c":
        return unary.chain_inverse(dy, run(COSH, y))
    return dy / _root_of_one_more(x)


gradients(ASINH, x=_asinh_gradient)


ACOSH = _elementwise(
    "Acosh(x: inexact)",
    op="acosh",
    doc="""The number ≥ 0 whose hyperbolic cosine is ``x``; NaN where ``x < 1``.

    inf for inf. Complex numbers have the branch cut of C: the real axis below 1, where
    the sign of a zero ``Im x`` selects the side. Within 3 ulp in float32.""",
)


def acosh(x: TensorLike, /) -> Tensor:
    """Return the number ≥ 0 whose hyperbolic cosine is ``x``; NaN where ``x < 1``.

    For complex numbers, the branch cut is that of C: the real axis below 1.

    Args:
        x: A tensor of numbers.

    Returns:
        A tensor with the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.acosh([1.0, 2.0])
        Tensor([0.   , 1.317], dtype=float32, backend='cpu')

    """
    return _convert.floating_unary(ACOSH, x)


def _real_acosh(x: Tensor) -> Tensor:
    t = x - 1
    near = run(unary.LOG1P, t + unary.sqrt(t) * unary.sqrt(t + 2))
    return compare.where(x > _far_threshold(x), run(unary.LOG, x) + math.log(2), near)


_decompose_inverse(ACOSH, _acosh, _real_acosh)


def _acosh_gradient(dy: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Use ``√(x² - 1)``: ``sinh(y)`` would magnify the rounding error of ``y``."""
    if dtype_kind(x.dtype) == "c":
        return unary.chain_inverse(dy, run(SINH, y))
    return dy * (unary.rsqrt(x - 1) * unary.rsqrt(x + 1))


gradients(ACOSH, x=_acosh_gradient)


ATANH = _elementwise(
    "Atanh(x: inexact)",
    op="atanh",
    doc="""``log((1 + x) / (1 - x)) / 2``; ±inf for ±1, NaN beyond, and -0.0 for -0.0.

    Complex numbers have the branch cuts of C: the real axis beyond ±1, where the sign
    of a zero ``Im x`` selects the side. Within 3 ulp in float32.""",
)


def atanh(x: TensorLike, /) -> Tensor:
    """Return the number whose hyperbolic tangent is ``x``; ±inf for ±1, NaN beyond.

    For complex numbers, the branch cuts are those of C: the real axis beyond ±1.

    Args:
        x: A tensor of numbers.

    Returns:
        A tensor with the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.atanh([0.0, 0.5, 1.0])
        Tensor([0.    , 0.5493,    inf], dtype=float32, backend='cpu')

    """
    return _convert.floating_unary(ATANH, x)


def _real_atanh(x: Tensor) -> Tensor:
    a = unary.abs(x)
    return unary.odd_extension(x, run(unary.LOG1P, 2 * a / (1 - a)) * 0.5)


_decompose_inverse(ATANH, _atanh, _real_atanh)
gradients(ATANH, x=lambda dy, x: unary.chain_inverse(dy, _one_less_square(x)))
