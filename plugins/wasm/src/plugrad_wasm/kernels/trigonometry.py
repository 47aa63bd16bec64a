"""Trigonometric and hyperbolic functions."""

from plugrad.plugin import KernelTable

from ..launch import binary, unary

kernels = KernelTable(
    Acos=unary("acos"),
    Acosh=unary("acosh"),
    Asin=unary("asin"),
    Asinh=unary("asinh"),
    Atan=unary("atan"),
    Atanh=unary("atanh"),
    Cos=unary("cos"),
    Cosh=unary("cosh"),
    Sin=unary("sin"),
    Sinh=unary("sinh"),
    Tan=unary("tan"),
    Tanh=unary("tanh"),
)
kernels["TanhGrad"] = kernels["plugrad_wasm.TanhGrad"] = binary("tanh_grad")
