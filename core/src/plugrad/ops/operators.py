"""Operators and methods of ``Tensor`` and ``Variable``: the one table of ops for them.

Ops are set as methods directly, without a wrapper. The reflected operators
(``__rsub__``) get their arguments in reverse.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from plugrad.engine.dispatch import to
from plugrad.tensor.arguments import misfit
from plugrad.tensor.dtypes import STRING
from plugrad.tensor.tensor import Tensor

from . import binary, compare, indexing, products, unary
from .variable import Variable

COMPARABLE = (Tensor, Variable, int, float, complex, np.generic, list, tuple)


def _known(a: Any, b: object) -> bool:
    """Return whether ``b`` can be compared; ``tensor == None`` is False, no error."""
    if isinstance(b, COMPARABLE) or hasattr(b, "__array__"):
        return True
    return isinstance(b, str | bytes) and a.dtype is STRING


def _if_known(op: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``op`` that gives NotImplemented where ``b`` cannot be compared."""
    return lambda a, b: op(a, b) if _known(a, b) else NotImplemented


def _transposed(x: Tensor) -> Tensor:
    if len(x.shape) != 2:
        raise misfit("T", "is for matrices; use mT or permute_dims", x)
    return products.matrix_transpose(x)


def _no_assignment(x: Any, key: Any, value: Any) -> None:
    raise TypeError(
        f"a tensor does not change: shape {x.shape} at [{key!r}]; make another one, "
        "with where or tensor_scatter_update, or keep a Variable and assign to it"
    )


# Of two arguments, and in reverse where the tensor stands on the right.
BINARY = {
    "add": binary.add,
    "sub": binary.subtract,
    "mul": binary.multiply,
    "truediv": binary.divide,
    "floordiv": binary.floor_divide,
    "mod": binary.remainder,
    "pow": binary.pow,
    "matmul": products.matmul,
    "and": compare.bitwise_and,
    "or": compare.bitwise_or,
    "xor": compare.bitwise_xor,
    "lshift": compare.bitwise_left_shift,
    "rshift": compare.bitwise_right_shift,
}

OTHERS = {
    "__eq__": _if_known(compare.equal),
    "__ne__": _if_known(compare.not_equal),
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
    "T": property(_transposed),
    "mT": property(products.matrix_transpose),
}

METHODS = {
    "activation": (
        "clip elu leaky_relu log_sigmoid prelu relu relu6 selu sigmoid softplus step"
    ),
    "binary": (
        "add atan2 divide divide_no_nan floor_divide maximum minimum multiply pow "
        "remainder squared_difference subtract"
    ),
    "blocks": "batch_to_space_nd depth_to_space space_to_batch_nd",
    "compare": (
        "equal greater greater_equal less less_equal logical_and logical_not "
        "logical_or logical_xor not_equal"
    ),
    "conv": "conv1d conv2d conv2d_transpose",
    "creation": "astype ones_like zeros_like",
    "cumulative": "cumulative_prod cumulative_sum",
    "depthwise": "depthwise_conv2d separable_conv2d",
    "gather": "gather one_hot take unsorted_segment_sum",
    "indexing": "strided_slice",
    "norm": "batch_norm local_response_normalization log_softmax softmax",
    "pool": "avg_pool max_pool pool",
    "products": "matmul",
    "reduce": "all any argmax argmin max mean min prod sum",
    "search": "unique_values",
    "shape": (
        "broadcast_to expand_dims flip permute_dims reshape split squeeze tile unstack"
    ),
    "slicing": "pad slice",
    "sorting": "top_k",
    "statistics": "logsumexp std var",
    "trigonometry": "acos acosh asin asinh atan atanh cos cosh sin sinh tan tanh",
    "unary": (
        "abs ceil erf exp expm1 floor isfinite isinf isnan log log1p negative "
        "reciprocal round rsqrt sign sqrt square"
    ),
}


def _reversed(op: Callable[..., Any]) -> Callable[..., Any]:
    return lambda b, a: op(a, b)


TABLE: dict[str, Any] = {f"__{name}__": op for name, op in BINARY.items()} | OTHERS
TABLE |= {f"__r{name}__": _reversed(op) for name, op in BINARY.items()}
for family, names in METHODS.items():
    module = import_module(f"{__package__}.{family}")
    TABLE |= {name: getattr(module, name) for name in names.split()}
for name, op in TABLE.items():
    setattr(Tensor, name, op)
    setattr(Variable, name, op)
Tensor.to = to
