"""Pooling over windows, regions and whole images."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import plugrad as pg
from plugrad import geometry

from ..dtypes import is_floating
from ..graph import Node
from ..registry import Value, op
from .shape import ints
from .windows import WINDOW, Ints, Window, to_channels_first, to_channels_last


@op("AveragePool")
def average_pool(
    x: Value,
    *,
    window: Window = WINDOW,
    count_include_pad: int = 0,
    channels_last: int = 0,
) -> Value:
    x = x if channels_last else to_channels_last(x)
    size = window.kernel_shape
    pool: Any = pg.avg_pool1d if len(size) == 1 else pg.avg_pool
    counted = bool(count_include_pad)
    y = pool(x, size, **window.arguments(x, size), count_include_pad=counted)
    return y if channels_last else to_channels_first(y)


@op("LpPool", since=2)
def lp_pool(
    x: Value, *, window: Window = WINDOW, p: int = 2, channels_last: int = 0
) -> Value:
    x = pg.abs(x if channels_last else to_channels_last(x)) ** p
    size = window.kernel_shape
    options = window.arguments(x, size)
    pad = geometry.windows("LpPool", x.shape, size, **options).padding
    x = pg.pad(x, [(0, 0), *pad, (0, 0)])
    pool: Any = pg.avg_pool1d if len(size) == 1 else pg.avg_pool
    y = pool(x, size, strides=options["strides"], dilations=options["dilations"])
    y = (y * math.prod(size)) ** (1 / p)
    return y if channels_last else to_channels_first(y)


@op("MaxPool")
def max_pool(
    x: Value,
    *,
    window: Window = WINDOW,
    storage_order: int = 0,
    channels_last: int = 0,
    node: Node,
) -> Value:
    x = x if channels_last else to_channels_last(x)
    window_sizes = window.kernel_shape
    options = window.arguments(x, window_sizes)
    if len(node.outputs) > 1:
        windows = geometry.windows("MaxPool", x.shape, window_sizes, **options)
        return _max_pool_with_indices(to_channels_first(x), windows, storage_order)
    pool: Any = pg.max_pool1d if len(window_sizes) == 1 else pg.max_pool
    y = pool(x, window_sizes, **options)
    return y if channels_last else to_channels_first(y)


def _max_pool_with_indices(
    x: Value, windows: geometry.Windows, by_column: int
) -> tuple[Value, Value]:
    """Return the maxima and their indices in the flat, channels-first input."""
    sizes = x.shape[2:]
    lowest = -math.inf if is_floating(x.dtype) else int(np.iinfo(x.dtype).min)
    padded = pg.pad(x, [(0, 0), (0, 0), *windows.padding], constant_values=lowest)
    steps, counts = windows.strides, windows.out_shape[1:-1]
    candidates, indices = [], []
    order: Any = "F" if by_column else "C"
    for begin in windows.kernel_positions:
        rows = [*zip(begin, counts, steps, windows.padding, strict=True)]
        slices = [slice(b, b + (c - 1) * s + 1, s) for b, c, s, _ in rows]
        candidates.append(padded[(..., *slices)])
        axes = [b + np.arange(c) * s - p[0] for b, c, s, p in rows]
        grid = np.meshgrid(*axes, indexing="ij")
        indices.append(np.ravel_multi_index(grid, sizes, mode="clip", order=order))
    values = pg.stack(candidates)
    best = pg.argmax(values, axis=0)
    table = pg.asarray(np.stack(indices)[:, None, None])
    table = pg.broadcast_to(table, values.shape)
    flat = pg.take_along_axis(table, pg.expand_dims(best, 0), axis=0)[0]
    images = np.arange(math.prod(x.shape[:2])).reshape(*x.shape[:2], *[1] * len(sizes))
    return pg.max(values, axis=0), flat + images * math.prod(sizes)


@op("MaxUnpool", reads=(2,))
def max_unpool(
    x: Value,
    indices: Value,
    output_shape: Value = None,
    *,
    kernel_shape: Ints,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Value:
    n = len(kernel_shape)
    steps = strides or (1,) * n
    margins = pads or (0,) * 2 * n
    inner = tuple(
        (x.shape[i + 2] - 1) * steps[i] + kernel_shape[i] - margins[i] - margins[i + n]
        for i in range(n)
    )
    shape = (*x.shape[:2], *inner)
    wanted = shape if output_shape is None else ints(output_shape)
    if any(w > s for w, s in zip(wanted, shape, strict=True)):
        begins = tuple(
            np.arange(x.shape[i + 2]) * steps[i] - margins[i] for i in range(n)
        )
        indices = _to_output_indices(indices, shape, wanted, begins, kernel_shape)
    flat = pg.reshape(indices, (-1, 1))
    y = pg.scatter_nd(flat, pg.reshape(x, (-1,)), (math.prod(wanted),))
    return pg.reshape(y, wanted)


def _to_output_indices(
    indices: Value, inferred: Ints, wanted: Ints, begins: Any, window: Ints
) -> Value:
    """Return flat indices into an output that is larger than the inferred shape.

    In MaxPool, ONNX Runtime and PyTorch, indices refer to the shape of this output. In
    the ONNX node test, they refer to the inferred shape. Convert the indices only if
    each of them lies in the window of its maximum when read as an index into the
    inferred shape, but not when read as an index into the output.
    """
    in_wanted = _coordinates(indices, wanted)
    in_inferred = _coordinates(indices, inferred)
    converted = pg.zeros_like(indices)
    for coordinate, size in zip(in_inferred, wanted, strict=True):
        converted = converted * size + coordinate
    wanted_fits, inferred_fits = (
        _in_windows(coordinates, begins, window)
        for coordinates in (in_wanted, in_inferred)
    )
    only_inferred = pg.logical_and(inferred_fits, pg.logical_not(wanted_fits))
    return pg.where(only_inferred, converted, indices)


def _coordinates(indices: Value, shape: Ints) -> list[Value]:
    """Return the coordinates of flat indices along each axis."""
    coordinates = []
    for size in reversed(shape[1:]):
        coordinates.append(pg.remainder(indices, size))
        indices = pg.floor_divide(indices, size)
    return [indices, *reversed(coordinates)]


def _in_windows(coordinates: list[Value], begins: Any, window: Ints) -> Value:
    """Return whether each maximum lies in its window, given its coordinates."""
    rank = len(coordinates)
    fits = pg.asarray(True)
    starts = [
        np.arange(coordinates[0].shape[0]),
        np.arange(coordinates[0].shape[1]),
        *begins,
    ]
    for axis, start in enumerate(starts):
        low = start.reshape([-1 if i == axis else 1 for i in range(rank)])
        high = low + (window[axis - 2] if axis > 1 else 1)
        inside = pg.logical_and(coordinates[axis] >= low, coordinates[axis] < high)
        fits = pg.logical_and(fits, pg.all(inside))
    return fits


def _axes(x: Value, channels_last: int) -> Ints:
    return tuple(range(1, x.ndim - 1) if channels_last else range(2, x.ndim))


@op("GlobalAveragePool")
def global_average_pool(x: Value, *, channels_last: int = 0) -> Value:
    return pg.mean(x, axis=_axes(x, channels_last), keepdims=True)


@op("GlobalMaxPool")
def global_max_pool(x: Value, *, channels_last: int = 0) -> Value:
    return pg.max(x, axis=_axes(x, channels_last), keepdims=True)


@op("GlobalLpPool", since=2)
def global_lp_pool(x: Value, *, p: int = 2, channels_last: int = 0) -> Value:
    axes = _axes(x, channels_last)
    return pg.sum(pg.abs(x) ** p, axis=axes, keepdims=True) ** (1 / p)


@op("MaxRoiPool", reads=(1,))
def max_roi_pool(
    x: Value, rois: Value, *, pooled_shape: Ints, spatial_scale: float = 1.0
) -> Value:
    bins = []
    for number, *box in rois:
        image = x[int(number)]
        left, top, right, bottom = (round(float(v) * spatial_scale) for v in box)
        rows = _bins(top, bottom, pooled_shape[0], x.shape[2])
        columns = _bins(left, right, pooled_shape[1], x.shape[3])
        bins += [
            pg.max(image[:, a:b, c:d], axis=(1, 2))
            if b > a and d > c
            else pg.zeros(x.shape[1:2], dtype=x.dtype)
            for a, b in rows
            for c, d in columns
        ]
    shape = (len(rois), *pooled_shape, x.shape[1])
    return pg.permute_dims(pg.reshape(pg.stack(bins), shape), (0, 3, 1, 2))


@functools.cache
def _bins(start: int, end: int, count: int, size: int) -> list[tuple[int, int]]:
    """Return the start and end of each bin of a region."""
    bin_size = max(end - start + 1, 1) / count

    def clipped(position: int) -> int:
        return min(max(position, 0), size)

    return [
        (
            clipped(math.floor(i * bin_size) + start),
            clipped(math.ceil((i + 1) * bin_size) + start),
        )
        for i in range(count)
    ]
