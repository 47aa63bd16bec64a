"""Convolutions along one to three spatial axes."""

from __future__ import annotations

from typing import Any, NamedTuple

import plugrad as pg
from plugrad import Tensor

from keras_plugrad.src.keras_names import conv_transpose_padding

from ..core.variables import convert_to_tensor, promoted
from .layouts import Layout, known_padding, layout, numbers

FORWARD: dict[int, Any] = {1: pg.conv1d, 2: pg.conv2d, 3: pg.conv3d}
TRANSPOSED: dict[int, Any] = {
    1: pg.conv1d_transpose,
    2: pg.conv2d_transpose,
    3: pg.conv3d_transpose,
}


def conv(
    inputs: Any,
    kernel: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = 1,
) -> Tensor:
    """Return a convolution, in as many groups as the channels of the kernel imply."""
    x, k = _alike(inputs, kernel)
    form = layout("conv", x, data_format)
    options = _options("conv", form, strides, padding, dilation_rate)
    groups = _groups(x, k, form)
    y: Tensor = FORWARD[form.spatial](x, k, groups=groups, **options)
    return y


def depthwise_conv(
    inputs: Any,
    kernel: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = 1,
) -> Tensor:
    """Return the convolutions of each channel with kernels of its own."""
    x, k = _alike(inputs, kernel)
    form = layout("depthwise_conv", x, data_format)
    options = _options("depthwise_conv", form, strides, padding, dilation_rate)
    _check_channels("depthwise_conv", x, form, k.shape[-2])
    if form.spatial == 1:
        return _depthwise_1d(x, k, form, options)
    if form.spatial == 2:
        return pg.depthwise_conv2d(x, k, **options)
    channels, multiplier = k.shape[-2:]
    k = pg.reshape(k, (*k.shape[:-2], 1, channels * multiplier))
    return pg.conv3d(x, k, groups=channels, **options)


def _depthwise_1d(x: Tensor, k: Tensor, form: Layout, options: Any) -> Tensor:
    """Return a depthwise convolution along one axis: that of images of one row."""
    axis = form.first
    given = {
        **options,
        "strides": (1, *options["strides"]),
        "dilations": (1, *options["dilations"]),
        "data_format": "NHWC" if form.channels < 0 else "NCHW",
    }
    x = pg.expand_dims(x, axis=axis)
    y = pg.depthwise_conv2d(x, pg.expand_dims(k, axis=0), **given)
    return pg.squeeze(y, axis=axis)


def separable_conv(
    inputs: Any,
    depthwise_kernel: Any,
    pointwise_kernel: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = 1,
) -> Tensor:
    """Return a depthwise convolution, followed by one of all channels of a pixel."""
    x = depthwise_conv(
        inputs, depthwise_kernel, strides, padding, data_format, dilation_rate
    )
    return conv(x, pointwise_kernel, data_format=data_format)


def conv_transpose(
    inputs: Any,
    kernel: Any,
    strides: Any = 1,
    padding: str = "valid",
    output_padding: Any = None,
    data_format: str | None = None,
    dilation_rate: Any = 1,
) -> Tensor:
    """Return the transpose of a convolution, with the sizes that Keras defines."""
    op = "conv_transpose"
    x, k = _alike(inputs, kernel)
    form = layout(op, x, data_format)
    options = _options(op, form, strides, padding, dilation_rate)
    _check_channels(op, x, form, k.shape[-1])
    added = conv_transpose_padding(
        x.shape,
        k.shape,
        options["strides"],
        options["pad"],
        output_padding,
        options["dilations"],
    )
    axes = []
    for axis, (left, right) in enumerate(added):
        reach = (k.shape[axis] - 1) * options["dilations"][axis]
        n, stride = x.shape[form.first + axis], options["strides"][axis]
        axes.append(_transposed(n, stride, reach, reach - left, reach - right))
    sizes = [axis.size for axis in axes]
    options["pad"] = [axis.crop for axis in axes]
    shape = _shape(form, x.shape[0], k.shape[-2], sizes)
    y: Tensor = TRANSPOSED[form.spatial](x, k, shape, **options)
    zeros = [(0, axis.zeros) for axis in axes]
    return _padded(y, form, zeros) if any(axis.zeros for axis in axes) else y


class Transposed(NamedTuple):
    """The result of a transposed convolution along one axis."""

    crop: tuple[int, int]  # elements that are left out at the ends
    size: int
    zeros: int  # elements to add at the end


def _transposed(n: int, stride: int, reach: int, left: int, right: int) -> Transposed:
    """Return the result for ``n`` elements, each of which reaches ``reach`` others.

    ``left`` and ``right`` elements are left out at the ends; if ``right`` is negative,
    zeros are added instead. plugrad adds fewer than ``stride`` itself.
    """
    whole = (n - 1) * stride + reach + 1
    own = min(max(-right, 0), stride - 1)
    crop = (left, max(right, 0))
    return Transposed(crop, whole - sum(crop) + own, max(-right, 0) - own)


def _shape(form: Layout, batch: int, channels: int, sizes: list[int]) -> list[int]:
    """Return the shape of a batch."""
    last = form.channels < 0
    return [batch, *sizes, channels] if last else [batch, channels, *sizes]


def _padded(x: Tensor, form: Layout, spatial: list[tuple[int, int]]) -> Tensor:
    """Return ``x`` with zeros added along the spatial axes."""
    pairs = [(0, 0)] * len(x.shape)
    pairs[form.first : form.first + form.spatial] = spatial
    return pg.pad(x, pairs)


def _alike(inputs: Any, kernel: Any) -> list[Tensor]:
    """Return tensors of one dtype; float64, which promotion narrows, is kept."""
    x, k = convert_to_tensor(inputs), convert_to_tensor(kernel)
    return [x, k] if x.dtype == k.dtype else promoted(x, k)


def _options(
    op: str, form: Layout, strides: Any, padding: str, dilation_rate: Any
) -> dict[str, Any]:
    """Return the attributes of a convolution, as plugrad names them."""
    return {
        "strides": numbers(op, "strides", strides, form.spatial),
        "pad": known_padding(op, padding),
        "dilations": numbers(op, "dilation_rate", dilation_rate, form.spatial),
        "data_format": form.name,
    }


def _groups(x: Tensor, kernel: Tensor, form: Layout) -> int:
    """Return the number of groups: channels of the input for one of the kernel."""
    channels, own = x.shape[form.channels], kernel.shape[-2]
    if not own or not channels or channels % own:
        raise ValueError(
            "conv: the number of input channels must be a multiple of the kernel's "
            f"input channels. Received: input channels={channels}, kernel input "
            f"channels={own}"
        )
    groups: int = channels // own
    if kernel.shape[-1] % groups:
        raise ValueError(
            f"conv: the number of filters must be a multiple of the {groups} groups. "
            f"Received: filters={kernel.shape[-1]}"
        )
    return groups


def _check_channels(op: str, x: Tensor, form: Layout, wanted: int) -> None:
    channels = x.shape[form.channels]
    if channels != wanted:
        raise ValueError(
            f"{op}: the number of input channels must match the kernel's input "
            f"channels. Received: input channels={channels}, kernel input "
            f"channels={wanted}"
        )
