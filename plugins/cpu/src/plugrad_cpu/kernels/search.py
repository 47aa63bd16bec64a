"""Binary search in sorted arrays, and unique elements."""

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array

kernels = KernelTable()

SORT_MIN_VALUES = 4096  # above, sorting the values first pays off


@kernels("SearchSorted")
def search_sorted(sorted_sequence: Array, values: Array, *, side: str) -> Array:
    """Search row by row; many values are sorted first, for better cache locality."""
    y = np.empty(values.shape, np.int32)
    for i, row in enumerate(sorted_sequence):
        sought = values[i]
        if sought.size > SORT_MIN_VALUES:
            order = sought.argsort()
            y[i, order] = row.searchsorted(sought[order], side)
        else:
            y[i] = row.searchsorted(sought, side)
    return y


@kernels("LowerBound")
def lower_bound(sorted_sequence: Array, values: Array) -> Array:
    """Return the leftmost insertion positions."""
    return search_sorted(sorted_sequence, values, side="left")


@kernels("UpperBound")
def upper_bound(sorted_sequence: Array, values: Array) -> Array:
    """Return the rightmost insertion positions."""
    return search_sorted(sorted_sequence, values, side="right")


@kernels("Unique")
def unique(x: Array, *, axis: int, sorted: bool) -> tuple[Array, Array]:
    """Number the distinct elements; renumber them if a different order is requested.

    At first, elements of a vector are in ascending order; slices are keys of a dict, in
    the order of their first appearance.
    """
    n = x.shape[axis]
    order: Array | None = None
    if x.ndim == 1 and x.dtype != object:
        inverse: Array = np.unique(x, return_inverse=True, equal_nan=False)[1]
        first = _first(inverse)
        if not sorted:
            order = first.argsort()
    else:
        rows = np.moveaxis(x, axis, 0).reshape(n, x.size // max(n, 1))
        seen: dict[tuple[object, ...], int] = {}
        found = (seen.setdefault(tuple(row), len(seen)) for row in rows.tolist())
        inverse = np.fromiter(found, np.int32, n)
        first = _first(inverse)
        if sorted:
            order = _ascending(rows[first])
    if order is not None:
        numbers = np.empty(len(order), np.int32)
        numbers[order] = np.arange(len(order))
        first, inverse = first[order], numbers[inverse]
    return x.take(first, axis), inverse.astype(np.int32, copy=False)


def _ascending(rows: Array) -> Array:
    """Return the indices that sort rows lexicographically."""
    if not rows.size:
        return np.arange(len(rows))
    if rows.dtype == object:
        rows = rows.astype(np.bytes_)  # in UTF-8, whose order is that of code points
    return np.lexsort(rows.T[::-1])


def _first(inverse: Array) -> Array:
    """Return the first position of each number, writing positions in reverse."""
    first = np.zeros(inverse.max(initial=-1) + 1, np.intp)
    first[inverse[::-1]] = np.arange(len(inverse))[::-1]
    return first
