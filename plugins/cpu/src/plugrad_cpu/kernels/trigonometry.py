"""Trigonometric and hyperbolic functions: NumPy ufuncs, some in C."""

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array
from ..native import by_float32, elementwise

kernels = KernelTable(
    Acos=by_float32()(np.arccos),
    Asin=by_float32()(np.arcsin),
    Asinh=by_float32()(np.arcsinh),
    Atan=by_float32()(np.arctan),
    Atanh=by_float32()(np.arctanh),
    Cos=elementwise("cos_f32")(np.cos),
    Cosh=by_float32()(np.cosh),
    Sin=elementwise("sin_f32")(np.sin),
    Sinh=by_float32()(np.sinh),
)


@kernels("Acosh")
@by_float32()
def acosh(x: Array) -> Array:
    """Correct NumPy before 2.3: for 0 + NaN j, the imaginary part must be π/2."""
    y: Array = np.arccosh(x, out=np.empty_like(x))
    if x.dtype.kind == "c":
        np.copyto(y.imag, np.pi / 2, where=(x.real == 0) & np.isnan(x.imag))
    return y


@kernels("Tan")
@by_float32()
def tan(x: Array) -> Array:
    """Compute float32 within 3 ulp; np.tan is off by up to 4 ulp."""
    if x.dtype == np.float32:
        return np.sin(x) / np.cos(x)
    y: Array = np.tan(x, out=np.empty_like(x))
    if x.dtype.kind == "c":
        np.copyto(y.real, np.copysign(0, x.real), where=np.isinf(x.imag))
    return y


@kernels("Tanh")
@elementwise("tanh_f32")
def tanh(x: Array) -> Array:
    """At infinities, take the zero's sign from Im x, as the array API standard does."""
    y: Array = np.tanh(x, out=np.empty_like(x))
    if x.dtype.kind == "c":
        np.copyto(y.imag, np.copysign(0, x.imag), where=np.isinf(x.real))
    return y
