"""LSTM and GRU for float32; other dtypes are decomposed."""

from __future__ import annotations

from typing import Any

from plugrad.plugin import KernelTable

from ..arrays import Shape, WasmArray, empty
from ..launch import FLOAT32
from .shape import transpose

kernels = KernelTable()


def _run(
    name: str, xs: tuple[WasmArray, ...], work: int, shapes: list[Shape], *how: int
) -> Any:
    """Return arrays that C fills; its workspace has ``work`` float32 elements."""
    if xs[0].dtype is not FLOAT32:
        return NotImplemented
    machine = xs[0].machine
    outputs = [empty(machine, shape, FLOAT32) for shape in shapes]
    memory = [empty(machine, (work,), FLOAT32)] if work else []
    if outputs[0].size:
        pointers = [x.pointer for x in (*xs, *memory, *outputs)]
        machine.callers[f"{name}_f32"](*pointers, *how)
    return tuple(outputs)


@kernels("LSTM")
def lstm(*xs: WasmArray, reverse: bool) -> Any:
    """Compute all steps in one C call."""
    h = xs[1]
    sizes = (xs[0].shape[0], *h.shape)
    return _run("lstm", xs, 4 * h.size, [sizes, sizes], *sizes, reverse)


@kernels("LSTMGrad")
def lstm_grad(
    dy: WasmArray,
    dcells: WasmArray,
    a: WasmArray,
    before: WasmArray,
    weight: WasmArray,
    *,
    reverse: bool,
) -> Any:
    """Compute all steps in one C call, with transposed weights."""
    xs = (dy, dcells, a, before, transpose(weight, axes=(1, 0)))
    shapes = [a.shape, dy.shape[1:], dy.shape[1:]]
    return _run("lstm_grad", xs, 0, shapes, *dy.shape, reverse)


@kernels("GRU")
def gru(*xs: WasmArray, reverse: bool) -> Any:
    """Compute all steps in one C call."""
    h = xs[1]
    sizes = (xs[0].shape[0], *h.shape)
    y = _run("gru", xs, 3 * h.size, [sizes], *sizes, reverse)
    return y if y is NotImplemented else y[0]


@kernels("GRUGrad")
def gru_grad(
    dy: WasmArray,
    a: WasmArray,
    b: WasmArray,
    before: WasmArray,
    weight: WasmArray,
    *,
    reverse: bool,
) -> Any:
    """Compute all steps in one C call, with transposed weights."""
    xs = (dy, a, b, before, transpose(weight, axes=(1, 0)))
    _, batch, n = dy.shape
    shapes = [a.shape, a.shape, (batch, n)]
    return _run("gru_grad", xs, batch * n, shapes, *dy.shape, reverse)
