"""Reading, writing and summing rows by index, and one-hot.

C skips indices that are out of range and sets a flag; Python then finds the first one.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from plugrad.plugin import KernelTable, explained, in_place, takes_bfloat16

from ..arrays import (
    Array,
    DType,
    Shape,
    WasmArray,
    describe,
    download,
    empty,
    upload,
    writable,
)
from ..launch import INT32, WIDER, Exports, cast
from ..runtime import Machine
from .complexes import HALF, parts
from .creation import filled

kernels = KernelTable()
MAX_LISTED = 16  # coordinates; for so few, NumPy is faster than a C call
_add = Exports("scatter_add", bits=True)
_add_wide = Exports("scatter_add_wide")


def int32_indices(indices: WasmArray) -> WasmArray:
    """Return indices as int32; those that do not fit become -1, out of range."""
    if indices.dtype is INT32:
        return indices
    if indices.dtype in WIDER:
        return cast(indices, dtype=INT32)
    values = download(indices)
    outside = (values < 0) | (values >= 2**31)
    native: WasmArray = upload(
        indices.machine, np.where(outside, np.int32(-1), values.astype(np.int32))
    )
    return native


def new_flag(machine: Machine) -> WasmArray:
    """Return a flag that C sets if an index is out of range."""
    bad = empty(machine, (), INT32)
    writable(bad)[...] = 0
    return bad


def check(op: str, bad: WasmArray, indices: WasmArray, sizes: Shape) -> None:
    """Raise IndexError for the first index out of range, if C has set the flag."""
    if writable(bad):
        for axis, n in enumerate(sizes):
            _check_axis(op, download(indices)[..., axis], axis, n)


def check_axis(
    op: str, bad: WasmArray, indices: WasmArray, axis: int, size: int
) -> None:
    """Raise IndexError for the first index out of range, if C has set the flag."""
    if writable(bad):
        _check_axis(op, download(indices), axis, size)


def _check_axis(op: str, found: Array, axis: int, n: int) -> None:
    wrong = found[(found < 0) | (found >= n)]
    if wrong.size:
        error = IndexError(
            f"{op}: index {wrong[0]} is out of range for axis {axis} with size {n}"
        )
        raise explained(error, "index-out-of-range")


# --- reading ---------------------------------------------------------------------


@kernels("GatherV2")
@takes_bfloat16
def gather(x: WasmArray, indices: WasmArray, *, axis: int, batch_dims: int) -> Any:
    """Read rows along an axis; each batch has its own indices."""
    shape = x.shape
    n = x.shape[axis]
    lead = indices.shape[:batch_dims]
    outer = shape[batch_dims:axis]
    rest = shape[axis + 1 :]
    middle = indices.shape
    machine = x.machine
    y = empty(machine, (*lead, *outer, *middle[batch_dims:], *rest), x.dtype)
    targets = int32_indices(indices)
    bad = new_flag(machine)
    sizes = machine.cached[describe]((n,))
    counts = prod(lead), prod(outer), prod(middle[batch_dims:])
    width = prod(rest) * x.dtype.itemsize
    if prod(counts):
        pointers = x.pointer, targets.pointer, y.pointer, bad.pointer
        machine.callers["gather"](*pointers, *counts, 1, sizes.pointer, n, width)
        check_axis("gather", bad, indices, axis, n)
    return y


@kernels("GatherNd")
@takes_bfloat16
def gather_nd(params: WasmArray, indices: WasmArray) -> Any:
    """Read rows at indices with several coordinates."""
    depth = indices.shape[-1]
    count = prod(indices.shape[:-1])
    lead, rest = params.shape[:depth], params.shape[depth:]
    machine = params.machine
    y = empty(machine, (*indices.shape[:-1], *rest), params.dtype)
    targets = int32_indices(indices)
    bad = new_flag(machine)
    sizes = machine.cached[describe](lead or (0,))
    width = prod(rest) * params.dtype.itemsize
    if count:
        pointers = params.pointer, targets.pointer, y.pointer, bad.pointer
        counts = 1, 1, count, depth, sizes.pointer, prod(lead), width
        machine.callers["gather"](*pointers, *counts)
        check("gather_nd", bad, indices, lead)
    return y


# --- summing and writing ---------------------------------------------------------


def added(
    x: WasmArray, targets: WasmArray, bad: WasmArray, sizes: Shape, shape: Shape
) -> Any:
    """Return sums of rows by index; sums of many rows are accumulated in float64."""
    dtype, machine = x.dtype, x.machine
    if dtype in HALF:
        y = added(parts(x), targets, bad, sizes, (*shape, 2))
        if y is NotImplemented:
            return y
        return y.viewed_as(dtype, shape)
    if dtype in WIDER:
        y = added(cast(x, dtype=WIDER[dtype]), targets, bad, sizes, shape)
        return cast(y, dtype=dtype)
    depth = len(sizes)
    width = prod(shape[depth:])
    count = x.size // width if width else 0
    export, into = _add[dtype], dtype
    if count > 16 * prod(sizes) and _add_wide[dtype]:
        export = _add_wide[dtype]
        into = np.dtype(np.float64)
    if export is None:
        return NotImplemented
    y = filled(machine, shape, 0, into)
    how = machine.cached[describe](sizes or (0,))
    if width:
        pointers = x.pointer, targets.pointer, y.pointer, bad.pointer
        machine.callers[export](*pointers, count, depth, how.pointer, width)
    return cast(y, dtype=dtype)


@kernels("UnsortedSegmentSum")
def unsorted_segment_sum(
    x: WasmArray, segment_ids: WasmArray, *, num_segments: int
) -> Any:
    """Sum rows by id; rows with an id out of range are ignored."""
    shape = (num_segments, *x.shape[1:])
    return added(
        x, int32_indices(segment_ids), new_flag(x.machine), (num_segments,), shape
    )


@kernels("ScatterNd")
def scatter_nd(indices: WasmArray, updates: WasmArray, *, shape: Shape) -> Any:
    """Sum rows by index."""
    if updates.dtype.hasobject:
        return NotImplemented
    sizes = shape[: indices.shape[-1]]
    bad = new_flag(updates.machine)
    y = added(updates, int32_indices(indices), bad, sizes, shape)
    if not y.size:
        writable(bad)[...] = 1  # C has not checked any index
    check("scatter_nd", bad, indices, sizes)
    return y


@kernels("TensorScatterUpdate")
@takes_bfloat16
def tensor_scatter_update(
    tensor: WasmArray, indices: WasmArray, updates: WasmArray
) -> Any:
    """Copy, and write the updates into the copy in order."""
    return put(upload(tensor.machine, download(tensor)), indices, updates)


@in_place(tensor_scatter_update)
def tensor_scatter_update_in_place(
    tensor: WasmArray, indices: WasmArray, updates: WasmArray
) -> Any:
    """Write the updates into the tensor in order, if all indices are in range."""
    if tensor.dtype.hasobject:
        return NotImplemented
    depth = indices.shape[-1]
    lead = tensor.shape[:depth]
    known = download(indices)
    if known.size > MAX_LISTED:
        return put(tensor, indices, updates)
    places = [*map(tuple, known.reshape(prod(indices.shape[:-1]), depth).tolist())]
    for place in places:
        for index, n in zip(place, lead, strict=True):
            if not 0 <= index < n:
                return NotImplemented  # the kernel raises the error
    y = writable(tensor)
    rows = download(updates).reshape(len(places), *tensor.shape[depth:])
    for place, row in zip(places, rows, strict=True):
        y[place] = row
    return tensor


def put(y: WasmArray, indices: WasmArray, updates: WasmArray) -> WasmArray:
    """Write rows into an array in order, and return it."""
    depth = indices.shape[-1]
    count = prod(indices.shape[:-1])
    sizes, rest = y.shape[:depth], y.shape[depth:]
    machine = y.machine
    targets = int32_indices(indices)
    bad = new_flag(machine)
    how = machine.cached[describe](sizes or (0,))
    width = prod(rest) * y.dtype.itemsize
    pointers = updates.pointer, targets.pointer, y.pointer, bad.pointer
    machine.callers["scatter_put"](*pointers, count, depth, how.pointer, width)
    check("tensor_scatter_update", bad, indices, sizes)
    return y


@kernels("OneHot")
def one_hot(
    indices: WasmArray,
    *,
    depth: int,
    on_value: complex,
    off_value: complex,
    axis: int,
    dtype: DType,
) -> Any:
    """Fill the result, and write one element for each index."""
    if dtype.hasobject:
        return NotImplemented
    shape, machine = indices.shape, indices.machine
    y = filled(machine, (*shape[:axis], depth, *shape[axis:]), off_value, dtype)
    targets = int32_indices(indices)
    value = upload(machine, np.asarray(on_value).astype(dtype))
    pointers = (targets.pointer, y.pointer, value.pointer)
    inner = prod(shape[axis:])
    if y.size:
        machine.callers["one_hot"](*pointers, prod(shape), depth, inner, dtype.itemsize)
    return y
