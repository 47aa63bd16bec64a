"""Gradients with a number of their own, at one place of a model.

Each is an identity whose gradient is overridden while it is recorded: that is all it
takes, on every backend.
"""

from __future__ import annotations

import math

import plugrad as pg
from plugrad import Tensor
from plugrad.plugin import TensorLike


def clip_gradient(x: TensorLike, /, *, limit: float) -> Tensor:
    """Return ``x``; the gradient is cut off at ``-limit`` and ``limit``, by element.

    Raises:
        ValueError: ``limit`` is not a positive number.

    """
    if not limit > 0:
        raise ValueError(f"clip_gradient: limit {limit} must be positive")
    clipped = lambda dy: pg.clip(dy, -limit, limit)
    with pg.override_gradient("Identity", x=clipped, linear=False):
        return pg.identity(x)


def reverse_gradient(x: TensorLike, /, *, scale: float = 1.0) -> Tensor:
    """Return ``x``; the gradient is ``-scale · dy`` (Ganin and Lempitsky, 2015).

    What comes before learns to make what comes after worse: features from which a
    domain cannot be told.

    Raises:
        ValueError: ``scale`` is not finite.

    """
    if not math.isfinite(scale):
        raise ValueError(f"reverse_gradient: scale {scale} must be finite")
    with pg.override_gradient("Identity", x=lambda dy: -scale * dy):
        return pg.identity(x)
