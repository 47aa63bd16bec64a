"""Gathers rows by index, and adds up rows by segment id."""

from __future__ import annotations

import functools
import math
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from plugrad.plugin import KernelTable, explained, takes_bfloat16

from .. import source
from ..arrays import ClArray, DType, empty
from ..joins import largest_unit
from ..moves import LARGE_ELEMENTS, offset_types, per_item
from ..runtime import Device, Launch
from ..segments import segment_sum

kernels = KernelTable()


@functools.cache
def _program(
    device: Device, size: int, integer: DType, items: int, wrap: bool, small: bool
) -> Launch:
    return source.kernel(
        device,
        "gather",
        ITEMS=items,
        WRAP=wrap,
        type=source.RAW[size],
        integer=source.C[integer],
        each=per_item(size),
        **offset_types(device, small),
    )


@kernels("GatherV2")
@takes_bfloat16
def gather(x: ClArray, indices: ClArray, *, axis: int, batch_dims: int) -> Any:
    """Copy rows; the next wait for the device raises IndexError for a bad index."""
    return _gather_checked(x, indices, axis, batch_dims, wrap=False)


@kernels("Take")
@takes_bfloat16
def take(x: ClArray, indices: ClArray, *, axis: int, batch_dims: int) -> Any:
    """Copy rows; negative indices count from the end."""
    return _gather_checked(x, indices, axis, batch_dims, wrap=True)


def _gather_checked(
    x: ClArray, indices: ClArray, axis: int, batch_dims: int, wrap: bool
) -> ClArray:
    n = x.shape[axis]
    what = f"gather: {{}} is out of range for axis {axis} with size {n}"
    if not n and indices.size:
        error = IndexError(what.format("every index"))
        raise explained(error, "index-out-of-range")
    device = x.device
    owner = indices.base or indices
    known = _KNOWN_CASES.setdefault(owner, set())
    case = (n, wrap)
    if case in known:
        return rows(x, indices, axis, batch_dims, (device.flag, 0), wrap)
    with device.check(what, partial(known.add, case)) as check:
        return rows(x, indices, axis, batch_dims, check, wrap)


# For each index array, the cases in which all its indices are known to be in range. A
# case consists of the size of the axis and of whether negative indices are allowed.
# Arrays never change, so these cases are not checked again: on a GPU, reading the flag
# takes as long as a small gather.
_KNOWN_CASES: WeakKeyDictionary[ClArray, set[tuple[int, bool]]] = WeakKeyDictionary()


def rows(
    x: ClArray,
    indices: ClArray,
    axis: int,
    batch_dims: int,
    check: tuple[Any, int],
    wrap: bool = False,
) -> ClArray:
    """Copy rows.

    ``check`` consists of a flag and of the number to write there for a bad index; with
    the number 0, indices are not checked. With ``wrap``, negative indices count from
    the end.
    """
    batch = x.shape[:batch_dims]
    outer = x.shape[batch_dims:axis]
    rest = x.shape[axis:]
    middle = indices.shape[batch_dims:]
    y = empty(x.device, (*batch, *outer, *middle, *rest[1:]), x.dtype)
    n = rest[0]
    width = math.prod(rest[1:])
    lookups = math.prod(middle)
    if not y.size:
        return y
    cpu = x.device.style == "cpu"
    count = y.size // width
    size = x.dtype.itemsize
    if not cpu:  # copy rows in the largest possible units
        unit = largest_unit(size, width)
        width = width * size // unit
        size = unit
    items = source.share(x.device, width)
    small = max(x.size, y.size, indices.size) < LARGE_ELEMENTS
    launch = _program(x.device, size, indices.dtype, items, wrap, small)
    grid = -(-count // items) if cpu else launch.items(count * width)
    sizes = (n, math.prod(outer), lookups, width, count)
    launch(y.size, grid, x.buffer, indices.buffer, y.buffer, *check, *sizes)
    return y


@kernels("UnsortedSegmentSum")
def unsorted_segment_sum(x: ClArray, segment_ids: ClArray, *, num_segments: int) -> Any:
    """Add up rows by id; rows with an id out of range are ignored."""
    if segment_ids.shape != x.shape[:1]:
        raise ValueError(
            f"opencl: segment ids of shape {segment_ids.shape} do not fit the rows of "
            f"shape {x.shape}; there must be one id for each row"
        )
    return segment_sum(x, segment_ids, num_segments)
