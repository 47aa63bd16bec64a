"""Convolutions of two and three axes, their way back, and that to the filter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plugrad.geometry import Windows
from plugrad.plugin import KernelTable

from ..arrays import WasmArray, empty
from ..launch import FLOAT32, Calls
from ..runtime import machine
from . import depthwise
from ._windows import backward, forward, in_full, to_filter, zeros
from .linalg import NOTHING

kernels = KernelTable()
_conv, _filter = Calls("conv", bits=True), Calls("conv_filter", bits=True)
_conv32 = machine.kernel("conv_f32")


@kernels("Conv3D")
@kernels("Conv2D")
def conv(x: WasmArray, filter: WasmArray, *, geometry: Windows) -> Any:
    """``nptc, tck -> npk``, for n images, p places, t taps, and channels."""
    return convolved(x, filter, geometry, NOTHING)


def convolved(
    x: WasmArray, filter: WasmArray, windows: Windows, end: Sequence[float]
) -> Any:
    """Return ``activation(conv + bias)``; of float32, unless ``end`` is NOTHING."""
    if single(windows):
        return depthwise.convolved(x, filter, windows, end)
    if x.dtype is not FLOAT32:
        return in_full(_conv, conv, forward, (x, filter), windows, False)
    y = empty(windows.out_shape, FLOAT32)
    if zeros(y, x, filter):
        return y if end is NOTHING else NotImplemented
    how = forward(windows)
    _conv32(how.pointer, x.pointer, filter.pointer, y.pointer, 0, *end)
    return y


@kernels("Conv3DBackpropInputV2")
@kernels("Conv2DBackpropInput")
def conv_backprop_input(dy: WasmArray, filter: WasmArray, *, geometry: Windows) -> Any:
    """``npk, tck -> nptc``; the filter is turned in memory first."""
    if single(geometry):
        return depthwise.backprop_input(dy, filter, geometry=geometry)
    if dy.dtype is not FLOAT32:
        kernel = conv_backprop_input
        return in_full(_conv, kernel, backward, (dy, filter), geometry, True)
    dx = empty(geometry.in_shape, FLOAT32)
    if not zeros(dx, dy, filter):
        how, room = backward(geometry), empty(filter.shape, FLOAT32)
        pointers = (how.pointer, dy.pointer, filter.pointer, dx.pointer, room.pointer)
        _conv32(*pointers, *NOTHING)
    return dx


@kernels("Conv3DBackpropFilterV2")
@kernels("Conv2DBackpropFilter")
def conv_backprop_filter(x: WasmArray, dy: WasmArray, *, geometry: Windows) -> Any:
    """``nptc, npk -> tck``."""
    if single(geometry):
        dfilter = depthwise.backprop_filter(x, dy, geometry=geometry)
        shape = geometry.filter_shape
        return dfilter if dfilter is NotImplemented else dfilter.view(shape)
    return to_filter(_filter, conv_backprop_filter, x, dy, geometry)


def single(windows: Windows) -> bool:
    """Tell whether the channels are groups of their own."""
    return windows.groups == windows.in_shape[-1] > 1
