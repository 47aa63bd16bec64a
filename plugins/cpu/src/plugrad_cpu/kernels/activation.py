"""Activation functions.

They are made of limits, which keep NaN, and not of ``where``, which is ten times as
slow: it has to guess which branch comes next.
"""

from collections.abc import Callable
from math import inf

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array
from ..native import LOADED, elementwise

kernels = KernelTable()
MANY = 4096  # elements


def _wide(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Compute float16 in float32."""

    def kernel(x: Array) -> Array:
        if x.dtype.itemsize == 2:
            return function(x.astype(np.float32)).astype(x.dtype)
        return function(x)

    return kernel


@elementwise("clip_f32")
def _limited(x: Array, low: float, high: float) -> Array:
    """Of many numbers ``clip`` is three times as fast as ``maximum`` of a scalar."""
    if x.size > MANY:
        return np.clip(x, x.dtype.type(low), x.dtype.type(high))
    return np.minimum(np.maximum(x, x.dtype.type(low)), x.dtype.type(high))


def _above(x: Array) -> Array:
    """``max(x, 0)``."""
    if x.size > MANY and x.dtype.kind == "f":
        return np.clip(x, 0, inf)
    return np.maximum(x, x.dtype.type(0))


def _below(x: Array) -> Array:
    """``min(x, 0)``."""
    return np.clip(x, -inf, 0) if x.size > MANY else np.minimum(x, 0)


def _no_negative_zero(y: Array) -> Array:
    y += y.dtype.type(0)
    return y


kernels["Relu"] = elementwise("relu_f32")(lambda x: _no_negative_zero(_above(x)))
kernels["Relu6"] = elementwise("relu6_f32")(
    lambda x: _no_negative_zero(_limited(x, 0, 6))
)
kernels["ClipByValue"] = lambda x, *, min, max: _limited(x, min, max)


@elementwise("leaky_relu_f32")
def leaky_relu(x: Array, alpha: float) -> Array:
    """With slopes of at most 1 it is a maximum; else it is Prelu."""
    slope = x.dtype.type(alpha)  # which may be 0 where alpha is not
    return np.maximum(x, x * slope) if 0 < slope <= 1 else prelu(x, slope)


kernels["LeakyRelu"] = lambda x, *, alpha: leaky_relu(x, alpha)


@kernels("Prelu")
@elementwise("prelu_f32", "ff->f")
def prelu(x: Array, alpha: Array) -> Array:
    """Slopes may be infinite or NaN, and do not matter where ``x`` is positive."""
    if np.isfinite(alpha).all():
        return _above(x) + _below(x) * alpha
    return np.where(x < 0, x * alpha, x)


@elementwise("step_f32")
def step(x: Array, alpha: float) -> Array:
    """NaN is neither positive nor not."""
    y = np.array(x > 0, x.dtype)
    if alpha:  # copies by a mask that is hard to guess are slow
        np.copyto(y, x.dtype.type(alpha), where=x <= 0)
    np.copyto(y, x, where=np.isnan(x))
    return y


kernels["Step"] = lambda x, *, alpha: step(x, alpha)


@kernels("Elu")
@elementwise("elu_f32")
@_wide
def elu(x: Array) -> Array:
    """One of the two terms is 0."""
    return np.expm1(_below(x)) + _above(x)


@kernels("EluGrad")
@elementwise("elu_grad_f32", "ff->f")
def elu_grad(dy: Array, y: Array) -> Array:
    """The slope is 1, or ``e^x = y + 1``."""
    return dy * (_below(y) + 1)


SCALE, ALPHA = 1.0507009873554805, 1.6732632423543772


@kernels("Selu")
@elementwise("selu_f32")
@_wide
def selu(x: Array) -> Array:
    """One of the two terms is 0."""
    return np.expm1(_below(x)) * (SCALE * ALPHA) + _above(x) * SCALE


@kernels("Sigmoid")
@elementwise("sigmoid_f32")
@_wide
def sigmoid(x: Array) -> Array:
    """``1 / (1 + e^-x)``, but where ``e^-x`` is large ``e^x / (1 + e^x)``."""
    y = np.negative(x, out=np.empty_like(x))
    np.exp(y, out=y)
    y += 1
    np.reciprocal(y, out=y)
    if not np.min(x, initial=0) > -16:  # or there are NaNs
        e = np.exp(x)
        np.divide(e, e + 1, out=y, where=x < -16)
    return y


@kernels("Softplus")
@elementwise("softplus_f32")
@_wide
def softplus(x: Array) -> Array:
    """No exponential of a positive number."""
    y = np.abs(x, out=np.empty_like(x))
    np.negative(y, out=y)
    np.exp(y, out=y)
    np.log1p(y, out=y)
    y += _above(x)
    return y


# In C alone; of other dtypes by their parts.
_GELU = {"Gelu": "gelu", "GeluTanh": "gelu_tanh"}
_BACK = _GELU | {name: name.lower() for name in ("Relu", "Sigmoid", "Tanh", "Erf")}
for _name, _symbol in _BACK.items() if LOADED else ():
    if _name in _GELU:
        kernels[_name] = elementwise(f"{_symbol}_f32")(lambda x: NotImplemented)
    in_c = elementwise(f"{_symbol}_grad_f32", "ff->f")
    kernels[f"plugrad_cpu.{_name}Grad"] = in_c(lambda dy, xy: NotImplemented)
