"""Where windows lie, as kernels in C expect it: the numbers of ``windows.h``.

Along an axis, window p reads with kernel position t at ``p·step + first + t·gap`` and
writes at ``p·stride + start``. To carry cotangents back through windows of stride s,
the elements ``start, start + s, ...`` of an axis are read by the same kernel positions:
those are a phase.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

from plugrad.geometry import Windows

from ..arrays import WasmArray, describe, empty, writable
from ..launch import Exports, Kernel, wider
from ..runtime import Machine

Axis = tuple[int, ...]


def forward(machine: Machine, windows: Windows) -> WasmArray:
    """Return what reads the input and writes the output of ``windows``."""
    w = _raised(windows)
    rows = zip(
        w.in_shape[1:-1],
        w.out_shape[1:-1],
        w.strides,
        w.padding,
        w.window,
        w.dilations,
        strict=True,
    )
    axes = [
        (size, outputs, step, -before, positions, gap, 0, 1, outputs, 0, 1)
        for size, outputs, step, (before, _), positions, gap in rows
    ]
    return _described(machine, w, w.in_shape[-1], w.out_shape[-1], [axes])


def backward(machine: Machine, windows: Windows) -> WasmArray:
    """Return what reads cotangents of the output and writes those of the input."""
    w = _raised(windows)
    phases = itertools.product(*(_phases(w, i) for i in range(3)))
    return _described(machine, w, w.out_shape[-1], w.in_shape[-1], list(phases))


def _raised(windows: Windows) -> Windows:
    while len(windows.window) < 3:
        windows = windows.with_leading_axis()
    return windows


def _phases(windows: Windows, i: int) -> list[Axis]:
    """Return the phases of one axis; the last kernel position comes first in each."""
    size, count = windows.in_shape[i + 1], windows.out_shape[i + 1]
    stride, dilation = windows.strides[i], windows.dilations[i]
    found: list[Axis] = []
    for phase in windows.phases[i]:
        readers = phase.readers
        last, first = readers[-1] if readers else (0, 0)
        apart = readers[1][0] - readers[0][0] if len(readers) > 1 else stride
        read = (count, phase.size, 1, first, len(readers), apart * dilation // stride)
        found.append((*read, last, -apart, size, phase.start, stride))
    return found


def _described(
    machine: Machine,
    windows: Windows,
    read: int,
    written: int,
    phases: Iterable[Iterable[Axis]],
) -> WasmArray:
    numbers = [number for axes in phases for axis in axes for number in axis]
    count = len(numbers) // (3 * 11)
    head = (windows.in_shape[0], read, written, windows.groups)
    return describe(machine, (*head, *windows.window, count, *numbers))


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
