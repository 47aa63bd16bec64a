"""Softmax and normalization.

Kernels: ``FusedBatchNorm LRN LRNGrad LayerNorm LogSoftmax Softmax``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plugrad.engine.dispatch import run
from plugrad.geometry import Shape, axes
from plugrad.registry.contract import Kernel, Spec, decomposition, gradients
from plugrad.tensor.arguments import Ints, integer, misfit, real
from plugrad.tensor.tensor import Tensor, TensorLike

from . import _convert, binary, creation, reduce, shape, slicing, unary

__all__ = [
    "batch_norm",
    "group_norm",
    "layer_norm",
    "local_response_normalization",
    "log_softmax",
    "softmax",
]

Maybe = Tensor | None  # a scale or an offset

# --- softmax ---------------------------------------------------------------------


def _along(logits: Spec, *, axis: int) -> Spec:
    reduce._something("softmax", logits, (axis,))
    return logits


SOFTMAX = Kernel(
    "Softmax(logits: floating; axis: axis)",
    out=_along,
    op="softmax",
    doc="""``exp(logits - m) / Σ exp(logits - m)`` along ``axis``, of which m is the
    maximum, so that nothing overflows. The axis is not empty.

    NaN, inf, or nothing but -inf along the axis makes all of it NaN. float16 is
    computed in float32.""",
)


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
    return creation.cast(y, logits.dtype)


def _softmax_gradient(dy: Tensor, y: Tensor, axis: int) -> Tensor:
    part = dy * y
    return part - y * run(reduce.SUM, part, axis=(axis,), keepdims=True)


gradients(SOFTMAX, logits=_softmax_gradient)


LOG_SOFTMAX = Kernel(
    "LogSoftmax(logits: floating; axis: axis)",
    out=_along,
    op="log_softmax",
    doc="""``logits - m - log Σ exp(logits - m)`` along ``axis``, of which m is the
    maximum. NaN, empty axes and float16 are as in ``Softmax``.""",
)


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
    return creation.cast(x - unary.log(total), logits.dtype)


def _log_softmax_gradient(dy: Tensor, y: Tensor, axis: int) -> Tensor:
    return dy - unary.exp(y) * run(reduce.SUM, dy, axis=(axis,), keepdims=True)


gradients(LOG_SOFTMAX, logits=_log_softmax_gradient)


# --- normalization by given or found moments -------------------------------------


def _beside(op: str, *names: str) -> Callable[..., Spec]:
    """Return the rule of a kernel whose other inputs, ``names``, broadcast to ``x``."""

    def out(x: Spec, *others: Spec | None, **_: Any) -> Spec:
        for name, t in zip(names, others, strict=True):
            if t is not None:
                _convert.check_broadcast(op, name, t, x.shape)
        return x

    return out


FUSED_BATCH_NORM = Kernel(
    "FusedBatchNorm(x: floating, mean: x, variance: x, scale?: x, offset?: x; "
    "epsilon: float)",
    out=_beside("batch_norm", "mean", "variance", "scale", "offset"),
    op="batch_norm",
    doc="""``(x - mean) / √(variance + epsilon) · scale + offset``; all broadcast to x.

    Division by a root of 0 gives inf or NaN; the root of a negative number is NaN.
    float16 is computed in float32.""",
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
    op = "batch_norm"
    x, inputs = _affine(op, x, mean=mean, variance=variance, scale=scale, offset=offset)
    return run(FUSED_BATCH_NORM, x, *inputs, epsilon=real(op, "epsilon", epsilon))


@decomposition(FUSED_BATCH_NORM)  # and no gradient: the parts share what they compute
def _(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    scale: Maybe,
    offset: Maybe,
    *,
    epsilon: float,
) -> Tensor:
    factor = _scaled(unary.rsqrt(reduce.widened(variance) + epsilon), scale)
    y = _scaled((reduce.widened(x) - mean) * factor, offset=offset)
    return creation.cast(y, x.dtype)


def _affine(op: str, x: TensorLike, **others: Any) -> tuple[Tensor, list[Maybe]]:
    """Return ``x`` and the others, None where they are, in one floating dtype."""
    optional = ("scale", "offset")
    given = {n: t for n, t in others.items() if t is not None or n not in optional}
    x, *found = _convert.promote_all(op, x, *given.values())
    x = _convert.floating(op, x, "f")
    for name, t in zip(given, found, strict=True):
        others[name] = creation.cast(
            _convert.check_broadcast(op, name, t, x.shape), x.dtype
        )
    return x, list(others.values())


def _scaled(y: Tensor, scale: Maybe = None, offset: Maybe = None) -> Tensor:
    y = y if scale is None else y * scale
    return y if offset is None else y + offset


LAYER_NORM = Kernel(
    "LayerNorm(x: floating, scale?: x, offset?: x; axis: axes, epsilon: float)",
    out=_beside("layer_norm", "scale", "offset"),
    fused=True,
    op="layer_norm",
    doc="""``(x - mean) / √(variance + epsilon) · scale + offset``, with the mean of x
    over ``axis``, and the mean of ``(x - mean)²``. ``scale`` and ``offset`` broadcast
    to x.

    NaN or inf makes all that it is averaged with NaN. float16 is computed in
    float32.""",
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
    axis = axes("layer_norm", axis, len(x.shape))
    epsilon = real("layer_norm", "epsilon", epsilon)
    return run(LAYER_NORM, x, *inputs, axis=axis, epsilon=epsilon)


@decomposition(LAYER_NORM)
def _(x: Tensor, scale: Maybe, offset: Maybe, *, axis: Shape, epsilon: float) -> Tensor:
    wide = reduce.widened(x)
    wide = wide - run(reduce.MEAN, wide, axis=axis, keepdims=True)
    variance = run(reduce.MEAN, unary.square(wide), axis=axis, keepdims=True)
    y = _scaled(wide * unary.rsqrt(variance + epsilon), scale, offset)
    return creation.cast(y, x.dtype)


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
    op = "group_norm"
    x = _convert.asarray(x)
    at = reduce.one_axis(op, axis, len(x.shape))
    if at == 0:
        raise misfit(op, f"axis {axis} is the batch's, not that of the channels", x)
    channels, behind = x.shape[at], x.shape[at + 1 :]
    groups = integer(op, "groups", groups, 1)
    if channels % groups:
        rule = f"{groups} groups do not divide {channels} channels (axis {axis})"
        raise misfit(op, rule, x)
    line = (channels, *[1] * len(behind))
    rows = [None if t is None else _row(op, t, line) for t in (scale, offset)]
    x, inputs = _affine(op, x, scale=rows[0], offset=rows[1])
    sizes = (*x.shape[:at], groups, channels // groups, *behind)
    rest = tuple(i for i in range(1, len(sizes)) if i != at)
    y = run(shape.RESHAPE, x, shape=sizes)
    y = run(LAYER_NORM, y, None, None, axis=rest, epsilon=real(op, "epsilon", epsilon))
    return _scaled(run(shape.RESHAPE, y, shape=x.shape), *inputs)


def _row(op: str, t: TensorLike, line: Shape) -> Tensor:
    t = _convert.asarray(t)
    if t.shape != line[:1]:
        raise misfit(op, f"scale and offset are {line[:1]}, one number a channel", t)
    return run(shape.RESHAPE, t, shape=line)


# --- local response normalization ------------------------------------------------


RESPONSE = "local_response_normalization"
_NEIGHBOURS = "depth_radius: size, bias: float, alpha: float, beta: float"


def _check_images(x: Tensor | Spec) -> None:
    if len(x.shape) not in (3, 4):
        raise misfit(RESPONSE, "x must have rank 3 or 4; reshape it", x)


def _responses(x: Spec, *others: Spec, **_: Any) -> Spec:
    _check_images(x)
    if any(t.shape != x.shape for t in others):
        raise misfit(RESPONSE, "x, y and dy must have one shape", x, *others)
    return x


LRN = Kernel(
    f"LRN(x: floating; {_NEIGHBOURS})",
    out=_responses,
    op=RESPONSE,
    doc="""``y = x · norm^-beta``, ``norm = bias + alpha · Σ x²``, summed over the
    channels at most ``depth_radius`` away.

    The power is that of ``Pow``, NaN for a negative ``norm`` unless ``beta`` is whole.
    float16 is computed in float32.""",
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
    x = _convert.floating(RESPONSE, x, "f")
    _check_images(x)
    attrs = {"bias": bias, "alpha": alpha, "beta": beta}
    attrs = {name: real(RESPONSE, name, value) for name, value in attrs.items()}
    radius = integer(RESPONSE, "depth_radius", depth_radius, 0)
    return run(LRN, x, depth_radius=min(radius, x.shape[-1]), **attrs)


def _band(x: Tensor, radius: int) -> Tensor:
    """Sum over the neighbouring channels, by shifted slices of the padded tensor."""
    axis, channels = len(x.shape) - 1, x.shape[-1]
    radius = min(radius, max(channels - 1, 0))
    padded = slicing.pad(x, [*[(0, 0)] * axis, (radius, radius)])
    shifts = [shift for shift in range(2 * radius + 1) if shift != radius]
    return sum((slicing.along(padded, axis, i, channels) for i in shifts), start=x)


def _norm(x: Tensor, radius: int, bias: float, alpha: float) -> Tensor:
    return bias + alpha * _band(unary.square(x), radius)


@decomposition(LRN)
def _(
    x: Tensor, *, depth_radius: int, bias: float, alpha: float, beta: float
) -> Tensor:
    wide = reduce.widened(x)
    y = wide * binary.pow(_norm(wide, depth_radius, bias, alpha), -beta)
    return creation.cast(y, x.dtype)


LRN_GRAD = Kernel(
    f"LRNGrad(x: floating, y: x, dy: x; {_NEIGHBOURS}) -> dx",
    out=_responses,
    op=RESPONSE,
    doc="""``dx = dy · norm^-beta - 2 · alpha · beta · x · Σ (dy · y / norm)``, with sum
    and ``norm`` as in ``LRN``, and its ``y``. float16 is computed in float32.""",
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
    return creation.cast(dx, x.dtype)


gradients(
    LRN,
    x=lambda dy, x, y, depth_radius, bias, alpha, beta: run(
        LRN_GRAD, x, y, dy, depth_radius=depth_radius, bias=bias, alpha=alpha, beta=beta
    ),
)
