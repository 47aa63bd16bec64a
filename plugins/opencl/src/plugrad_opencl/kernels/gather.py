"""Reading rows by index, and adding them up by id."""

from __future__ import annotations

import functools
import math
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from plugrad.plugin import KernelTable

from .. import source
from ..arrays import ClArray, DType, empty
from ..joins import widest
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
def gather(x: ClArray, indices: ClArray, *, axis: int, batch_dims: int) -> Any:
    """Copy rows; IndexError comes when the device is next waited for."""
    return _checked(x, indices, axis, batch_dims, wrap=False)


@kernels("Take")
def take(x: ClArray, indices: ClArray, *, axis: int, batch_dims: int) -> Any:
    """Copy rows; negative indices count from the end."""
    return _checked(x, indices, axis, batch_dims, wrap=True)


def _checked(
    x: ClArray, indices: ClArray, axis: int, batch_dims: int, wrap: bool
) -> ClArray:
    n = x.shape[axis]
    what = f"gather: {{}} is out of range for axis {axis} with size {n}"
    if not n and indices.size:
        raise IndexError(what.format("every index"))
    device = x.device
    whole = indices.base or indices
    known = _GOOD.setdefault(whole, set())
    case = (n, wrap)
    if case in known:
        return rows(x, indices, axis, batch_dims, (device.flag, 0), wrap)
    with device.check(what, partial(known.add, case)) as check:
        return rows(x, indices, axis, batch_dims, check, wrap)


# For which sizes an array of indices has been found to be in range, with negative ones
# or without. An array does not change, so it is not checked again: on a GPU, reading
# the flag takes as long as a small gather.
_GOOD: WeakKeyDictionary[ClArray, set[tuple[int, bool]]] = WeakKeyDictionary()


def rows(
    x: ClArray,
    indices: ClArray,
    axis: int,
    batch_dims: int,
    check: tuple[Any, int],
    wrap: bool = False,
) -> ClArray:
    """Copy rows. ``check`` gets an index that is out of range.

    Its number is 0 if there is none. ``wrap`` is whether negative ones count from the
    end.
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
    if not cpu:  # the largest elements that rows consist of
        wide = widest(size, width)
        width = width * size // wide
        size = wide
    items = source.share(x.device, width)
    small = max(x.size, y.size, indices.size) < LARGE_ELEMENTS
    launch = _program(x.device, size, indices.dtype, items, wrap, small)
    grid = -(-count // items) if cpu else launch.items(count * width)
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
    return segment_sum(x, segment_ids, num_segments)
