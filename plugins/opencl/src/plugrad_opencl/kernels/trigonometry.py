"""Angles and hyperbolic functions."""

from plugrad.plugin import KernelTable

from ..elementwise import elementwise

kernels = KernelTable(
    Sin=elementwise("Sin", "x", f="f_sin(x)", c="c_sin(x)"),
    Cos=elementwise("Cos", "x", f="f_cos(x)", c="c_cos(x)"),
    Tan=elementwise("Tan", "x", f="f_tan(x)"),
    Asin=elementwise("Asin", "x", f="asin(x)"),
    Acos=elementwise("Acos", "x", f="acos(x)"),
    Atan=elementwise("Atan", "x", f="atan(x)"),
    Sinh=elementwise("Sinh", "x", f="sinh(x)", c="c_sinh(x)"),
    Cosh=elementwise("Cosh", "x", f="cosh(x)", c="c_cosh(x)"),
    Tanh=elementwise("Tanh", "x", f="f_tanh(x)", c="c_tanh(x)"),
    Asinh=elementwise("Asinh", "x", f="asinh(x)"),
    Acosh=elementwise("Acosh", "x", f="acosh(x)"),
    Atanh=elementwise("Atanh", "x", f="atanh(x)"),
)
kernels["TanhGrad"] = kernels["plugrad_opencl.TanhGrad"] = elementwise(
    "TanhGrad", "dy x", f="dy * ((S)4 * f_sigmoid_slope((S)2 * x))"
)
