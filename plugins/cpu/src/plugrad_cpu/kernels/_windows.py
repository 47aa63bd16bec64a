"""Functions shared by kernels with windows: padding, indexing, cache blocking.

In shapes, letters stand for axes: ``n`` batch, ``p`` and ``q`` output positions, ``c``
input channels, ``k`` output channels, ``t`` kernel positions.
"""

import functools
import math
from collections.abc import Callable, Iterator
from typing import TypeVar, cast

import numpy as np
from numpy.lib.stride_tricks import as_strided
from plugrad.geometry import Windows

from ..arrays import Array
from ..native import HALF, in_float32

F = TypeVar("F", bound=Callable[..., Array])
Index = tuple[slice, ...]


def padded(x: Array, windows: Windows, value: float = 0) -> Array:
    """Return ``x`` with padding around it; ``np.pad`` takes several times longer."""
    if not any(map(any, windows.padding)):
        return x
    y = empty_padded(x.shape, windows, x.dtype)
    y.fill(value)
    y[core_index(windows)] = x
    return y


def empty_padded(shape: tuple[int, ...], windows: Windows, dtype: np.dtype) -> Array:
    """Return uninitialized memory for a tensor of ``shape`` and its padding."""
    ends = zip(shape[1:-1], windows.padding, strict=True)
    return np.empty((shape[0], *(b + n + a for n, (b, a) in ends), shape[-1]), dtype)


def core_index(windows: Windows) -> Index:
    """Return the index of the input within the padded input."""
    ends = zip(windows.in_shape[1:-1], windows.padding, strict=True)
    return (slice(None), *(slice(before, before + n) for n, (before, _) in ends))


def window_index(windows: Windows, position: tuple[int, ...]) -> Index:
    """Return the index of the padded input that windows read at a kernel position."""
    outputs = windows.out_shape[1:-1]
    ends = zip(position, outputs, windows.strides, strict=True)
    return (slice(None), *(slice(t, t + p * s, s) for t, p, s in ends))


def view(x: Array, windows: Windows) -> Array:
    """View padded input as ``[n, *outputs, *window, c]``, without a copy."""
    n, *spatial, c = x.strides
    steps = zip(spatial, windows.strides, strict=True)
    gaps = zip(spatial, windows.dilations, strict=True)
    return as_strided(
        x,
        (x.shape[0], *windows.out_shape[1:-1], *windows.window, x.shape[-1]),
        (n, *(d * s for d, s in steps), *(d * s for d, s in gaps), c),
    )


def as_pixels(x: Array) -> Array:
    """View the channels of a pixel as one element, which NumPy copies in one piece."""
    x = np.ascontiguousarray(x)
    return x.view(f"V{x.itemsize * x.shape[-1]}")[..., 0]


def read(x: Array, index: Index, buffer: Array) -> Array:
    """Return the elements at an index; copy them to ``buffer`` if many are strided.

    The buffer must be contiguous, so that ``as_pixels`` returns a view of it, not a
    copy.
    """
    if index[-1].step == 1 or buffer.size < 4096:
        return x[index]
    as_pixels(buffer)[...] = as_pixels(x)[index]
    return buffer


def add(x: Array, index: Index, y: Array, buffer: Array) -> None:
    """Add ``y`` to the elements at an index, using ``buffer`` like ``read``."""
    total = read(x, index, buffer)
    np.add(total, y, out=total)
    if total is buffer:
        as_pixels(x)[index] = as_pixels(buffer)


def repeat_row(row: Array, x: Array) -> Array:
    """Repeat a row of ``[c]`` as ``[q, c]``: NumPy broadcasts short rows slowly."""
    if row.ndim > 1 or x.ndim < 3 or row.shape != x.shape[-1:]:
        return row
    return np.repeat(row[None], x.shape[-2], 0)


def as_matrix(x: Array) -> Array:
    """Return a matrix whose rows are the channels of each pixel."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def blocks(
    shape: tuple[int, ...], row: int, limit: int
) -> Iterator[tuple[slice, slice]]:
    """Yield blocks of the first two axes, of about ``limit`` bytes.

    ``row`` is the number of bytes of a row of the second axis.
    """
    count, rows = shape[:2]
    fit = max(limit // max(row, 1), 1)
    if fit >= rows:
        step = max(fit // max(rows, 1), 1)
        for i in range(0, count, step):
            yield slice(i, i + step), slice(None)
    else:
        for i in range(count):
            for j in range(0, rows, fit):
                yield slice(i, i + 1), slice(j, j + fit)


def batches(x: Array, limit: int = 1 << 20) -> Iterator[slice]:
    """Yield slices of the batch axis that fit in a cache of ``limit`` bytes."""
    step = max(limit // max(math.prod(x.shape[1:]) * x.itemsize, 1), 1)
    for i in range(0, x.shape[0], step):
        yield slice(i, i + step)


def in_blas_dtype(kernel: F) -> F:
    """Wrap a kernel that sums products: it then computes in dtypes that BLAS supports.

    float16 is computed in float32, and integers in float64 if their sums are exact.
    """

    @functools.wraps(kernel)
    def wide(x: Array, *xs: Array | None, **attrs: object) -> Array:
        if x.dtype == HALF:
            return in_float32(kernel, x, *xs, **attrs)
        if x.dtype.kind in "fc" or not _exact([y for y in (x, *xs) if y is not None]):
            return kernel(x, *xs, **attrs)
        result = kernel(
            *(y if y is None else y.astype(np.float64) for y in (x, *xs)), **attrs
        )
        return result.astype(np.int64).astype(x.dtype)

    return cast("F", wide)


def _exact(xs: list[Array]) -> bool:
    """Return whether all sums of products are below 2**53."""
    count = min(x.size for x in xs)
    largest = [max(int(x.max()), -int(x.min())) for x in xs] if count else [0]
    return math.prod(largest) * count < 2**53
