"""Complex numbers: NumPy supports them; real and imaginary parts are views."""

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array

kernels = KernelTable(ComplexAbs=np.absolute)


@kernels("Complex")
def complex_(real: Array, imag: Array) -> Array:
    """Write both parts; ``real + 1j * imag`` would turn infinities into NaN."""
    y = np.empty(real.shape, np.result_type(real, np.complex64))
    y.real = real
    y.imag = imag
    return y


@kernels("Real")
def real(input: Array) -> Array:
    """Return a copy: computing with a view of every other number is slow."""
    return np.ascontiguousarray(input.real).reshape(input.shape)


@kernels("Imag")
def imag(input: Array) -> Array:
    """Return a copy: computing with a view of every other number is slow."""
    return np.ascontiguousarray(input.imag).reshape(input.shape)
