"""Kernels that make tensors, and Cast."""

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array, NumpyArrays

kernels = KernelTable()


@kernels("Cast")
def cast(x: Array, *, dtype: np.dtype) -> Array:
    """NaN and infinities give 0 as integers; NumPy leaves them to the processor."""
    if x.dtype.kind == "c" and dtype.kind not in "cb":
        x = x.real
    if x.dtype.kind == "f" and dtype.kind in "iu":
        return _wrapped(x, dtype)
    return x.astype(dtype)


def _wrapped(x: Array, dtype: np.dtype) -> Array:
    """Truncate, and wrap what is out of range, by way of int64."""
    whole = np.trunc(np.where(np.isfinite(x), x, 0)).astype(np.float64)
    inside = np.abs(whole) < 2.0**63
    if not inside.all():
        whole = np.where(inside, whole, np.fmod(whole, 2.0**64))
        whole = np.where(whole >= 2.0**63, whole - 2.0**64, whole)
        whole = np.where(whole < -(2.0**63), whole + 2.0**64, whole)
    return whole.astype(np.int64).astype(dtype)


@kernels("Identity")
def identity(x: Array) -> Array:
    """Share the memory: nobody writes to it."""
    return x


@kernels("Fill")
def fill(
    arrays: NumpyArrays, *, shape: tuple[int, ...], value: complex, dtype: np.dtype
) -> Array:
    """A kernel without inputs gets the backend's arrays; NumPy has no need of them."""
    return np.full(shape, value, dtype)
