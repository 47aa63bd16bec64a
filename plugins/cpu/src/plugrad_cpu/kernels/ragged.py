"""Ragged tensors: the concatenated rows, and splits that say where each row begins."""

import math

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array
from .gather import out_of_range

kernels = KernelTable()


def checked(op: str, splits: Array, count: int | None) -> Array:
    """Return splits that begin with 0, do not decrease, and end with ``count``."""
    good = splits.size and splits[0] == 0 and (splits[1:] >= splits[:-1]).all()
    if not good or (count is not None and splits[-1] != count):
        end = "" if count is None else f" and end with {count}"
        raise ValueError(
            f"{op}: splits {splits} must begin with 0, not decrease{end}; a split is "
            "the index at which a row begins"
        )
    return splits


@kernels("RaggedGather")
def ragged_gather(*inputs: Array) -> tuple[Array, ...]:
    """Gather level by level: the selected rows of a level select rows of the next."""
    *levels, values, indices = inputs
    op, dtype = "sparse.ragged_gather", levels[0].dtype
    below = [*[len(splits) - 1 for splits in levels[1:]], len(values)]
    for splits, end in zip(levels, below, strict=True):
        checked(op, splits, end)
    rows = indices.reshape(-1)
    count = len(levels[0]) - 1
    if rows.size and (rows.min() < 0 or rows.max() >= count):
        raise out_of_range(op, rows, 0, count)
    found = [
        np.arange(math.prod(indices.shape[:axis]) + 1, dtype=dtype)
        * indices.shape[axis]
        for axis in range(1, indices.ndim)
    ]
    for splits in levels:
        begin = splits[rows]
        counts = splits[rows + 1] - begin
        ends = np.cumsum(counts, dtype=dtype)
        found.append(np.concatenate([np.zeros(1, dtype), ends]))
        rows = np.arange(counts.sum()) + np.repeat(begin - (ends - counts), counts)
    return (*found[0 if indices.ndim else 1 :], values[rows])


@kernels("RaggedRange")
def ragged_range(starts: Array, limits: Array, deltas: Array) -> tuple[Array, Array]:
    """Count the steps of each row, and compute the values of all rows at once."""
    op, dtype = "sparse.ragged_range", starts.dtype
    wide = np.dtype(np.float64 if dtype.kind == "f" else np.uint64)
    start, limit, delta = np.broadcast_arrays(*np.atleast_1d(starts, limits, deltas))
    if not delta.all() or np.isnan(delta).any():
        raise ValueError(f"{op}: a delta is 0 or NaN; its row would never end")
    up = delta > 0
    going = np.where(up, start < limit, start > limit)
    first, last, by = (x.astype(wide) for x in (start, limit, delta))
    # Negative integers have wrapped, but their differences are still correct.
    distance = np.where(up, last - first, first - last)
    step = np.where(up, by, 0 - by)
    if dtype.kind == "f":
        counts = np.ceil(distance / step)
    else:
        counts = distance // step + (distance % step > 0)
    counts = np.where(going, counts, 0)
    if not counts.astype(np.float64).sum() < 2**31:
        raise ValueError(f"{op}: the rows would have more than 2147483647 values")
    counts = counts.astype(np.int64)
    ends = np.cumsum(counts)
    steps = np.arange(counts.sum()) - np.repeat(ends - counts, counts)
    values = np.repeat(first, counts) + steps.astype(wide) * np.repeat(by, counts)
    values = values.astype(dtype)
    return np.concatenate([[0], ends]).astype(np.int32), values


@kernels("RaggedTensorToTensor")
def ragged_tensor_to_tensor(
    shape: Array,
    values: Array,
    default_value: Array,
    *partitions: Array,
    row_partition_types: tuple[str, ...],
) -> Array:
    """Find each element's position in the result, level by level; -1: not included."""
    op = "sparse.ragged_tensor_to_tensor"
    kinds = [*zip(row_partition_types, partitions, strict=True)]
    if row_partition_types[0] == "FIRST_DIM_SIZE":
        count = int(kinds.pop(0)[1])
        if count < 0:
            raise ValueError(f"{op}: FIRST_DIM_SIZE {count} must not be negative")
    else:
        count = len(partitions[0]) - 1
    natural = [count]
    levels = []
    for kind, partition in kinds:
        rows, positions = _rows(op, kind, partition, count)
        levels.append((rows, positions))
        natural.append(int(positions.max(initial=-1)) + 1)
        count = len(rows)
    if count != len(values):
        raise ValueError(
            f"{op}: there are {len(values)} values, but the rows have space for {count}"
        )
    sizes = _sizes(op, shape, (*natural, *values.shape[1:]), values.ndim - 1)
    positions_in_y = np.arange(min(natural[0], sizes[0] + 1))
    positions_in_y[sizes[0] :] = -1  # one entry stands for all rows that are cut off
    for (rows, positions), size in zip(levels, sizes[1:], strict=False):
        parent = positions_in_y[np.minimum(rows, len(positions_in_y) - 1)]
        positions_in_y = np.where(
            (parent < 0) | (positions >= size), -1, parent * size + positions
        )
    y = np.empty((math.prod(sizes[: len(natural)]), *values.shape[1:]), values.dtype)
    y[...] = default_value
    kept = np.flatnonzero(positions_in_y >= 0)
    y[positions_in_y[kept]] = values[kept]
    return y.reshape(sizes)


def _rows(op: str, kind: str, partition: Array, count: int) -> tuple[Array, Array]:
    """Return the row of each element of a level, and its position in that row."""
    if kind == "ROW_SPLITS":
        splits = checked(op, partition, None)
        if len(splits) != count + 1:
            raise ValueError(
                f"{op}: {len(splits)} splits do not fit {count} rows; there must be "
                "one more"
            )
        rows = np.repeat(np.arange(count), np.diff(splits))
        return rows, np.arange(len(rows)) - splits[rows]
    rows = partition.astype(np.intp)
    inside = not rows.size or (rows[0] >= 0 and rows[-1] < count)
    if not inside or (rows[1:] < rows[:-1]).any():
        raise ValueError(
            f"{op}: row ids {partition} must not decrease, and must be at least 0 and "
            f"below {count}"
        )
    return rows, np.arange(len(rows)) - np.searchsorted(rows, rows)


def _sizes(
    op: str, shape: Array, natural: tuple[int, ...], inner: int
) -> tuple[int, ...]:
    """Return the shape of the result; -1 stands for the natural size of an axis."""
    wanted = shape.tolist() if shape.ndim else [-1] * len(natural)
    sizes = tuple([n if w == -1 else w for w, n in zip(wanted, natural, strict=True)])
    outer = len(natural) - inner
    alone = not shape.ndim
    if min(sizes) < 0 or sizes[outer:] != natural[outer:] or (alone and shape != -1):
        raise ValueError(
            f"{op}: shape {shape.tolist()} does not fit: pass -1, or one size or -1 "
            f"per axis, ending with the sizes of the values, {natural[outer:]}"
        )
    return sizes
