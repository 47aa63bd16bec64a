"""Complex numbers, which are pairs of float32."""

from plugrad.plugin import KernelTable

from ..elementwise import elementwise

# In double precision no square overflows or underflows.
_SIZE = """
#ifdef cl_khr_fp64
  if (isinf(x.x) || isinf(x.y)) return INFINITY;
  return (float)sqrt((double)x.x * x.x + (double)x.y * x.y);
#else
  return hypot(x.x, x.y);
#endif
"""
real = elementwise("Real", "input", out="float32", c="input.x")

kernels = KernelTable(
    Complex=elementwise(
        "Complex", "real imag", out="complex64", f="(float2)(real, imag)"
    ),
    Real=real,
    Imag=elementwise("Imag", "input", out="float32", c="input.y"),
    ComplexAbs=elementwise("ComplexAbs", "x", out="float32", c=_SIZE),
)
