"""Python's ``x[...]`` and ``strided_slice``. No kernels.

A key is applied in up to three steps; most keys need one or two. Slices and integers
need a strided slice, removing or adding axes needs a reshape, and index arrays need a
gather.

Contents: ``getitem``; iteration and ``in``; ``select``; ``strided_slice``; index
arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Unpack

from plugrad import geometry
from plugrad._src.engine.dispatch import run
from plugrad._src.ops.array import gather, slicing
from plugrad._src.ops.basis import _convert, compare, creation, shape
from plugrad._src.tensor.arguments import Ints, integers
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike

from . import scatter
from .keys import ParsedKey, parse_key

__all__ = ["strided_slice"]


def getitem(x: TensorLike, key: Any, /) -> Tensor:
    """Return ``x[key]``.

    Args:
        x: A tensor.
        key: One of the following, or a tuple of them: an integer; a slice; ``...``;
            None, which makes a new axis; an index array, that is, a tensor, array or
            list of integers; or a mask, a bool tensor with the shape of the axes that
            it indexes. Several index arrays broadcast. If the arrays are adjacent, the
            broadcast axes replace theirs; otherwise the broadcast axes come first.

    Raises:
        IndexError: There are too many entries, an integer is out of range, or a mask
            does not fit its axes. The values of an index tensor are checked when the
            backend reads them.
        ValueError: The step of a slice is 0, or index arrays do not broadcast.
        TypeError: An entry is none of these.

    """
    return select("getitem", _convert.asarray(x), key)


def iterate(x: TensorLike, /) -> Iterator[Tensor]:
    """Return an iterator over the first axis; raise a TypeError if ``x`` has none."""
    x = _convert.asarray(x)
    if not x.shape:
        raise TypeError("iter: cannot iterate over a tensor without axes")
    return iter(shape.unstack(x))


def contains(x: TensorLike, value: TensorLike, /) -> bool:
    """Return whether an element of ``x`` equals ``value``, as ``value in x`` does.

    A ``value`` that is not a scalar is broadcast; a single pair of equal elements is
    enough.
    """
    return bool(compare.equal(x, value)._values().any())


def select(op: str, x: Tensor, key: Any) -> Tensor:
    """Return ``x[key]``; ``op`` is for messages."""
    read = parse_key(op, x.shape, key)
    y = x
    if read.source != x.shape:
        y = run(shape.RESHAPE, y, shape=read.source)
    if read.size != read.source or min(read.strides, default=1) < 0:
        part = {"begin": read.begin, "size": read.size, "strides": read.strides}
        y = run(slicing.STRIDED_SLICE, y, **part)
    if read.view != read.size:
        y = run(shape.RESHAPE, y, shape=read.view)
    if read.arrays:
        return _apply_index_arrays(op, y, read)
    return creation.identity(x) if y is x else y


def strided_slice(
    x: TensorLike,
    /,
    begin: Ints,
    end: Ints,
    strides: Ints | None = None,
    *,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``x[begin:end:strides]``, with one entry for each axis.

    Bit ``i`` of a mask refers to entry ``i``. ``x[...]`` is easier to read.

    Args:
        x: A tensor of any dtype.
        begin: The first index along each axis; negative ones count from the end.
        end: The end along each axis, exclusive.
        strides: The steps; 1 by default.
        begin_mask: The entries that start at the first element, or at the last one for
            a negative stride.
        end_mask: The entries that extend to the end.
        ellipsis_mask: The entry that stands for all axes that no other entry names.
            This mask takes precedence over the other masks.
        new_axis_mask: The entries that insert a new axis of size 1.
        shrink_axis_mask: The entries that select the single element at ``begin`` and
            remove the axis.

    Returns:
        A tensor with the dtype of ``x``.

    Raises:
        ValueError: ``begin``, ``end`` and ``strides`` differ in length, or a stride is
            0.
        IndexError: A single index is out of range, there are more entries than axes, or
            there is more than one ellipsis.
        TypeError: An argument other than ``x`` is not an integer or a sequence of
            integers.

    Example:
        >>> x = [[1, 2, 3], [4, 5, 6]]
        >>> pg.strided_slice(x, [0, 2], [2, 0], [1, -1])
        Tensor([[3, 2],
                [6, 5]], dtype=int32, backend='cpu')
        >>> pg.strided_slice(x, [1, 0], [2, 3], shrink_axis_mask=1)
        Tensor([4, 5, 6], dtype=int32, backend='cpu')

    Source:
        The semantics are those of ``tf.stridedSlice`` in TensorFlow.js.

    """
    if unknown:
        raise unexpected(strided_slice, unknown)
    op = "strided_slice"
    starts = integers(op, "begin", begin)
    ends = integers(op, "end", end)
    steps = (1,) * len(starts) if strides is None else integers(op, "strides", strides)
    parts = (starts, ends, steps)
    if len({*map(len, parts)}) > 1:
        lists = f"begin {starts}, end {ends} and strides {steps}"
        raise ValueError(f"{op}: {lists} must have the same length")
    masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    integers(op, "the masks", masks)
    key: list[object] = []
    for i, (b, e, s) in enumerate(zip(*parts, strict=True)):
        bit = 1 << i
        if ellipsis_mask & bit:
            key.append(Ellipsis)
        elif new_axis_mask & bit:
            key.append(None)
        elif shrink_axis_mask & bit:
            key.append(b)
        else:
            first = None if begin_mask & bit else b
            key.append(slice(first, None if end_mask & bit else e, s))
    return select(op, _convert.asarray(x), tuple(key))


# --- index arrays ----------------------------------------------------------------


def _apply_index_arrays(op: str, x: Tensor, read: ParsedKey) -> Tensor:
    """Apply the index arrays of a key to ``x``, which has already been sliced."""
    axes = list(read.arrays)
    arrays = list(read.arrays.values())
    first = axes[0]
    rank = len(x.shape)
    if len(arrays) == 1:
        y = run(gather.GATHER_V2, x, *arrays, axis=first, batch_dims=0)
        start = first
    else:
        common = geometry.broadcast(op, *[a.shape for a in arrays])
        arrays = [
            a if a.shape == common else run(shape.BROADCAST_TO, a, shape=common)
            for a in arrays
        ]
        if axes != [*range(len(axes))]:
            rest = [i for i in range(rank) if i not in axes]
            x = run(shape.TRANSPOSE, x, axes=(*axes, *rest))
        y = run(scatter.GATHER_ND, x, shape.stack(arrays, axis=-1))
        start = 0
    wide = len(y.shape) - rank + len(axes)  # the rank of the broadcast index arrays
    target = 0 if read.apart else first
    if start == target or not wide:
        return y
    rest = [*range(start), *range(start + wide, len(y.shape))]
    order = (*rest[:target], *range(start, start + wide), *rest[target:])
    return run(shape.TRANSPOSE, y, axes=order)
