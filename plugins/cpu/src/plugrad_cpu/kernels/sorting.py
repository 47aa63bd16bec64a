"""Putting elements in order. NaN comes last, or first in what descends."""

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array

kernels = KernelTable()


@kernels("TopK")
def top_k(x: Array, *, k: int, sorted: bool) -> tuple[Array, Array]:
    """Select the k largest first, so that only these have to be sorted."""
    lead, n = x.shape[:-1], x.shape[-1]
    if k < n:
        indices = _chosen(x, k) if k else np.empty((*lead, 0), np.int32)
        x = np.take_along_axis(x, indices, -1)
    else:
        indices = np.broadcast_to(np.arange(n, dtype=np.int32), x.shape)
    if not sorted:
        return x, indices
    order = _descending(x)
    values = np.take_along_axis(x, order, -1)
    return values, order if k == n else np.take_along_axis(indices, order, -1)


def _chosen(x: Array, k: int) -> Array:
    """Return the indices of the ``k`` largest; of equal ones at the end the first."""
    n = x.shape[-1]
    least = np.partition(x, n - k, -1)[..., n - k : n - k + 1]
    hit = x >= least
    nan = x.dtype.kind == "f" and np.isnan(np.maximum.reduce(x, None, initial=0))
    if nan or np.count_nonzero(hit) > least.size * k:
        more = x > least
        same = x == least
        if nan:
            more |= np.isnan(x) & ~np.isnan(least)
            same |= np.isnan(x) & np.isnan(least)
        left = k - np.count_nonzero(more, -1, keepdims=True)
        hit = more | (same & (same.cumsum(-1) <= left))
    return (np.flatnonzero(hit) % n).astype(np.int32).reshape(*x.shape[:-1], k)


def _descending(x: Array) -> Array:
    """Return the indices of the elements from the largest on.

    Numbers of up to 32 bits are sorted together with their index, as one of 64 bits:
    these are all different, so that the sorting need not be stable, which is slow. All
    others are sorted the other way round twice, which leaves equal ones in order.
    """
    n = x.shape[-1]
    if x.itemsize > 4:
        order = x[..., ::-1].argsort(-1, kind="stable")[..., ::-1]
        return (n - 1 - order).astype(np.int32)
    pairs = _falling(x) << 32 | np.arange(n)
    pairs.sort(-1)
    return pairs.astype(np.int32)  # the lower half


def _falling(x: Array) -> Array:
    """Return integers of 32 bits, as int64, that fall as the elements rise."""
    if x.dtype.kind == "u":
        return 0x7FFFFFFF - x.astype(np.int64)
    if x.dtype.kind != "f":
        return ~x.astype(np.int64)
    x = x.astype(np.float32, copy=False) + np.float32(0)  # -0.0 equals 0.0
    nan = np.isnan(x)
    bits = x.view(np.int32)
    bits ^= bits >> 31 & 0x7FFFFFFF  # those of negative numbers fall
    bits[nan] = 0x7FFFFFFF
    return ~bits.astype(np.int64)


@kernels("Sort")
def sort(x: Array, *, axis: int, descending: bool) -> Array:
    """Sort; a descending result is a reversed view.

    Of equal elements only zeros differ, by their sign: a row has as many before and
    after, so that they are put back in the order in which they were.
    """
    y = np.sort(x, axis)
    y = np.flip(y, axis) if descending else y
    if x.dtype.kind == "f" and (np.signbit(x) & (x == 0)).any():
        rows = np.moveaxis(x, axis, -1)
        found = np.moveaxis(y, axis, -1)
        found[found == 0] = rows[rows == 0]
    return y
