"""Complex numbers: pairs of floating-point numbers."""

from typing import Any

import numpy as np
from plugrad.geometry import contiguous_strides
from plugrad.plugin import KernelTable

from ..arrays import DType, WasmArray, empty
from ..launch import put, take, unary

HALF: dict[DType, DType] = {np.dtype("complex64"): np.dtype("float32")}
HALF[np.dtype("complex128")] = np.dtype("float64")
WHOLE = {part: pair for pair, part in HALF.items()}


def parts(z: WasmArray) -> WasmArray:
    """Return a view as floating-point numbers: real and imaginary parts alternate."""
    return z.viewed_as(HALF[z.dtype], (*z.shape, 2))


def _every_other(shape: tuple[int, ...]) -> list[int]:
    return [2 * step for step in contiguous_strides(shape)]


kernels = KernelTable()
_MODULUS = {dtype: unary("abs", to=part) for dtype, part in HALF.items()}


@kernels("ComplexAbs")
def complex_abs(x: WasmArray) -> WasmArray:
    """Compute the modulus without intermediate overflow."""
    return _MODULUS[x.dtype](x)


@kernels("Complex")
def complex_(real: WasmArray, imag: WasmArray) -> Any:
    """Write both parts."""
    if real.dtype not in WHOLE:
        return NotImplemented
    z = empty(real.machine, real.shape, WHOLE[real.dtype])
    pairs = parts(z)
    strides = _every_other(z.shape)
    put(real, pairs, strides)
    put(imag, pairs, strides, 1)
    return z


@kernels("Real")
def real(input: WasmArray) -> WasmArray:
    """Copy the real parts."""
    return take(parts(input), input.shape, _every_other(input.shape))


@kernels("Imag")
def imag(input: WasmArray) -> WasmArray:
    """Copy the imaginary parts."""
    return take(parts(input), input.shape, _every_other(input.shape), 1)
