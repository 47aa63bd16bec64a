"""The workloads in plugrad; the argument is the backend, such as ``cpu``.

``cpu-jit`` runs them under ``jit``, and ``cpu-jit-own`` does so without plugins from
other distributions. Both run only the workloads in ``JIT_WORKLOADS``, whose functions
take their data as arguments. ``cpu-mixed`` runs these under ``jit`` and the others
eagerly.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import models
import plugrad as pg
from plugrad._src.registry.registry import registry
from serve import Case, Cases, serve

Tensor = pg.Tensor
cases = Cases()


JIT_WORKLOADS = ("grad_small", "gelu_1m", "tiny_mlp_train", "mlp_train", "cnn_train")
JIT_WORKLOADS += ("tiny_transformer", "transformer", "adam_1m", "softmax", "layernorm")
JIT_WORKLOADS += ("mobilenet_v2",)
replayed: Callable[..., Any] = lambda f: f  # pg.jit, if the argument asks for it


def main(name: str) -> None:
    """Serve on a backend; wait after each call if it is asynchronous."""
    global replayed
    backend = name.partition("-jit")[0].removesuffix("-mixed")
    pg.set_backend(backend)
    if backend != name:
        replayed = pg.jit
    if "-jit" in name:
        for case in cases.keys() - {*JIT_WORKLOADS}:
            del cases[case]
    opened = registry.opened[backend]
    wait = getattr(opened.runtime.arrays, "synchronize", None)
    packages = ["plugrad", opened.owner.distribution, "numpy"]
    serve(cases, packages, pg.asarray, lambda y: y.numpy(), wait, memory_usage)


def memory_usage() -> dict[str, int]:
    """Return the bytes of tensors, and the bytes kept for later results."""
    found = pg.memory().backends[pg.get_backend()]
    return {"bytes": found.bytes, "kept": found.kept}


@cases("add_8")
def _(a: Tensor, b: Tensor) -> Case:
    return lambda: a + b


@cases("grad_small")
def _(x: Tensor) -> Case:
    gradient = replayed(pg.grad(lambda x: pg.sum(pg.tanh(x * x + x))))
    return lambda: gradient(x)


@cases("custom_grad")
def _(x: Tensor) -> Case:
    @pg.custom_grad
    def square(x: Tensor) -> Any:
        return x * x, lambda dy: dy * 2 * x

    both = pg.value_and_grad(lambda x: pg.sum(square(x)))
    return lambda: both(x)


@cases("exp_1m")
def _(x: Tensor) -> Case:
    return lambda: pg.exp(x)


@cases("gelu_1m")
def _(x: Tensor) -> Case:
    gelu = replayed(
        lambda x: 0.5 * x * (1 + pg.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))
    )
    return lambda: gelu(x)


@cases("adam_1m")
def _(p: Tensor, m: Tensor, v: Tensor, g: Tensor) -> Case:
    @replayed
    def step(p: Tensor, m: Tensor, v: Tensor, g: Tensor) -> list[Tensor]:
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        return [p - 0.001 * m / (pg.sqrt(v) + 1e-8), m, v]

    return lambda: step(p, m, v, g)


@cases("add_bcast")
def _(a: Tensor, b: Tensor) -> Case:
    return lambda: a + b


@cases("sum_rows")
def _(x: Tensor) -> Case:
    return lambda: pg.sum(x, axis=1)


@cases("sum_cols")
def _(x: Tensor) -> Case:
    return lambda: pg.sum(x, axis=0)


@cases("softmax")
def _(x: Tensor) -> Case:
    softmax = replayed(lambda x: pg.softmax(x))
    return lambda: softmax(x)


@cases("layernorm")
def _(x: Tensor, scale: Tensor, offset: Tensor) -> Case:
    layer_norm = replayed(lambda *xs: pg.layer_norm(*xs))
    return lambda: layer_norm(x, scale, offset)


@cases("matmul_512")
@cases("matmul_1024")
@cases("bmm")
def _(a: Tensor, b: Tensor) -> Case:
    return lambda: pg.matmul(a, b)


@cases("conv3x3")
@cases("conv1x1")
def _(x: Tensor, w: Tensor) -> Case:
    return lambda: pg.conv2d(x, w, pad="same")


@cases("dwconv3x3")
def _(x: Tensor, w: Tensor) -> Case:
    return lambda: pg.depthwise_conv2d(x, w, pad="same")


@cases("maxpool")
def _(x: Tensor) -> Case:
    return lambda: pg.max_pool(x, 2)


@cases("transpose")
def _(x: Tensor) -> Case:
    transpose = lambda: pg.permute_dims(x, (2, 0, 1))
    if not transpose().numpy().flags.c_contiguous:  # a view: no data has moved
        return lambda: pg.asarray(transpose(), copy=True)
    return transpose


@cases("concat")
def _(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Case:
    return lambda: pg.concat([a, b, c, d], axis=2)


@cases("gather")
def _(x: Tensor, indices: Tensor) -> Case:
    return lambda: pg.take(x, indices, axis=0)


def _training(model: Callable[..., Tensor]) -> Callable[..., Case]:
    def make(x: Tensor, labels: Tensor, **weights: Tensor) -> Case:
        variables = [pg.Variable(w) for w in weights.values()]
        loss = pg.losses.sparse_softmax_cross_entropy
        update = replayed(
            lambda x, labels: models.sgd(lambda: loss(labels, model(variables, x)))
        )

        def step() -> list[Tensor]:
            update(x, labels)
            return [v.value for v in variables]

        return step

    return make


cases["mlp_train"] = cases["tiny_mlp_train"] = _training(models.mlp)
cases["cnn_train"] = _training(models.cnn)


@cases("mobilenet_v2")
def _(layers: Any, x: Tensor, **weights: Tensor) -> Case:
    network = replayed(lambda weights, x: models.mobilenet(layers, weights, x))
    return lambda: network(weights, x)


@cases("transformer")
@cases("tiny_transformer")
def _(x: Tensor, **weights: Tensor) -> Case:
    gradient = replayed(pg.grad(lambda p, x: pg.mean(pg.square(models.block(p, x)))))

    def gradients() -> list[Tensor]:
        found = gradient(weights, x)
        return [found[name] for name in weights]

    return gradients


if __name__ == "__main__":
    main(sys.argv[1])
