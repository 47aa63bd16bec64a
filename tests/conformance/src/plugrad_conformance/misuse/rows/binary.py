"""Valid calls of element-wise kernels of two arguments."""

from .. import bools, call, complexes, floats, ints

CALLS = {
    **{
        name: call(floats(2, 1, 3), floats(4, 1))
        for name in (
            *("Atan2", "CopySign", "FloorDiv", "Hypot", "Maximum", "Mod"),
            *("SquaredDifference", "Sub"),
        )
    },
    "Add": call(bools(2, 3), bools(3)),
    "AddN": call(floats(2, 3), floats(2, 3), floats(2, 3)),
    "Minimum": call(ints(2, 3, below=5), ints(3, below=5)),
    "Multiply": call(complexes(2, 3), complexes(3)),
    "Pow": call(ints(2, 3, below=5), ints(3, below=5)),
    "RealDiv": call(floats(2, 3), floats(3)),
}
