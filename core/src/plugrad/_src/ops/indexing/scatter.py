"""Reading and writing slices at multidimensional indices.

Kernels: ``GatherNd ScatterNd TensorScatterExtremum TensorScatterUpdate``. Each row of
an index tensor ``[..., k]`` is an index into the first k axes; in kernels, indices
count from 0. If an index is out of range along any axis, every backend raises
IndexError: at once or, if it works asynchronously, at the next read. An out-of-range
index never reads or writes another slice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, Unpack

import numpy as np

from plugrad._src.engine.dispatch import run
from plugrad._src.ops.array import gather, ranges, slicing
from plugrad._src.ops.basis import _convert, binary, compare, creation, reduce
from plugrad._src.ops.basis import shape as shapes
from plugrad._src.registry.contract import Kernel, Spec, decomposition, gradients
from plugrad._src.tensor.arguments import Ints, choice, misfit, sizes
from plugrad._src.tensor.dtypes import BOOL, INT32, dtype_kind, named
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import Shape

from . import sorting

__all__ = ["gather_nd", "scatter_nd", "tensor_scatter_update"]

ROW_GATHER_ATTRIBUTES = {"axis": 0, "batch_dims": 0}  # gather rows


def _gather_spec(params: Spec, indices: Spec) -> Spec:
    _check_depth(params, indices)
    depth = indices.shape[-1]
    return Spec((*indices.shape[:-1], *params.shape[depth:]), params.dtype)


def _check_depth(x: Spec | Tensor, indices: Spec | Tensor) -> None:
    if not x.shape or not indices.shape or indices.shape[-1] > len(x.shape):
        rule = "indices must be [..., k], k at most the rank of x, which is 1 or more"
        raise misfit("gather_nd", rule, x, indices)


GATHER_ND = Kernel(
    "GatherNd(params, indices: int32 | int64)",
    out=_gather_spec,
    checks="indices",
    op="gather_nd",
    doc="""``y[i] = params[indices[i, 0], ..., indices[i, k - 1]]``.

    ``indices`` is ``[..., k]``, the result is ``[..., *params.shape[k:]]``, and i
    stands for all axes of ``indices`` but the last. If k is 0, y[i] is ``params``. The
    index along each axis is checked as by ``GatherV2``.""",
)


def gather_nd(x: TensorLike, indices: TensorLike, /) -> Tensor:
    """Return the slices of ``x`` at ``indices``, which index its first k axes.

    Negative indices count from the end. If a slice is read several times, its gradients
    add up.

    Args:
        x: A tensor of any dtype, of rank 1 or more.
        indices: ``[..., k]``, integers, where k is at most the rank of ``x``.

    Returns:
        ``[..., *x.shape[k:]]``, with the dtype of ``x``.

    Raises:
        ValueError: The shapes do not fit.
        IndexError: An index is out of range. An asynchronous backend raises it when the
            result is read.
        TypeError: ``indices`` are not integers.

    Example:
        >>> pg.gather_nd([[1, 2], [3, 4]], [[0, 1], [1, 0]])
        Tensor([2, 3], dtype=int32, backend='cpu')

    """
    x = _convert.asarray(x)
    found = _index_values("gather_nd", indices)
    _check_depth(x, found)
    counted = _counted_from_0("gather_nd", found, x.shape)
    return run(GATHER_ND, x, counted)


def _index_values(op: str, indices: TensorLike) -> Any:
    """Return indices as an array if they are known on the host, else as a tensor."""
    known = _convert.on_host(op, "indices", indices)
    return _convert.integer_tensor(op, "", indices) if known is None else known


def _counted_from_0(op: str, indices: Any, sizes: Shape) -> Tensor:
    return gather.counted_from_0(op, indices, sizes[: indices.shape[-1]])


@decomposition(GATHER_ND)
def _(params: Tensor, indices: Tensor) -> Tensor:
    lead = params.shape[: indices.shape[-1]]
    x = run(shapes.RESHAPE, params, shape=(math.prod(lead), *params.shape[len(lead) :]))
    with gather.range_errors("gather_nd", indices, lead):
        if len(lead) == 1:  # GatherV2 checks the range itself
            rows = run(shapes.RESHAPE, indices, shape=indices.shape[:-1])
        else:
            rows = _row_numbers(indices, lead)
        return run(gather.GATHER_V2, x, rows, axis=0, batch_dims=0)


def _row_numbers(indices: Tensor, lead: Shape) -> Tensor:
    """Convert indices into axes of sizes ``lead`` to indices into one flattened axis.

    An index that is out of range along any axis becomes a negative number.
    """
    full = [max(n, 1) for n in lead]
    total = math.prod(full)
    kind = _convert.INT64 if total * max(len(lead), 1) >= 2**31 else indices.dtype
    strides = [math.prod(full[i + 1 :]) for i in range(len(full))]
    index = creation.cast(indices, kind)
    size, stride = (_convert.asarray(np.array(v, kind)) for v in (lead, strides))
    inside = compare.logical_and(index >= 0, index < size)
    steps = compare.where(inside, index * stride, -total)  # so that the sum is negative
    return run(reduce.SUM, steps, axis=(len(indices.shape) - 1,), keepdims=False)


def _check_rows(rows: Tensor) -> Tensor:
    """Return row numbers; an extra GatherV2 checks that none is negative."""
    zero = creation.zeros((1,), dtype=rows.dtype)
    index = binary.minimum(rows, 0)
    return rows + run(gather.GATHER_V2, zero, index, axis=0, batch_dims=0)


def _gather_gradient(dy: Tensor, indices: Tensor, params_spec: Spec) -> Tensor:
    return run(SCATTER_ND, indices, dy, shape=params_spec.shape)


gradients(GATHER_ND, params=_gather_gradient, indices=None)


def _scatter_spec(indices: Spec, updates: Spec, *, shape: Shape) -> Spec:
    _check_scatter_shapes("scatter_nd", indices, updates.shape, shape)
    return Spec(shape, updates.dtype)


SCATTER_ND = Kernel(
    "ScatterNd(indices: int32 | int64, updates: bool | number; shape: shape)",
    out=_scatter_spec,
    checks="indices",
    op="scatter_nd",
    doc="""Zeros of ``shape``, to which ``updates[i]`` is added at ``indices[i]``.

    ``indices`` is ``[..., k]`` and ``updates`` is ``[..., *shape[k:]]``. Updates with
    the same index add up as by ``UnsortedSegmentSum``; bool updates combine by ``or``.
    The index along each axis is checked as by ``GatherV2``.""",
)


def scatter_nd(
    indices: TensorLike, updates: TensorLike, /, shape: Ints, **unknown: Unpack[Nothing]
) -> Tensor:
    """Return zeros of ``shape`` to which ``updates`` are added at ``indices``.

    Updates with the same index add up; bool updates are combined with ``or``.

    Args:
        indices: ``[..., k]``, integers, each row an index into the first k axes;
            ``[n]`` stands for ``[n, 1]``. Negative ones count from the end.
        updates: ``[..., *shape[k:]]``, numbers.
        shape: The sizes of the result.

    Returns:
        A tensor of ``shape`` with the dtype of ``updates``.

    Raises:
        ValueError: The shapes do not fit.
        IndexError: An index is out of range. An asynchronous backend raises it when the
            result is read.
        TypeError: ``indices`` are not integers, or ``updates`` are strings.

    Example:
        >>> pg.scatter_nd([0, 2, 0], [1, 2, 4], (4,))
        Tensor([5, 0, 2, 0], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(scatter_nd, unknown)
    shape = sizes("scatter_nd", shape)
    updates = _convert.numbers("scatter_nd", updates)
    counted = _checked_indices("scatter_nd", indices, updates.shape, shape)
    return run(SCATTER_ND, counted, updates, shape=shape)


def _checked_indices(
    op: str, indices: TensorLike, updates: Shape, sizes: Shape
) -> Tensor:
    """Return indices ``[..., k]``; raise unless they fit the updates and the result."""
    found = _index_values(op, indices)
    if len(found.shape) == 1:
        found = found.reshape((*found.shape, 1))
    _check_scatter_shapes(op, found, updates, sizes)
    return _counted_from_0(op, found, sizes)


def _check_scatter_shapes(
    op: str, indices: Spec | Tensor, updates: Shape, sizes: Shape
) -> None:
    depth = indices.shape[-1] if indices.shape else len(sizes) + 1
    if depth > len(sizes) or updates != indices.shape[:-1] + sizes[depth:]:
        rule = "indices must be [..., k], updates [..., *rest], result [k sizes, *rest]"
        raise misfit(op, rule, indices, updates, sizes)


def _as_rows(
    op: str, updates: Tensor, lead: Shape, indices: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the updates as rows, and the target row of each."""
    count = math.prod(indices.shape[:-1])
    rest = updates.shape[len(indices.shape) - 1 :]
    rows = run(shapes.RESHAPE, updates, shape=(count, math.prod(rest)))
    with gather.range_errors(op, indices, lead):
        ids = _check_rows(_row_numbers(indices, lead))
    return rows, run(shapes.RESHAPE, ids, shape=(count,))


@decomposition(SCATTER_ND)
def _(indices: Tensor, updates: Tensor, *, shape: Shape) -> Tensor:
    lead = shape[: indices.shape[-1]]
    rows, ids = _as_rows("scatter_nd", updates, lead, indices)
    rows = creation.cast(rows, INT32) if rows.dtype is BOOL else rows
    y = run(gather.UNSORTED_SEGMENT_SUM, rows, ids, num_segments=math.prod(lead))
    return creation.cast(run(shapes.RESHAPE, y, shape=shape), updates.dtype)


gradients(
    SCATTER_ND, indices=None, updates=lambda dy, indices: run(GATHER_ND, dy, indices)
)


def _update_spec(tensor: Spec, indices: Spec, updates: Spec) -> Spec:
    _check_scatter_shapes("tensor_scatter_update", indices, updates.shape, tensor.shape)
    return tensor


TENSOR_SCATTER_UPDATE = Kernel(
    "TensorScatterUpdate(tensor, indices: int32 | int64, updates: tensor)",
    out=_update_spec,
    checks="indices",
    op="tensor_scatter_update",
    doc="""``tensor`` with its slice at ``indices[i]`` replaced by ``updates[i]``.

    ``indices`` is ``[..., k]`` and ``updates`` is ``[..., *tensor.shape[k:]]``. Of
    several updates with the same index, the last one in row-major order is written. The
    index along each axis is checked as by ``GatherV2``.""",
)


Reduction = Literal["replace", "add", "multiply", "max", "min"]


def tensor_scatter_update(
    x: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    /,
    *,
    reduction: Reduction = "replace",
) -> Tensor:
    """Return ``x`` with ``updates`` written to, or combined with, slices of it.

    With ``"replace"``, the last of several updates with the same index, in row-major
    order, replaces the slice and gets the gradient. The other reductions combine the
    slice with all of its updates. The gradient of a maximum or minimum is divided
    evenly among the slice and the updates that equal the result, as in PyTorch's
    ``scatter_reduce`` and in JAX.

    Args:
        x: A tensor of any dtype.
        indices: ``[..., k]``, integers, each row an index into the first k axes;
            ``[n]`` stands for ``[n, 1]``. Negative ones count from the end.
        updates: ``[..., *x.shape[k:]]``.
        reduction: ``"replace"``, ``"add"``, ``"multiply"``, ``"max"`` or ``"min"``,
            like the methods of ``x.at[indices]`` in JAX.

    Returns:
        A tensor with the shape of ``x`` and the promoted dtype of ``x`` and
        ``updates``.

    Raises:
        ValueError: The shapes do not fit.
        IndexError: An index is out of range. An asynchronous backend raises it when the
            result is read.
        TypeError: ``indices`` are not integers, no dtype can represent ``x`` and
            ``updates``, or the reduction is not defined for their dtype.

    Example:
        >>> pg.tensor_scatter_update([1, 2, 3], [0, -1], [10, 30])
        Tensor([10,  2, 30], dtype=int32, backend='cpu')
        >>> pg.tensor_scatter_update([1, 2, 3], [0, 0], [7, 5], reduction="max")
        Tensor([7, 2, 3], dtype=int32, backend='cpu')

    Source:
        The semantics are those of ``tf.tensorScatterUpdate`` in TensorFlow.js, and of
        ``x.at[indices]`` in JAX.

    """
    op = "tensor_scatter_update"
    x, updates = _convert.promote_all(op, x, updates)
    counted = _checked_indices(op, indices, updates.shape, x.shape)
    choice(op, "reduction", reduction, "replace", "add", "multiply", "max", "min")
    if reduction == "replace":
        return run(TENSOR_SCATTER_UPDATE, x, counted, updates)
    kinds = "iuf" if reduction in ("max", "min") else "iufc"
    if dtype_kind(x.dtype) not in kinds:
        rule = f"reduction {reduction!r} is not defined for {named(x.dtype)}; cast x"
        raise TypeError(f"{op}: {rule}")
    if reduction == "add":
        return x + run(SCATTER_ND, counted, updates, shape=x.shape)
    if reduction == "multiply":
        return _combine_updates(binary.multiply, x, counted, updates)
    attrs = {"largest": reduction == "max"}
    return run(TENSOR_SCATTER_EXTREMUM, x, counted, updates, **attrs)


@decomposition(TENSOR_SCATTER_UPDATE)
def _(tensor: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    lead = tensor.shape[: indices.shape[-1]]
    rows, ids = _as_rows("tensor_scatter_update", updates, lead, indices)
    if not rows.size:
        return tensor
    count = ids.shape[0]
    total = math.prod(lead)
    at = compare.where(_is_last(ids, total), ids, -1)  # other updates are dropped
    hit = _sums(creation.ones((count, 1), dtype=INT32), at, total) > 0
    new = run(
        gather.GATHER_V2,
        rows,
        _sums(ranges.arange(count), at, total),
        **ROW_GATHER_ATTRIBUTES,
    )
    old = run(shapes.RESHAPE, tensor, shape=(total, rows.shape[1]))
    return run(shapes.RESHAPE, run(compare.SELECT, hit, new, old), shape=tensor.shape)


def _sums(x: Tensor, ids: Tensor, count: int) -> Tensor:
    return run(gather.UNSORTED_SEGMENT_SUM, x, ids, num_segments=count)


def _is_last(ids: Tensor, total: int) -> Tensor:
    """Return a mask of the last occurrence of each value in ``ids``.

    The last occurrence has the highest position. For each bit of the positions, from
    the highest to the lowest, elements without the bit are dropped if a remaining
    element with the same id has it. This takes log2(n) rounds and needs no sorting.
    """
    count = ids.shape[0]
    numbers = np.arange(count, dtype=np.int32)
    left = creation.ones((count,), dtype=BOOL)
    for bit in reversed(range((count - 1).bit_length())):
        high = _convert.asarray(numbers >> bit & 1, dtype=BOOL)
        has_bit = compare.logical_and(left, high)
        some = _sums(creation.cast(has_bit, INT32), ids, total) > 0
        left = compare.where(
            run(gather.GATHER_V2, some, ids, **ROW_GATHER_ATTRIBUTES), has_bit, left
        )
    return left


def _zero_updated(dy: Tensor, indices: Tensor, updates_spec: Spec) -> Tensor:
    zeros = creation.zeros(updates_spec.shape, dtype=dy.dtype)
    return run(TENSOR_SCATTER_UPDATE, dy, indices, zeros)


def _gather_surviving(dy: Tensor, indices: Tensor, tensor_spec: Spec) -> Tensor:
    """Return the slices of ``dy`` for updates that were not overwritten, else zeros.

    Writing the positions of the updates instead of their values shows which remain.
    """
    *lead, depth = indices.shape
    numbers = run(shapes.RESHAPE, ranges.arange(math.prod(lead)), shape=tuple(lead))
    blank = creation.zeros(tensor_spec.shape[:depth], dtype=INT32)
    written = run(TENSOR_SCATTER_UPDATE, blank, indices, numbers)
    hit = compare.equal(run(GATHER_ND, written, indices), numbers)
    rest = [1] * (len(tensor_spec.shape) - depth)
    hit = run(shapes.RESHAPE, hit, shape=(*lead, *rest))
    return compare.where(hit, run(GATHER_ND, dy, indices), 0)


gradients(
    TENSOR_SCATTER_UPDATE, tensor=_zero_updated, indices=None, updates=_gather_surviving
)


# --- combined updates ------------------------------------------------------------


TENSOR_SCATTER_EXTREMUM = Kernel(
    "TensorScatterExtremum(tensor: integer | floating, indices: int32 | int64, "
    "updates: tensor; largest: bool)",
    out=lambda tensor, indices, updates, *, largest: _update_spec(
        tensor, indices, updates
    ),
    checks="indices",
    op="tensor_scatter_update",
    doc="""``tensor``, where the slice at ``indices[i]`` becomes the element-wise
    maximum of itself and all updates with this index; without ``largest``, the minimum.

    The shapes are those of ``TensorScatterUpdate``. The result is NaN where an element
    that is compared is NaN, as for ``Maximum``. The index along each axis is checked as
    by ``GatherV2``.""",
)


@decomposition(TENSOR_SCATTER_EXTREMUM)
def _(tensor: Tensor, indices: Tensor, updates: Tensor, *, largest: bool) -> Tensor:
    function = binary.maximum if largest else binary.minimum
    return _combine_updates(function, tensor, indices, updates)


def _combine_updates(
    function: Callable[[Tensor, Tensor], Tensor],
    x: Tensor,
    indices: Tensor,
    updates: Tensor,
) -> Tensor:
    """Combine ``x`` and updates with the same index by an associative function.

    The updates are sorted by index. A scan in log2(n) rounds combines each update with
    all earlier ones that have the same index, so the last of them, which is the one
    that is written, combines them all.
    """
    lead = x.shape[: indices.shape[-1]]
    rows, ids = _as_rows("tensor_scatter_update", updates, lead, indices)
    count, width = rows.shape
    if not rows.size:
        return x
    order = sorting.argsort(ids)
    rows, ids = (
        run(gather.GATHER_V2, t, order, **ROW_GATHER_ATTRIBUTES) for t in (rows, ids)
    )
    places = run(shapes.RESHAPE, ids, shape=(count, 1))
    for step in [1 << bit for bit in range((count - 1).bit_length())]:
        (early, late), same = (
            [slicing.along(t, 0, at, count - step) for at in (0, step)]
            for t in (rows, places)
        )
        hit = compare.equal(*same)
        merged = function(compare.where(hit, early, 1), late)  # 0 · inf is NaN
        merged = compare.where(hit, merged, late)
        rows = shapes.concat([slicing.along(rows, 0, 0, step), merged])
    flat = run(shapes.RESHAPE, x, shape=(math.prod(lead), width))
    new = function(run(gather.GATHER_V2, flat, ids, **ROW_GATHER_ATTRIBUTES), rows)
    y = run(TENSOR_SCATTER_UPDATE, flat, places, new)
    return run(shapes.RESHAPE, y, shape=x.shape)


def _tie_shares(
    dy: Tensor, tensor: Tensor, indices: Tensor, updates: Tensor, y: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return where ``tensor`` and where ``updates`` equal the result, and the shares.

    A share is ``dy`` divided by the number of elements that equal the result.
    """
    kept = compare.equal(tensor, y)
    hit = compare.equal(updates, run(GATHER_ND, y, indices))
    hits = run(SCATTER_ND, indices, creation.cast(hit, dy.dtype), shape=y.shape)
    count = creation.cast(kept, dy.dtype) + hits
    return kept, hit, dy / binary.maximum(count, 1)


def _tensor_gradient(
    dy: Tensor, tensor: Tensor, indices: Tensor, updates: Tensor, y: Tensor
) -> Tensor:
    kept, _, share = _tie_shares(dy, tensor, indices, updates, y)
    return compare.where(kept, share, 0)


def _updates_gradient(
    dy: Tensor, tensor: Tensor, indices: Tensor, updates: Tensor, y: Tensor
) -> Tensor:
    _, hit, share = _tie_shares(dy, tensor, indices, updates, y)
    return compare.where(hit, run(GATHER_ND, share, indices), 0)


gradients(
    TENSOR_SCATTER_EXTREMUM,
    tensor=_tensor_gradient,
    indices=None,
    updates=_updates_gradient,
)
