"""Activation functions."""

from __future__ import annotations

from typing import Any

import plugrad as pg
from plugrad import Tensor

from keras_plugrad.src.keras_names import canonicalize_axis

from ..core.variables import convert_to_tensor, floating


def relu(x: Any) -> Tensor:
    """Return ``max(x, 0)``."""
    return pg.relu(convert_to_tensor(x))


def relu6(x: Any) -> Tensor:
    """Return ``x``, clipped to [0, 6]."""
    return pg.relu6(convert_to_tensor(x))


def sigmoid(x: Any) -> Tensor:
    """Return the logistic function, ``1 / (1 + exp(-x))``."""
    return pg.sigmoid(floating(x))


def sparse_sigmoid(x: Any) -> Tensor:
    """Return ``(x + 1) / 2``, clipped to [0, 1]."""
    return pg.clip((floating(x) + 1) * 0.5, 0, 1)


def tanh(x: Any) -> Tensor:
    """Return the hyperbolic tangent."""
    return pg.tanh(floating(x))


def tanh_shrink(x: Any) -> Tensor:
    """Return ``x - tanh(x)``."""
    x = floating(x)
    return x - pg.tanh(x)


def softplus(x: Any) -> Tensor:
    """Return ``log(1 + exp(x))``."""
    return pg.softplus(floating(x))


def softsign(x: Any) -> Tensor:
    """Return ``x / (1 + |x|)``."""
    return pg.softsign(floating(x))


def soft_shrink(x: Any, threshold: float = 0.5) -> Tensor:
    """Return ``x`` moved towards 0 by ``threshold``; 0 where it is closer than that."""
    x = floating(x)
    return x - pg.clip(x, -threshold, threshold)


def sparse_plus(x: Any) -> Tensor:
    """Return ``x`` above 1, 0 below -1, and ``(x + 1)² / 4`` between these."""
    x = floating(x)
    between = pg.square(x + 1) * 0.25
    return pg.where(x <= -1, 0.0, pg.where(x < 1, between, x))


def silu(x: Any) -> Tensor:
    """Return ``x · sigmoid(x)``."""
    return pg.silu(floating(x))


def squareplus(x: Any, b: Any = 4) -> Tensor:
    """Return ``(x + √(x² + b)) / 2``."""
    x = floating(x)
    return (x + pg.sqrt(pg.square(x) + convert_to_tensor(b, dtype=x.dtype))) * 0.5


def log_sigmoid(x: Any) -> Tensor:
    """Return the logarithm of the logistic function."""
    return pg.log_sigmoid(floating(x))


def leaky_relu(x: Any, negative_slope: float = 0.2) -> Tensor:
    """Return ``x`` where it is positive, and ``negative_slope · x`` elsewhere."""
    return pg.leaky_relu(floating(x), alpha=negative_slope)


def hard_sigmoid(x: Any) -> Tensor:
    """Return ``x/6 + 1/2``, clipped to [0, 1]."""
    return pg.hard_sigmoid(floating(x))


def hard_silu(x: Any) -> Tensor:
    """Return ``x · hard_sigmoid(x)``."""
    return pg.hard_swish(floating(x))


def elu(x: Any, alpha: float = 1.0) -> Tensor:
    """Return ``x`` where it is positive, and ``alpha · (exp(x) - 1)`` elsewhere."""
    return pg.elu(floating(x), alpha=alpha)


def selu(x: Any) -> Tensor:
    """Return the exponential linear unit that keeps mean 0 and variance 1."""
    return pg.selu(floating(x))


def gelu(x: Any, approximate: bool = True) -> Tensor:
    """Return ``x`` times the cumulative distribution of normal numbers."""
    return pg.gelu(floating(x), approximate=bool(approximate))


def celu(x: Any, alpha: float = 1.0) -> Tensor:
    """Return ``x`` if positive, and ``alpha · (exp(x / alpha) - 1)`` elsewhere."""
    x = floating(x)
    below = pg.expm1(pg.minimum(x, 0.0) / alpha) * alpha
    return pg.where(x > 0, x, below)


def glu(x: Any, axis: int = -1) -> Tensor:
    """Return the first half along an axis times the sigmoid of the second half."""
    x = floating(x)
    axis = canonicalize_axis(axis, len(x.shape))
    if x.shape[axis] % 2:
        raise ValueError(
            "glu: the size of the axis must be a multiple of 2. "
            f"Received: x.shape={x.shape} with axis={axis}"
        )
    first, second = pg.split(x, 2, axis=axis)
    return first * pg.sigmoid(second)


def hard_tanh(x: Any) -> Tensor:
    """Return ``x``, clipped to [-1, 1]."""
    return pg.clip(convert_to_tensor(x), -1, 1)


def hard_shrink(x: Any, threshold: float = 0.5) -> Tensor:
    """Return ``x`` where ``|x|`` exceeds the threshold, and 0 elsewhere."""
    x = convert_to_tensor(x)
    return pg.where(pg.abs(floating(x)) > threshold, x, pg.zeros_like(x))


def threshold(x: Any, threshold: float, default_value: float) -> Tensor:
    """Return ``x`` where it exceeds the threshold, and ``default_value`` elsewhere."""
    x = convert_to_tensor(x)
    other = convert_to_tensor(default_value, dtype=x.dtype)
    return pg.where(floating(x) > threshold, x, other)


def softmax(x: Any, axis: Any = -1) -> Tensor:
    """Return ``exp(x) / Σ exp(x)`` over an axis, several axes, or all (None)."""
    return pg.softmax(floating(x), axis=axis)


def log_softmax(x: Any, axis: Any = -1) -> Tensor:
    """Return the logarithm of ``softmax``."""
    return pg.log_softmax(floating(x), axis=axis)


def sparsemax(x: Any, axis: int = -1) -> Tensor:
    """Return the distribution along an axis that is closest to ``x``."""
    x = floating(x)
    axis = canonicalize_axis(axis, len(x.shape))
    rows = pg.moveaxis(x, axis, -1)
    ordered = pg.sort(rows, descending=True)
    ranks = pg.arange(1, rows.shape[-1] + 1, dtype=x.dtype)
    is_used = ranks * ordered + 1 > pg.cumulative_sum(ordered, axis=-1)
    count = pg.sum(pg.astype(is_used, x.dtype), axis=-1, keepdims=True)
    total = pg.sum(pg.where(is_used, ordered, 0.0), axis=-1, keepdims=True)
    return pg.moveaxis(pg.relu(rows - (total - 1) / count), -1, axis)
