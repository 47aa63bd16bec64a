"""Convolutions, pooling, normalization and resizing."""

from __future__ import annotations

from typing import Any

import plugrad as pg

from ..activations import Fused
from ..settings import Format, Inference, Ints, Padding
from .table import op

ONES = (1, 1, 1, 1)
NO_EXTRAS: Any = ()  # no fused ops
CHANNELS_LAST = ("NWC", "NHWC", "NDHWC")


def spatial(values: Ints, data_format: str) -> Ints:
    """Return the values for the spatial axes, given the values for all axes."""
    return values[1:-1] if data_format in CHANNELS_LAST else values[2:]


def padding(pad: str, explicit: Ints, data_format: str) -> Any:
    """Convert the padding of an image to the plugrad form."""
    if pad.lower() != "explicit":
        return pad.lower()
    pairs = tuple(zip(explicit[::2], explicit[1::2], strict=True))
    return pairs[1:-1] if data_format in CHANNELS_LAST else pairs[2:]


@op("Conv2D")
def conv2d(
    x: Any,
    filter: Any,
    *,
    strides: Ints,
    padding: Padding,
    explicit_paddings: Ints = (),
    data_format: Format = "NHWC",
    dilations: Ints = ONES,
) -> Any:
    return pg.conv2d(
        x,
        filter,
        **_window(strides, padding, explicit_paddings, data_format, dilations),
    )


@op("DepthwiseConv2dNative", "DepthwiseConv2d")
def depthwise_conv2d(
    x: Any,
    filter: Any,
    *,
    strides: Ints,
    padding: Padding,
    explicit_paddings: Ints = (),
    data_format: Format = "NHWC",
    dilations: Ints = ONES,
) -> Any:
    window = _window(strides, padding, explicit_paddings, data_format, dilations)
    return pg.depthwise_conv2d(x, filter, **window)


def _window(
    strides: Ints, pad: str, explicit: Ints, data_format: str, dilations: Ints
) -> dict[str, Any]:
    return {
        "strides": spatial(strides, data_format),
        "pad": padding(pad, explicit, data_format),
        "data_format": data_format,
        "dilations": spatial(dilations, data_format),
    }


def fused(fused_ops: Fused, extra: tuple[Any, ...]) -> dict[str, Any]:
    """Return the bias, the activation and the PRelu weights of a fused op."""
    has_bias, activation = fused_ops
    inputs = [*extra]
    options: dict[str, Any] = {"activation": activation}
    if has_bias:
        options["bias"] = inputs.pop(0)
    if activation == "prelu":
        options["prelu_weights"] = inputs.pop(0)
    return options


@op("_FusedConv2D")
def fused_conv2d(
    x: Any,
    filter: Any,
    *extra: Any,
    strides: Ints,
    padding: Padding,
    explicit_paddings: Ints = (),
    data_format: Format = "NHWC",
    dilations: Ints = ONES,
    fused_ops: Fused = NO_EXTRAS,
    leakyrelu_alpha: float = 0.2,
) -> Any:
    window = _window(strides, padding, explicit_paddings, data_format, dilations)
    options = fused(fused_ops, extra)
    return pg.fused.conv2d(
        x, filter, **window, **options, leaky_relu_alpha=leakyrelu_alpha
    )


@op("FusedDepthwiseConv2dNative")
def fused_depthwise_conv2d(
    x: Any,
    filter: Any,
    *extra: Any,
    strides: Ints,
    padding: Padding,
    explicit_paddings: Ints = (),
    data_format: Format = "NHWC",
    dilations: Ints = ONES,
    fused_ops: Fused = NO_EXTRAS,
    leakyrelu_alpha: float = 0.2,
) -> Any:
    window = _window(strides, padding, explicit_paddings, data_format, dilations)
    options = fused(fused_ops, extra)
    return pg.fused.depthwise_conv2d(
        x, filter, **window, **options, leaky_relu_alpha=leakyrelu_alpha
    )


@op("Conv2DBackpropInput", reads=(0,))
def conv2d_transpose(
    output_shape: Any,
    filter: Any,
    x: Any,
    *,
    strides: Ints,
    padding: Padding,
    explicit_paddings: Ints = (),
    data_format: Format = "NHWC",
    dilations: Ints = ONES,
) -> Any:
    window = _window(strides, padding, explicit_paddings, data_format, dilations)
    return pg.conv2d_transpose(x, filter, output_shape.tolist(), **window)


@op("MaxPool", "MaxPool3D")
def max_pool(
    x: Any,
    *,
    ksize: Ints,
    strides: Ints,
    padding: Padding,
    data_format: Format = "NHWC",
) -> Any:
    return _pool(pg.max_pool, x, ksize, strides, padding, data_format)


@op("AvgPool", "AvgPool3D")
def avg_pool(
    x: Any,
    *,
    ksize: Ints,
    strides: Ints,
    padding: Padding,
    data_format: Format = "NHWC",
) -> Any:
    return _pool(pg.avg_pool, x, ksize, strides, padding, data_format)


def _pool(
    pool: Any, x: Any, ksize: Ints, strides: Ints, pad: str, data_format: str
) -> Any:
    size, steps = (spatial(n, data_format) for n in (ksize, strides))
    return pool(x, size, strides=steps, pad=pad.lower(), data_format=data_format)


@op("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", frozen=(3, 4))
def batch_norm(
    x: Any,
    scale: Any,
    offset: Any,
    mean: Any,
    variance: Any,
    *,
    epsilon: float = 1e-4,
    data_format: Format = "NHWC",
    is_training: Inference = False,
) -> Any:
    if data_format not in CHANNELS_LAST:
        x = pg.moveaxis(x, 1, -1)
    y = pg.batch_norm(x, mean, variance, offset, scale, epsilon=epsilon)
    return y if data_format in CHANNELS_LAST else pg.moveaxis(y, -1, 1)


@op("LRN")
def local_response_normalization(
    x: Any,
    *,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
) -> Any:
    options = {"bias": bias, "alpha": alpha, "beta": beta}
    return pg.local_response_normalization(x, depth_radius=depth_radius, **options)


@op("ResizeBilinear", reads=(1,))
def resize_bilinear(
    x: Any, size: Any, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Any:
    options = {"align_corners": align_corners, "half_pixel_centers": half_pixel_centers}
    return pg.image.resize_bilinear(x, size.tolist(), **options)


@op("ResizeNearestNeighbor", reads=(1,))
def resize_nearest_neighbor(
    x: Any, size: Any, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Any:
    options = {"align_corners": align_corners, "half_pixel_centers": half_pixel_centers}
    return pg.image.resize_nearest_neighbor(x, size.tolist(), **options)


@op("DepthToSpace")
def depth_to_space(x: Any, *, block_size: int, data_format: Format = "NHWC") -> Any:
    return pg.depth_to_space(x, block_size, data_format=data_format)  # type: ignore[arg-type]


@op("SpaceToBatchND", reads=(1, 2))
def space_to_batch_nd(x: Any, block: Any, paddings: Any) -> Any:
    return pg.space_to_batch_nd(x, block.tolist(), paddings.tolist())


@op("BatchToSpaceND", reads=(1, 2))
def batch_to_space_nd(x: Any, block: Any, crops: Any) -> Any:
    return pg.batch_to_space_nd(x, block.tolist(), crops.tolist())
