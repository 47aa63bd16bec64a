"""Operators and methods of ``Tensor`` and ``Variable``: the one table to ops.

Ops take the place of methods as they are, without a function in between. The operators
with the tensor on the right (``__rsub__``) get their arguments in reverse.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from plugrad._dtypes import STRING
from plugrad._engine import to
from plugrad._tensor import Tensor

from . import (
    activation,
    binary,
    blocks,
    compare,
    conv,
    creation,
    cumulative,
    depthwise,
    gather,
    indexing,
    linalg,
    norm,
    pool,
    reduce,
    search,
    shape,
    slicing,
    sorting,
    trigonometry,
    unary,
)
from .variable import Variable

COMPARABLE = (Tensor, Variable, int, float, complex, np.generic, list, tuple)


def _known(a: Any, b: object) -> bool:
    """Tell whether ``b`` can be compared; ``tensor == None`` is False, no error."""
    if isinstance(b, COMPARABLE) or hasattr(b, "__array__"):
        return True
    return isinstance(b, str | bytes) and a.dtype is STRING


def _equal(a: Any, b: Any) -> Any:
    return compare.equal(a, b) if _known(a, b) else NotImplemented


def _not_equal(a: Any, b: Any) -> Any:
    return compare.not_equal(a, b) if _known(a, b) else NotImplemented


def _transposed(x: Tensor) -> Tensor:
    if len(x.shape) != 2:
        raise ValueError(
            f"T: is for matrices, got shape {x.shape}; use mT or permute_dims"
        )
    return linalg.matrix_transpose(x)


def _no_assignment(x: Any, key: Any, value: Any) -> None:
    raise TypeError(
        f"a tensor does not change: shape {x.shape} at [{key!r}]; make another one, "
        "with where or tensor_scatter_update, or keep a Variable and assign to it"
    )


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
    "__setitem__": _no_assignment,
    "__iter__": indexing.iterate,
    "__contains__": indexing.contains,
    "to": to,
    "T": property(_transposed),
    "mT": property(linalg.matrix_transpose),
}

METHODS = {
    "abs": unary.abs,
    "acos": trigonometry.acos,
    "acosh": trigonometry.acosh,
    "add": binary.add,
    "all": reduce.all,
    "any": reduce.any,
    "argmax": reduce.argmax,
    "argmin": reduce.argmin,
    "asin": trigonometry.asin,
    "asinh": trigonometry.asinh,
    "astype": creation.astype,
    "atan": trigonometry.atan,
    "atan2": binary.atan2,
    "atanh": trigonometry.atanh,
    "avg_pool": pool.avg_pool,
    "batch_norm": norm.batch_norm,
    "batch_to_space_nd": blocks.batch_to_space_nd,
    "broadcast_to": shape.broadcast_to,
    "ceil": unary.ceil,
    "clip": activation.clip,
    "conv1d": conv.conv1d,
    "conv2d": conv.conv2d,
    "conv2d_transpose": conv.conv2d_transpose,
    "cos": trigonometry.cos,
    "cosh": trigonometry.cosh,
    "cumulative_prod": cumulative.cumulative_prod,
    "cumulative_sum": cumulative.cumulative_sum,
    "depth_to_space": blocks.depth_to_space,
    "depthwise_conv2d": depthwise.depthwise_conv2d,
    "divide": binary.divide,
    "divide_no_nan": binary.divide_no_nan,
    "elu": activation.elu,
    "equal": compare.equal,
    "erf": unary.erf,
    "exp": unary.exp,
    "expand_dims": shape.expand_dims,
    "expm1": unary.expm1,
    "flip": shape.flip,
    "floor": unary.floor,
    "floor_divide": binary.floor_divide,
    "gather": gather.gather,
    "greater": compare.greater,
    "greater_equal": compare.greater_equal,
    "isfinite": unary.isfinite,
    "isinf": unary.isinf,
    "isnan": unary.isnan,
    "leaky_relu": activation.leaky_relu,
    "less": compare.less,
    "less_equal": compare.less_equal,
    "local_response_normalization": norm.local_response_normalization,
    "log": unary.log,
    "log1p": unary.log1p,
    "log_sigmoid": activation.log_sigmoid,
    "log_softmax": norm.log_softmax,
    "logical_and": compare.logical_and,
    "logical_not": compare.logical_not,
    "logical_or": compare.logical_or,
    "logical_xor": compare.logical_xor,
    "logsumexp": reduce.logsumexp,
    "matmul": linalg.matmul,
    "max": reduce.max,
    "max_pool": pool.max_pool,
    "maximum": binary.maximum,
    "mean": reduce.mean,
    "min": reduce.min,
    "minimum": binary.minimum,
    "multiply": binary.multiply,
    "negative": unary.negative,
    "not_equal": compare.not_equal,
    "one_hot": gather.one_hot,
    "ones_like": creation.ones_like,
    "pad": slicing.pad,
    "permute_dims": shape.permute_dims,
    "pool": pool.pool,
    "pow": binary.pow,
    "prelu": activation.prelu,
    "prod": reduce.prod,
    "reciprocal": unary.reciprocal,
    "relu": activation.relu,
    "relu6": activation.relu6,
    "remainder": binary.remainder,
    "reshape": shape.reshape,
    "round": unary.round,
    "rsqrt": unary.rsqrt,
    "selu": activation.selu,
    "separable_conv2d": depthwise.separable_conv2d,
    "sigmoid": activation.sigmoid,
    "sign": unary.sign,
    "sin": trigonometry.sin,
    "sinh": trigonometry.sinh,
    "slice": slicing.slice,
    "softmax": norm.softmax,
    "softplus": activation.softplus,
    "space_to_batch_nd": blocks.space_to_batch_nd,
    "split": shape.split,
    "sqrt": unary.sqrt,
    "square": unary.square,
    "squared_difference": binary.squared_difference,
    "squeeze": shape.squeeze,
    "std": reduce.std,
    "step": activation.step,
    "strided_slice": slicing.strided_slice,
    "subtract": binary.subtract,
    "sum": reduce.sum,
    "take": gather.take,
    "tan": trigonometry.tan,
    "tanh": trigonometry.tanh,
    "tile": shape.tile,
    "top_k": sorting.top_k,
    "unique_values": search.unique_values,
    "unsorted_segment_sum": gather.unsorted_segment_sum,
    "unstack": shape.unstack,
    "var": reduce.var,
    "zeros_like": creation.zeros_like,
}

for name, op in (OPERATORS | METHODS).items():
    setattr(Tensor, name, op)
    if name != "to":
        setattr(Variable, name, op)
