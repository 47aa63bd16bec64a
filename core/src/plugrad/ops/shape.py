"""Ops that change shapes and move elements, without looking at them.

Kernels: ``BroadcastArgs BroadcastTo Concat ExpandDims Pack Reshape Reverse SplitV Tile
Transpose Unpack``.

Map: new shapes of the same elements; repeating; joining and cutting; orders of axes and
elements.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from plugrad import geometry
from plugrad._arguments import Ints, entries, integer, integers, misfit, several, sizes
from plugrad._engine import run, run_many
from plugrad._kernel import Kernel, Spec, decomposition, gradients, same
from plugrad._tensor import Tensor, TensorLike
from plugrad.geometry import Shape

from . import _convert, compare, gather, indexing, reduce, slicing

# --- new shapes of the same elements ---------------------------------------------


def _given(x: Spec, *, shape: Shape) -> Spec:
    return Spec(shape, x.dtype)


RESHAPE = Kernel("Reshape(x; shape)", out=_given, op="reshape")


def reshape(x: TensorLike, /, shape: Ints, *, copy: bool | None = None) -> Tensor:
    """Return the same elements under a new shape, in which one -1 is worked out.

    ``copy`` is there for the array API standard's sake: tensors are immutable, so that
    nobody can tell a copy.
    """
    x = x if type(x) is Tensor else _convert.asarray(x)
    shape = integers("reshape", "shape", shape)
    if min(shape, default=0) < -1:
        raise ValueError(f"reshape: shape {shape} has a negative size")
    return run(RESHAPE, x, shape=geometry.reshaped(x.shape, shape))


gradients(RESHAPE, x=lambda dy, x_spec: run(RESHAPE, dy, shape=x_spec.shape))


def _stacked(*xs: Spec | Tensor, axis: int) -> Spec:
    return Spec((*xs[0].shape[:axis], len(xs), *xs[0].shape[axis:]), xs[0].dtype)


EXPAND_DIMS = Kernel("ExpandDims(input; axis)", out=_stacked, op="expand_dims")


def expand_dims(x: TensorLike, /, *, axis: int = 0) -> Tensor:
    """Return ``x`` with a new axis of size 1, which becomes the axis ``axis``."""
    x = x if type(x) is Tensor else _convert.asarray(x)
    return run(EXPAND_DIMS, x, axis=_axis("expand_dims", axis, len(x.shape) + 1))


@decomposition(EXPAND_DIMS)
def _(input: Tensor, *, axis: int) -> Tensor:
    return run(RESHAPE, input, shape=_stacked(input, axis=axis).shape)


gradients(
    EXPAND_DIMS, input=lambda dy, input_spec: run(RESHAPE, dy, shape=input_spec.shape)
)


def _axis(op: str, axis: int, rank: int) -> int:
    """Return the one axis that an op takes, as a number from 0."""
    return geometry.axes(op, integer(op, "axis", axis), rank)[0]


def squeeze(x: TensorLike, /, axis: Ints | None = None) -> Tensor:
    """Return ``x`` without the axes ``axis``, all of size 1 (default: all of these)."""
    x = _convert.asarray(x)
    if axis is None:
        gone = tuple([i for i, n in enumerate(x.shape) if n == 1])
    else:
        gone = geometry.axes("squeeze", axis, len(x.shape))
    for i in gone:
        if x.shape[i] != 1:
            raise misfit("squeeze", f"axis {i} must have size 1", x)
    left = tuple([n for i, n in enumerate(x.shape) if i not in gone])
    return run(RESHAPE, x, shape=left)


def ensure_shape(x: TensorLike, /, shape: Sequence[int | None]) -> Tensor:
    """Return ``x`` itself if it has ``shape``, in which None stands for any size.

    Raises:
        ValueError: It has not.

    """
    x, given = _convert.asarray(x), several("ensure_shape", "shape", shape)
    integers("ensure_shape", "shape", [n for n in given if n is not None])
    wanted = [m if n is None else n for n, m in zip(given, x.shape, strict=False)]
    if len(given) != len(x.shape) or tuple(wanted) != x.shape:
        raise ValueError(f"ensure_shape: shape {x.shape} is not {tuple(given)}")
    return x


# --- repeating -------------------------------------------------------------------

BROADCAST_TO = Kernel("BroadcastTo(x; shape)", out=_given, op="broadcast_to")


def broadcast_to(x: TensorLike, /, shape: Ints) -> Tensor:
    """Return ``x`` repeated along axes of size 1 until it has ``shape``."""
    x = x if type(x) is Tensor else _convert.asarray(x)
    shape = integers("broadcast_to", "shape", shape)
    x = _convert.fitted("broadcast_to", "x", x, shape)
    return run(BROADCAST_TO, x, shape=shape)


gradients(BROADCAST_TO, x=lambda dy, x_spec: reduce.sum_to(dy, x_spec.shape))


def broadcast_arrays(*xs: TensorLike) -> list[Tensor]:
    """Return all tensors broadcast to their common shape; dtypes stay."""
    tensors = [_convert.asarray(x) for x in xs]
    shape = geometry.broadcast("broadcast_arrays", *(x.shape for x in tensors))
    return [run(BROADCAST_TO, x, shape=shape) for x in tensors]


def _longer(s0: Spec, s1: Spec) -> Spec:
    return max(s0, s1, key=lambda s: s.shape)


BROADCAST_ARGS = Kernel(
    "BroadcastArgs(s0, s1)", out=_longer, checks="s0", op="broadcast_args"
)


def broadcast_args(s0: TensorLike, s1: TensorLike, /) -> Tensor:
    """Return the shape to which shapes ``s0`` and ``s1``, given as tensors, broadcast.

    That there is one is seen by backends that look at the values at once.
    """
    s0, s1 = (indexing.integer_tensor("broadcast_args", "shapes", s) for s in (s0, s1))
    if len(s0.shape) != 1 or len(s1.shape) != 1:
        raise misfit("broadcast_args", "shapes must be of rank 1", s0, s1)
    return run(BROADCAST_ARGS, *_convert.together("broadcast_args", s0, s1))


@decomposition(BROADCAST_ARGS)
def _(s0: Tensor, s1: Tensor) -> Tensor:
    short = len(s0) - len(s1)
    s0 = slicing.pad(s0, [(max(-short, 0), 0)], constant_values=1)
    s1 = slicing.pad(s1, [(max(short, 0), 0)], constant_values=1)
    return compare.where(compare.equal(s0, 1), s1, s0)


def _tiled(x: Spec, *, repetitions: Shape) -> Spec:
    return Spec(tuple(map(operator.mul, repetitions, x.shape)), x.dtype)


TILE = Kernel("Tile(x; repetitions)", out=_tiled, op="tile")


def tile(x: TensorLike, repetitions: Ints, /) -> Tensor:
    """Return ``repetitions`` copies of ``x`` end to end along each axis.

    The shorter of ``repetitions`` and the shape of ``x`` gets ones in front.
    """
    x = _convert.asarray(x)
    counts = integers("tile", "repetitions", repetitions)
    if min(counts, default=0) < 0:
        raise ValueError(f"tile: repetitions {counts} must not be negative")
    lead = len(counts) - len(x.shape)
    if lead > 0:
        x = run(RESHAPE, x, shape=(1,) * lead + x.shape)
    counts = (1,) * -lead + counts
    sizes("tile", tuple(map(operator.mul, counts, x.shape)), "the result")
    return run(TILE, x, repetitions=counts)


@decomposition(TILE)  # and no gradient: it is that of the parts
def _(x: Tensor, *, repetitions: Shape) -> Tensor:
    pairs = list(zip(repetitions, x.shape, strict=True))
    y = run(RESHAPE, x, shape=tuple(m for _, n in pairs for m in (1, n)))
    y = run(BROADCAST_TO, y, shape=tuple(m for pair in pairs for m in pair))
    return run(RESHAPE, y, shape=tuple(r * n for r, n in pairs))


def repeat(x: TensorLike, repeats: TensorLike, /, *, axis: int | None = None) -> Tensor:
    """Return each element ``repeats`` times in a row along ``axis`` (None: flattened).

    ``repeats`` is one number, or one number an element along the axis; a tensor is
    read on the host, as the shape depends on its values.
    """
    x = _convert.asarray(x)
    if axis is None:
        x = run(RESHAPE, x, shape=(math.prod(x.shape),))
    axis = _axis("repeat", 0 if axis is None else axis, len(x.shape))
    size = x.shape[axis]
    counts = indexing.on_host("repeat", "repeats", repeats)
    if counts is None:
        counts = indexing.integer_tensor("repeat", "repeats", repeats).numpy()
    if counts.shape not in ((), (1,), (size,)) or counts.min(initial=0) < 0:
        raise ValueError(
            f"repeat: expected one number or {size}, none negative, got {repeats!r}"
        )
    if counts.size != 1:
        where = np.repeat(np.arange(size, dtype=np.int32), counts)
        return gather.gather(x, where, axis=axis)
    old, count = x.shape, counts.item()
    x = run(RESHAPE, x, shape=_with(old, axis, size, 1))
    x = run(BROADCAST_TO, x, shape=_with(old, axis, size, count))
    return run(RESHAPE, x, shape=_with(old, axis, size * count))


# --- joining and cutting ---------------------------------------------------------


def _with(shape: Shape, axis: int, *sizes: int) -> Shape:
    """Return ``shape`` with ``sizes``, none or several, in the place of one axis."""
    return shape[:axis] + sizes + shape[axis + 1 :]


def _joined(*xs: Spec, axis: int) -> Spec:
    size = sum(x.shape[axis] for x in xs)
    return Spec(_with(xs[0].shape, axis, size), xs[0].dtype)


CONCAT = Kernel("Concat(*xs; axis)", out=_joined, op="concat")


def concat(xs: Sequence[TensorLike], /, *, axis: int | None = 0) -> Tensor:
    """Join tensors end to end along ``axis``; all other axes must agree.

    ``axis=None`` joins their elements in row-major order. dtypes are promoted.
    """
    tensors = _several("concat", xs)
    if axis is None:
        flat = [run(RESHAPE, t, shape=(math.prod(t.shape),)) for t in tensors]
        return run(CONCAT, *flat, axis=0)
    axis = _axis("concat", axis, len(tensors[0].shape))
    if len({(len(t.shape), _with(t.shape, axis)) for t in tensors}) != 1:
        raise misfit("concat", f"shapes must agree outside axis {axis}", *tensors)
    return run(CONCAT, *tensors, axis=axis)


def _several(op: str, xs: Sequence[TensorLike]) -> list[Tensor]:
    given = several(op, "xs", xs)
    if not given:
        raise ValueError(f"{op}: there is nothing to join; give at least one tensor")
    return _convert.together(op, *given)


def _cut(dy: Tensor, xs_spec: tuple[Spec, ...], axis: int) -> tuple[Tensor, ...]:
    sizes = tuple([x.shape[axis] for x in xs_spec])
    return run_many(SPLIT_V, dy, sizes=sizes, axis=axis)


gradients(CONCAT, xs=_cut)


PACK = Kernel("Pack(*xs; axis)", out=_stacked, op="stack")


def stack(xs: Sequence[TensorLike], /, *, axis: int = 0) -> Tensor:
    """Join tensors of one shape along a new axis, which becomes the axis ``axis``.

    dtypes are promoted.
    """
    tensors = _several("stack", xs)
    if len({t.shape for t in tensors}) != 1:
        raise misfit("stack", "shapes differ; use concat, or broadcast_to", *tensors)
    return run(PACK, *tensors, axis=_axis("stack", axis, len(tensors[0].shape) + 1))


@decomposition(PACK)
def _(*xs: Tensor, axis: int) -> Tensor:
    return run(CONCAT, *[run(EXPAND_DIMS, x, axis=axis) for x in xs], axis=axis)


gradients(PACK, xs=lambda dy, axis: run_many(UNPACK, dy, axis=axis))


def _pieces(x: Spec, *, sizes: Shape, axis: int) -> tuple[Spec, ...]:
    return tuple(Spec(_with(x.shape, axis, size), x.dtype) for size in sizes)


SPLIT_V: Kernel = Kernel("SplitV(x; sizes, axis) -> *ys", out=_pieces, op="split")


def split(x: TensorLike, /, sizes: Ints, *, axis: int = 0) -> list[Tensor]:
    """Cut ``x`` along ``axis`` into pieces of ``sizes``, or into so many equal ones.

    One of the sizes may be -1 and is worked out.
    """
    x = _convert.asarray(x)
    axis = _axis("split", axis, len(x.shape))
    n, given = x.shape[axis], integers("split", "sizes", sizes)
    if entries(sizes) is None:
        (count,) = given
        if count < 1 or n % count:
            raise ValueError(f"split: size {n} does not divide into {count} pieces")
        given = (n // count,) * count
    rest = n - sum(size for size in given if size != -1)
    wanted = tuple(rest if size == -1 else size for size in given)
    if given.count(-1) > 1 or min(wanted, default=0) < 0 or sum(wanted) != n:
        raise ValueError(f"split: sizes {given} do not add up to {n}")
    return list(run_many(SPLIT_V, x, sizes=wanted, axis=axis))


@decomposition(SPLIT_V)
def _(x: Tensor, *, sizes: Shape, axis: int) -> list[Tensor]:
    ends = zip(accumulate(sizes), sizes, strict=True)
    return [slicing.along(x, axis, end - size, size) for end, size in ends]


gradients(SPLIT_V, x=lambda dys, axis: run(CONCAT, *dys, axis=axis))


def _rows(value: Spec, *, axis: int) -> tuple[Spec, ...]:
    return (Spec(_with(value.shape, axis), value.dtype),) * value.shape[axis]


UNPACK: Kernel = Kernel("Unpack(value; axis) -> *ys", out=_rows, op="unstack")


def unstack(x: TensorLike, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the parts of ``x`` along ``axis``, each without that axis."""
    x = x if type(x) is Tensor else _convert.asarray(x)
    return run_many(UNPACK, x, axis=_axis("unstack", axis, len(x.shape)))


@decomposition(UNPACK)
def _(value: Tensor, *, axis: int) -> list[Tensor]:
    rows = [slicing.along(value, axis, i, 1) for i in range(value.shape[axis])]
    return [run(RESHAPE, row, shape=_with(value.shape, axis)) for row in rows]


gradients(UNPACK, value=lambda dys, axis: run(PACK, *dys, axis=axis))


# --- orders of axes and elements -------------------------------------------------


def _ordered(x: Spec, *, axes: Shape) -> Spec:
    return Spec(tuple(x.shape[i] for i in axes), x.dtype)


TRANSPOSE = Kernel("Transpose(x; axes)", out=_ordered, op="permute_dims")


def permute_dims(x: TensorLike, /, axes: Sequence[int]) -> Tensor:
    """Return ``x`` with its axes in the order ``axes``."""
    x = x if type(x) is Tensor else _convert.asarray(x)
    rank, given = len(x.shape), integers("permute_dims", "axes", axes)
    order = tuple([i + rank if i < 0 else i for i in given])
    if sorted(order) != list(range(rank)):
        raise misfit("permute_dims", f"axes {axes} must name each axis once", x)
    return run(TRANSPOSE, x, axes=order)


def _transposed_back(dy: Tensor, axes: Shape) -> Tensor:
    back = sorted(range(len(axes)), key=axes.__getitem__)
    return run(TRANSPOSE, dy, axes=tuple(back))


gradients(TRANSPOSE, x=_transposed_back)


def _each(op: str, name: str, given: Ints, rank: int) -> list[int]:
    """Return the axes that an op takes in an order, as numbers from 0."""
    return [geometry.axes(op, i, rank)[0] for i in integers(op, name, given)]


def moveaxis(x: TensorLike, source: Ints, destination: Ints, /) -> Tensor:
    """Return ``x`` with axes ``source`` at places ``destination``, others in order."""
    x = _convert.asarray(x)
    rank = len(x.shape)
    sources = _each("moveaxis", "axes", source, rank)
    places = _each("moveaxis", "places", destination, rank)
    if not len(sources) == len({*sources}) == len(places) == len({*places}):
        raise ValueError(
            f"moveaxis: source {source} and destination {destination} must name as "
            "many axes, none twice"
        )
    order = [i for i in range(rank) if i not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return run(TRANSPOSE, x, axes=tuple(order))


REVERSE = Kernel("Reverse(x; axis)", out=same, op="flip")


def flip(x: TensorLike, /, *, axis: Ints | None = None) -> Tensor:
    """Return the elements in reverse order along ``axis`` (default: all axes)."""
    x = _convert.asarray(x)
    return run(REVERSE, x, axis=geometry.axes("flip", axis, len(x.shape)))


@decomposition(REVERSE)
def _(x: Tensor, *, axis: Shape) -> Tensor:
    begin = tuple(n - 1 if i in axis and n else 0 for i, n in enumerate(x.shape))
    strides = tuple(-1 if i in axis and n else 1 for i, n in enumerate(x.shape))
    return run(slicing.STRIDED_SLICE, x, begin=begin, size=x.shape, strides=strides)


gradients(REVERSE, x=lambda dy, axis: run(REVERSE, dy, axis=axis))
