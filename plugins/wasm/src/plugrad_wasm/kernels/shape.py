"""Shapes and the order of elements: views if the order is kept, else copies."""

from math import prod

import numpy as np
from plugrad.geometry import contiguous_strides
from plugrad.plugin import KernelTable, takes_bfloat16

from ..arrays import Shape, WasmArray, empty, writable
from ..launch import spread, take

kernels = KernelTable()
UINT32 = np.dtype("uint32")


@kernels("Reshape")
@takes_bfloat16
def reshape(x: WasmArray, *, shape: Shape) -> WasmArray:
    """Return a view."""
    return x.view(shape)


@kernels("ExpandDims")
@takes_bfloat16
def expand_dims(input: WasmArray, *, axis: int) -> WasmArray:
    """Return a view."""
    return input.view((*input.shape[:axis], 1, *input.shape[axis:]))


@kernels("BroadcastTo")
@takes_bfloat16
def broadcast_to(x: WasmArray, *, shape: Shape) -> WasmArray:
    """Copy with strides of 0."""
    return spread(x, shape)


@kernels("Tile")
@takes_bfloat16
def tile(x: WasmArray, *, repetitions: tuple[int, ...]) -> WasmArray:
    """Copy with an axis of stride 0 before each axis, and merge the two."""
    pairs = zip(repetitions, x.shape, strict=True)
    wide = tuple([size for pair in pairs for size in pair])
    steps = [step for own in contiguous_strides(x.shape) for step in (0, own)]
    shape = [r * n for r, n in zip(repetitions, x.shape, strict=True)]
    return take(x, wide, steps).view(tuple(shape))


@kernels("Transpose")
@takes_bfloat16
def transpose(x: WasmArray, *, axes: tuple[int, ...]) -> WasmArray:
    """Copy with permuted strides."""
    steps = contiguous_strides(x.shape)
    return take(x, tuple([x.shape[i] for i in axes]), [steps[i] for i in axes])


@kernels("Reverse")
@takes_bfloat16
def reverse(x: WasmArray, *, axis: tuple[int, ...]) -> WasmArray:
    """Copy from the last element on, with negative strides."""
    steps = contiguous_strides(x.shape)
    first = sum([steps[i] * (x.shape[i] - 1) for i in axis])
    return take(
        x, x.shape, [-s if i in axis else s for i, s in enumerate(steps)], first
    )


@kernels("Concat")
@takes_bfloat16
def concat(*xs: WasmArray, axis: int) -> WasmArray:
    """Copy the rows of all arrays one after another."""
    first = xs[0].shape
    size = sum([x.shape[axis] for x in xs])
    machine = xs[0].machine
    y = empty(machine, (*first[:axis], size, *first[axis + 1 :]), xs[0].dtype)
    if rows := prod(first[:axis]) if y.size else 0:
        widths = [x.nbytes // rows for x in xs]
        parts = empty(machine, (len(xs), 2), UINT32)
        writable(parts)[...] = [*zip([x.pointer for x in xs], widths, strict=True)]
        machine.callers["join_rows"](
            parts.pointer, len(xs), y.pointer, rows, sum(widths)
        )
    return y
