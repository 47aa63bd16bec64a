"""A plugin: a kernel function for an existing backend, and a gradient pack."""

from collections.abc import Callable
from typing import Any

from plugrad.plugin import GradientPack, KernelPack, hookimpl


def open_kernels() -> dict[str, Callable[..., Any]]:
    """Return the kernel functions when "cpu" opens; import heavy modules here."""
    import numpy as np

    def softmax(logits: Any, *, axis: int) -> Any:
        exps = np.exp(logits - logits.max(axis, keepdims=True, initial=-np.inf))
        return np.divide(exps, exps.sum(axis, keepdims=True), out=exps)

    return {"Softmax": softmax}


def open_gradients() -> dict[str, dict[str, Callable[..., Any]]]:
    """Return the gradients when a program first uses the pack."""
    import plugrad as pg

    def guided(dy: pg.Tensor, y: pg.Tensor) -> pg.Tensor:
        return pg.where((dy > 0) & (y > 0), dy, 0.0)

    return {"Relu": {"x": guided}}


@hookimpl
def plugrad_kernels() -> list[KernelPack]:
    """Return the kernel packs; plugrad calls this before it runs the first op."""
    return [KernelPack("cpu", open=open_kernels)]


@hookimpl
def plugrad_gradients() -> list[GradientPack]:
    """Return the gradient packs; plugrad calls this at the same time."""
    return [GradientPack("guided_relu", open=open_gradients, linear=False)]
