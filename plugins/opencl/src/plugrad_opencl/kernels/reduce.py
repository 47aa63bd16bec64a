"""Reductions (see the module ``reductions``), and the indices of extreme elements."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from plugrad.plugin import KernelTable

from .. import source
from ..arrays import ClArray, DType, Shape, empty
from ..elementwise import Function
from ..moves import around
from ..reductions import along, lines_of
from ..runtime import Device, Launch
from .creation import cast

# The maximum number of items that share a column on a GPU: a work group of 256 items
# then covers at least 8 columns.
MAX_COLUMN_LINES = 32


def _reduction(name: str) -> Function:
    def kernel(x: ClArray, *, axis: Shape, keepdims: bool) -> Any:
        return along(name, x, axis, keepdims)

    kernel.__qualname__ = kernel.__name__ = name
    return kernel


kernels = KernelTable(
    All=_reduction("All"),
    Any=_reduction("Any"),
    Max=_reduction("Max"),
    Mean=_reduction("Mean"),
    Min=_reduction("Min"),
    Sum=_reduction("Sum"),
)


@kernels("Prod")
def prod(x: ClArray, *, axis: Shape, keepdims: bool) -> Any:
    """Multiply in float64 if possible: intermediate products may overflow float32."""
    if x.dtype != np.float32 or not x.device.double:
        return along("Prod", x, axis, keepdims)
    y = along("Prod", cast(x, dtype=np.dtype(np.float64)), axis, keepdims)
    return cast(y, dtype=x.dtype)


@functools.cache
def _finder(
    device: Device, sign: str, dtype: DType, items: int, rows: bool, lines: int
) -> Launch:
    c = source.C[dtype]
    return source.kernel(
        device, "arg", ITEMS=items, ROWS=rows, LINES=lines, type=c, sign=sign
    )


def _arg(sign: str, x: ClArray, axis: int) -> ClArray:
    _, n, m = around(x, axis)
    y = empty(x.device, (*x.shape[:axis], *x.shape[axis + 1 :]), np.dtype(np.int32))
    if y.size:
        if not n:
            raise ValueError(f"opencl: axis {axis} of shape {x.shape} is empty")
        items = source.share(x.device, n)
        rows = m == 1
        if x.device.style == "cpu":
            lines = 1
            global_size = -(-y.size // items)
        else:
            group = source.GROUP_ITEMS["gpu"]
            lines = lines_of(n) if rows else min(lines_of(n), MAX_COLUMN_LINES)
            global_size = -(-y.size * lines // group) * group
        launch = _finder(x.device, sign, x.dtype, items, rows, lines)
        launch(x.size, global_size, x.buffer, y.buffer, n, m, y.size)
    return y


@kernels("ArgMax")
def argmax(x: ClArray, *, axis: int) -> ClArray:
    """Return the first index of the maximum; NaN counts only if all values are NaN."""
    return _arg(">", x, axis)


@kernels("ArgMin")
def argmin(x: ClArray, *, axis: int) -> ClArray:
    """Return the first index of the minimum; NaN counts only if all values are NaN."""
    return _arg("<", x, axis)
