"""Reductions: in C for large arrays of dtypes that C supports, otherwise on NumPy."""

import builtins
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from plugrad.geometry import broadcast_strides, collapse_axes
from plugrad.plugin import KernelTable

from ..arrays import Array
from ..native import (
    HALF,
    MAX_ELEMENTS,
    NUMBER_SUFFIXES,
    SIGNED_SUFFIXES,
    as_contiguous,
    rounded,
    sizes_around,
    widened,
)
from ..native import kernels as in_c

kernels = KernelTable()

# Any, because NumPy's types do not declare positional arguments, which are faster.
ADD: Any = np.add

ORDERED_SUFFIXES = SIGNED_SUFFIXES | {np.dtype(bool): "_b8"}
FOLDS: Any = {
    np.add: in_c("sum", NUMBER_SUFFIXES),
    np.multiply: in_c("prod", NUMBER_SUFFIXES),
    np.maximum: in_c("max_of", ORDERED_SUFFIXES),
    np.minimum: in_c("min_of", ORDERED_SUFFIXES),
}
ARGS = {name: in_c(name, SIGNED_SUFFIXES) for name in ("argmax", "argmin")}
REDUCE_MIN_ELEMENTS = 2048  # below, NumPy is as fast and accurate enough
PIECE_ELEMENTS = 32768  # elements that a piece reduces
PIECE_COLUMNS = 1024  # columns of a piece, as in reduce.c

Axes = tuple[int, ...]


def along(
    ufunc: Any, x: Array, axis: Axes, keepdims: bool, count: float = 1.0
) -> Array:
    """Return ``ufunc.reduce(x, axis) / count`` in the dtype of ``x``.

    NumPy reduces broadcast views, which may be much larger than their memory. float16
    is reduced in float32; its products are computed in float64, so that intermediate
    products do not overflow.
    """
    dtype = x.dtype
    if dtype == HALF and x.size >= REDUCE_MIN_ELEMENTS and 0 not in x.strides:
        wide = widened(x)
        wide = wide.astype(np.float64) if ufunc is np.multiply else wide
        return rounded(along(ufunc, wide, axis, keepdims, count), HALF)
    if (
        not REDUCE_MIN_ELEMENTS <= x.size < MAX_ELEMENTS
        or dtype not in FOLDS[ufunc]
        or 0 in x.strides
    ):
        return _in_numpy(ufunc, x, axis, keepdims, count)
    shape, steps = plan(x.shape, axis, keepdims)
    return folded(FOLDS[ufunc][dtype], as_contiguous(x), shape, steps, count)


def folded(function: Any, x: Array, shape: Axes, steps: Any, count: float) -> Array:
    """Reduce an array by the C calls of ``plan``, and divide by ``count``."""
    if not steps:
        return x.reshape(shape)
    for sizes, arguments in steps[:-1]:
        y = np.empty(sizes, x.dtype)
        function(x, y, *arguments, 1.0)
        x = y
    y = np.empty(shape, x.dtype)
    function(x, y, *steps[-1][1], count)
    return y


@functools.lru_cache(maxsize=4096)
def plan(shape: Axes, axis: Axes, keepdims: bool) -> tuple[Axes, list[Any]]:
    """Return the final shape and, for each C call, its result shape and arguments.

    Adjacent axes are reduced together, the last axes first.
    """
    kept = tuple([1 if i in axis else n for i, n in enumerate(shape)])
    axes = collapse_axes(shape, broadcast_strides(kept, len(shape)))
    steps: list[Any] = []
    inner = 1
    for i, (n, stride) in reversed([*enumerate(axes)]):
        outer = math.prod([size for size, _ in axes[:i]])
        while not stride and n > 1:
            chunk = PIECE_ELEMENTS // builtins.min(inner, PIECE_COLUMNS)
            chunk = chunk if n > 2 * chunk else n
            left = -(-n // chunk)
            steps.append(((outer, left, inner), (outer, n, inner, chunk)))
            n = left
        inner *= n
    if not keepdims:
        kept = tuple([n for i, n in enumerate(shape) if i not in axis])
    return kept, steps


def _in_numpy(ufunc: Any, x: Array, axis: Axes, keepdims: bool, count: float) -> Array:
    """Reduce like ``along``; NumPy sums pairwise only along the last axes of memory."""
    wide = x.dtype
    operand = x
    axes = axis
    large = x.size >= REDUCE_MIN_ELEMENTS or wide.char == "e"
    if large and wide.kind in "fc" and ufunc in (np.add, np.multiply):
        wide = np.result_type(wide, np.float64)
        if ufunc is np.add and x.flags.c_contiguous:
            axes = tuple(range(x.ndim - len(axis), x.ndim))
            operand = np.asarray(np.moveaxis(x, axis, axes), order="C")
    # NumPy starts products with 1, which would turn a complex infinity into NaN.
    begin = {"initial": None} if ufunc is np.multiply and x.size else {}
    y = ufunc.reduce(operand, axes, wide, None, False, **begin)
    y = np.expand_dims(y, axis) if keepdims else y
    if wide is x.dtype and count == 1:
        return y
    return _divided(y, count).astype(x.dtype)


def _divided(y: Array, count: float) -> Array:
    """Return ``y / count``; a complex divisor would turn infinite parts into NaN."""
    if y.dtype.kind != "c":
        return y / count
    z = np.array(y)
    z.real /= count
    z.imag /= count
    return z


@kernels("Sum")
def sum(x: Array, *, axis: Axes, keepdims: bool) -> Array:
    """Sum; small arrays go to NumPy directly."""
    if x.size < REDUCE_MIN_ELEMENTS and x.itemsize > 2:
        return ADD.reduce(x, axis, x.dtype, None, keepdims)
    return along(np.add, x, axis, keepdims)


@kernels("Mean")
def mean(x: Array, *, axis: Axes, keepdims: bool) -> Array:
    """Divide the sum; small arrays go to NumPy directly."""
    count = math.prod([x.shape[i] for i in axis])
    if 0 < x.size < REDUCE_MIN_ELEMENTS and x.itemsize > 2:
        y = ADD.reduce(x, axis, x.dtype, None, keepdims)
        return _divided(y, x.dtype.type(count).real)
    return along(np.add, x, axis, keepdims, float(count))


def _fold(ufunc: Any) -> Callable[..., Array]:
    """Return the kernel that reduces by a ufunc; NaN propagates."""
    return lambda x, *, axis, keepdims: along(ufunc, x, axis, keepdims)


kernels["Prod"], kernels["Max"] = _fold(np.multiply), _fold(np.maximum)
kernels["Min"] = _fold(np.minimum)


def _logical(ufunc: Any, fold: Any) -> Callable[..., Array]:
    """Return the kernel of ``all`` or ``any``; over all axes NumPy stops early."""

    def kernel(x: Array, *, axis: Axes, keepdims: bool) -> Any:
        if x.size >= REDUCE_MIN_ELEMENTS and x.dtype == bool and len(axis) < x.ndim:
            return along(fold, x, axis, keepdims)
        return ufunc.reduce(x, axis, None, None, keepdims)

    return kernel


kernels["All"] = _logical(np.logical_and, np.minimum)
kernels["Any"] = _logical(np.logical_or, np.maximum)


def _arg(name: str, ufunc: Any) -> Callable[..., Array]:
    """Return the kernel that finds the first maximum or minimum, ignoring NaN.

    NumPy is fast for rows of integers and for few columns. If a row contains NaN, NumPy
    returns the index of the first NaN; the kernel then searches again without NaN.
    """
    find = getattr(np.ndarray, name)

    def kernel(x: Array, *, axis: int) -> Array:
        x = widened(x)
        inner = math.prod(x.shape[axis + 1 :])
        floating = x.dtype.kind == "f"
        large = REDUCE_MIN_ELEMENTS <= x.size < MAX_ELEMENTS and (
            inner >= 16 or (inner == 1 and floating)
        )
        if large and x.dtype in ARGS[name]:
            y = np.empty((*x.shape[:axis], *x.shape[axis + 1 :]), np.int32)
            ARGS[name][x.dtype](as_contiguous(x), y, *sizes_around(x.shape, axis))
            return y
        found = find(x, axis)
        if floating and x.size:
            suspects = x  # for small arrays, checking all elements is faster
            if x.size >= REDUCE_MIN_ELEMENTS:
                suspects = np.take_along_axis(x, np.expand_dims(found, axis), axis)
            if np.isnan(np.maximum.reduce(suspects, None)):
                found = (x == ufunc.reduce(x, axis, keepdims=True)).argmax(axis)
        return found.astype(np.int32)

    return kernel


kernels["ArgMax"] = argmax = _arg("argmax", np.fmax)
kernels["ArgMin"] = _arg("argmin", np.fmin)
