"""Quantized ops: exact.

Products of bytes are those of plugrad, summed in int32. Others, and convolutions, go by
pieces: float32 holds all integers up to 2^24, so a product whose sums stay below is
computed in float32, by the fast kernels, and the pieces are added up in int32.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import plugrad as pg

from ..proto import dtype_of
from ..registry import Value, op
from .conv import conv
from .elementwise import bounds
from .windows import WINDOW, Window

EXACT = 2**24


def _along(v: Value, x: Value, axis: int, block: int = 0) -> Value:
    """Return a scale or zero point so that it broadcasts against a tensor."""
    if v.ndim == 0 or (v.size == 1 and v.ndim <= 1):
        return pg.reshape(v, ())
    axis = axis % x.ndim
    if block:
        wide = pg.repeat(v, block, axis=axis)
        where = (slice(None),) * axis + (slice(0, x.shape[axis]),)
        return wide[where]
    if v.ndim == 1:
        return pg.reshape(v, (-1, *[1] * (x.ndim - axis - 1)))
    return v


def _rounded(x: Value, zero: Value, elem_type: int, dtype: Any) -> Value:
    """Return the nearest integers plus a zero point, within the bounds of a dtype."""
    least, most = bounds(elem_type)
    y = pg.round(x)
    y = y if zero is None else y + pg.astype(zero, y.dtype)
    return pg.astype(pg.clip(y, float(least), float(most)), dtype)


def _onnx_type(dtype: Any) -> int:
    from onnx import helper

    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


@op("QuantizeLinear", since=10)
def quantize_linear(
    x: Value,
    scale: Value,
    zero: Value = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Value:
    kind = output_dtype or (_onnx_type(zero.dtype) if zero is not None else 2)
    wide = pg.astype(x, dtype_of(precision) if precision else scale.dtype)
    step = pg.astype(_along(scale, x, axis, block_size), wide.dtype)
    zero = None if zero is None else _along(zero, x, axis, block_size)
    y = wide / step
    y = pg.astype(y, "float32") if y.dtype == np.float16 else y
    return _rounded(y, zero, kind, dtype_of(kind))


@op("DequantizeLinear", since=10)
def dequantize_linear(
    x: Value,
    scale: Value,
    zero: Value = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Value:
    kind = dtype_of(output_dtype) if output_dtype else scale.dtype
    wide = pg.int32 if x.dtype == np.int32 or kind == np.float16 else pg.float32
    y = pg.astype(x, wide)
    if zero is not None:
        y = y - pg.astype(_along(zero, x, axis, block_size), wide)
    step = _along(scale, x, axis, block_size)
    return pg.astype(pg.astype(y, scale.dtype) * step, kind)


@op("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(x: Value) -> Value:
    least = pg.minimum(pg.min(x), 0.0)
    scale = (pg.maximum(pg.max(x), 0.0) - least) / 255.0
    zero = _rounded(-least / scale, None, 2, "uint8")
    return quantize_linear(x, scale, zero), scale, zero


# --- integer products ------------------------------------------------------------


def _shifted(x: Value, zero: Value) -> Value:
    """Return small integers less their zero point, in float32."""
    y = x if x.dtype == np.float32 else pg.astype(x, "float32")
    return y if zero is None else y - pg.astype(zero, "float32")


def _bound(x: Value, zero: Value) -> int:
    """Return the largest magnitude of a value less its zero point."""
    return 255 if zero is not None or x.dtype != np.int8 else 128


@op("Weights", domain="plugrad", reads=(0, 1))
def weights(w: Value, zero: Value = None, *, axis: int) -> Value:
    """Return weights less their zero point: a node of a pass, which runs once.

    Those of a product are int8 if they fit; else they are float32.
    """
    y = w.astype(np.int32)
    if zero is not None:
        many = zero.size > 1 and axis == 0
        y = y - (zero.reshape(-1, *[1] * (w.ndim - 1)) if many else zero)
    small = axis and y.ndim == 2 and (y == y.astype(np.int8)).all()
    return pg.asarray(y.astype(np.int8 if small else np.float32))


def _product_of_bytes(a: Value, b: Value, zero: Value) -> Value:
    """Return the product in int32. A row of ones gives the sums of columns."""
    rows = pg.reshape(a, (-1, a.shape[-1]))
    if zero is not None:
        rows = pg.concat([rows, pg.ones((1, a.shape[-1]), dtype=a.dtype)])
    y = pg.matmul(rows, b, preferred_element_type="int32")
    if zero is not None:
        y = y[:-1] - pg.astype(pg.reshape(zero, ()), "int32") * y[-1:]
    return pg.reshape(y, (*a.shape[:-1], b.shape[-1]))


def _matmul(a: Value, b: Value, a_zero: Value, b_zero: Value) -> Value:
    """Return the product in int32."""
    bytes_ = b.dtype == np.int8 and a.dtype in (np.int8, np.uint8)
    if (
        bytes_
        and b.ndim == 2
        and b_zero is None
        and (a_zero is None or a_zero.size == 1)
    ):
        return _product_of_bytes(a, b, a_zero)
    if a_zero is not None and a_zero.ndim == 1 and a_zero.size > 1:
        a_zero = pg.expand_dims(a_zero, -1)
    count, n = EXACT // (_bound(a, a_zero) * _bound(b, b_zero)), a.shape[-1]
    a, b = _shifted(a, a_zero), _shifted(b, b_zero)
    total = None
    for start in range(0, n, count):
        left = a if n <= count else a[..., start : start + count]
        right = b if n <= count else b[(..., slice(start, start + count), *_tail(b))]
        part = pg.astype(pg.matmul(left, right), "int32")
        total = part if total is None else total + part
    return total


def _tail(b: Value) -> tuple[slice, ...]:
    return (slice(None),) if b.ndim > 1 else ()


@op("MatMulInteger", since=10)
def matmul_integer(
    a: Value, b: Value, a_zero: Value = None, b_zero: Value = None
) -> Value:
    return _matmul(a, b, a_zero, b_zero)


@op("QLinearMatMul", since=10)
def qlinear_matmul(
    a: Value,
    a_scale: Value,
    a_zero: Value,
    b: Value,
    b_scale: Value,
    b_zero: Value,
    scale: Value,
    zero: Value,
) -> Value:
    if a_scale.ndim == 1 and a_scale.size > 1:
        a_scale = pg.expand_dims(a_scale, -1)
    y = pg.astype(_matmul(a, b, a_zero, b_zero), "float32")
    factor = pg.astype(a_scale * b_scale, "float32") / pg.astype(scale, "float32")
    return _rounded(y * factor, zero, _onnx_type(zero.dtype), zero.dtype)


def _convolved(
    x: Value, w: Value, zero: Value, w_zero: Value, window: Window, group: int
) -> Value:
    """Return a convolution in int32, over as many channels at once as are exact."""
    channels = w.shape[1]
    options: Any = {"window": window, "group": group}
    if w_zero is not None and w_zero.size > 1:
        w_zero = pg.reshape(w_zero, (-1, *[1] * (w.ndim - 1)))
    most = EXACT // (_bound(x, zero) * _bound(w, w_zero))
    count = most // math.prod(w.shape[2:])
    x, w = _shifted(x, zero), _shifted(w, w_zero)
    if channels <= count:
        return pg.astype(conv(x, w, **options), "int32")
    if group > 1 or not count:
        return conv(pg.astype(x, "int32"), pg.astype(w, "int32"), **options)
    parts = [
        pg.astype(conv(x[:, i : i + count], w[:, i : i + count], **options), "int32")
        for i in range(0, channels, count)
    ]
    return pg.add_n(parts)


@op("ConvInteger", since=10)
def conv_integer(
    x: Value,
    w: Value,
    zero: Value = None,
    w_zero: Value = None,
    *,
    window: Window = WINDOW,
    group: int = 1,
) -> Value:
    return _convolved(x, w, zero, w_zero, window, group)


@op("QLinearConv", since=10)
def qlinear_conv(
    x: Value,
    x_scale: Value,
    x_zero: Value,
    w: Value,
    w_scale: Value,
    w_zero: Value,
    scale: Value,
    zero: Value,
    b: Value = None,
    *,
    window: Window = WINDOW,
    group: int = 1,
) -> Value:
    y = _convolved(x, w, x_zero, w_zero, window, group)
    shape = (-1, *[1] * (x.ndim - 2))
    y = y if b is None else y + pg.reshape(b, shape)
    factor = x_scale * w_scale / scale
    factor = pg.reshape(factor, shape if factor.size > 1 else ())
    y = pg.astype(y, "float32") * factor
    return _rounded(y, zero, _onnx_type(zero.dtype), zero.dtype)
