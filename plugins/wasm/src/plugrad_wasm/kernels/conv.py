"""Convolutions over two and three axes, and their gradients."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from plugrad.geometry import Windows
from plugrad.plugin import KernelTable

from ..arrays import Shape, WasmArray, empty
from ..launch import FLOAT32, Exports
from . import depthwise
from ._windows import (
    backward,
    convolve_any_dtype,
    filter_gradient,
    forward,
    zero_if_empty,
)
from .linalg import NOTHING

kernels = KernelTable()
_conv = Exports("conv", bits=True)
_filter = Exports("conv_filter", bits=True)
WINOGRAD_BLOCK = 1 << 15  # tiles times channels at a time: 2 MiB of products


@kernels("Conv3D")
@kernels("Conv2D")
def conv(x: WasmArray, filter: WasmArray, *, geometry: Windows) -> Any:
    """Compute ``nptc, tck -> npk`` in the notation of einsum.

    ``n`` stands for the batch, ``p`` for output positions, ``t`` for kernel positions,
    ``c`` for input channels, and ``k`` for output channels.
    """
    return convolved(x, filter, geometry, NOTHING)


def convolved(
    x: WasmArray, filter: WasmArray, windows: Windows, end: Sequence[float]
) -> Any:
    """Return ``activation(conv + bias)``; an epilogue ``end`` requires float32."""
    if windows.depthwise:
        return depthwise.convolved(x, filter, windows, end)
    if x.dtype is not FLOAT32:
        return convolve_any_dtype(_conv, conv, forward, (x, filter), windows, False)
    machine = x.machine
    y = empty(machine, windows.out_shape, FLOAT32)
    if zero_if_empty(y, x, filter):
        return y if end is NOTHING else NotImplemented
    how = machine.cached[forward](windows)
    tiles, workspace = _tiles(windows, windows.out_shape)
    scratch = empty(machine, (workspace,), FLOAT32)
    pointers = (how.pointer, x.pointer, filter.pointer, y.pointer)
    machine.callers["conv_f32"](*pointers, 0, scratch.pointer, tiles, 1, *end)
    return y


@functools.lru_cache(maxsize=4096)
def _tiles(windows: Windows, shape: Shape) -> tuple[int, int]:
    """Return how many tiles winograd.c computes at a time, and its workspace size.

    A tile is 2 x 2 outputs; the workspace is in float32 elements. Both are 0 where
    Winograd's algorithm is not used: it is for windows of 3 x 3, and pays off from 32
    tiles and 32 channels on. The upper limit is 1024 channels, because the transformed
    filters then take 64 MiB.
    """
    c, k = windows.in_shape[-1], windows.out_shape[-1]
    steps = max(windows.strides + windows.dilations)
    if windows.window != (3, 3) or steps > 1 or windows.groups > 1:
        return 0, 0
    tiles = shape[0] * -(-shape[1] // 2) * -(-shape[2] // 2)
    pays_off = min(c, k) >= 16 and 32 * 32 <= c * k <= 1024 * 1024 and tiles >= 32
    if c % 4 or k % 4 or not pays_off:
        return 0, 0
    rounds = -(-tiles * shape[-1] // WINOGRAD_BLOCK)
    tiles = -(-tiles // rounds)
    return tiles, 16 * (c * k + tiles * shape[-1] + 16)


@kernels("Conv3DBackpropInputV2")
@kernels("Conv2DBackpropInput")
def conv_backprop_input(dy: WasmArray, filter: WasmArray, *, geometry: Windows) -> Any:
    """Compute ``npk, tck -> nptc``; C first transposes the filter into a workspace."""
    if geometry.depthwise:
        return depthwise.backprop_input(dy, filter, geometry=geometry)
    if dy.dtype is not FLOAT32:
        kernel = conv_backprop_input
        return convolve_any_dtype(_conv, kernel, backward, (dy, filter), geometry, True)
    machine = dy.machine
    dx = empty(machine, geometry.in_shape, FLOAT32)
    if not zero_if_empty(dx, dy, filter):
        how = machine.cached[backward](geometry)
        workspace = empty(machine, filter.shape, FLOAT32)
        tiles, count = _tiles(geometry, geometry.in_shape)
        scratch = empty(machine, (count,), FLOAT32)
        pointers = (
            how.pointer,
            dy.pointer,
            filter.pointer,
            dx.pointer,
            workspace.pointer,
        )
        machine.callers["conv_f32"](*pointers, scratch.pointer, tiles, 1, *NOTHING)
    return dx


@kernels("Conv3DBackpropFilterV2")
@kernels("Conv2DBackpropFilter")
def conv_backprop_filter(x: WasmArray, dy: WasmArray, *, geometry: Windows) -> Any:
    """Compute ``nptc, npk -> tck``."""
    if geometry.depthwise:
        dfilter = depthwise.backprop_filter(x, dy, geometry=geometry)
        shape = geometry.filter_shape
        return dfilter if dfilter is NotImplemented else dfilter.view(shape)
    return filter_gradient(_filter, conv_backprop_filter, x, dy, geometry)
