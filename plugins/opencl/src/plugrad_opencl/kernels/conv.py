"""Convolutions over any number of axes, each as a matrix product.

Windows are not copied. Tables of offsets describe where each window begins, and where
each kernel position is in a window. The input is padded first if windows exceed it.
In shapes, letters stand for axes: ``t`` kernel positions, ``c`` input channels, ``k``
output channels. With groups, ``c`` and ``k`` are the channels of one group.
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
from ._halves import from_halves
from .shape import reverse, transpose
from .slicing import pad

kernels = KernelTable()

Places = list[tuple[int, int]]  # pairs of offset and place, see ``tiles.places``


@kernels("Conv3D")
@kernels("Conv2D")
@from_halves
def conv(
    x: ClArray,
    filter: ClArray,
    *,
    geometry: Windows,
    finish: Finish | None = None,
    halves: bool = False,
) -> Any:
    """Return the product ``[outputs, tc] @ [tc, k]`` of windows and filter."""
    if geometry.depthwise:
        return depthwise.conv(x, filter, geometry=geometry, finish=finish)
    y, g = geometry.out_shape, geometry.groups
    c, k = geometry.group.filter_shape[-2:]
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
    layout: dict[str, Any] = {"y_batch": k, "y_row": all_k}
    return product(y, sizes, left, right, **layout, finish=finish, halves=halves)


@kernels("Conv3DBackpropFilterV2")
@kernels("Conv2DBackpropFilter")
@from_halves
def backprop_filter(
    x: ClArray, dy: ClArray, *, geometry: Windows, halves: bool = False
) -> Any:
    """Return the filter gradient ``[tc, outputs] @ [outputs, k]``."""
    if geometry.depthwise:
        df = depthwise.backprop_filter(x, dy, geometry=geometry)
        return df.view(geometry.filter_shape)
    shape, g = geometry.filter_shape, geometry.groups
    c, k = geometry.group.filter_shape[-2:]
    outputs = math.prod(dy.shape[:-1])
    positions = len(geometry.kernel_positions)
    all_k = dy.shape[-1]
    if not math.prod(shape) or not outputs:
        return filled(x.device, shape, 0, x.dtype)
    rows = _windows(x, geometry, c)
    if not fits(rows.x.shape):
        return NotImplemented
    left = rows._replace(row=1, step=0, rows=rows.steps, steps=rows.rows, down=True)
    sizes = (g, positions * c, k, outputs)
    right = Matrix(dy, all_k, 1, k)
    layout: dict[str, Any] = {"y_batch": k, "y_row": all_k}
    return product(shape, sizes, left, right, **layout, halves=halves)


@kernels("Conv3DBackpropInputV2")
@kernels("Conv2DBackpropInput")
@from_halves
def backprop_input(
    dy: ClArray, filter: ClArray, *, geometry: Windows, halves: bool = False
) -> Any:
    """Return the input gradient: ``[outputs, tk] @ [tk, c]`` for each phase."""
    if geometry.depthwise:
        return depthwise.backprop_input(dy, filter, geometry=geometry)
    shape = geometry.in_shape
    strides = (1, *geometry.strides, 1)
    if not math.prod(shape) or not dy.shape[-1]:
        return filled(dy.device, shape, 0, dy.dtype)
    flipped = _flipped(geometry)
    if flipped is not None and winograd.suits(dy, flipped):
        axes = (0, 1, 3, 2)
        flipped_filter = transpose(reverse(filter, axis=(0, 1)), axes=axes)
        return winograd.conv(dy, flipped_filter, flipped, None)
    frame, phases = _phases(geometry)
    padded = _located(dy, frame)
    if not fits(padded.x.shape, filter.shape):
        return NotImplemented
    if max(strides) == 1:
        return _phase_elements(padded, filter, geometry, phases[0], halves)
    dx = filled(dy.device, shape, 0, dy.dtype)
    order = contiguous_strides(shape)
    phase_strides = [n * s for n, s in zip(order, strides, strict=True)]
    for phase in phases:
        if phase.positions and 0 not in phase.size:
            y = _phase_elements(padded, filter, geometry, phase, halves)
            start = sum(map(math.prod, zip(phase.start, order[1:], strict=False)))
            put(y, dx, y.shape, contiguous_strides(y.shape), phase_strides, 0, start)
    return dx


@functools.lru_cache(256)
def _flipped(windows: Windows) -> Windows | None:
    """Return the windows in ``dy`` for the flipped 3 x 3 filter.

    The window of an input element contains the outputs that depend on the element.
    None for other filters, strides or dilations, or if the padding would be negative.
    """
    if windows.window != (3, 3) or max(windows.strides + windows.dilations) > 1:
        return None
    sizes = zip(
        windows.in_shape[1:], windows.out_shape[1:], windows.padding, strict=False
    )
    padding = tuple([(2 - before, n + before - m) for n, m, (before, _) in sizes])
    if min(map(min, padding)) < 0:
        return None
    in_shape, out_shape = windows.in_shape, windows.out_shape
    return replace(windows, in_shape=out_shape, out_shape=in_shape, padding=padding)


def _phase_elements(
    dy: Located, filter: ClArray, windows: Windows, phase: _Phase, halves: bool
) -> ClArray:
    """Return the elements of ``dx`` in one phase."""
    c, k = windows.group.filter_shape[-2:]
    all_c, all_k = windows.in_shape[-1], filter.shape[-1]
    outputs = (dy.x.shape[0], *phase.size)
    channels = tuple(range(k))
    rows = dy.table(*[dy.axis(i, range(n)) for i, n in enumerate(outputs)], begin=True)
    steps = dy.table([dy.at(output) for _, output in phase.positions], dy.channels(k))
    left = Matrix(dy.x, batch=k, rows=rows, steps=steps, run=k, image=dy.image)
    positions = tuple([position * c * all_k for position, _ in phase.positions])
    b_rows = table(dy.x.device, positions, channels)
    right = Matrix(filter, step=all_k, batch=k, rows=b_rows, run=k)
    sizes = (windows.groups, math.prod(outputs), c, len(phase.positions) * k)
    layout: dict[str, Any] = {"y_batch": c, "y_row": all_c}
    return product((*outputs, all_c), sizes, left, right, **layout, halves=halves)


# --- offsets and places -----------------------------------------------------------


def zero_padded(x: ClArray, padding: tuple[tuple[int, int], ...]) -> ClArray:
    """Return ``x`` with zeros around its spatial axes."""
    if not any(map(any, padding)):
        return x
    return pad(x, paddings=((0, 0), *padding, (0, 0)), constant_values=0)


class Located(NamedTuple):
    """An array, and the places around it, which count as zeros.

    Attributes:
        x: The array; on a CPU it includes the zeros.
        corner: The distance from the first place to the first element.
        scale: The difference between the places of neighboring elements, for each
            spatial axis.
        image: The rectangle of the places that are in the array; None if all are.

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
        """Return the sums of all combinations of entries, one from each axis.

        With ``begin``, positions count from the first place, not the first element.
        """
        device = self.x.device
        if device.style == "cpu":
            return table(device, *[tuple([offset for offset, _ in a]) for a in axes])
        first: Places = [(-self.corner if begin else 0, 0)]
        return places(device, tuple(first), *map(tuple, axes))


def _located(x: ClArray, padding: tuple[tuple[int, int], ...]) -> Located:
    """Return ``x`` with zeros around it; on a GPU the zeros are not in memory.

    A place on a GPU has two coordinates. Therefore more than two axes need the zeros in
    memory.
    """
    sizes = [n + sum(p) for n, p in zip(x.shape[1:-1], padding, strict=True)]
    if x.device.style == "cpu" or len(sizes) > 2 or max(sizes) >= MAX_PLACE:
        return Located(zero_padded(x, padding))
    order = contiguous_strides(x.shape)[1:-1]
    before = [p[0] for p in padding]
    corner = sum(map(math.prod, zip(before, order, strict=True)))
    top, left = [0, *before][-2:]
    height, width = [1, *x.shape[1:-1]][-2:]
    scale = (place(1, 0), place(0, 1))[-len(sizes) :]
    return Located(x, corner, scale, Image(top, left, height, width))


def _windows(x: ClArray, windows: Windows, channels: int) -> Matrix:
    """Return a matrix whose rows are windows and whose columns are kernel positions."""
    area = _located(x, windows.padding)
    begins = [
        area.axis(i, range(0, n * s, s))
        for i, (n, s) in enumerate(
            zip(windows.out_shape, (1, *windows.strides), strict=False)
        )
    ]
    positions = [
        area.axis(i, range(0, n * d, d))
        for i, (n, d) in enumerate(
            zip(windows.window, windows.dilations, strict=True), 1
        )
    ]
    rows = area.table(*begins, begin=True)
    steps = area.table(*positions, area.channels(channels))
    return Matrix(
        area.x, 0, 1, channels, rows=rows, steps=steps, run=channels, image=area.image
    )


class _Phase(NamedTuple):
    """One ``geometry.Phase`` for each axis.

    Attributes:
        start: The index of the first element, on each axis.
        size: The number of elements, on each axis.
        positions: The indices of the kernel positions that read the first element, each
            with the index of the window in the padded ``dy``.

    """

    start: Shape
    size: Shape
    positions: list[tuple[int, Shape]]


@functools.lru_cache(256)
def _phases(windows: Windows) -> tuple[tuple[tuple[int, int], ...], list[_Phase]]:
    """Return how far the phases read beyond ``dy``, and the phases."""
    frame = []
    for phases, count in zip(windows.phases, windows.out_shape[1:-1], strict=True):
        reach = [(w, w + p.size) for p in phases for _, w in p.readers]
        before = -min([0, *[first for first, _ in reach]])
        frame.append((before, max([count, *[end for _, end in reach]]) - count))
    found = []
    for axis_phases in itertools.product(*windows.phases):
        start, size, readers = zip(*axis_phases, strict=True)
        positions = []
        for pairs in itertools.product(*readers):
            number = 0
            for n, (k, _) in zip(windows.window, pairs, strict=True):
                number = number * n + k
            output = [w + b for (_, w), (b, _) in zip(pairs, frame, strict=True)]
            positions.append((number, tuple(output)))
        found.append(_Phase(start, size, positions))
    return tuple(frame), found
