"""The networks of the workloads, as a user of plugrad would write them.

Contents: classifiers and a step of their training; MobileNetV2; a transformer block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import plugrad as pg

Loss = Callable[[], pg.Tensor]


# --- classifiers -----------------------------------------------------------------


def mlp(w: Sequence[Any], x: pg.Tensor) -> pg.Tensor:
    """Return the logits of three dense layers."""
    h = pg.relu(pg.matmul(x, w[0]) + w[1])
    h = pg.relu(pg.matmul(h, w[2]) + w[3])
    return pg.matmul(h, w[4]) + w[5]


def cnn(w: Sequence[Any], x: pg.Tensor) -> pg.Tensor:
    """Return the logits of two convolutions, each with pooling, and a dense layer."""
    h = pg.max_pool(pg.relu(pg.conv2d(x, w[0], pad="same") + w[1]), 2)
    h = pg.max_pool(pg.relu(pg.conv2d(h, w[2], pad="same") + w[3]), 2)
    return pg.matmul(pg.reshape(h, (h.shape[0], -1)), w[4]) + w[5]


def sgd(loss: Loss, rate: float = 0.01) -> pg.Tensor:
    """Take a gradient descent step on the variables of ``loss``; return the loss."""
    value, gradients = pg.variable_grads(loss)
    for v, dv in gradients.items():
        v.assign(v.value - rate * dv)
    return value


# --- MobileNetV2 -----------------------------------------------------------------


def mobilenet(
    layers: Sequence[Mapping[str, Any]],
    weights: Mapping[str, pg.Tensor],
    x: pg.Tensor,
) -> pg.Tensor:
    """Return the logits of images; layer ``i`` has the weights ``w<i>`` and ``b<i>``.

    The weights and biases include batch norm, so each layer is one kernel.
    """
    skip = x
    for i, layer in enumerate(layers):
        w = weights[f"w{i}"]
        b = weights[f"b{i}"]
        if layer["kind"] == "dense":
            x = pg.matmul(pg.mean(x, axis=(1, 2)), w) + b
            continue
        if layer["skip"] == "from":
            skip = x
        deep = layer["kind"] == "depthwise"
        convolve = pg.fused.depthwise_conv2d if deep else pg.fused.conv2d
        activation = "relu6" if layer["relu6"] else "linear"
        stride = layer["stride"]
        x = convolve(x, w, b, strides=stride, pad="same", activation=activation)
        if layer["skip"] == "to":
            x = x + skip
    return x


# --- a transformer block ---------------------------------------------------------


def block(p: Mapping[str, pg.Tensor], x: pg.Tensor, heads: int = 4) -> pg.Tensor:
    """Return a pre-norm block of attention and a dense network, ``[n, length, d]``."""
    n, length, d = x.shape

    def split(x: pg.Tensor) -> pg.Tensor:
        parts = pg.reshape(x, (n, length, heads, d // heads))
        return pg.permute_dims(parts, (0, 2, 1, 3))

    h = pg.layer_norm(x, p["g1"], p["b1"])
    q, k, v = (split(pg.matmul(h, p[name])) for name in ("wq", "wk", "wv"))
    scores = pg.matmul(q, k, transpose_b=True) * (d // heads) ** -0.5
    mixed = pg.permute_dims(pg.matmul(pg.softmax(scores), v), (0, 2, 1, 3))
    x = x + pg.matmul(pg.reshape(mixed, (n, length, d)), p["wo"])
    h = pg.layer_norm(x, p["g2"], p["b2"])
    h = pg.gelu(pg.matmul(h, p["w1"]) + p["c1"], approximate=True)
    return x + pg.matmul(h, p["w2"]) + p["c2"]
