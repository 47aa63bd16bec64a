"""Element-wise kernels of two inputs; they broadcast."""

from plugrad.plugin import KernelTable

from ..elementwise import elementwise

# As in Python, the remainder has the sign of the divisor. Results of x / 0 are 0.
_MOD_INTEGER = """
  if (b == 0 || b == (S)-1) return 0;
  S r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
"""
_FLOOR_DIV_INTEGER = """
  if (b == 0) return 0;
  if (b == (S)-1) return -a;
  S q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
"""
_POW_INTEGER = """
  if (b < 0) return a == 1 ? 1 : a == (S)-1 ? (b & 1 ? (S)-1 : 1) : 0;
  S y = 1, base = a;
  for (S n = b; n; n >>= 1, base *= base) if (n & 1) y *= base;
  return y;
"""


def _pair(name: str, *, alone: str = "", **bodies: str) -> None:
    kernels[name] = elementwise(name, "a b", alone=alone, **bodies)


kernels = KernelTable()
_pair("Add", fc="a + b", iu="(T)(MODULAR(a) + MODULAR(b))", b="a | b")
_pair("Sub", fc="a - b", iu="(T)(MODULAR(a) - MODULAR(b))")
_pair(
    "Multiply",
    f="a * b",
    iu="(T)(MODULAR(a) * MODULAR(b))",
    b="a & b",
    c="c_mul(a, b)",
)
_pair("RealDiv", f="a / b", c="c_div(a, b)")
_pair(
    "SquaredDifference",
    f="(a - b) * (a - b)",
    iu="(T)((MODULAR(a) - MODULAR(b)) * (MODULAR(a) - MODULAR(b)))",
)
_pair("Maximum", f="f_max(a, b)", iu="WHERE(a > b, a, b)", b="a | b")
_pair("Minimum", f="f_min(a, b)", iu="WHERE(a < b, a, b)", b="a & b")
_pair("Atan2", f="atan2(a, b)")
_pair("CopySign", f="f_sign_of(fabs(a), b)")
_pair("Hypot", f="f_hypot(a, b)")
_pair(
    "Mod", alone="iu", f="f_mod(a, b)", i=_MOD_INTEGER, u="return b == 0 ? 0 : a % b;"
)
_pair(
    "FloorDiv",
    alone="iu",
    f="f_floor_div(a, b)",
    i=_FLOOR_DIV_INTEGER,
    u="return b == 0 ? 0 : a / b;",
)
_pair("Pow", alone="iu", f="f_pow(a, b)", iu=_POW_INTEGER, c="c_pow(a, b)")
