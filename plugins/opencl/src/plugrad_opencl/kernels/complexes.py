"""Complex numbers, which are pairs of float32."""

from plugrad.plugin import KernelTable

from ..elementwise import elementwise

real = elementwise("Real", "input", out="float32", c="input.x")

kernels = KernelTable(
    Complex=elementwise(
        "Complex", "real imag", out="complex64", f="(float2)(real, imag)"
    ),
    Real=real,
    Imag=elementwise("Imag", "input", out="float32", c="input.y"),
    ComplexAbs=elementwise("ComplexAbs", "x", out="float32", c="hypot(x.x, x.y)"),
)
