"""Elementwise ops, comparisons, selections and reductions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import plugrad as pg
from plugrad.importing import namespace

from .table import op

# For each op, the name of its function in plugrad and, if it exists there, in NumPy.
UNARY = {"Abs": "abs", "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Exp": "exp"}
UNARY |= {"Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh"}
UNARY |= {"Atan": "atan", "Atanh": "atanh", "Expm1": "expm1", "Floor": "floor"}
UNARY |= {"IsFinite": "isfinite", "IsInf": "isinf", "IsNan": "isnan", "Log": "log"}
UNARY |= {"Log1p": "log1p", "LogicalNot": "logical_not", "Neg": "negative"}
UNARY |= {"Reciprocal": "reciprocal", "Round": "round", "Sign": "sign", "Sin": "sin"}
UNARY |= {"Sinh": "sinh", "Sqrt": "sqrt", "Square": "square", "Tan": "tan"}
UNARY |= {"Tanh": "tanh", "OnesLike": "ones_like", "ZerosLike": "zeros_like"}
BINARY = {"Add": "add", "AddV2": "add", "BiasAdd": "add", "Sub": "subtract"}
BINARY |= {"Mul": "multiply", "Maximum": "maximum", "Minimum": "minimum", "Pow": "pow"}
BINARY |= {"FloorDiv": "floor_divide", "FloorMod": "remainder", "Mod": "remainder"}
BINARY |= {"Equal": "equal", "NotEqual": "not_equal", "Greater": "greater"}
BINARY |= {"GreaterEqual": "greater_equal", "Less": "less", "LessEqual": "less_equal"}
BINARY |= {"LogicalAnd": "logical_and", "LogicalOr": "logical_or"}
BINARY |= {"BitwiseAnd": "bitwise_and", "Atan2": "atan2"}
UNARY |= {"Elu": "elu", "Erf": "erf", "LogSoftmax": "log_softmax", "Relu": "relu"}
UNARY |= {"Relu6": "relu6", "Rsqrt": "rsqrt", "Selu": "selu", "Sigmoid": "sigmoid"}
UNARY |= {"Softmax": "softmax", "Softplus": "softplus", "StopGradient": "stop_gradient"}
BINARY |= {"DivNoNan": "divide_no_nan", "Prelu": "prelu"}
BINARY |= {"SquaredDifference": "squared_difference"}


def _function(name: str, *values: Any) -> Callable[..., Any]:
    """Return the NumPy or plugrad function that fits the values."""
    return getattr(namespace(*values) if hasattr(np, name) else pg, name)


def _unary(name: str) -> Callable[..., Any]:
    return lambda x: _function(name, x)(x)


def _binary(name: str) -> Callable[..., Any]:
    return lambda a, b: _function(name, a, b)(a, b)


for _op, _name in UNARY.items():
    op(_op)(_unary(_name))
for _op, _name in BINARY.items():
    op(_op)(_binary(_name))


@op("Identity", "Snapshot", "PreventGradient", "CheckNumerics")
def identity(x: Any) -> Any:
    return x


@op("IdentityN")
def identity_n(*xs: Any) -> Any:
    return xs


@op("RealDiv", "Div")
def divide(a: Any, b: Any) -> Any:
    is_integer = a.dtype.kind == b.dtype.kind == "i"
    return _function("floor_divide" if is_integer else "divide", a, b)(a, b)


@op("AddN")
def add_n(*xs: Any) -> Any:
    return functools.reduce(namespace(*xs).add, xs)


@op("ClipByValue", reads=(1, 2))
def clip(x: Any, low: Any, high: Any) -> Any:
    return namespace(x).clip(x, low.item(), high.item())


@op("LeakyRelu")
def leaky_relu(x: Any, *, alpha: float = 0.2) -> Any:
    return pg.leaky_relu(x, alpha=alpha)


@op("Select", "SelectV2")
def select(condition: Any, a: Any, b: Any) -> Any:
    library = namespace(condition, a, b)
    missing_axes = a.ndim - condition.ndim
    if condition.ndim == 1 and missing_axes > 0 and a.shape == b.shape:  # by row
        condition = library.reshape(condition, (*condition.shape, *[1] * missing_axes))
    return library.where(condition, a, b)


@op("Cast")
def cast(x: Any, *, DstT: str) -> Any:
    return namespace(x).astype(x, DstT)


REDUCTIONS = {"Sum": "sum", "Mean": "mean", "Max": "max", "Min": "min"}
REDUCTIONS |= {"Prod": "prod", "All": "all", "Any": "any"}


def _reduction(name: str) -> Callable[..., Any]:
    def reduce(x: Any, axis: Any, *, keep_dims: bool = False) -> Any:
        library = namespace(x)
        axes = tuple(axis.reshape(-1).tolist())
        y = getattr(library, name)(x, axis=axes, keepdims=keep_dims)
        return y if name == "mean" else library.astype(y, x.dtype)

    return reduce


for _op, _name in REDUCTIONS.items():
    op(_op, reads=(1,))(_reduction(_name))


@op("EuclideanNorm", reads=(1,))
def euclidean_norm(x: Any, axis: Any, *, keep_dims: bool = False) -> Any:
    axes = tuple(axis.reshape(-1).tolist())
    return pg.linalg.vector_norm(x, axis=axes, keepdims=keep_dims)


@op("ArgMax", reads=(1,))
def argmax(x: Any, axis: Any, *, output_type: str = "int32") -> Any:
    return pg.argmax(x, axis=axis.item())


@op("ArgMin", reads=(1,))
def argmin(x: Any, axis: Any, *, output_type: str = "int32") -> Any:
    return pg.argmin(x, axis=axis.item())


@op("Cumsum", reads=(1,))
def cumsum(x: Any, axis: Any, *, exclusive: bool = False, reverse: bool = False) -> Any:
    return pg.cumulative_sum(x, axis.item(), exclusive=exclusive, reverse=reverse)


@op("TopKV2", reads=(1,))
def top_k(x: Any, k: Any, *, sorted: bool = True) -> Any:
    return pg.top_k(x, k.item(), sorted=sorted)
