"""Activations by their Keras and TensorFlow.js names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import plugrad as pg

__all__ = ["Activation", "Fused", "activation", "fused_names"]

Activation = Callable[[Any], Any]
# Whether a fused op has a bias, and the name of its activation.
Fused = tuple[bool, str]

ACTIVATIONS: dict[str, Activation] = {
    "linear": lambda x: x,
    "elu": pg.elu,
    "exponential": pg.exp,
    "gelu": pg.gelu,
    "gelu_new": lambda x: pg.gelu(x, approximate=True),
    "hard_sigmoid": lambda x: pg.clip(0.2 * x + 0.5, 0.0, 1.0),
    "log_softmax": pg.log_softmax,
    "mish": pg.mish,
    "relu": pg.relu,
    "relu6": pg.relu6,
    "selu": pg.selu,
    "sigmoid": pg.sigmoid,
    "softmax": pg.softmax,
    "softplus": pg.softplus,
    "softsign": lambda x: x / (1.0 + pg.abs(x)),
    "swish": pg.silu,
    "silu": pg.silu,
    "tanh": pg.tanh,
}
_CAMEL_CASE_NAMES = {"hardSigmoid": "hard_sigmoid", "logSoftmax": "log_softmax"}


def activation(name: Any) -> Activation:
    """Return the activation of this name; raise ValueError if it is unknown."""
    if isinstance(name, dict):  # Keras 2 can write an activation as a layer
        name = str(name.get("class_name")).lower()
    name = _CAMEL_CASE_NAMES.get(str(name), str(name))
    if name not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise ValueError(f"there is no activation {name!r}; use one of {known}")
    return ACTIVATIONS[name]


FUSED = {"Relu": "relu", "Relu6": "relu6", "Elu": "elu", "Prelu": "prelu"}
FUSED |= {"LeakyRelu": "leaky_relu", "Sigmoid": "sigmoid"}


def fused_names(names: Any) -> Fused:
    """Return whether a fused op has a bias, and its activation, from ``fused_ops``."""
    remaining = [*names] if isinstance(names, tuple) else [names]
    bias = remaining[:1] == ["BiasAdd"]
    remaining = remaining[bias:]
    if len(remaining) > 1 or any(name not in FUSED for name in remaining):
        raise ValueError(f"the fused ops {names!r} are not supported")
    return bias, FUSED[remaining[0]] if remaining else "linear"
