"""Elementwise ops: arithmetic, comparisons, activations, casts."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import plugrad as pg
from onnx import TensorProto
from plugrad.importing import namespace

from ..dtypes import SUB_BYTE_BOUNDS, dtype_of
from ..registry import Value, op

# Each row is the name of an ONNX op and of a function in both plugrad and NumPy. Unary
# ops come first.
SHARED_OPS = """
Abs:abs Acos:acos Acosh:acosh Asin:asin Asinh:asinh Atan:atan Atanh:atanh Ceil:ceil
Cos:cos Cosh:cosh Exp:exp Floor:floor IsNaN:isnan Log:log Neg:negative Not:logical_not
Reciprocal:reciprocal Round:round Sign:sign Sin:sin Sinh:sinh Sqrt:sqrt Tan:tan
Tanh:tanh BitwiseNot:bitwise_invert
Add:add Sub:subtract Mul:multiply And:logical_and Or:logical_or Xor:logical_xor
Equal:equal Greater:greater GreaterOrEqual:greater_equal Less:less
LessOrEqual:less_equal BitwiseAnd:bitwise_and BitwiseOr:bitwise_or
BitwiseXor:bitwise_xor
"""
# The same for functions that only plugrad has.
PLUGRAD_OPS = """
Erf:erf HardSwish:hard_swish Sigmoid:sigmoid Softplus:softplus Softsign:softsign
Mish:mish PRelu:prelu
"""
UNARY = frozenset(
    row.partition(":")[0]
    for row in (SHARED_OPS[: SHARED_OPS.index("Add")] + PLUGRAD_OPS).split()
) - {"PRelu"}


def _with_input_count(count: int, function: Any) -> Any:
    """Give a function exactly ``count`` parameters, which the registry counts."""
    if count == 1:
        return lambda x: function(x)
    return lambda a, b: function(a, b)


def _register() -> None:
    for row in (SHARED_OPS + PLUGRAD_OPS).split():
        name, _, function = row.partition(":")
        count, since = (1, 1) if name in UNARY else (2, 7)
        host = (
            _with_input_count(count, getattr(np, function))
            if hasattr(np, function)
            else False
        )
        op(name, since=since, host=host)(
            _with_input_count(count, getattr(pg, function))
        )


_register()


@op("Identity", host=True)
def identity(x: Value) -> Value:
    return x


@op("Relu", host=lambda x: np.maximum(x, x.dtype.type(0)))
def relu(x: Value) -> Value:
    return pg.relu(x)


@op("Div", since=7, host=True)
def divide(a: Value, b: Value) -> Value:
    """Divide; integer quotients are truncated towards 0."""
    xp = namespace(a, b)
    if a.dtype.kind not in "iu":
        return xp.divide(a, b)
    q = xp.floor_divide(a, b)
    if a.dtype.kind == "u":
        return q
    inexact = xp.logical_and(xp.not_equal(q * b, a), xp.less(q, _typed(xp, 0, a)))
    return q + xp.astype(inexact, a.dtype)


def _typed(xp: Any, value: float, like: Value) -> Value:
    """Return a number as a scalar with the dtype of ``like``."""
    return xp.asarray(value, dtype=like.dtype)


@op("Mod", host=True)
def mod(a: Value, b: Value, *, fmod: int = 0) -> Value:
    xp = namespace(a, b)
    return xp.fmod(a, b) if fmod else xp.remainder(a, b)


@op("Pow", since=7, host=True)
def power(a: Value, b: Value) -> Value:
    xp = namespace(a, b)
    if xp is pg and b.size == 1 and b.dtype.kind != "f":
        b = pg.astype(b, a.dtype)
    y = xp.pow(a, b)
    return y if y.dtype == a.dtype else xp.astype(y, a.dtype)


@op("BitShift", host=True)
def bit_shift(a: Value, b: Value, *, direction: str) -> Value:
    xp = namespace(a, b)
    name = direction.lower()
    shift = getattr(xp, f"bitwise_{name}_shift")
    return shift(a, b)


def _fold(name: str) -> Any:
    def fold(*xs: Value) -> Value:
        return functools.reduce(getattr(namespace(*xs), name), xs)

    return fold


op("Max", host=True)(_fold("maximum"))
op("Min", host=True)(_fold("minimum"))
op("Sum", host=True)(_fold("add"))


@op("Mean")
def mean(*xs: Value) -> Value:
    return functools.reduce(pg.add, xs) / len(xs)


@op("Where", host=True)
def where(condition: Value, x: Value, y: Value) -> Value:
    return namespace(condition, x, y).where(condition, x, y)


@op("IsInf")
def is_inf(x: Value, *, detect_negative: int = 1, detect_positive: int = 1) -> Value:
    y = pg.isinf(x)
    if not detect_negative:
        y = pg.logical_and(y, x > 0)
    return y if detect_positive else pg.logical_and(y, x < 0)


# --- casts -----------------------------------------------------------------------


def bounds(elem_type: int) -> tuple[int, int]:
    """Return the smallest and largest integer of an ONNX dtype."""
    if elem_type in SUB_BYTE_BOUNDS:
        return SUB_BYTE_BOUNDS[elem_type]
    info = np.iinfo(dtype_of(elem_type))
    return int(info.min), int(info.max)


@op("Cast", host=True)
def cast(x: Value, *, to: int, saturate: int = 1, round_mode: str = "") -> Value:
    """Convert to another dtype; int4 and int2 keep only the lowest bits."""
    xp = namespace(x)
    dtype = dtype_of(to)
    if "O" in (dtype.kind, x.dtype.kind):
        return _cast_text(x if xp is np else x.numpy(), dtype)
    if to not in SUB_BYTE_BOUNDS:
        return xp.astype(x, dtype)
    low, high = bounds(to)
    y = xp.astype(x, np.int32)
    y = xp.remainder(y - np.int32(low), np.int32(high - low + 1)) + np.int32(low)
    return xp.astype(y, dtype)


def _cast_text(x: Value, dtype: np.dtype[Any]) -> Value:
    if dtype.kind != "O":
        return (
            x.astype(np.float64).astype(dtype) if dtype.kind != "i" else x.astype(dtype)
        )
    y = np.empty(x.size, object)
    y[:] = [str(one) for one in x.reshape(-1)]
    return y.reshape(x.shape)


@op("CastLike", host=True)
def cast_like(
    x: Value,
    target: Value,
    *,
    to: int = TensorProto.UNDEFINED,
    saturate: int = 1,
    round_mode: str = "",
) -> Value:
    if to:
        return cast(x, to=to)
    return namespace(x).astype(x, target.dtype)


@op("BitCast", host=True)
def bit_cast(x: Value, *, to: int, output_dtype: int = 0) -> Value:
    sizes = (np.dtype(x.dtype).itemsize, dtype_of(to).itemsize)
    if sizes[0] != sizes[1] or to in SUB_BYTE_BOUNDS or output_dtype:
        raise TypeError(f"BitCast: {x.dtype} and ONNX dtype {to} differ in bit width")
    if isinstance(x, np.ndarray):
        return x.view(dtype_of(to))
    with_bool = x.dtype == np.bool or to == TensorProto.BOOL  # bytes are 0 or 1
    return pg.astype(x, dtype_of(to)) if with_bool else pg.bitcast(x, dtype_of(to))


# --- activations -----------------------------------------------------------------


@op("LeakyRelu")
def leaky_relu(x: Value, *, alpha: float = 0.01) -> Value:
    return pg.leaky_relu(x, alpha=alpha)


@op("Elu")
def elu(x: Value, *, alpha: float = 1.0) -> Value:
    return pg.elu(x, alpha=alpha)


@op("Celu")
def celu(x: Value, *, alpha: float = 1.0) -> Value:
    return pg.maximum(x, 0.0) + alpha * pg.expm1(pg.minimum(x / alpha, 0.0))


@op("Selu")
def selu(
    x: Value, *, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805
) -> Value:
    return gamma * elu(x, alpha=alpha)


@op("Gelu")
def gelu(x: Value, *, approximate: str = "none") -> Value:
    return pg.gelu(x, approximate=approximate == "tanh")


@op("HardSigmoid")
def hard_sigmoid(x: Value, *, alpha: float = 0.2, beta: float = 0.5) -> Value:
    return pg.hard_sigmoid(x, alpha=alpha, beta=beta)


@op("Swish")
def swish(x: Value, *, alpha: float = 1.0) -> Value:
    return pg.silu(x) if alpha == 1 else x * pg.sigmoid(alpha * x)


@op("ThresholdedRelu")
def thresholded_relu(x: Value, *, alpha: float = 1.0) -> Value:
    return pg.where(x > alpha, x, pg.zeros_like(x))


@op("Shrink")
def shrink(x: Value, *, bias: float = 0.0, lambd: float = 0.5) -> Value:
    zero = pg.zeros_like(x)
    bias = np.dtype(x.dtype).type(bias)
    return pg.where(x < -lambd, x + bias, pg.where(x > lambd, x - bias, zero))


@op("Clip")
def clip_attributes(
    x: Value, *, min: float = -3.4028234e38, max: float = 3.4028234e38
) -> Value:
    return pg.minimum(pg.maximum(x, min), max) if min > max else pg.clip(x, min, max)


@op("Clip", since=11, reads=(1, 2), host=True)
def clip(x: Value, min: Value = None, max: Value = None) -> Value:
    if isinstance(x, np.ndarray) or (
        min is not None and max is not None and min.item() > max.item()
    ):
        xp = namespace(x)
        y = x if min is None else xp.maximum(x, min)
        return y if max is None else xp.minimum(y, max)
    low, high = (None if end is None else end.item() for end in (min, max))
    if low is None and high is None:
        return x
    return pg.clip(x, low, high)


@op("Dropout", since=7, random=True)
def dropout_inference(x: Value, *, ratio: float = 0.5) -> Value:
    return x, pg.ones(x.shape, dtype="bool")


@op("Dropout", since=12, random=True, reads=(1, 2))
def dropout(
    x: Value, ratio: Value = None, training: Value = None, *, seed: int | None = None
) -> Value:
    rate = 0.5 if ratio is None else ratio.item()
    if training is None or not training.item() or rate == 0:
        return x, pg.ones(x.shape, dtype="bool")
    mask = pg.random.bernoulli(x.shape, 1 - rate, seed=seed)
    return pg.where(mask, x / (1 - rate), pg.zeros_like(x)), mask
