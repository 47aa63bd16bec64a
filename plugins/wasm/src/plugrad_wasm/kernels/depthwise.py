"""Depthwise convolutions and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plugrad.geometry import Windows
from plugrad.plugin import KernelTable

from ..arrays import WasmArray, empty
from ..launch import FLOAT32, Exports
from ._windows import (
    backward,
    convolve_any_dtype,
    filter_gradient,
    forward,
    zero_if_empty,
)
from .linalg import NOTHING

kernels = KernelTable()
_depthwise = Exports("depthwise", bits=True)
_filter = Exports("depthwise_filter", bits=True)
_fast = "depthwise_single_f32"
MAX_LINES = 32  # input lines per row of windows, as in depthwise.c


@kernels("DepthwiseConv2dNative")
def conv(x: WasmArray, filter: WasmArray, *, geometry: Windows) -> Any:
    """Compute ``nptc, tcm -> npcm``, with ``m`` outputs per channel; see ``conv``."""
    return convolved(x, filter, geometry, NOTHING)


def convolved(
    x: WasmArray, filter: WasmArray, windows: Windows, end: Sequence[float]
) -> Any:
    """Return ``activation(conv + bias)``; an epilogue ``end`` requires ``_quick``."""
    if not _quick(x, windows):
        if end is not NOTHING:
            return NotImplemented
        return convolve_any_dtype(
            _depthwise, conv, forward, (x, filter), windows, False
        )
    machine = x.machine
    y = empty(machine, windows.out_shape, FLOAT32)
    if zero_if_empty(y, x, filter):
        return y if end is NOTHING else NotImplemented
    how = machine.cached[forward](windows)
    machine.callers[_fast](how.pointer, x.pointer, filter.pointer, y.pointer, *end)
    return y


@kernels("DepthwiseConv2dNativeBackpropInput")
def backprop_input(dy: WasmArray, filter: WasmArray, *, geometry: Windows) -> Any:
    """Compute ``npcm, tcm -> nptc``."""
    if not _quick(dy, geometry):
        kernel = backprop_input
        return convolve_any_dtype(
            _depthwise, kernel, backward, (dy, filter), geometry, True
        )
    machine = dy.machine
    dx = empty(machine, geometry.in_shape, FLOAT32)
    if not zero_if_empty(dx, dy, filter):
        how = machine.cached[backward](geometry)
        machine.callers[_fast](
            how.pointer, dy.pointer, filter.pointer, dx.pointer, *NOTHING
        )
    return dx


@kernels("DepthwiseConv2dNativeBackpropFilter")
def backprop_filter(x: WasmArray, dy: WasmArray, *, geometry: Windows) -> Any:
    """Compute ``nptc, npcm -> tcm``."""
    dfilter = filter_gradient(_filter, backprop_filter, x, dy, geometry)
    c, k = geometry.in_shape[-1], geometry.out_shape[-1]
    shape = (*geometry.window, c, k // max(c, 1))
    return dfilter if dfilter is NotImplemented else dfilter.view(shape)


def _quick(x: WasmArray, windows: Windows) -> bool:
    lines = 1
    for positions in windows.window[:-1]:
        lines *= positions
    c, k = windows.in_shape[-1], windows.out_shape[-1]
    return x.dtype is FLOAT32 and c == k >= 4 and lines <= MAX_LINES
