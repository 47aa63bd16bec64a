"""Reductions, by ``along``, which is faster and more accurate than NumPy's own."""

import builtins
import math
from typing import Any

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array

kernels = KernelTable()

# Any, as NumPy's types know no positional arguments, which are faster than names.
ADD: Any = np.add
AND: Any = np.logical_and
OR: Any = np.logical_or

FEW = 2048  # elements, of which NumPy's own way is fast and accurate enough
ROWS = 32  # added one after the other; more of them pairwise


def along(ufunc: Any, x: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    """Return ``ufunc.reduce(x, axis)`` in the dtype of ``x``.

    Over an axis that is not the last one NumPy adds row by row: slowly where rows are
    short, and with an error that grows with their number. Here, axes that lie side by
    side are reduced together, the last first, as the middle of ``[a, n, m]``.
    """
    if x.size < FEW or not x.flags.c_contiguous:
        wide = x.dtype
        if ufunc is np.add and wide == np.float32 and x.size >= FEW:
            wide = np.dtype(np.float64)
        y = ufunc.reduce(x, axis, wide, None, keepdims)
        return y if wide is x.dtype else y.astype(x.dtype)
    sizes = list(x.shape)
    stop = x.ndim
    while stop:
        start = stop
        while start and (start - 1 in axis) == (stop - 1 in axis):
            start -= 1
        if stop - 1 in axis:
            outer, inner = math.prod(sizes[:start]), math.prod(sizes[stop:])
            x = _middle(ufunc, x.reshape(outer, -1, inner))
            sizes[start:stop] = [1] * (stop - start)
        stop = start
    if not keepdims:
        sizes = [n for i, n in enumerate(sizes) if i not in axis]
    return x.reshape(sizes)


def _middle(ufunc: Any, x: Array) -> Array:
    """Reduce ``[a, n, m]`` to ``[a, m]``, short rows laid side by side."""
    a, n, m = x.shape
    if m == 1:
        # NumPy's largest of a short row takes ten times as long as its sum. Halves of
        # all rows together do not, and what they have in common counts once.
        x, few = x.reshape(a, n), 8 if ufunc in (np.maximum, np.minimum) else n
        while few < n <= 256 and a > n:
            n = (n + 1) // 2
            x = ufunc(x[:, :n], x[:, -n:])
        if n <= ROWS and a > n:
            x = np.ascontiguousarray(x.T)
            return ufunc.reduce(x, 0, x.dtype)[:, None]
        if ufunc is np.add and x.dtype.kind == "f" and n <= FEW // 2:  # BLAS is faster
            return np.vecdot(x, np.ones(n, x.dtype))[:, None]
        return ufunc.reduce(x, 1, x.dtype, None, True)
    wide = builtins.min(512 // m, math.isqrt(n))
    if wide < 2 or n <= ROWS:
        return _rows(ufunc, x)
    k = n // wide
    y = _rows(ufunc, x[:, : k * wide].reshape(a, k, wide * m))
    y = _middle(ufunc, y.reshape(a, wide, m))
    return ufunc(y, _middle(ufunc, x[:, k * wide :])) if k * wide < n else y


def _rows(ufunc: Any, x: Array) -> Array:
    """Reduce ``[a, n, m]`` to ``[a, m]``: blocks of ``ROWS`` rows, blocks of these."""
    while (n := x.shape[1]) > ROWS:
        k = n // ROWS
        blocks = x[:, : k * ROWS].reshape(len(x), k, ROWS, -1)
        y = ufunc.reduce(blocks, 2, x.dtype)
        x = np.concatenate((y, x[:, k * ROWS :]), 1) if k * ROWS < n else y
    return ufunc.reduce(x, 1, x.dtype)


@kernels("Sum")
def sum(x: Array, *, axis: tuple[int, ...], keepdims: bool) -> Array:
    """Float16 in float32."""
    if x.size < FEW and x.itemsize > 2:
        return ADD.reduce(x, axis, x.dtype, None, keepdims)
    if x.dtype == np.float16:
        return along(np.add, x.astype(np.float32), axis, keepdims).astype(np.float16)
    return along(np.add, x, axis, keepdims)


@kernels("Mean")
def mean(x: Array, *, axis: tuple[int, ...], keepdims: bool) -> Array:
    """Float16 in float32."""
    count = math.prod([x.shape[i] for i in axis])
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    return (along(np.add, wide, axis, keepdims) / count).astype(x.dtype, copy=False)


@kernels("Max")
def max(x: Array, *, axis: tuple[int, ...], keepdims: bool) -> Array:
    """NaN wins."""
    return along(np.maximum, x, axis, keepdims)


@kernels("Min")
def min(x: Array, *, axis: tuple[int, ...], keepdims: bool) -> Array:
    """NaN wins."""
    return along(np.minimum, x, axis, keepdims)


@kernels("Prod")
def prod(x: Array, *, axis: tuple[int, ...], keepdims: bool) -> Array:
    """Float16 in float32."""
    if x.dtype == np.float16:
        wide = along(np.multiply, x.astype(np.float32), axis, keepdims)
        return wide.astype(np.float16)
    return along(np.multiply, x, axis, keepdims)


@kernels("All")
def all(x: Array, *, axis: tuple[int, ...], keepdims: bool) -> Array:
    """NumPy stops at the first false one."""
    return AND.reduce(x, axis, None, None, keepdims)


@kernels("Any")
def any(x: Array, *, axis: tuple[int, ...], keepdims: bool) -> Array:
    """NumPy stops at the first true one."""
    return OR.reduce(x, axis, None, None, keepdims)


@kernels("ArgMax")
def argmax(x: Array, *, axis: int) -> Array:
    """NumPy finds the first NaN: then look again, for the first that is a number."""
    return _first(np.fmax, x, x.argmax(axis), axis)


@kernels("ArgMin")
def argmin(x: Array, *, axis: int) -> Array:
    """NumPy finds the first NaN: then look again, for the first that is a number."""
    return _first(np.fmin, x, x.argmin(axis), axis)


def _first(ufunc: Any, x: Array, found: Array, axis: int) -> Array:
    if x.dtype.kind == "f" and x.size:
        few = x.size < FEW  # then all of them are looked at sooner than the winners
        most = x if few else np.take_along_axis(x, np.expand_dims(found, axis), axis)
        if np.isnan(np.maximum.reduce(most, None)):
            found = (x == ufunc.reduce(x, axis, keepdims=True)).argmax(axis)
    return found.astype(np.int32)
