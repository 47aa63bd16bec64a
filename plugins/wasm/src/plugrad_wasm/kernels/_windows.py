"""Where windows lie, as kernels in C expect it (``windows.h``): ``Windows.numbers``."""

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
    """Return what reads the input and writes the output of ``windows``."""
    return describe(machine, windows.numbers())


def backward(machine: Machine, windows: Windows) -> WasmArray:
    """Return what reads cotangents of the output and writes those of the input."""
    return describe(machine, windows.numbers(back=True))


# --- what convolutions share -----------------------------------------------------


def zeros(y: WasmArray, *xs: WasmArray) -> bool:
    """Set ``y`` to zero if there is nothing to sum, and tell whether that is so."""
    empty_handed = not all(prod(a.shape) for a in (y, *xs))
    if empty_handed:
        writable(y)[...] = 0
    return empty_handed


def in_full(
    exports: Exports,
    kernel: Kernel,
    axes: Callable[[Machine, Windows], WasmArray],
    xs: Sequence[WasmArray],
    windows: Windows,
    back: bool,
) -> Any:
    """Convolve by the template that all dtypes have, or in a wider dtype."""
    a, b = xs
    export, machine = exports[a.dtype], a.machine
    if export is None or a.dtype is not b.dtype:
        return wider(functools.partial(kernel, geometry=windows), None, xs)
    y = empty(machine, windows.in_shape if back else windows.out_shape, a.dtype)
    if not zeros(y, a, b):
        how = machine.cached[axes](windows)
        machine.callers[export](how.pointer, a.pointer, b.pointer, y.pointer, back)
    return y


def to_filter(
    exports: Exports, kernel: Kernel, x: WasmArray, dy: WasmArray, windows: Windows
) -> Any:
    """Return the cotangent of the filter."""
    export, machine = exports[x.dtype], x.machine
    if export is None or x.dtype is not dy.dtype:
        return wider(functools.partial(kernel, geometry=windows), None, (x, dy))
    dfilter = empty(machine, windows.filter_shape, x.dtype)
    if not zeros(dfilter, x, dy):
        how = machine.cached[forward](windows)
        machine.callers[export](how.pointer, x.pointer, dy.pointer, dfilter.pointer)
    return dfilter
