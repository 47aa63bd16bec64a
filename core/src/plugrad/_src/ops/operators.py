"""The table of ops that are operators and methods of ``Tensor`` and ``Variable``.

Ops become methods directly, without a wrapper. Binary operators also let other classes
take over. The reflected operators (such as ``__rsub__``) swap their arguments.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from plugrad._src.engine.context import tapes
from plugrad._src.engine.dispatch import to
from plugrad._src.engine.tape import Guard, tapes_tracking
from plugrad._src.registry.deprecation import outside
from plugrad._src.tensor.arguments import Ints, misfit
from plugrad._src.tensor.dtypes import STRING
from plugrad._src.tensor.explained import explained
from plugrad._src.tensor.hints import Absent, ForeignNames
from plugrad._src.tensor.tensor import Tensor

from .basis import _convert, binary, compare, creation, unary
from .basis.shape import permute_dims, reshape
from .basis.variable import Variable
from .indexing import assignment, indexing
from .linalg import products

COMPARABLE = (Tensor, Variable, int, float, complex, np.generic, list, tuple)


def _is_comparable(a: Any, b: object) -> bool:
    """Return whether ``b`` is comparable; ``tensor == None`` is False, not an error."""
    if isinstance(b, COMPARABLE) or hasattr(b, "__array__"):
        return True
    return isinstance(b, str | bytes) and a.dtype is STRING


def _reshape(x: Tensor, /, *shape: Ints, copy: bool | None = None) -> Tensor:
    """Return ``reshape(x, shape)``; separate sizes work, as in ``x.reshape(2, 3)``."""
    sizes: Any = shape[0] if len(shape) == 1 else shape
    return reshape(x, sizes, copy=copy)


def _transpose(x: Tensor, /, *axes: Sequence[int]) -> Tensor:
    """Return ``permute_dims(x, axes)``; ``transpose()`` reverses the axes.

    opt_einsum calls this method. The axes must be one sequence, because libraries
    disagree about ``x.transpose(0, 1)``: in NumPy the integers are the new order of the
    axes, in PyTorch two axes to swap.
    """
    order = axes or (range(x.ndim)[::-1],)
    if len(order) > 1 or not isinstance(order[0], Sequence):
        raise TypeError(
            f"transpose: pass the new order as one sequence, got {axes}; "
            "transpose((1, 0)) is permute_dims(x, (1, 0)), and mT swaps the last two"
        )
    return permute_dims(x, order[0])


# Operators that run one kernel, with the kinds of dtypes that their op accepts. They
# run it directly: a call of the op in between takes a tenth of the time of an addition.
DIRECT = {
    "__add__": (binary.ADD, "biufc"),
    "__sub__": (binary.SUB, "iufc"),
    "__mul__": (binary.MULTIPLY, "biufc"),
    "__lt__": (compare.LESS, "biufO"),
    "__gt__": (compare.GREATER, "biufO"),
}
# Operands that plugrad converts, or refuses with an error of its own.
OPERANDS = (*COMPARABLE, np.ndarray, str, bytes)


def _deferring(name: str, op: Callable[..., Any]) -> Callable[..., Any]:
    """Return the operator ``name`` for ``op``, which other classes may implement.

    If ``op`` raises an error, and the second argument is an object of another library
    whose class has the reflected operator, the result is ``NotImplemented``, so that
    Python calls that operator.
    """
    reflected = REFLECTED.get(name, f"__r{name.strip('_')}__")
    direct = DIRECT.get(name)
    if direct is not None:
        elementwise, (kernel, kinds) = _convert.elementwise, direct

        def operator(a: Any, b: Any, /) -> Any:
            try:
                return elementwise(kernel, a, b, kinds)
            except (TypeError, ValueError):
                if not _takes_over(b, reflected):
                    raise
                return NotImplemented

    else:

        def operator(a: Any, b: Any, /) -> Any:
            try:
                return op(a, b)
            except (TypeError, ValueError):
                if not _takes_over(b, reflected):
                    raise
                return NotImplemented

    return functools.update_wrapper(operator, op)


def _takes_over(x: object, method: str) -> bool:
    """Return whether the class of a foreign object has an operator of its own."""
    own = getattr(type(x), method, None)
    return not isinstance(x, OPERANDS) and own is not getattr(object, method, None)


def _or_not_implemented(op: Callable[..., Any]) -> Callable[..., Any]:
    """Return an operator for ``op``, NotImplemented if ``b`` cannot be compared."""
    return lambda a, b: op(a, b) if _is_comparable(a, b) else NotImplemented


def _transposed(x: Tensor) -> Tensor:
    if len(x.shape) != 2:
        raise misfit("T", "is for matrices; use mT or permute_dims", x)
    return products.matrix_transpose(x)


def _array(
    x: Tensor | Variable, dtype: Any = None, copy: bool | None = None
) -> np.ndarray[Any, Any]:
    """Return the values for NumPy, and warn if a gradient is lost."""
    x = x.value if isinstance(x, Variable) else x
    values = x._read("np.asarray()")
    recording = tapes_tracking(tapes(), (x,))[0]
    # A Guard is the tape of a custom_grad function, which defines its own gradient.
    if recording and Guard not in map(type, tapes()):
        warnings.warn(
            f"np.asarray: a tensor of shape {x.shape} is being differentiated, and has "
            "no gradient through NumPy; use the ops of plugrad, or stop_gradient(x) if "
            "no gradient is wanted",
            stacklevel=outside(),
        )
    return np.array(values, dtype=dtype, copy=copy)


# Binary ops; each also gets a reflected operator, for a tensor on the right.
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

COMPARISONS = {
    "__lt__": compare.less,
    "__le__": compare.less_equal,
    "__gt__": compare.greater,
    "__ge__": compare.greater_equal,
}
REFLECTED = {
    "__lt__": "__gt__",
    "__le__": "__ge__",
    "__gt__": "__lt__",
    "__ge__": "__le__",
}

OTHER_METHODS = {
    "__eq__": _or_not_implemented(compare.equal),
    "__ne__": _or_not_implemented(compare.not_equal),
    "__neg__": unary.negative,
    "__pos__": unary.positive,
    "__abs__": unary.abs,
    "__invert__": compare.bitwise_invert,
    "__getitem__": indexing.getitem,
    "__setitem__": assignment.setitem,
    "__iter__": indexing.iterate,
    "__contains__": indexing.contains,
    "T": property(_transposed),
    "mT": property(products.matrix_transpose),
}

# The ops that are methods, and the families that export them.
METHODS = """
    abs acos acosh add all any argmax argmin asin asinh astype atan atan2 atanh avg_pool
    batch_norm batch_to_space_nd broadcast_to ceil clip conv1d conv2d conv2d_transpose
    cos cosh cumulative_prod cumulative_sum depth_to_space depthwise_conv2d divide
    divide_no_nan elu equal erf exp expand_dims expm1 flip floor floor_divide gather
    greater greater_equal isfinite isinf isnan leaky_relu less less_equal
    local_response_normalization log log1p log_sigmoid log_softmax logical_and
    logical_not logical_or logical_xor logsumexp matmul max max_pool maximum mean min
    minimum multiply negative not_equal one_hot ones_like pad permute_dims pool pow
    prelu prod reciprocal relu relu6 remainder reshape round rsqrt selu separable_conv2d
    sigmoid sign sin sinh slice softmax softplus space_to_batch_nd split sqrt square
    squared_difference squeeze std step strided_slice subtract sum take tan tanh tile
    top_k unique_values unsorted_segment_sum unstack var zeros_like
"""
FAMILIES = """
    array.blocks array.gather array.slicing basis.binary basis.compare basis.creation
    basis.logic basis.reduce basis.shape basis.unary elementwise.error_functions
    elementwise.trigonometry indexing.indexing indexing.search indexing.sorting
    linalg.products nn.activation nn.conv nn.depthwise nn.gelu nn.norm nn.pool
    nn.softmax reduction.cumulative reduction.extremes statistics.statistics
"""


families = [import_module(f"{__package__}.{name}") for name in FAMILIES.split()]
public = {name: getattr(f, name) for f in families for name in f.__all__}

# The ufuncs behind NumPy's operators, so that ``ndarray * tensor`` is a tensor with a
# gradient.
UFUNCS = """
    add bitwise_and bitwise_or bitwise_xor divide equal floor_divide greater
    greater_equal less less_equal matmul multiply not_equal remainder subtract
"""
OP_OF_UFUNC = {name: public[name] for name in UFUNCS.split()} | {
    "left_shift": compare.bitwise_left_shift,
    "power": binary.pow,
    "right_shift": compare.bitwise_right_shift,
}


def _array_ufunc(
    self: object, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any
) -> Any:
    """Run the op of an operator's ufunc; raise a TypeError for other ufuncs."""
    name = ufunc.__name__
    op = OP_OF_UFUNC.get(name)
    if op is not None and method == "__call__" and not options:
        return op(*inputs)
    hint = import_module("plugrad._src.tools.names").numpy_advice(name)
    error = TypeError(
        f"np.{name} does not accept plugrad tensors; {hint}or np.{name}(x.numpy()), "
        "which has no gradient"
    )
    raise explained(error, "numpy-does-not-accept-tensors")


def _with_swapped_arguments(op: Callable[..., Any]) -> Callable[..., Any]:
    return lambda b, a: op(a, b)


TABLE: dict[str, Any] = {f"__{name}__": op for name, op in BINARY.items()}
TABLE |= COMPARISONS
TABLE = {name: _deferring(name, op) for name, op in TABLE.items()} | OTHER_METHODS
TABLE |= {f"__r{name}__": _with_swapped_arguments(op) for name, op in BINARY.items()}
TABLE |= {name: public[name] for name in METHODS.split()}
TABLE |= {"reshape": _reshape, "transpose": _transpose}
for name, op in TABLE.items():
    setattr(Tensor, name, op)
    setattr(Variable, name, op)
for name in (
    {*public} - {*TABLE} - {*creation.__all__}
):  # functions that are not methods
    setattr(ForeignNames, name, Absent(name))
Tensor.to = to
Tensor.__array__ = _array
Tensor.__array_ufunc__ = _array_ufunc
setattr(Variable, "__array__", _array)  # noqa: B010, mypy
setattr(Variable, "__array_ufunc__", _array_ufunc)  # noqa: B010, mypy
