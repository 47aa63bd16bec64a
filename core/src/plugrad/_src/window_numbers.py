"""Windows as numbers, for kernels in C: ``geometry.Windows.numbers``."""

from __future__ import annotations

import itertools
from typing import Any

Axis = tuple[int, ...]


def numbers(windows: Any, back: bool) -> tuple[int, ...]:
    """Return the numbers that ``Windows.numbers`` describes."""
    w = windows
    while len(w.window) < 3:
        w = w.with_leading_axis()
    channels = (w.in_shape[-1], w.out_shape[-1])[:: -1 if back else 1]
    phases_of = _phases if back else _forward
    phases = [*itertools.product(*[phases_of(w, i) for i in range(3)])]
    rows = [number for phase in phases for axis in phase for number in axis]
    return (w.in_shape[0], *channels, w.groups, *w.window, len(phases), *rows)


def _forward(w: Any, i: int) -> list[Axis]:
    """Return the numbers of an axis in the forward pass, which has one phase."""
    count = w.out_shape[i + 1]
    first = -w.padding[i][0]
    read = (w.in_shape[i + 1], count, w.strides[i], first)
    return [(*read, w.window[i], w.dilations[i], 0, 1, count, 0, 1)]


def _phases(w: Any, i: int) -> list[Axis]:
    """Return the numbers of a gradient's phases; the last kernel position is first."""
    size = w.in_shape[i + 1]
    count = w.out_shape[i + 1]
    stride, dilation = w.strides[i], w.dilations[i]
    found: list[Axis] = []
    for phase in w.phases[i]:
        readers = phase.readers
        last, first = readers[-1] if readers else (0, 0)
        apart = readers[1][0] - readers[0][0] if len(readers) > 1 else stride
        read = (count, phase.size, 1, first, len(readers), apart * dilation // stride)
        found.append((*read, last, -apart, size, phase.start, stride))
    return found
