"""The workloads in HIPS autograd, which differentiates NumPy functions."""

from __future__ import annotations

from typing import Any

import autograd.numpy as np
from autograd import grad, value_and_grad
from autograd.extend import defvjp, primitive
from serve import Case, Cases, serve

cases = Cases()


@cases("grad_small")
def _(x: Any) -> Case:
    gradient = grad(lambda x: np.sum(np.tanh(x * x + x)))
    return lambda: gradient(x)


@cases("custom_grad")
def _(x: Any) -> Case:
    square = primitive(lambda x: x * x)
    defvjp(square, lambda y, x: lambda dy: dy * 2 * x)
    both = value_and_grad(lambda x: np.sum(square(x)))
    return lambda: both(x)


@cases("mlp_train")
def _(x: Any, labels: Any, **weights: Any) -> Case:
    w = list(weights.values())
    targets = np.eye(10, dtype=np.float32)[labels]

    def loss(w: Any) -> Any:
        h = np.maximum(np.dot(x, w[0]) + w[1], 0)
        h = np.maximum(np.dot(h, w[2]) + w[3], 0)
        z = np.dot(h, w[4]) + w[5]
        z = z - np.max(z, 1, keepdims=True)
        log_probabilities = z - np.log(np.sum(np.exp(z), 1, keepdims=True))
        return -np.mean(np.sum(targets * log_probabilities, 1))

    gradient = grad(loss)

    def step() -> Any:
        for v, dv in zip(w, gradient(w), strict=True):
            v -= 0.01 * dv
        return w

    return step


if __name__ == "__main__":
    serve(cases, ["autograd", "numpy"])
