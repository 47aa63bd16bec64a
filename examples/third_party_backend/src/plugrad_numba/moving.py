"""Kernels that NumPy runs as fast as Numba: moving, reducing, sorting, BLAS.

Native arrays are NumPy arrays, which Numba's functions accept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from plugrad.plugin import KernelTable

Array = NDArray[Any]
Shape = tuple[int, ...]


class Arrays:
    """Copies arrays at upload and download, so others cannot change native ones."""

    def upload(self, values: Array) -> Array:
        """Return a native copy."""
        return values.copy()

    def download(self, native: Array) -> Array:
        """Return a copy; a NumPy scalar becomes an array."""
        return np.array(native)

    def nbytes(self, native: Array) -> int:
        """Return the memory that a native array holds."""
        return native.nbytes


def sum_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype for sums."""
    return np.promote_types(dtype, np.float64) if dtype.kind in "fc" else dtype


kernels = KernelTable(
    BroadcastTo=np.broadcast_to,
    Concat=lambda *xs, axis: np.concatenate(xs, axis),
    Cos=np.cos,
    Exp=np.exp,
    Fill=lambda arrays, shape, value, dtype: np.full(shape, value, dtype),
    Imag=np.imag,
    Max=lambda x, axis, keepdims: x.max(axis, keepdims=keepdims),
    Mod=np.remainder,  # exact, unlike Numba's
    PadV2=lambda x, paddings, constant_values: (
        np.pad(x, paddings, constant_values=constant_values) if paddings else x
    ),
    Real=np.real,
    Reshape=np.reshape,
    Select=np.where,
    Sin=np.sin,
    Sum=lambda x, axis, keepdims: x.sum(
        axis, sum_dtype(x.dtype), keepdims=keepdims
    ).astype(x.dtype),
    Tanh=lambda x: np.tanh(x) if x.dtype.kind == "f" else NotImplemented,
    Transpose=np.transpose,
)


@kernels("Complex")
def complex_(real: Array, imag: Array) -> Array:
    """Set both parts; ``real + 1j * imag`` would turn infinities into NaN."""
    y: Array = np.empty(real.shape, np.result_type(real.dtype, np.complex64))
    y.real, y.imag = real, imag
    return y


@kernels("StridedSlice")
def strided_slice(x: Array, *, begin: Shape, size: Shape, strides: Shape) -> Array:
    """Return a view."""
    slices = []
    for b, n, s in zip(begin, size, strides, strict=True):
        end = b + n * s  # negative if a slice runs backwards to the start
        slices.append(slice(b, end if end >= 0 else None, s) if n else slice(0, 0))
    return x[(*slices, ...)]


@kernels("GatherV2")
def gather(x: Array, indices: Array, *, axis: int, batch_dims: int) -> Any:
    """Gather along ``axis``; leave batches to the host."""
    bad = indices[(indices < 0) | (indices >= x.shape[axis])]
    if bad.size:
        where = f"for axis {axis} with size {x.shape[axis]}"
        raise IndexError(f"gather: index {bad[0]} is out of range {where}")
    return NotImplemented if batch_dims else x.take(indices, axis)


@kernels("UnsortedSegmentSum")
def unsorted_segment_sum(x: Array, segment_ids: Array, *, num_segments: int) -> Array:
    """Add up rows by id; ignore ids out of range."""
    inside = (segment_ids >= 0) & (segment_ids < num_segments)
    y = np.zeros((num_segments, *x.shape[1:]), sum_dtype(x.dtype))
    np.add.at(y, segment_ids[inside], x[inside])
    return y.astype(x.dtype)


@kernels("TopK")
def top_k(x: Array, *, k: int, sorted: bool) -> tuple[Array, Array]:
    """Return the largest elements; NaN is largest, and equal elements keep order."""
    ascending = x[..., ::-1].argsort(-1, kind="stable")
    indices = x.shape[-1] - 1 - ascending[..., ::-1][..., :k]
    if not sorted:
        indices.sort(-1)
    return np.take_along_axis(x, indices, -1), indices.astype(np.int32)


@kernels("BatchMatMul")
def batch_matmul(a: Array, b: Array, *, transpose_a: bool, transpose_b: bool) -> Array:
    """Multiply with BLAS."""
    a = a.swapaxes(-1, -2) if transpose_a else a
    b = b.swapaxes(-1, -2) if transpose_b else b
    return np.matmul(a, b)
