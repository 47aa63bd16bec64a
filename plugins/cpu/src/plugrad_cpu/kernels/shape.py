"""Moving elements: mostly views."""

import math

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array

kernels = KernelTable()


@kernels("Reshape")
def reshape(x: Array, *, shape: tuple[int, ...]) -> Array:
    """Return a view where NumPy can."""
    return x.reshape(shape)


@kernels("ExpandDims")
def expand_dims(input: Array, *, axis: int) -> Array:
    """Return a view."""
    return input.reshape((*input.shape[:axis], 1, *input.shape[axis:]))


@kernels("BroadcastTo")
def broadcast_to(x: Array, *, shape: tuple[int, ...]) -> Array:
    """Return a read-only view; copying something small is faster than making one."""
    if math.prod(shape) > 4096:
        return np.broadcast_to(x, shape)
    y = np.empty(shape, x.dtype)
    y[...] = x
    return y


@kernels("BroadcastArgs")
def broadcast_args(s0: Array, s1: Array) -> Array:
    """Align the shapes at the end; 1 gives way."""
    rank = max(s0.size, s1.size)
    a, b = (np.pad(s, (rank - s.size, 0), constant_values=1) for s in (s0, s1))
    if ((a != b) & (a != 1) & (b != 1)).any():
        raise ValueError(
            f"broadcast_args: shapes {s0.tolist()} and {s1.tolist()} do not broadcast"
        )
    return np.where(a == 1, b, a)


@kernels("Tile")
def tile(x: Array, *, repetitions: tuple[int, ...]) -> Array:
    """Broadcast to an axis of repetitions before each axis, and join the two."""
    wide = [m for r, n in zip(repetitions, x.shape, strict=True) for m in (r, n)]
    thin = [m for n in x.shape for m in (1, n)]
    y = np.broadcast_to(x.reshape(thin), wide)
    return y.reshape([r * n for r, n in zip(repetitions, x.shape, strict=True)])


@kernels("Concat")
def concat(*xs: Array, axis: int) -> Array:
    """Join along ``axis``."""
    return np.concatenate(xs, axis)


@kernels("Pack")
def pack(*xs: Array, axis: int) -> Array:
    """Join along a new axis."""
    lead, rest = xs[0].shape[:axis], xs[0].shape[axis:]
    return np.concatenate([x.reshape((*lead, 1, *rest)) for x in xs], axis)


@kernels("SplitV")
def split(x: Array, *, sizes: tuple[int, ...], axis: int) -> tuple[Array, ...]:
    """Return views."""
    lead, at, pieces = (slice(None),) * axis, 0, []
    for size in sizes:
        pieces.append(x[(*lead, slice(at, at + size))])
        at += size
    return tuple(pieces)


@kernels("Unpack")
def unpack(value: Array, *, axis: int) -> tuple[Array, ...]:
    """Return views."""
    if value.ndim == 1 and value.dtype.hasobject:
        return tuple([row.reshape(()) for row in value.reshape(-1, 1)])
    return tuple(value if axis == 0 else np.moveaxis(value, axis, 0))


@kernels("Transpose")
def transpose(x: Array, *, axes: tuple[int, ...]) -> Array:
    """Return a view."""
    return x.transpose(axes)


@kernels("Reverse")
def reverse(x: Array, *, axis: tuple[int, ...]) -> Array:
    """Return a view."""
    if not axis:
        return x
    back, all_ = slice(None, None, -1), slice(None)
    return x[tuple([back if i in axis else all_ for i in range(x.ndim)])]
