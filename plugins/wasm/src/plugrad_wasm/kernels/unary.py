"""Unary functions."""

from plugrad.plugin import KernelTable

from ..arrays import WasmArray
from ..launch import BOOL, Kernel, binary, unary
from .complexes import parts

kernels = KernelTable(
    Erf=unary("erf"),
    Erfc=unary("erfc"),
    Exp=unary("exp"),
    Exp2=unary("exp2"),
    Expm1=unary("expm1"),
    Log=unary("log"),
    Log1p=unary("log1p"),
    Neg=unary("neg", bits=True),
    Reciprocal=unary("reciprocal"),
    Rsqrt=unary("rsqrt"),
    Sqrt=unary("sqrt"),
    Square=unary("square", bits=True),
)
kernels["plugrad_wasm.ErfGrad"] = binary("erf_grad")


def rounding(name: str) -> Kernel:
    """Return a kernel that rounds to integers; integer dtypes are unchanged."""
    floating = unary(name)

    def kernel(x: WasmArray) -> WasmArray:
        if x.dtype.kind != "c":
            return floating(x) if x.dtype.kind == "f" else x
        y: WasmArray = floating(parts(x))
        return y.viewed_as(x.dtype, x.shape)

    return kernel


kernels["Floor"] = rounding("floor")
kernels["Ceil"] = rounding("ceil")
kernels["Round"] = rounding("round")
kernels["Trunc"] = rounding("trunc")


def float_test(name: str) -> Kernel:
    """Return a kernel that tests floating-point numbers; others are decomposed."""
    floating = unary(name, to=BOOL)
    return lambda x: floating(x) if x.dtype.kind == "f" else NotImplemented


kernels["IsNan"] = float_test("isnan")
kernels["IsInf"] = float_test("isinf")
kernels["IsFinite"] = float_test("isfinite")
kernels["SignBit"] = unary("signbit", to=BOOL)

_abs = unary("abs")
_sign = unary("sign")


@kernels("Abs")
def abs_(x: WasmArray) -> WasmArray:
    """Return the absolute value; unsigned numbers are returned unchanged."""
    return x if x.dtype.kind in "ub" else _abs(x)


@kernels("Sign")
def sign(x: WasmArray) -> WasmArray:
    """Return the sign; unsigned numbers are decomposed."""
    return NotImplemented if x.dtype.kind == "u" else _sign(x)
