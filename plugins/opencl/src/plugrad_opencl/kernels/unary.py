"""Element-wise kernels of one input."""

from plugrad.plugin import KernelTable

from ..elementwise import elementwise

# x - x is NaN if x is infinite or NaN.
_FINITE = "TRUTH(x - x == (S)0)"


def _unary(name: str, **more: str) -> None:
    kernels[name] = elementwise(name, "x", **more)


kernels = KernelTable()
_unary("Neg", fc="-x", iu="(T)(-MODULAR(x))")
_unary("Abs", f="fabs(x)", i="WHERE(x < (S)0, (T)(-MODULAR(x)), x)", u="x", b="x")
_unary("Sign", f="WHERE(x > (S)0, (S)1, WHERE(x < (S)0, (S)-1, x == x ? (T)0 : x))")
_unary("Floor", f="floor(x)")
_unary("Ceil", f="ceil(x)")
_unary("Round", f="rint(x)", c="rint(x)")
_unary("Trunc", f="trunc(x)")
_unary("IsFinite", out="bool", f=_FINITE)
_unary("IsInf", out="bool", f="TRUTH(fabs(x) == (S)INFINITY)")
_unary("IsNan", out="bool", f="TRUTH(x != x)")
_unary("SignBit", out="bool", f="TRUTH(signbit(x))")
_unary("Square", f="x * x", iu="(T)(MODULAR(x) * MODULAR(x))", c="c_mul(x, x)")
_unary("Sqrt", f="sqrt(x)", c="c_sqrt(x)")
_unary("Rsqrt", f="(S)1 / sqrt(x)")
_unary("Reciprocal", f="(S)1 / x", c="c_reciprocal(x)")
_unary("Exp", f="f_exp(x)", c="c_exp(x)")
_unary("Exp2", f="f_exp2(x)")
_unary("Expm1", f="f_expm1(x)", c="c_expm1(x)")
_unary("Log", f="f_log(x)", c="c_log(x)")
_unary("Log1p", f="f_log1p(x)", c="c_log1p(x)")
_unary("Erf", f="f_erf(x)")
_unary("Erfc", f="f_erfc(x)")
_SLOPE = """
  const T a = WHERE(fabs(x) > (S)ERFC_END, (S)ERFC_END, fabs(x));
  return dy * f_times_gaussian((T)((S)1.1283791670955126), (T)((S)0), a, (S)1);
"""
kernels["plugrad_opencl.ErfGrad"] = elementwise("ErfGrad", "dy x", f=_SLOPE)
