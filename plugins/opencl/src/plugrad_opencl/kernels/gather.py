"""Reading rows by index, and adding them up by id."""

from __future__ import annotations

import functools
import math
from typing import Any

from plugrad.plugin import KernelTable

from .. import source
from ..arrays import ClArray, DType, empty
from ..runtime import Device, Launch

kernels = KernelTable()


@functools.cache
def _program(
    device: Device, name: str, type_: str, integer: DType, items: int = 1
) -> Launch:
    return source.kernel(
        device,
        "gather",
        name,
        ITEMS=items,
        EXACT=type_ in ("float", "double", "float2"),
        type=type_,
        integer=source.C[integer],
    )


@kernels("GatherV2")
def gather(x: ClArray, indices: ClArray, *, axis: int, batch_dims: int) -> Any:
    """Copy rows; IndexError comes when the device is next waited for."""
    n = x.shape[axis]
    what = f"gather: {{}} is out of range for axis {axis} with size {n}"
    if not n and indices.size:
        raise IndexError(what.format("every index"))
    with x.device.check(what) as check:
        return rows(x, indices, axis, batch_dims, check)


def rows(
    x: ClArray, indices: ClArray, axis: int, batch_dims: int, check: tuple[Any, int]
) -> ClArray:
    """Copy rows. ``check`` gets an index that is out of range.

    Its number is 0 if there is none.
    """
    batch, outer, rest = x.shape[:batch_dims], x.shape[batch_dims:axis], x.shape[axis:]
    middle = indices.shape[batch_dims:]
    y = empty(x.device, (*batch, *outer, *middle, *rest[1:]), x.dtype)
    n, width, lookups = rest[0], math.prod(rest[1:]), math.prod(middle)
    if not y.size:
        return y
    cpu, type_ = x.device.style == "cpu", source.RAW[x.dtype.itemsize]
    items = source.share(x.device, width)
    launch = _program(x.device, "gather", type_, indices.dtype, items)
    count = y.size // width
    grid = -(-count // items) if cpu else launch.items(y.size)
    sizes = (n, math.prod(outer), lookups, width, count)
    launch(y.size, grid, x.buffer, indices.buffer, y.buffer, *check, *sizes)
    return y


@kernels("UnsortedSegmentSum")
def unsorted_segment_sum(x: ClArray, segment_ids: ClArray, *, num_segments: int) -> Any:
    """Leave out what is out of range."""
    if segment_ids.shape != x.shape[:1]:
        raise ValueError(
            f"opencl: {segment_ids.shape} segment ids are not one for each row of an "
            f"array of shape {x.shape}"
        )
    rows, rest = x.shape[0], x.shape[1:]
    y = empty(x.device, (num_segments, *rest), x.dtype)
    if not y.size:
        return y
    device, width = x.device, math.prod(rest)
    launch = _program(device, "segment_sum", source.C[x.dtype], segment_ids.dtype)
    parts, grid = 1, launch.items(y.size)
    if device.style == "cpu":
        many = x.size + y.size > source.BLOCK_ELEMENTS and rows * 8 < x.size + y.size
        grid = parts = min(2 * device.units, num_segments) if many else 1
    sizes = (rows, width, num_segments, parts)
    low = empty(device, y.shape, y.dtype)
    buffers = (x.buffer, segment_ids.buffer, y.buffer, low.buffer)
    launch(x.size + y.size, grid, *buffers, *sizes)
    return y
