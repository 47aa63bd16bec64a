"""Gradients with a parameter, for one position in a model.

Each function is an identity that overrides its gradient while it is recorded. It works
on every backend.
"""

from __future__ import annotations

import math

import plugrad as pg
from plugrad import Tensor
from plugrad.plugin import TensorLike


def clip_gradient(x: TensorLike, /, *, limit: float) -> Tensor:
    """Return ``x``; clip each element of the gradient to ``[-limit, limit]``.

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

    The layers before it learn to worsen the loss of the layers after it: for example,
    they learn features that do not reveal the domain.

    Raises:
        ValueError: ``scale`` is not finite.

    """
    if not math.isfinite(scale):
        raise ValueError(f"reverse_gradient: scale {scale} must be finite")
    with pg.override_gradient("Identity", x=lambda dy: -scale * dy):
        return pg.identity(x)
