"""Reading rows by index, summing rows by id, and one-hot."""

import math
from typing import Any

import numpy as np
from plugrad.plugin import KernelTable, explained, takes_bfloat16

from ..arrays import Array, boxed
from ..native import FLOAT_SUFFIXES, MAX_ELEMENTS, NUMBER_SUFFIXES, as_contiguous
from ..native import kernels as in_c

kernels = KernelTable()

READ, SET = (in_c(name, {None: ""}).get(None) for name in ("gather", "one_hot"))
ADD = in_c("scatter_add", NUMBER_SUFFIXES)
ADD_WIDE = in_c("scatter_add_wide", FLOAT_SUFFIXES)
MAX_AXES = 64  # NumPy's limit
GATHER_MIN_ELEMENTS = 8192  # below, NumPy is as fast


@kernels("GatherV2")
@takes_bfloat16
def gather(x: Array, indices: Array, *, axis: int, batch_dims: int) -> Array:
    """Read rows along an axis; each batch has its own indices."""
    return gathered("gather", x, indices, axis, batch_dims)


@kernels("Take")
@takes_bfloat16
def take(x: Array, indices: Array, *, axis: int, batch_dims: int) -> Array:
    """Read rows along an axis; negative indices count from the end."""
    n, positions = x.shape[axis], indices
    if indices.dtype.kind == "i" and indices.size and indices.min() < 0:
        wide = indices.astype(np.int64)
        positions = np.where(wide < 0, wide + n, wide)
    try:
        return gathered("gather", x, positions, axis, batch_dims)
    except IndexError:
        bad = (positions < 0) | (positions >= n)
        raise out_of_range("gather", indices[bad], axis, n) from None


def gathered(
    op: str, x: Array, indices: Array, axis: int, batch_dims: int = 0
) -> Array:
    """Read rows in C or by ``take``, which checks indices; errors name ``op``."""
    n = x.shape[axis]
    if batch_dims or indices.size * x.size >= GATHER_MIN_ELEMENTS * n:
        y = _read(x, indices, axis, batch_dims)
        if y is not None:
            return y
    try:
        at = _unsigned(indices)
        if not batch_dims:
            axes = x.ndim - 1 + at.ndim
            if axes > MAX_AXES:  # ``take`` would crash the process
                rule = f"the result would have {axes} axes, more than {MAX_AXES}"
                raise ValueError(f"{op}: {rule}")
            return boxed(x.take(at, axis))
        middle = (*x.shape[batch_dims:axis], *indices.shape[batch_dims:])
        y = np.empty((*x.shape[:batch_dims], *middle, *x.shape[axis + 1 :]), x.dtype)
        for i in np.ndindex(x.shape[:batch_dims]):
            y[i] = x[i].take(at[i], axis - batch_dims)
    except IndexError:
        raise out_of_range(op, indices, axis, n) from None
    return y


def _read(x: Array, indices: Array, axis: int, batch_dims: int) -> Array | None:
    """Return rows read in C; None if NumPy must read them or report a bad index."""
    if not READ or not x.flags.c_contiguous or x.dtype.hasobject:
        return None
    lead = x.shape[:batch_dims]
    outer = x.shape[batch_dims:axis]
    rest = x.shape[axis:]
    middle = indices.shape[batch_dims:]
    width = math.prod(rest[1:]) * x.itemsize
    y = np.empty((*lead, *outer, *middle, *rest[1:]), x.dtype)
    bad = np.zeros(1, "u4")
    if max(x.size, y.size, width) >= MAX_ELEMENTS or not y.size:
        return None
    sizes = math.prod(lead), math.prod(outer), math.prod(middle), 1, None, rest[0]
    READ(as_contiguous(x), _narrow(indices), y, bad, *sizes, width)
    return None if bad[0] else y


def _narrow(indices: Array) -> Array:
    """Return indices as int32; those that do not fit become -1, out of range."""
    if indices.dtype.itemsize > 4 or indices.dtype == np.uint32:
        fits = (indices >= 0) & (indices < MAX_ELEMENTS)
        indices = np.where(fits, indices.astype(np.int32), np.int32(-1))
    return as_contiguous(indices.astype(np.int32, copy=False))


def _unsigned(indices: Array) -> Array:
    """Return indices that ``take`` never counts from the end.

    Negative int32 indices become huge; other negative indices raise an IndexError here.
    """
    if indices.dtype.itemsize == 4:
        return indices.view(np.uint32)
    indices = indices.astype(np.int64, copy=False)  # ``take`` does not accept uint64
    if indices.size and indices.min() < 0:
        raise IndexError
    return indices


def out_of_range(op: str, indices: Array, axis: int, n: int) -> IndexError:
    """Return an error that names the first bad index."""
    bad = np.extract((indices < 0) | (indices >= n), indices)
    found = f"index {bad[0]}" if bad.size else "every index"
    text = f"{op}: {found} is out of range for axis {axis} with size {n}"
    return explained(IndexError(text), "index-out-of-range")


@kernels("UnsortedSegmentSum")
def unsorted_segment_sum(x: Array, segment_ids: Array, *, num_segments: int) -> Array:
    """Sum rows by id; rows with an id out of range are ignored."""
    return added(x, segment_ids, num_segments)


# Dtypes whose sums are computed in a wider dtype.
WIDER: dict[Any, Any] = dict.fromkeys(map(np.dtype, "?bhBH"), np.dtype("i4"))
WIDER[np.dtype("f2")] = np.dtype("f4")


def added(x: Array, ids: Array, count: int) -> Array:
    """Return ``count`` sums of the rows of ``x`` by id; ignore ids out of range.

    Sums of many rows, and all sums of float16, are accumulated in float64.
    """
    m = len(ids)
    rest = x.shape[1:]
    dtype = x.dtype
    wide = dtype.kind in "fc" and (dtype.itemsize == 2 or m > 16 * count)
    addends = x.astype(WIDER.get(dtype, dtype), copy=False)
    if dtype.kind == "c":
        addends = as_contiguous(x).view(x.real.dtype)
    width = math.prod(rest) * (2 if dtype.kind == "c" else 1)
    y = np.zeros((count, width), np.float64 if wide else addends.dtype)
    add = (ADD_WIDE if wide and addends.itemsize == 4 else ADD).get(addends.dtype)
    if add and x.size and max(addends.size, y.size) < MAX_ELEMENTS:
        bad = np.zeros(1, np.uint32)
        sizes = np.array([count], np.int32)
        add(as_contiguous(addends), _narrow(ids), y, bad, m, 1, sizes, width)
    elif x.size:
        inside = (ids >= 0) & (ids < count)
        np.add.at(y, ids[inside], addends.reshape(m, width)[inside])
    if dtype.kind == "c":
        y = y.astype(addends.dtype, copy=False).view(dtype)
    return y.astype(dtype, copy=False).reshape(count, *rest)


@kernels("OneHot")
def one_hot(
    indices: Array,
    *,
    depth: int,
    on_value: complex,
    off_value: complex,
    axis: int,
    dtype: np.dtype,
) -> Array:
    """Write one element per row; on NumPy, append the new axis, then move it."""
    shape = indices.shape
    if SET and not dtype.hasobject and indices.size * depth < MAX_ELEMENTS:
        y = np.full((*shape[:axis], depth, *shape[axis:]), off_value, dtype)
        value = np.full(1, on_value, dtype)
        inner = math.prod(shape[axis:])
        SET(_narrow(indices), y, value, indices.size, depth, inner, dtype.itemsize)
        return y
    hot = np.expand_dims(indices, -1) == np.arange(depth)
    y = np.where(hot, *np.array([on_value, off_value]).astype(dtype))
    return y if axis == indices.ndim else np.moveaxis(y, -1, axis)
