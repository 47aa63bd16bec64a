"""Shapes and the order of elements: mostly views."""

import math

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array, kernel_context
from ..native import COPY_MIN_BYTES, MAX_ELEMENTS, as_contiguous
from ..native import kernels as in_c

kernels = KernelTable()
JOIN = in_c("join", {None: ""}).get(None)

copied = kernel_context(as_contiguous)  # allocates from the pool


@kernels("Reshape")
def reshape(x: Array, *, shape: tuple[int, ...]) -> Array:
    """Return a view if possible, else a copy; C copies large arrays."""
    if x.flags.c_contiguous or x.nbytes < COPY_MIN_BYTES:
        return x.reshape(shape)
    try:
        return x.reshape(shape, copy=False)
    except ValueError:
        return as_contiguous(x).reshape(shape)


@kernels("ExpandDims")
def expand_dims(input: Array, *, axis: int) -> Array:
    """Return a view."""
    return input.reshape((*input.shape[:axis], 1, *input.shape[axis:]))


@kernels("BroadcastTo")
def broadcast_to(x: Array, *, shape: tuple[int, ...]) -> Array:
    """Return a read-only view; for small results a copy is faster."""
    if math.prod(shape) > 4096:
        return np.broadcast_to(x, shape)
    y = np.empty(shape, x.dtype)
    y[...] = x
    return y


@kernels("BroadcastArgs")
def broadcast_args(s0: Array, s1: Array) -> Array:
    """Align the shapes at the end; an axis of size 1 takes the other size."""
    rank = max(s0.size, s1.size)
    a, b = (np.pad(s, (rank - s.size, 0), constant_values=1) for s in (s0, s1))
    if ((a != b) & (a != 1) & (b != 1)).any():
        raise ValueError(
            f"broadcast_args: shapes {s0.tolist()} and {s1.tolist()} do not broadcast"
        )
    return np.where(a == 1, b, a)


@kernels("Tile")
def tile(x: Array, *, repetitions: tuple[int, ...]) -> Array:
    """Add an axis of repetitions before each axis by broadcasting; merge the two."""
    pairs = [*zip(repetitions, x.shape, strict=True)]
    y = np.broadcast_to(
        x.reshape([m for n in x.shape for m in (1, n)]), [m for p in pairs for m in p]
    )
    if y.size >= COPY_MIN_BYTES and any([r > 1 and n > 1 for r, n in pairs]):
        y = copied(y)  # other results can stay views
    return y.reshape([r * n for r, n in pairs])


@kernels("Concat")
def concat(*xs: Array, axis: int) -> Array:
    """Concatenate along ``axis``; C concatenates large arrays."""
    small = xs[0].nbytes + xs[-1].nbytes < COPY_MIN_BYTES or xs[0].dtype.hasobject
    return np.concatenate(xs, axis) if small else _joined(xs, axis)


@kernel_context
def _joined(xs: tuple[Array, ...], axis: int) -> Array:
    """Concatenate large arrays in C, row by row up to ``axis``."""
    size = sum([x.nbytes for x in xs])
    rows = math.prod(xs[0].shape[:axis])
    least = (
        4 * COPY_MIN_BYTES if size < 4096 * rows else 32 * COPY_MIN_BYTES
    )  # with rows of 4 KiB or more, only larger arrays gain
    if not JOIN or len({x.dtype for x in xs}) > 1 or not least <= size < MAX_ELEMENTS:
        return np.concatenate(xs, axis)
    shape = list(xs[0].shape)
    shape[axis] = sum([x.shape[axis] for x in xs])
    y = np.empty(shape, xs[0].dtype)
    xs = tuple(map(as_contiguous, xs))
    parts = [n for x in xs for n in (x.ctypes.data, x.nbytes // rows)]
    JOIN(np.array(parts, np.uint64), len(xs), y, rows, size // rows)
    return y


@kernels("Pack")
def pack(*xs: Array, axis: int) -> Array:
    """Stack along a new axis."""
    lead, rest = xs[0].shape[:axis], xs[0].shape[axis:]
    return concat(*[x.reshape((*lead, 1, *rest)) for x in xs], axis=axis)


@kernels("SplitV")
def split(x: Array, *, sizes: tuple[int, ...], axis: int) -> tuple[Array, ...]:
    """Return views."""
    lead = (slice(None),) * axis
    begin = 0
    pieces = []
    for size in sizes:
        pieces.append(x[(*lead, slice(begin, begin + size))])
        begin += size
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
    back = slice(None, None, -1)
    all_ = slice(None)
    return x[tuple([back if i in axis else all_ for i in range(x.ndim)])]
