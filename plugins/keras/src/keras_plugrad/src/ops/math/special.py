"""Error functions, distances, and logarithms of sums and determinants."""

from __future__ import annotations

from typing import Any

import plugrad as pg
from plugrad import Tensor

from ..core.variables import floating, promoted


def rsqrt(x: Any) -> Tensor:
    """Return ``1 / √x``."""
    return pg.rsqrt(floating(x))


def erf(x: Any) -> Tensor:
    """Return the error function."""
    return pg.erf(floating(x))


def erfc(x: Any) -> Tensor:
    """Return the complementary error function, ``1 - erf(x)``."""
    return pg.erfc(floating(x))


def erfinv(x: Any) -> Tensor:
    """Return the inverse of the error function."""
    return pg.erfinv(floating(x))


def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return the logarithm of the sum of exponentials."""
    return pg.logsumexp(floating(x), axis=axis, keepdims=bool(keepdims))


def logdet(x: Any) -> Tensor:
    """Return the logarithms of the determinants of positive definite matrices."""
    x = floating(x)
    if x.dtype.name in ("float16", "bfloat16"):
        y = pg.linalg.slogdet(pg.astype(x, "float32")).logabsdet
        return pg.astype(y, x.dtype)
    return pg.linalg.slogdet(x).logabsdet


def cdist(x: Any, y: Any) -> Tensor:
    """Return the distances between all vectors of ``x`` and all vectors of ``y``."""
    x, y = promoted(x, y, to=(float,))
    if len(x.shape) < 2 or len(y.shape) < 2:
        raise ValueError(
            "Inputs to `cdist` must have rank >= 2. "
            f"Received shapes: x.shape={x.shape}, y.shape={y.shape}"
        )
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(
            "The last dimension of inputs to `cdist` must match. "
            f"Received shapes: x.shape={x.shape}, y.shape={y.shape}"
        )
    pairs = pg.expand_dims(x, axis=-2) - pg.expand_dims(y, axis=-3)
    return pg.linalg.vector_norm(pairs, axis=-1)
