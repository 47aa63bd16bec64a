"""Positions in sorted arrays, and distinct elements."""

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array

kernels = KernelTable()

MANY = 4096


@kernels("SearchSorted")
def search_sorted(sorted_sequence: Array, values: Array, *, side: str) -> Array:
    """Row by row; what to look for, if much, in order, so that the cache helps."""
    y = np.empty(values.shape, np.int32)
    for i, row in enumerate(sorted_sequence):
        sought = values[i]
        if sought.size > MANY:
            order = sought.argsort()
            y[i, order] = row.searchsorted(sought[order], side)
        else:
            y[i] = row.searchsorted(sought, side)
    return y


@kernels("LowerBound")
def lower_bound(sorted_sequence: Array, values: Array) -> Array:
    """Return the positions to the left."""
    return search_sorted(sorted_sequence, values, side="left")


@kernels("UpperBound")
def upper_bound(sorted_sequence: Array, values: Array) -> Array:
    """Return the positions to the right."""
    return search_sorted(sorted_sequence, values, side="right")


@kernels("Unique")
def unique(x: Array, *, axis: int) -> tuple[Array, Array]:
    """Number what is distinct in the order of its first appearance.

    Numbers are sorted, and then numbered anew; slices are keys of a dict.
    """
    n = x.shape[axis]
    if x.ndim == 1 and x.dtype != object:
        inverse: Array = np.unique(x, return_inverse=True, equal_nan=False)[1]
        first = _first(inverse)
        order = first.argsort()
        numbers = np.empty(len(order), np.int32)
        numbers[order] = np.arange(len(order))
        first, inverse = first[order], numbers[inverse]
    else:
        rows = np.moveaxis(x, axis, 0).reshape(n, x.size // max(n, 1)).tolist()
        seen: dict[tuple[object, ...], int] = {}
        found = (seen.setdefault(tuple(row), len(seen)) for row in rows)
        inverse = np.fromiter(found, np.int32, n)
        first = _first(inverse)
    return x.take(first, axis), inverse


def _first(inverse: Array) -> Array:
    """Return where each number appears first: written from behind, the first stays."""
    first = np.zeros(inverse.max(initial=-1) + 1, np.intp)
    first[inverse[::-1]] = np.arange(len(inverse))[::-1]
    return first
