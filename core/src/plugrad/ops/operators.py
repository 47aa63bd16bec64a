"""Python's operators on ``Tensor`` and ``Variable``: the one table from symbol to op.

Ops take the place of methods as they are, without a function in between. The operators
with the tensor on the right (``__rsub__``) get their arguments in reverse.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from plugrad._engine import to
from plugrad._tensor import Tensor

from . import binary, compare, indexing, linalg, unary
from .variable import Variable


def _known(value: object) -> bool:
    """Tell whether a value can be compared; ``tensor == None`` is False, no error."""
    kinds = (Tensor, Variable, int, float, complex, np.generic, list, tuple)
    return isinstance(value, kinds) or hasattr(value, "__array__")


def _equal(a: Any, b: Any) -> Any:
    return compare.equal(a, b) if _known(b) else NotImplemented


def _not_equal(a: Any, b: Any) -> Any:
    return compare.not_equal(a, b) if _known(b) else NotImplemented


OPERATORS = {
    "__add__": binary.add,
    "__radd__": lambda b, a: binary.add(a, b),
    "__sub__": binary.subtract,
    "__rsub__": lambda b, a: binary.subtract(a, b),
    "__mul__": binary.multiply,
    "__rmul__": lambda b, a: binary.multiply(a, b),
    "__truediv__": binary.divide,
    "__rtruediv__": lambda b, a: binary.divide(a, b),
    "__floordiv__": binary.floor_divide,
    "__rfloordiv__": lambda b, a: binary.floor_divide(a, b),
    "__mod__": binary.remainder,
    "__rmod__": lambda b, a: binary.remainder(a, b),
    "__pow__": binary.pow,
    "__rpow__": lambda b, a: binary.pow(a, b),
    "__matmul__": linalg.matmul,
    "__rmatmul__": lambda b, a: linalg.matmul(a, b),
    "__and__": compare.bitwise_and,
    "__rand__": lambda b, a: compare.bitwise_and(a, b),
    "__or__": compare.bitwise_or,
    "__ror__": lambda b, a: compare.bitwise_or(a, b),
    "__xor__": compare.bitwise_xor,
    "__rxor__": lambda b, a: compare.bitwise_xor(a, b),
    "__lshift__": compare.bitwise_left_shift,
    "__rlshift__": lambda b, a: compare.bitwise_left_shift(a, b),
    "__rshift__": compare.bitwise_right_shift,
    "__rrshift__": lambda b, a: compare.bitwise_right_shift(a, b),
    "__eq__": _equal,
    "__ne__": _not_equal,
    "__lt__": compare.less,
    "__le__": compare.less_equal,
    "__gt__": compare.greater,
    "__ge__": compare.greater_equal,
    "__neg__": unary.negative,
    "__abs__": unary.abs,
    "__invert__": compare.bitwise_invert,
    "__getitem__": indexing.getitem,
    "__iter__": indexing.iterate,
    "__contains__": indexing.contains,
    "to": to,
}

for name, op in OPERATORS.items():
    setattr(Tensor, name, op)
    if name != "to":
        setattr(Variable, name, op)
