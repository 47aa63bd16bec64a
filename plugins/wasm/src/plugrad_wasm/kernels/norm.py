"""Softmax and normalization."""

from __future__ import annotations

from math import prod
from typing import Any

from plugrad.plugin import KernelTable

from ..arrays import WasmArray, empty
from ..launch import FLOAT32, Exports, cast, wider

kernels = KernelTable()
_softmax = Exports("softmax")
_batch_norm = Exports("batch_norm")
_layer_norm = Exports("layer_norm")
_rms_norm = Exports("rms_norm")
_softmax_grad = Exports("softmax_grad")
_layer_norm_grad = Exports("layer_norm_grad")


@kernels("Softmax")
def softmax(logits: WasmArray, *, axis: int) -> Any:
    """Subtract the maximum first, so that exp never overflows."""
    return _softmax_along(logits, axis, 0)


@kernels("LogSoftmax")
def log_softmax(logits: WasmArray, *, axis: int) -> Any:
    """Subtract the maximum first, so that exp never overflows."""
    return _softmax_along(logits, axis, 1)


def _softmax_along(x: WasmArray, axis: int, log: int) -> Any:
    export, machine = _softmax[x.dtype], x.machine
    if export is None:
        return wider(lambda x: _softmax_along(x, axis, log), None, (x,))
    shape = x.shape
    outer = prod(shape[:axis])
    n = shape[axis]
    inner = prod(shape[axis + 1 :])
    y = empty(machine, shape, x.dtype)
    if n:
        machine.callers[export](x.pointer, y.pointer, outer, n, inner, log)
    return y


def _softmax_backward(dy: WasmArray, y: WasmArray, log: int) -> Any:
    """Return the gradient of softmax or its logarithm along the last axis."""
    export, machine = _softmax_grad[y.dtype], y.machine
    if export is None:
        return wider(lambda dy, y: _softmax_backward(dy, y, log), None, (dy, y))
    dx = empty(machine, y.shape, y.dtype)
    n = y.shape[-1]
    if dx.size:
        machine.callers[export](dy.pointer, y.pointer, dx.pointer, dx.size // n, n, log)
    return dx


kernels["plugrad_wasm.SoftmaxGrad"] = lambda dy, y: _softmax_backward(dy, y, 0)
kernels["plugrad_wasm.LogSoftmaxGrad"] = lambda dy, y: _softmax_backward(dy, y, 1)


@kernels("FusedBatchNorm")
def fused_batch_norm(
    x: WasmArray,
    mean: WasmArray,
    variance: WasmArray,
    scale: WasmArray | None,
    offset: WasmArray | None,
    *,
    epsilon: float,
) -> Any:
    """Normalize with one number per channel; other shapes are decomposed."""
    export, machine = _batch_norm[x.dtype], x.machine
    c = x.shape[-1] if x.shape else 1
    parameters = [t for t in (mean, variance, scale, offset) if t is not None]
    fit = [t.dtype is x.dtype and is_per_channel(t, c) for t in parameters]
    if export is None or not all(fit):
        return NotImplemented
    y = empty(machine, x.shape, x.dtype)
    factor = empty(machine, (c,), x.dtype)
    if c:
        pointers = [0 if t is None else t.pointer for t in (scale, offset, factor, y)]
        given = (x.pointer, mean.pointer, variance.pointer, *pointers)
        machine.callers[export](*given, y.size // c, c, epsilon)
    return y


def is_per_channel(x: WasmArray, c: int) -> bool:
    """Return whether ``x`` has one number for each of the ``c`` channels."""
    return prod(x.shape) == c and (c == 1 or x.shape[-1] == c)


@kernels("LayerNorm")
def layer_norm(
    x: WasmArray,
    scale: WasmArray | None,
    offset: WasmArray | None,
    *,
    axis: tuple[int, ...],
    epsilon: float,
) -> Any:
    """Normalize over the last axes; scale and offset have the shape of a row."""
    shape = x.shape
    export = _layer_norm[x.dtype]
    machine = x.machine
    first = axis[0] if axis else len(shape)
    n = prod(shape[first:])
    last = first - len(shape)
    if x.dtype.kind != "f" or prod([shape[i] for i in axis]) != n:
        return NotImplemented
    given = [t for t in (scale, offset) if t is not None]
    if any([t.size != n or prod(t.shape[last:]) != n for t in given]):
        return NotImplemented
    if export is None:
        wide = [t and cast(t, dtype=FLOAT32) for t in (scale, offset)]
        y = layer_norm(cast(x, dtype=FLOAT32), *wide, axis=axis, epsilon=epsilon)
        return cast(y, dtype=x.dtype)
    y = empty(machine, shape, x.dtype)
    if y.size:
        pointers = [0 if t is None else t.pointer for t in (scale, offset, y)]
        machine.callers[export](x.pointer, *pointers, y.size // n, n, epsilon)
    return y


@kernels("LayerNormGrad")
def layer_norm_grad(
    dy: WasmArray,
    x: WasmArray,
    scale: WasmArray | None,
    *,
    axis: tuple[int, ...],
    epsilon: float,
) -> Any:
    """Return the gradient over the last axis; the scale has the shape of a row."""
    export, machine = _layer_norm_grad[x.dtype], x.machine
    n = x.shape[-1] if x.shape else 0
    one = scale is None or is_per_channel(scale, n)
    if export is None or axis != (len(x.shape) - 1,) or not one:
        return NotImplemented
    dx = empty(machine, x.shape, x.dtype)
    if dx.size:
        given = (dy.pointer, x.pointer, scale.pointer if scale else 0, dx.pointer)
        machine.callers[export](*given, dx.size // n, n, epsilon)
    return dx


@kernels("RMSNorm")
def rms_norm(
    x: WasmArray, scale: WasmArray | None, *, axis: tuple[int, ...], epsilon: float
) -> Any:
    """Normalize over the last axis; the scale has the shape of a row."""
    export, machine = _rms_norm[x.dtype], x.machine
    n = x.shape[-1] if x.shape else 0
    one = scale is None or is_per_channel(scale, n)
    if export is None or axis != (len(x.shape) - 1,) or not one:
        return NotImplemented
    y = empty(machine, x.shape, x.dtype)
    if y.size:
        given = (x.pointer, scale.pointer if scale else 0, y.pointer)
        machine.callers[export](*given, y.size // n, n, epsilon)
    return y
