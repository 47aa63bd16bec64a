"""Reading and writing slices at multi-dimensional indices.

Kernels: ``GatherNd ScatterNd TensorScatterUpdate``. Each row of an index tensor
``[..., k]`` is an index into the first k axes, counting from 0. If it is out of range
in any axis, every backend raises IndexError: at once, or, if it works asynchronously,
at the next read. No other slice is read or written in its place.
"""

from __future__ import annotations

import math

import numpy as np

from plugrad.engine.dispatch import run
from plugrad.geometry import Shape
from plugrad.registry.contract import Kernel, Spec, decomposition, gradients
from plugrad.tensor.arguments import Ints, misfit, sizes
from plugrad.tensor.dtypes import BOOL, INT32
from plugrad.tensor.tensor import Tensor, TensorLike

from . import _convert, binary, compare, creation, gather, reduce
from . import shape as shapes

__all__ = ["gather_nd", "scatter_nd", "tensor_scatter_update"]


def _spread(params: Spec, indices: Spec) -> Spec:
    _check_depth(params, indices)
    depth = indices.shape[-1]
    return Spec((*indices.shape[:-1], *params.shape[depth:]), params.dtype)


def _check_depth(x: Spec | Tensor, indices: Spec | Tensor) -> None:
    if not x.shape or not indices.shape or indices.shape[-1] > len(x.shape):
        rule = "indices must be [..., k], k at most the rank of x, which is 1 or more"
        raise misfit("gather_nd", rule, x, indices)


GATHER_ND = Kernel(
    "GatherNd(params, indices: int32 | int64)",
    out=_spread,
    checks="indices",
    op="gather_nd",
    doc="""``y[i] = params[indices[i, 0], ..., indices[i, k - 1]]``.

    ``indices`` is ``[..., k]``, the result ``[..., *params.shape[k:]]``, and i stands
    for all axes of ``indices`` but the last. Where k is 0, y[i] is ``params``. Indices
    are checked as by ``GatherV2``, axis by axis.""",
)


def gather_nd(x: TensorLike, indices: TensorLike, /) -> Tensor:
    """Return the slices of ``x`` at ``indices``, each an index into the first k axes.

    Indices count from 0; a negative one is out of range. The gradient adds up where a
    slice is read several times.

    Args:
        x: A tensor of any dtype, of rank 1 or more.
        indices: ``[..., k]``, integers, where k is at most the rank of ``x``.

    Returns:
        ``[..., *x.shape[k:]]``, of the dtype of ``x``.

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
    indices = _convert.integer_tensor("gather_nd", "indices", indices)
    _check_depth(x, indices)
    return run(GATHER_ND, x, indices)


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
    """Return indices into the axes ``lead`` as indices into the one they flatten to.

    An index that is out of range in any axis becomes a negative number.
    """
    full = [max(n, 1) for n in lead]
    total = math.prod(full)
    kind = _convert.INT64 if total * max(len(lead), 1) >= 2**31 else indices.dtype
    strides = [math.prod(full[i + 1 :]) for i in range(len(full))]
    at = creation.cast(indices, kind)
    size, stride = (_convert.asarray(np.array(v, kind)) for v in (lead, strides))
    inside = compare.logical_and(at >= 0, at < size)
    steps = compare.where(inside, at * stride, -total)  # the other steps add up to less
    return run(reduce.SUM, steps, axis=(len(indices.shape) - 1,), keepdims=False)


def _checked(rows: Tensor) -> Tensor:
    """Return row numbers after a check that none is negative, which GatherV2 makes."""
    zero = creation.zeros((1,), dtype=rows.dtype)
    at = binary.minimum(rows, 0)
    return rows + run(gather.GATHER_V2, zero, at, axis=0, batch_dims=0)


def _scattered(dy: Tensor, indices: Tensor, params_spec: Spec) -> Tensor:
    return run(SCATTER_ND, indices, dy, shape=params_spec.shape)


gradients(GATHER_ND, params=_scattered, indices=None)


def _into(indices: Spec, updates: Spec, *, shape: Shape) -> Spec:
    _check_places("scatter_nd", indices, updates.shape, shape)
    return Spec(shape, updates.dtype)


SCATTER_ND = Kernel(
    "ScatterNd(indices: int32 | int64, updates: bool | number; shape: shape)",
    out=_into,
    checks="indices",
    op="scatter_nd",
    doc="""Zeros of ``shape``, to which ``updates[i]`` is added at place ``indices[i]``.

    ``indices`` is ``[..., k]`` and ``updates`` ``[..., *shape[k:]]``. Updates of the
    same place add up as by ``UnsortedSegmentSum``, and those of bool by or. Indices are
    checked as by ``GatherV2``, axis by axis.""",
)


def scatter_nd(indices: TensorLike, updates: TensorLike, /, shape: Ints) -> Tensor:
    """Return zeros of ``shape`` to which ``updates`` are added at ``indices``.

    Updates of the same index add up; those of bool combine by or.

    Args:
        indices: ``[..., k]``, integers, each row an index into the first k axes;
            ``[n]`` stands for ``[n, 1]``.
        updates: ``[..., *shape[k:]]``, numbers.
        shape: The sizes of the result.

    Returns:
        A tensor of ``shape`` and the dtype of ``updates``.

    Raises:
        ValueError: The shapes do not fit.
        IndexError: An index is out of range. An asynchronous backend raises it when the
            result is read.
        TypeError: ``indices`` are not integers, or ``updates`` are strings.

    Example:
        >>> pg.scatter_nd([0, 2, 0], [1, 2, 4], (4,))
        Tensor([5, 0, 2, 0], dtype=int32, backend='cpu')

    """
    shape = sizes("scatter_nd", shape)
    updates = _convert.numbers("scatter_nd", updates)
    places = _places("scatter_nd", indices, updates.shape, shape)
    return run(SCATTER_ND, places, updates, shape=shape)


def _places(op: str, indices: TensorLike, updates: Shape, sizes: Shape) -> Tensor:
    """Return indices ``[..., k]`` that fit the shapes of updates and of the result."""
    found = _convert.integer_tensor(op, "indices", indices)
    if len(found.shape) == 1:
        found = run(shapes.RESHAPE, found, shape=(*found.shape, 1))
    _check_places(op, found, updates, sizes)
    return found


def _check_places(
    op: str, indices: Spec | Tensor, updates: Shape, sizes: Shape
) -> None:
    depth = indices.shape[-1] if indices.shape else len(sizes) + 1
    if depth > len(sizes) or updates != indices.shape[:-1] + sizes[depth:]:
        rule = "indices must be [..., k], updates [..., *rest], result [k sizes, *rest]"
        raise misfit(op, rule, indices, updates, sizes)


def _rows(
    op: str, updates: Tensor, lead: Shape, indices: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the updates as rows, and the indices of the rows that they go to."""
    count, rest = math.prod(indices.shape[:-1]), updates.shape[len(indices.shape) - 1 :]
    rows = run(shapes.RESHAPE, updates, shape=(count, math.prod(rest)))
    with gather.range_errors(op, indices, lead):
        ids = _checked(_row_numbers(indices, lead))
    return rows, run(shapes.RESHAPE, ids, shape=(count,))


@decomposition(SCATTER_ND)
def _(indices: Tensor, updates: Tensor, *, shape: Shape) -> Tensor:
    lead = shape[: indices.shape[-1]]
    rows, ids = _rows("scatter_nd", updates, lead, indices)
    rows = creation.cast(rows, INT32) if rows.dtype is BOOL else rows
    y = run(gather.UNSORTED_SEGMENT_SUM, rows, ids, num_segments=math.prod(lead))
    return creation.cast(run(shapes.RESHAPE, y, shape=shape), updates.dtype)


gradients(
    SCATTER_ND, indices=None, updates=lambda dy, indices: run(GATHER_ND, dy, indices)
)


def _over(tensor: Spec, indices: Spec, updates: Spec) -> Spec:
    _check_places("tensor_scatter_update", indices, updates.shape, tensor.shape)
    return tensor


TENSOR_SCATTER_UPDATE = Kernel(
    "TensorScatterUpdate(tensor, indices: int32 | int64, updates: tensor)",
    out=_over,
    checks="indices",
    op="tensor_scatter_update",
    doc="""``tensor``, whose slice at place ``indices[i]`` becomes ``updates[i]``.

    ``indices`` is ``[..., k]`` and ``updates`` ``[..., *tensor.shape[k:]]``. Of updates
    of the same place the last one, in row-major order, stays. Indices are checked as by
    ``GatherV2``, axis by axis.""",
)


def tensor_scatter_update(
    x: TensorLike, indices: TensorLike, updates: TensorLike, /
) -> Tensor:
    """Return ``x`` with the slices at ``indices`` replaced by ``updates``.

    Of several updates of the same index the last one, in row-major order, stays and
    gets the gradient.

    Args:
        x: A tensor of any dtype.
        indices: ``[..., k]``, integers, each row an index into the first k axes;
            ``[n]`` stands for ``[n, 1]``.
        updates: ``[..., *x.shape[k:]]``.

    Returns:
        A tensor of the shape of ``x``, of the dtype to which ``x`` and ``updates`` are
        promoted.

    Raises:
        ValueError: The shapes do not fit.
        IndexError: An index is out of range. An asynchronous backend raises it when the
            result is read.
        TypeError: ``indices`` are not integers, or no dtype holds ``x`` and
            ``updates``.

    Example:
        >>> pg.tensor_scatter_update([1, 2, 3], [0, 2], [10, 30])
        Tensor([10,  2, 30], dtype=int32, backend='cpu')

    """
    x, updates = _convert.promote_all("tensor_scatter_update", x, updates)
    places = _places("tensor_scatter_update", indices, updates.shape, x.shape)
    return run(TENSOR_SCATTER_UPDATE, x, places, updates)


@decomposition(TENSOR_SCATTER_UPDATE)
def _(tensor: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    lead = tensor.shape[: indices.shape[-1]]
    rows, ids = _rows("tensor_scatter_update", updates, lead, indices)
    if not rows.size:
        return tensor
    count, total = ids.shape[0], math.prod(lead)
    at = compare.where(_last(ids, total), ids, -1)  # the others are dropped
    hit = _sums(creation.ones((count, 1), dtype=INT32), at, total) > 0
    new = gather.gather(rows, _sums(creation.arange(count), at, total))
    old = run(shapes.RESHAPE, tensor, shape=(total, rows.shape[1]))
    return run(shapes.RESHAPE, run(compare.SELECT, hit, new, old), shape=tensor.shape)


def _sums(x: Tensor, ids: Tensor, count: int) -> Tensor:
    return run(gather.UNSORTED_SEGMENT_SUM, x, ids, num_segments=count)


def _last(ids: Tensor, total: int) -> Tensor:
    """Return which ids are the last of their kind, found bit by bit of their number.

    From the highest bit on, ids without the bit are dropped if an id of the same kind
    has it: log2(n) rounds without sorting.
    """
    count = ids.shape[0]
    numbers = np.arange(count, dtype=np.int32)
    left = creation.ones((count,), dtype=BOOL)
    for bit in reversed(range((count - 1).bit_length())):
        high = _convert.asarray(numbers >> bit & 1, dtype=BOOL)
        mine = compare.logical_and(left, high)
        some = _sums(creation.cast(mine, INT32), ids, total) > 0
        left = compare.where(gather.gather(some, ids), mine, left)
    return left


def _without(dy: Tensor, indices: Tensor, updates_spec: Spec) -> Tensor:
    zeros = creation.zeros(updates_spec.shape, dtype=dy.dtype)
    return run(TENSOR_SCATTER_UPDATE, dy, indices, zeros)


def _stayed(dy: Tensor, indices: Tensor, tensor_spec: Spec) -> Tensor:
    """Return the slices of ``dy`` at the indices whose update stayed, else zeros.

    Writing the numbers of the updates in their place shows which one stayed.
    """
    *lead, depth = indices.shape
    numbers = run(shapes.RESHAPE, creation.arange(math.prod(lead)), shape=tuple(lead))
    blank = creation.zeros(tensor_spec.shape[:depth], dtype=INT32)
    written = run(TENSOR_SCATTER_UPDATE, blank, indices, numbers)
    hit = compare.equal(run(GATHER_ND, written, indices), numbers)
    rest = [1] * (len(tensor_spec.shape) - depth)
    hit = run(shapes.RESHAPE, hit, shape=(*lead, *rest))
    return compare.where(hit, run(GATHER_ND, dy, indices), 0)


gradients(TENSOR_SCATTER_UPDATE, tensor=_without, indices=None, updates=_stayed)
