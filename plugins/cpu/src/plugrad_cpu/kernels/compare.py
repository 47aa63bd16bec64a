"""Comparison, choice, logic and bits: a ufunc each; NumPy broadcasts."""

import numpy as np
from plugrad.plugin import KernelTable

kernels = KernelTable(
    BitwiseAnd=np.bitwise_and,
    BitwiseNot=np.invert,
    BitwiseOr=np.bitwise_or,
    BitwiseXor=np.bitwise_xor,
    Equal=np.equal,
    Greater=np.greater,
    GreaterEqual=np.greater_equal,
    LeftShift=np.left_shift,
    Less=np.less,
    LessEqual=np.less_equal,
    LogicalAnd=np.logical_and,
    LogicalNot=np.logical_not,
    LogicalOr=np.logical_or,
    LogicalXor=np.logical_xor,
    NotEqual=np.not_equal,
    RightShift=np.right_shift,
    Select=np.where,
)
