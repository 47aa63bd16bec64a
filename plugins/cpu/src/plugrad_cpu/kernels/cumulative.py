"""Sums and products up to each element, and counting."""

import math
from typing import Any

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array
from ..native import BITS, MOST, around, in_order
from ..native import kernels as in_c
from .gather import added

kernels = KernelTable()

# In which to accumulate: errors would grow with the number of elements.
WIDE = {
    np.dtype(narrow): np.dtype(wide)
    for narrow, wide in [("f2", "f8"), ("f4", "f8"), ("c8", "c16")]
}


SUM, PRODUCT = in_c("cumsum", BITS), in_c("cumprod", BITS)


def _accumulated(
    ufunc: Any, x: Array, axis: int, exclusive: bool, reverse: bool
) -> Array:
    function = (SUM if ufunc is np.add else PRODUCT).get(x.dtype)
    if function and 0 < x.size < MOST:
        y = np.empty(x.shape, x.dtype)
        function(in_order(x), y, *around(x.shape, axis), exclusive, reverse)
        return y
    x = np.flip(x, axis) if reverse else x
    y = ufunc.accumulate(x, axis, WIDE.get(x.dtype, x.dtype))
    y = y.astype(x.dtype, copy=False)
    if exclusive and y.size:
        along = np.moveaxis(y, axis, 0)
        along[1:] = along[:-1]  # NumPy takes care of the overlap
        along[0] = ufunc.identity
    return np.flip(y, axis) if reverse else y


@kernels("Cumsum")
def cumsum(x: Array, *, axis: int, exclusive: bool, reverse: bool) -> Array:
    """Accumulate in double precision."""
    return _accumulated(np.add, x, axis, exclusive, reverse)


@kernels("Cumprod")
def cumprod(x: Array, *, axis: int, exclusive: bool, reverse: bool) -> Array:
    """Accumulate in double precision."""
    return _accumulated(np.multiply, x, axis, exclusive, reverse)


@kernels("Bincount")
def bincount(x: Array, weights: Array | None, *, size: int) -> Array:
    """NumPy counts fast, and adds up floating numbers in double precision."""
    ids = x.reshape(-1)
    each = None if weights is None else weights.reshape(-1)
    if ids.size and (ids.min() < 0 or ids.max() >= size):
        inside = (ids >= 0) & (ids < size)
        ids, each = ids[inside], None if each is None else each[inside]
    if each is None:
        return np.bincount(ids, minlength=size).astype(np.int32)
    if each.dtype.kind == "f":
        return np.bincount(ids, each, size).astype(each.dtype)
    return added(each, ids, size)


@kernels("DenseBincount")
def dense_bincount(
    x: Array, weights: Array | None, *, size: int, binary_output: bool
) -> Array:
    """Count in all rows at once: each has numbers of its own."""
    lead = x.shape[:-1]
    rows = math.prod(lead)
    ids = np.arange(0, rows * size, size).reshape(*lead, 1) + x if size else x
    ids = np.where((x >= 0) & (x < size), ids, -1)
    y = bincount(ids, None if binary_output else weights, size=rows * size)
    if binary_output:
        y = (y > 0).astype(np.int32 if weights is None else weights.dtype)
    return y.reshape(*lead, size)
