"""Changes of shape and order. Only reshaping returns views: arrays are contiguous."""

from __future__ import annotations

import math
from itertools import accumulate

from plugrad.geometry import broadcast_strides, contiguous_strides
from plugrad.plugin import KernelTable, takes_bfloat16

from ..arrays import ClArray, Shape, empty
from ..joins import put_together, take_apart
from ..moves import around, move, put

kernels = KernelTable()


@kernels("Reshape")
@takes_bfloat16
def reshape(x: ClArray, *, shape: Shape) -> ClArray:
    """Return a view."""
    return x.view(tuple(shape))


@kernels("ExpandDims")
@takes_bfloat16
def expand_dims(input: ClArray, *, axis: int) -> ClArray:
    """Return a view."""
    return input.view((*input.shape[:axis], 1, *input.shape[axis:]))


@kernels("BroadcastTo")
@takes_bfloat16
def broadcast_to(x: ClArray, *, shape: Shape) -> ClArray:
    """Copy with a step of 0 along repeated axes."""
    return move(x, tuple(shape), broadcast_strides(x.shape, len(shape)))


@kernels("Tile")
@takes_bfloat16
def tile(x: ClArray, *, repetitions: Shape) -> ClArray:
    """Copy with an axis of repetitions before each axis, and a step of 0 along it."""
    sizes = [*zip(repetitions, x.shape, contiguous_strides(x.shape), strict=True)]
    wide = tuple([m for r, n, _ in sizes for m in (r, n)])
    if all(r == 1 for r in repetitions):
        return x
    y = empty(x.device, tuple([r * n for r, n, _ in sizes]), x.dtype)
    put(x, y, wide, [m for *_, s in sizes for m in (0, s)], contiguous_strides(wide))
    return y


@kernels("Concat")
@takes_bfloat16
def concat(*xs: ClArray, axis: int) -> ClArray:
    """Copy the inputs one after the other."""
    around(xs[0], axis)
    ends = [*accumulate([x.shape[axis] for x in xs])]
    shape = (*xs[0].shape[:axis], ends[-1], *xs[0].shape[axis + 1 :])
    y = empty(xs[0].device, shape, xs[0].dtype)
    order = contiguous_strides(shape)
    if y.device.style == "gpu":
        put_together(xs, y, axis)
        return y
    for x, end in zip(xs, ends, strict=True):
        start = (end - x.shape[axis]) * order[axis]
        put(x, y, x.shape, contiguous_strides(x.shape), order, 0, start)
    return y


@kernels("Pack")
@takes_bfloat16
def pack(*xs: ClArray, axis: int) -> ClArray:
    """Join along a new axis."""
    return concat(*[expand_dims(x, axis=axis) for x in xs], axis=axis)


@kernels("SplitV")
@takes_bfloat16
def split(x: ClArray, *, sizes: Shape, axis: int) -> tuple[ClArray, ...]:
    """Copy each piece."""
    order = contiguous_strides(x.shape)
    pieces = []
    if x.device.style == "gpu":
        ends = x.shape[:axis], x.shape[axis + 1 :]
        shapes = [(*ends[0], n, *ends[1]) for n in sizes]
        pieces = [empty(x.device, shape, x.dtype) for shape in shapes]
        take_apart(x, pieces, axis)
        return tuple(pieces)
    for n, end in zip(sizes, accumulate(sizes), strict=True):
        shape = (*x.shape[:axis], n, *x.shape[axis + 1 :])
        pieces.append(move(x, shape, order, (end - n) * order[axis]))
    return tuple(pieces)


@kernels("Unpack")
@takes_bfloat16
def unpack(value: ClArray, *, axis: int) -> tuple[ClArray, ...]:
    """Split, and drop the axis."""
    shape = (*value.shape[:axis], *value.shape[axis + 1 :])
    pieces = split(value, sizes=(1,) * value.shape[axis], axis=axis)
    return tuple([piece.view(shape) for piece in pieces])


@kernels("Transpose")
@takes_bfloat16
def transpose(x: ClArray, *, axes: Shape) -> ClArray:
    """Copy with the axes in another order."""
    order = contiguous_strides(x.shape)
    return move(x, tuple([x.shape[i] for i in axes]), [order[i] for i in axes])


@kernels("Reverse")
@takes_bfloat16
def reverse(x: ClArray, *, axis: Shape) -> ClArray:
    """Copy with negative steps, from the other end."""
    order = contiguous_strides(x.shape)
    start = sum((x.shape[i] - 1) * order[i] for i in axis)
    back = [-s if i in axis else s for i, s in enumerate(order)]
    return move(x, x.shape, back, start) if math.prod(x.shape) else x
