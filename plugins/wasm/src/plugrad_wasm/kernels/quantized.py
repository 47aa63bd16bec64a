"""Int8 and uint8 convolutions and matrix products.

The C kernels multiply packed weights. If weights are used repeatedly, their packed
form is cached with them.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from plugrad.geometry import Windows
from plugrad.plugin import KernelTable, prepared

from ..arrays import WasmArray, empty
from ..launch import FLOAT32, INT32
from ._windows import forward
from .linalg import packing_sizes

kernels = KernelTable()
INT8 = np.dtype("int8")
PANEL_COLUMNS = 16  # NR of integer.c
DEPTHWISE = "quantized_depthwise_i8"
MAX_POSITIONS = 64  # positions of a window, as in integer_depthwise.c
# The dtypes of results, in the order of integer.h.
RESULTS = (INT32, FLOAT32, INT8, np.dtype("uint8"))


def panels(w: WasmArray) -> tuple[WasmArray, WasmArray]:
    """Return the weights packed for the C kernels, and the sums of their columns."""
    n = w.shape[-1]
    k = w.size // n
    made = empty(
        w.machine, (-(-n // PANEL_COLUMNS), -(-k // 4), PANEL_COLUMNS, 4), INT8
    )
    sums = empty(w.machine, (n,), INT32)
    pointers = w.pointer, made.pointer, sums.pointer
    w.machine.callers["pack_panels_i8"](*pointers, k, n)
    return made, sums


@kernels("QuantizedConv2D")
def conv(x: WasmArray, filter: WasmArray, *end: Any, geometry: Windows) -> Any:
    """Convolve: multiply the windows by the filter."""
    n = geometry.out_shape[-1]
    k = prod(geometry.filter_shape[:-1])
    words, rows = packing_sizes(prod(geometry.out_shape[:-1]), n, k)
    how = x.machine.cached[forward](geometry)
    name = "quantized_conv_i8"
    return _run(name, (how,), (x, filter), end, geometry.out_shape, words, rows)


@kernels("QuantizedMatMul")
def matmul(a: WasmArray, b: WasmArray, *end: Any) -> Any:
    """Multiply all rows by the weights."""
    m = prod(a.shape[:-1])
    k, n = b.shape
    words, rows = packing_sizes(m, n, k)
    shape = (*a.shape[:-1], n)
    sizes = (rows, m, n, k)
    return _run("quantized_matmul_i8", (), (a, b), end, shape, words, *sizes)


@kernels("QuantizedDepthwiseConv2D")
def depthwise(x: WasmArray, filter: WasmArray, *end: Any, geometry: Windows) -> Any:
    """Convolve each channel separately; several outputs per channel are decomposed."""
    if prod(geometry.window) > MAX_POSITIONS or filter.shape[-1] != 1:
        return NotImplemented
    words, _ = packing_sizes(0, geometry.out_shape[-1], 0)
    how = x.machine.cached[forward](geometry)
    return _run(DEPTHWISE, (how,), (x, filter), end, geometry.out_shape, words)


def _run(
    name: str, how: Any, given: Any, end: Any, shape: Any, words: int, *sizes: int
) -> Any:
    x, w = given
    x_zero, bias, scale, zero = end
    machine = given[0].machine
    if not (x.size and w.size and prod(shape)):
        return NotImplemented
    dtype = RESULTS[scale is not None] if zero is None else zero.dtype
    y = empty(machine, shape, dtype)
    memory = empty(machine, (words,), INT32)
    weights = (w,) if name == DEPTHWISE else prepared(w, panels)
    arrays = *how, x, *weights, x_zero, bias, scale, zero, y, memory
    pointers = [0 if x is None else x.pointer for x in arrays]
    numbers = x.dtype == INT8, 0 if scale is None else scale.size, RESULTS.index(dtype)
    machine.callers[name](*pointers, *numbers, *sizes)
    return y
