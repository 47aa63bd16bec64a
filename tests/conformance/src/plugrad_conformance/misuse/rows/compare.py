"""Valid calls of comparison, selection, logic and bitwise kernels."""

from .. import bools, call, complexes, floats, ints, strings

CALLS = {
    **{
        name: call(floats(2, 1, 3), floats(4, 1))
        for name in ("Greater", "GreaterEqual", "Less")
    },
    **{
        name: call(bools(2, 1, 3), bools(4, 1))
        for name in ("LogicalAnd", "LogicalOr", "LogicalXor")
    },
    **{
        name: call(ints(2, 1, 3, below=7), ints(4, 1, below=5))
        for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift")
    },
    "BitwiseNot": call(ints(2, 3, below=7)),
    "Equal": call(complexes(2, 3), complexes(3)),
    "LessEqual": call(strings("a", "b"), strings("b")),
    "LogicalNot": call(bools(2, 3)),
    "NotEqual": call(ints(2, 3), ints(3)),
    "Select": call(bools(2, 1, 3), floats(4, 1), floats(3)),
}
