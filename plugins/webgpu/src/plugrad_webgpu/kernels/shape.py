"""Kernels that create, move and reshape elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from plugrad.geometry import broadcast_strides, collapse_axes, contiguous_strides

from ..arrays import DType, Shape
from ..plans import Plan, Planner, Slot, Use
from ..source import STORAGE, bits, offsets, stored


def fill(plan: Plan, *, shape: Shape, value: Any, dtype: DType) -> Slot:
    """Return an array of equal elements."""
    y = plan.new(shape, dtype)
    number = bits(value, y.kind)
    text = stored(y.kind, "(p.value != 0u)" if y.kind == "b" else "p.value")
    body = f"y[id] = vec4<{STORAGE[y.kind]}>({text});"
    uses = {"y": Use(y, 4, write=True)}
    plan.run("Fill", uses, {"value": number}, body, -(-y.size // 4))
    return y


def zeros_like(plan: Plan, x: Slot) -> Slot:
    """Return zeros of the shape and dtype of ``x``."""
    return fill(plan, shape=x.shape, value=0, dtype=x.dtype)


def ones_like(plan: Plan, x: Slot) -> Slot:
    """Return ones of the shape and dtype of ``x``."""
    return fill(plan, shape=x.shape, value=1, dtype=x.dtype)


def copy(
    plan: Plan,
    x: Slot,
    y: Slot,
    shape: Shape,
    steps: Sequence[int],
    new_steps: Sequence[int],
    begin: int = 0,
    new_begin: int = 0,
) -> None:
    """Copy elements between places that strides describe, in elements.

    Strides may be negative: unsigned arithmetic wraps around.
    """
    axes = collapse_axes(shape, steps, new_steps)
    lanes = 1
    if axes[-1][1:] == (1, 1):  # neighbors stay neighbors: copy four at a time
        sizes = [axes[-1][0], begin, new_begin]
        sizes += [step for axis in axes[:-1] for step in axis[1:]]
        lanes = 4 if all(size % 4 == 0 for size in sizes) else 1
    params = {"begin": begin // lanes, "new_begin": new_begin // lanes}
    for a, (size, *pair) in enumerate(axes):
        inner = a == len(axes) - 1
        params[f"n{a}"] = size // lanes if inner else size
        step, new_step = pair if inner else [one // lanes for one in pair]
        params[f"s{a}"] = step & 0xFFFFFFFF
        params[f"t{a}"] = new_step & 0xFFFFFFFF
    sizes_of = [f"p.n{a}" for a in range(len(axes))]
    variables = {
        "from_": [f"p.s{a}" for a in range(len(axes))],
        "to": [f"p.t{a}" for a in range(len(axes))],
    }
    body = "var from_ = p.begin; var to = p.new_begin;\n"
    body += offsets(sizes_of, "id", variables) + "y[to] = x[from_];"
    uses = {"x": Use(x, lanes), "y": Use(y, lanes, write=True)}
    plan.run("Copy", uses, params, body, math.prod(shape) // lanes)


def taken(
    plan: Plan, x: Slot, shape: Shape, steps: Sequence[int], begin: int = 0
) -> Slot:
    """Return the elements of ``x`` that strides describe."""
    y = plan.new(shape, x.dtype)
    copy(plan, x, y, shape, steps, contiguous_strides(shape), begin)
    return y


def reshape(plan: Plan, x: Slot, *, shape: Shape) -> Slot:
    """Return a view."""
    return x.view(shape)


def expand_dims(plan: Plan, input: Slot, *, axis: int) -> Slot:
    """Return a view with another axis of size 1."""
    return input.view((*input.shape[:axis], 1, *input.shape[axis:]))


def identity(plan: Plan, x: Slot) -> Slot:
    """Return a view."""
    return x


def bitcast(plan: Plan, x: Slot, *, dtype: DType) -> Slot | None:
    """Return a view as another dtype, except bool, which has other bits here."""
    if x.dtype.kind == "b" or dtype.kind == "b" or x.dtype.itemsize != dtype.itemsize:
        return None
    return x.view(x.shape, dtype)


def transpose(plan: Plan, x: Slot, *, axes: Shape) -> Slot:
    """Permute the axes."""
    steps = contiguous_strides(x.shape)
    shape = tuple([x.shape[a] for a in axes])
    return taken(plan, x, shape, [steps[a] for a in axes])


def broadcast_to(plan: Plan, x: Slot, *, shape: Shape) -> Slot:
    """Repeat along axes."""
    return taken(plan, x, shape, broadcast_strides(x.shape, len(shape)))


def strided_slice(
    plan: Plan, x: Slot, *, begin: Shape, size: Shape, strides: Shape
) -> Slot:
    """Return every ``strides``-th element from ``begin``."""
    own = contiguous_strides(x.shape)
    start = sum(b * s for b, s in zip(begin, own, strict=True))
    steps = [s * t for s, t in zip(own, strides, strict=True)]
    return taken(plan, x, size, steps, start if math.prod(size) else 0)


def slice_(plan: Plan, x: Slot, *, begin: Shape, size: Shape) -> Slot:
    """Return a box of elements."""
    return strided_slice(plan, x, begin=begin, size=size, strides=(1,) * len(size))


def reverse(plan: Plan, x: Slot, *, axis: Shape) -> Slot:
    """Reverse axes."""
    begin = tuple([n - 1 if i in axis else 0 for i, n in enumerate(x.shape)])
    steps = tuple([-1 if i in axis else 1 for i in range(len(x.shape))])
    return strided_slice(plan, x, begin=begin, size=x.shape, strides=steps)


def tile(plan: Plan, x: Slot, *, repetitions: Shape) -> Slot:
    """Repeat the whole array along each axis."""
    shape: list[int] = []
    steps: list[int] = []
    own = contiguous_strides(x.shape)
    for n, times, step in zip(x.shape, repetitions, own, strict=True):
        shape += [times, n]
        steps += [0, step]
    whole = [n * times for n, times in zip(x.shape, repetitions, strict=True)]
    return taken(plan, x, tuple(shape), steps).view(tuple(whole))


def concat(plan: Plan, *xs: Slot, axis: int) -> Slot:
    """Join arrays along an axis."""
    first = xs[0].shape
    shape = (*first[:axis], sum(x.shape[axis] for x in xs), *first[axis + 1 :])
    y = plan.new(shape, xs[0].dtype)
    steps, at = contiguous_strides(shape), 0
    for x in xs:
        own = contiguous_strides(x.shape)
        copy(plan, x, y, x.shape, own, steps, 0, at * steps[axis])
        at += x.shape[axis]
    return y


def pack(plan: Plan, *xs: Slot, axis: int) -> Slot:
    """Join arrays along a new axis."""
    return concat(plan, *[expand_dims(plan, x, axis=axis) for x in xs], axis=axis)


def split(plan: Plan, x: Slot, *, sizes: Shape, axis: int) -> tuple[Slot, ...]:
    """Return pieces of the given sizes along an axis."""
    found, at = [], 0
    for n in sizes:
        begin = tuple([at if i == axis else 0 for i in range(len(x.shape))])
        size = (*x.shape[:axis], n, *x.shape[axis + 1 :])
        found.append(slice_(plan, x, begin=begin, size=size))
        at += n
    return tuple(found)


def unpack(plan: Plan, value: Slot, *, axis: int) -> tuple[Slot, ...]:
    """Return the pieces of size 1 along an axis, without the axis."""
    pieces = split(plan, value, sizes=(1,) * value.shape[axis], axis=axis)
    shape = (*value.shape[:axis], *value.shape[axis + 1 :])
    return tuple([piece.view(shape) for piece in pieces])


def pad(plan: Plan, x: Slot, *, paddings: Any, constant_values: Any) -> Slot:
    """Surround the array with a value."""
    ends = zip(x.shape, paddings, strict=True)
    shape = tuple([before + n + after for n, (before, after) in ends])
    y = fill(plan, shape=shape, value=constant_values, dtype=x.dtype)
    steps = contiguous_strides(shape)
    begin = sum(before * s for (before, _), s in zip(paddings, steps, strict=True))
    copy(plan, x, y, x.shape, contiguous_strides(x.shape), steps, 0, begin)
    return y


PLANNERS: dict[str, Planner] = {
    "BroadcastTo": broadcast_to,
    "Concat": concat,
    "Fill": fill,
    "OnesLike": ones_like,
    "Pack": pack,
    "PadV2": pad,
    "Reverse": reverse,
    "Slice": slice_,
    "SplitV": split,
    "StridedSlice": strided_slice,
    "Tile": tile,
    "Transpose": transpose,
    "Unpack": unpack,
    "ZerosLike": zeros_like,
}
VIEWS: dict[str, Planner] = {  # for every dtype, as they only rename memory
    "Bitcast": bitcast,
    "ExpandDims": expand_dims,
    "Identity": identity,
    "Reshape": reshape,
}
