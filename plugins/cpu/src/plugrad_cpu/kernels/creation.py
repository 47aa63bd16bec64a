"""Kernels that make tensors, and Cast.

A kernel without inputs gets the backend's arrays; NumPy has no need of them.
"""

from math import copysign

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array, NumpyArrays

kernels = KernelTable()


@kernels("Cast")
def cast(x: Array, *, dtype: np.dtype) -> Array:
    """Only floating numbers that become integers are not for ``astype`` alone."""
    if x.dtype.kind == "c" and dtype.kind not in "cb":
        x = x.real
    if x.dtype.kind == "f" and dtype.kind in "iu":
        return _whole(x, dtype)
    return x.astype(dtype)


# Integer dtype -> the least, and the first that is too large: exact as a float.
LIMITS = {
    dtype: (int(np.iinfo(dtype).min), float(np.iinfo(dtype).max + 1))
    for dtype in [np.dtype(kind + size) for kind in "iu" for size in "1248"]
}


def _whole(x: Array, dtype: np.dtype) -> Array:
    """Truncate. What is out of range NumPy leaves to the processor; here it wraps."""
    if x.dtype.itemsize == 2:
        x = x.astype(np.float32)  # has faster loops
    y = x.astype(dtype)
    if not x.size:
        return y
    low, high = LIMITS[dtype]
    if low <= float(np.minimum.reduce(x, None)) and float(x.max()) < high:
        return y
    x, y = np.asarray(x, np.float64), np.asarray(y)
    beyond = ~((x >= low) & (x < high))
    y[beyond] = _wrapped(x[beyond]).astype(dtype)
    return y


def _wrapped(x: Array) -> Array:
    """Wrap into int64, two's complement; NaN and infinities give 0."""
    whole = np.where(np.isfinite(x), np.fmod(np.trunc(x), 2.0**64), 0)
    whole = np.where(whole >= 2.0**63, whole - 2.0**64, whole)
    return np.where(whole < -(2.0**63), whole + 2.0**64, whole).astype(np.int64)


@kernels("Identity")
def identity(x: Array) -> Array:
    """Share the memory, as kernels never write into inputs; views are copied."""
    return x if x.flags.c_contiguous else x.copy()


@kernels("Fill")
def fill(
    arrays: NumpyArrays,
    *,
    shape: tuple[int, ...],
    value: complex | bytes,
    dtype: np.dtype,
) -> Array:
    """Zeros, but for the negative one, come clean from the system."""
    if value == 0 and copysign(1, value.real) > 0:
        return np.zeros(shape, dtype)
    return filled(shape, value, dtype)


def filled(shape: tuple[int, ...], value: complex | bytes, dtype: np.dtype) -> Array:
    """Return ``value`` everywhere; ``full`` would cut off zeros at the end of bytes."""
    if not isinstance(value, bytes):
        return np.full(shape, value, dtype)
    y = np.empty(shape, dtype)
    y.fill(value)
    return y


@kernels("ZerosLike")
def zeros_like(x: Array) -> Array:
    """In row-major order, whatever that of ``x``."""
    return np.zeros(x.shape, x.dtype)


@kernels("OnesLike")
def ones_like(x: Array) -> Array:
    """In row-major order, whatever that of ``x``."""
    return np.ones(x.shape, x.dtype)


@kernels("Range")
def range_(
    arrays: NumpyArrays, *, start: float, step: float, size: int, dtype: np.dtype
) -> Array:
    """Whole numbers wrap on the way but not at the end; others go by float64."""
    if isinstance(start, int) and isinstance(step, int) and dtype.kind in "iu":
        limits, stop = np.iinfo(dtype), start + step * size
        least, most = max(limits.min, -(2**53)), min(limits.max, 2**53)
        if step and least <= min(start, stop) and max(start, stop) <= most:
            return np.arange(start, stop, step, dtype=dtype)
        steps = np.arange(size, dtype=np.uint64)
        first, distance = np.uint64(start % 2**64), np.uint64(step % 2**64)
        return (first + steps * distance).astype(dtype)
    return cast(start + np.arange(size) * float(step), dtype=dtype)


@kernels("LinSpace")
def linspace(
    arrays: NumpyArrays,
    *,
    start: complex,
    stop: complex,
    num: int,
    endpoint: bool,
    dtype: np.dtype,
) -> Array:
    """In double precision, and then rounded; a large int would make objects."""
    return np.linspace(start * 1.0, stop * 1.0, num, endpoint).astype(dtype)
