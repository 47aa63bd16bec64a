"""Convolutions and products of bytes, in C; elsewhere their decompositions run."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from plugrad.geometry import Windows
from plugrad.plugin import KernelTable

from .. import native
from ..arrays import Array
from .linalg import packed

kernels = KernelTable()
INT8 = np.dtype(np.int8)
CONV = native.kernels("quantized_conv", {INT8: "_i8"})
DEPTHWISE = native.kernels("quantized_depthwise", {INT8: "_i8"})
MOST_POSITIONS = 64  # as in integer_depthwise.c
# The number of a result's dtype, as in integer.h.
RESULTS = [np.dtype(name) for name in ("int32", "float32", "int8", "uint8")]


def conv(x: Array, panels: Array, sums: Array, *end: Any, geometry: Windows) -> Any:
    """A product of what windows see, and panels."""
    return _run(CONV, (x, panels, sums), end, geometry, *needs(geometry))


def needs(windows: Windows) -> tuple[int, int]:
    """Return the words of memory that a product needs, and how many rows it packs."""
    n, k = windows.out_shape[-1], prod(windows.filter_shape[:-1])
    return packed(prod(windows.out_shape[:-1]), n, k)


def depthwise(x: Array, filter: Array, *end: Any, geometry: Windows) -> Any:
    """Each channel by itself, if it has one result."""
    many = prod(geometry.window) > MOST_POSITIONS
    if many or filter.shape[-1] != 1:
        return NotImplemented
    words, _ = packed(0, geometry.out_shape[-1], 0)
    return _run(DEPTHWISE, (x, filter), end, geometry, words)


def _run(
    kernel: Any, given: Any, end: Any, windows: Windows, words: int, *more: int
) -> Any:
    x_zero, bias, scale, zero = end
    how, xs = native.described(windows), native.contiguous(*given, bias, scale)
    if how is None or xs is None or not min(x.size for x in given):
        return NotImplemented
    dtype = RESULTS[scale is not None] if zero is None else zero.dtype
    y = np.empty(windows.out_shape, dtype)
    if y.size >= native.MOST or words >= native.MOST or not y.size:
        return NotImplemented
    *xs, bias, scale = xs
    numbers = xs[0].dtype == np.int8, 0 if scale is None else scale.size
    pointers = (how, *xs, x_zero, bias, scale, zero, y, np.empty(words, np.int32))
    kernel[INT8](*pointers, *numbers, RESULTS.index(dtype), *more)
    return y


if CONV:
    kernels["QuantizedConv2D"] = conv
    kernels["QuantizedDepthwiseConv2D"] = depthwise
