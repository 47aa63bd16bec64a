"""Compares plugrad-cpu's kernels and machine code bit by bit on test numbers.

The kernels of plugrad-cpu are in C, or in NumPy if there was no C compiler at
installation. NumPy gives different bits, so ``jit`` must not replace such kernels.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from plugrad.plugin import Graph, Kernel, Spec, Step, runtime

Attrs = dict[str, Any]
ATTRS: dict[str, Attrs] = {
    "ClipByValue": {"min": -0.5, "max": 0.25},
    "LeakyRelu": {"alpha": 0.1},
    "Step": {"alpha": 0.3},
}
ROW_ATTRS: dict[str, Attrs] = {
    "Softmax": {"axis": 1},
    "LogSoftmax": {"axis": 1},
    "LayerNorm": {"axis": (1,), "epsilon": 1e-5},
}
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 2.0, 0.5]
SPECIAL += [3.4e38, -3.4e38, 88.0, -88.0, 89.5, -104.0, 1e-30, 7999.0, 8001.0, 1e30]


def numbers() -> np.ndarray[Any, Any]:
    """Return special numbers, and numbers of several magnitudes."""
    wave = np.sin(np.arange(1.0, 77.0))
    return np.concatenate([SPECIAL, wave, 20 * wave, 1e-3 * wave]).astype(np.float32)


@functools.cache
def rows() -> list[np.ndarray[Any, Any]]:
    """Return three arrays of rows whose sums depend on the order of addition."""
    n = 1105  # two whole chunks of sums, and a remainder after whole vectors
    count = 64  # many, because sums in different orders often round to the same number
    x = np.sin(np.arange(float(count * n)) ** 1.7).astype(np.float32).reshape(count, n)
    return [x, np.cos(3 * x), np.tanh(x)]


@functools.cache
def agrees(kernel: Kernel) -> bool:
    """Return whether machine code and an element-wise cpu kernel give the same bits."""
    x = numbers()
    zeros = np.array([0.0, -0.0, 0.0, -0.0], np.float32)
    pairs = zip((x, np.roll(x, 5)), (zeros, zeros[[1, 0, 0, 1]]), strict=True)
    xs = [np.concatenate(pair) for pair in pairs][: len(kernel.inputs)]
    return _same(kernel, xs, ATTRS.get(kernel.name, {}))


@functools.cache
def rows_agree(kernel: Kernel) -> bool:
    """Return whether machine code and a cpu row kernel give the same bits."""
    attrs = ROW_ATTRS.get(kernel.name, {})
    xs = rows()[: len(kernel.inputs)]
    if kernel.name == "LayerNorm":
        xs[1:] = [y[0].copy() for y in xs[1:]]
    return _same(kernel, xs, attrs)


def _same(kernel: Kernel, xs: list[np.ndarray[Any, Any]], attrs: Attrs) -> bool:
    """Return whether eager and compiled code give the same bits, apart from NaN."""
    from .native import QUICK
    from .regions import function_of

    cpu = runtime("cpu")
    eager: Callable[..., Any] = cpu.wrap(cpu.kernels[kernel.name])
    expected = eager(*xs, **attrs)
    if expected is NotImplemented:
        return False
    inputs = tuple(range(len(xs)))
    specs = {k: Spec(x.shape, x.dtype) for k, x in enumerate([*xs, expected])}
    step = Step(kernel, "cpu", inputs, attrs, (len(xs),))
    graph = Graph(inputs, {}, (step,), (len(xs),), specs)
    compiled = function_of(graph, QUICK)
    if compiled is None:
        return False
    found = compiled(*xs)
    nan = np.isnan(expected)
    if not np.array_equal(np.isnan(found), nan):
        return False
    a, b = (np.where(nan, 0, y).view(np.int32) for y in (found, expected))
    return np.array_equal(a, b)
