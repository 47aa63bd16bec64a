"""Gradients that run one kernel where the core's run two to five.

Each kernel is decomposed into what the core's gradient does. So derivatives of higher
order are recorded as the core's are, and dtypes without code are computed as there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import plugrad as pg
from plugrad.plugin import Kernel, Spec, Tensor, decomposition, run

Function = Callable[..., Any]
CONTRACTS: list[Kernel] = []


def _alike(dy: Spec, x: Spec) -> Spec:
    if dy.shape != x.shape:
        raise ValueError(f"gradient: shapes {dy.shape} and {x.shape} must be equal")
    return dy


def _rows(dy: Spec, y: Spec) -> Spec:
    if not dy.shape:
        raise ValueError("gradient: dy has rank 0, and no axis to sum over; reshape it")
    return _alike(dy, y)


def _kernel(
    signature: str, parts: Function, doc: str, out: Function = _alike
) -> Kernel:
    """Add a contract, of which ``parts`` is the decomposition."""
    kernel = Kernel(f"plugrad_opencl.{signature} -> dx", out=out, doc=doc)
    decomposition(kernel, parts)
    CONTRACTS.append(kernel)
    return kernel


RELU_GRAD = _kernel(
    "ReluGrad(dy: floating, y: dy)",
    lambda dy, y: pg.where(y > 0, dy, y),
    doc="``dy`` where y > 0, else ``y``, which is 0 or NaN: y is the output of Relu.",
)
TANH_GRAD = _kernel(
    "TanhGrad(dy: inexact, y: dy)",
    lambda dy, y: dy * pg.conj(1 - y * y),
    doc="``dy · conj(1 - y²)``; y is the output of Tanh.",
)
SIGMOID_GRAD = _kernel(
    "SigmoidGrad(dy: floating, y: dy)",
    lambda dy, y: dy * (y * (1 - y)),
    doc="``dy · y · (1 - y)``; y is the output of Sigmoid.",
)
ERF_GRAD = _kernel(
    "ErfGrad(dy: floating, x: dy)",
    lambda dy, x: dy * (pg.exp(-(x * x)) * (2 / math.sqrt(math.pi))),
    doc="``dy · 2/√π · e^(-x²)``; x is the input of Erf.",
)
SOFTMAX_GRAD = _kernel(
    "SoftmaxGrad(dy: floating, y: dy)",
    lambda dy, y: (part := dy * y) - y * pg.sum(part, axis=-1, keepdims=True),
    doc="``dy · y - y · Σ dy · y`` along the last axis; y is the output of Softmax.",
    out=_rows,
)
LOG_SOFTMAX_GRAD = _kernel(
    "LogSoftmaxGrad(dy: floating, y: dy)",
    lambda dy, y: dy - pg.exp(y) * pg.sum(dy, axis=-1, keepdims=True),
    doc="``dy - e^y · Σ dy`` along the last axis; y is the output of LogSoftmax.",
    out=_rows,
)


def _along_rows(kernel: Kernel) -> Function:
    """Return a gradient that runs ``kernel``, or the core's for axes but the last."""

    def gradient(dy: Tensor, y: Tensor, axis: int, original: Function) -> Any:
        return run(kernel, dy, y) if axis == len(y.shape) - 1 else original(dy)

    return gradient


GRADIENTS: dict[str, dict[str, Function]] = {
    "Relu": {"x": lambda dy, y: run(RELU_GRAD, dy, y)},
    "Tanh": {"x": lambda dy, y: run(TANH_GRAD, dy, y)},
    "Sigmoid": {"x": lambda dy, y: run(SIGMOID_GRAD, dy, y)},
    "Erf": {"x": lambda dy, x: run(ERF_GRAD, dy, x)},
    "Softmax": {"logits": _along_rows(SOFTMAX_GRAD)},
    "LogSoftmax": {"logits": _along_rows(LOG_SOFTMAX_GRAD)},
}
