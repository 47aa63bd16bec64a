"""Comparison, selection, logic and bits."""

from math import prod
from typing import Any

from plugrad.plugin import KernelTable

from ..arrays import WasmArray, empty
from ..launch import BOOL, Kernel, binary, broadcast_operands, cast, unary

kernels = KernelTable()
_equal, _less, _less_equal = (
    binary(name, to=BOOL) for name in ("equal", "less", "less_equal")
)
_not = unary("not", bits=True)
kernels["Equal"] = _equal
kernels["Less"] = _less
kernels["LessEqual"] = _less_equal
kernels["NotEqual"] = lambda a, b: _not(_equal(a, b))
kernels["Greater"] = lambda a, b: _less(b, a)
kernels["GreaterEqual"] = lambda a, b: _less_equal(b, a)


def logical(name: str) -> Kernel:
    """Return a logical kernel; other dtypes are cast to bool."""
    bits = binary(name)
    return lambda a, b: bits(cast(a, dtype=BOOL), cast(b, dtype=BOOL))


kernels["LogicalAnd"] = logical("and")
kernels["LogicalOr"] = logical("or")
kernels["LogicalXor"] = logical("xor")
kernels["LogicalNot"] = lambda x: _not(cast(x, dtype=BOOL))
kernels["BitwiseAnd"] = binary("and", bits=True)
kernels["BitwiseOr"] = binary("or", bits=True)
kernels["BitwiseXor"] = binary("xor", bits=True)
kernels["BitwiseNot"] = _not
kernels["LeftShift"] = binary("left")
kernels["RightShift"] = binary("right")

_SELECT = {size: f"select_{size}" for size in (1, 2, 4, 8, 16)}


@kernels("Select")
def select(condition: WasmArray, t: WasmArray, e: WasmArray) -> Any:
    """Select by the size of elements; all three inputs broadcast."""
    machine = t.machine
    shape, rows = machine.cached[broadcast_operands](condition.shape, t.shape, e.shape)
    y = empty(machine, shape, t.dtype)
    machine.callers[_SELECT[t.dtype.itemsize]](
        *(condition.pointer, t.pointer, e.pointer, y.pointer),
        *(prod(shape), rows.pointer),
    )
    return y
