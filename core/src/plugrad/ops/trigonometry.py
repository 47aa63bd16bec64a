"""Angles and hyperbolic functions, element by element.

Kernels: ``Acos Acosh Asin Asinh Atan Atanh Cos Cosh Sin Sinh Tan Tanh``. All are
floating: integers and bool become float32. Complex numbers have them too, in C's
branches; where a backend does not implement it, there is none of the inverse ones.

Map: angles, in radians; hyperbolic functions.
"""

from __future__ import annotations

import math

from plugrad._engine import run
from plugrad._kernel import Kernel, decomposition, gradients, same
from plugrad._tensor import Tensor, TensorLike

from . import _convert, binary, compare, unary

# --- angles ----------------------------------------------------------------------

SIN = Kernel("Sin", "x", out=same, op="sin")


def sin(x: TensorLike, /) -> Tensor:
    """Return the sine of ``x``, in radians and as large as you like."""
    return _convert.floating_unary(SIN, x)


COS = Kernel("Cos", "x", out=same, op="cos")


def cos(x: TensorLike, /) -> Tensor:
    """Return the cosine of ``x``, in radians and as large as you like."""
    return _convert.floating_unary(COS, x)


gradients(SIN, x=lambda dy, x: unary.times(dy, run(COS, x)))
gradients(COS, x=lambda dy, x: unary.times(-dy, run(SIN, x)))


TAN = Kernel("Tan", "x", out=same, op="tan")


def tan(x: TensorLike, /) -> Tensor:
    """Return the tangent of ``x``, in radians, ``sin x / cos x``."""
    return _convert.floating_unary(TAN, x)


@decomposition(TAN)
def _(x: Tensor) -> Tensor:
    if x.dtype.kind == "c":  # sin and cos overflow
        return run(TANH, x * 1j) * -1j
    return run(SIN, x) / run(COS, x)


gradients(TAN, x=lambda dy, y: unary.times(dy, y * y + 1))


ASIN = Kernel("Asin", "x", out=same, op="asin")


def asin(x: TensorLike, /) -> Tensor:
    """Return the angle in [-π/2, π/2] whose sine is ``x``; NaN where |x| > 1."""
    return _convert.floating_unary(ASIN, x)


@decomposition(ASIN)
def _(x: Tensor) -> Tensor:
    return binary.atan2(x, unary.sqrt((1 - x) * (1 + x)))


gradients(ASIN, x=lambda dy, x: unary.times(dy, unary.rsqrt((1 - x) * (1 + x))))


ACOS = Kernel("Acos", "x", out=same, op="acos")


def acos(x: TensorLike, /) -> Tensor:
    """Return the angle in [0, π] whose cosine is ``x``; NaN where |x| > 1."""
    return _convert.floating_unary(ACOS, x)


@decomposition(ACOS)
def _(x: Tensor) -> Tensor:
    return binary.atan2(unary.sqrt((1 - x) * (1 + x)), x)


gradients(ACOS, x=lambda dy, x: unary.times(-dy, unary.rsqrt((1 - x) * (1 + x))))


ATAN = Kernel("Atan", "x", out=same, op="atan")


def atan(x: TensorLike, /) -> Tensor:
    """Return the angle in [-π/2, π/2] whose tangent is ``x``."""
    return _convert.floating_unary(ATAN, x)


@decomposition(ATAN)
def _(x: Tensor) -> Tensor:
    return binary.atan2(x, 1)


gradients(ATAN, x=lambda dy, x: unary.over(dy, x * x + 1))


# --- hyperbolic functions --------------------------------------------------------


def _far(x: Tensor) -> float:
    """Return a number whose square is finite, and beside which 1 is nothing."""
    return 1e9 if x.dtype.itemsize > 2 else 200.0


def _half_of_exp(x: Tensor) -> Tensor:
    """Return ``e^x / 2``, which overflows no earlier than cosh and sinh do.

    355/512 is next to log 2, and so short that subtracting it from large numbers is
    exact.
    """
    return run(unary.EXP, x - 355 / 512) * (math.exp(355 / 512) / 2)


SINH = Kernel("Sinh", "x", out=same, op="sinh")


def sinh(x: TensorLike, /) -> Tensor:
    """Return the hyperbolic sine, ``(e^x - e^-x) / 2``."""
    return _convert.floating_unary(SINH, x)


@decomposition(SINH)
def _(x: Tensor) -> Tensor:
    small = (run(unary.EXPM1, x) - run(unary.EXPM1, -x)) * 0.5
    if x.dtype.kind == "c":
        return small
    size = unary.abs(x)
    half = _half_of_exp(size)
    return compare.where(size < 1, small, unary.odd(x, half - 0.25 / half))


COSH = Kernel("Cosh", "x", out=same, op="cosh")


def cosh(x: TensorLike, /) -> Tensor:
    """Return the hyperbolic cosine, ``(e^x + e^-x) / 2``."""
    return _convert.floating_unary(COSH, x)


@decomposition(COSH)
def _(x: Tensor) -> Tensor:
    half = _half_of_exp(x if x.dtype.kind == "c" else unary.abs(x))
    return half + 0.25 / half


gradients(SINH, x=lambda dy, x: unary.times(dy, run(COSH, x)))
gradients(COSH, x=lambda dy, x: unary.times(dy, run(SINH, x)))


TANH = Kernel("Tanh", "x", out=same, op="tanh")


def tanh(x: TensorLike, /) -> Tensor:
    """Return the hyperbolic tangent, ``(e^x - e^-x) / (e^x + e^-x)``."""
    return _convert.floating_unary(TANH, x)


gradients(TANH, x=lambda dy, y: unary.times(dy, 1 - y * y))


ASINH = Kernel("Asinh", "x", out=same, op="asinh")


def asinh(x: TensorLike, /) -> Tensor:
    """Return the number whose hyperbolic sine is ``x``, ``log(x + √(x² + 1))``."""
    return _convert.floating_unary(ASINH, x)


@decomposition(ASINH)
def _(x: Tensor) -> Tensor:
    a = unary.abs(x)
    near = run(unary.LOG1P, a + a * a / (1 + unary.sqrt(a * a + 1)))
    return unary.odd(
        x, compare.where(a < _far(x), near, run(unary.LOG, a) + math.log(2))
    )


gradients(ASINH, x=lambda dy, y: unary.over(dy, run(COSH, y)))


ACOSH = Kernel("Acosh", "x", out=same, op="acosh")


def acosh(x: TensorLike, /) -> Tensor:
    """Return the number ≥ 0 whose hyperbolic cosine is ``x``; NaN where x < 1."""
    return _convert.floating_unary(ACOSH, x)


@decomposition(ACOSH)
def _(x: Tensor) -> Tensor:
    t = x - 1
    near = run(unary.LOG1P, t + unary.sqrt(t) * unary.sqrt(t + 2))
    return compare.where(x > _far(x), run(unary.LOG, x) + math.log(2), near)


gradients(ACOSH, x=lambda dy, y: unary.over(dy, run(SINH, y)))


ATANH = Kernel("Atanh", "x", out=same, op="atanh")


def atanh(x: TensorLike, /) -> Tensor:
    """Return the number whose hyperbolic tangent is ``x``; ±inf for ±1, NaN beyond."""
    return _convert.floating_unary(ATANH, x)


@decomposition(ATANH)
def _(x: Tensor) -> Tensor:
    a = unary.abs(x)
    return unary.odd(x, run(unary.LOG1P, 2 * a / (1 - a)) * 0.5)


gradients(ATANH, x=lambda dy, x: unary.over(dy, (1 - x) * (1 + x)))
