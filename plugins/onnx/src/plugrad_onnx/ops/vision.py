"""Images that are read at any place: grids, regions, deformed windows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import plugrad as pg

from ..graph import Node
from ..registry import Value, op
from .windows import Ints, extent


def _pixels(x: Value) -> Value:
    """Return [batch, pixels, channels] of [batch, channels, ...]."""
    return pg.permute_dims(pg.reshape(x, (*x.shape[:2], -1)), (0, 2, 1))


def _read(pixels: Value, sizes: Ints, places: Sequence[Value], inside: bool) -> Value:
    """Return [batch, points, channels] at whole places; outside 0, or the edge."""
    flat: Value = None
    seen: Value = None
    for place, n in zip(places, sizes, strict=True):
        whole = pg.clip(place, 0.0, float(n - 1))
        if not inside:
            ok = pg.equal(whole, place)
            seen = ok if seen is None else pg.logical_and(seen, ok)
        number = pg.astype(whole, "int32")
        flat = number if flat is None else flat * n + number
    y = pg.gather(pixels, flat, 1, batch_dims=1)
    return y if inside else pg.where(pg.expand_dims(seen, -1), y, pg.zeros_like(y))


def sampled(
    pixels: Value,
    sizes: Ints,
    places: Sequence[Value],
    mode: str = "linear",
    *,
    inside: bool = False,
    fold: Any = None,
) -> Value:
    """Return [batch, points, channels] at places [batch, points], one for each axis."""
    fold = fold or (lambda place, axis: place)
    if mode == "nearest":
        rounded = [fold(pg.round(p), i) for i, p in enumerate(places)]
        return _read(pixels, sizes, rounded, inside)
    offsets = (0, 1) if mode == "linear" else (-1, 0, 1, 2)
    starts = [pg.stop_gradient(pg.floor(p)) for p in places]
    total: Value = None
    for corner in itertools.product(offsets, repeat=len(sizes)):
        weight: Value = None
        at = []
        for i, offset in enumerate(corner):
            place = starts[i] + float(offset)
            distance = pg.abs(places[i] - place)
            one = 1 - distance if mode == "linear" else _cubic(distance)
            weight = one if weight is None else weight * one
            at.append(fold(place, i))
        part = _read(pixels, sizes, at, inside) * pg.expand_dims(weight, -1)
        total = part if total is None else total + part
    return total


def _cubic(x: Value, a: float = -0.75) -> Value:
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return pg.where(x <= 1, near, far)


def _fold(padding: str, align: int, sizes: Ints) -> Any:
    """Return how places outside are brought inside; None where they are 0."""
    if padding == "border":
        return lambda place, axis: pg.clip(place, 0.0, float(sizes[axis] - 1))
    if padding != "reflection":
        return None

    def reflect(place: Value, axis: int) -> Value:
        low = 0.0 if align else -0.5
        span = float(sizes[axis] - 1 if align else sizes[axis])
        if span == 0:
            return pg.zeros_like(place)
        moved = pg.remainder(place - low, 2 * span)
        y = span - pg.abs(moved - span) + low
        return pg.clip(y, 0.0, float(sizes[axis] - 1))

    return reflect


@op("GridSample", since=16)
def grid_sample(
    x: Value,
    grid: Value,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Value:
    sizes, n = tuple(x.shape[2:]), x.ndim - 2
    places = []
    for i, size in enumerate(sizes):
        at = pg.reshape(grid[..., n - 1 - i], (x.shape[0], -1))
        at = (at + 1) * ((size - 1) / 2) if align_corners else ((at + 1) * size - 1) / 2
        places.append(at)
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    fold = _fold(padding_mode, align_corners, sizes)
    if fold is not None and mode != "cubic":
        places = [fold(p, i) for i, p in enumerate(places)]
    inside = padding_mode != "zeros"
    pixels = _pixels(x)
    y = sampled(pixels, sizes, places, mode, inside=inside, fold=fold)
    y = pg.reshape(y, (x.shape[0], *grid.shape[1:-1], x.shape[1]))
    return pg.moveaxis(y, -1, 1)


# --- regions ---------------------------------------------------------------------


@op("RoiAlign", since=10, reads=(1, 2))
def roi_align(
    x: Value,
    rois: Value,
    batches: Value,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
    node: Node,
) -> Value:
    half = coordinate_transformation_mode == "half_pixel" and node.version >= 16
    pixels, sizes = _pixels(x), tuple(x.shape[2:])
    found = []
    for box, batch in zip(rois, batches, strict=True):
        left, top, right, bottom = box * spatial_scale - (0.5 if half else 0.0)
        axes = []
        for low, high, count in (
            (top, bottom, output_height),
            (left, right, output_width),
        ):
            span = high - low if half else max(high - low, 1.0)
            per = sampling_ratio or max(math.ceil(span / count), 1)
            steps = (np.arange(count * per) + 0.5) / per
            axes.append((low + steps * (span / count), per))
        (y, py), (z, pz) = axes
        grid = np.stack(np.meshgrid(y, z, indexing="ij")).reshape(2, 1, -1)
        values = _aligned(pixels[int(batch)][None], sizes, grid, mode)
        shape = (output_height, py, output_width, pz, x.shape[1])
        reduce = pg.mean if mode == "avg" else pg.max
        found.append(reduce(pg.reshape(values, shape), axis=(1, 3)))
    if not found:
        return pg.zeros((0, x.shape[1], output_height, output_width), dtype=x.dtype)
    return pg.permute_dims(pg.stack(found), (0, 3, 1, 2))


def _aligned(pixels: Value, sizes: Ints, grid: Any, mode: str) -> Value:
    """Read places of a region: those up to a pixel outside count as on the edge."""
    valid = np.ones(grid.shape[1:], bool)
    places = []
    for at, n in zip(grid, sizes, strict=True):
        valid &= (at >= -1) & (at <= n)
        places.append(np.clip(at, 0, n - 1).astype(np.float32))
    corners = []
    starts = [
        np.minimum(np.floor(p), max(n - 1, 0))
        for p, n in zip(places, sizes, strict=True)
    ]
    for corner in itertools.product((0, 1), repeat=2):
        weight = np.ones_like(places[0])
        at = []
        for p, s, o in zip(places, starts, corner, strict=True):
            weight = weight * (1 - np.abs(p - (s + o)))
            at.append(pg.asarray((s + o).astype(np.float32)))
        part = _read(pixels, sizes, at, True) * pg.asarray(
            (weight * valid)[..., None].astype(np.float32)
        )
        corners.append(part)
    if mode != "max":
        return pg.add_n(corners)
    y = corners[0]
    for part in corners[1:]:
        y = pg.maximum(y, part)
    return y


@op("DeformConv", since=19)
def deform_conv(
    x: Value,
    w: Value,
    offset: Value,
    b: Value = None,
    mask: Value = None,
    *,
    dilations: Ints = (1, 1),
    group: int = 1,
    kernel_shape: Ints | None = None,
    offset_group: int = 1,
    pads: Ints = (0, 0, 0, 0),
    strides: Ints = (1, 1),
) -> Value:
    """Convolve windows whose elements are read at places of their own."""
    window, count = w.shape[2:], math.prod(w.shape[2:])
    batch, channels, *sizes = x.shape
    out = [
        (sizes[i] + pads[i] + pads[i + 2] - extent(window[i], dilations[i]))
        // strides[i]
        + 1
        for i in range(2)
    ]
    shape = (batch, offset_group, count, 2, *out)
    moved = pg.reshape(offset, shape)
    each = channels // offset_group
    columns = []
    for g in range(offset_group):
        pixels = _pixels(x[:, g * each : (g + 1) * each])
        for k, at in enumerate(np.ndindex(*window)):
            places = []
            for i in range(2):
                start = np.arange(out[i]) * strides[i] - pads[i] + at[i] * dilations[i]
                start = start.astype(np.float32).reshape((-1, 1) if i == 0 else (1, -1))
                places.append(pg.reshape(moved[:, g, k, i] + start, (batch, -1)))
            y = sampled(pixels, tuple(sizes), places)
            if mask is not None:
                share = pg.reshape(mask, (batch, offset_group, count, -1))[:, g, k]
                y = y * pg.expand_dims(share, -1)
            columns.append(y)
    return _weighted(columns, w, b, group, offset_group, out)


def _weighted(
    columns: list[Value], w: Value, b: Value, group: int, parts: int, out: list[int]
) -> Value:
    """Multiply what was read, [batch, points, channels] a place, by the filter."""
    count = len(columns) // parts
    by_place = [
        pg.concat(columns[k::count], axis=-1) if parts > 1 else columns[k]
        for k in range(count)
    ]
    read = pg.stack(by_place, axis=-1)
    batch, points, channels, _ = read.shape
    read = pg.reshape(read, (batch, points, group, channels // group * count))
    filters = pg.reshape(w, (group, w.shape[0] // group, -1))
    y = pg.einsum("npgk,gok->ngop", read, filters)
    y = pg.reshape(y, (batch, w.shape[0], *out))
    return y if b is None else y + pg.reshape(b, (-1, 1, 1))
