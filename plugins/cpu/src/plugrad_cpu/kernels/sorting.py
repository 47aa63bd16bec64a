"""Sorting. NaN comes last in ascending order and first in descending order."""

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array

kernels = KernelTable()


@kernels("TopK")
def top_k(x: Array, *, k: int, sorted: bool) -> tuple[Array, Array]:
    """Select the k largest first, so that only these are sorted."""
    lead, n = x.shape[:-1], x.shape[-1]
    if k < n:
        indices = _select_largest(x, k) if k else np.empty((*lead, 0), np.int32)
        x = np.take_along_axis(x, indices, -1)
    else:
        indices = np.broadcast_to(np.arange(n, dtype=np.int32), x.shape)
    if not sorted:
        return x, indices
    order = _descending(x)
    values = np.take_along_axis(x, order, -1)
    return values, order if k == n else np.take_along_axis(indices, order, -1)


def _select_largest(x: Array, k: int) -> Array:
    """Return the indices of the ``k`` largest; ties go to the first elements."""
    n = x.shape[-1]
    least = np.partition(x, n - k, -1)[..., n - k : n - k + 1]
    hit = x >= least
    nan = x.dtype.kind == "f" and np.isnan(np.maximum.reduce(x, None, initial=0))
    if nan or np.count_nonzero(hit) > least.size * k:
        above = x > least
        same = x == least
        if nan:
            above |= np.isnan(x) & ~np.isnan(least)
            same |= np.isnan(x) & np.isnan(least)
        left = k - np.count_nonzero(above, -1, keepdims=True)
        hit = above | (same & (same.cumsum(-1) <= left))
    return (np.flatnonzero(hit) % n).astype(np.int32).reshape(*x.shape[:-1], k)


def _descending(x: Array) -> Array:
    """Return indices that sort in descending order; equal elements keep their order.

    Numbers of up to 32 bits are combined with their indices into distinct 64-bit
    numbers, so that no stable sort, which is slow, is needed. Others are reversed,
    sorted in ascending order and reversed again, which keeps equal elements in order.
    """
    n = x.shape[-1]
    if x.itemsize > 4:
        order = x[..., ::-1].argsort(-1, kind="stable")[..., ::-1]
        return (n - 1 - order).astype(np.int32)
    pairs = _descending_keys(x) << 32 | np.arange(n)
    pairs.sort(-1)
    return pairs.astype(np.int32)  # the lower half


def _descending_keys(x: Array) -> Array:
    """Return 32-bit keys, as int64, that descend as the elements ascend."""
    if x.dtype.kind == "u":
        return 0x7FFFFFFF - x.astype(np.int64)
    if x.dtype.kind != "f":
        return ~x.astype(np.int64)
    x = x.astype(np.float32, copy=False) + np.float32(0)  # -0.0 equals 0.0
    nan = np.isnan(x)
    bits = x.view(np.int32)
    bits ^= bits >> 31 & 0x7FFFFFFF  # bits of negative numbers descend
    bits[nan] = 0x7FFFFFFF
    return ~bits.astype(np.int64)


@kernels("Sort")
def sort(x: Array, *, axis: int, descending: bool) -> Array:
    """Sort; a descending result is a reversed view.

    Equal elements are identical except for zeros of different signs. A row has the same
    zeros before and after sorting, so they are put back in their original order.
    """
    y = np.sort(x, axis)
    y = np.flip(y, axis) if descending else y
    if x.dtype.kind == "f" and (np.signbit(x) & (x == 0)).any():
        rows = np.moveaxis(x, axis, -1)
        found = np.moveaxis(y, axis, -1)
        found[found == 0] = rows[rows == 0]
    return y
