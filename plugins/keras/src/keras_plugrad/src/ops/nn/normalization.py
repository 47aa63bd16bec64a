"""Moments, and normalization by them."""

from __future__ import annotations

import math
from typing import Any

import plugrad as pg
from plugrad import Tensor

from keras_plugrad.src.keras_names import canonicalize_axis, config

from ..core.variables import convert_to_tensor, floating

HALVES = ("float16", "bfloat16")
LARGEST = 65504  # of float16


def moments(
    x: Any, axes: Any, keepdims: bool = False, synchronized: bool = False
) -> tuple[Tensor, Tensor]:
    """Return mean and variance over axes; those of float16 are clipped to its range."""
    if synchronized:
        raise NotImplementedError(
            "synchronized=True: keras-plugrad computes the moments of one process; "
            "use synchronized=False"
        )
    x = floating(x)
    kind = x.dtype.name
    axis = tuple(axes) if isinstance(axes, list | tuple) else axes
    wide = pg.astype(x, "float32") if kind in HALVES else x
    mean, variance = pg.moments(wide, axis, keepdims=keepdims)
    if kind == "float16":
        mean = pg.clip(mean, -LARGEST, LARGEST)
        variance = pg.clip(variance, -LARGEST, LARGEST)
    if kind in HALVES:
        return pg.astype(mean, kind), pg.astype(variance, kind)
    return mean, variance


def batch_normalization(
    x: Any,
    mean: Any,
    variance: Any,
    axis: int,
    offset: Any = None,
    scale: Any = None,
    epsilon: float = 1e-3,
) -> Tensor:
    """Return ``(x - mean) / √(variance + epsilon) · scale + offset``, per channel."""
    x = floating(x)
    shape = [1] * len(x.shape)
    axis = canonicalize_axis(axis, len(x.shape))
    shape[axis] = x.shape[axis]

    def channels(v: Any) -> Tensor | None:
        if v is None:
            return None
        v = convert_to_tensor(v)
        return v if axis == len(x.shape) - 1 else pg.reshape(v, shape)

    # Written out, because jit joins these kernels with the activation after them; the
    # kernel FusedBatchNorm would read and write the whole array once more.
    variances: Any = channels(variance)
    factors: Any = pg.rsqrt(variances + float(epsilon))
    if scale is not None:
        factors = factors * channels(scale)
    y = (x - channels(mean)) * factors
    if offset is not None:
        y = y + channels(offset)
    return y if y.dtype == x.dtype else pg.astype(y, x.dtype)


def layer_normalization(
    x: Any,
    gamma: Any = None,
    beta: Any = None,
    axis: Any = -1,
    epsilon: float | None = None,
) -> Tensor:
    """Return ``x`` normalized over axes, with a factor and an offset."""
    x = floating(x)
    axes = _axes(x, axis)
    scale, offset = _weights(x, gamma, axes), _weights(x, beta, axes)
    return pg.layer_norm(x, scale, offset, axis=axes, epsilon=_epsilon(epsilon))


def rms_normalization(
    x: Any, scale: Any = None, axis: Any = -1, epsilon: float | None = None
) -> Tensor:
    """Return ``x`` divided by the root of its mean square over axes."""
    x = floating(x)
    if not x.shape:
        x = pg.reshape(x, (1,))
    factor = None if scale is None else convert_to_tensor(scale, dtype=x.dtype)
    return pg.rms_norm(x, factor, axis=_axes(x, axis), epsilon=_epsilon(epsilon))


def _epsilon(epsilon: float | None) -> float:
    return float(config.epsilon() if epsilon is None else epsilon)


def _axes(x: Tensor, axis: Any) -> tuple[int, ...]:
    """Return axes in ascending order."""
    given = axis if isinstance(axis, list | tuple) else (axis,)
    return tuple(sorted([canonicalize_axis(one, len(x.shape)) for one in given]))


def _weights(x: Tensor, weights: Any, axes: tuple[int, ...]) -> Tensor | None:
    """Return weights for the normalized axes, in a shape that broadcasts to ``x``."""
    if weights is None:
        return None
    weights = convert_to_tensor(weights, dtype=x.dtype)
    shape = [n if i in axes else 1 for i, n in enumerate(x.shape)]
    if len(weights.shape) == len(shape) or weights.size != math.prod(shape):
        return weights
    return pg.reshape(weights, shape)
