"""The workloads in JAX: compiled, except for three that measure eager execution.

With the argument ``jit`` or ``cuda``, these three are compiled as well.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from serve import Case, Cases, serve

Array = jax.Array
cases = Cases()
COMPILE_ALL = not {"jit", "cuda"}.isdisjoint(sys.argv[1:])


def blocking(f: Callable[..., Any], *xs: Any) -> Case:
    """Return a case that calls ``f(*xs)`` and waits for the result."""
    return lambda: jax.block_until_ready(f(*xs))


def eager(f: Callable[..., Any], *xs: Any) -> Case:
    """Return a case that is compiled only with the argument ``jit``."""
    return blocking(jax.jit(f) if COMPILE_ALL else f, *xs)


def compiled(f: Callable[..., Any], *xs: Any) -> Case:
    """Return a case that is compiled."""
    return blocking(jax.jit(f), *xs)


@cases("add_8")
def _(a: Array, b: Array) -> Case:
    return eager(lambda a, b: a + b, a, b)


@cases("grad_small")
def _(x: Array) -> Case:
    return eager(jax.grad(lambda x: jnp.sum(jnp.tanh(x * x + x))), x)


@cases("custom_grad")
def _(x: Array) -> Case:
    square = jax.custom_vjp(lambda x: x * x)
    square.defvjp(lambda x: (x * x, x), lambda x, dy: (dy * 2 * x,))
    return eager(jax.value_and_grad(lambda x: square(x).sum()), x)


@cases("exp_1m")
def _(x: Array) -> Case:
    return compiled(jnp.exp, x)


@cases("gelu_1m")
def _(x: Array) -> Case:
    gelu = lambda x: 0.5 * x * (1 + jnp.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))
    return compiled(gelu, x)


@cases("adam_1m")
def _(p: Array, m: Array, v: Array, g: Array) -> Case:
    def step(p: Array, m: Array, v: Array, g: Array) -> list[Array]:
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        return [p - 0.001 * m / (jnp.sqrt(v) + 1e-8), m, v]

    return compiled(step, p, m, v, g)


@cases("add_bcast")
def _(a: Array, b: Array) -> Case:
    return compiled(jnp.add, a, b)


@cases("sum_rows")
def _(x: Array) -> Case:
    return compiled(lambda x: x.sum(1), x)


@cases("sum_cols")
def _(x: Array) -> Case:
    return compiled(lambda x: x.sum(0), x)


@cases("softmax")
def _(x: Array) -> Case:
    return compiled(jax.nn.softmax, x)


def layer_norm(x: Array, scale: Array, offset: Array) -> Array:
    """Return ``x`` normalized along the last axis."""
    c = x - x.mean(-1, keepdims=True)
    return c * lax.rsqrt((c * c).mean(-1, keepdims=True) + 1e-5) * scale + offset


@cases("layernorm")
def _(x: Array, scale: Array, offset: Array) -> Case:
    return compiled(layer_norm, x, scale, offset)


@cases("matmul_512")
@cases("matmul_1024")
@cases("bmm")
def _(a: Array, b: Array) -> Case:
    return compiled(jnp.matmul, a, b)


def conv(x: Array, w: Array, stride: int = 1, groups: int = 1) -> Array:
    """Return a convolution with padding "same"."""
    layouts = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(
        x,
        w,
        (stride, stride),
        "SAME",
        dimension_numbers=layouts,
        feature_group_count=groups,
    )


def max_pool(x: Array) -> Array:
    """Return the maxima of windows of 2x2."""
    window = (1, 2, 2, 1)
    return lax.reduce_window(x, -jnp.inf, lax.max, window, window, "VALID")


@cases("conv3x3")
@cases("conv1x1")
def _(x: Array, w: Array) -> Case:
    return compiled(conv, x, w)


@cases("dwconv3x3")
def _(x: Array, w: Array) -> Case:
    return compiled(lambda x, w: conv(x, w, 1, 32), x, w.transpose(0, 1, 3, 2))


@cases("maxpool")
def _(x: Array) -> Case:
    return compiled(max_pool, x)


@cases("transpose")
def _(x: Array) -> Case:
    return compiled(lambda x: x.transpose(2, 0, 1), x)


@cases("concat")
def _(a: Array, b: Array, c: Array, d: Array) -> Case:
    return compiled(lambda *xs: jnp.concatenate(xs, 2), a, b, c, d)


@cases("gather")
def _(x: Array, indices: Array) -> Case:
    return compiled(lambda x, i: x[i], x, indices)


def mlp(w: list[Array], x: Array) -> Array:
    """Return the logits of three dense layers."""
    h = jax.nn.relu(x @ w[0] + w[1])
    h = jax.nn.relu(h @ w[2] + w[3])
    return h @ w[4] + w[5]


def cnn(w: list[Array], x: Array) -> Array:
    """Return the logits of two convolutions and a dense layer."""
    h = max_pool(jax.nn.relu(conv(x, w[0]) + w[1]))
    h = max_pool(jax.nn.relu(conv(h, w[2]) + w[3]))
    return h.reshape(len(x), -1) @ w[4] + w[5]


def training(model: Callable[..., Array]) -> Callable[..., Case]:
    """Return a function that makes a step of gradient descent."""

    def make(x: Array, labels: Array, **weights: Array) -> Case:
        def loss(w: list[Array]) -> Array:
            log_probabilities = jax.nn.log_softmax(model(w, x))
            return -jnp.mean(jnp.take_along_axis(log_probabilities, labels[:, None], 1))

        update = jax.jit(
            lambda w: [
                v - 0.01 * dv for v, dv in zip(w, jax.grad(loss)(w), strict=True)
            ]
        )
        w = list(weights.values())

        def step() -> list[Array]:
            nonlocal w
            w = jax.block_until_ready(update(w))
            return w

        return step

    return make


cases["mlp_train"] = cases["tiny_mlp_train"] = training(mlp)
cases["cnn_train"] = training(cnn)


@cases("mobilenet_v2")
def _(layers: Any, x: Array, **weights: Array) -> Case:
    for i, layer in enumerate(layers):
        if layer["kind"] == "depthwise":
            weights[f"w{i}"] = weights[f"w{i}"].transpose(0, 1, 3, 2)

    def mobilenet(x: Array, weights: dict[str, Array]) -> Array:
        skip = x
        for i, layer in enumerate(layers):
            w, b = weights[f"w{i}"], weights[f"b{i}"]
            if layer["kind"] == "dense":
                x = x.mean((1, 2)) @ w + b
                continue
            if layer["skip"] == "from":
                skip = x
            groups = x.shape[-1] if layer["kind"] == "depthwise" else 1
            x = conv(x, w, layer["stride"], groups) + b
            if layer["relu6"]:
                x = jnp.clip(x, 0, 6)
            if layer["skip"] == "to":
                x = x + skip
        return x

    return compiled(mobilenet, x, weights)


def block(p: dict[str, Array], x: Array) -> Array:
    """Return one pre-norm block."""
    n, length, d = x.shape
    split = lambda z: z.reshape(n, length, 4, d // 4).transpose(0, 2, 1, 3)
    h = layer_norm(x, p["g1"], p["b1"])
    q, k, v = (split(h @ p[name]) for name in ("wq", "wk", "wv"))
    scores = jax.nn.softmax(q @ k.swapaxes(-1, -2) * (d // 4) ** -0.5)
    mixed = (scores @ v).transpose(0, 2, 1, 3).reshape(n, length, d)
    x = x + mixed @ p["wo"]
    h = layer_norm(x, p["g2"], p["b2"])
    h = jax.nn.gelu(h @ p["w1"] + p["c1"], approximate=True)
    return x + h @ p["w2"] + p["c2"]


@cases("transformer")
@cases("tiny_transformer")
def _(x: Array, **weights: Array) -> Case:
    gradient = jax.grad(lambda p: (block(p, x) ** 2).mean())

    def gradients(p: dict[str, Array]) -> list[Array]:
        by_name = gradient(p)  # sorted by name
        return [by_name[name] for name in weights]

    return compiled(gradients, weights)


if __name__ == "__main__":
    if "cuda" in sys.argv[1:]:
        try:
            jax.devices("cuda")
        except (RuntimeError, AssertionError):  # JAX finds no device
            sys.exit("Error: jax-cuda needs an NVIDIA GPU and JAX with CUDA")
        jax.config.update("jax_default_matmul_precision", "highest")  # no TF32
    serve(cases, ["jax", "jaxlib"], jnp.asarray)
