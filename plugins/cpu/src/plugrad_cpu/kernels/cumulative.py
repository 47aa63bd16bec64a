"""Cumulative sums and products, and counting."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array
from ..native import (
    HALF,
    MAX_ELEMENTS,
    NUMBER_SUFFIXES,
    as_contiguous,
    in_float32,
    sizes_around,
)
from ..native import kernels as in_c
from .gather import added

kernels = KernelTable()

# The dtypes to accumulate in: otherwise errors grow with the number of elements.
WIDE = {
    np.dtype(narrow): np.dtype(wide)
    for narrow, wide in [("f2", "f8"), ("f4", "f8"), ("c8", "c16")]
}
SCANS = {name: in_c(name, NUMBER_SUFFIXES) for name in ("cumsum", "cumprod")}


def _scan(name: str, ufunc: Any) -> Callable[..., Array]:
    """Return the kernel of a cumulative ``ufunc``, in double precision."""

    def kernel(x: Array, *, axis: int, exclusive: bool, reverse: bool) -> Array:
        if x.dtype == HALF and SCANS[name]:
            how = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
            return in_float32(kernel, x, **how)
        if x.dtype in SCANS[name] and 0 < x.size < MAX_ELEMENTS:
            y = np.empty(x.shape, x.dtype)
            sizes = sizes_around(x.shape, axis)
            SCANS[name][x.dtype](as_contiguous(x), y, *sizes, exclusive, reverse)
            return y
        x = np.flip(x, axis) if reverse else x
        y = ufunc.accumulate(x, axis, WIDE.get(x.dtype, x.dtype))
        y = y.astype(x.dtype, copy=False)
        if exclusive and y.size:
            along = np.moveaxis(y, axis, 0)
            along[1:] = along[:-1]  # NumPy handles the overlap
            along[0] = ufunc.identity
        return np.flip(y, axis) if reverse else y

    return kernel


kernels["Cumsum"] = _scan("cumsum", np.add)
kernels["Cumprod"] = _scan("cumprod", np.multiply)


@kernels("Bincount")
def bincount(x: Array, weights: Array | None, *, size: int) -> Array:
    """Sum floating-point weights in double precision."""
    each = np.ones(x.size, np.int32) if weights is None else weights.reshape(-1)
    wide = np.float64 if each.dtype.kind == "f" else each.dtype
    y = added(each.astype(wide, copy=False), x.reshape(-1), size)
    return y.astype(each.dtype, copy=False)


@kernels("DenseBincount")
def dense_bincount(
    x: Array, weights: Array | None, *, size: int, binary_output: bool
) -> Array:
    """Count in all rows at once: the ids of row i are shifted by ``i * size``."""
    lead = x.shape[:-1]
    rows = math.prod(lead)
    ids = np.arange(0, rows * size, size).reshape(*lead, 1) + x if size else x
    ids = np.where((x >= 0) & (x < size), ids, -1)
    y = bincount(ids, None if binary_output else weights, size=rows * size)
    if binary_output:
        y = (y > 0).astype(np.int32 if weights is None else weights.dtype)
    return y.reshape(*lead, size)
