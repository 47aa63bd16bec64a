"""Convolutions of any number of axes: each is a product of matrices.

Windows are tables of offsets, not copies: where each window begins, and where in it
each kernel position is. What they see outside of the input is put around it first.
Letters: t kernel positions, c channels in, k channels out; of one group where there are
groups.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import replace
from typing import Any, NamedTuple

from plugrad.geometry import Windows, contiguous_strides
from plugrad.plugin import KernelTable

from .. import winograd
from ..arrays import ClArray, Shape, filled
from ..moves import put
from ..products import Finish, Matrix, fits, product, table
from . import depthwise
from .shape import reverse, transpose
from .slicing import pad

kernels = KernelTable()


@kernels("Conv3D")
@kernels("Conv2D")
def conv(
    x: ClArray, filter: ClArray, *, geometry: Windows, finish: Finish | None = None
) -> Any:
    """``[outputs, tc] [tc, k]``."""
    if geometry.depthwise:
        return depthwise.conv(x, filter, geometry=geometry, finish=finish)
    y, g = geometry.out_shape, geometry.groups
    (c, k), outputs = geometry.group.filter_shape[-2:], math.prod(y[:-1])
    positions, all_k = len(geometry.kernel_positions), y[-1]
    if not math.prod(y) or not positions * c:
        return filled(x.device, y, 0, x.dtype)
    if winograd.suits(x, geometry):
        return winograd.conv(x, filter, geometry, finish)
    right = Matrix(filter, all_k, 1, k)
    dense = not any(map(any, geometry.padding)) and max(geometry.strides) == 1
    if positions == 1 and dense:
        left = Matrix(x, x.shape[-1], 1, c)
    else:
        x = framed(x, geometry.padding)
        if not fits(x.shape):
            return NotImplemented
        left = Matrix(x, 0, 1, c, *_seen(x, geometry, c))
    sizes = (g, outputs, k, positions * c)
    return product(y, sizes, left, right, y_batch=k, y_row=all_k, finish=finish)


@kernels("Conv3DBackpropFilterV2")
@kernels("Conv2DBackpropFilter")
def backprop_filter(x: ClArray, dy: ClArray, *, geometry: Windows) -> Any:
    """``[tc, outputs] [outputs, k]``."""
    if geometry.depthwise:
        df = depthwise.backprop_filter(x, dy, geometry=geometry)
        return df.view(geometry.filter_shape)
    shape, g = geometry.filter_shape, geometry.groups
    (c, k), outputs = geometry.group.filter_shape[-2:], math.prod(dy.shape[:-1])
    positions, all_k = len(geometry.kernel_positions), dy.shape[-1]
    if not math.prod(shape) or not outputs:
        return filled(x.device, shape, 0, x.dtype)
    x = framed(x, geometry.padding)
    if not fits(x.shape):
        return NotImplemented
    begins, taps_c = _seen(x, geometry, c)
    left = Matrix(x, 1, 0, c, rows=taps_c, steps=begins)
    sizes = (g, positions * c, k, outputs)
    right = Matrix(dy, all_k, 1, k)
    return product(shape, sizes, left, right, y_batch=k, y_row=all_k)


@kernels("Conv3DBackpropInputV2")
@kernels("Conv2DBackpropInput")
def backprop_input(dy: ClArray, filter: ClArray, *, geometry: Windows) -> Any:
    """``[outputs, tk] [tk, c]``, for each phase of the strides."""
    if geometry.depthwise:
        return depthwise.backprop_input(dy, filter, geometry=geometry)
    shape, strides = geometry.in_shape, (1, *geometry.strides, 1)
    if not math.prod(shape) or not dy.shape[-1]:
        return filled(dy.device, shape, 0, dy.dtype)
    there = _turned(geometry)
    if there is not None and winograd.suits(dy, there):
        axes = (0, 1, 3, 2)
        turned = transpose(reverse(filter, axis=(0, 1)), axes=axes)
        return winograd.conv(dy, turned, there, None)
    frame, phases = _phases(geometry)
    dy = framed(dy, frame)
    if not fits(dy.shape, filter.shape):
        return NotImplemented
    if max(strides) == 1:
        return _of_phase(dy, filter, geometry, phases[0])
    dx, order = filled(dy.device, shape, 0, dy.dtype), contiguous_strides(shape)
    apart = [n * s for n, s in zip(order, strides, strict=True)]
    for phase in phases:
        if phase.positions and 0 not in phase.size:
            y = _of_phase(dy, filter, geometry, phase)
            start = sum(map(math.prod, zip(phase.start, order[1:], strict=False)))
            put(y, dx, y.shape, contiguous_strides(y.shape), apart, 0, start)
    return dx


@functools.lru_cache(256)
def _turned(windows: Windows) -> Windows | None:
    """Return the windows of a turned filter, 3 x 3, that see what has seen an element.

    None where there are none: they would begin inside of ``dy``, or end there.
    """
    if windows.window != (3, 3) or max(windows.strides + windows.dilations) > 1:
        return None
    sizes = zip(
        windows.in_shape[1:], windows.out_shape[1:], windows.padding, strict=False
    )
    around = tuple([(2 - before, n + before - m) for n, m, (before, _) in sizes])
    if min(map(min, around)) < 0:
        return None
    there, back = windows.in_shape, windows.out_shape
    return replace(windows, in_shape=back, out_shape=there, padding=around)


def _of_phase(dy: ClArray, filter: ClArray, windows: Windows, phase: _Phase) -> ClArray:
    """Return the elements of a phase; ``dy`` is framed."""
    c, k = windows.group.filter_shape[-2:]
    all_c, all_k = windows.in_shape[-1], filter.shape[-1]
    order = contiguous_strides(dy.shape)
    outputs, channels = (dy.shape[0], *phase.size), tuple(range(k))
    axes = [tuple(range(0, n * s, s)) for n, s in zip(outputs, order, strict=False)]
    seen = [
        sum(map(math.prod, zip(output, order[1:], strict=False)))
        for _, output in phase.positions
    ]
    positions = tuple([position * c * all_k for position, _ in phase.positions])
    rows, within = table(dy.device, *axes), table(dy.device, tuple(seen), channels)
    left = Matrix(dy, batch=k, rows=rows, steps=within)
    there = table(dy.device, positions, channels)
    right = Matrix(filter, step=all_k, batch=k, rows=there)
    sizes = (windows.groups, math.prod(outputs), c, len(seen) * k)
    return product((*outputs, all_c), sizes, left, right, y_batch=c, y_row=all_c)


# --- where things are -------------------------------------------------------------


def framed(x: ClArray, padding: tuple[tuple[int, int], ...]) -> ClArray:
    """Return ``x`` with zeros around its spatial axes."""
    if not any(map(any, padding)):
        return x
    return pad(x, paddings=((0, 0), *padding, (0, 0)), constant_values=0)


def _seen(x: ClArray, windows: Windows, channels: int) -> tuple[ClArray, ClArray]:
    """Return the offsets of windows in ``x``, and those of kernel positions in them."""
    order = contiguous_strides(x.shape)
    sizes = zip(windows.out_shape, (1, *windows.strides), order, strict=False)
    begins = [tuple(range(0, n * s * o, s * o)) for n, s, o in sizes]
    sizes = zip(windows.window, windows.dilations, order[1:], strict=False)
    positions = [tuple(range(0, n * d * o, d * o)) for n, d, o in sizes]
    seen = table(x.device, *begins)
    return seen, table(x.device, *positions, tuple(range(channels)))


class _Phase(NamedTuple):
    """A ``geometry.Phase`` of each axis.

    Attributes:
        start: The index of the first element, on each axis.
        size: The number of elements, on each axis.
        positions: The numbers of the kernel positions that read the first element, each
            with the index of the window in the framed ``dy``.

    """

    start: Shape
    size: Shape
    positions: list[tuple[int, Shape]]


@functools.lru_cache(256)
def _phases(windows: Windows) -> tuple[tuple[tuple[int, int], ...], list[_Phase]]:
    """Return how far beyond ``dy`` the phases read, and the phases."""
    frame = []
    for phases, count in zip(windows.phases, windows.out_shape[1:-1], strict=True):
        reach = [(w, w + p.size) for p in phases for _, w in p.readers]
        before = -min([0, *[first for first, _ in reach]])
        frame.append((before, max([count, *[end for _, end in reach]]) - count))
    found = []
    for each in itertools.product(*windows.phases):
        start, size, readers = zip(*each, strict=True)
        positions = []
        for pairs in itertools.product(*readers):
            number = 0
            for n, (k, _) in zip(windows.window, pairs, strict=True):
                number = number * n + k
            output = [w + b for (_, w), (b, _) in zip(pairs, frame, strict=True)]
            positions.append((number, tuple(output)))
        found.append(_Phase(start, size, positions))
    return tuple(frame), found
