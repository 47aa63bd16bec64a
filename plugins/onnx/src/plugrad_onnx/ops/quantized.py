"""Quantized ops, with exact sums.

Int8 products and convolutions use ``pg.quantized``, which sums in int32. Constant
weights are converted to int8 once, by an op that a pass inserts. Batched products, and
grouped or 3D convolutions, are split into pieces. Each piece is so small that its sums
stay below 2^24: float32 represents all integers up to this number, so the piece is
computed in float32. The pieces are added in int32.

Contents: quantization; weights; matrix products; convolutions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import plugrad as pg

from ..dtypes import HALVES, dtype_of
from ..registry import Value, op
from .conv import conv, filter_of, window_options_2d
from .elementwise import bounds
from .windows import WINDOW, Window, to_channels_first, to_channels_last

MAX_EXACT_FLOAT32 = 2**24  # float32 represents all integers up to this one


def _broadcastable(v: Value, x: Value, axis: int, block: int = 0) -> Value:
    """Reshape a scale or zero point to broadcast against a tensor."""
    if v.ndim == 0 or (v.size == 1 and v.ndim <= 1):
        return pg.reshape(v, ())
    axis = axis % x.ndim
    if block:
        repeated = pg.repeat(v, block, axis=axis)
        region = (slice(None),) * axis + (slice(0, x.shape[axis]),)
        return repeated[region]
    if v.ndim == 1:
        return pg.reshape(v, (-1, *[1] * (x.ndim - axis - 1)))
    return v


def _rounded(x: Value, zero: Value, elem_type: int, dtype: Any) -> Value:
    """Round to integers, add a zero point and clip to the bounds of a dtype."""
    low, high = bounds(elem_type)
    y = pg.round(x)
    y = y if zero is None else y + pg.astype(zero, y.dtype)
    return pg.astype(pg.clip(y, float(low), float(high)), dtype)


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
    elem_type = output_dtype or (_onnx_type(zero.dtype) if zero is not None else 2)
    x_wide = pg.astype(x, dtype_of(precision) if precision else scale.dtype)
    step = pg.astype(_broadcastable(scale, x, axis, block_size), x_wide.dtype)
    zero = None if zero is None else _broadcastable(zero, x, axis, block_size)
    y = x_wide / step
    y = pg.astype(y, "float32") if y.dtype in HALVES else y
    return _rounded(y, zero, elem_type, dtype_of(elem_type))


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
    wide = pg.int32 if x.dtype == np.int32 or kind in HALVES else pg.float32
    y = pg.astype(x, wide)
    if zero is not None:
        y = y - pg.astype(_broadcastable(zero, x, axis, block_size), wide)
    step = _broadcastable(scale, x, axis, block_size)
    return pg.astype(pg.astype(y, scale.dtype) * step, kind)


@op("FakeQuantize", domain="plugrad")
def fake_quantize(
    x: Value,
    scale: Value,
    zero: Value = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Value:
    """Quantize and dequantize; in float32 without integers. Passes insert this op."""
    if scale.dtype != np.float32:
        grid: Any = {"axis": axis, "block_size": block_size}
        y = quantize_linear(x, scale, zero, output_dtype=output_dtype, **grid)
        return dequantize_linear(y, scale, zero, **grid)
    elem_type = output_dtype or (_onnx_type(zero.dtype) if zero is not None else 2)
    step = _broadcastable(scale, x, axis, block_size)
    low, high = map(float, bounds(elem_type))
    y = pg.round(pg.astype(x, "float32") / step)
    if zero is None:
        return pg.clip(y, low, high) * step
    zero = pg.astype(_broadcastable(zero, x, axis, block_size), "float32")
    y = pg.minimum(pg.maximum(y, low - zero), high - zero)
    return y * step


@op("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(x: Value) -> Value:
    low = pg.minimum(pg.min(x), 0.0)
    scale = (pg.maximum(pg.max(x), 0.0) - low) / 255.0
    zero = _rounded(-low / scale, None, 2, "uint8")
    return quantize_linear(x, scale, zero), scale, zero


# --- weights -----------------------------------------------------------------------


@op("Weights", domain="plugrad", reads=(0, 1))
def weights(
    w: Value, zero: Value = None, *, group: int = 1, matrix: int = 0
) -> tuple[Value, ...]:
    """Return weights minus their zero point, and the remaining zero point or None.

    Weights for the ops of ``pg.quantized`` are int8. If their difference from the zero
    point does not fit into int8, a zero point remains, and a column of ones is appended
    to the weights, except to depthwise filters. The product with this column is the sum
    of the inputs; the epilogue subtracts this sum times the remaining zero point. Other
    weights are float32.
    """
    if not matrix and (w.ndim > 4 or (group > 1 and w.shape[1] > 1)):
        per_channel = zero is not None and zero.size > 1
        zero = pg.reshape(zero, (-1, *[1] * (w.ndim - 1))) if per_channel else zero
        return _shifted(w, zero), None
    w, zero = _signed(w, zero)
    y = w if matrix else filter_of(w, group=group)
    if zero is not None and (matrix or group == 1):
        y = pg.concat([y, pg.ones((*y.shape[:-1], 1), dtype="int8")], axis=-1)
    return pg.asarray(y, copy=True), zero


def _signed(w: Any, zero: Any) -> tuple[Any, Any]:
    """Return int8 weights and the remaining int32 zero point, or None if it is 0."""
    if isinstance(w, np.ndarray):
        shape = (-1,) if w.ndim == 2 else (-1, *[1] * (w.ndim - 1))
        subtracted = 0 if zero is None else zero.astype(np.int32).reshape(shape)
        wide = w.astype(np.int32) - subtracted
        if (wide == wide.astype(np.int8)).all():
            return pg.asarray(wide.astype(np.int8)), None
    rest = None if zero is None else pg.reshape(pg.astype(zero, "int32"), (-1,))
    if w.dtype == np.int8:
        return pg.asarray(w), rest
    y = pg.astype(pg.astype(w, "int32") - 128, "int8")
    return y, pg.asarray([-128]) if rest is None else rest - 128


def _shifted(x: Value, zero: Value) -> Value:
    """Return 8-bit integers minus their zero point, in float32."""
    y = pg.astype(x, "float32")
    return y if zero is None else y - pg.astype(zero, "float32")


def _bound(x: Value, zero: Value) -> int:
    """Return an upper bound of ``|x - zero|``."""
    return 255 if zero is not None or x.dtype != np.int8 else 128


@op("Factor", domain="plugrad")
def factor(a: Value, b: Value, scale: Value) -> Value:
    """Return the requantization factor of sums: a scalar, or one per channel."""
    if a.ndim == 1 and a.size > 1:
        a = pg.expand_dims(a, -1)
    y = pg.astype(a * b, "float32") / pg.astype(scale, "float32")
    return pg.reshape(y, ()) if y.size == 1 else y


def _apply_epilogue(
    sums: Value, rest: Value, bias: Value, scale: Value, zero: Value
) -> Value:
    """Apply the epilogue: remaining zero point ``rest``, bias, scale and rounding."""
    y = sums if rest is None else sums[..., :-1] - rest * sums[..., -1:]
    y = y if bias is None else y + bias
    y = y if scale is None else pg.astype(y, "float32") * scale
    return y if zero is None else _rounded(y, zero, _onnx_type(zero.dtype), zero.dtype)


# --- matrix products ---------------------------------------------------------------


@op("QuantizedMatMul", domain="plugrad")
def quantized_matmul(
    a: Value,
    w: Value,
    rest: Value = None,
    a_zero: Value = None,
    scale: Value = None,
    zero: Value = None,
) -> Value:
    """Multiply by prepared ``weights``; passes insert this op."""
    per_row = a_zero is not None and a_zero.size > 1
    start = None if a_zero is None or per_row else pg.reshape(a_zero, ())
    if rest is None and not per_row and (scale is None or scale.ndim <= 1):
        return pg.quantized.matmul(a, w, start, None, scale, zero)
    y = pg.quantized.matmul(a, w, start)
    if per_row:
        a_zero = pg.expand_dims(a_zero, -1) if a_zero.ndim == 1 else a_zero
        y = y - pg.astype(a_zero, "int32") * pg.sum(w, axis=0, dtype="int32")
    return _apply_epilogue(y, rest, None, scale, zero)


def _matmul(
    a: Value, b: Value, a_zero: Value, b_zero: Value, *epilogue: Value
) -> Value:
    """Return the int32 product, or the result of the epilogue if there is one."""
    if b.ndim == 2 and (b_zero is None or b_zero.ndim < 2):
        w, rest = weights(b, b_zero, matrix=1)
        return quantized_matmul(a, w, rest, a_zero, *epilogue)
    if a_zero is not None and a_zero.ndim == 1 and a_zero.size > 1:
        a_zero = pg.expand_dims(a_zero, -1)
    count = MAX_EXACT_FLOAT32 // (_bound(a, a_zero) * _bound(b, b_zero))
    n = a.shape[-1]
    a = _shifted(a, a_zero)
    b = _shifted(b, b_zero)
    total = None
    for start in range(0, n, count):
        left = a if n <= count else a[..., start : start + count]
        right = (
            b
            if n <= count
            else b[(..., slice(start, start + count), *_column_slices(b))]
        )
        part = pg.astype(pg.matmul(left, right), "int32")
        total = part if total is None else total + part
    return _apply_epilogue(total, None, None, *epilogue) if epilogue else total


def _column_slices(b: Value) -> tuple[slice, ...]:
    return (slice(None),) if b.ndim > 1 else ()


def dynamic_matmul(a: Value, *, given: Sequence[Value], scale: Value) -> Value:
    """Quantize ``a`` and multiply it by the prepared weights ``given``."""
    a, a_scale, a_zero = dynamic_quantize_linear(a)
    w, rest = given
    y = quantized_matmul(a, w, rest, a_zero)
    return pg.astype(y, "float32") * (a_scale * scale)


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
    return _matmul(a, b, a_zero, b_zero, factor(a_scale, b_scale, scale), zero)


# --- convolutions ------------------------------------------------------------------


@op("QuantizedConv", domain="plugrad")
def quantized_conv(
    x: Value,
    w: Value,
    rest: Value,
    x_zero: Value = None,
    bias: Value = None,
    scale: Value = None,
    zero: Value = None,
    *,
    window: Window = WINDOW,
    group: int = 1,
    channels_last: int = 0,
) -> Value:
    """Convolve with prepared ``weights``; passes insert this op."""
    x = x if channels_last else to_channels_last(x)
    n = len(window.kernel_shape)
    epilogue = bias, scale, zero
    options = window.arguments(x, window.kernel_shape)
    if w.dtype == np.float32:
        return _convolve_in_pieces(x, w, x_zero, epilogue, window, group, channels_last)
    options = window_options_2d(options) if n == 1 else options
    x_2d = x if n == 2 else pg.expand_dims(x, 1)
    x_zero = None if x_zero is None else pg.reshape(x_zero, ())
    if rest is None:
        y = _convolve(x_2d, w, x_zero, epilogue, group, options)
    else:
        y = _convolve(x_2d, w, x_zero, (), group, options)
        if group > 1:
            ones = pg.ones_like(w)
            correction = _convolve(x_2d, ones, x_zero, (), group, options)
            y = y - rest * correction
            rest = None
        y = _apply_epilogue(y, rest, *epilogue)
    y = y if n == 2 else pg.squeeze(y, 1)
    return y if channels_last else to_channels_first(y)


def _convolve(
    x: Value, w: Value, x_zero: Value, epilogue: Any, group: int, options: Any
) -> Value:
    convolve = pg.quantized.depthwise_conv2d if group > 1 else pg.quantized.conv2d
    return convolve(x, w, x_zero, *epilogue, **options)


def _convolve_in_pieces(
    x: Value,
    w: Value,
    zero: Value,
    epilogue: Any,
    window: Window,
    group: int,
    channels_last: int,
) -> Value:
    """Convolve in float32, in pieces with few enough channels for exact sums."""
    options: Any = {"window": window, "group": group}
    x = to_channels_first(x)
    max_terms = MAX_EXACT_FLOAT32 // (_bound(x, zero) * 255)
    channels = w.shape[1]
    count = max_terms // math.prod(w.shape[2:])
    x = _shifted(x, zero)
    if channels <= count:
        y = pg.astype(conv(x, w, **options), "int32")
    elif group > 1 or not count:
        y = conv(pg.astype(x, "int32"), pg.astype(w, "int32"), **options)
    else:
        starts = range(0, channels, count)
        parts = [
            conv(x[:, i : i + count], w[:, i : i + count], **options) for i in starts
        ]
        y = pg.add_n([pg.astype(part, "int32") for part in parts])
    y = _apply_epilogue(to_channels_last(y), None, *epilogue)
    return y if channels_last else to_channels_first(y)


def _integer_conv(
    x: Value, w: Value, w_zero: Value, *epilogue: Value, **options: Any
) -> Value:
    """Return the int32 convolution, or the result of the epilogue if there is one."""
    window = replace(options.pop("window"), kernel_shape=tuple(w.shape[2:]))
    given = weights(w, w_zero, group=options["group"])
    return quantized_conv(x, *given, *epilogue, window=window, **options)


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
    return _integer_conv(x, w, w_zero, zero, window=window, group=group)


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
    epilogue = x_zero, b, factor(x_scale, w_scale, scale), zero
    return _integer_conv(x, w, w_zero, *epilogue, window=window, group=group)
