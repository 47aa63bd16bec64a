"""Angles and hyperbolic functions: a ufunc each."""

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
    """NumPy before 2.3 has NaN for both parts where the real one is 0, and Im x NaN."""
    y: Array = np.arccosh(x, out=np.empty_like(x))
    if x.dtype.kind == "c":
        np.copyto(y.imag, np.pi / 2, where=(x.real == 0) & np.isnan(x.imag))
    return y


@kernels("Tan")
@by_float32()
def tan(x: Array) -> Array:
    """NumPy's own of float32 is off by up to 4 ulp, this by 3."""
    if x.dtype == np.float32:
        return np.sin(x) / np.cos(x)
    y: Array = np.tan(x, out=np.empty_like(x))
    if x.dtype.kind == "c":
        np.copyto(y.real, np.copysign(0, x.real), where=np.isinf(x.imag))
    return y


@kernels("Tanh")
@elementwise("tanh_f32")
def tanh(x: Array) -> Array:
    """Of infinities, NumPy's own has the zero of sin(2b), the standard that of b."""
    y: Array = np.tanh(x, out=np.empty_like(x))
    if x.dtype.kind == "c":
        np.copyto(y.imag, np.copysign(0, x.imag), where=np.isinf(x.real))
    return y
