"""Making and moving elements."""

import math

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array

kernels = KernelTable()


@kernels("Reshape")
def reshape(x: Array, *, shape: tuple[int, ...]) -> Array:
    """Return a view where NumPy can."""
    return x.reshape(shape)


@kernels("BroadcastTo")
def broadcast_to(x: Array, *, shape: tuple[int, ...]) -> Array:
    """Return a read-only view; copying something small is faster than making one."""
    if math.prod(shape) > 4096:
        return np.broadcast_to(x, shape)
    y = np.empty(shape, x.dtype)
    y[...] = x
    return y


@kernels("Concat")
def concat(*xs: Array, axis: int) -> Array:
    """Join along ``axis``."""
    return np.concatenate(xs, axis)


@kernels("SplitV")
def split(x: Array, *, sizes: tuple[int, ...], axis: int) -> tuple[Array, ...]:
    """Return views."""
    return tuple(np.split(x, np.cumsum(sizes)[:-1], axis))
