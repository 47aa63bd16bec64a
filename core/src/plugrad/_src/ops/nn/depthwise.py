"""Depthwise convolutions, in which each channel has its own filters.

Kernels: ``DepthwiseConv2dNative`` and its two transposes. They decompose into
convolutions with as many groups as there are channels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from plugrad import geometry
from plugrad._src.engine.dispatch import run
from plugrad._src.ops.basis import shape
from plugrad._src.registry.contract import Kernel, decomposition
from plugrad._src.tensor.arguments import misfit
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import Padding, Rounding, Shape, Sizes

from . import _windows, conv

if TYPE_CHECKING:
    from plugrad.geometry import Windows

__all__ = ["depthwise_conv2d", "separable_conv2d"]


def _filter_shape(windows: Windows) -> Shape:
    c, k = windows.in_shape[-1], windows.out_shape[-1]
    return (*windows.window, c, k // c)


def filter_shape(windows: Windows) -> Shape:
    """Return the filter shape; raise unless each channel is a group."""
    if windows.groups != windows.in_shape[-1]:
        raise ValueError(
            f"geometry: each of {windows.in_shape[-1]} channels must be a group, got "
            f"{windows.groups} groups"
        )
    return _filter_shape(windows)


_FORWARD, _INPUT, _FILTER = conv.rules(geometry.depthwise, 2, filter_shape)
DEPTHWISE_CONV2D = Kernel(
    "DepthwiseConv2dNative(x: number, filter: x; geometry: Windows)",
    op="depthwise_conv2d",
    doc="""``y[n, p, q, c·multiplier + m] = Σ x[n, i, j, c] filter[h, w, c, m]`` over h
    and w, with i, j and everything else as in ``Conv2D``.""",
    **_FORWARD,
)
DEPTHWISE_CONV2D_INPUT = Kernel(
    "DepthwiseConv2dNativeBackpropInput(dy: number, filter: dy; geometry: Windows) "
    "-> dx",
    doc="""``Conv2DBackpropInput`` with a group for each channel.""",
    **_INPUT,
)
DEPTHWISE_CONV2D_FILTER = Kernel(
    "DepthwiseConv2dNativeBackpropFilter(x: number, dy: x; geometry: Windows) "
    "-> dfilter",
    doc="""``Conv2DBackpropFilter`` with a group for each channel.""",
    **_FILTER,
)


def depthwise_conv2d(
    x: TensorLike,
    filter: TensorLike,
    /,
    *,
    strides: Sizes = 1,
    pad: Padding = "valid",
    dilations: Sizes = 1,
    data_format: str = "NHWC",
    dim_rounding_mode: Rounding | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the convolution of each channel of ``x`` with its own filters.

    ``y[n, p, q, c·multiplier + m] = Σ x[n, i, j, c] · filter[h, w, c, m]`` over h and
    w, where ``i = s·p + d·h - top`` and ``j = s·q + d·w - left``, with stride s and
    dilation d; ``x`` is zero outside. Integers wrap.

    Args:
        x: ``[batch, height, width, channels]``, or without the batch.
        filter: ``[height, width, channels, multiplier]``.
        strides: Steps between adjacent windows: one number for both axes or one for
            each.
        pad: ``"same"`` adds zeros so that each size becomes ``ceil(size / stride)``;
            ``"valid"`` adds nothing; a number adds that many zeros at each end; pairs,
            ``[(top, bottom), (left, right)]``, give the number of zeros at each end.
        dilations: Steps between adjacent elements of one window.
        data_format: "NHWC" or "NCHW", for ``x`` and the result; the layout of the
            filter is fixed.
        dim_rounding_mode: How to handle a partial last step if ``pad`` is a number or
            pairs: "floor" (or None) drops it, "ceil" keeps it, "round" keeps it if at
            least half of it fits; "ceil_inside" keeps a window that begins before the
            end of the input.

    Returns:
        A tensor ``[batch, out_height, out_width, channels · multiplier]`` in the format
        of ``x``, of the promoted dtype; int32 for bool. The results of one input
        channel are adjacent.

    Raises:
        ValueError: The shapes or attributes are incompatible.
        TypeError: An argument contains strings, or no dtype can represent both.

    Example:
        >>> x = [[[[3.0, 5.0]]]]  # one pixel with two channels
        >>> filter = [[[[1.0, 2.0], [10.0, 20.0]]]]  # two filters for each of them
        >>> pg.depthwise_conv2d(x, filter).tolist()
        [[[[3.0, 6.0, 50.0, 100.0]]]]

    Source:
        The semantics are those of ``tf.depthwiseConv2d`` in TensorFlow.js.

    """
    if unknown:
        raise unexpected(depthwise_conv2d, unknown)
    given = _windows.window_options(strides, pad, dilations, dim_rounding_mode)
    kernel, rule = DEPTHWISE_CONV2D, geometry.depthwise
    return conv.convolved(kernel, rule, 2, data_format, given, x, filter)


@decomposition(DEPTHWISE_CONV2D)
def _(x: Tensor, filter: Tensor, *, geometry: Windows) -> Tensor:
    filter = shape.reshape(filter, geometry.filter_shape)
    return run(conv.CONV2D, x, filter, geometry=geometry)


@decomposition(DEPTHWISE_CONV2D_INPUT)
def _(dy: Tensor, filter: Tensor, *, geometry: Windows) -> Tensor:
    filter = shape.reshape(filter, geometry.filter_shape)
    return run(conv.CONV2D_INPUT, dy, filter, geometry=geometry)


@decomposition(DEPTHWISE_CONV2D_FILTER)
def _(x: Tensor, dy: Tensor, *, geometry: Windows) -> Tensor:
    dfilter = run(conv.CONV2D_FILTER, x, dy, geometry=geometry)
    return shape.reshape(dfilter, _filter_shape(geometry))


conv.linear(DEPTHWISE_CONV2D, DEPTHWISE_CONV2D_INPUT, DEPTHWISE_CONV2D_FILTER)


def separable_conv2d(
    x: TensorLike,
    depthwise_filter: TensorLike,
    pointwise_filter: TensorLike,
    /,
    *,
    strides: Sizes = 1,
    pad: Padding = "valid",
    dilations: Sizes = 1,
    data_format: str = "NHWC",
    dim_rounding_mode: Rounding | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``conv2d(depthwise_conv2d(x, depthwise_filter), pointwise_filter)``.

    The attributes are those of the depthwise convolution.

    Args:
        x: ``[batch, height, width, channels]``, or without the batch.
        depthwise_filter: ``[height, width, channels, multiplier]``.
        pointwise_filter: ``[1, 1, channels · multiplier, out_channels]``.
        strides: Steps between adjacent windows: one number for both axes or one for
            each.
        pad: ``"same"`` adds zeros so that each size becomes ``ceil(size / stride)``;
            ``"valid"`` adds nothing; a number adds that many zeros at each end; pairs,
            ``[(top, bottom), (left, right)]``, give the number of zeros at each end.
        dilations: Steps between adjacent elements of one window.
        data_format: "NHWC" or "NCHW", for ``x`` and the result; the layout of the
            filter is fixed.
        dim_rounding_mode: How to handle a partial last step if ``pad`` is a number or
            pairs: "floor" (or None) drops it, "ceil" keeps it, "round" keeps it if at
            least half of it fits; "ceil_inside" keeps a window that begins before the
            end of the input.

    Returns:
        A tensor ``[batch, out_height, out_width, out_channels]`` in the format of
        ``x``, of the promoted dtype; int32 for bool.

    Raises:
        ValueError: The shapes or attributes are incompatible.
        TypeError: An argument contains strings, or no dtype can represent all of them.

    Example:
        >>> depthwise_filter = [[[[1.0, 2.0], [10.0, 20.0]]]]
        >>> pointwise_filter = pg.ones((1, 1, 4, 1))
        >>> x = [[[[3.0, 5.0]]]]
        >>> pg.separable_conv2d(x, depthwise_filter, pointwise_filter).item()
        159.0

    Source:
        The semantics are those of ``tf.separableConv2d`` in TensorFlow.js.

    """
    if unknown:
        raise unexpected(separable_conv2d, unknown)
    op = "separable_conv2d"
    x, first, second = _windows.numbers(op, x, depthwise_filter, pointwise_filter)
    geometry.rank(op, "depthwise_filter", first.shape, 2)
    between = first.shape[2] * first.shape[3]
    if len(second.shape) != 4 or second.shape[:3] != (1, 1, between):
        wanted = f"pointwise_filter must have shape (1, 1, {between}, out_channels)"
        raise misfit(op, f"{wanted} after depthwise_filter", second, first)
    given = _windows.window_options(strides, pad, dilations, dim_rounding_mode)
    kernel, rule = DEPTHWISE_CONV2D, geometry.depthwise
    y = conv.convolved(kernel, rule, 2, data_format, given, x, first)
    return conv.conv2d(y, second, data_format=data_format)
