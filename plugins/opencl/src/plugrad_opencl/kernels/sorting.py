"""Sorts elements; NaN counts as the largest."""

from __future__ import annotations

import functools
import math

import numpy as np
from plugrad.plugin import KernelTable

from .. import source
from ..arrays import ClArray, DType, empty
from ..runtime import Device, Launch

kernels = KernelTable()

INT32 = np.dtype(np.int32)


@functools.cache
def _program(device: Device, dtype: DType) -> Launch:
    return source.kernel(
        device,
        "sort",
        "top",
        FLOATING=dtype.kind == "f",
        SIGNED=dtype.kind == "i",
        type=source.C[dtype],
        key=source.RAW[dtype.itemsize],
    )


@kernels("TopK")
def top_k(x: ClArray, *, k: int, sorted: bool) -> tuple[ClArray, ClArray]:
    """Sort the indices of each row; one work item sorts a row."""
    if not 0 <= k <= x.shape[-1]:
        raise ValueError(f"opencl: rows have {x.shape[-1]} elements, got k={k}")
    n = x.shape[-1]
    rows = math.prod(x.shape[:-1])
    shape = (*x.shape[:-1], k)
    values = empty(x.device, shape, x.dtype)
    indices = empty(x.device, shape, INT32)
    if values.size:
        scratch = empty(x.device, (2 * x.size,), INT32)
        keys = empty(x.device, (2 * x.size,), x.dtype)
        launch = _program(x.device, x.dtype)
        items = rows if x.device.style == "cpu" else launch.items(rows)
        arrays = (x, scratch, keys, values, indices)
        buffers = [array.buffer for array in arrays]
        launch(x.size * 16, items, *buffers, rows, n, k, int(sorted))
    return values, indices
