"""Kernels that create tensors, and Cast.

A kernel without inputs gets the ``arrays`` of the backend as its first argument; NumPy
does not need them.
"""

from math import copysign

import numpy as np
from plugrad.plugin import KernelTable, takes_bfloat16

from ..arrays import Array, NumpyArrays
from ..native import (
    BFLOAT16,
    FLOAT32,
    MAX_ELEMENTS,
    as_contiguous,
    from_bfloat16,
    to_bfloat16,
    widened,
)
from ..native import kernels as in_c

kernels = KernelTable()

CAST_MIN_ELEMENTS = 1 << 16  # below, NumPy is as fast
SHORT = {"u1": "u8", "i1": "i8", "?": "u8", "i4": "i32", "i8": "i64"}
SHORT |= {"f2": "f16", "f4": "f32", "f8": "f64"}
CASTS = {
    (np.dtype(x), np.dtype(y)): function
    for x, of_x in SHORT.items()
    for y, of_y in SHORT.items()
    for function in in_c(
        f"cast_{of_x}_{'b8' if y == '?' else of_y}", {None: ""}
    ).values()
}


@kernels("Cast")
@takes_bfloat16
def cast(x: Array, *, dtype: np.dtype) -> Array:
    """Use ``astype``, except to convert floating-point numbers to integers.

    For values out of range, the result of NumPy depends on the processor; here they
    wrap. bfloat16 is converted from and to float32.
    """
    if x.dtype == BFLOAT16:
        wide = from_bfloat16(x)
        return wide if dtype == np.float32 else cast(wide, dtype=dtype)
    if dtype == BFLOAT16:
        return to_bfloat16(x if x.dtype == np.float32 else cast(x, dtype=FLOAT32))
    if x.dtype.kind == "c" and dtype.kind not in "cb":
        x = x.real
    to_integer = x.dtype.kind == "f" and dtype.kind in "iu"
    x = widened(x) if to_integer else x
    function = (
        CASTS.get((x.dtype, dtype))
        if to_integer or x.size >= CAST_MIN_ELEMENTS
        else None
    )
    if function and x.size < MAX_ELEMENTS and (to_integer or x.flags.c_contiguous):
        y = np.empty(x.shape, dtype)
        function(as_contiguous(x), y, x.size)
        return y
    if not to_integer:
        return x.astype(dtype)
    if dtype != np.int64:
        return cast(x, dtype=np.dtype(np.int64)).astype(dtype)
    x = np.where(np.isfinite(x), np.fmod(np.trunc(x, dtype=float), 2.0**64), 0)
    x = np.where(x >= 2.0**63, x - 2.0**64, x)
    return np.where(x < -(2.0**63), x + 2.0**64, x).astype(np.int64)


@kernels("Bitcast")
@takes_bfloat16
def bitcast(x: Array, *, dtype: np.dtype) -> Array:
    """Return a view of the same bytes; copy if the new elements are not aligned."""
    x = as_contiguous(x)
    if x.itemsize > dtype.itemsize:
        return x[..., None].view(dtype)
    if x.itemsize == dtype.itemsize:
        return x.view(dtype)
    return as_contiguous(x.view(dtype)[..., 0])


@kernels("Identity")
@takes_bfloat16
def identity(x: Array) -> Array:
    """Share the memory of row-major arrays: kernels never write into inputs."""
    return as_contiguous(x)


@kernels("Fill")
@takes_bfloat16
def fill(
    arrays: NumpyArrays,
    *,
    shape: tuple[int, ...],
    value: complex | bytes,
    dtype: np.dtype,
) -> Array:
    """Fill an array; memory for 0 (but not -0) comes zeroed from the system."""
    if value == 0 and copysign(1, value.real) > 0:
        return np.zeros(shape, dtype)
    return filled(shape, value, dtype)


def filled(shape: tuple[int, ...], value: complex | bytes, dtype: np.dtype) -> Array:
    """Return a filled array; for bytes, ``np.full`` would strip trailing zeros."""
    if not isinstance(value, bytes):
        return np.full(shape, value, dtype)
    y = np.empty(shape, dtype)
    y.fill(value)
    return y


@kernels("ZerosLike")
@takes_bfloat16
def zeros_like(x: Array) -> Array:
    """Return a row-major array, whatever the order of ``x``."""
    return np.zeros(x.shape, x.dtype)


@kernels("OnesLike")
@takes_bfloat16
def ones_like(x: Array) -> Array:
    """Return a row-major array, whatever the order of ``x``."""
    return np.ones(x.shape, x.dtype)


@kernels("Range")
def range_(
    arrays: NumpyArrays, *, start: float, step: float, size: int, dtype: np.dtype
) -> Array:
    """Compute integers modulo 2^64, then cast; compute other numbers in float64."""
    if isinstance(start, int) and isinstance(step, int) and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        stop = start + step * size
        least = max(limits.min, -(2**53))
        most = min(limits.max, 2**53)
        if step and least <= min(start, stop) and max(start, stop) <= most:
            return np.arange(start, stop, step, dtype=dtype)
        steps = np.arange(size, dtype=np.uint64)
        first = np.uint64(start % 2**64)
        distance = np.uint64(step % 2**64)
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
    """Compute in double precision, then round; large ints must not become objects."""
    if num == 1 or start == stop:  # avoids infinity minus infinity
        return np.full(num, start, dtype)
    # Subtracting 0.0 makes a float, and keeps -0.0 and infinite parts.
    return np.linspace(start - 0.0, stop - 0.0, num, endpoint).astype(dtype)
