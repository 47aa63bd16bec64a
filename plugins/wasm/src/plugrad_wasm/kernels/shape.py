"""Moving elements: views where they stay in order, else copies by strides."""

from collections.abc import Callable
from typing import TypeVar

from plugrad.plugin import KernelTable

from ..arrays import Shape, WasmArray, empty
from ..launch import Kernel, contiguous, or_strings, put, take

kernels = KernelTable()
F = TypeVar("F", bound=Kernel)


def mover(name: str) -> Callable[[F], F]:
    """Add the decorated function as a kernel that leaves strings to cpu's."""

    def add(function: F) -> F:
        kernels[name] = or_strings(name, function)
        return function

    return add


@mover("Reshape")
def reshape(x: WasmArray, *, shape: Shape) -> WasmArray:
    """Return a view."""
    return x.view(shape)


@mover("ExpandDims")
def expand_dims(input: WasmArray, *, axis: int) -> WasmArray:
    """Return a view."""
    return input.view((*input.shape[:axis], 1, *input.shape[axis:]))


@mover("BroadcastTo")
def broadcast_to(x: WasmArray, *, shape: Shape) -> WasmArray:
    """Copy with steps of 0."""
    padded = (1,) * (len(shape) - len(x.shape)) + x.shape
    steps = contiguous(padded)
    return take(
        x, shape, [s if n > 1 else 0 for s, n in zip(steps, padded, strict=True)]
    )


@mover("Tile")
def tile(x: WasmArray, *, repetitions: tuple[int, ...]) -> WasmArray:
    """Copy with an axis of step 0 before each axis, and join the two."""
    pairs = zip(repetitions, x.shape, strict=True)
    wide = tuple([size for pair in pairs for size in pair])
    steps = [step for own in contiguous(x.shape) for step in (0, own)]
    shape = [r * n for r, n in zip(repetitions, x.shape, strict=True)]
    return take(x, wide, steps).view(tuple(shape))


@mover("Transpose")
def transpose(x: WasmArray, *, axes: tuple[int, ...]) -> WasmArray:
    """Copy in the other order."""
    steps = contiguous(x.shape)
    return take(x, tuple([x.shape[i] for i in axes]), [steps[i] for i in axes])


@mover("Reverse")
def reverse(x: WasmArray, *, axis: tuple[int, ...]) -> WasmArray:
    """Copy from the last on, with negative steps."""
    steps = contiguous(x.shape)
    first = sum([steps[i] * (x.shape[i] - 1) for i in axis])
    return take(
        x, x.shape, [-s if i in axis else s for i, s in enumerate(steps)], first
    )


@mover("Concat")
def concat(*xs: WasmArray, axis: int) -> WasmArray:
    """Copy one after the other."""
    sizes = [x.shape[axis] for x in xs]
    shape = (*xs[0].shape[:axis], sum(sizes), *xs[0].shape[axis + 1 :])
    y, steps, at = empty(shape, xs[0].dtype), contiguous(shape), 0
    for x, n in zip(xs, sizes, strict=True):
        put(x, y, steps, at * steps[axis])
        at += n
    return y
