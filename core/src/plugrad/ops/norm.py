"""Softmax and normalization.

Kernels: ``FusedBatchNorm LRN LRNGrad LayerNorm LogSoftmax Softmax``.
"""

from __future__ import annotations

from typing import Any

from plugrad import geometry
from plugrad._arguments import Ints, integer, real
from plugrad._engine import run
from plugrad._kernel import Kernel, decomposition, gradients, same
from plugrad._tensor import Tensor, TensorLike

from . import _convert, binary, creation, reduce, shape, slicing, unary

# --- softmax ---------------------------------------------------------------------


SOFTMAX = Kernel("Softmax(logits; axis)", out=same, op="softmax")


def softmax(logits: TensorLike, /, *, axis: int = -1) -> Tensor:
    """Return ``exp(logits) / Σ exp(logits)`` along ``axis``, without overflow.

    Integers give float32. What holds inf, or nothing but -inf, gives NaN.
    """
    logits = _convert.floating("softmax", logits, "f")
    axis = reduce.one_axis("softmax", axis, len(logits.shape))
    return run(SOFTMAX, logits, axis=axis) if logits.shape[axis] else logits


@decomposition(SOFTMAX)
def _(logits: Tensor, *, axis: int) -> Tensor:
    x = reduce.widened(logits)
    e = unary.exp(x - reduce.max(x, axis=axis, keepdims=True))
    y = e / run(reduce.SUM, e, axis=(axis,), keepdims=True)
    return creation.astype(y, logits.dtype)


def _softmax_gradient(dy: Tensor, y: Tensor, axis: int) -> Tensor:
    part = dy * y
    return part - y * run(reduce.SUM, part, axis=(axis,), keepdims=True)


gradients(SOFTMAX, logits=_softmax_gradient)


LOG_SOFTMAX = Kernel("LogSoftmax(logits; axis)", out=same, op="log_softmax")


def log_softmax(logits: TensorLike, /, *, axis: int = -1) -> Tensor:
    """Return ``logits - log Σ exp(logits)`` along ``axis``: the log of softmax.

    Integers give float32, and NaN comes where it does in ``softmax``.
    """
    logits = _convert.floating("log_softmax", logits, "f")
    axis = reduce.one_axis("log_softmax", axis, len(logits.shape))
    return run(LOG_SOFTMAX, logits, axis=axis) if logits.shape[axis] else logits


@decomposition(LOG_SOFTMAX)
def _(logits: Tensor, *, axis: int) -> Tensor:
    x = reduce.widened(logits)
    x = x - reduce.max(x, axis=axis, keepdims=True)
    total = run(reduce.SUM, unary.exp(x), axis=(axis,), keepdims=True)
    return creation.astype(x - unary.log(total), logits.dtype)


def _log_softmax_gradient(dy: Tensor, y: Tensor, axis: int) -> Tensor:
    return dy - unary.exp(y) * run(reduce.SUM, dy, axis=(axis,), keepdims=True)


gradients(LOG_SOFTMAX, logits=_log_softmax_gradient)


# --- normalization by given or found moments -------------------------------------


FUSED_BATCH_NORM = Kernel(
    "FusedBatchNorm(x, mean, variance, scale?, offset?; epsilon)",
    out=same,
    op="batch_norm",
)


def batch_norm(
    x: TensorLike,
    mean: TensorLike,
    variance: TensorLike,
    offset: TensorLike | None = None,
    scale: TensorLike | None = None,
    /,
    *,
    epsilon: float = 1e-3,
) -> Tensor:
    """Return ``(x - mean) / √(variance + epsilon) · scale + offset``.

    All other tensors broadcast to ``x``: of shape ``[channels]``, or as ``x``. dtypes
    are promoted; integers give float32.

    Raises:
        ValueError: A tensor does not broadcast to ``x``.
        TypeError: Complex numbers.

    """
    x, inputs = _affine(
        "batch_norm", x, mean=mean, variance=variance, scale=scale, offset=offset
    )
    epsilon = real("batch_norm", "epsilon", epsilon)
    return run(FUSED_BATCH_NORM, x, *inputs, epsilon=epsilon)


@decomposition(FUSED_BATCH_NORM)  # and no gradient: the parts share what they compute
def _(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    scale: Tensor | None,
    offset: Tensor | None,
    *,
    epsilon: float,
) -> Tensor:
    factor = unary.rsqrt(reduce.widened(variance) + epsilon)
    if scale is not None:
        factor = factor * reduce.widened(scale)
    y = (reduce.widened(x) - reduce.widened(mean)) * factor
    if offset is not None:
        y = y + reduce.widened(offset)
    return creation.astype(y, x.dtype)


def _affine(
    op: str, x: TensorLike, **others: Any
) -> tuple[Tensor, list[Tensor | None]]:
    """Return ``x`` and the others, None where they are, in one floating dtype."""
    optional = ("scale", "offset")
    given = {n: t for n, t in others.items() if t is not None or n not in optional}
    x, *found = _convert.together(op, x, *given.values())
    x = _convert.floating(op, x, "f")
    for name, other in zip(given, found, strict=True):
        if geometry.broadcast(op, x.shape, other.shape) != x.shape:
            raise ValueError(
                f"{op}: {name} of shape {other.shape} does not broadcast to x of shape "
                f"{x.shape}; give it the shape of x, or of its last axes"
            )
    cast = (creation.astype(t, x.dtype) for t in found)
    return x, [t if t is None else next(cast) for t in others.values()]


def _scaled(y: Tensor, scale: Tensor | None, offset: Tensor | None) -> Tensor:
    y = y if scale is None else y * scale
    return y if offset is None else y + offset


LAYER_NORM = Kernel(
    "LayerNorm(x, scale?, offset?; axis, epsilon)",
    out=same,
    fused=True,
    op="layer_norm",
)


def layer_norm(
    x: TensorLike,
    scale: TensorLike | None = None,
    offset: TensorLike | None = None,
    /,
    *,
    axis: Ints = -1,
    epsilon: float = 1e-5,
) -> Tensor:
    """Return ``(x - mean) / √(variance + epsilon) · scale + offset``.

    Mean and variance are those of the elements along ``axis``, for each sample anew.
    ``axis`` is an int, several, or None for all. ``scale`` and ``offset`` broadcast to
    ``x``. dtypes and errors are those of ``batch_norm``.
    """
    x, inputs = _affine("layer_norm", x, scale=scale, offset=offset)
    axes = geometry.axes("layer_norm", axis, len(x.shape))
    epsilon = real("layer_norm", "epsilon", epsilon)
    return run(LAYER_NORM, x, *inputs, axis=axes, epsilon=epsilon)


@decomposition(LAYER_NORM)
def _(
    x: Tensor,
    scale: Tensor | None,
    offset: Tensor | None,
    *,
    axis: tuple[int, ...],
    epsilon: float,
) -> Tensor:
    wide = reduce.widened(x)
    wide = wide - run(reduce.MEAN, wide, axis=axis, keepdims=True)
    variance = run(reduce.MEAN, unary.square(wide), axis=axis, keepdims=True)
    y = _scaled(wide * unary.rsqrt(variance + epsilon), scale, offset)
    return creation.astype(y, x.dtype)


def group_norm(
    x: TensorLike,
    scale: TensorLike | None = None,
    offset: TensorLike | None = None,
    /,
    *,
    groups: int,
    axis: int = -1,
    epsilon: float = 1e-5,
) -> Tensor:
    """Return ``x`` with mean 0 and variance 1 in each group of channels of a sample.

    Args:
        x: ``[batch, ..., channels]``, or with the channels along another ``axis``.
        scale: ``[channels]``, to multiply by afterwards.
        offset: ``[channels]``, to add afterwards.
        groups: How many; it divides the number of channels. One of each channel is
            instance normalization.
        axis: That of the channels; 0 is that of the batch.
        epsilon: Added to the variance.

    Raises:
        ValueError: Channels do not divide into ``groups``, ``axis`` is that of the
            batch, or ``scale`` or ``offset`` is not one number a channel.
        TypeError: Complex numbers.

    """
    x = _convert.asarray(x)
    at = reduce.one_axis("group_norm", axis, len(x.shape))
    channels = x.shape[at]
    if at == 0:
        raise ValueError(f"group_norm: axis {axis} of shape {x.shape} is the batch's")
    groups = integer("group_norm", "groups", groups, 1)
    if channels % groups:
        raise ValueError(
            f"group_norm: {groups} groups do not divide {channels} channels (axis "
            f"{axis} of shape {x.shape})"
        )
    line = (channels, *[1] * (len(x.shape) - at - 1))
    rows = [None if t is None else _row(t, line) for t in (scale, offset)]
    x, inputs = _affine("group_norm", x, scale=rows[0], offset=rows[1])
    sizes = (*x.shape[:at], groups, channels // groups, *x.shape[at + 1 :])
    axes = tuple(i for i in range(1, len(sizes)) if i != at)
    parts = run(shape.RESHAPE, x, shape=sizes)
    epsilon = real("group_norm", "epsilon", epsilon)
    y = run(LAYER_NORM, parts, None, None, axis=axes, epsilon=epsilon)
    return _scaled(run(shape.RESHAPE, y, shape=x.shape), *inputs)


def _row(t: TensorLike, line: tuple[int, ...]) -> Tensor:
    t = _convert.asarray(t)
    if t.shape != line[:1]:
        raise ValueError(
            f"group_norm: scale and offset must have shape {line[:1]}, one number a "
            f"channel, got {t.shape}"
        )
    return run(shape.RESHAPE, t, shape=line)


# --- local response normalization ------------------------------------------------


LRN = Kernel(
    "LRN(x; depth_radius, bias, alpha, beta)",
    out=same,
    op="local_response_normalization",
)


def local_response_normalization(
    x: TensorLike,
    /,
    *,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
) -> Tensor:
    """Return ``x / (bias + alpha · Σ x²)^beta``, summed over neighbouring channels.

    ``x`` is ``[batch, height, width, channels]`` or lacks the batch; neighbours are
    the channels at most ``depth_radius`` away, and the channel itself. Integers give
    float32; another rank is a ValueError.
    """
    x = _convert.floating("local_response_normalization", x, "f")
    if len(x.shape) not in (3, 4):
        raise ValueError(
            "local_response_normalization: x must have rank 3 or 4, got shape "
            f"{x.shape}; reshape it"
        )
    attrs = {"bias": bias, "alpha": alpha, "beta": beta}
    attrs = {name: real(LRN.op, name, value) for name, value in attrs.items()}
    radius = integer(LRN.op, "depth_radius", depth_radius, 0)
    return run(LRN, x, depth_radius=min(radius, x.shape[-1]), **attrs)


def _band(x: Tensor, radius: int) -> Tensor:
    """Sum over the neighbouring channels, by shifted slices of the padded tensor."""
    radius = min(radius, max(x.shape[-1] - 1, 0))
    lead = [(0, 0)] * (len(x.shape) - 1)
    padded = slicing.pad(x, [*lead, (radius, radius)])
    total = x
    for shift in range(2 * radius + 1):
        if shift != radius:
            begin = [0] * len(lead) + [shift]
            total = total + slicing.slice(padded, begin, x.shape)
    return total


def _norm(x: Tensor, radius: int, bias: float, alpha: float) -> Tensor:
    return bias + alpha * _band(unary.square(x), radius)


@decomposition(LRN)
def _(
    x: Tensor, *, depth_radius: int, bias: float, alpha: float, beta: float
) -> Tensor:
    wide = reduce.widened(x)
    y = wide * binary.pow(_norm(wide, depth_radius, bias, alpha), -beta)
    return creation.astype(y, x.dtype)


LRN_GRAD = Kernel(
    "LRNGrad(x, y, dy; depth_radius, bias, alpha, beta) -> dx",
    out=same,
    op="local_response_normalization",
)


@decomposition(LRN_GRAD)  # and no gradient: second order goes through the parts
def _(
    x: Tensor,
    y: Tensor,
    dy: Tensor,
    *,
    depth_radius: int,
    bias: float,
    alpha: float,
    beta: float,
) -> Tensor:
    wide, wide_y, wide_dy = map(reduce.widened, (x, y, dy))
    norm = _norm(wide, depth_radius, bias, alpha)
    band = _band(wide_dy * wide_y / norm, depth_radius)
    dx = wide_dy * binary.pow(norm, -beta) - 2 * alpha * beta * wide * band
    return creation.astype(dx, x.dtype)


def _lrn_gradient(
    dy: Tensor,
    x: Tensor,
    y: Tensor,
    depth_radius: int,
    bias: float,
    alpha: float,
    beta: float,
) -> Tensor:
    attrs = {"bias": bias, "alpha": alpha, "beta": beta}
    return run(LRN_GRAD, x, y, dy, depth_radius=depth_radius, **attrs)


gradients(LRN, x=_lrn_gradient)
