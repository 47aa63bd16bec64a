"""Batch, instance, group and layer normalization; losses."""

from __future__ import annotations

import plugrad as pg

from ..dtypes import HALVES, dtype_of
from ..graph import Node
from ..registry import Value, op

Ints = tuple[int, ...]


def _by_channel(v: Value, x: Value, channels_last: int) -> Value:
    """Reshape a vector to broadcast along the channels."""
    return v if channels_last else pg.reshape(v, (-1, *[1] * (x.ndim - 2)))


def _axes(x: Value, channels_last: int) -> Ints:
    return tuple(range(1, x.ndim - 1) if channels_last else range(2, x.ndim))


@op("BatchNormalization", since=7)
def batch_normalization(
    x: Value,
    scale: Value,
    bias: Value,
    mean: Value,
    variance: Value,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    spatial: int = 1,
    training_mode: int = 0,
    channels_last: int = 0,
) -> Value:
    statistics: tuple[Value, ...] = ()
    if training_mode:
        axes = (0, *_axes(x, channels_last))
        batch_mean, batch_variance = pg.moments(x, axes)
        statistics = tuple(
            old * momentum + pg.astype(new, old.dtype) * (1 - momentum)
            for old, new in ((mean, batch_mean), (variance, batch_variance))
        )
        mean, variance = batch_mean, batch_variance
    factor = scale * pg.rsqrt(variance + epsilon)
    offset = bias - mean * factor
    factor, offset = (_by_channel(v, x, channels_last) for v in (factor, offset))
    y = x * pg.astype(factor, x.dtype) + pg.astype(offset, x.dtype)
    return (y, *statistics) if statistics else y


@op("InstanceNormalization", since=6)
def instance_normalization(
    x: Value,
    scale: Value,
    bias: Value,
    *,
    epsilon: float = 1e-5,
    channels_last: int = 0,
) -> Value:
    mean, variance = pg.moments(x, _axes(x, channels_last), keepdims=True)
    y = (x - mean) * pg.rsqrt(variance + epsilon)
    scale, bias = (_by_channel(v, x, channels_last) for v in (scale, bias))
    return y * scale + bias


@op("GroupNormalization", since=18)
def group_normalization(
    x: Value,
    scale: Value,
    bias: Value,
    *,
    num_groups: int,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Value:
    """Normalize groups of channels; scale and bias are per group or per channel."""
    kind = pg.float32 if stash_type == 1 and x.dtype in HALVES else x.dtype
    groups = pg.reshape(pg.astype(x, kind), (x.shape[0], num_groups, -1))
    mean, variance = pg.moments(groups, 2, keepdims=True)
    y = pg.reshape((groups - mean) * pg.rsqrt(variance + epsilon), x.shape)
    repeats = x.shape[1] // scale.shape[0]
    scale, bias = (
        _by_channel(pg.repeat(v, repeats) if repeats > 1 else v, x, 0)
        for v in (scale, bias)
    )
    return pg.astype(y, x.dtype) * scale + bias


@op("LayerNormalization")
def layer_normalization(
    x: Value,
    scale: Value,
    bias: Value = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    node: Node,
) -> Value:
    axes = tuple(range(axis % x.ndim, x.ndim))
    if len(node.outputs) == 1 and tuple(scale.shape) == tuple(x.shape[axes[0] :]):
        return pg.layer_norm(x, scale, bias, axis=axes, epsilon=epsilon)
    kind = dtype_of(stash_type)
    wide = pg.astype(x, kind)
    mean, variance = pg.moments(wide, axes, keepdims=True)
    inverse = pg.rsqrt(variance + epsilon)
    y = pg.astype((wide - mean) * inverse, x.dtype) * scale
    return (y if bias is None else y + bias), mean, inverse


@op("RMSNormalization", since=23)
def rms_normalization(
    x: Value,
    scale: Value,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Value:
    y, _ = by_root_mean_square(x, axis, epsilon, stash_type)
    return pg.astype(y, scale.dtype) * scale


def by_root_mean_square(
    x: Value, axis: int, epsilon: float, stash_type: int
) -> tuple[Value, Value]:
    """Divide by the root mean square over ``axis`` and all later axes.

    Returns:
        The quotient in the dtype that ``stash_type`` names, and the inverse root.

    """
    axes = tuple(range(axis % x.ndim, x.ndim))
    wide = pg.astype(x, dtype_of(stash_type))
    square = pg.mean(wide * wide, axis=axes, keepdims=True)
    inverse = pg.rsqrt(square + epsilon)
    return wide * inverse, inverse


@op("LpNormalization")
def lp_normalization(x: Value, *, axis: int = -1, p: int = 2) -> Value:
    size = pg.sum(pg.abs(x) ** p, axis=axis, keepdims=True) ** (1 / p)
    return pg.divide_no_nan(x, size)


@op("MeanVarianceNormalization", since=9)
def mean_variance_normalization(x: Value, *, axes: Ints = (0, 2, 3)) -> Value:
    mean, variance = pg.moments(x, axes, keepdims=True)
    return (x - mean) / (pg.sqrt(variance) + 1e-9)


@op("LRN")
def lrn(
    x: Value,
    *,
    size: int,
    alpha: float = 1e-4,
    beta: float = 0.75,
    bias: float = 1.0,
    channels_last: int = 0,
) -> Value:
    if channels_last and size % 2 and x.ndim == 4:
        options = {"bias": bias, "alpha": alpha / size, "beta": beta}
        return pg.local_response_normalization(x, depth_radius=size // 2, **options)
    axis = x.ndim - 1 if channels_last else 1
    before = (size - 1) // 2
    margins = [(0, 0)] * x.ndim
    margins[axis] = (before, size - 1 - before)
    squares = pg.pad(x * x, margins)
    parts = [
        squares[(slice(None),) * axis + (slice(i, i + x.shape[axis]),)]
        for i in range(size)
    ]
    return x / (bias + alpha / size * pg.add_n(parts)) ** beta


@op("NegativeLogLikelihoodLoss", since=12)
def negative_log_likelihood_loss(
    x: Value,
    target: Value,
    weight: Value = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Value:
    valid = pg.ones(target.shape, dtype="bool")
    if ignore_index is not None:
        valid = pg.not_equal(target, ignore_index)
        target = pg.where(valid, target, pg.zeros_like(target))
    loss = -pg.squeeze(pg.take_along_axis(x, pg.expand_dims(target, 1), axis=1), 1)
    weights = pg.astype(valid, x.dtype)
    if weight is not None:
        weights = weights * pg.gather(weight, target)
    loss = loss * weights
    if reduction == "none":
        return loss
    return pg.sum(loss) / pg.sum(weights) if reduction == "mean" else pg.sum(loss)


@op("SoftmaxCrossEntropyLoss", since=12)
def softmax_cross_entropy_loss(
    x: Value,
    target: Value,
    weight: Value = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Value:
    logarithms = pg.log_softmax(x, 1)
    loss = negative_log_likelihood_loss(
        logarithms, target, weight, ignore_index=ignore_index, reduction=reduction
    )
    return loss, logarithms
