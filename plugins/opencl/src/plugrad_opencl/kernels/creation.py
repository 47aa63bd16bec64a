"""Kernels that create arrays, and casts."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import plugrad
from plugrad.plugin import KernelTable, runtime, takes_bfloat16

from ..arrays import ClArray, ClArrays, DType, Shape, filled
from ..elementwise import Function, elementwise
from .complexes import real

kernels = KernelTable()
BFLOAT16: DType = plugrad.bfloat16
FLOAT32: DType = np.dtype("float32")
UINT16: DType = np.dtype("uint16")

# Truncate. Values out of range wrap, and NaN and infinities become 0, as on cpu.
_WHOLE = """
  VECTOR(W, long);
  const S limit = 9223372036854775808.0;
  const I near = fabs(x) < limit;
  Y y = TO(Y, TO(W, WHERE(near, x, (S)0)));
  if (!EVERY(near))
    for (int k = 0; k < WIDTH; k++) {
      if (LANE(near, k)) continue;
      S rest = isfinite(LANE(x, k)) ? fmod(LANE(x, k), 2 * limit) : 0;
      rest = rest >= limit ? rest - 2 * limit : rest < -limit ? rest + 2 * limit : rest;
      LANE(y, k) = (SY)(long)rest;
    }
  return y;
"""


@functools.cache
def converter(dtype: DType) -> Function:
    """Return the kernel that casts to a dtype, with a program for each input dtype."""
    name, convert = dtype.name, "TO(Y, x)"
    if dtype.kind == "b":
        is_nonzero = "x.x != 0 || x.y != 0"
        return elementwise("Cast", "x", out=name, fiu="TRUTH(x != (S)0)", c=is_nonzero)
    if dtype.kind == "c":
        return elementwise("Cast", "x", out=name, fiub="(float2)((float)x, 0)")
    floating = _WHOLE if dtype.kind in "iu" else convert
    return elementwise("Cast", "x", out=name, iub=convert, f=floating)


# A bfloat16 number is the upper half of a float32 number. OpenCL C has no such type, so
# the kernels get views as uint16.
_from_bfloat16 = elementwise(
    "Cast", "x", out="float32", u="VECTOR(W, uint); return AS(Y, TO(W, x) << 16);"
)
# Rounded to nearest, ties to even; NaN stays NaN.
_TO_BFLOAT16 = """
  VECTOR(W, uint);
  const W bits = AS(W, x);
  const W rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const W nan = ((bits >> 16) & 0x8000) | 0x7fc0;
  return TO(Y, (bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
"""
_to_bfloat16 = elementwise("Cast", "x", out="uint16", f=_TO_BFLOAT16)


@kernels("Cast")
@takes_bfloat16
def cast(x: ClArray, *, dtype: DType) -> Any:
    """Cast; the imaginary parts of complex numbers are dropped.

    bfloat16 is converted from and to float32.
    """
    if x.dtype == dtype:
        return x
    if x.dtype == BFLOAT16:
        return cast(_from_bfloat16(x.view(x.shape, UINT16)), dtype=dtype)
    if dtype == BFLOAT16:
        return _to_bfloat16(cast(x, dtype=FLOAT32)).view(x.shape, BFLOAT16)
    if dtype.hasobject:
        return NotImplemented
    if x.dtype.kind == "c" and dtype.kind != "b":
        x = real(x)
        return x if x.dtype == dtype else converter(dtype)(x)
    return converter(dtype)(x)


@kernels("Bitcast")
@takes_bfloat16
def bitcast(x: ClArray, *, dtype: DType) -> ClArray:
    """Return a view of the same bytes: every array begins where its buffer does."""
    old, new = x.dtype.itemsize, dtype.itemsize
    if old > new:
        return x.view((*x.shape, old // new), dtype)
    return x.view(x.shape[:-1] if old < new else x.shape, dtype)


@kernels("Identity")
@takes_bfloat16
def identity(x: ClArray) -> ClArray:
    """Share the memory: kernels never write into inputs."""
    return x


@kernels("Fill")
@takes_bfloat16
def fill(arrays: ClArrays, *, shape: Shape, value: Any, dtype: DType) -> Any:
    """Fill an array; strings stay on the host."""
    if dtype.hasobject:
        return NotImplemented
    return filled(arrays.device, tuple(shape), value, dtype)


@kernels("Range")
def range_(arrays: ClArrays, **attrs: Any) -> Any:
    """Compute the range on the host, which rounds correctly."""
    host = runtime("cpu")
    return arrays.upload(host.kernels["Range"](host.arrays, **attrs))


@kernels("ZerosLike")
@takes_bfloat16
def zeros_like(x: ClArray) -> ClArray:
    """Fill an array with zeros."""
    return filled(x.device, x.shape, 0, x.dtype)


@kernels("OnesLike")
@takes_bfloat16
def ones_like(x: ClArray) -> ClArray:
    """Fill an array with ones."""
    return filled(x.device, x.shape, 1, x.dtype)
