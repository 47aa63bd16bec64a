"""Reading rows by index, adding them up by id, and one-hot."""

import math
from typing import Any

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array, boxed
from ..native import BITS, MOST, NAMES, in_order
from ..native import kernels as in_c

kernels = KernelTable()

READ, SET = (in_c(name, {None: ""}).get(None) for name in ("gather", "one_hot"))
ADD, ADD_WIDE = in_c("scatter_add", BITS), in_c("scatter_add_wide", NAMES)
FEW = 8192  # elements, of which NumPy's own way is as fast


@kernels("GatherV2")
def gather(x: Array, indices: Array, *, axis: int, batch_dims: int) -> Array:
    """Let ``take`` check the range; with a batch, number the rows of a flat table."""
    n = x.shape[axis]
    if indices.size * x.size >= FEW * n:
        y = _read(x, indices, axis, batch_dims)
        if y is not None:
            return y
    try:
        at = _unsigned(indices)
        if not batch_dims:
            return boxed(x.take(at, axis))
        if at.size and at.max() >= n:
            raise IndexError
    except IndexError:
        raise out_of_range("gather", indices, axis, n) from None
    batch, outer, rest = x.shape[:batch_dims], x.shape[batch_dims:axis], x.shape[axis:]
    b, o, middle = math.prod(batch), math.prod(outer), indices.shape[batch_dims:]
    rows = np.arange(b * o).reshape(b, o, 1) * n
    rows = rows + indices.reshape(b, 1, math.prod(middle))
    y = x.reshape(b * o * n, *rest[1:]).take(rows, 0)
    return y.reshape(*batch, *outer, *middle, *rest[1:])


def _read(x: Array, indices: Array, axis: int, batch_dims: int) -> Array | None:
    """Read in C; None if NumPy is to do it, or to find a wrong index."""
    if not READ or not x.flags.c_contiguous or x.dtype.hasobject:
        return None
    lead, outer, rest = x.shape[:batch_dims], x.shape[batch_dims:axis], x.shape[axis:]
    middle, width = indices.shape[batch_dims:], math.prod(rest[1:]) * x.itemsize
    y, bad = np.empty((*lead, *outer, *middle, *rest[1:]), x.dtype), np.zeros(1, "u4")
    if max(x.size, y.size, width) >= MOST or not y.size:
        return None
    sizes = math.prod(lead), math.prod(outer), math.prod(middle), 1, None, rest[0]
    READ(in_order(x), _narrow(indices), y, bad, *sizes, width)
    return None if bad[0] else y


def _narrow(indices: Array) -> Array:
    """Return int32; -1, which is out of range, for what does not fit."""
    if indices.dtype.itemsize > 4 or indices.dtype == np.uint32:
        fits = (indices >= 0) & (indices < MOST)
        indices = np.where(fits, indices, -1)
    return in_order(indices.astype(np.int32, copy=False))


def gathered(op: str, x: Array, indices: Array, axis: int) -> Array:
    """Read along an axis for another op, without a batch."""
    try:
        return boxed(x.take(_unsigned(indices), axis))
    except IndexError:
        raise out_of_range(op, indices, axis, x.shape[axis]) from None


def _unsigned(indices: Array) -> Array:
    """Return indices that NumPy never counts from the end: negative ones are huge."""
    if indices.dtype.itemsize == 4:
        return indices.view(np.uint32)
    indices = indices.astype(np.int64, copy=False)  # to which uint64 does not cast
    if indices.size and indices.min() < 0:
        raise IndexError
    return indices


def out_of_range(op: str, indices: Array, axis: int, n: int) -> IndexError:
    """Return an error that names the first bad index."""
    bad = np.extract((indices < 0) | (indices >= n), indices)
    found = f"index {bad[0]}" if bad.size else "every index"
    return IndexError(f"{op}: {found} is out of range for axis {axis} with size {n}")


@kernels("UnsortedSegmentSum")
def unsorted_segment_sum(x: Array, segment_ids: Array, *, num_segments: int) -> Array:
    """Leave out what is out of range."""
    return added(x, segment_ids, num_segments)


# What is added up in another dtype.
WIDER: dict[Any, Any] = dict.fromkeys(map(np.dtype, "?bhBH"), np.dtype("i4"))
WIDER[np.dtype("f2")] = np.dtype("f4")


def added(x: Array, ids: Array, count: int) -> Array:
    """Return ``count`` sums of the rows of ``x`` by id; others are left out.

    Where many rows meet in one sum, and for float16 always, sums are kept in float64.
    """
    m, rest, dtype = len(ids), x.shape[1:], x.dtype
    wide = dtype.kind in "fc" and (dtype.itemsize == 2 or m > 16 * count)
    some = x.astype(WIDER.get(dtype, dtype), copy=False)
    if dtype.kind == "c":
        some = in_order(x).view(x.real.dtype)
    width = math.prod(rest) * (2 if dtype.kind == "c" else 1)
    into = np.dtype(np.float64) if wide else some.dtype
    y = np.zeros((count, width), into)
    add = (ADD_WIDE if wide and some.itemsize == 4 else ADD).get(some.dtype)
    if add and max(x.size, 2 * y.size) < MOST and x.size:
        bad, sizes = np.zeros(1, np.uint32), np.array([count], np.int32)
        add(in_order(some), _narrow(ids), y, bad, m, 1, sizes, width)
    elif x.size:
        inside = (ids >= 0) & (ids < count)
        np.add.at(y, ids[inside], some.reshape(m, width)[inside])
    if dtype.kind == "c":
        y = y.astype(some.dtype, copy=False).view(dtype)
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
    """Write one element a row; on NumPy with the new axis last, which is then moved."""
    shape = indices.shape
    if SET and not dtype.hasobject and indices.size * depth < MOST:
        y = np.full((*shape[:axis], depth, *shape[axis:]), off_value, dtype)
        value, inner = np.full(1, on_value, dtype), math.prod(shape[axis:])
        if y.size:
            sizes = indices.size, depth, inner, dtype.itemsize
            SET(_narrow(indices), y, value, *sizes)
        return y
    flat = indices.reshape(-1)
    y = np.full((flat.size, depth), off_value, dtype)
    rows = np.flatnonzero((flat >= 0) & (flat < depth))
    y[rows, flat[rows]] = on_value
    y = y.reshape((*shape, depth))
    return y if axis == indices.ndim else np.moveaxis(y, -1, axis)
