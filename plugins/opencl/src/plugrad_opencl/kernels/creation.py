"""Kernels that make arrays, and Cast."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import ClArray, ClArrays, DType, Shape, empty
from ..elementwise import Function, elementwise
from ..runtime import Device
from .complexes import real

kernels = KernelTable()

# Truncate; what is out of range wraps, and NaN and infinities give 0, as on cpu.
_WHOLE = """
  if (fabs(x) < (S)9223372036854775808.0) return (Y)(long)x;
  if (!isfinite(x)) return 0;
  S rest = fmod(x, (S)18446744073709551616.0);
  if (rest >= (S)9223372036854775808.0) rest -= (S)18446744073709551616.0;
  if (rest < (S)-9223372036854775808.0) rest += (S)18446744073709551616.0;
  return (Y)(long)rest;
"""


@functools.cache
def _to(dtype: DType) -> Function:
    """Return the kernel for a dtype, with a program for each dtype to come from."""
    name, plain = dtype.name, "TO(Y, x)"
    if dtype.kind == "b":
        complexes = "x.x != 0 || x.y != 0"
        return elementwise("Cast", "x", out=name, fiu="TRUTH(x != (S)0)", c=complexes)
    if dtype.kind == "c":
        return elementwise("Cast", "x", out=name, fiub="(float2)((float)x, 0)")
    whole = {"alone": "f", "f": _WHOLE} if dtype.kind in "iu" else {"f": plain}
    return elementwise("Cast", "x", out=name, iub=plain, **whole)


@kernels("Cast")
def cast(x: ClArray, *, dtype: DType) -> Any:
    """Of a complex number, the real part."""
    if x.dtype == dtype:
        return x
    if dtype.hasobject:
        return NotImplemented
    if x.dtype.kind == "c" and dtype.kind != "b":
        x = real(x)
        return x if x.dtype == dtype else _to(dtype)(x)
    return _to(dtype)(x)


@kernels("Identity")
def identity(x: ClArray) -> ClArray:
    """Share the memory: nobody writes to it."""
    return x


@kernels("Fill")
def fill(arrays: ClArrays, *, shape: Shape, value: Any, dtype: DType) -> Any:
    """Strings stay on the host."""
    if dtype.hasobject:
        return NotImplemented
    return filled(arrays.device, tuple(shape), value, dtype)


def filled(device: Device, shape: Shape, value: complex, dtype: DType) -> ClArray:
    """Return ``value`` everywhere."""
    y = empty(device, shape, dtype)
    if y.size:
        device.fill(y.buffer, np.full((), value, dtype), y.nbytes)
    return y


@kernels("ZerosLike")
def zeros_like(x: ClArray) -> ClArray:
    """Fill."""
    return filled(x.device, x.shape, 0, x.dtype)


@kernels("OnesLike")
def ones_like(x: ClArray) -> ClArray:
    """Fill."""
    return filled(x.device, x.shape, 1, x.dtype)
