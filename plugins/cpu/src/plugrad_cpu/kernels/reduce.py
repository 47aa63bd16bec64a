"""Reductions."""

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array

kernels = KernelTable()


@kernels("Sum")
def sum(x: Array, *, axis: tuple[int, ...], keepdims: bool) -> Array:
    """Keep the dtype, which NumPy widens for small integers."""
    return np.add.reduce(x, axis, x.dtype, None, keepdims)


@kernels("Max")
def max(x: Array, *, axis: tuple[int, ...], keepdims: bool) -> Array:
    """NaN wins."""
    return np.maximum.reduce(x, axis, None, None, keepdims)


@kernels("Softmax")
def softmax(logits: Array, *, axis: int) -> Array:
    """Shift by the maximum first, so that exp never overflows."""
    e = np.exp(logits - logits.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)
