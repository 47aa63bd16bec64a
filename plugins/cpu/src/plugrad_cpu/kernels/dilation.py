"""Grayscale dilation: one kernel position at a time, without the padding."""

from collections.abc import Iterator

import numpy as np
from plugrad.geometry import Windows
from plugrad.plugin import KernelTable

from ..arrays import Array
from . import reduce
from ._windows import Index, batches, repeat_row

kernels = KernelTable()

# A kernel position: its number, its index in the filter, the index of the windows that
# read no padding there, and the index of the elements that they read.
Position = tuple[int, tuple[int, ...], Index, Index]


def _positions(windows: Windows) -> Iterator[Position]:
    """Yield kernel positions from last to first, numbered from 1.

    Windows that read padding at a position are omitted.
    """
    rows = [*np.ndindex(*windows.window)]
    for number, tap in enumerate(reversed(rows), 1):
        outputs = [slice(None)]
        inputs = [slice(None)]
        for i, a in enumerate(tap):
            stride = windows.strides[i]
            offset = a * windows.dilations[i] - windows.padding[i][0]
            begin = max(-(offset // stride), 0)
            size = windows.in_shape[i + 1]
            count = windows.out_shape[i + 1]
            end = max(min(-((offset - size) // stride), count), begin)
            outputs.append(slice(begin, end))
            first = begin * stride + offset
            inputs.append(slice(first, first + (end - begin) * stride, stride))
        if all(one.start < one.stop for one in outputs[1:]):
            yield number, tap, tuple(outputs), tuple(inputs)


@kernels("Dilation2D")
def dilation2d(x: Array, filter: Array, *, geometry: Windows) -> Array:
    """Use ``np.maximum``, and the slower ``np.fmax`` only if a result is NaN."""
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
    for _, tap, outputs, inputs in _positions(windows):
        onto = y[outputs]
        larger(onto, x[inputs] + repeat_row(filter[tap], onto), out=onto)


def _winners(x: Array, filter: Array, windows: Windows) -> Array:
    """Return the number of each window's first position with the largest sum, or 0.

    If several sums round to the same number, the largest is the one with the largest
    rounding error.
    """
    y = dilation2d(x, filter, geometry=windows)
    found = np.zeros(y.shape, np.int32)
    positions = list(_positions(windows))
    for part in batches(x, 1 << 18):
        hits = 0
        for number, tap, outputs, inputs in positions:
            a, onto = x[part][inputs], found[part][outputs]
            hit = a + repeat_row(filter[tap], a) == y[part][outputs]
            hits += int(np.count_nonzero(hit))
            np.maximum(onto, hit * np.int32(number), out=onto)
        if x.dtype.kind == "f" and hits > np.count_nonzero(found[part]):
            _break_ties(x[part], filter, y[part], found[part], positions)
    return found


def _break_ties(
    x: Array, filter: Array, y: Array, found: Array, positions: list[Position]
) -> None:
    """Find the largest among equal rounded sums by their rounding errors."""
    largest_error = np.full(y.shape, -np.inf, x.dtype)
    for number, tap, outputs, inputs in positions:
        a = x[inputs]
        b = repeat_row(filter[tap], a)
        total = a + b
        error = _rounding_error(a, b, total)
        hit = total == y[outputs]
        # Not >=: sums may be infinite, and then their errors are NaN.
        hit &= ~(error < largest_error[outputs])
        np.copyto(largest_error[outputs], error, where=hit)
        np.copyto(found[outputs], number, where=hit)


def _rounding_error(a: Array, b: Array, total: Array) -> Array:
    """Return the rounding error of ``a + b`` (Knuth)."""
    part = total - a
    error = total - part
    np.subtract(a, error, out=error)
    np.subtract(b, part, out=part)
    return np.add(error, part, out=error)


@kernels("Dilation2DBackpropInput")
def dilation2d_input(x: Array, filter: Array, dy: Array, *, geometry: Windows) -> Array:
    """Add each cotangent to the input element of the window's largest sum."""
    winners = _winners(x, filter, geometry)
    dx = np.zeros(x.shape, dy.dtype)
    for number, _, outputs, inputs in _positions(geometry):
        onto = dx[inputs]
        np.add(onto, _cotangents_of(number, winners, dy, outputs), out=onto)
    return dx


@kernels("Dilation2DBackpropFilter")
def dilation2d_filter(
    x: Array, filter: Array, dy: Array, *, geometry: Windows
) -> Array:
    """Add each cotangent to the filter element of the window's largest sum."""
    winners = _winners(x, filter, geometry)
    df = np.zeros(filter.shape, dy.dtype)
    for number, tap, outputs, _ in _positions(geometry):
        part = _cotangents_of(number, winners, dy, outputs)
        df[tap] = reduce.sum(part, axis=(0, 1, 2), keepdims=False)
    return df


def _cotangents_of(number: int, winners: Array, dy: Array, outputs: Index) -> Array:
    """Return the cotangents of windows whose winner is ``number``, and 0 for others."""
    return np.where(winners[outputs] == number, dy[outputs], dy.dtype.type(0))
