"""Slices and padding."""

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array, kernel_context
from ..native import COPY_MIN_BYTES, copy
from .creation import filled

kernels = KernelTable()

Sizes = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]


@kernels("Slice")
def slice_(x: Array, *, begin: Sizes, size: Sizes) -> Array:
    """Return a view."""
    if not size:  # x[()] would be a scalar
        return x
    return x[tuple([slice(b, b + n) for b, n in zip(begin, size, strict=True)])]


@kernels("StridedSlice")
def strided_slice(x: Array, *, begin: Sizes, size: Sizes, strides: Sizes) -> Array:
    """Return a view; a reversed slice that includes element 0 ends at None."""
    slices = []
    for b, n, s in zip(begin, size, strides, strict=True):
        end = b + n * s
        slices.append(slice(b, end if end >= 0 else None, s) if n else slice(0, 0))
    return x[tuple(slices)] if slices else x


@kernels("PadV2")
def pad(x: Array, *, paddings: Pairs, constant_values: complex | bytes) -> Array:
    """Write ``x`` into the middle; zeros (but not -0.0) come from zeroed memory."""
    if x.nbytes >= COPY_MIN_BYTES:
        return _surrounded(x, paddings, filled((), constant_values, x.dtype))
    sizes = [*zip(x.shape, paddings, strict=True)]
    shape = tuple([before + n + after for n, (before, after) in sizes])
    zero = isinstance(constant_values, int) and not constant_values
    y = np.zeros(shape, x.dtype) if zero else filled(shape, constant_values, x.dtype)
    y[tuple([slice(before, before + n) for n, (before, _) in sizes])] = x
    return y


@kernel_context
def _surrounded(x: Array, paddings: Pairs, value: Array) -> Array:
    """Write ``x`` into the middle, and ``value`` before and after it."""
    sizes = [*zip(x.shape, paddings, strict=True)]
    y = np.empty([before + n + after for n, (before, after) in sizes], x.dtype)
    middle: tuple[slice, ...] = ()
    for n, (before, _) in sizes:
        y[(*middle, slice(before))] = y[(*middle, slice(before + n, None))] = value
        middle = (*middle, slice(before, before + n))
    copy(y[middle], x)
    return y


@kernels("MirrorPad")
def mirror_pad(x: Array, *, paddings: Pairs, mode: str) -> Array:
    """Write ``x`` into the middle, then mirror axis after axis across its ends."""
    y = pad(x, paddings=paddings, constant_values=0)
    skip = 1 if mode == "reflect" else 0
    for axis, (before, after) in enumerate(paddings):
        line = y.swapaxes(0, axis)
        end = before + x.shape[axis]
        start = before + skip
        line[:before] = line[start : start + before][::-1]
        start = end - skip - after
        line[end:] = line[start : start + after][::-1]
    return y
