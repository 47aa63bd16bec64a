"""Gradients that run one kernel where the core's run two to five."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plugrad.plugin import Kernel, Tensor, backward_kernels, run

Function = Callable[..., Any]
KERNELS = backward_kernels("plugrad_wasm")


def _by(kernel: Kernel) -> Function:
    return lambda dy, y: run(kernel, dy, y)


def _along_rows(kernel: Kernel) -> Function:
    """Return a gradient that runs ``kernel``, or the core's for axes but the last."""

    def gradient(dy: Tensor, y: Tensor, axis: int, original: Function) -> Any:
        return run(kernel, dy, y) if axis == len(y.shape) - 1 else original(dy)

    return gradient


GRADIENTS: dict[str, dict[str, Function]] = {
    "Relu": {"x": _by(KERNELS["ReluGrad"])},
    "Tanh": {"x": _by(KERNELS["TanhGrad"])},
    "Sigmoid": {"x": _by(KERNELS["SigmoidGrad"])},
    "Erf": {"x": lambda dy, x: run(KERNELS["ErfGrad"], dy, x)},
    "Softmax": {"logits": _along_rows(KERNELS["SoftmaxGrad"])},
    "LogSoftmax": {"logits": _along_rows(KERNELS["LogSoftmaxGrad"])},
}
