"""The logarithm of the gamma function, and the incomplete gamma function.

The incomplete gamma function has two arguments, the shape ``a`` and the limit ``x``.
Three formulas cover them: a series for small ``x``, a continued fraction for large
``x``, and an expansion in powers of ``1 / a`` for large ``a``. Each has a fixed number
of terms, computed for all elements; ``where`` selects among the results. Elements that
another formula covers are replaced by harmless ones first, so that their gradients are
not NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import plugrad as pg
from plugrad import Tensor

from ..core.variables import floating, promoted

HALVES = ("float16", "bfloat16")
EXPANSION_MIN_SHAPE = 10.0  # from this shape on, the expansion is used
SERIES_TERMS = 40
FRACTION_TERMS = 24
# The coefficients c[k][n] of eta^n / a^k in the expansion: N. M. Temme, "The Asymptotic
# Expansion of the Incomplete Gamma Functions", 1979; NIST DLMF, 8.12(iii).
EXPANSION = (
    (
        -0.3333333333333333,
        0.08333333333333333,
        -0.014814814814814815,
        0.0011574074074074073,
        0.0003527336860670194,
        -0.0001787551440329218,
        3.919263178522438e-05,
        -2.185448511e-06,
    ),
    (
        -0.001851851851851852,
        -0.003472222222222222,
        0.0026455026455026454,
        -0.0009902263374485596,
        0.0002057613168724,
        -4.01877572e-07,
    ),
    (
        0.004133597883597883,
        -0.0026813271604938273,
        0.0007716049382716049,
        2.00938786e-06,
    ),
    (0.0006494341563786008, 0.00022947209362139917),
)


def lgamma(x: Any) -> Tensor:
    """Return the logarithm of the absolute value of the gamma function."""
    return pg.lgamma(floating(x))


def gammainc(x1: Any, x2: Any) -> Tensor:
    """Return the regularized lower incomplete gamma function.

    The errors are at most about 1e-8, or a few units of rounding in float32.
    """
    a, x = promoted(x1, x2, to=(float,))
    dtype: str = a.dtype.name
    if dtype in HALVES:
        a, x = pg.astype(a, "float32"), pg.astype(x, "float32")
    a, x = pg.broadcast_arrays(a, x)
    is_large = a >= EXPANSION_MIN_SHAPE
    is_near = x < a + 1
    y = pg.where(is_near, _series(a, x), 1 - _fraction(a, x))
    y = pg.where(is_large, _expansion(a, x), y)
    y = pg.where((x == 0) | (a == math.inf), pg.zeros_like(y), y)
    y = pg.where(x == math.inf, pg.ones_like(y), y)
    has_value = (a >= 0) & (x >= 0) & (pg.maximum(a, x) > 0)
    has_value = has_value & (pg.minimum(a, x) < math.inf)
    y = pg.where(has_value, y, math.nan)
    return pg.astype(y, dtype) if dtype in HALVES else y


def _only(condition: Tensor, x: Tensor, other: float) -> Tensor:
    """Return ``x`` where the condition holds, and a harmless number elsewhere."""
    return pg.where(condition, x, pg.full_like(x, other))


def _series(a: Tensor, x: Tensor) -> Tensor:
    """Return ``x^a e^-x / Γ(a+1) · Σ x^n / ((a+1)···(a+n))`` for ``x < a + 1``."""
    is_covered = (a >= 0) & (a < EXPANSION_MIN_SHAPE) & (x > 0) & (x < a + 1)
    a = _only(is_covered, a, 1.0)
    x = _only(is_covered, x, 1.0)
    total = pg.ones_like(x)
    for n in range(SERIES_TERMS, 0, -1):
        total = 1 + total * x / (a + n)
    return pg.exp(a * pg.log(x) - x - pg.lgamma(a + 1)) * total


def _fraction(a: Tensor, x: Tensor) -> Tensor:
    """Return the upper function, ``x^a e^-x / Γ(a)`` times a continued fraction.

    The fraction is ``1 / (x+1-a - 1(1-a) / (x+3-a - 2(2-a) / (x+5-a - ···)))``.
    """
    is_covered = (a > 0) & (a < EXPANSION_MIN_SHAPE) & (x >= a + 1) & (x < math.inf)
    a_safe = _only(is_covered, a, 1.0)
    x = _only(is_covered, x, 2.0)
    rest = pg.zeros_like(x)
    for n in range(FRACTION_TERMS, 0, -1):
        rest = n * (n - a_safe) / (x + (2 * n + 1) - a_safe - rest)
    factor = pg.exp(a_safe * pg.log(x) - x - pg.lgamma(a_safe))
    upper = factor / (x + 1 - a_safe - rest)
    return pg.where(a == 0, pg.zeros_like(upper), upper)


def _expansion(a: Tensor, x: Tensor) -> Tensor:
    """Return the lower function for large ``a``: a normal distribution, corrected.

    With ``m = x / a - 1`` and ``eta² / 2 = m - log(1 + m)``, it is
    ``erfc(-eta √(a/2)) / 2 - e^(-a eta² / 2) / √(2πa) · Σ c[k][n] eta^n / a^k``.
    """
    is_covered = (a >= EXPANSION_MIN_SHAPE) & (a < math.inf) & (x > 0) & (x < math.inf)
    a = _only(is_covered, a, EXPANSION_MIN_SHAPE)
    x = _only(is_covered, x, EXPANSION_MIN_SHAPE)
    eta = _deviation((x - a) / a)
    near = pg.clip(eta, -2.0, 2.0)
    total = _polynomial([_polynomial(row, near) for row in EXPANSION], 1 / a)
    density = pg.exp(-0.5 * a * pg.square(eta)) * pg.rsqrt(2 * math.pi * a)
    return 0.5 * pg.erfc(-eta * pg.sqrt(0.5 * a)) - density * total


def _deviation(m: Tensor) -> Tensor:
    """Return ``√(2 (m - log(1 + m)))`` with the sign of ``m``."""
    is_small = pg.abs(m) < 0.1
    little = _only(is_small, m, 0.0)
    other = pg.where(is_small, pg.ones_like(m), m)
    series = _polynomial([2 / (n + 2) * (-1) ** n for n in range(10)], little)
    ratio = 2 * (other - pg.log1p(other)) / pg.square(other)
    return m * pg.sqrt(pg.where(is_small, series, ratio))


def _polynomial(coefficients: Sequence[Any], x: Tensor) -> Any:
    """Return ``Σ coefficients[n] · x^n``."""
    total = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = coefficient + total * x
    return total
