"""Activation functions.

They are made of minima and maxima, which keep NaN, and not of ``where``, which is ten
times as slow: it has to guess which branch comes next.
"""

from collections.abc import Callable

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array

kernels = KernelTable()


def _wide(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Compute float16 in float32."""

    def kernel(x: Array) -> Array:
        if x.dtype.itemsize == 2:
            return function(x.astype(np.float32)).astype(x.dtype)
        return function(x)

    return kernel


@kernels("Relu")
def relu(x: Array) -> Array:
    """``maximum`` keeps NaN."""
    return np.maximum(x, x.dtype.type(0))


@kernels("Relu6")
def relu6(x: Array) -> Array:
    """``clip`` keeps NaN."""
    return np.clip(x, x.dtype.type(0), x.dtype.type(6))


@kernels("ClipByValue")
def clip_by_value(x: Array, *, min: float, max: float) -> Array:
    """``clip`` keeps NaN."""
    return np.clip(x, x.dtype.type(min), x.dtype.type(max))


@kernels("LeakyRelu")
def leaky_relu(x: Array, *, alpha: float) -> Array:
    """With the usual slopes it is a maximum."""
    if 0 < alpha <= 1:
        return np.maximum(x, x * x.dtype.type(alpha))
    return np.maximum(x, 0) + np.minimum(x, 0) * x.dtype.type(alpha)


@kernels("Prelu")
def prelu(x: Array, alpha: Array) -> Array:
    """Slopes may be infinite or NaN, and do not matter where ``x`` is positive."""
    if np.isfinite(alpha).all():
        return np.maximum(x, 0) + np.minimum(x, 0) * alpha
    return np.where(x < 0, x * alpha, x)


@kernels("Step")
def step(x: Array, *, alpha: float) -> Array:
    """Of what is not positive, only NaN stays."""
    y = (x > 0).astype(x.dtype)
    if alpha:
        y = np.take(np.asarray([alpha, 1], x.dtype), x > 0)
    nan = np.isnan(x)
    return np.where(nan, x, y) if nan.any() else y


@kernels("Elu")
@_wide
def elu(x: Array) -> Array:
    """One of the two terms is 0."""
    return np.expm1(np.minimum(x, 0)) + np.maximum(x, 0)


@kernels("EluGrad")
def elu_grad(dy: Array, y: Array) -> Array:
    """The slope is 1, or ``e^x = y + 1``."""
    return dy * (np.minimum(y, 0) + 1)


SCALE, ALPHA = 1.0507009873554805, 1.6732632423543772


@kernels("Selu")
@_wide
def selu(x: Array) -> Array:
    """One of the two terms is 0."""
    below = np.expm1(np.minimum(x, 0)) * (SCALE * ALPHA)
    return below + np.maximum(x, 0) * SCALE


@kernels("Sigmoid")
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
@_wide
def softplus(x: Array) -> Array:
    """No exponential of a positive number."""
    y = np.abs(x, out=np.empty_like(x))
    np.negative(y, out=y)
    np.exp(y, out=y)
    np.log1p(y, out=y)
    y += np.maximum(x, 0)
    return y
