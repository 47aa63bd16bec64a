"""Descriptions of windows for C kernels (``windows.h``), and shared functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from plugrad.geometry import Windows

from ..arrays import WasmArray, describe, empty, writable
from ..launch import Exports, Kernel, wider
from ..runtime import Machine


def forward(machine: Machine, windows: Windows) -> WasmArray:
    """Return the description for reading the input and writing the output."""
    return describe(machine, windows.numbers())


def backward(machine: Machine, windows: Windows) -> WasmArray:
    """Return the description for reading ``dy`` and writing ``dx``."""
    return describe(machine, windows.numbers(back=True))


# --- shared by convolutions ------------------------------------------------------


def zero_if_empty(y: WasmArray, *xs: WasmArray) -> bool:
    """Set ``y`` to zero if there is nothing to sum; return whether it was set."""
    is_empty = not all(prod(a.shape) for a in (y, *xs))
    if is_empty:
        writable(y)[...] = 0
    return is_empty


def convolve_any_dtype(
    exports: Exports,
    kernel: Kernel,
    axes: Callable[[Machine, Windows], WasmArray],
    xs: Sequence[WasmArray],
    windows: Windows,
    back: bool,
) -> Any:
    """Convolve by the C template for all dtypes, or in a wider dtype."""
    a, b = xs
    export, machine = exports[a.dtype], a.machine
    if export is None or a.dtype is not b.dtype:
        return wider(functools.partial(kernel, geometry=windows), None, xs)
    y = empty(machine, windows.in_shape if back else windows.out_shape, a.dtype)
    if not zero_if_empty(y, a, b):
        how = machine.cached[axes](windows)
        machine.callers[export](how.pointer, a.pointer, b.pointer, y.pointer, back)
    return y


def filter_gradient(
    exports: Exports, kernel: Kernel, x: WasmArray, dy: WasmArray, windows: Windows
) -> Any:
    """Return the gradient with respect to the filter."""
    export, machine = exports[x.dtype], x.machine
    if export is None or x.dtype is not dy.dtype:
        return wider(functools.partial(kernel, geometry=windows), None, (x, dy))
    dfilter = empty(machine, windows.filter_shape, x.dtype)
    if not zero_if_empty(dfilter, x, dy):
        how = machine.cached[forward](windows)
        machine.callers[export](how.pointer, x.pointer, dy.pointer, dfilter.pointer)
    return dfilter
