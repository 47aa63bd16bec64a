"""Comparison, selection, logic and bits: NumPy ufuncs, which broadcast."""

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array
from ..native import by_float32, elementwise

kernels = KernelTable(
    BitwiseAnd=np.bitwise_and,
    BitwiseNot=np.invert,
    BitwiseOr=np.bitwise_or,
    BitwiseXor=np.bitwise_xor,
    Equal=by_float32("ff->?")(np.equal),
    Greater=by_float32("ff->?")(np.greater),
    GreaterEqual=by_float32("ff->?")(np.greater_equal),
    LeftShift=np.left_shift,
    Less=by_float32("ff->?")(np.less),
    LessEqual=by_float32("ff->?")(np.less_equal),
    LogicalAnd=np.logical_and,
    LogicalNot=np.logical_not,
    LogicalOr=np.logical_or,
    LogicalXor=np.logical_xor,
    NotEqual=by_float32("ff->?")(np.not_equal),
    RightShift=np.right_shift,
)


@kernels("Select")
def select(condition: Array, a: Array, b: Array) -> Array:
    """Select by bit operations.

    ``where`` branches, and is ten times slower if half of the branches are
    mispredicted.
    """
    if condition.size < 4096 or a.itemsize > 8 or a.dtype.hasobject:
        return np.where(condition, a, b)
    kind = np.dtype(f"i{a.itemsize}")
    mask = condition.astype(kind)
    other = b.view(kind)
    np.negative(mask, out=mask)
    return ((mask & (a.view(kind) ^ other)) ^ other).view(a.dtype)


# Each decorator wraps the kernel before it, so the last dtype is tried first.
for _name in ("uint8", "int8", "bool", "int64", "float64", "int32", "float32"):
    _size = np.dtype(_name).itemsize
    _t = np.dtype(_name).char
    _in_c = elementwise(f"select_{_size}", f"?{_t}{_t}->{_t}")
    kernels["Select"] = _in_c(kernels["Select"])
