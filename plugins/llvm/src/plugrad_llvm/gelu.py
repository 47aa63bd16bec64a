"""``gelu``, its tanh approximation, and their gradients, as in ``mathematics.h``."""

from __future__ import annotations

from math import inf, nan

from .code import Vector
from .mathematics import (
    EXP2,
    ROUND_TO_INT_MAGIC,
    at_least,
    at_most,
    nma,
    polynomial,
    scaled,
)

NORMAL_LOG = [2.6231224295e-07, -9.0507733298e-07, -2.7475646248e-06]
NORMAL_LOG += [4.2929445601e-05, -0.00034956151806, 0.0023673548589]
NORMAL_LOG += [-0.014272205721, 0.082436132075, -0.5384362259]
NORMAL_LOG += [-2.5725913294]
NORMAL_TAIL = [4.9725125048e-05, 0.00029375129094, 0.00042517606594, -0.00054644774272]
NORMAL_TAIL += [-0.0026995525837, -0.0026764396986, 0.0070179187354, 0.024273364183]
NORMAL_TAIL += [-0.011017582148, -0.19278988017, 0.45977864495]
ROOT_HALF, DENSITY = 0.7071067811865476, 0.3989422804014327
TANH_SLOPE = 1.5957691216057308
GELU_LINE, GELU_LINE_REST = -2.3022079467773438, -2.51366981e-07
GELU_CUBE, GELU_CUBE_REST = -0.10294324159622192, 2.01619844e-09


def _scaled_normal(a: Vector) -> Vector:
    """Return e^(a²/2) times the normal cumulative distribution function at -a."""
    t = 1.0 / a.code.fma(a, ROOT_HALF, 1.25)
    return polynomial(nma(t, 2.5, 1.0), *NORMAL_TAIL) * t


def _times_gaussian(y: Vector, a: Vector) -> tuple[Vector, Vector]:
    """Return y e^(-a²/2) / 2^n, and a float whose last bits contain the integer n."""
    code = a.code
    high = a * a
    low = code.fma(a, a, -high)
    n = code.fma(high, -1.44269502 / 2, ROUND_TO_INT_MAGIC)
    f = code.fma(high, -1.44269502 / 2, ROUND_TO_INT_MAGIC - n)
    f = code.fma(low, -1.44269502 / 2, code.fma(high, -1.92596303e-8 / 2, f))
    return code.fma(y, f * polynomial(f, *EXP2[:-1]), y), n


def _gelu_far(x: Vector, nearby: Vector) -> Vector:
    code = x.code
    a = at_most(abs(x), 15.0)
    y, n = _times_gaussian(_scaled_normal(a) * -a, a)
    y = code.where(x < 0.0, scaled(y, n - ROUND_TO_INT_MAGIC), x)
    y = code.where(x.equal(-inf), nan, y)
    return code.where(x >= -4.0, nearby, y)


def _normal_near(a: Vector) -> Vector:
    """Return the normal cumulative distribution function at -a, for ``a`` up to 4."""
    code = a.code
    log = polynomial(a - 2.0, *NORMAL_LOG)
    high = a * a
    low = code.fma(a, a, -high)
    n = code.fma(high, -1.44269502 / 2, log) + ROUND_TO_INT_MAGIC
    f = code.fma(high, -1.44269502 / 2, ROUND_TO_INT_MAGIC - n)
    f = f + code.fma(low, -1.44269502 / 2, log)
    return (polynomial(f, *EXP2).bits() + (n.bits() << 23)).floats()


def gelu(x: Vector) -> Vector:
    """Return x times the normal cumulative distribution function at x."""
    code = x.code
    a = at_most(abs(x), 5.5)
    y = nma(a, _normal_near(a), at_least(x, 0.0))
    return code.unless(x >= -4.0, y, x, "gelu_far", _gelu_far)


def _slope_of(x: Vector, u: Vector) -> Vector:
    return x.code.where(x < 0.0, -u, u + 1.0)


def _slope_tail(a: Vector) -> tuple[Vector, Vector]:
    return _times_gaussian(a.code.fma(a, DENSITY, -_scaled_normal(a)), a)


def _gelu_slope_far(x: Vector, nearby: Vector) -> Vector:
    u, n = _slope_tail(at_most(abs(x), 15.0))
    y = _slope_of(x, scaled(u, n - ROUND_TO_INT_MAGIC))
    return x.code.where(abs(x) <= 12.5, nearby, y)


def gelu_grad(dy: Vector, x: Vector) -> Vector:
    """Return the gradient of ``gelu``."""
    a = abs(x)
    u, n = _slope_tail(a)
    y = _slope_of(x, (u.bits() + (n.bits() << 23)).floats())
    return dy * x.code.unless(a <= 12.5, y, x, "gelu_slope_far", _gelu_slope_far)


def _exp_gelu_tanh(x: Vector) -> Vector:
    """Return e^-|u| for u = √(8/π) (x + 0.044715 x³), and 0 below 2^-125."""
    code = x.code
    a = abs(x)
    square = a * a
    rest = code.fma(a, a, -square)
    factor = code.fma(square, GELU_CUBE, GELU_LINE)
    lost = code.fma(square, GELU_CUBE, GELU_LINE - factor)
    lost = code.fma(square, GELU_CUBE_REST, lost + GELU_LINE_REST)
    lost = code.fma(rest, GELU_CUBE, lost)
    u = a * factor
    small = code.fma(a, lost, code.fma(a, factor, -u))
    n = u + ROUND_TO_INT_MAGIC
    f = u - (n - ROUND_TO_INT_MAGIC) + small
    y = (polynomial(f, *EXP2).bits() + (n.bits() << 23)).floats()
    return code.where(u < -125.0, 0.0, y)


def gelu_tanh(x: Vector) -> Vector:
    """Return the approximation of ``gelu`` by the hyperbolic tangent."""
    e = _exp_gelu_tanh(x)
    r = 1.0 / (e + 1.0)
    return x * x.code.where(x < 0.0, e * r, r)


def gelu_tanh_grad(dy: Vector, x: Vector) -> Vector:
    """Return the gradient of ``gelu_tanh``."""
    code = x.code
    n = at_most(at_least(x, -11.0), 11.0)
    e = _exp_gelu_tanh(x)
    r = 1.0 / (e + 1.0)
    low = e * r
    slope = n * TANH_SLOPE * code.fma(n * n, 0.134145, 1.0)
    return dy * code.fma(slope * r, low, code.where(x < 0.0, low, r))
