"""Grey-scale dilation by kernel position, each over the windows it does not pad."""

from collections.abc import Iterator

import numpy as np
from plugrad.geometry import Windows
from plugrad.plugin import KernelTable

from ..arrays import Array
from . import reduce
from ._windows import Index, batches, lined

kernels = KernelTable()

# A kernel position: its number, its row of the filter, the windows, what they read.
Position = tuple[int, tuple[int, ...], Index, Index]


def _positions(windows: Windows) -> Iterator[Position]:
    """Yield kernel positions from the last to the first, whose number is the largest.

    Windows that see padding at a position are left out.
    """
    rows = [*np.ndindex(*windows.window)]
    for number, at in enumerate(reversed(rows), 1):
        here = [slice(None)]
        there = [slice(None)]
        for i, a in enumerate(at):
            stride = windows.strides[i]
            offset = a * windows.dilations[i] - windows.padding[i][0]
            begin = max(-(offset // stride), 0)
            size = windows.in_shape[i + 1]
            count = windows.out_shape[i + 1]
            end = max(min(-((offset - size) // stride), count), begin)
            here.append(slice(begin, end))
            first = begin * stride + offset
            there.append(slice(first, first + (end - begin) * stride, stride))
        if all(one.start < one.stop for one in here[1:]):
            yield number, at, tuple(here), tuple(there)


@kernels("Dilation2D")
def dilation2d(x: Array, filter: Array, *, geometry: Windows) -> Array:
    """``np.maximum`` is faster than ``np.fmax``, and NaN is rare."""
    y = np.empty(geometry.out_shape, x.dtype)
    y.fill(-np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min)
    for part in batches(x):
        _largest(np.maximum, x[part], filter, y[part], geometry)
    if x.dtype.kind == "f" and np.isnan(y.max(initial=-np.inf)):
        y.fill(-np.inf)
        _largest(np.fmax, x, filter, y, geometry)
    return y


def _largest(
    larger: np.ufunc, x: Array, filter: Array, y: Array, windows: Windows
) -> None:
    for _, at, here, there in _positions(windows):
        onto = y[here]
        larger(onto, x[there] + lined(filter[at], onto), out=onto)


def _winners(x: Array, filter: Array, windows: Windows) -> Array:
    """Return, for each window, which position is the first with the largest sum; or 0.

    Of sums that are rounded to one number, that with the largest error is largest.
    """
    y = dilation2d(x, filter, geometry=windows)
    found = np.zeros(y.shape, np.int32)
    positions = list(_positions(windows))
    for part in batches(x, 1 << 18):
        hits = 0
        for number, at, here, there in positions:
            a, onto = x[part][there], found[part][here]
            hit = a + lined(filter[at], a) == y[part][here]
            hits += int(np.count_nonzero(hit))
            np.maximum(onto, hit * np.int32(number), out=onto)
        if x.dtype.kind == "f" and hits > np.count_nonzero(found[part]):
            _decide(x[part], filter, y[part], found[part], positions)
    return found


def _decide(
    x: Array, filter: Array, y: Array, found: Array, positions: list[Position]
) -> None:
    """Find the winners among equal sums by what rounding took from them."""
    most = np.full(y.shape, -np.inf, x.dtype)
    for number, at, here, there in positions:
        a = x[there]
        b = lined(filter[at], a)
        total = a + b
        error = _error(a, b, total)
        hit = total == y[here]
        hit &= ~(error < most[here])  # not >=: sums may be infinite, their errors NaN
        np.copyto(most[here], error, where=hit)
        np.copyto(found[here], number, where=hit)


def _error(a: Array, b: Array, total: Array) -> Array:
    """Return what rounding took from ``a + b`` (Knuth)."""
    part = total - a
    error = total - part
    np.subtract(a, error, out=error)
    np.subtract(b, part, out=part)
    return np.add(error, part, out=error)


@kernels("Dilation2DBackpropInput")
def dilation2d_input(x: Array, filter: Array, dy: Array, *, geometry: Windows) -> Array:
    """Hand each cotangent to the element that has won."""
    winners = _winners(x, filter, geometry)
    dx = np.zeros(x.shape, dy.dtype)
    for number, _, here, there in _positions(geometry):
        onto = dx[there]
        np.add(onto, _mine(winners, number, dy, here), out=onto)
    return dx


@kernels("Dilation2DBackpropFilter")
def dilation2d_filter(
    x: Array, filter: Array, dy: Array, *, geometry: Windows
) -> Array:
    """Add up the cotangents of the windows in which a position has won."""
    winners = _winners(x, filter, geometry)
    df = np.zeros(filter.shape, dy.dtype)
    for number, at, here, _ in _positions(geometry):
        mine = _mine(winners, number, dy, here)
        df[at] = reduce.sum(mine, axis=(0, 1, 2), keepdims=False)
    return df


def _mine(winners: Array, number: int, dy: Array, here: Index) -> Array:
    """Return the cotangents of the windows in which a position has won, and else 0."""
    return np.where(winners[here] == number, dy[here], dy.dtype.type(0))
