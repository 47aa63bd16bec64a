"""Reading rows by index, adding them up by id, and one-hot."""

import math

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array, boxed

kernels = KernelTable()

CHUNK = 1 << 15  # indices at a time, so that they stay in the cache


@kernels("GatherV2")
def gather(x: Array, indices: Array, *, axis: int, batch_dims: int) -> Array:
    """Let ``take`` check the range; with a batch, number the rows of a flat table."""
    n = x.shape[axis]
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
    """Leave out what is out of range, if something turns out to be."""
    ids = segment_ids
    try:
        return added(x, _unsigned(ids).astype(np.intp), num_segments)
    except IndexError:
        inside = (ids >= 0) & (ids < num_segments)
        return added(x[inside], ids[inside].astype(np.intp), num_segments)


def added(x: Array, ids: Array, count: int) -> Array:
    """Return ``count`` sums of the rows of ``x`` by id; IndexError if one is too large.

    ``add.at`` is fast for one index an element, so that the columns of short rows are
    numbered too, a chunk at a time; of long ones each is added by itself. Where many
    rows meet in one sum, and for float16 always, sums are kept in float64.
    """
    m, rest = len(ids), x.shape[1:]
    width = math.prod(rest)
    wide = x.dtype.kind in "fc" and (x.dtype.itemsize == 2 or m > 16 * count)
    dtype = np.result_type(x.dtype, np.float64) if wide else x.dtype
    y = np.zeros((count, width), dtype)
    table = x.reshape(m, width)
    if width >= 512:
        seen = np.zeros(count, bool)
        seen[ids] = True
        if np.count_nonzero(seen) == m:
            y[ids] = table
        else:
            for i, row in zip(ids.tolist(), table, strict=True):
                into = y[i]
                np.add(into, row, into)
    elif width:
        flat, columns, step = y.reshape(-1), np.arange(width), CHUNK // width
        for at in range(0, m, step):
            rows = table[at : at + step].reshape(-1).astype(dtype, copy=False)
            some = ids[at : at + step]
            if width > 1:
                some = (some[:, None] * width + columns).reshape(-1)
            np.add.at(flat, some, rows)
    return y.astype(x.dtype, copy=False).reshape(count, *rest)


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
    """Write one element a row, with the new axis last, and move it."""
    flat = indices.reshape(-1)
    y = np.full((flat.size, depth), off_value, dtype)
    rows = np.flatnonzero((flat >= 0) & (flat < depth))
    y[rows, flat[rows]] = on_value
    y = y.reshape((*indices.shape, depth))
    return y if axis == indices.ndim else np.moveaxis(y, -1, axis)
