"""Gathers, adds up and updates rows at indices with several coordinates.

The results are the same every time, whatever the order in which work items run.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from plugrad.plugin import KernelTable, explained, in_place, takes_bfloat16

from .. import source
from ..arrays import ClArray, DType, empty, filled
from ..products import table
from ..runtime import Device, Launch
from . import gather

kernels = KernelTable()

MAX_PAIRED_UPDATES = 128  # limited, because each is compared with all later ones
INT32 = np.dtype(np.int32)
INT64 = np.dtype(np.int64)


def _run(
    device: Device, size: int, integer: DType, name: str, n: int, width: int, *args: Any
) -> None:
    """Launch a kernel for ``n`` rows; on a CPU, an item computes a block of rows."""
    cpu = device.style == "cpu"
    items = source.share(device, width)
    launch = _program(device, name, size, integer, items)
    launch(n * width, -(-n // items) if cpu else launch.items(n * width), *args)


@functools.cache
def _program(
    device: Device, name: str, size: int, integer: DType, items: int
) -> Launch:
    raw, c = source.RAW[size], source.C[integer]
    return source.kernel(device, "scatter", name, ITEMS=items, type=raw, integer=c)


def _index_message(op: str, indices: ClArray, lead: tuple[int, ...]) -> str:
    """Return the message for a bad index; raise it if no index can be in range."""
    what = f"{op}: {{}} is out of range for axes of sizes {lead}"
    if indices.size and not math.prod(lead):
        error = IndexError(what.format("every index"))
        raise explained(error, "index-out-of-range")
    return what


def _targets(op: str, indices: ClArray, lead: tuple[int, ...]) -> ClArray:
    """Return indices into the axes ``lead`` as indices into their flattened axis.

    An index out of range becomes -1, and the next wait raises IndexError.
    """
    device, depth = indices.device, indices.shape[-1]
    y = empty(device, indices.shape[:-1], INT64)
    if y.size:
        buffers = (indices.buffer, y.buffer, table(device, lead or (1,)).buffer)
        with device.check(_index_message(op, indices, lead)) as check:
            numbers = (*check, y.size, depth)
            _run(device, 8, indices.dtype, "targets", y.size, 1, *buffers, *numbers)
    return y


@kernels("GatherNd")
@takes_bfloat16
def gather_nd(params: ClArray, indices: ClArray) -> Any:
    """Flatten the indices, and copy rows."""
    depth = indices.shape[-1]
    lead, rest = params.shape[:depth], params.shape[depth:]
    if math.prod(lead) >= 2**31:
        return NotImplemented
    targets = _targets("gather_nd", indices, lead)
    x = params.view((math.prod(lead), *rest))
    return gather.rows(x, targets, 0, 0, (params.device.flag, 0))


@kernels("ScatterNd")
def scatter_nd(indices: ClArray, updates: ClArray, *, shape: tuple[int, ...]) -> Any:
    """Flatten the indices, and add up rows; those with index -1 are ignored."""
    lead = shape[: indices.shape[-1]]
    if updates.dtype.kind == "b" or math.prod(lead) >= 2**31:
        return NotImplemented
    targets = _targets("scatter_nd", indices, lead)
    x = updates.view((targets.size, math.prod(shape[len(lead) :])))
    ids = targets.view((targets.size,))
    y = gather.unsorted_segment_sum(x, ids, num_segments=math.prod(lead))
    return y.view(shape)


@kernels("TensorScatterUpdate")
@takes_bfloat16
def tensor_scatter_update(x: ClArray, indices: ClArray, updates: ClArray) -> Any:
    """Find the last update of each row, and write it."""
    device, depth = x.device, indices.shape[-1]
    lead = x.shape[:depth]
    width = math.prod(x.shape[depth:])
    count = math.prod(indices.shape[:-1])
    targets = math.prod(lead)
    if not updates.size:
        _targets("tensor_scatter_update", indices, lead)
        return x
    what = _index_message("tensor_scatter_update", indices, lead)
    if max(count, targets) >= 2**31:
        return NotImplemented
    winner = filled(device, (targets,), 0, INT32)
    y = empty(device, x.shape, x.dtype)
    run = functools.partial(_run, device, x.dtype.itemsize, indices.dtype)
    sizes = table(device, lead or (1,))
    buffers = (indices.buffer, winner.buffer, sizes.buffer)
    with device.check(what) as (flag, number):
        run("number", count, 1, *buffers, flag, number, count, depth)
    arrays = (x, updates, winner, y)
    run("settle", targets, width, *[a.buffer for a in arrays], targets, width)
    return y


@in_place(tensor_scatter_update)
def tensor_scatter_update_in_place(
    x: ClArray, indices: ClArray, updates: ClArray
) -> Any:
    """Write each update into the tensor, unless a later one is for the same row."""
    depth = indices.shape[-1]
    lead = x.shape[:depth]
    count = math.prod(indices.shape[:-1])
    if not updates.size or x.dtype.hasobject or count > MAX_PAIRED_UPDATES:
        return NotImplemented
    width = math.prod(x.shape[depth:])
    sizes = table(x.device, lead or (1,))
    buffers = (indices.buffer, updates.buffer, x.buffer, sizes.buffer)
    with x.device.check(
        _index_message("tensor_scatter_update", indices, lead)
    ) as check:
        numbers = (*check, count, width, depth)
        size = x.dtype.itemsize
        _run(x.device, size, indices.dtype, "replace", count, width, *buffers, *numbers)
    return x
