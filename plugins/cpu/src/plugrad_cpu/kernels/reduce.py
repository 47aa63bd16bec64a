"""Reductions: in C, where it has the dtype and arrays are large."""

import builtins
import functools
import math
from typing import Any

import numpy as np
from plugrad.geometry import broadcast_strides, collapse_axes
from plugrad.plugin import KernelTable

from ..arrays import Array
from ..native import BITS, MOST, NUMBERS, around, in_order
from ..native import kernels as in_c

kernels = KernelTable()

# Any, as NumPy's types know no positional arguments, which are faster than names.
ADD: Any = np.add
AND: Any = np.logical_and
OR: Any = np.logical_or

TRUTH = NUMBERS | {np.dtype(bool): "_b8"}
FOLDS: Any = {
    np.add: in_c("sum", BITS),
    np.multiply: in_c("prod", BITS),
    np.maximum: in_c("max_of", TRUTH),
    np.minimum: in_c("min_of", TRUTH),
}
ARGMAX, ARGMIN = in_c("argmax", NUMBERS), in_c("argmin", NUMBERS)
FEW = 2048  # elements, of which NumPy's own way is fast and accurate enough
PART = 32768  # elements that one piece reduces
LINE = 1024  # columns of a piece, as in reduce.c

Axes = tuple[int, ...]


def along(
    ufunc: Any, x: Array, axis: Axes, keepdims: bool, count: float = 1.0
) -> Array:
    """Return ``ufunc.reduce(x, axis) / count`` in the dtype of ``x``.

    What is transposed is reduced in the order of its memory.
    """
    if x.size < FEW or x.dtype not in FOLDS[ufunc] or x.size >= MOST:
        return _in_numpy(ufunc, x, axis, keepdims, count)
    if not x.flags.c_contiguous:
        order = sorted(range(x.ndim), key=lambda i: -abs(x.strides[i]))
        turned = x.transpose(order)
        if turned.flags.c_contiguous:
            y = along(ufunc, turned, tuple(map(order.index, axis)), True, count)
            y = y.transpose(np.argsort(order))
            return y if keepdims else y.squeeze(axis)
        if 0 in x.strides:  # it may be much larger than its memory
            return _in_numpy(ufunc, x, axis, keepdims, count)
    function, dtype, x = FOLDS[ufunc][x.dtype], x.dtype, in_order(x)
    shape, steps = _steps(x.shape, axis, keepdims)
    for i, (sizes, how) in enumerate(steps, 1):
        y = np.empty(sizes, dtype)
        function(x, y, *how, count if i == len(steps) else 1.0)
        x = y
    return x.reshape(shape)


@functools.lru_cache(maxsize=4096)
def _steps(shape: Axes, axis: Axes, keepdims: bool) -> tuple[Axes, list[Any]]:
    """Return the shape of the result, and of each call in C that and its numbers.

    Axes that lie side by side are reduced together, the last ones first.
    """
    kept = tuple([1 if i in axis else n for i, n in enumerate(shape)])
    axes = collapse_axes(shape, broadcast_strides(kept, len(shape)))
    steps: list[Any] = []
    inner = 1
    for i, (n, stride) in reversed([*enumerate(axes)]):
        outer = math.prod([size for size, _ in axes[:i]])
        while not stride and n > 1:
            chunk = PART // builtins.min(inner, LINE)
            chunk = chunk if n > 2 * chunk else n
            left = -(-n // chunk)
            steps.append(((outer, left, inner), (outer, n, inner, chunk)))
            n = left
        inner *= n
    if not keepdims:
        kept = tuple([n for i, n in enumerate(shape) if i not in axis])
    return kept, steps


def _in_numpy(ufunc: Any, x: Array, axis: Axes, keepdims: bool, count: float) -> Array:
    """Return the same; NumPy adds up pairwise along the last axes of memory alone."""
    wide, some, at = x.dtype, x, axis
    if ufunc in (np.add, np.multiply) and x.size >= FEW and wide.kind in "fc":
        if ufunc is np.add and x.flags.c_contiguous:
            at = tuple(range(x.ndim - len(axis), x.ndim))
            some = np.ascontiguousarray(np.moveaxis(x, axis, at))
        else:
            wide = np.result_type(wide, np.float64)
    y = ufunc.reduce(some, at, wide, None, False)
    if keepdims:
        y = np.expand_dims(y, axis)
    return y if wide is x.dtype and count == 1 else (y / count).astype(x.dtype)


@kernels("Sum")
def sum(x: Array, *, axis: Axes, keepdims: bool) -> Array:
    """Float16 in float32."""
    if x.size < FEW and x.itemsize > 2:
        return ADD.reduce(x, axis, x.dtype, None, keepdims)
    if x.dtype == np.float16:
        return along(np.add, x.astype(np.float32), axis, keepdims).astype(np.float16)
    return along(np.add, x, axis, keepdims)


@kernels("Mean")
def mean(x: Array, *, axis: Axes, keepdims: bool) -> Array:
    """Float16 in float32."""
    count = math.prod([x.shape[i] for i in axis])
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    return along(np.add, wide, axis, keepdims, float(count)).astype(x.dtype, copy=False)


@kernels("Max")
def max(x: Array, *, axis: Axes, keepdims: bool) -> Array:
    """NaN wins."""
    return along(np.maximum, x, axis, keepdims)


@kernels("Min")
def min(x: Array, *, axis: Axes, keepdims: bool) -> Array:
    """NaN wins."""
    return along(np.minimum, x, axis, keepdims)


@kernels("Prod")
def prod(x: Array, *, axis: Axes, keepdims: bool) -> Array:
    """Float16 in float32."""
    if x.dtype == np.float16:
        wide = along(np.multiply, x.astype(np.float32), axis, keepdims)
        return wide.astype(np.float16)
    return along(np.multiply, x, axis, keepdims)


@kernels("All")
def all(x: Array, *, axis: Axes, keepdims: bool) -> Array:
    """NumPy stops at the first false one."""
    if x.size >= FEW and x.dtype == bool and len(axis) < x.ndim:
        return along(np.minimum, x, axis, keepdims)
    return AND.reduce(x, axis, None, None, keepdims)


@kernels("Any")
def any(x: Array, *, axis: Axes, keepdims: bool) -> Array:
    """NumPy stops at the first true one."""
    if x.size >= FEW and x.dtype == bool and len(axis) < x.ndim:
        return along(np.maximum, x, axis, keepdims)
    return OR.reduce(x, axis, None, None, keepdims)


@kernels("ArgMax")
def argmax(x: Array, *, axis: int) -> Array:
    """NumPy finds the first NaN: then look again, for the first that is a number."""
    if (y := _arg(ARGMAX, x, axis)) is not None:
        return y
    return _first(np.fmax, x, x.argmax(axis), axis)


@kernels("ArgMin")
def argmin(x: Array, *, axis: int) -> Array:
    """NumPy finds the first NaN: then look again, for the first that is a number."""
    if (y := _arg(ARGMIN, x, axis)) is not None:
        return y
    return _first(np.fmin, x, x.argmin(axis), axis)


def _arg(table: Any, x: Array, axis: int) -> Array | None:
    """Run in C; NumPy is fast at rows of integers, and at few columns."""
    if not FEW <= x.size < MOST or x.dtype not in table:
        return None
    inner = math.prod(x.shape[axis + 1 :])
    if inner < 16 and (inner > 1 or x.dtype.kind != "f"):
        return None
    y = np.empty((*x.shape[:axis], *x.shape[axis + 1 :]), np.int32)
    table[x.dtype](in_order(x), y, *around(x.shape, axis))
    return y


def _first(ufunc: Any, x: Array, found: Array, axis: int) -> Array:
    if x.dtype.kind == "f" and x.size:
        few = x.size < FEW  # then all of them are looked at sooner than the winners
        most = x if few else np.take_along_axis(x, np.expand_dims(found, axis), axis)
        if np.isnan(np.maximum.reduce(most, None)):
            found = (x == ufunc.reduce(x, axis, keepdims=True)).argmax(axis)
    return found.astype(np.int32)
