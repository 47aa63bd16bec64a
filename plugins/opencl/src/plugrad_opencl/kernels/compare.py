"""Comparison, selection, logic and bits; inputs broadcast."""

from plugrad.plugin import KernelTable

from ..elementwise import elementwise


def _compare(name: str, sign: str, complexes: str = "") -> None:
    """Add a comparison; complex numbers support equality only."""
    more = {"c": complexes} if complexes else {}
    kernels[name] = elementwise(
        name, "a b", out="bool", fiub=f"TRUTH(a {sign} b)", **more
    )


def _logic(name: str, body: str) -> None:
    kernels[name] = elementwise(name, "a b", out="bool", b=body)


def _bits(name: str, body: str, **more: str) -> None:
    kernels[name] = elementwise(name, "a b", **({"iub": body} | more))


kernels = KernelTable()
_compare("Equal", "==", "a.x == b.x && a.y == b.y")
_compare("NotEqual", "!=", "a.x != b.x || a.y != b.y")
_compare("Greater", ">")
_compare("GreaterEqual", ">=")
_compare("Less", "<")
_compare("LessEqual", "<=")
_logic("LogicalAnd", "a & b")
_logic("LogicalOr", "a | b")
_logic("LogicalXor", "a ^ b")
kernels["LogicalNot"] = elementwise("LogicalNot", "x", b="x ^ (S)1")
_bits("BitwiseAnd", "a & b")
_bits("BitwiseOr", "a | b")
_bits("BitwiseXor", "a ^ b")
kernels["BitwiseNot"] = elementwise("BitwiseNot", "x", iu="~x", b="x ^ (S)1")
kernels["Select"] = elementwise(
    "Select",
    "condition t e",
    fiu="WHERE(TO(I, condition) != (I)0, t, e)",
    b="WHERE(condition != (X0)0, t, e)",
    c="condition ? t : e",
)
# A shift by the width of the type or more leaves only 0, or -1 for negative numbers.
_WIDE = "sizeof(S) * 8"
kernels["LeftShift"] = elementwise(
    "LeftShift", "a b", alone="iu", iu=f"b < 0 || b >= {_WIDE} ? (S)0 : (S)(a << b)"
)
kernels["RightShift"] = elementwise(
    "RightShift",
    "a b",
    alone="iu",
    iu=f"b < 0 || b >= {_WIDE} ? (a < 0 ? (S)-1 : (S)0) : (S)(a >> b)",
)
