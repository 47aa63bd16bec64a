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
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from plugrad.geometry import Windows, contiguous_strides
from plugrad.plugin import KernelTable

from .. import winograd
from ..arrays import ClArray, Shape, filled
from ..moves import put
from ..multiply import product
from ..products import Finish, Image, Matrix, fits, table
from ..tiles import MAX_PLACE, place, places
from . import depthwise
from .shape import reverse, transpose
from .slicing import pad

kernels = KernelTable()

Places = list[tuple[int, int]]  # offsets, and places as in ``tiles.places``


@kernels("Conv3D")
@kernels("Conv2D")
def conv(
    x: ClArray, filter: ClArray, *, geometry: Windows, finish: Finish | None = None
) -> Any:
    """``[outputs, tc] [tc, k]``."""
    if geometry.depthwise:
        return depthwise.conv(x, filter, geometry=geometry, finish=finish)
    y, g = geometry.out_shape, geometry.groups
    (c, k) = geometry.group.filter_shape[-2:]
    outputs = math.prod(y[:-1])
    positions = len(geometry.kernel_positions)
    all_k = y[-1]
    if not math.prod(y) or not positions * c:
        return filled(x.device, y, 0, x.dtype)
    if winograd.suits(x, geometry):
        return winograd.conv(x, filter, geometry, finish)
    right = Matrix(filter, all_k, 1, k)
    dense = not any(map(any, geometry.padding)) and max(geometry.strides) == 1
    if positions == 1 and dense:
        left = Matrix(x, x.shape[-1], 1, c)
    else:
        left = _windows(x, geometry, c)
        if not fits(left.x.shape):
            return NotImplemented
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
    (c, k) = geometry.group.filter_shape[-2:]
    outputs = math.prod(dy.shape[:-1])
    positions = len(geometry.kernel_positions)
    all_k = dy.shape[-1]
    if not math.prod(shape) or not outputs:
        return filled(x.device, shape, 0, x.dtype)
    seen = _windows(x, geometry, c)
    if not fits(seen.x.shape):
        return NotImplemented
    left = seen._replace(row=1, step=0, rows=seen.steps, steps=seen.rows, down=True)
    sizes = (g, positions * c, k, outputs)
    right = Matrix(dy, all_k, 1, k)
    return product(shape, sizes, left, right, y_batch=k, y_row=all_k)


@kernels("Conv3DBackpropInputV2")
@kernels("Conv2DBackpropInput")
def backprop_input(dy: ClArray, filter: ClArray, *, geometry: Windows) -> Any:
    """``[outputs, tk] [tk, c]``, for each phase of the strides."""
    if geometry.depthwise:
        return depthwise.backprop_input(dy, filter, geometry=geometry)
    shape = geometry.in_shape
    strides = (1, *geometry.strides, 1)
    if not math.prod(shape) or not dy.shape[-1]:
        return filled(dy.device, shape, 0, dy.dtype)
    there = _turned(geometry)
    if there is not None and winograd.suits(dy, there):
        axes = (0, 1, 3, 2)
        turned = transpose(reverse(filter, axis=(0, 1)), axes=axes)
        return winograd.conv(dy, turned, there, None)
    frame, phases = _phases(geometry)
    seen = _located(dy, frame)
    if not fits(seen.x.shape, filter.shape):
        return NotImplemented
    if max(strides) == 1:
        return _of_phase(seen, filter, geometry, phases[0])
    dx = filled(dy.device, shape, 0, dy.dtype)
    order = contiguous_strides(shape)
    apart = [n * s for n, s in zip(order, strides, strict=True)]
    for phase in phases:
        if phase.positions and 0 not in phase.size:
            y = _of_phase(seen, filter, geometry, phase)
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


def _of_phase(dy: Located, filter: ClArray, windows: Windows, phase: _Phase) -> ClArray:
    """Return the elements of a phase."""
    c, k = windows.group.filter_shape[-2:]
    all_c, all_k = windows.in_shape[-1], filter.shape[-1]
    outputs = (dy.x.shape[0], *phase.size)
    channels = tuple(range(k))
    rows = dy.table(*[dy.axis(i, range(n)) for i, n in enumerate(outputs)], begin=True)
    within = dy.table([dy.at(output) for _, output in phase.positions], dy.channels(k))
    left = Matrix(dy.x, batch=k, rows=rows, steps=within, run=k, image=dy.image)
    positions = tuple([position * c * all_k for position, _ in phase.positions])
    there = table(dy.x.device, positions, channels)
    right = Matrix(filter, step=all_k, batch=k, rows=there, run=k)
    sizes = (windows.groups, math.prod(outputs), c, len(phase.positions) * k)
    return product((*outputs, all_c), sizes, left, right, y_batch=c, y_row=all_c)


# --- where things are -------------------------------------------------------------


def framed(x: ClArray, padding: tuple[tuple[int, int], ...]) -> ClArray:
    """Return ``x`` with zeros around its spatial axes."""
    if not any(map(any, padding)):
        return x
    return pad(x, paddings=((0, 0), *padding, (0, 0)), constant_values=0)


class Located(NamedTuple):
    """An array with places around it that hold zeros.

    Attributes:
        x: The array; on a CPU the zeros are in it.
        corner: The offset of the first place.
        scale: The places of an element of each spatial axis.
        image: Which places are in the array; None if all are.

    """

    x: ClArray
    corner: int = 0
    scale: Shape = ()
    image: Image | None = None

    def axis(self, axis: int, positions: Iterable[int]) -> Places:
        """Return the offsets and places of positions on an axis; 0 is the batch."""
        stride = contiguous_strides(self.x.shape)[axis]
        scale = self.scale[axis - 1] if axis and self.scale else 0
        return [(i * stride, i * scale) for i in positions]

    def at(self, position: Shape) -> tuple[int, int]:
        """Return the offset and the place of a position on the spatial axes."""
        pairs = [self.axis(axis, [i])[0] for axis, i in enumerate(position, 1)]
        return sum([offset for offset, _ in pairs]), sum([place for _, place in pairs])

    def channels(self, count: int) -> Places:
        """Return the offsets of channels."""
        return [(i, 0) for i in range(count)]

    def table(self, *axes: Places, begin: bool = False) -> ClArray:
        """Return all sums of one of each, from the corner on if it is the ``begin``."""
        device = self.x.device
        if device.style == "cpu":
            return table(device, *[tuple([offset for offset, _ in a]) for a in axes])
        first: Places = [(-self.corner if begin else 0, 0)]
        return places(device, tuple(first), *map(tuple, axes))


def _located(x: ClArray, padding: tuple[tuple[int, int], ...]) -> Located:
    """Return ``x`` with zeros around it; on a GPU they are not in memory.

    There, places are pairs of numbers, so that more axes than two need the zeros.
    """
    sizes = [n + sum(p) for n, p in zip(x.shape[1:-1], padding, strict=True)]
    if x.device.style == "cpu" or len(sizes) > 2 or max(sizes) >= MAX_PLACE:
        return Located(framed(x, padding))
    order = contiguous_strides(x.shape)[1:-1]
    before = [p[0] for p in padding]
    corner = sum(map(math.prod, zip(before, order, strict=True)))
    (top, left) = [0, *before][-2:]
    (height, width) = [1, *x.shape[1:-1]][-2:]
    scale = (place(1, 0), place(0, 1))[-len(sizes) :]
    return Located(x, corner, scale, Image(top, left, height, width))


def _windows(x: ClArray, windows: Windows, channels: int) -> Matrix:
    """Return windows as rows, and what is at each kernel position as columns."""
    seen = _located(x, windows.padding)
    begins = [
        seen.axis(i, range(0, n * s, s))
        for i, (n, s) in enumerate(
            zip(windows.out_shape, (1, *windows.strides), strict=False)
        )
    ]
    positions = [
        seen.axis(i, range(0, n * d, d))
        for i, (n, d) in enumerate(
            zip(windows.window, windows.dilations, strict=True), 1
        )
    ]
    rows = seen.table(*begins, begin=True)
    steps = seen.table(*positions, seen.channels(channels))
    return Matrix(
        seen.x, 0, 1, channels, rows=rows, steps=steps, run=channels, image=seen.image
    )


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
