"""Sparse tensors: coordinates and sums of rows."""

import math

import numpy as np
from plugrad import geometry
from plugrad.plugin import KernelTable

from ..arrays import Array
from .gather import gathered, out_of_range, unsorted_segment_sum
from .scatter import rows_of, written

kernels = KernelTable()


@kernels("SparseToDense")
def sparse_to_dense(
    sparse_indices: Array,
    sparse_values: Array,
    default_value: Array,
    *,
    shape: tuple[int, ...],
) -> Array:
    """Write the values into an array filled with the default value."""
    blank = np.broadcast_to(default_value, shape)
    return written("sparse.to_dense", blank, sparse_indices, sparse_values)


@kernels("SparseReshape")
def sparse_reshape(
    input_indices: Array, input_shape: Array, new_shape: Array
) -> tuple[Array, Array]:
    """Convert indices through their positions in row-major order."""
    old = tuple(input_shape.tolist())
    if min(old, default=0) < 0 or math.prod(old) >= 2**63:
        raise ValueError(
            f"sparse.reshape: input_shape {old} must not be negative, and must have "
            "fewer than 2**63 elements"
        )
    sizes = geometry.reshaped(old, new_shape.tolist())
    if max(sizes, default=0) > np.iinfo(new_shape.dtype).max:
        raise OverflowError(
            f"sparse.reshape: sizes {sizes} do not fit into {new_shape.dtype}; pass "
            "int64"
        )
    rest = rows_of("sparse.reshape", input_indices, old)
    positions = np.empty((len(rest), len(sizes)), input_indices.dtype)
    for axis in reversed(range(len(sizes))):
        rest, positions[:, axis] = np.divmod(rest, sizes[axis])
    return positions, np.array(sizes, new_shape.dtype)


@kernels("SparseFillEmptyRows")
def sparse_fill_empty_rows(
    indices: Array, values: Array, dense_shape: Array, default_value: Array
) -> tuple[Array, Array, Array, Array]:
    """Sort elements by row, and add a default element to each empty row."""
    rows = indices[:, 0]
    count = dense_shape[0].item()
    if count < 0:
        raise ValueError(
            f"sparse.fill_empty_rows: the number of rows, {count}, must not be negative"
        )
    if rows.size and (rows.min() < 0 or rows.max() >= count):
        raise out_of_range("sparse.fill_empty_rows", rows, 0, count)
    counts = np.bincount(rows, minlength=count)
    lengths = np.maximum(counts, 1)
    order = np.argsort(rows, kind="stable")
    # Element n in row order comes after n other elements and the empty rows above it.
    empty_above = np.cumsum(lengths - counts)
    positions = np.empty(len(rows), indices.dtype)
    positions[order] = np.arange(len(rows)) + empty_above[rows[order]]
    total = lengths.sum()
    at = np.zeros((total, indices.shape[1]), indices.dtype)
    at[:, 0] = np.repeat(np.arange(count), lengths)
    at[positions] = indices
    y = np.empty(total, values.dtype)
    y[...] = default_value
    y[positions] = values
    return at, y, counts == 0, positions


@kernels("SparseSegmentSum")
def sparse_segment_sum(
    data: Array, indices: Array, segment_ids: Array, *, num_segments: int
) -> Array:
    """Read rows and sum them by segment."""
    rows = gathered("sparse.segment_sum", data, indices, 0)
    return unsorted_segment_sum(rows, segment_ids, num_segments=num_segments)


@kernels("SparseSegmentMean")
def sparse_segment_mean(
    data: Array, indices: Array, segment_ids: Array, *, num_segments: int
) -> Array:
    """Divide the sums by the counts; float16 is summed in float32 to avoid overflow."""
    rows = gathered("sparse.segment_mean", data, indices, 0)
    if data.dtype.itemsize == 2:
        rows = rows.astype(np.float32)
    sums = unsorted_segment_sum(rows, segment_ids, num_segments=num_segments)
    inside = segment_ids[(segment_ids >= 0) & (segment_ids < num_segments)]
    counts = np.maximum(np.bincount(inside, minlength=num_segments), 1)
    counts = counts.reshape(-1, *[1] * (data.ndim - 1)).astype(sums.dtype)
    return (sums / counts).astype(data.dtype, copy=False)
