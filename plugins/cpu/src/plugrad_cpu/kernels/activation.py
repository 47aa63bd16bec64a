"""Activation functions.

They use ``minimum`` and ``maximum``, which propagate NaN. ``where`` is ten times slower
because of branch mispredictions.
"""

from collections.abc import Callable
from math import inf

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array
from ..native import LOADED, elementwise
from .unary import by_blocks, scaled_erfc, times_gaussian

kernels = KernelTable()
CLIP_MIN_ELEMENTS = 4096  # for larger arrays, np.clip is faster
ROOT_HALF = 0.5**0.5
# The factors of x and x³ in the tanh approximation of gelu, split into two parts: the
# high parts have few bits, so that their products are exact.
SLOPE = (8 / np.pi) ** 0.5
CUBE = 0.044715 * SLOPE
LINE_HIGH, LINE_REST = 1.5957691216026433, 3.0874305383944692e-12
CUBE_HIGH, CUBE_REST = 0.07135391235351562, 9.039190846237764e-07


def _wide(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Make a kernel compute float16 in float32."""

    def kernel(x: Array) -> Array:
        if x.dtype.itemsize == 2:
            return function(x.astype(np.float32)).astype(x.dtype)
        return function(x)

    return kernel


@elementwise("clip_f32")
def _limited(x: Array, low: float, high: float) -> Array:
    """Clip to the limits; for large arrays, ``clip`` is faster than ``maximum``."""
    if x.size > CLIP_MIN_ELEMENTS:
        return np.clip(x, x.dtype.type(low), x.dtype.type(high))
    return np.minimum(np.maximum(x, x.dtype.type(low)), x.dtype.type(high))


def _positive_part(x: Array) -> Array:
    """Return ``max(x, 0)``."""
    if x.size > CLIP_MIN_ELEMENTS and x.dtype.kind == "f":
        return np.clip(x, 0, inf)
    return np.maximum(x, x.dtype.type(0))


def _negative_part(x: Array) -> Array:
    """Return ``min(x, 0)``."""
    return np.clip(x, -inf, 0) if x.size > CLIP_MIN_ELEMENTS else np.minimum(x, 0)


def _no_negative_zero(y: Array) -> Array:
    y += y.dtype.type(0)
    return y


kernels["Relu"] = elementwise("relu_f32")(
    lambda x: _no_negative_zero(_positive_part(x))
)
kernels["Relu6"] = elementwise("relu6_f32")(
    lambda x: _no_negative_zero(_limited(x, 0, 6))
)
kernels["ClipByValue"] = lambda x, *, min, max: _limited(x, min, max)


@elementwise("leaky_relu_f32")
def leaky_relu(x: Array, alpha: float) -> Array:
    """Return ``max(x, alpha x)`` if alpha is in (0, 1]; otherwise use Prelu."""
    slope = x.dtype.type(alpha)  # may round to 0
    return np.maximum(x, x * slope) if 0 < slope <= 1 else prelu(x, slope)


kernels["LeakyRelu"] = lambda x, *, alpha: leaky_relu(x, alpha)


@kernels("Prelu")
@elementwise("prelu_f32", "ff->f")
def prelu(x: Array, alpha: Array) -> Array:
    """Return ``x`` where it is positive, whatever the slope, and else ``alpha x``."""
    if np.isfinite(alpha).all():
        return _positive_part(x) + _negative_part(x) * alpha
    return np.where(x < 0, x * alpha, x)


@elementwise("step_f32")
def step(x: Array, alpha: float) -> Array:
    """Return 1 if ``x`` is positive, NaN if it is NaN, and otherwise ``alpha``."""
    y = np.array(x > 0, x.dtype)
    if alpha:  # masked copies are slow if the mask is irregular
        np.copyto(y, x.dtype.type(alpha), where=x <= 0)
    np.copyto(y, x, where=np.isnan(x))
    return y


kernels["Step"] = lambda x, *, alpha: step(x, alpha)


@kernels("Elu")
@elementwise("elu_f32")
@_wide
def elu(x: Array) -> Array:
    """Add the terms for negative and positive ``x``, one of which is always 0."""
    return np.expm1(_negative_part(x)) + _positive_part(x)


@kernels("EluGrad")
@elementwise("elu_grad_f32", "ff->f")
def elu_grad(dy: Array, y: Array) -> Array:
    """Multiply ``dy`` by the slope of elu: 1, or ``e^x = y + 1`` for negative x."""
    return dy * (_negative_part(y) + 1)


SCALE, ALPHA = 1.0507009873554805, 1.6732632423543772


@kernels("Selu")
@elementwise("selu_f32")
@_wide
def selu(x: Array) -> Array:
    """Add the terms for negative and positive ``x``, one of which is always 0."""
    return np.expm1(_negative_part(x)) * (SCALE * ALPHA) + _positive_part(x) * SCALE


@kernels("Sigmoid")
@elementwise("sigmoid_f32")
@_wide
def sigmoid(x: Array) -> Array:
    """Return ``1 / (1 + e^-x)``, or ``e^x / (1 + e^x)`` where ``e^-x`` is large."""
    y = np.negative(x, out=np.empty_like(x))
    np.exp(y, out=y)
    y += 1
    np.reciprocal(y, out=y)
    if not np.min(x, initial=0) > -16:  # also true if there are NaNs
        e = np.exp(x)
        np.divide(e, e + 1, out=y, where=x < -16)
    return y


@kernels("Softplus")
@elementwise("softplus_f32")
@_wide
def softplus(x: Array) -> Array:
    """Return ``log(1 + e^x)``; exponentials of negative numbers cannot overflow."""
    y = np.abs(x, out=np.empty_like(x))
    np.negative(y, out=y)
    np.exp(y, out=y)
    np.log1p(y, out=y)
    y += _positive_part(x)
    return y


@by_blocks
def _gelu(x: Array, out: Array) -> None:
    """Compute float32 in float64; below 0, use a formula without cancellation."""
    a = np.abs(x, dtype=np.float64)
    y, correction = scaled_erfc(a * ROOT_HALF, x.dtype)
    y *= 0.5 * np.minimum(x, 40)  # avoids inf · 0, which is NaN
    tail = times_gaussian(y, correction, a, 0.5)
    np.copyto(out, np.where(x <= 0, tail, x - tail), casting="same_kind")


@by_blocks
def _gelu_tanh(x: Array, out: Array) -> None:
    """Compute ``x`` times a sigmoid; ``1 + tanh`` would lose digits to cancellation."""
    e = _exp_gelu_tanh(np.clip(x, -22, 22).astype(np.float64))
    y = np.where(x < 0, e, 1)
    y /= e + 1
    y *= x
    np.copyto(out, y, casting="same_kind")


def _exp_gelu_tanh(x: Array) -> Array:
    """Return ``e^-|u|`` in float64 for ``u = √(8/π) · (x + 0.044715 x³)``.

    ``c`` is x rounded to 13 bits: the sum of its products with the high parts is exact,
    and the remainder of ``u`` is small.
    """
    c = np.rint(x * 256) * (1 / 256)
    cube = c * c * c
    rest = c * LINE_REST + cube * CUBE_REST
    rest += (x - c) * ((x * x + x * c + c * c) * CUBE + SLOPE)
    e = np.exp(-np.abs(c * LINE_HIGH + cube * CUBE_HIGH))
    e *= np.exp(np.where(x < 0, rest, -rest))
    return e


kernels["Gelu"] = elementwise("gelu_f32")(_gelu)
kernels["GeluTanh"] = elementwise("gelu_tanh_f32")(_gelu_tanh)


def _slope(dy: Array, x: Array, factor: float) -> Array:
    """Return ``dy`` times the slope of ``factor · sigmoid(factor · x)``."""
    if x.dtype.kind == "c":
        return NotImplemented
    if x.dtype.itemsize == 2:
        wide = _slope(dy.astype(np.float32), x.astype(np.float32), factor)
        return wide.astype(x.dtype)
    e = np.abs(x, out=np.empty_like(x))
    e *= -factor
    np.exp(e, out=e)
    r = np.asarray(1 / (e + 1))
    e *= factor * factor
    e *= r
    e *= r
    return dy * e


@kernels("SigmoidGrad")
@elementwise("sigmoid_grad_f32", "ff->f")
def sigmoid_grad(dy: Array, x: Array) -> Array:
    """Compute the slope from the input: ``1 - y`` would lose digits near 1."""
    return _slope(dy, x, 1.0)


@kernels("TanhGrad")
@elementwise("tanh_grad_f32", "ff->f")
def tanh_grad(dy: Array, x: Array) -> Array:
    """Compute the slope of ``2 sigmoid(2 x) - 1``, which equals ``tanh(x)``."""
    return _slope(dy, x, 2.0)


# Gradients in C; for dtypes that C does not support, their decompositions run.
_GELU = {"Gelu": "gelu", "GeluTanh": "gelu_tanh"}
_BACK = _GELU | {name: name.lower() for name in ("Relu", "Sigmoid", "Tanh", "Erf")}
for _name, _symbol in _BACK.items() if LOADED else ():
    in_c = elementwise(f"{_symbol}_grad_f32", "ff->f")
    kernels[f"plugrad_cpu.{_name}Grad"] = in_c(lambda dy, xy: NotImplemented)
