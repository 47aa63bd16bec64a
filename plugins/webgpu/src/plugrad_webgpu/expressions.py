"""The element-wise kernels as WGSL expressions for one element.

``$a``, ``$b`` and ``$c`` are the inputs, ``@0`` and ``@1`` the attributes. Functions
whose names end in ``_`` are in ``math.wgsl``. float16 is computed as float32, and then
rounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .arrays import KINDS
from .source import Number, bits

# By kernel and kind; the result has the kind of the first input.
ARITHMETIC: dict[str, dict[str, str]] = {
    "Add": {"f": "$a + $b", "i": "$a + $b", "u": "$a + $b", "b": "$a || $b"},
    "Sub": {"f": "$a - $b", "i": "$a - $b", "u": "$a - $b"},
    "Multiply": {"f": "$a * $b", "i": "$a * $b", "u": "$a * $b", "b": "$a && $b"},
    "RealDiv": {"f": "$a / $b"},
    "FloorDiv": {"f": "fdiv_($a, $b)", "i": "ifdiv_($a, $b)", "u": "ufdiv_($a, $b)"},
    "Mod": {"f": "mod_($a, $b)", "i": "imod_($a, $b)", "u": "umod_($a, $b)"},
    "Pow": {"f": "pow_($a, $b)", "i": "ipow_($a, $b)", "u": "upow_($a, $b)"},
    "Maximum": {
        "f": "fmax_($a, $b)",
        "i": "max($a, $b)",
        "u": "max($a, $b)",
        "b": "$a || $b",
    },
    "Minimum": {
        "f": "fmin_($a, $b)",
        "i": "min($a, $b)",
        "u": "min($a, $b)",
        "b": "$a && $b",
    },
    "Atan2": {"f": "atan2_($a, $b)"},
    "BitwiseAnd": {"i": "$a & $b", "u": "$a & $b", "b": "$a && $b"},
    "BitwiseOr": {"i": "$a | $b", "u": "$a | $b", "b": "$a || $b"},
    "BitwiseXor": {"i": "$a ^ $b", "u": "$a ^ $b", "b": "$a != $b"},
    "BitwiseNot": {"i": "~$a", "u": "~$a", "b": "!$a"},
    "LogicalAnd": {"b": "$a && $b"},
    "LogicalOr": {"b": "$a || $b"},
    "LogicalXor": {"b": "$a != $b"},
    "LogicalNot": {"b": "!$a"},
    "LeftShift": {
        "i": "select($a << (u32($b) & 31u), 0, $b < 0 || $b > 31)",
        "u": "select($a << ($b & 31u), 0u, $b > 31u)",
    },
    "RightShift": {
        "i": "select($a >> (u32($b) & 31u), $a >> 31u, $b < 0 || $b > 31)",
        "u": "select($a >> ($b & 31u), 0u, $b > 31u)",
    },
    "Tan": {"f": "tan_($a)"},
    "Cos": {"f": "sincos_($a, 1u)"},
    "Sin": {"f": "sincos_($a, 0u)"},
    "Exp": {"f": "exp_($a)"},
    "Expm1": {"f": "expm1_($a)"},
    "Log": {"f": "log_($a)"},
    "Log1p": {"f": "log1p_($a)"},
    "Tanh": {"f": "tanh_($a)"},
    "Sqrt": {"f": "sqrt_($a)"},
    "Floor": {"f": "floor_($a)"},
    "Ceil": {"f": "fneg_(floor_(fneg_($a)))"},
    "Round": {"f": "round_($a)"},
    "Neg": {"f": "fneg_($a)", "i": "-$a", "u": "0u - $a"},
    "Abs": {"f": "fabs_($a)", "i": "select($a, -$a, $a < 0)", "u": "$a"},
    "Square": {"f": "$a * $a", "i": "$a * $a", "u": "$a * $a"},
    "SquaredDifference": {
        "f": "($a - $b) * ($a - $b)",
        "i": "($a - $b) * ($a - $b)",
        "u": "($a - $b) * ($a - $b)",
    },
    "Reciprocal": {"f": "1.0 / $a"},
    "Sigmoid": {"f": "sigmoid_($a)"},
    "Softplus": {"f": "softplus_($a)"},
    "Relu": {
        "f": "select(select(0.0, $a, $a > 0.0), $a, isnan_($a))",
        "i": "max($a, 0)",
        "u": "$a",
    },
    "Relu6": {
        "f": "select(select(0.0, min($a, 6.0), $a > 0.0), $a, isnan_($a))",
        "i": "clamp($a, 0, 6)",
        "u": "min($a, 6u)",
    },
    "Elu": {"f": "select($a, expm1_($a), $a < 0.0)"},
    "EluGrad": {"f": "select($a, $a * ($b + 1.0), $b < 0.0 || isnan_($b))"},
    "LeakyRelu": {"f": "select($a, @0 * $a, $a < 0.0)"},
    "Prelu": {"f": "select($a, $b * $a, $a < 0.0)"},
    "Step": {"f": "select(select(@0, 1.0, $a > 0.0), $a, isnan_($a))"},
    "Sign": {
        "f": (
            "select(select(select($a, -1.0, $a < 0.0), 1.0, $a > 0.0), $a, isnan_($a))"
        ),
        "i": "sign($a)",
        "u": "min($a, 1u)",
    },
    "ClipByValue": {
        "f": (
            "select(select(select(select($a, @1, $a > @1), @0, $a < @0), nan_(), "
            "isnan_(@0) || isnan_(@1)), $a, isnan_($a))"
        ),
        "i": "min(max($a, @0), @1)",
        "u": "min(max($a, @0), @1)",
    },
    "Identity": {"f": "$a", "i": "$a", "u": "$a", "b": "$a"},
}

# The result is bool.
CONDITIONS: dict[str, dict[str, str]] = {
    "Equal": {"f": "eq_($a, $b)", "i": "$a == $b", "u": "$a == $b", "b": "$a == $b"},
    "NotEqual": {
        "f": "!eq_($a, $b)",
        "i": "$a != $b",
        "u": "$a != $b",
        "b": "$a != $b",
    },
    "Less": {"f": "lt_($a, $b)", "i": "$a < $b", "u": "$a < $b", "b": "!$a && $b"},
    "LessEqual": {
        "f": "le_($a, $b)",
        "i": "$a <= $b",
        "u": "$a <= $b",
        "b": "!$a || $b",
    },
    "Greater": {"f": "lt_($b, $a)", "i": "$a > $b", "u": "$a > $b", "b": "$a && !$b"},
    "GreaterEqual": {
        "f": "le_($b, $a)",
        "i": "$a >= $b",
        "u": "$a >= $b",
        "b": "$a || !$b",
    },
    "IsNan": {"f": "isnan_($a)", "i": "false", "u": "false", "b": "false"},
    "IsInf": {"f": "isinf_($a)", "i": "false", "u": "false", "b": "false"},
    "IsFinite": {"f": "isfin_($a)", "i": "true", "u": "true", "b": "true"},
    "SignBit": {"f": "neg_($a)"},
}
CASTS = {  # by the kinds before and after
    "ff": "$a",
    "fi": "bitcast<i32>(f2u_($a))",
    "fu": "f2u_($a)",
    "fb": "!iszero_($a)",
    "if": "i2f_($a)",
    "ii": "$a",
    "iu": "bitcast<u32>($a)",
    "ib": "$a != 0",
    "uf": "u2f_($a)",
    "ui": "bitcast<i32>($a)",
    "uu": "$a",
    "ub": "$a != 0u",
    "bf": "select(0.0, 1.0, $a)",
    "bi": "select(0, 1, $a)",
    "bu": "select(0u, 1u, $a)",
    "bb": "$a",
}
ATTRIBUTES = {
    "ClipByValue": ("min", "max"),
    "LeakyRelu": ("alpha",),
    "Step": ("alpha",),
}
NAMES = {*ARITHMETIC, *CONDITIONS, "Cast", "Select"}

# Float results that a region hides from the optimizer. It would contract a product and
# a sum, and replace x - x by 0 even if x is NaN, and (x + 1) - x by 1 even if x is 1e8.
HIDDEN = {
    "Add",
    "EluGrad",
    "LeakyRelu",
    "Multiply",
    "Neg",
    "Prelu",
    "RealDiv",
    "Reciprocal",
    "Square",
    "SquaredDifference",
    "Sub",
}
# Kernels that an optimizer would replace if it knew that both inputs are the same.
CANCEL = {
    *("Equal", "Greater", "GreaterEqual", "Less", "LessEqual", "NotEqual"),
    *("Atan2", "FloorDiv", "Maximum", "Minimum", "Mod", "RealDiv"),
    *("SquaredDifference", "Sub"),
}


class Expression(NamedTuple):
    """An element-wise kernel for inputs of given kinds.

    Attributes:
        text: The expression.
        kind: The kind of the result.
        numbers: The attributes, as parameters.

    """

    text: str
    kind: str
    numbers: tuple[Number, ...]


def find(name: str, kinds: str, attrs: Mapping[str, Any]) -> Expression | None:
    """Return the expression of a kernel for the kinds of its inputs, if it has one."""
    if name == "Cast":
        kind = KINDS.get(attrs["dtype"])
        pair = (kinds + kind).replace("h", "f") if kind else ""
        return Expression(CASTS[pair], kind, ()) if kind else None
    if name == "Select":
        return Expression("select($c, $b, $a)", kinds[1], ())
    kind = kinds[0]
    letter = "f" if kind == "h" else kind
    text = ARITHMETIC.get(name, {}).get(letter)
    if text is None:
        text, kind = CONDITIONS.get(name, {}).get(letter), "b"
    if text is None:
        return None
    given = ATTRIBUTES.get(name, ())
    return Expression(text, kind, tuple([bits(attrs[a], kinds[0]) for a in given]))


def filled(expression: Expression, args: list[str], numbers: list[str]) -> str:
    """Return the text with its inputs and attributes, rounded to the result's dtype."""
    text = expression.text
    for letter, arg in zip("abc", args, strict=False):
        text = text.replace(f"${letter}", arg)
    for i, number in enumerate(numbers):
        text = text.replace(f"@{i}", number)
    return f"half_({text})" if expression.kind == "h" else text
