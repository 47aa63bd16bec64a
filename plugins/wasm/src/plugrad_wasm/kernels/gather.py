"""Reading rows at places, writing and adding them up there, and one-hot.

C passes over places that are out of range and says that there were some; which ones is
found out only then.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from plugrad.plugin import KernelTable

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
from ..launch import INT32, WIDER, Calls, cast, or_strings
from ..runtime import machine
from .complexes import HALF, parts
from .creation import filled

kernels = KernelTable()
_gather, _put = machine.kernel("gather"), machine.kernel("scatter_put")
_one_hot = machine.kernel("one_hot")
_add, _add_wide = Calls("scatter_add", bits=True), Calls("scatter_add_wide")


def places_of(indices: WasmArray) -> WasmArray:
    """Return indices as int32; -1, which is out of range, for what does not fit."""
    if indices.dtype is INT32:
        return indices
    if indices.dtype in WIDER:
        return cast(indices, dtype=INT32)
    values = download(indices)
    outside = (values < 0) | (values >= 2**31)
    native: WasmArray = upload(np.where(outside, -1, values).astype(np.int32))
    return native


def mark() -> WasmArray:
    """Return a number for C to say that a place is out of range."""
    bad = empty((), INT32)
    writable(bad)[...] = 0
    return bad


def check(op: str, bad: WasmArray, indices: WasmArray, sizes: Shape) -> None:
    """Raise IndexError for the first place that is out of range, if one is."""
    if writable(bad):
        for axis, n in enumerate(sizes):
            _check_axis(op, download(indices)[..., axis], axis, n)


def check_axis(
    op: str, bad: WasmArray, indices: WasmArray, axis: int, size: int
) -> None:
    """Raise IndexError for the first index that is out of range, if one is."""
    if writable(bad):
        _check_axis(op, download(indices), axis, size)


def _check_axis(op: str, found: Array, axis: int, n: int) -> None:
    wrong = found[(found < 0) | (found >= n)]
    if wrong.size:
        raise IndexError(
            f"{op}: index {wrong[0]} is out of range for axis {axis} with size {n}"
        )


# --- reading ---------------------------------------------------------------------


def gather(x: WasmArray, indices: WasmArray, *, axis: int, batch_dims: int) -> Any:
    """Read rows along an axis; a batch has indices of its own."""
    shape, n, lead = x.shape, x.shape[axis], indices.shape[:batch_dims]
    outer, rest, middle = shape[batch_dims:axis], shape[axis + 1 :], indices.shape
    y = empty((*lead, *outer, *middle[batch_dims:], *rest), x.dtype)
    places, bad, sizes = places_of(indices), mark(), describe((n,))
    counts = prod(lead), prod(outer), prod(middle[batch_dims:])
    width = prod(rest) * x.dtype.itemsize
    if prod(counts):
        pointers = x.pointer, places.pointer, y.pointer, bad.pointer
        _gather(*pointers, *counts, 1, sizes.pointer, n, width)
        check_axis("gather", bad, indices, axis, n)
    return y


def gather_nd(params: WasmArray, indices: WasmArray) -> Any:
    """Read rows at places of several coordinates."""
    depth, count = indices.shape[-1], prod(indices.shape[:-1])
    lead, rest = params.shape[:depth], params.shape[depth:]
    y = empty((*indices.shape[:-1], *rest), params.dtype)
    places, bad, sizes = places_of(indices), mark(), describe(lead or (0,))
    width = prod(rest) * params.dtype.itemsize
    if count:
        pointers = params.pointer, places.pointer, y.pointer, bad.pointer
        _gather(*pointers, 1, 1, count, depth, sizes.pointer, prod(lead), width)
        check("gather_nd", bad, indices, lead)
    return y


kernels["GatherV2"] = or_strings("GatherV2", gather)
kernels["GatherNd"] = or_strings("GatherNd", gather_nd)

# --- adding up and writing -------------------------------------------------------


def added(
    x: WasmArray, places: WasmArray, bad: WasmArray, sizes: Shape, shape: Shape
) -> Any:
    """Return sums of rows by place; in float64 where many rows meet in one sum."""
    dtype = x.dtype
    if dtype in HALF:
        y = added(parts(x), places, bad, sizes, (*shape, 2))
        if y is NotImplemented:
            return y
        return WasmArray(shape, dtype, y.pointer, y.base or y)
    if dtype in WIDER:
        y = added(cast(x, dtype=WIDER[dtype]), places, bad, sizes, shape)
        return cast(y, dtype=dtype)
    depth = len(sizes)
    width = prod(shape[depth:])
    count = x.size // width if width else 0
    call, into = _add[dtype], dtype
    if count > 16 * prod(sizes) and _add_wide[dtype]:
        call, into = _add_wide[dtype], np.dtype(np.float64)
    if call is None:
        return NotImplemented
    y, how = filled(shape, 0, into), describe(sizes or (0,))
    if width:
        pointers = x.pointer, places.pointer, y.pointer, bad.pointer
        call(*pointers, count, depth, how.pointer, width)
    return cast(y, dtype=dtype)


@kernels("UnsortedSegmentSum")
def unsorted_segment_sum(
    x: WasmArray, segment_ids: WasmArray, *, num_segments: int
) -> Any:
    """Rows whose id is out of range are left out."""
    shape = (num_segments, *x.shape[1:])
    return added(x, places_of(segment_ids), mark(), (num_segments,), shape)


@kernels("ScatterNd")
def scatter_nd(indices: WasmArray, updates: WasmArray, *, shape: Shape) -> Any:
    """Add up rows."""
    sizes, bad = shape[: indices.shape[-1]], mark()
    if updates.dtype.hasobject:
        return NotImplemented
    y = added(updates, places_of(indices), bad, sizes, shape)
    if not y.size:
        writable(bad)[...] = 1  # C has looked at no place
    check("scatter_nd", bad, indices, sizes)
    return y


def tensor_scatter_update(
    tensor: WasmArray, indices: WasmArray, updates: WasmArray
) -> Any:
    """Copy, and write into the copy, in order."""
    depth, count = indices.shape[-1], prod(indices.shape[:-1])
    sizes, rest = tensor.shape[:depth], tensor.shape[depth:]
    y, places, bad = upload(download(tensor)), places_of(indices), mark()
    how, width = describe(sizes or (0,)), prod(rest) * tensor.dtype.itemsize
    pointers = updates.pointer, places.pointer, y.pointer, bad.pointer
    _put(*pointers, count, depth, how.pointer, width)
    check("tensor_scatter_update", bad, indices, sizes)
    return y


kernels["TensorScatterUpdate"] = or_strings(
    "TensorScatterUpdate", tensor_scatter_update
)


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
    """Fill, and write one element for each index."""
    if dtype.hasobject:
        return NotImplemented
    shape = indices.shape
    y = filled((*shape[:axis], depth, *shape[axis:]), off_value, dtype)
    places, value = places_of(indices), upload(np.asarray(on_value).astype(dtype))
    pointers, inner = (places.pointer, y.pointer, value.pointer), prod(shape[axis:])
    if y.size:
        _one_hot(*pointers, prod(shape), depth, inner, dtype.itemsize)
    return y
