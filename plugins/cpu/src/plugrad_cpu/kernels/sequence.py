"""LSTM and GRU for float32, in C only; other dtypes are decomposed."""

from __future__ import annotations

from typing import Any

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array
from ..native import FLOAT32_SUFFIX, contiguous
from ..native import kernels as in_c

kernels = KernelTable()
Arrays = tuple[Array, ...]
FUNCTIONS = {
    name: function
    for name in ("lstm", "lstm_grad", "gru", "gru_grad")
    for function in in_c(name, FLOAT32_SUFFIX).values()
}


def _run(
    name: str, xs: Arrays, work: int, shapes: list[tuple[int, ...]], *how: Any
) -> Any:
    """Return arrays that C fills; its workspace has ``work`` float32 elements."""
    given = contiguous(*xs) if xs[0].dtype == np.float32 else None
    if given is None:
        return NotImplemented
    memory = [np.empty(work, np.float32)] if work else []
    outputs = tuple([np.empty(shape, np.float32) for shape in shapes])
    if outputs[0].size:
        FUNCTIONS[name](*given, *memory, *outputs, *how)
    return outputs


def lstm(*xs: Array, reverse: bool) -> Any:
    """Compute all steps in one C call."""
    h = xs[1]
    sizes = (len(xs[0]), *h.shape)
    return _run("lstm", xs, 4 * h.size, [sizes, sizes], *sizes, reverse)


def lstm_grad(
    dy: Array,
    dcells: Array,
    a: Array,
    before: Array,
    weight: Array,
    *,
    reverse: bool,
) -> Any:
    """Compute all steps in one C call, with transposed weights."""
    xs = (dy, dcells, a, before, weight.T)
    state = dy.shape[1:]
    return _run("lstm_grad", xs, 0, [a.shape, state, state], *dy.shape, reverse)


def gru(*xs: Array, reverse: bool) -> Any:
    """Compute all steps in one C call."""
    h = xs[1]
    sizes = (len(xs[0]), *h.shape)
    y = _run("gru", xs, 3 * h.size, [sizes], *sizes, reverse)
    return y if y is NotImplemented else y[0]


def gru_grad(
    dy: Array, a: Array, b: Array, before: Array, weight: Array, *, reverse: bool
) -> Any:
    """Compute all steps in one C call, with transposed weights."""
    xs = (dy, a, b, before, weight.T)
    state = dy.shape[1:]
    work = dy[0].size
    return _run("gru_grad", xs, work, [a.shape, a.shape, state], *dy.shape, reverse)


if FUNCTIONS:
    kernels.update(LSTM=lstm, LSTMGrad=lstm_grad, GRU=gru, GRUGrad=gru_grad)
