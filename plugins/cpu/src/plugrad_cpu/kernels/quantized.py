"""Int8 and uint8 convolutions and matrix products in C; without C, they are decomposed.

The C kernels multiply packed weights. If weights are used repeatedly, their packed
form is cached with them.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from plugrad.geometry import Windows
from plugrad.plugin import KernelTable, prepared

from .. import native
from ..arrays import Array
from .linalg import packing_sizes

kernels = KernelTable()
INT8 = np.dtype(np.int8)
CONV = native.kernels("quantized_conv", {INT8: "_i8"})
PRODUCT = native.kernels("quantized_matmul", {INT8: "_i8"})
DEPTHWISE = native.kernels("quantized_depthwise", {INT8: "_i8"})
PACK = native.kernels("pack_panels", {INT8: "_i8"})
PANEL_COLUMNS = 16  # NR of integer.c
MAX_POSITIONS = 64  # positions of a window, as in integer_depthwise.c
# The index of a result's dtype in this list is its number in integer.h.
RESULTS = [np.dtype(name) for name in ("int32", "float32", "int8", "uint8")]


def panels(w: Array) -> tuple[Array, Array]:
    """Return the weights packed for the C kernels, and the sums of their columns."""
    n = w.shape[-1]
    k = w.size // n
    made = np.empty((-(-n // PANEL_COLUMNS), -(-k // 4), PANEL_COLUMNS, 4), INT8)
    sums = np.empty(n, np.int32)
    PACK[INT8](native.as_contiguous(w), made, sums, k, n)
    return made, sums


def conv(x: Array, filter: Array, *end: Any, geometry: Windows) -> Any:
    """Convolve: multiply the windows by the filter."""
    words, rows = workspace_sizes(geometry)
    if (how := native.describe_windows(geometry)) is None:
        return NotImplemented
    return _run(CONV, (how,), (x, filter), end, geometry.out_shape, words, rows)


def workspace_sizes(windows: Windows) -> tuple[int, int]:
    """Return a convolution's workspace size in words, and how many rows it packs."""
    n = windows.out_shape[-1]
    k = prod(windows.filter_shape[:-1])
    return packing_sizes(prod(windows.out_shape[:-1]), n, k)


def matmul(a: Array, b: Array, *end: Any) -> Any:
    """Multiply all rows by the weights."""
    m = prod(a.shape[:-1])
    k, n = b.shape
    words, rows = packing_sizes(m, n, k)
    return _run(PRODUCT, (), (a, b), end, (*a.shape[:-1], n), words, rows, m, n, k)


def depthwise(x: Array, filter: Array, *end: Any, geometry: Windows) -> Any:
    """Convolve each channel separately; several outputs per channel are decomposed."""
    how = native.describe_windows(geometry)
    too_many = prod(geometry.window) > MAX_POSITIONS
    if too_many or filter.shape[-1] != 1 or how is None:
        return NotImplemented
    words, _ = packing_sizes(0, geometry.out_shape[-1], 0)
    return _run(DEPTHWISE, (how,), (x, filter), end, geometry.out_shape, words)


def _run(
    kernel: Any, how: Any, given: Any, end: Any, shape: Any, words: int, *sizes: int
) -> Any:
    x, w = given
    x_zero, bias, scale, zero = end
    size = prod(shape)
    if max(x.size, w.size, size, words) >= native.MAX_ELEMENTS or not (
        x.size and w.size
    ):
        return NotImplemented
    if not size:
        return NotImplemented
    dtype = RESULTS[scale is not None] if zero is None else zero.dtype
    y = np.empty(shape, dtype)
    memory = np.empty(words, np.int32)
    weights = (native.as_contiguous(w),) if kernel is DEPTHWISE else prepared(w, panels)
    bias, scale = (v if v is None else native.as_contiguous(v) for v in (bias, scale))
    arrays = native.as_contiguous(x), *weights, x_zero, bias, scale, zero, y, memory
    numbers = x.dtype == INT8, 0 if scale is None else scale.size, RESULTS.index(dtype)
    kernel[INT8](*how, *arrays, *numbers, *sizes)
    return y


if CONV:
    kernels["QuantizedConv2D"] = conv
    kernels["QuantizedMatMul"] = matmul
    kernels["QuantizedDepthwiseConv2D"] = depthwise
