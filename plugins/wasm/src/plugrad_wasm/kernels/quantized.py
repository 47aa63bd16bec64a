"""Convolutions and products of bytes."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from plugrad.geometry import Windows
from plugrad.plugin import KernelTable

from ..arrays import WasmArray, empty
from ..launch import FLOAT32, INT32
from ._windows import forward
from .linalg import packed

kernels = KernelTable()
MOST_POSITIONS = 64  # as in integer_depthwise.c
# The numbers of the dtypes of results, as in integer.h.
RESULTS = (INT32, FLOAT32, np.dtype("int8"), np.dtype("uint8"))


@kernels("QuantizedConv2D")
def conv(
    x: WasmArray, panels: WasmArray, sums: WasmArray, *end: Any, geometry: Windows
) -> Any:
    """A product of what windows see, and panels."""
    n, k = geometry.out_shape[-1], prod(geometry.filter_shape[:-1])
    words, rows = packed(prod(geometry.out_shape[:-1]), n, k)
    return _run("quantized_conv_i8", (x, panels, sums), end, geometry, words, rows)


@kernels("QuantizedDepthwiseConv2D")
def depthwise(x: WasmArray, filter: WasmArray, *end: Any, geometry: Windows) -> Any:
    """Each channel by itself, if it has one result."""
    if prod(geometry.window) > MOST_POSITIONS or filter.shape[-1] != 1:
        return NotImplemented
    words, _ = packed(0, geometry.out_shape[-1], 0)
    return _run("quantized_depthwise_i8", (x, filter), end, geometry, words)


def _run(
    name: str, given: Any, end: Any, windows: Windows, words: int, *more: int
) -> Any:
    x_zero, bias, scale, zero = end
    if not min(x.size for x in given) or not prod(windows.out_shape):
        return NotImplemented
    machine, signed = given[0].machine, given[0].dtype.kind == "i"
    dtype = RESULTS[scale is not None] if zero is None else zero.dtype
    y = empty(machine, windows.out_shape, dtype)
    how, between = machine.cached[forward](windows), empty(machine, (words,), INT32)
    arrays = (how, *given, x_zero, bias, scale, zero, y, between)
    pointers = [0 if x is None else x.pointer for x in arrays]
    numbers = signed, 0 if scale is None else scale.size, RESULTS.index(dtype)
    machine.callers[name](*pointers, *numbers, *more)
    return y
