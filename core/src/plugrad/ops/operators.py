"""Python's operators on ``Tensor``: the one table from symbol to op."""

from __future__ import annotations

from plugrad._engine import to
from plugrad._tensor import Tensor

from .binary import add, divide, multiply, subtract
from .compare import equal, greater
from .unary import negative
from .variable import Variable

OPERATORS = {
    "__add__": add,
    "__radd__": lambda b, a: add(a, b),
    "__sub__": subtract,
    "__rsub__": lambda b, a: subtract(a, b),
    "__mul__": multiply,
    "__rmul__": lambda b, a: multiply(a, b),
    "__truediv__": divide,
    "__rtruediv__": lambda b, a: divide(a, b),
    "__neg__": negative,
    "__eq__": equal,
    "__gt__": greater,
    "to": to,
}

for name, op in OPERATORS.items():
    setattr(Tensor, name, op)
    if name != "to":
        setattr(Variable, name, op)
