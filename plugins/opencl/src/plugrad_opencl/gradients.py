"""Gradients that run one kernel where the core's run two to five.

Each kernel is decomposed into what the core's gradient does. So derivatives of higher
order are recorded as the core's are, and dtypes without code are computed as there.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import plugrad as pg
from plugrad.plugin import Kernel, Spec, Tensor, decomposition, run


def _alike(dy: Spec, other: Spec) -> Spec:
    if dy.shape != other.shape:
        raise ValueError(
            f"gradient: dy has shape {dy.shape} and the other input {other.shape}; "
            "they must be equal"
        )
    return dy


def _rows(dy: Spec, y: Spec) -> Spec:
    if not dy.shape:
        raise ValueError("gradient: dy has rank 0, and no axis to sum over; reshape it")
    return _alike(dy, y)


def _kernel(
    signature: str,
    doc: str,
    meaning: Callable[..., Tensor],
    out: Callable[..., Spec] = _alike,
) -> Kernel:
    """Return a contract, with what it means in other ops."""
    kernel = Kernel(f"plugrad_opencl.{signature} -> dx", out=out, doc=doc)
    decomposition(kernel, meaning)
    return kernel


RELU_GRAD = _kernel(
    "ReluGrad(dy: floating, y: dy)",
    "``dy`` where y > 0, else ``y``: of the output of Relu 0 or NaN.",
    lambda dy, y: pg.where(y > 0, dy, y),
)
TANH_GRAD = _kernel(
    "TanhGrad(dy: inexact, y: dy)",
    "``dy · conj(1 - y²)``, y is the output of Tanh.",
    lambda dy, y: dy * pg.conj(1 - y * y),
)
SIGMOID_GRAD = _kernel(
    "SigmoidGrad(dy: floating, y: dy)",
    "``dy · y · (1 - y)``, y is the output of Sigmoid.",
    lambda dy, y: dy * (y * (1 - y)),
)
ERF_GRAD = _kernel(
    "ErfGrad(dy: floating, x: dy)",
    "``dy · 2/√π · e^(-x²)``",
    lambda dy, x: dy * (pg.exp(-(x * x)) * (2 / math.sqrt(math.pi))),
)


def _softmax_grad(dy: Tensor, y: Tensor) -> Tensor:
    part = dy * y
    return part - y * pg.sum(part, axis=-1, keepdims=True)


SOFTMAX_GRAD = _kernel(
    "SoftmaxGrad(dy: floating, y: dy)",
    "``dy · y - y · Σ dy · y`` along the last axis, y is the output of Softmax.",
    _softmax_grad,
    _rows,
)
LOG_SOFTMAX_GRAD = _kernel(
    "LogSoftmaxGrad(dy: floating, y: dy)",
    "``dy - e^y · Σ dy`` along the last axis, y is the output of LogSoftmax.",
    lambda dy, y: dy - pg.exp(y) * pg.sum(dy, axis=-1, keepdims=True),
    _rows,
)

CONTRACTS = (
    *(RELU_GRAD, TANH_GRAD, SIGMOID_GRAD, ERF_GRAD),
    *(SOFTMAX_GRAD, LOG_SOFTMAX_GRAD),
)


def _along_rows(kernel: Kernel) -> Callable[..., Tensor]:
    """Return a gradient that runs ``kernel``, or the core's for axes but the last."""

    def gradient(
        dy: Tensor, y: Tensor, axis: int, original: Callable[[Tensor], Tensor]
    ) -> Tensor:
        return run(kernel, dy, y) if axis == len(y.shape) - 1 else original(dy)

    return gradient


GRADIENTS: dict[str, dict[str, Callable[..., Tensor]]] = {
    "Relu": {"x": lambda dy, y: run(RELU_GRAD, dy, y)},
    "Tanh": {"x": lambda dy, y: run(TANH_GRAD, dy, y)},
    "Sigmoid": {"x": lambda dy, y: run(SIGMOID_GRAD, dy, y)},
    "Erf": {"x": lambda dy, x: run(ERF_GRAD, dy, x)},
    "Softmax": {"logits": _along_rows(SOFTMAX_GRAD)},
    "LogSoftmax": {"logits": _along_rows(LOG_SOFTMAX_GRAD)},
}
