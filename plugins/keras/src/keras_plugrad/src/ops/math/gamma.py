"""The logarithm of the gamma function, and the incomplete gamma function."""

from __future__ import annotations

from typing import Any

import plugrad as pg
from plugrad import Tensor

from ..core.variables import floating, promoted


def lgamma(x: Any) -> Tensor:
    """Return the logarithm of the absolute value of the gamma function."""
    return pg.lgamma(floating(x))


def gammainc(x1: Any, x2: Any) -> Tensor:
    """Return the regularized lower incomplete gamma function."""
    return pg.gammainc(*promoted(x1, x2, to=(float,)))
