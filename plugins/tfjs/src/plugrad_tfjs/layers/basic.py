"""Dense, embedding, normalization, activation and reshaping layers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import plugrad as pg
from plugrad import Tensor

from ..activations import Activation
from ..settings import Format, Ints
from .table import layer

LINEAR: Any = "linear"


def with_bias(s: Mapping[str, Any], size: int | None) -> dict[str, Any]:
    """Return a dict with the shape of the bias; empty if there is no bias."""
    return {"bias": (size,)} if s["use_bias"] else {}


@layer(
    "Dense",
    shapes=lambda s: {"kernel": (None, s["units"]), **with_bias(s, s["units"])},
    masks="keeps",
)
def dense(
    x: Any,
    *,
    kernel: Tensor,
    bias: Tensor | None = None,
    units: int,
    activation: Activation = LINEAR,
    use_bias: bool = True,
) -> Any:
    y = x @ kernel
    return activation(y if bias is None else y + bias)


@layer(
    "Embedding",
    shapes=lambda s: {"embeddings": (s["input_dim"], s["output_dim"])},
)
def embedding(
    x: Any,
    *,
    embeddings: Tensor,
    input_dim: int,
    output_dim: int,
    mask_zero: bool = False,
) -> Any:
    return pg.take(embeddings, pg.astype(x, pg.int32), axis=0)


@layer("Activation", masks="keeps")
def activate(x: Any, *, activation: Activation) -> Any:
    return activation(x)


@layer(
    "InputLayer",
    "Dropout",
    "SpatialDropout1D",
    "SpatialDropout2D",
    "GaussianNoise",
    "GaussianDropout",
    "AlphaDropout",
    "ActivityRegularization",
    masks="keeps",
)
def identity(x: Any) -> Any:
    return x


@layer("Masking", masks="drops")
def masking(x: Any, *, mask_value: float = 0.0) -> Any:
    valid = pg.any(pg.not_equal(x, mask_value), axis=-1, keepdims=True)
    return x * pg.astype(valid, x.dtype)


@layer("ReLU", masks="keeps")
def relu(
    x: Any,
    *,
    max_value: float | None = None,
    negative_slope: float = 0.0,
    threshold: float = 0.0,
) -> Any:
    if threshold == negative_slope == 0.0 and max_value in (None, 6.0):
        return pg.relu(x) if max_value is None else pg.relu6(x)
    above = x if max_value is None else pg.minimum(x, max_value)
    below = negative_slope * (x - threshold)
    return pg.where(pg.greater_equal(x, threshold), above, below)


@layer("LeakyReLU", masks="keeps")
def leaky_relu(x: Any, *, alpha: float = 0.3) -> Any:
    return pg.leaky_relu(x, alpha=alpha)


@layer("ELU", masks="keeps")
def elu(x: Any, *, alpha: float = 1.0) -> Any:
    return pg.where(pg.greater(x, 0.0), x, alpha * pg.elu(x))


@layer("ThresholdedReLU", masks="keeps")
def thresholded_relu(x: Any, *, theta: float = 1.0) -> Any:
    return x * pg.astype(pg.greater(x, theta), x.dtype)


@layer("Softmax", masks="keeps")
def softmax(x: Any, *, axis: int = -1) -> Any:
    return pg.softmax(x, axis=axis)


@layer("PReLU", shapes=lambda s: {"alpha": None}, masks="keeps")
def prelu(x: Any, *, alpha: Tensor, shared_axes: Ints | None = None) -> Any:
    return pg.prelu(x, alpha)


def _scale_and_offset(s: Mapping[str, Any]) -> dict[str, Any]:
    used = {"gamma": s["scale"], "beta": s["center"]}
    return dict.fromkeys(name for name, is_used in used.items() if is_used)


@layer(
    "BatchNormalization",
    shapes=lambda s: {
        **dict.fromkeys(
            [*_scale_and_offset(s), "moving_mean", "moving_variance"], (None,)
        )
    },
    masks="keeps",
)
def batch_normalization(
    x: Any,
    *,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    moving_mean: Tensor,
    moving_variance: Tensor,
    axis: Ints = (-1,),
    epsilon: float = 1e-3,
    center: bool = True,
    scale: bool = True,
) -> Any:
    shape = [1] * x.ndim
    shape[axis[0]] = x.shape[axis[0]]
    is_last = axis[0] % x.ndim == x.ndim - 1
    weights: Any = (moving_mean, moving_variance, beta, gamma)
    reshaped: Any = [
        w if is_last or w is None else pg.reshape(w, shape) for w in weights
    ]
    mean, variance, offset, factor = reshaped
    return pg.batch_norm(x, mean, variance, offset, factor, epsilon=epsilon)


@layer("LayerNormalization", shapes=_scale_and_offset, masks="keeps")
def layer_normalization(
    x: Any,
    *,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    axis: Ints = (-1,),
    epsilon: float = 1e-3,
    center: bool = True,
    scale: bool = True,
) -> Any:
    axes = sorted(n % x.ndim for n in axis)
    shape = [x.shape[n] if n in axes else 1 for n in range(x.ndim)][axes[0] :]
    weights = [w if w is None else pg.reshape(w, shape) for w in (gamma, beta)]
    if axes == [*range(axes[0], x.ndim)]:
        return pg.layer_norm(x, *weights, axis=axes, epsilon=epsilon)
    y = pg.layer_norm(x, axis=axes, epsilon=epsilon)
    y = y if weights[0] is None else y * weights[0]
    return y if weights[1] is None else y + weights[1]


@layer("Flatten", masks="keeps")
def flatten(x: Any, *, data_format: Format = "channels_last") -> Any:
    if data_format in ("channels_first", "channelsFirst") and x.ndim > 2:
        x = pg.moveaxis(x, 1, -1)
    return pg.reshape(x, (x.shape[0], math.prod(x.shape[1:])))


@layer("Reshape")
def reshape(x: Any, *, target_shape: Any) -> Any:
    sizes = [-1 if n is None else n for n in target_shape]
    return pg.reshape(x, (x.shape[0], *sizes))


@layer("Permute", masks="keeps")
def permute(x: Any, *, dims: Ints) -> Any:
    return pg.permute_dims(x, (0, *dims))


@layer("RepeatVector")
def repeat_vector(x: Any, *, n: int) -> Any:
    return pg.repeat(pg.expand_dims(x, 1), n, axis=1)
