"""Ragged tensors, public in ``plugrad.sparse``: rows that differ in length.

Kernels: ``RaggedGather RaggedRange RaggedTensorToTensor``. The shapes of their results
depend on values, so the ops wait until these values have been computed.

A ragged tensor consists of the values of all rows, one row after another, and of row
splits, the positions where rows begin and end: row ``i`` is
``values[splits[i] : splits[i + 1]]``. Nested rows have splits for each level.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import numpy as np

from plugrad._src.engine.dispatch import run, run_many
from plugrad._src.ops.array import ranges, slicing
from plugrad._src.ops.basis import _convert, compare, reduce
from plugrad._src.ops.basis import shape as shapes
from plugrad._src.ops.basis._convert import Shaped
from plugrad._src.ops.indexing import scatter
from plugrad._src.registry.contract import Kernel, Spec, gradients
from plugrad._src.tensor.arguments import misfit, several
from plugrad._src.tensor.dtypes import dtype_kind, named
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike

Tensors = tuple[Tensor, ...]
Types = tuple[str, ...]


def as_integers(op: str, name: str, value: TensorLike, rank: int) -> Tensor:
    """Return a tensor of integers; raise unless it has ``rank`` axes."""
    x = _convert.integer_tensor(op, name, value)
    if len(x.shape) != rank:
        raise ValueError(f"{op}: {name} must have rank {rank}, got shape {x.shape}")
    return x


# --- rows ------------------------------------------------------------------------


def _check_ragged(*inputs: Spec) -> None:
    *splits, values, _ = inputs
    if any(len(s.shape) != 1 for s in splits):
        raise misfit("sparse.ragged_gather", "splits must have rank 1", *splits)
    _check_levels(len(splits), values)


def _check_levels(levels: int, values: Shaped) -> None:
    if not levels or not values.shape:
        rule = f"pass one or more splits (got {levels}), and values with an axis"
        raise misfit("sparse.ragged_gather", rule, values)


RAGGED_GATHER = Kernel(
    "RaggedGather(*params_nested_splits: int32 | int64, params_dense_values, "
    "indices: int32 | int64) -> *ys",
    out=_check_ragged,
    checks=("params_nested_splits", "indices"),
    op="sparse.ragged_gather",
    doc="""The rows ``indices`` of a ragged tensor: splits of each level, and values.

    All axes of ``indices`` but the last become additional outer levels, whose rows have
    equal lengths. A scalar index gives its row, which has one level less. Splits must
    begin with 0, not decrease, and end with the number of rows of the next level, or a
    ValueError is raised; an index out of range raises an IndexError.""",
)


def ragged_gather(
    nested_splits: Sequence[TensorLike], values: TensorLike, indices: TensorLike, /
) -> tuple[tuple[Tensor, ...], Tensor]:
    """Return the rows of a ragged tensor at ``indices``, as splits and values.

    Args:
        nested_splits: The row splits of each level, the outermost first. They begin
            with 0, do not decrease, and end with the number of rows of the next level,
            or of the values.
        values: ``[m, …]``, of any dtype.
        indices: ``[…]``, integers: rows of the outermost level. All of its axes but the
            last become additional outer levels of the result. A scalar selects a single
            row, which has one level less.

    Returns:
        A tuple of the splits of each level, and the values.

    Raises:
        ValueError: The splits are not valid row splits.
        IndexError: An index is out of range.
        TypeError: Splits or indices are not integers.

    Example:
        >>> splits, values = pg.sparse.ragged_gather([[0, 2, 3]], [10, 20, 30], [1, 0])
        >>> splits[0].tolist(), values.tolist()
        ([0, 1, 3], [30, 10, 20])

    Source:
        TensorFlow, ``tf.raw_ops.RaggedGather``.

    """
    op = "sparse.ragged_gather"
    nested = several(op, "nested_splits", nested_splits)
    splits = [as_integers(op, "nested_splits", s, 1) for s in nested]
    x = _convert.asarray(values)
    index_tensor = _convert.integer_tensor(op, "indices", indices)
    _check_levels(len(splits), x)
    *outer, inner = run_many(
        RAGGED_GATHER, *_convert.promote_all(op, *splits), x, index_tensor
    )
    return tuple(outer), inner


def _sum_by_value(
    dys: Sequence[Tensor],
    params_nested_splits: Tensors,
    params_dense_values_spec: Spec,
    indices: Tensor,
) -> Tensor:
    """Add up the cotangents of each value that was gathered."""
    count = params_dense_values_spec.shape[0]
    numbers = ranges.arange(count)
    *_, taken = run_many(RAGGED_GATHER, *params_nested_splits, numbers, indices)
    return scatter._sums(dys[-1], taken, count)


gradients(
    RAGGED_GATHER,
    params_nested_splits=None,
    params_dense_values=_sum_by_value,
    indices=None,
)


def _check_equal_lengths(*xs: Shaped) -> None:
    if len({x.shape for x in xs} - {()}) > 1 or any(len(x.shape) > 1 for x in xs):
        rule = "shapes must be () or the same shape (n,)"
        raise misfit("sparse.ragged_range", rule, *xs)


RAGGED_RANGE = Kernel(
    "RaggedRange(starts: integer | floating, limits: starts, deltas: starts) -> "
    "splits, values",
    out=_check_equal_lengths,
    checks=("starts", "limits", "deltas"),
    op="sparse.ragged_range",
    doc="""Rows ``start + i · delta`` for i below ``(limit - start) / delta``. Each
    argument is ``[n]`` or one number for all rows; if all are numbers, there is one
    row. Splits are int32.

    Floating values are computed in float64; differences of integers do not overflow. A
    limit on the wrong side of the start gives no values, and neither does a start or
    limit of NaN. A delta of 0 or NaN, and 2³¹ values or more, raise a ValueError.""",
)


def ragged_range(
    starts: TensorLike, limits: TensorLike, /, deltas: TensorLike = 1
) -> tuple[Tensor, Tensor]:
    """Return rows ``start, start + delta, …`` up to but not including ``limit``.

    Floating-point values are computed in float64. A limit on the wrong side of the
    start gives no values, and so does a NaN start or limit.

    Args:
        starts: The first value of each row: ``[n]``, or one number for all rows.
        limits: The end of each row, exclusive: ``[n]``, or one number for all rows.
        deltas: The step of each row, not 0: ``[n]``, or one number for all rows.

    Returns:
        The row splits, int32 ``[n + 1]``, and the values of all rows, in the promoted
        dtype.

    Raises:
        ValueError: A delta is 0 or NaN, there are more than 2³¹ - 1 values, or the
            shapes are incompatible.
        TypeError: The promoted dtype is complex, bool or string.

    Example:
        >>> splits, values = pg.sparse.ragged_range([0, 5], [3, 7])
        >>> splits.tolist(), values.tolist()
        ([0, 3, 5], [0, 1, 2, 5, 6])

    Source:
        TensorFlow, ``tf.raw_ops.RaggedRange``.

    """
    op = "sparse.ragged_range"
    xs = _convert.promote_all(op, starts, limits, deltas)
    if dtype_kind(xs[0].dtype) not in "iuf":
        raise TypeError(f"{op}: there is no range of {named(xs[0].dtype)}")
    _check_equal_lengths(*xs)
    splits, values = run_many(RAGGED_RANGE, *xs)
    return splits, values


def _sum_by_row(dy: Tensor, splits: Tensor, x_spec: Spec, steps: bool) -> Tensor:
    """Sum cotangents by row; with ``steps``, each is multiplied by its step number."""
    ends = splits._values()
    counts = np.diff(ends)
    if steps:
        taken = np.arange(ends[-1]) - np.repeat(ends[:-1], counts)
        dy = dy * _convert.asarray(taken.astype(dy.dtype))
    if not x_spec.shape:
        return reduce.sum(dy)
    rows = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    return scatter._sums(dy, _convert.tensor_of(rows, copy=False), len(counts))


gradients(
    RAGGED_RANGE,
    starts=lambda ds, dy, splits, starts_spec: _sum_by_row(
        dy, splits, starts_spec, False
    ),
    limits=None,
    deltas=lambda ds, dy, splits, deltas_spec: _sum_by_row(
        dy, splits, deltas_spec, True
    ),
)


# --- conversion to dense tensors -------------------------------------------------

# The allowed types of the first partition, and of the later ones.
FIRST_TYPES = ("FIRST_DIM_SIZE", "ROW_SPLITS")
LATER_TYPES = ("ROW_SPLITS", "VALUE_ROWIDS")


def _check_partitions(
    shape: Spec,
    values: Spec,
    default_value: Spec,
    *row_partition_tensors: Spec,
    row_partition_types: Types,
) -> None:
    op, types = "sparse.ragged_tensor_to_tensor", row_partition_types
    if not isinstance(types, tuple):
        raise TypeError(f"{op}: row_partition_types must be a tuple, got {types!r}")
    _check_types(op, len(row_partition_tensors), types)
    for kind, part in zip(types, row_partition_tensors, strict=True):
        if len(part.shape) != _rank(kind):
            raise misfit(op, f"{kind} must have rank {_rank(kind)}", part)
    _check_sizes(op, shape, values, default_value, types)


def _check_types(op: str, count: int, types: Types) -> None:
    """Raise unless there are ``count`` types in an allowed order."""
    legal = [
        kind in (LATER_TYPES if i else FIRST_TYPES) for i, kind in enumerate(types)
    ]
    if not types or len(types) != count or not all(legal):
        given = f"{count} row_partition_tensors of the types {types}"
        known = f"first one of {FIRST_TYPES}, then of {LATER_TYPES}"
        raise ValueError(f"{op}: {given}; give one type for each tensor: {known}")


def _rank(kind: str) -> int:
    return int(kind != FIRST_TYPES[0])


def _check_sizes(
    op: str, shape: Shaped, values: Shaped, default: Shaped, types: Types
) -> None:
    """Raise unless the sizes and the default are compatible with the values."""
    levels = _levels(types)
    rank = levels + len(values.shape) - 1
    if not values.shape or shape.shape not in ((), (rank,)):
        rule = f"values [m, ...] with {levels} row axes need {rank} sizes, or -1"
        raise misfit(op, rule, values, shape)
    _convert.check_broadcast(op, "default_value", default, values.shape[1:])


RAGGED_TENSOR_TO_TENSOR = Kernel(
    "RaggedTensorToTensor(shape: int32 | int64, values, default_value: values, "
    "*row_partition_tensors: int32 | int64; row_partition_types)",
    out=_check_partitions,
    checks=("shape", "row_partition_tensors"),
    op="sparse.ragged_tensor_to_tensor",
    doc="""A ragged tensor as a dense tensor of ``shape``: rows are cropped, or filled
    up with ``default_value``. A size of -1, or -1 as ``shape``, stands for the size of
    the longest row.

    The partitions tell which row each element of the next level belongs to, the
    outermost level first: "ROW_SPLITS" ``[n + 1]``, where rows begin; "VALUE_ROWIDS"
    ``[m]``, the row of each element, not decreasing. The first partition may be
    "FIRST_DIM_SIZE" ``[]``, the number of rows. Partitions, values or sizes that do not
    fit raise a ValueError.""",
)


def ragged_tensor_to_tensor(
    shape: TensorLike,
    values: TensorLike,
    default_value: TensorLike,
    row_partition_tensors: Sequence[TensorLike],
    /,
    row_partition_types: Sequence[str],
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return a ragged tensor as a dense one, with rows cropped or padded.

    Args:
        shape: A size for each axis, where -1 stands for the size of the longest row; or
            -1 for all axes.
        values: ``[m, …]``.
        default_value: The value that pads short rows; it broadcasts to ``[…]``.
        row_partition_tensors: The partitions of the values into rows, the outermost
            level first.
        row_partition_types: The type of each partition. ``"ROW_SPLITS"``: where rows
            begin. ``"VALUE_ROWIDS"``: the row of each value, not decreasing; it cannot
            be the first one. ``"FIRST_DIM_SIZE"``: the number of rows; it can only be
            the first one.

    Returns:
        A tensor of the promoted dtype of ``values`` and ``default_value``.

    Raises:
        ValueError: The partitions are incompatible with each other, the values or the
            shape.
        TypeError: The shape or a partition does not contain integers, or no dtype can
            represent both ``values`` and ``default_value``.

    Example:
        >>> values, splits = [1, 2, 3], [0, 2, 3]
        >>> pg.sparse.ragged_tensor_to_tensor(-1, values, 0, [splits], ["ROW_SPLITS"])
        Tensor([[1, 2],
                [3, 0]], dtype=int32, backend='cpu')

    Source:
        TensorFlow, ``tf.raw_ops.RaggedTensorToTensor``.

    """
    if unknown:
        raise unexpected(ragged_tensor_to_tensor, unknown)
    op = "sparse.ragged_tensor_to_tensor"
    sizes = _convert.integer_tensor(op, "shape", shape)
    x, default = _convert.promote_all(op, values, default_value)
    types = tuple(several(op, "row_partition_types", row_partition_types))
    tensors = several(op, "row_partition_tensors", row_partition_tensors)
    _check_types(op, len(tensors), types)
    pairs = zip(types, tensors, strict=True)
    parts = [as_integers(op, kind, part, _rank(kind)) for kind, part in pairs]
    _check_sizes(op, sizes, x, default, types)
    xs = (sizes, x, default, *parts)
    return run(RAGGED_TENSOR_TO_TENSOR, *xs, row_partition_types=types)


def _levels(types: Types) -> int:
    """Return the number of row axes: one per type, one more if splits come first."""
    return len(types) + (types[0] != FIRST_TYPES[0])


def _value_indices(shape: Tensor, values: Spec, parts: Tensors, types: Types) -> Tensor:
    """Return the index of the value at each position of the result; -1 for none."""
    if shape.shape:
        shape = slicing.along(shape, 0, 0, _levels(types))
    xs = (shape, ranges.arange(values.shape[0]), _convert.asarray(-1), *parts)
    return run(RAGGED_TENSOR_TO_TENSOR, *xs, row_partition_types=types)


def _values_gradient(
    dy: Tensor,
    shape: Tensor,
    values_spec: Spec,
    row_partition_tensors: Tensors,
    row_partition_types: Types,
) -> Tensor:
    numbers = _value_indices(
        shape, values_spec, row_partition_tensors, row_partition_types
    )
    ids = run(shapes.RESHAPE, numbers, shape=(numbers.size,))
    rows = run(shapes.RESHAPE, dy, shape=(numbers.size, *values_spec.shape[1:]))
    return scatter._sums(rows, ids, values_spec.shape[0])  # -1 is ignored


def _default_gradient(
    dy: Tensor,
    shape: Tensor,
    values_spec: Spec,
    default_value_spec: Spec,
    row_partition_tensors: Tensors,
    row_partition_types: Types,
) -> Tensor:
    numbers = _value_indices(
        shape, values_spec, row_partition_tensors, row_partition_types
    )
    rest = (1,) * (len(values_spec.shape) - 1)
    numbers = run(shapes.RESHAPE, numbers, shape=(*numbers.shape, *rest))
    return reduce.sum_to(compare.where(numbers < 0, dy, 0), default_value_spec.shape)


gradients(
    RAGGED_TENSOR_TO_TENSOR,
    shape=None,
    values=_values_gradient,
    default_value=_default_gradient,
    row_partition_tensors=None,
)
