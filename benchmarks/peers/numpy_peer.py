"""The workloads that NumPy can compute in one or two lines."""

from __future__ import annotations

from typing import Any

import numpy as np
from serve import Case, Cases, serve

Array = np.ndarray[Any, Any]
cases = Cases()


@cases("add_8")
@cases("add_bcast")
def _(a: Array, b: Array) -> Case:
    return lambda: a + b


@cases("exp_1m")
def _(x: Array) -> Case:
    return lambda: np.exp(x)


@cases("gelu_1m")
def _(x: Array) -> Case:
    return lambda: 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


@cases("adam_1m")
def _(p: Array, m: Array, v: Array, g: Array) -> Case:
    def step() -> list[Array]:
        first = 0.9 * m + 0.1 * g
        second = 0.999 * v + 0.001 * g * g
        return [p - 0.001 * first / (np.sqrt(second) + 1e-8), first, second]

    return step


@cases("sum_rows")
def _(x: Array) -> Case:
    return lambda: x.sum(1)


@cases("sum_cols")
def _(x: Array) -> Case:
    return lambda: x.sum(0)


@cases("softmax")
def _(x: Array) -> Case:
    def softmax() -> Array:
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    return softmax


@cases("layernorm")
def _(x: Array, scale: Array, offset: Array) -> Case:
    def layer_norm() -> Array:
        c = x - x.mean(-1, keepdims=True)
        return c / np.sqrt((c * c).mean(-1, keepdims=True) + 1e-5) * scale + offset

    return layer_norm


@cases("matmul_512")
@cases("matmul_1024")
@cases("bmm")
def _(a: Array, b: Array) -> Case:
    return lambda: a @ b


@cases("transpose")
def _(x: Array) -> Case:
    return lambda: np.ascontiguousarray(x.transpose(2, 0, 1))


@cases("concat")
def _(a: Array, b: Array, c: Array, d: Array) -> Case:
    return lambda: np.concatenate([a, b, c, d], 2)


@cases("gather")
def _(x: Array, indices: Array) -> Case:
    return lambda: x[indices]


if __name__ == "__main__":
    serve(cases, ["numpy"])
