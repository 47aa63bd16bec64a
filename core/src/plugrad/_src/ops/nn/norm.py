"""Normalization.

Kernels: ``FusedBatchNorm LRN LRNGrad LayerNorm LayerNormGrad RMSNorm``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

from plugrad._src.engine.dispatch import run
from plugrad._src.ops.array import slicing
from plugrad._src.ops.basis import (
    _convert,
    binary,
    creation,
    reduce,
    shape,
    unary,
)
from plugrad._src.registry.contract import Kernel, Spec, decomposition, gradients
from plugrad._src.registry.specs import one_shape
from plugrad._src.tensor.arguments import Ints, finite, integer, misfit
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import Shape, axes

__all__ = [
    "batch_norm",
    "group_norm",
    "layer_norm",
    "local_response_normalization",
    "rms_norm",
]

Maybe = Tensor | None  # a scale or an offset

# --- normalization by given or computed moments ----------------------------------


def _broadcast_rule(op: str, *names: str) -> Callable[..., Spec]:
    """Return the spec rule of a kernel whose inputs ``names`` broadcast to ``x``."""

    def out(x: Spec, *others: Spec | None, **_: Any) -> Spec:
        for name, t in zip(names, others, strict=True):
            if t is not None:
                _convert.check_broadcast(op, name, t, x.shape)
        return x

    return out


FUSED_BATCH_NORM = Kernel(
    "FusedBatchNorm(x: floating, mean: x, variance: x, scale?: x, offset?: x; "
    "epsilon: float)",
    out=_broadcast_rule("batch_norm", "mean", "variance", "scale", "offset"),
    op="batch_norm",
    doc="""``(x - mean) / √(variance + epsilon) · scale + offset``; all broadcast to x.

    Division by a root of 0 gives inf or NaN; the root of a negative number is NaN.
    float16 is computed in float32.""",
)


def batch_norm(
    x: TensorLike,
    mean: TensorLike,
    variance: TensorLike,
    /,
    offset: TensorLike | None = None,
    scale: TensorLike | None = None,
    *,
    epsilon: float = 1e-3,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``(x - mean) / √(variance + epsilon) · scale + offset``.

    Mean and variance are arguments; ``moments`` computes those of a batch.

    Args:
        x: A tensor of real numbers; the channels are usually the last axis.
        mean: The mean, which is subtracted. Like all other tensors, it broadcasts to
            ``x``: ``[channels]``, or the shape of ``x``.
        variance: The variance, not negative.
        offset: Added at the end; None means 0.
        scale: The factor applied after the division; None means 1.
        epsilon: Added to the variance to avoid division by 0; not negative.

    Returns:
        A tensor of the shape of ``x``. dtypes are promoted; integers and bool give
        float32.

    Raises:
        ValueError: A tensor does not broadcast to ``x``, or ``epsilon`` is negative.
        TypeError: A tensor is complex, or contains strings.

    Example:
        >>> x = [[1.0, 10.0], [3.0, 30.0]]
        >>> pg.batch_norm(x, [2.0, 20.0], [1.0, 100.0], epsilon=0.0)
        Tensor([[-1., -1.],
                [ 1.,  1.]], dtype=float32, backend='cpu')

    Source:
        S. Ioffe and C. Szegedy, "Batch Normalization: Accelerating Deep Network
        Training by Reducing Internal Covariate Shift", 2015.

    """
    if unknown:
        raise unexpected(batch_norm, unknown)
    op = "batch_norm"
    x, inputs = _scale_and_offset(
        op, x, mean=mean, variance=variance, scale=scale, offset=offset
    )
    epsilon = finite(op, "epsilon", epsilon, least=0)
    return run(FUSED_BATCH_NORM, x, *inputs, epsilon=epsilon)


@decomposition(FUSED_BATCH_NORM)  # also used for the gradient
def _(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    scale: Maybe,
    offset: Maybe,
    *,
    epsilon: float,
) -> Tensor:
    factor = _scale_and_shift(unary.rsqrt(reduce.widened(variance) + epsilon), scale)
    y = _scale_and_shift((reduce.widened(x) - mean) * factor, offset=offset)
    return creation.cast(y, x.dtype)


def _scale_and_offset(
    op: str, x: TensorLike, **others: Any
) -> tuple[Tensor, list[Maybe]]:
    """Convert ``x`` and ``others`` to one floating dtype; None stays None."""
    optional = ("scale", "offset")
    given = {n: t for n, t in others.items() if t is not None or n not in optional}
    x, *found = _convert.promote_all(op, x, *given.values())
    x = _convert.floating(op, x, "f")
    for name, t in zip(given, found, strict=True):
        others[name] = creation.cast(
            _convert.check_broadcast(op, name, t, x.shape), x.dtype
        )
    return x, list(others.values())


def _scale_and_shift(y: Tensor, scale: Maybe = None, offset: Maybe = None) -> Tensor:
    y = y if scale is None else y * scale
    return y if offset is None else y + offset


LAYER_NORM = Kernel(
    "LayerNorm(x: floating, scale?: x, offset?: x; axis: axes, epsilon: float)",
    out=_broadcast_rule("layer_norm", "scale", "offset"),
    op="layer_norm",
    doc="""``(x - mean) / √(variance + epsilon) · scale + offset``, where mean is the
    mean of x over ``axis``, and variance that of ``(x - mean)²``. ``scale`` and
    ``offset`` broadcast to x.

    If x contains NaN or inf, all elements that share a mean with it become NaN. float16
    is computed in float32.""",
)


def layer_norm(
    x: TensorLike,
    /,
    scale: TensorLike | None = None,
    offset: TensorLike | None = None,
    *,
    axis: Ints = -1,
    epsilon: float = 1e-5,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``(x - mean) / √(variance + epsilon) · scale + offset``.

    Mean and variance are those of the elements along ``axis``, computed for each sample
    separately.

    Args:
        x: A tensor of real numbers.
        scale: The factor applied after the division; it broadcasts to ``x``. None means
            1.
        offset: Added at the end; it broadcasts to ``x``. None means 0.
        axis: The axes to normalize: an int, a sequence of ints, or None for all.
        epsilon: Added to the variance to avoid division by 0; not negative.

    Returns:
        A tensor of the shape of ``x``. dtypes are promoted; integers and bool give
        float32.

    Raises:
        ValueError: A tensor does not broadcast to ``x``, an axis is out of range, or
            ``epsilon`` is negative.
        TypeError: A tensor is complex, or contains strings.

    Example:
        >>> pg.layer_norm([[1.0, 3.0], [2.0, 6.0]], epsilon=0.0)
        Tensor([[-1.,  1.],
                [-1.,  1.]], dtype=float32, backend='cpu')

    Source:
        J. L. Ba, J. R. Kiros and G. E. Hinton, "Layer Normalization", 2016.

    """
    if unknown:
        raise unexpected(layer_norm, unknown)
    x, inputs = _scale_and_offset("layer_norm", x, scale=scale, offset=offset)
    axis = axes("layer_norm", axis, len(x.shape))
    epsilon = finite("layer_norm", "epsilon", epsilon, least=0)
    return run(LAYER_NORM, x, *inputs, axis=axis, epsilon=epsilon)


def _layer_norm_gradient_out(dy: Spec, x: Spec, scale: Spec | None, **_: Any) -> Spec:
    if scale is not None:
        _convert.check_broadcast("layer_norm", "scale", scale, x.shape)
    return one_shape(dy, x)


LAYER_NORM_GRAD = Kernel(
    "LayerNormGrad(dy: floating, x: dy, scale?: dy; axis: axes, epsilon: float) -> dx",
    out=_layer_norm_gradient_out,
    fused=True,
    op="layer_norm",
    doc="""``(g - mean(g) - n · mean(g · n)) / √(variance + epsilon)``: the gradient of
    LayerNorm with respect to ``x``. g is ``dy · scale``, and n is LayerNorm without
    scale and offset; means are over ``axis``. float16 is computed in float32.""",
)


def _normalized(x: Tensor, axis: Shape, epsilon: float) -> tuple[Tensor, Tensor]:
    """Return ``x`` normalized, and the factor ``1 / √(variance + epsilon)``."""
    wide = reduce.widened(x)
    wide = wide - run(reduce.MEAN, wide, axis=axis, keepdims=True)
    variance = run(reduce.MEAN, unary.square(wide), axis=axis, keepdims=True)
    factor = unary.rsqrt(variance + epsilon)
    return wide * factor, factor


@decomposition(LAYER_NORM)
def _(x: Tensor, scale: Maybe, offset: Maybe, *, axis: Shape, epsilon: float) -> Tensor:
    return creation.cast(
        _scale_and_shift(_normalized(x, axis, epsilon)[0], scale, offset), x.dtype
    )


@decomposition(LAYER_NORM_GRAD)
def _(dy: Tensor, x: Tensor, scale: Maybe, *, axis: Shape, epsilon: float) -> Tensor:
    y, factor = _normalized(x, axis, epsilon)
    g = _scale_and_shift(reduce.widened(dy), scale)
    part = run(reduce.MEAN, g * y, axis=axis, keepdims=True)
    dx = (g - run(reduce.MEAN, g, axis=axis, keepdims=True) - y * part) * factor
    return creation.cast(dx, x.dtype)


def _layer_norm_scale_gradient(
    dy: Tensor, x: Tensor, scale: Tensor, axis: Shape, epsilon: float
) -> Tensor:
    y = run(LAYER_NORM, x, None, None, axis=axis, epsilon=epsilon)
    return reduce.sum_to(dy * y, scale.shape)


gradients(
    LAYER_NORM,
    x=lambda dy, x, scale, axis, epsilon: run(
        LAYER_NORM_GRAD, dy, x, scale, axis=axis, epsilon=epsilon
    ),
    scale=_layer_norm_scale_gradient,
    offset=lambda dy, offset: reduce.sum_to(dy, offset.shape),
)


def group_norm(
    x: TensorLike,
    /,
    scale: TensorLike | None = None,
    offset: TensorLike | None = None,
    *,
    groups: int,
    axis: int = -1,
    epsilon: float = 1e-5,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``x`` with mean 0 and variance 1 in each group of channels of each sample.

    Args:
        x: ``[batch, ..., channels]``, or with the channels along another ``axis``.
        scale: ``[channels]``, the factor applied after the normalization; None means 1.
        offset: ``[channels]``, added at the end; None means 0.
        groups: The number of groups, which divides the number of channels. If it equals
            that number, the op is instance normalization.
        axis: The axis of the channels. It cannot be 0, the axis of the batch.
        epsilon: Added to the variance to avoid division by 0; not negative.

    Returns:
        A tensor of the shape of ``x``. dtypes are promoted; integers and bool give
        float32.

    Raises:
        ValueError: ``groups`` does not divide the number of channels, ``axis`` is the
            batch axis, ``scale`` or ``offset`` does not have shape ``[channels]``, or
            ``epsilon`` is negative.
        TypeError: A tensor is complex, or contains strings.

    Example:
        >>> pg.group_norm([[1.0, 3.0, 2.0, 6.0]], groups=2, epsilon=0.0)
        Tensor([[-1.,  1., -1.,  1.]], dtype=float32, backend='cpu')

    Source:
        Y. Wu and K. He, "Group Normalization", 2018.

    """
    if unknown:
        raise unexpected(group_norm, unknown)
    op = "group_norm"
    x = _convert.asarray(x)
    channel_axis = reduce.one_axis(op, axis, len(x.shape))
    if channel_axis == 0:
        raise misfit(op, f"axis {axis} is the batch axis; pass the channel axis", x)
    channels = x.shape[channel_axis]
    trailing = x.shape[channel_axis + 1 :]
    groups = integer(op, "groups", groups, 1)
    if channels % groups:
        rule = f"{groups} groups do not divide {channels} channels (axis {axis})"
        raise misfit(op, rule, x)
    line = (channels, *[1] * len(trailing))
    rows = [
        None if t is None else _channel_vector(op, t, line) for t in (scale, offset)
    ]
    x, inputs = _scale_and_offset(op, x, scale=rows[0], offset=rows[1])
    sizes = (*x.shape[:channel_axis], groups, channels // groups, *trailing)
    rest = tuple(i for i in range(1, len(sizes)) if i != channel_axis)
    y = run(shape.RESHAPE, x, shape=sizes)
    epsilon = finite(op, "epsilon", epsilon, least=0)
    y = run(LAYER_NORM, y, None, None, axis=rest, epsilon=epsilon)
    return _scale_and_shift(run(shape.RESHAPE, y, shape=x.shape), *inputs)


RMS_NORM = Kernel(
    "RMSNorm(x: floating, scale?: x; axis: axes, epsilon: float)",
    out=_broadcast_rule("rms_norm", "scale"),
    fused=True,
    op="rms_norm",
    doc="""``x / √(mean(x²) + epsilon) · scale``, with the mean over ``axis``. ``scale``
    broadcasts to x. float16 is computed in float32.""",
)


def rms_norm(
    x: TensorLike,
    /,
    scale: TensorLike | None = None,
    *,
    axis: Ints = -1,
    epsilon: float = 1e-5,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``x / √(mean(x²) + epsilon) · scale``, with the mean along ``axis``.

    Unlike ``layer_norm``, it subtracts no mean and has no offset. float16 is computed
    in float32.

    Args:
        x: A tensor of real numbers.
        scale: The factor applied after the division; it broadcasts to ``x``. None means
            1.
        axis: The axes to normalize: an int, a sequence of ints, or None for all.
        epsilon: Added to the mean of squares to avoid division by 0; not negative.

    Returns:
        A tensor of the shape of ``x``. dtypes are promoted; integers and bool give
        float32.

    Raises:
        ValueError: ``scale`` does not broadcast to ``x``, an axis is out of range, or
            ``epsilon`` is negative.
        TypeError: A tensor is complex, or contains strings.

    Example:
        >>> pg.rms_norm([[3.0, 4.0], [0.0, 2.0]], epsilon=0.0)
        Tensor([[0.8485, 1.1314],
                [0.    , 1.4142]], dtype=float32, backend='cpu')

    Source:
        B. Zhang and R. Sennrich, "Root Mean Square Layer Normalization", 2019.

    """
    if unknown:
        raise unexpected(rms_norm, unknown)
    op = "rms_norm"
    x, (factor,) = _scale_and_offset(op, x, scale=scale)
    along = axes(op, axis, len(x.shape))
    epsilon = finite(op, "epsilon", epsilon, least=0)
    return run(RMS_NORM, x, factor, axis=along, epsilon=epsilon)


@decomposition(RMS_NORM)
def _(x: Tensor, scale: Maybe, *, axis: Shape, epsilon: float) -> Tensor:
    wide = reduce.widened(x)
    squares = run(reduce.MEAN, unary.square(wide), axis=axis, keepdims=True)
    y = wide * unary.rsqrt(squares + epsilon)
    return creation.cast(_scale_and_shift(y, scale), x.dtype)


def _channel_vector(op: str, t: TensorLike, line: Shape) -> Tensor:
    t = _convert.asarray(t)
    if t.shape != line[:1]:
        raise misfit(op, f"scale and offset must be {line[:1]}, one per channel", t)
    return run(shape.RESHAPE, t, shape=line)


# --- local response normalization ------------------------------------------------


RESPONSE = "local_response_normalization"
_RESPONSE_ATTRIBUTES = "depth_radius: size, bias: float, alpha: float, beta: float"


def _check_images(x: Tensor | Spec) -> None:
    if len(x.shape) not in (3, 4):
        raise misfit(RESPONSE, "x must have rank 3 or 4; reshape it", x)


def _lrn_spec(x: Spec, *others: Spec, **_: Any) -> Spec:
    _check_images(x)
    if any(t.shape != x.shape for t in others):
        raise misfit(RESPONSE, "x, y and dy must have the same shape", x, *others)
    return x


LRN = Kernel(
    f"LRN(x: floating; {_RESPONSE_ATTRIBUTES})",
    out=_lrn_spec,
    op=RESPONSE,
    doc="""``y = x · norm^-beta`` with ``norm = bias + alpha · Σ x²``, summed over the
    channels at most ``depth_radius`` away.

    The power is computed as by ``Pow``: it is NaN for a negative ``norm`` unless
    ``beta`` is whole. float16 is computed in float32.""",
)


def local_response_normalization(
    x: TensorLike,
    /,
    *,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``x / (bias + alpha · Σ x²)^beta``, summed over neighboring channels.

    The sum covers the channel itself and the channels at most ``depth_radius`` away. As
    in TensorFlow, ``alpha`` is not divided by the number of channels in the sum.

    Args:
        x: ``[batch, height, width, channels]`` or ``[height, width, channels]``.
        depth_radius: The maximum distance of a neighboring channel, 0 or more.
        bias: A non-negative number that keeps the base of the power above 0.
        alpha: The factor of the sum, not negative.
        beta: The exponent, not negative.

    Returns:
        A tensor of the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        ValueError: ``x`` does not have rank 3 or 4, or another argument is negative.
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> x = [[[1.0, 2.0, 3.0]]]
        >>> pg.local_response_normalization(x, depth_radius=1, beta=1.0)
        Tensor([[[0.1667, 0.1333, 0.2143]]], dtype=float32, backend='cpu')

    Source:
        A. Krizhevsky, I. Sutskever and G. E. Hinton, "ImageNet Classification with Deep
        Convolutional Neural Networks", 2012.

    """
    if unknown:
        raise unexpected(local_response_normalization, unknown)
    x = _convert.floating(RESPONSE, x, "f")
    _check_images(x)
    attrs = {"bias": bias, "alpha": alpha, "beta": beta}
    attrs = {n: finite(RESPONSE, n, value, least=0) for n, value in attrs.items()}
    radius = integer(RESPONSE, "depth_radius", depth_radius, 0)
    return run(LRN, x, depth_radius=min(radius, x.shape[-1]), **attrs)


def _neighbor_sum(x: Tensor, radius: int) -> Tensor:
    """Sum over the neighboring channels, using shifted slices of the padded tensor."""
    axis = len(x.shape) - 1
    channels = x.shape[-1]
    radius = min(radius, max(channels - 1, 0))
    padded = slicing.pad(x, [*[(0, 0)] * axis, (radius, radius)])
    shifts = [shift for shift in range(2 * radius + 1) if shift != radius]
    return sum((slicing.along(padded, axis, i, channels) for i in shifts), start=x)


def _norm(x: Tensor, radius: int, bias: float, alpha: float) -> Tensor:
    return bias + alpha * _neighbor_sum(unary.square(x), radius)


@decomposition(LRN)
def _(
    x: Tensor, *, depth_radius: int, bias: float, alpha: float, beta: float
) -> Tensor:
    wide = reduce.widened(x)
    y = wide * binary.pow(_norm(wide, depth_radius, bias, alpha), -beta)
    return creation.cast(y, x.dtype)


LRN_GRAD = Kernel(
    f"LRNGrad(x: floating, y: x, dy: x; {_RESPONSE_ATTRIBUTES}) -> dx",
    out=_lrn_spec,
    op=RESPONSE,
    doc="""``dx = dy · norm^-beta - 2 · alpha · beta · x · Σ (dy · y / norm)``; ``y``,
    ``norm`` and the range of the sum are those of ``LRN``. float16 is computed in
    float32.""",
)


@decomposition(LRN_GRAD)  # also used for the gradient
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
    band = _neighbor_sum(wide_dy * wide_y / norm, depth_radius)
    dx = wide_dy * binary.pow(norm, -beta) - 2 * alpha * beta * wide * band
    return creation.cast(dx, x.dtype)


gradients(
    LRN,
    x=lambda dy, x, y, depth_radius, bias, alpha, beta: run(
        LRN_GRAD, x, y, dy, depth_radius=depth_radius, bias=bias, alpha=alpha, beta=beta
    ),
)
