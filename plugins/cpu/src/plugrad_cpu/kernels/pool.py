"""Pooling: forward one axis at a time, backward one kernel position at a time."""

import functools
import math
from typing import Any

import numpy as np
from plugrad.geometry import Shape, Windows
from plugrad.plugin import KernelTable

from ..arrays import Array
from ..native import (
    FLOAT32_SUFFIX,
    HALF,
    contiguous,
    describe_windows,
    in_float32,
    rounded,
    widened,
)
from ..native import kernels as in_c
from . import _windows
from ._windows import core_index, empty_padded, padded, window_index

kernels = KernelTable()
MAX = in_c("max_pool", FLOAT32_SUFFIX)
AVERAGE = in_c("avg_pool", FLOAT32_SUFFIX)
ARGMAX = in_c("pool_argmax")
MAX_BACK = in_c("max_pool_grad")
AVERAGE_BACK = in_c("avg_pool_grad")


def _in_c(table: Any, shape: Shape, windows: Windows, *xs: Array) -> Array | None:
    """Run a C kernel that writes an array of ``shape``; None if C cannot do it."""
    function = table.get(xs[0].dtype)
    if function is None or len({x.dtype for x in xs}) > 1:
        return None
    given = contiguous(*xs)
    how = describe_windows(windows)
    if given is None or how is None:
        return None
    y = np.empty(shape, xs[0].dtype)
    if y.size:
        function(how, *given, y)
    return y


def _forward_in_c(table: Any, x: Array, windows: Windows) -> Array | None:
    return _in_c(table, windows.out_shape, windows, x) if is_worth(x.shape) else None


def is_worth(shape: Shape) -> bool:
    """Return whether C is faster: with many channels, or few elements in total."""
    return shape[-1] >= 16 or math.prod(shape) < 4096


@kernels("MaxPool3D")
@kernels("MaxPool")
def max_pool(x: Array, *, geometry: Windows) -> Array:
    """Use ``np.maximum``; only if the result contains NaN, replace NaN and repeat."""
    if x.dtype == HALF:
        return in_float32(max_pool, x, geometry=geometry)
    if (z := _forward_in_c(MAX, x, geometry)) is not None:
        return z
    least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    y = _combined(np.maximum, padded(x, geometry, least), geometry)
    if x.dtype.kind == "f" and np.isnan(y.max(initial=least)):
        x = np.where(np.isnan(x), x.dtype.type(least), x)
        y = _combined(np.maximum, padded(x, geometry, least), geometry)
    return y


@kernels("MaxPool3DGrad")
@kernels("MaxPoolGrad")
def max_pool_grad(dy: Array, x: Array, y: Array, *, geometry: Windows) -> Array:
    """Add each cotangent to the first kernel position that has the maximum.

    Cotangents are selected by integer products of their bits: infinity times False
    would be NaN.
    """
    if x.dtype == HALF:
        return in_float32(max_pool_grad, dy, x, y, geometry=geometry)
    if (z := _in_c(MAX_BACK, x.shape, geometry, dy, x, y)) is not None:
        return z
    dx = empty_padded(x.shape, geometry, dy.dtype)
    dx.fill(0)
    padded_x = padded(x, geometry, np.nan)
    remaining = dy.copy().view(f"i{dy.itemsize}")
    for position in geometry.kernel_positions:
        index = window_index(geometry, position)
        selected = remaining * (padded_x[index] == y)
        remaining -= selected
        dx[index] += selected.view(dy.dtype)
    return dx[core_index(geometry)]


@kernels("AvgPool3D")
@kernels("AvgPool")
@_windows.in_blas_dtype
def avg_pool(x: Array, *, geometry: Windows) -> Array:
    """Sum each window, and divide by the number of its elements inside the input."""
    if (z := _forward_in_c(AVERAGE, x, geometry)) is not None:
        return z
    total = _combined(np.add, padded(x, geometry), geometry)
    return np.true_divide(total, _counts(geometry, 0, x.dtype))


@kernels("AvgPool3DGrad")
@kernels("AvgPoolGrad")
@_windows.in_blas_dtype
def avg_pool_grad(dy: Array, x: Array | None, *, geometry: Windows) -> Array:
    """Distribute the cotangents along one axis after the other."""
    if (z := _in_c(AVERAGE_BACK, geometry.in_shape, geometry, dy)) is not None:
        return z
    share = np.true_divide(dy, _counts(geometry, 1, dy.dtype))
    whole = empty_padded(geometry.in_shape, geometry, dy.dtype)
    for axis in range(1, share.ndim - 1):
        sizes = (*share.shape[:axis], whole.shape[axis], *share.shape[axis + 1 :])
        dx = np.zeros(sizes, dy.dtype)
        for index in _along(axis, geometry):
            read = dx[index]
            np.add(read, share, out=read)
        share = dx
    return share[core_index(geometry)]


@kernels("MaxPoolWithArgmax")
def max_pool_with_argmax(
    x: Array, *, geometry: Windows, include_batch_in_index: bool
) -> tuple[Array, Array]:
    """Visit kernel positions from last to first, so that the first maximum wins."""
    if x.dtype == HALF:
        wide, indices = max_pool_with_argmax(
            widened(x),
            geometry=geometry,
            include_batch_in_index=include_batch_in_index,
        )
        return rounded(wide, HALF), indices
    y = max_pool(x, geometry=geometry)
    if (function := ARGMAX.get(x.dtype)) is not None:
        given = contiguous(x, y)
        how = describe_windows(geometry)
        if given is not None and how is not None:
            z = np.empty(y.shape, np.int32)
            if z.size:
                function(how, *given, z, include_batch_in_index)
            return y, z
    images = x.shape[0] if include_batch_in_index else 1
    shape = (images, *x.shape[1:])
    address = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
    address = padded(address, geometry)
    inside = padded(np.ones((1, *x.shape[1:-1], 1), bool), geometry, False)
    least = np.nan if x.dtype.kind == "f" else 0
    padded_x = padded(x, geometry, least)
    indices = np.full(y.shape, -1, np.int32)
    for position in reversed(geometry.kernel_positions):
        index = window_index(geometry, position)
        hit = (padded_x[index] == y) & inside[index]
        np.copyto(indices, address[index], where=hit)
    return y, indices


def _along(axis: int, windows: Windows) -> list[tuple[slice, ...]]:
    """Return the indices that windows read at each kernel position of one axis."""
    i = axis - 1
    k = windows.window[i]
    d = windows.dilations[i]
    s = windows.strides[i]
    p = windows.out_shape[axis]
    lead = (slice(None),) * axis
    return [(*lead, slice(a * d, a * d + p * s, s)) for a in range(k)]


def _combined(op: np.ufunc, x: Array, windows: Windows) -> Array:
    """Reduce each window of the padded ``x`` by ``op``, axis by axis."""
    for axis in range(1, x.ndim - 1):
        first, *others = (x[index] for index in _along(axis, windows))
        x = first
        if others:
            x = op(first, others[0])
        for part in others[1:]:
            op(x, part, out=x)
    return x


@functools.lru_cache(maxsize=256)
def _counts(windows: Windows, least: int, dtype: np.dtype) -> Array:
    """Return each window's element count, ``[*outputs, 1]``, or one count for all."""
    axes = [np.array([sum(row) for row in axis]) for axis in windows.inside]
    counts = functools.reduce(np.multiply.outer, [*axes, np.ones(1, int)])
    counts = np.maximum(counts, least).astype(dtype)
    return counts if any(map(any, windows.padding)) else counts.max(initial=1)
