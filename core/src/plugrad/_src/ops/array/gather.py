"""Gathering slices by index, summing them by segment id, and one-hot encoding.

Kernels: ``GatherV2 OneHot Take UnsortedSegmentSum``. Gathering and summing by segment
are transposes of each other, so each is the other's gradient. Except for Take, kernels
count indices from 0. For an index that is out of range every backend raises an
IndexError: at once or, if it works asynchronously, at the next read.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any, Unpack

import numpy as np

from plugrad import geometry
from plugrad._src.engine.dispatch import require_dtype, run
from plugrad._src.ops.basis import _convert, binary, compare, creation, shape
from plugrad._src.registry.contract import Kernel, Spec, decomposition, gradients
from plugrad._src.tensor.arguments import integer, misfit, sizes
from plugrad._src.tensor.dtypes import BOOL, INT32, DType, canonical, dtype_kind
from plugrad._src.tensor.explained import explained
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike

from . import ranges, slicing

__all__ = ["gather", "one_hot", "take", "take_along_axis", "unsorted_segment_sum"]

# --- indices ---------------------------------------------------------------------


def _gather_spec(x: Spec, indices: Spec, *, axis: int, batch_dims: int) -> Spec:
    shape.check_axis("gather", axis, len(x.shape))
    if not 0 <= batch_dims <= min(axis, len(indices.shape)):
        raise _batch_dims_error("gather", batch_dims, axis, indices)
    _check_batch("gather", x, indices, batch_dims)
    return Spec(
        shape._replace_axis(x.shape, axis, *indices.shape[batch_dims:]), x.dtype
    )


def _batch_dims_error(op: str, batch_dims: int, axis: int, indices: Any) -> ValueError:
    rule = f"batch_dims {batch_dims} must be at most axis {axis} and the rank of"
    return misfit(op, f"{rule} indices", indices)


def _check_batch(op: str, x: Spec | Tensor, indices: Spec | Tensor, batch: int) -> None:
    if x.shape[:batch] != indices.shape[:batch]:
        raise misfit(op, f"the first {batch} axes (batch_dims) must agree", x, indices)


GATHER_V2 = Kernel(
    "GatherV2(x, indices: integer; axis: axis, batch_dims: size)",
    out=_gather_spec,
    checks="indices",
    op="gather",
    doc="""The slices of ``x`` along ``axis`` at ``indices``.

    The axes of ``indices`` replace ``axis``. ``x`` and ``indices`` share the first
    ``batch_dims`` axes: ``y[b, o, k, r]`` is ``x[b, o, indices[b, k], r]``, where b, o,
    k and r stand for any number of axes. Indices count from 0. An index that is
    negative or too large raises an IndexError, at once or at the next read of an
    asynchronous backend; if the result is empty, it may go unnoticed.""",
)


def gather(
    x: TensorLike,
    indices: TensorLike,
    /,
    axis: int = 0,
    *,
    batch_dims: int = 0,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the slices of ``x`` at ``indices`` along an axis.

    ``y[b, o, k, r] = x[b, o, indices[b, k], r]``, where b, o, k and r stand for any
    number of axes. The axes of ``indices`` replace ``axis``. Negative indices count
    from the end.

    Args:
        x: A tensor of any dtype with at least one axis.
        indices: Integers of any shape.
        axis: The axis of ``x`` along which to gather.
        batch_dims: The number of leading axes that ``x`` and ``indices`` share, at most
            ``axis``. A negative number is added to the rank of ``indices``.

    Returns:
        A tensor with the dtype of ``x`` and the shape
        ``x.shape[:axis] + indices.shape[batch_dims:] + x.shape[axis + 1:]``.

    Raises:
        IndexError: An index is out of range.
        TypeError: The indices are not integers.
        ValueError: ``axis`` or ``batch_dims`` is out of range, or the shared axes
            differ.

    Example:
        >>> pg.gather([10.0, 20.0, 30.0], [2, 0, 2])
        Tensor([30., 10., 30.], dtype=float32, backend='cpu')
        >>> pg.gather([[1, 2], [3, 4]], [1, 0], axis=1, batch_dims=1)
        Tensor([2, 3], dtype=int32, backend='cpu')

    Source:
        The semantics are those of ``tf.gather`` in TensorFlow.js; negative indices as
        in NumPy.

    """
    if unknown:
        raise unexpected(gather, unknown)
    op = "gather"
    x = _convert.asarray(x)
    axis = shape._axis(op, axis, len(x.shape))
    positions, kernel = _indices_and_kernel(op, indices, x.shape[axis], axis)
    given = integer(op, "batch_dims", batch_dims)
    rank = len(positions.shape)
    batch = given + rank if given < 0 else given
    if not 0 <= batch <= min(axis, rank):
        raise _batch_dims_error(op, given, axis, positions)
    _check_batch(op, x, positions, batch)
    return run(kernel, x, positions, axis=axis, batch_dims=batch)


def _gather_gradient(
    dy: Tensor, indices: Tensor, x_spec: Spec, axis: int, batch_dims: int
) -> Tensor:
    """Sum the slices of ``dy`` by index.

    The axes of ``dy`` are b (batch), o (outer), k (those of the indices) and inner; k
    moves in front of o. Each element of the batch gets its own range of ids.
    """
    batch, size = x_spec.shape[:batch_dims], x_spec.shape[axis]
    b = batch_dims
    o = axis - batch_dims
    k = len(indices.shape) - batch_dims
    count = math.prod(batch)
    each = math.prod(indices.shape[b:])
    if o:
        back = (*range(b + o, b + o + k), *range(b, b + o))
        order = (*range(b), *back, *range(b + o + k, len(dy.shape)))
        dy = run(shape.TRANSPOSE, dy, axes=order)
    if b:
        kind = INT32 if count * size < 2**31 else _convert.INT64
        starts = run(ranges.RANGE, start=0, step=max(size, 1), size=count, dtype=kind)
        indices = creation.cast(indices, kind)
        sizes = (count,) if each == 1 else (count, each)
        starts = shape.shaped(starts, sizes if each == 1 else (count, 1))
        indices = run(binary.ADD, shape.shaped(indices, sizes), starts)
    ids = shape.shaped(indices, (count * each,))
    rest = dy.shape[b + k :]
    rows = shape.shaped(dy, (count * each, *rest))
    dx = run(UNSORTED_SEGMENT_SUM, rows, ids, num_segments=count * size)
    if b:
        dx = run(shape.RESHAPE, dx, shape=(*batch, size, *rest))
    if not o:
        return dx
    order = (*range(b), *range(b + 1, b + 1 + o), b, *range(b + 1 + o, len(dx.shape)))
    return run(shape.TRANSPOSE, dx, axes=order)


gradients(GATHER_V2, x=_gather_gradient, indices=None)


def bad_index(op: str, indices: Tensor, sizes: geometry.Shape) -> IndexError | None:
    """Return an error for the first index that is out of range, or None.

    ``indices`` has the shape ``[..., k]``: positions along k axes of the given
    ``sizes``. They are read on the host.
    """
    known = indices._values()
    for axis, n in enumerate(sizes):
        positions = known.reshape(-1, len(sizes))[:, axis]
        bad = positions[(positions < 0) | (positions >= n)]
        if bad.size:
            where = f"axis {axis} with size {n}"
            return IndexError(f"{op}: index {bad[0]} is out of range for {where}")
    return None


TAKE = Kernel(
    "Take(x, indices: integer; axis: axis, batch_dims: size)",
    out=_gather_spec,
    checks="indices",
    op="take",
    doc="""``GatherV2``, but negative indices count from the end of the axis.

    An index less than minus the size of the axis, or not less than the size, raises an
    IndexError, at once or at the next read of an asynchronous backend; if the result is
    empty, it may go unnoticed.""",
)


@decomposition(TAKE)
def _(x: Tensor, indices: Tensor, *, axis: int, batch_dims: int) -> Tensor:
    n, positions = x.shape[axis], indices
    if dtype_kind(indices.dtype) != "u":
        positions = _wrap_negative(
            _convert.integer_tensor("take", "indices", indices), n
        )
    try:
        return run(GATHER_V2, x, positions, axis=axis, batch_dims=batch_dims)
    except IndexError as error:
        known = indices._values()
        bad = known[(known < -n) | (known >= n)]
        raise out_of_range("gather", bad[0], axis, n) if bad.size else error from None


@contextlib.contextmanager
def range_errors(op: str, indices: Tensor, sizes: geometry.Shape) -> Iterator[None]:
    """Replace an IndexError of an inner kernel with one that names ``op``.

    Other IndexErrors, such as those of earlier ops on an asynchronous backend, are
    raised unchanged.
    """
    try:
        yield
    except IndexError as error:
        raise bad_index(op, indices, sizes) or error from None


def out_of_range(op: str, index: int, axis: int, n: int) -> IndexError:
    """Return the error for an index that is out of range for an axis of size ``n``."""
    error = IndexError(
        f"{op}: index {index} is out of range for axis {axis} with size {n}"
    )
    return explained(error, "index-out-of-range")


def counted_from_0(
    op: str, indices: TensorLike, size: int | geometry.Shape, axis: int = 0
) -> Tensor:
    """Return indices counted from 0, that is, with the size added to negative ones.

    Args:
        op: The op, for messages.
        indices: Integers of any shape; ``[..., k]`` for several axes.
        size: The size of the axis, or the sizes of k axes.
        axis: The axis, for messages, if there is only one.

    Raises:
        IndexError: Indices that are known on the host are out of range; those in a
            tensor are checked by the kernel.

    """
    known = _convert.on_host(op, "indices", indices)
    if known is None:
        x = _convert.integer_tensor(op, "indices", indices)
        if dtype_kind(getattr(indices, "dtype", x.dtype)) == "u":
            return x
        return _wrap_negative(x, size)
    found = np.where(known < 0, known + np.array(size, known.dtype), known)
    bad = np.argwhere((found < 0) | (found >= size))
    if len(bad):
        positions = tuple(bad[0])
        axis, n = (
            (positions[-1], size[positions[-1]])
            if isinstance(size, tuple)
            else (axis, size)
        )
        raise out_of_range(op, known[positions], axis, n)
    return _convert.tensor_of(found, copy=False)


def _wrap_negative(indices: Tensor, size: int | geometry.Shape) -> Tensor:
    """Add the size of the axis to negative indices."""
    shift = np.array(size, indices.dtype) if isinstance(size, tuple) else size
    return run(compare.SELECT, indices < 0, indices + shift, indices)


def _indices_and_kernel(
    op: str, indices: TensorLike, size: int, axis: int
) -> tuple[Tensor, Kernel]:
    """Return indices as a tensor, and the kernel to gather with.

    The kernel is ``Take`` for indices that may be negative. Indices that are known on
    the host are checked here, and converted to count from 0.

    Raises:
        IndexError: An index is out of range.
        TypeError: The indices are not integers.

    """
    if _convert.on_host(op, "indices", indices) is not None:
        return counted_from_0(op, indices, size, axis), GATHER_V2
    x = _convert.integer_tensor(op, "indices", indices)
    is_unsigned = dtype_kind(getattr(indices, "dtype", x.dtype)) == "u"
    return x, GATHER_V2 if is_unsigned else TAKE


def take(
    x: TensorLike,
    indices: TensorLike,
    /,
    axis: int | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the slices of ``x`` at ``indices`` along an axis.

    Negative indices count from the end. The axes of ``indices`` replace ``axis``.

    Args:
        x: A tensor of any dtype with at least one axis.
        indices: Integers of any shape.
        axis: The axis along which to take slices; it may be None if ``x`` has only one.

    Returns:
        A tensor with the dtype of ``x`` and the shape
        ``x.shape[:axis] + indices.shape + x.shape[axis + 1:]``.

    Raises:
        IndexError: An index is out of range.
        TypeError: The indices are not integers.
        ValueError: The axis is out of range, or missing.

    Example:
        >>> pg.take([[1, 2, 3], [4, 5, 6]], [-1, 0], axis=1)
        Tensor([[3, 1],
                [6, 4]], dtype=int32, backend='cpu')

    Source:
        The array API standard. As in NumPy, ``indices`` may have any rank and be
        negative.

    """
    if unknown:
        raise unexpected(take, unknown)
    x = _convert.asarray(x)
    if axis is None and len(x.shape) != 1:
        raise ValueError(f"take: x of shape {x.shape} must have one axis; give axis")
    axis = shape._axis("take", 0 if axis is None else axis, len(x.shape))
    positions, kernel = _indices_and_kernel("take", indices, x.shape[axis], axis)
    return run(kernel, x, positions, axis=axis, batch_dims=0)


def take_along_axis(
    x: TensorLike, indices: TensorLike, /, axis: int = -1, **unknown: Unpack[Nothing]
) -> Tensor:
    """Return the elements of ``x`` at ``indices`` along an axis, row by row.

    ``y[..., k] = x[..., indices[..., k]]`` for the last axis. Negative indices count
    from the end.

    Args:
        x: A tensor of any dtype.
        indices: Integers, with as many axes as ``x``; all axes but ``axis`` broadcast.
        axis: The axis along which to take elements.

    Returns:
        A tensor with the dtype of ``x``. Its size along ``axis`` is that of
        ``indices``.

    Raises:
        IndexError: An index is out of range.
        TypeError: The indices are not integers.
        ValueError: The ranks differ, or shapes do not broadcast.

    Example:
        >>> x = [[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]]
        >>> pg.take_along_axis(x, [[1], [2]])
        Tensor([[1.],
                [4.]], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    if unknown:
        raise unexpected(take_along_axis, unknown)
    x = _convert.asarray(x)
    rank = len(x.shape)
    axis = shape._axis("take_along_axis", axis, rank)
    positions, kernel = _indices_and_kernel(
        "take_along_axis", indices, x.shape[axis], axis
    )
    if len(positions.shape) != rank:
        raise misfit("take_along_axis", "the ranks must be equal", x, positions)
    last = (*[i for i in range(rank) if i != axis], axis)
    both = [run(shape.TRANSPOSE, t, axes=last) for t in (x, positions)]
    batch = geometry.broadcast("take_along_axis", *[t.shape[:-1] for t in both])
    both = [run(shape.BROADCAST_TO, t, shape=(*batch, t.shape[-1])) for t in both]
    y = run(kernel, *both, axis=rank - 1, batch_dims=rank - 1)
    return shape._permute_back(y, last)


# --- segments --------------------------------------------------------------------


def _segment_sum_spec(x: Spec, segment_ids: Spec, *, num_segments: int) -> Spec:
    op = "unsorted_segment_sum"
    if len(segment_ids.shape) != 1:
        raise misfit(op, "segment_ids must have one axis", segment_ids)
    _check_ids(op, x, segment_ids)
    return Spec(sizes(op, (num_segments, *x.shape[1:]), "the result"), x.dtype)


def _check_ids(op: str, x: Spec | Tensor, ids: Spec | Tensor) -> None:
    rank = len(ids.shape)
    if not rank or x.shape[:rank] != ids.shape:
        raise misfit(op, "segment_ids must have the first axes of x", ids, x)


UNSORTED_SEGMENT_SUM: Kernel = Kernel(
    "UnsortedSegmentSum(x: number, segment_ids: integer; num_segments: size)",
    out=_segment_sum_spec,
    op="unsorted_segment_sum",
    doc="""``y[i] = Σ x[j]`` over j with ``segment_ids[j] == i``; 0 if there is none.

    Slices whose id is negative or too large are ignored. Integers wrap; float16 is
    summed in float32 or a wider dtype.""",
)


def unsorted_segment_sum(
    x: TensorLike,
    segment_ids: TensorLike,
    /,
    num_segments: int,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the sums of the slices of ``x`` that have the same segment id.

    ``y[i] = Σ x[j]`` over j with ``segment_ids[j] = i``. Slices whose id is negative or
    too large are ignored; a sum of no slices is 0. Integers wrap.

    Args:
        x: A tensor of numbers or bool.
        segment_ids: Integers; their shape must match the leading axes of ``x``.
        num_segments: The number of sums.

    Returns:
        A tensor ``[num_segments, ...]`` with the dtype of ``x``; int32 for bool.

    Raises:
        TypeError: The ids are not integers, or ``x`` contains strings.
        ValueError: ``num_segments`` is negative, or the shapes do not fit.

    Example:
        >>> pg.unsorted_segment_sum([1.0, 2.0, 3.0, 4.0], [0, 2, 0, 2], 3)
        Tensor([4., 0., 6.], dtype=float32, backend='cpu')

    Source:
        The semantics are those of ``tf.unsortedSegmentSum`` in TensorFlow.js.

    """
    if unknown:
        raise unexpected(unsorted_segment_sum, unknown)
    op = "unsorted_segment_sum"
    x = _convert.numbers(op, x)
    x = creation.cast(x, INT32) if x.dtype is BOOL else x
    ids = _convert.integer_tensor(op, "segment_ids", segment_ids)
    count = integer(op, "num_segments", num_segments, 0)
    _check_ids(op, x, ids)
    rank = len(ids.shape)
    if rank > 1:
        x = run(shape.RESHAPE, x, shape=(math.prod(ids.shape), *x.shape[rank:]))
        ids = run(shape.RESHAPE, ids, shape=(math.prod(ids.shape),))
    return run(UNSORTED_SEGMENT_SUM, x, ids, num_segments=count)


def _segment_sum_gradient(dy: Tensor, segment_ids: Tensor, num_segments: int) -> Tensor:
    """Return the slice of ``dy`` for each id; zeros for ids out of range."""
    if segment_ids.dtype is not INT32:  # num_segments may overflow a narrow dtype
        segment_ids = _convert.integer_tensor(UNSORTED_SEGMENT_SUM.op, "", segment_ids)
    dy = slicing.pad(dy, [(1, 1), *[(0, 0)] * (len(dy.shape) - 1)])
    inside = binary.minimum(binary.maximum(segment_ids, -1), num_segments)
    return run(GATHER_V2, dy, inside + 1, axis=0, batch_dims=0)


gradients(UNSORTED_SEGMENT_SUM, x=_segment_sum_gradient, segment_ids=None)


# --- one-hot ---------------------------------------------------------------------


def _one_hot_spec(
    indices: Spec, *, depth: int, on_value: Any, off_value: Any, axis: int, dtype: DType
) -> Spec:
    shape.check_axis("one_hot", axis, len(indices.shape) + 1)
    for value in (on_value, off_value):
        slicing.check_constant("one_hot", value, dtype)
    wide = (*indices.shape[:axis], depth, *indices.shape[axis:])
    return Spec(sizes("one_hot", wide, "the result"), dtype)


ONE_HOT = Kernel(
    "OneHot(indices: int32 | int64; depth: size, on_value: scalar, off_value: scalar, "
    "axis: new_axis, dtype: dtype)",
    out=_one_hot_spec,
    op="one_hot",
    doc="""``on_value`` where the position along the new axis ``axis`` is the index.

    All other elements are ``off_value``, and so is the whole axis for an index that is
    negative or not below ``depth``, the size of the axis.""",
)


def one_hot(
    indices: TensorLike,
    /,
    depth: int,
    *,
    on_value: complex = 1,
    off_value: complex = 0,
    axis: int = -1,
    dtype: Any = "float32",
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``on_value`` at each index along a new axis, and ``off_value`` elsewhere.

    An index that is out of range gives ``off_value`` along the whole axis.

    Args:
        indices: Integers of any shape.
        depth: The size of the new axis.
        on_value: The value at the index.
        off_value: The value of all other elements.
        axis: The position of the new axis in the result.
        dtype: The dtype of the result.

    Returns:
        A tensor of ``dtype``, with the shape of ``indices`` and the new axis.

    Raises:
        TypeError: The indices are not integers, or the kind of a value does not match
            ``dtype``.
        ValueError: ``depth`` is negative, or the axis is out of range.
        OverflowError: ``dtype`` cannot represent a value.

    Example:
        >>> pg.one_hot([0, 2], 3)
        Tensor([[1., 0., 0.],
                [0., 0., 1.]], dtype=float32, backend='cpu')

    Source:
        The semantics are those of ``tf.oneHot`` in TensorFlow.js, with float32 as the
        default dtype.

    """
    if unknown:
        raise unexpected(one_hot, unknown)
    indices = _convert.integer_tensor("one_hot", "indices", indices)
    size = integer("one_hot", "depth", depth, 0)
    axis = shape._axis("one_hot", axis, len(indices.shape) + 1)
    wanted = require_dtype("one_hot", canonical(dtype))
    on, off = (slicing.constant("one_hot", v, wanted) for v in (on_value, off_value))
    values = {"on_value": on, "off_value": off, "axis": axis, "dtype": wanted}
    return run(ONE_HOT, indices, depth=size, **values)


@decomposition(ONE_HOT)
def _(
    indices: Tensor, *, depth: int, on_value: Any, off_value: Any, axis: int, dtype: Any
) -> Tensor:
    positions = np.arange(depth, dtype=indices.dtype)
    positions = positions.reshape(depth, *[1] * (len(indices.shape) - axis))
    column = shape.expand_dims(indices, axis=axis)
    hit = compare.equal(column, _convert.tensor_of(positions, copy=False))
    on, off = (creation.full((), v, dtype=dtype) for v in (on_value, off_value))
    return compare.where(hit, on, off)
