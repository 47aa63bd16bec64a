"""Convolution, padding, cropping and upsampling layers for either data format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import plugrad as pg
from plugrad import Tensor

from ..activations import Activation
from ..settings import Format, Ints, Padding
from .basic import LINEAR, with_bias
from .table import Shapes, layer

CHANNELS_FIRST = ("channels_first", "channelsFirst")


def channels_last(x: Any, data_format: str, function: Callable[[Any], Any]) -> Any:
    """Apply a channels-last function to ``x``; the result has ``x``'s data format."""
    if data_format not in CHANNELS_FIRST:
        return function(x)
    return pg.moveaxis(function(pg.moveaxis(x, 1, -1)), -1, 1)


def spread(sizes: Ints, rank: int) -> Ints:
    """Return a size for each of ``rank`` axes; a single size applies to all."""
    return sizes * rank if len(sizes) == 1 else sizes


def _conv_weights(rank: int) -> Shapes:
    def shapes(s: Mapping[str, Any]) -> dict[str, Any]:
        window = spread(s["kernel_size"], rank)
        return {
            "kernel": (*window, None, s["filters"]),
            **with_bias(s, s["filters"]),
        }

    return shapes


def _convolution(rank: int, op: Callable[..., Any]) -> Callable[..., Any]:
    def convolution(
        x: Any,
        *,
        kernel: Tensor,
        bias: Tensor | None = None,
        filters: int,
        kernel_size: Ints,
        strides: Ints = (1,),
        padding: Padding = "valid",
        data_format: Format = "channels_last",
        dilation_rate: Ints = (1,),
        groups: int = 1,
        activation: Activation = LINEAR,
        use_bias: bool = True,
    ) -> Any:
        gaps = spread(dilation_rate, rank)

        def run(x: Any) -> Any:
            pad = padding
            if padding == "causal":
                margin = (gaps[0] * (kernel.shape[0] - 1), 0)
                x = pg.pad(x, [(0, 0), margin, (0, 0)])
                pad = "valid"
            steps = spread(strides, rank)
            options: dict[str, Any] = {"strides": steps, "pad": pad, "dilations": gaps}
            y = op(x, kernel, **options, groups=groups)
            return activation(y if bias is None else y + bias)

        return channels_last(x, data_format, run)

    return convolution


for _rank, _op in enumerate((pg.conv1d, pg.conv2d, pg.conv3d), 1):
    layer(f"Conv{_rank}D", shapes=_conv_weights(_rank))(_convolution(_rank, _op))


def _transposed_weights(s: Mapping[str, Any]) -> dict[str, Any]:
    window = spread(s["kernel_size"], 2)
    return {"kernel": (*window, s["filters"], None), **with_bias(s, s["filters"])}


@layer("Conv2DTranspose", shapes=_transposed_weights)
def conv2d_transpose(
    x: Any,
    *,
    kernel: Tensor,
    bias: Tensor | None = None,
    filters: int,
    kernel_size: Ints,
    strides: Ints = (1, 1),
    padding: Padding = "valid",
    data_format: Format = "channels_last",
    dilation_rate: Ints = (1, 1),
    activation: Activation = LINEAR,
    use_bias: bool = True,
) -> Any:
    def run(x: Any) -> Any:
        extra = [0, 0]
        if padding == "valid":
            pairs = zip(kernel.shape[:2], spread(strides, 2), strict=True)
            extra = [max(size - step, 0) for size, step in pairs]
        sizes = zip(x.shape[1:3], spread(strides, 2), extra, strict=True)
        shape = (x.shape[0], *(n * step + rest for n, step, rest in sizes), filters)
        options: dict[str, Any] = {"strides": spread(strides, 2), "pad": padding}
        y = pg.conv2d_transpose(
            x, kernel, shape, **options, dilations=spread(dilation_rate, 2)
        )
        return activation(y if bias is None else y + bias)

    return channels_last(x, data_format, run)


def _depthwise_weights(s: Mapping[str, Any]) -> dict[str, Any]:
    kernel = (*spread(s["kernel_size"], 2), None, s["depth_multiplier"])
    return {"depthwise_kernel": kernel, **with_bias(s, None)}


@layer("DepthwiseConv2D", shapes=_depthwise_weights)
def depthwise_conv2d(
    x: Any,
    *,
    depthwise_kernel: Tensor,
    bias: Tensor | None = None,
    kernel_size: Ints,
    strides: Ints = (1, 1),
    padding: Padding = "valid",
    depth_multiplier: int = 1,
    data_format: Format = "channels_last",
    dilation_rate: Ints = (1, 1),
    activation: Activation = LINEAR,
    use_bias: bool = True,
) -> Any:
    options: dict[str, Any] = {
        "strides": spread(strides, 2),
        "dilations": spread(dilation_rate, 2),
    }

    def run(x: Any) -> Any:
        y = pg.depthwise_conv2d(x, depthwise_kernel, pad=padding, **options)
        return activation(y if bias is None else y + bias)

    return channels_last(x, data_format, run)


def _separable_weights(s: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "depthwise_kernel": (*spread(s["kernel_size"], 2), None, None),
        "pointwise_kernel": (1, 1, None, s["filters"]),
        **with_bias(s, s["filters"]),
    }


@layer("SeparableConv2D", shapes=_separable_weights)
def separable_conv2d(
    x: Any,
    *,
    depthwise_kernel: Tensor,
    pointwise_kernel: Tensor,
    bias: Tensor | None = None,
    filters: int,
    kernel_size: Ints,
    strides: Ints = (1, 1),
    padding: Padding = "valid",
    depth_multiplier: int = 1,
    data_format: Format = "channels_last",
    dilation_rate: Ints = (1, 1),
    activation: Activation = LINEAR,
    use_bias: bool = True,
) -> Any:
    options: dict[str, Any] = {
        "strides": spread(strides, 2),
        "dilations": spread(dilation_rate, 2),
    }
    kernels = depthwise_kernel, pointwise_kernel

    def run(x: Any) -> Any:
        y = pg.separable_conv2d(x, *kernels, pad=padding, **options)
        return activation(y if bias is None else y + bias)

    return channels_last(x, data_format, run)


def margins(value: Any, rank: int) -> list[tuple[int, int]]:
    """Return (before, after) for each axis; ``value`` is a number or a list."""
    rows = value if isinstance(value, list | tuple) else [value] * rank
    if rank == 1 and len(rows) == 2:
        rows = [rows]
    pairs = [tuple(n) if isinstance(n, list | tuple) else (n, n) for n in rows]
    if len(pairs) != rank or any(len(pair) != 2 for pair in pairs):
        raise ValueError(
            f"{value!r} does not fit {rank} axes; give a number, or a number or pair "
            "for each axis"
        )
    return pairs


@layer("ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D")
def zero_padding(
    x: Any, *, padding: Any = 1, data_format: Format = "channels_last"
) -> Any:
    ends = margins(padding, x.ndim - 2)
    return channels_last(x, data_format, lambda x: pg.pad(x, [(0, 0), *ends, (0, 0)]))


@layer("Cropping1D", "Cropping2D", "Cropping3D")
def cropping(x: Any, *, cropping: Any, data_format: Format = "channels_last") -> Any:
    def run(x: Any) -> Any:
        ends = zip(margins(cropping, x.ndim - 2), x.shape[1:-1], strict=True)
        return x[(slice(None), *(slice(a, n - b) for (a, b), n in ends))]

    return channels_last(x, data_format, run)


@layer("UpSampling1D", masks="refuses")
def upsampling1d(x: Any, *, size: int = 2) -> Any:
    return pg.repeat(x, size, axis=1)


@layer("UpSampling2D")
def upsampling2d(
    x: Any,
    *,
    size: Ints = (2, 2),
    data_format: Format = "channels_last",
    interpolation: str = "nearest",
) -> Any:
    resize = pg.image.resize_bilinear
    if interpolation == "nearest":
        resize = pg.image.resize_nearest_neighbor

    def run(x: Any) -> Any:
        pairs = zip(x.shape[1:3], spread(size, 2), strict=True)
        return resize(x, [n * factor for n, factor in pairs])

    return channels_last(x, data_format, run)
