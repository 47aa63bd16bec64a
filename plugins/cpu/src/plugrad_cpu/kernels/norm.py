"""Softmax and normalization; float16 is computed in float32."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array
from ..native import (
    HALF,
    LOADED,
    contiguous,
    in_float32,
    rounded,
    sizes_around,
    widened,
)
from ..native import kernels as in_c
from ._windows import repeat_row
from .reduce import along

Axes = tuple[int, ...]
InC = dict[Any, Callable[..., None]]  # by dtype
kernels = KernelTable()
SOFTMAX, LAYER_NORM, BATCH_NORM = map(in_c, ("softmax", "layer_norm", "batch_norm"))
SOFTMAX_GRAD, LAYER_NORM_GRAD = map(in_c, ("softmax_grad", "layer_norm_grad"))
RMS_NORM = in_c("rms_norm")


def _in_c(functions: InC, sizes: Axes, log: int, *xs: Array) -> Array:
    """Run softmax, log-softmax or their gradients in C, or return NotImplemented."""
    function = functions.get(xs[0].dtype)
    like = xs[0]
    given = None if function is None else contiguous(*xs)
    if function is None or given is None:
        return NotImplemented
    y = np.empty(like.shape, like.dtype)
    if y.size:
        function(*given, y, *sizes, log)
    return y


def _softmax(log: int, x: Array, *, axis: int) -> Array:
    """Subtract the maximum first, so that exp never overflows."""
    y = _in_c(SOFTMAX, sizes_around(x.shape, axis), log, x)
    if y is not NotImplemented:
        return y
    if x.dtype == HALF:
        return in_float32(partial(_softmax, log), x, axis=axis)
    y = x - along(np.maximum, x, (axis,), True)
    e = np.exp(y, out=None if log else y)
    total = along(np.add, e, (axis,), True)
    return np.subtract(y, np.log(total), out=y) if log else np.divide(e, total, out=e)


def _softmax_grad(log: int, dy: Array, y: Array) -> Array:
    """Return the gradient of (log-)softmax along the last axis."""
    if y.dtype == HALF:
        return in_float32(partial(_softmax_grad, log), dy, y)
    return _in_c(SOFTMAX_GRAD, sizes_around(y.shape, y.ndim - 1)[:2], log, dy, y)


for _log, _name in enumerate(("Softmax", "LogSoftmax")):
    kernels[_name] = partial(_softmax, _log)
    if LOADED:
        kernels[f"plugrad_cpu.{_name}Grad"] = partial(_softmax_grad, _log)


@kernels("FusedBatchNorm")
def fused_batch_norm(
    x: Array,
    mean: Array,
    variance: Array,
    scale: Array | None,
    offset: Array | None,
    *,
    epsilon: float,
) -> Array:
    """Run in C if parameters have one value per channel; otherwise run on NumPy."""
    if x.dtype == HALF:
        parameters = mean, variance, scale, offset
        return in_float32(fused_batch_norm, x, *parameters, epsilon=epsilon)
    c = x.shape[-1:]
    parameters = (mean, variance, scale, offset)
    if all([t is None or (t.shape == c and t.dtype is x.dtype) for t in parameters]):
        function = BATCH_NORM.get(x.dtype)
        given = None if function is None else contiguous(x, *parameters)
        if function and given and x.size:
            factor = np.empty(c, x.dtype)
            y = np.empty(x.shape, x.dtype)
            function(*given, factor, y, x.size // c[0], *c, float(epsilon))
            return y
    factor = 1 / np.sqrt(variance + epsilon)
    factor = factor if scale is None else factor * scale  # may have more axes
    return _scale_and_shift(x - repeat_row(mean, x), factor, offset)


@kernels("LayerNorm")
def layer_norm(
    x: Array, scale: Array | None, offset: Array | None, *, axis: Axes, epsilon: float
) -> Array:
    """Normalize over the last axis: in C, or mostly in place with BLAS sums."""
    if axis != (x.ndim - 1,):
        return NotImplemented
    if x.dtype == HALF:
        return in_float32(layer_norm, x, scale, offset, axis=axis, epsilon=epsilon)
    n = x.shape[-1]
    function = LAYER_NORM.get(x.dtype)
    fits = function and _is_row(scale, n) and _is_row(offset, n)
    given = contiguous(x, scale, offset) if fits else None
    if function and given:
        z = np.empty(x.shape, x.dtype)
        if z.size:
            function(*given, z, z.size // n, n, float(epsilon))
        return z
    if n > 8192:  # longer sums would lose digits
        return NotImplemented
    y = x - np.vecdot(x, np.ones(n, x.dtype))[..., None] / n
    y *= 1 / np.sqrt(np.vecdot(y, y)[..., None] / n + epsilon)
    return _scale_and_shift(y, scale, offset)


def _is_row(y: Array | None, n: int) -> bool:
    """Return whether a scale or offset has one value for each element of a row."""
    return y is None or (y.size == n and (n == 1 or y.shape[-1] == n))


def layer_norm_grad(
    dy: Array, x: Array, scale: Array | None, *, axis: Axes, epsilon: float
) -> Array:
    """Run in C, or return NotImplemented, which makes the decomposition run."""
    if x.dtype == HALF:
        return in_float32(layer_norm_grad, dy, x, scale, axis=axis, epsilon=epsilon)
    function = LAYER_NORM_GRAD.get(x.dtype)
    n = x.shape[-1] if x.shape else 0
    fits = function and axis == (x.ndim - 1,) and _is_row(scale, n)
    given = contiguous(dy, x, scale) if fits else None
    if not function or given is None:
        return NotImplemented
    dx = np.empty(x.shape, x.dtype)
    if dx.size:
        function(*given, dx, dx.size // n, n, float(epsilon))
    return dx


def rms_norm(x: Array, scale: Array | None, *, axis: Axes, epsilon: float) -> Array:
    """Normalize over the last axis in C, or return NotImplemented."""
    if x.dtype == HALF:
        return in_float32(rms_norm, x, scale, axis=axis, epsilon=epsilon)
    function = RMS_NORM.get(x.dtype)
    n = x.shape[-1] if x.shape else 0
    fits = function and axis == (x.ndim - 1,) and _is_row(scale, n)
    given = contiguous(x, scale) if fits else None
    if not function or given is None:
        return NotImplemented
    y = np.empty(x.shape, x.dtype)
    if y.size:
        function(*given, y, y.size // n, n, float(epsilon))
    return y


if LOADED:
    kernels["LayerNormGrad"] = layer_norm_grad
    kernels["RMSNorm"] = rms_norm


def _scale_and_shift(y: Array, factor: Array | None, offset: Array | None) -> Array:
    """Return ``y * factor + offset``, computed in place."""
    if factor is not None:
        y *= repeat_row(factor, y)
    if offset is not None:
        y += repeat_row(offset, y)
    return y


@kernels("LRN")
def lrn(
    x: Array, *, depth_radius: int, bias: float, alpha: float, beta: float
) -> Array:
    """Divide by a power of the sum of squares of neighboring channels."""
    wide = widened(x)
    y = wide * (bias + alpha * _band(wide * wide, depth_radius)) ** -beta
    return rounded(y, x.dtype)


@kernels("LRNGrad")
def lrn_grad(
    x: Array,
    y: Array,
    dy: Array,
    *,
    depth_radius: int,
    bias: float,
    alpha: float,
    beta: float,
) -> Array:
    """Return the gradient; ``norm`` couples each channel with its neighbors."""
    wide = widened(x)
    wide_y = widened(y)
    wide_dy = widened(dy)
    norm = bias + alpha * _band(wide * wide, depth_radius)
    dx = wide_dy * norm**-beta
    dx -= 2 * alpha * beta * wide * _band(wide_dy * wide_y / norm, depth_radius)
    return rounded(dx, x.dtype)


def _band(x: Array, radius: int) -> Array:
    """Sum over channels at most ``radius`` away; use BLAS if there are few channels."""
    if (c := x.shape[-1]) <= 256:
        below = np.tri(c, c, radius, x.dtype)
        total = x @ (below * below.T)
        if not np.isnan(np.max(total, initial=0)):  # infinity times 0 is NaN
            return total
    total = x.copy()
    for shift in range(1, min(radius, c - 1) + 1):
        total[..., shift:] += x[..., :-shift]
        total[..., :-shift] += x[..., shift:]
    return total
