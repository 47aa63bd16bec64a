"""Putting elements in order: NaN counts as the largest."""

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
    kind = f"#define FLOATING {int(dtype.kind == 'f')}\n"
    kind += f"#define SIGNED {int(dtype.kind == 'i')}\n"
    key = source.RAW[dtype.itemsize]
    text = kind + source.prelude(device.style)
    text += source.template("sort", type=source.C[dtype], key=key)
    scalars = [None] * 5 + [np.int64] + [np.int32] * 3
    return device.kernel(text, "top", scalars, group=source.GROUP[device.style])


@kernels("TopK")
def top_k(x: ClArray, *, k: int, sorted: bool) -> tuple[ClArray, ClArray]:
    """Sort the places in each row, a row an item."""
    n, rows, shape = x.shape[-1], math.prod(x.shape[:-1]), (*x.shape[:-1], k)
    values, places = empty(x.device, shape, x.dtype), empty(x.device, shape, INT32)
    if values.size:
        scratch = empty(x.device, (2 * x.size,), INT32)
        keys = empty(x.device, (2 * x.size,), x.dtype)
        launch = _program(x.device, x.dtype)
        items = rows if x.device.style == "cpu" else launch.items(rows)
        arrays = (x, scratch, keys, values, places)
        buffers = [array.buffer for array in arrays]
        launch(x.size * 16, items, *buffers, rows, n, k, int(sorted))
    return values, places
