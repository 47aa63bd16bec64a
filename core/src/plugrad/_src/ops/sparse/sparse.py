"""Sparse and ragged tensors, public as ``plugrad.sparse``.

Kernels: ``SparseFillEmptyRows SparseReshape SparseSegmentMean SparseSegmentSum
SparseToDense``. The kernels for ragged tensors are in ``ragged``.

A sparse tensor consists of three tensors: the coordinates of its elements, integers
``[n, k]``, its values ``[n]`` and its shape ``[k]``.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Unpack

from plugrad._src.engine.dispatch import run, run_many
from plugrad._src.ops.array import gather
from plugrad._src.ops.basis import _convert, binary, compare, creation, reduce
from plugrad._src.ops.basis import shape as shapes
from plugrad._src.ops.basis._convert import Shaped
from plugrad._src.ops.indexing import scatter
from plugrad._src.registry.contract import Kernel, Spec, decomposition, gradients
from plugrad._src.tensor.arguments import Ints, integer, misfit, sizes
from plugrad._src.tensor.dtypes import BOOL, INT32, STRING, check_range
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import Shape, reshaped

from .ragged import as_integers, ragged_gather, ragged_range, ragged_tensor_to_tensor

if TYPE_CHECKING:
    from ._results import FilledRows

__all__ = ["ragged_gather", "ragged_range", "ragged_tensor_to_tensor"]
__all__ += ["fill_empty_rows", "reshape", "segment_mean", "segment_sum", "to_dense"]

# --- coordinates -----------------------------------------------------------------


def _to_dense_spec(indices: Spec, values: Spec, default: Spec, *, shape: Shape) -> Spec:
    _check_to_dense(indices, values, default, shape)
    return Spec(shape, values.dtype)


def _check_to_dense(
    indices: Shaped, values: Shaped, default: Shaped, shape: Shape
) -> None:
    fits = indices.shape[1:] == (len(shape),) and values.shape == indices.shape[:1]
    if not fits or default.shape:
        rule = f"indices [n, k], values [n], default_value [] must fit shape {shape}"
        raise misfit("sparse.to_dense", rule, indices, values, default)


SPARSE_TO_DENSE = Kernel(
    "SparseToDense(sparse_indices: int32 | int64, sparse_values, default_value: "
    "sparse_values; shape: shape)",
    out=_to_dense_spec,
    checks="sparse_indices",
    op="sparse.to_dense",
    doc="""``y[sparse_indices[i]] = sparse_values[i]``, and ``default_value`` elsewhere.

    ``sparse_indices`` is ``[n, k]``; each row has k coordinates, counted from 0. If
    coordinates are repeated, the last value is written. A coordinate out of range
    raises an IndexError.""",
)


def to_dense(
    indices: TensorLike,
    values: TensorLike,
    /,
    shape: Ints,
    *,
    default_value: TensorLike | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return a tensor of ``shape`` with ``values`` at coordinates ``indices``.

    If coordinates are repeated, the last value is written.

    Args:
        indices: ``[n, k]``, integers; ``[n]`` stands for ``[n, 1]``, and a scalar for
            ``[1, 1]``.
        values: ``[n]``, or one value for all coordinates, of any dtype.
        shape: ``k`` sizes.
        default_value: The value of all other elements; by default 0, False or the empty
            string.

    Returns:
        A tensor of ``shape`` and the promoted dtype of ``values`` and
        ``default_value``.

    Raises:
        ValueError: The shapes are incompatible.
        IndexError: A coordinate is out of range.
        TypeError: ``indices`` are not integers, or no dtype can represent both
            ``values`` and ``default_value``.

    Example:
        >>> pg.sparse.to_dense([[0, 1], [1, 0]], [5, 6], (2, 2))
        Tensor([[0, 5],
                [6, 0]], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(to_dense, unknown)
    op = "sparse.to_dense"
    shape = sizes("sparse.to_dense", shape)
    index_tensor = _convert.integer_tensor(op, "indices", indices)
    if len(index_tensor.shape) < 2:
        index_tensor = run(shapes.RESHAPE, index_tensor, shape=(index_tensor.size, 1))
    if default_value is None:
        values = _convert.asarray(values)
        default_value = b"" if values.dtype is STRING else False
    values, default = _convert.promote_all(op, values, default_value)
    if not values.shape:
        values = run(shapes.BROADCAST_TO, values, shape=index_tensor.shape[:1])
    _check_to_dense(index_tensor, values, default, shape)
    return run(SPARSE_TO_DENSE, index_tensor, values, default, shape=shape)


@decomposition(SPARSE_TO_DENSE)  # also used for the gradient
def _(
    sparse_indices: Tensor, sparse_values: Tensor, default_value: Tensor, shape: Shape
) -> Tensor:
    blank = run(shapes.BROADCAST_TO, default_value, shape=shape)
    with gather.range_errors("sparse.to_dense", sparse_indices, shape):
        return run(scatter.TENSOR_SCATTER_UPDATE, blank, sparse_indices, sparse_values)


def _reshape_specs(indices: Spec, old: Spec, new: Spec) -> tuple[Spec, Spec]:
    _check_reshape(indices, old, new)
    return Spec((indices.shape[0], new.shape[0]), indices.dtype), new


def _check_reshape(indices: Shaped, old: Shaped, new: Shaped) -> None:
    fits = len(indices.shape) == 2 and indices.shape[1:] == old.shape
    if not fits or len(new.shape) != 1:
        rule = "indices [n, k], input_shape [k] and new_shape [m] must fit"
        raise misfit("sparse.reshape", rule, indices, old, new)


SPARSE_RESHAPE = Kernel(
    "SparseReshape(input_indices: int32 | int64, input_shape: input_indices, "
    "new_shape: input_indices) -> output_indices, output_shape",
    out=_reshape_specs,
    checks=("input_indices", "input_shape", "new_shape"),
    op="sparse.reshape",
    doc="""Coordinates ``[n, k]`` in ``input_shape``, converted to coordinates of the
    same row-major positions in ``new_shape``; and that shape, with -1 inferred.

    A coordinate out of range raises an IndexError. Shapes whose numbers of elements
    differ, or are 2⁶³ or more, raise a ValueError; a size that the dtype cannot
    represent raises an OverflowError.""",
)


def reshape(
    indices: TensorLike, input_shape: TensorLike, new_shape: TensorLike, /
) -> tuple[Tensor, Tensor]:
    """Return the coordinates of a sparse tensor under a new shape, and that shape.

    Elements keep their position in row-major order.

    Args:
        indices: ``[n, k]``, integers.
        input_shape: ``[k]``, integers.
        new_shape: ``[m]``, integers; one of them may be -1 and is inferred from the
            others.

    Returns:
        Coordinates ``[n, m]`` and a shape ``[m]``; int64 if an argument is, else int32.

    Raises:
        ValueError: The shapes do not have the same number of elements, or this number
            is not below 2⁶³; or ``input_shape`` contains a negative size.
        IndexError: A coordinate is not inside ``input_shape``.
        OverflowError: A size does not fit into int32, and no argument is int64.

    Example:
        >>> indices, shape = pg.sparse.reshape([[0, 1], [1, 2]], [2, 3], [3, -1])
        >>> indices.tolist(), shape.tolist()
        ([[0, 1], [2, 1]], [3, 2])

    """
    op = "sparse.reshape"
    index_tensor = as_integers(op, "indices", indices, 2)
    old = as_integers(op, "input_shape", input_shape, 1)
    new = as_integers(op, "new_shape", new_shape, 1)
    _check_reshape(index_tensor, old, new)
    positions, sizes = run_many(
        SPARSE_RESHAPE, *_convert.promote_all(op, index_tensor, old, new)
    )
    return positions, sizes


@decomposition(SPARSE_RESHAPE)
def _(input_indices: Tensor, input_shape: Tensor, new_shape: Tensor) -> list[Tensor]:
    lead = tuple(input_shape._values().tolist())
    if min(lead, default=0) < 0 or math.prod(lead) >= 2**63:
        rule = "must not be negative, and must have fewer than 2**63 elements"
        raise ValueError(f"sparse.reshape: input_shape {lead} {rule}")
    sizes = list(reshaped(lead, new_shape._values().tolist()))
    dtype = input_indices.dtype
    check_range("sparse.reshape", max(sizes, default=0), dtype)
    if error := gather.bad_index("sparse.reshape", input_indices, lead):
        raise error
    flat = shapes.expand_dims(scatter._row_numbers(input_indices, lead), axis=1)
    steps = [max(math.prod(sizes[i + 1 :]), 1) for i in range(len(sizes))]
    step, size = (_convert.asarray(s, dtype=flat.dtype) for s in (steps, sizes))
    positions = creation.cast(flat // step % size, dtype)
    return [positions, _convert.asarray(sizes, dtype=dtype)]


def _check_fill(
    indices: Shaped, values: Shaped, sizes: Shaped, default: Shaped
) -> None:
    """Raise unless the arguments are a sparse tensor with rows and a scalar default."""
    op = "sparse.fill_empty_rows"
    n = indices.shape[:1]
    k = indices.shape[1:]
    fits = len(k) == 1 and values.shape == n and sizes.shape == k
    if not fits or default.shape:
        rule = "indices [n, k], values [n], dense_shape [k], default_value [] must fit"
        raise misfit(op, rule, indices, values, sizes, default)
    if not k[0]:
        raise ValueError(f"{op}: a tensor without axes has no rows")


SPARSE_FILL_EMPTY_ROWS = Kernel(
    "SparseFillEmptyRows(indices: int32 | int64, values, dense_shape: int32 | int64, "
    "default_value: values) -> output_indices, output_values, empty_row_indicator, "
    "reverse_index_map",
    out=_check_fill,
    checks=("indices", "dense_shape"),
    op="sparse.fill_empty_rows",
    doc="""The elements sorted by row, ``indices[:, 0]``; elements of the same row keep
    their order. Each of the ``dense_shape[0]`` rows without elements gets
    ``default_value`` at (row, 0, …).

    ``empty_row_indicator``, bool, tells which rows were empty. ``reverse_index_map`` is
    the position of each element in the result, in the dtype of ``indices``. A row out
    of range raises an IndexError; other coordinates are not checked.""",
)


def fill_empty_rows(
    indices: TensorLike,
    values: TensorLike,
    dense_shape: TensorLike,
    default_value: TensorLike,
    /,
) -> FilledRows:
    """Return a sparse tensor with ``default_value`` at the start of each empty row.

    Args:
        indices: ``[n, k]``, integers, the row first.
        values: ``[n]``, of any dtype.
        dense_shape: ``[k]``, integers, the number of rows first.
        default_value: One value.

    Returns:
        A named tuple. ``indices`` and ``values``, sorted by row;
        ``empty_row_indicator``, bool, whether each row was empty;
        ``reverse_index_map``, ``[n]``, the position of each element in the result.

    Raises:
        ValueError: The shapes are incompatible, or the number of rows is negative.
        IndexError: A row is out of range; the other coordinates are not checked.
        TypeError: ``indices`` or ``dense_shape`` are not integers, or no dtype can
            represent both ``values`` and ``default_value``.

    Example:
        >>> filled = pg.sparse.fill_empty_rows([[0, 1], [2, 0]], [5, 6], [3, 2], 0)
        >>> filled.indices.tolist(), filled.values.tolist()
        ([[0, 1], [1, 0], [2, 0]], [5, 0, 6])

    Source:
        TensorFlow, ``tf.sparse.fill_empty_rows``.

    """
    op = "sparse.fill_empty_rows"
    index_tensor = as_integers(op, "indices", indices, 2)
    sizes = as_integers(op, "dense_shape", dense_shape, 1)
    values, default = _convert.promote_all(op, values, default_value)
    _check_fill(index_tensor, values, sizes, default)
    from ._results import FilledRows

    return FilledRows(
        *run_many(SPARSE_FILL_EMPTY_ROWS, index_tensor, values, sizes, default)
    )


def _default_gradient(dy: Tensor, positions: Tensor) -> Tensor:
    """Sum the cotangents of the filled-in values."""
    ones = creation.ones(positions.shape, dtype=INT32)
    hits = scatter._sums(ones, positions, dy.shape[0])
    return reduce.sum(compare.where(compare.equal(hits, 0), dy, 0))


def _gather_rows(x: Tensor, positions: Tensor) -> Tensor:
    return run(gather.GATHER_V2, x, positions, axis=0, batch_dims=0)


gradients(
    SPARSE_FILL_EMPTY_ROWS,
    indices=None,
    values=lambda di, dy, de, dr, reverse_index_map: _gather_rows(
        dy, reverse_index_map
    ),
    dense_shape=None,
    default_value=lambda di, dy, de, dr, reverse_index_map: _default_gradient(
        dy, reverse_index_map
    ),
)


# --- segments --------------------------------------------------------------------


def _check_rows(op: str, data: Shaped, indices: Shaped, ids: Shaped) -> None:
    if not data.shape or len(ids.shape) != 1 or indices.shape != ids.shape:
        rule = "data must have rows, and indices as many elements as segment_ids"
        raise misfit(op, rule, data, indices, ids)


def _segment_spec(
    op: str, data: Spec, indices: Spec, ids: Spec, *, num_segments: int
) -> Spec:
    _check_rows(op, data, indices, ids)
    return Spec((num_segments, *data.shape[1:]), data.dtype)


SPARSE_SEGMENT_SUM = Kernel(
    "SparseSegmentSum(data: number, indices: int32 | int64, segment_ids: "
    "int32 | int64; num_segments: size)",
    out=partial(_segment_spec, "sparse.segment_sum"),
    checks="indices",
    op="sparse.segment_sum",
    doc="""``y[s] = Σ data[indices[i]]`` over all i with ``segment_ids[i] = s``; 0 where
    there is none. The ids may be in any order.

    Ids that are negative, or at least ``num_segments``, are ignored. An index out of
    range raises an IndexError. Integers wrap.""",
)
SPARSE_SEGMENT_MEAN = Kernel(
    "SparseSegmentMean(data: inexact, indices: int32 | int64, segment_ids: "
    "int32 | int64; num_segments: size)",
    out=partial(_segment_spec, "sparse.segment_mean"),
    checks="indices",
    op="sparse.segment_mean",
    doc="""``SparseSegmentSum`` divided by the number of rows; 0 where there is none.

    float16 is summed in float32 or a wider dtype.""",
)


def segment_sum(
    data: TensorLike,
    indices: TensorLike,
    segment_ids: TensorLike,
    /,
    *,
    num_segments: int | None = None,
) -> Tensor:
    """Return the sums of the rows ``data[indices]`` that have the same id.

    The sum of no rows is 0.

    Args:
        data: ``[m, …]``, numbers.
        indices: ``[n]``, integers, rows of ``data``.
        segment_ids: ``[n]``, integers: the sum to which each row belongs.
        num_segments: The number of sums; rows with an id that is negative or too large
            are ignored. By default the last id plus one: the ids are then read on the
            host, must not be negative and must not decrease.

    Returns:
        ``[num_segments, …]``, of the dtype of ``data``; int32 for bool.

    Raises:
        ValueError: The shapes are incompatible; or, without ``num_segments``, the ids
            decrease or are negative.
        IndexError: An index is out of range.
        TypeError: ``data`` contains strings, or indices or ids are not integers.

    Example:
        >>> pg.sparse.segment_sum([1.0, 2.0, 4.0], [0, 2, 1], [0, 0, 1])
        Tensor([5., 2.], dtype=float32, backend='cpu')

    Source:
        TensorFlow, ``tf.sparse.segment_sum``.

    """
    x = _convert.numbers("sparse.segment_sum", data)
    x = creation.cast(x, INT32) if x.dtype is BOOL else x
    return _run_segments(SPARSE_SEGMENT_SUM, x, indices, segment_ids, num_segments)


def segment_mean(
    data: TensorLike,
    indices: TensorLike,
    segment_ids: TensorLike,
    /,
    *,
    num_segments: int | None = None,
) -> Tensor:
    """Return the means of the rows ``data[indices]`` that have the same id.

    The mean of no rows is 0.

    Args:
        data: ``[m, …]``, numbers.
        indices: ``[n]``, integers, rows of ``data``.
        segment_ids: ``[n]``, integers: the mean to which each row belongs.
        num_segments: The number of means; rows with an id that is negative or too large
            are ignored. By default the last id plus one: the ids are then read on the
            host, must not be negative and must not decrease.

    Returns:
        ``[num_segments, …]``, of the dtype of ``data``; float32 for integers and bool.

    Raises:
        ValueError: The shapes are incompatible; or, without ``num_segments``, the ids
            decrease or are negative.
        IndexError: An index is out of range.
        TypeError: ``data`` contains strings, or indices or ids are not integers.

    Example:
        >>> pg.sparse.segment_mean([1.0, 2.0, 4.0], [0, 2, 1], [0, 0, 1])
        Tensor([2.5, 2. ], dtype=float32, backend='cpu')

    Source:
        TensorFlow, ``tf.sparse.segment_mean``.

    """
    x = _convert.floating("sparse.segment_mean", data)
    return _run_segments(SPARSE_SEGMENT_MEAN, x, indices, segment_ids, num_segments)


def _run_segments(
    kernel: Kernel, x: Tensor, indices: TensorLike, ids: TensorLike, count: int | None
) -> Tensor:
    """Check the ids, determine the number of segments, and run the kernel."""
    op = kernel.op
    index_tensor = as_integers(kernel.op, "indices", indices, 1)
    ids = as_integers(op, "segment_ids", ids, 1)
    _check_rows(op, x, index_tensor, ids)
    if count is None:
        known = ids._values()
        if known.size and (known[0] < 0 or (known[1:] < known[:-1]).any()):
            hint = "sort them, and the indices with them"
            raise ValueError(f"{op}: segment_ids are negative or decrease; {hint}")
        count = int(known[-1]) + 1 if known.size else 0
    return run(
        kernel, x, index_tensor, ids, num_segments=integer(op, "num_segments", count, 0)
    )


def _read_rows(op: str, data: Tensor, indices: Tensor) -> Tensor:
    with gather.range_errors(op, indices, data.shape[:1]):
        return _gather_rows(data, indices)


@decomposition(SPARSE_SEGMENT_SUM)  # also used for the gradient
def _(data: Tensor, indices: Tensor, segment_ids: Tensor, num_segments: int) -> Tensor:
    rows = _read_rows("sparse.segment_sum", data, indices)
    return scatter._sums(rows, segment_ids, num_segments)


@decomposition(SPARSE_SEGMENT_MEAN)  # also used for the gradient
def _(data: Tensor, indices: Tensor, segment_ids: Tensor, num_segments: int) -> Tensor:
    rows = reduce.widened(_read_rows("sparse.segment_mean", data, indices))
    ones = creation.ones((rows.shape[0], *[1] * (len(rows.shape) - 1)), dtype=INT32)
    counts = binary.maximum(scatter._sums(ones, segment_ids, num_segments), 1)
    means = scatter._sums(rows, segment_ids, num_segments) / counts
    return creation.cast(means, data.dtype)
