"""Samples images at arbitrary coordinates: grids, regions, deformed windows."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import plugrad as pg

from ..graph import Node
from ..registry import Value, op
from .shape import ints
from .windows import Ints, extent


@op("AffineGrid", since=20, reads=(1,))
def affine_grid(theta: Value, size: Value, *, align_corners: int = 0) -> Value:
    """Return ``theta · (x, y, 1)`` per pixel, or ``theta · (x, y, z, 1)`` in 3D."""
    sizes = ints(size)[2:]
    axes = [_pixel_centers(n, bool(align_corners)) for n in sizes]
    grid = np.meshgrid(*axes, indexing="ij")[::-1]  # the last axis is x
    points = np.stack([*grid, np.ones(sizes)], axis=-1).reshape(-1, len(sizes) + 1)
    y = pg.matmul(points.astype(theta.dtype), theta, transpose_b=True)
    return pg.reshape(y, (theta.shape[0], *sizes, len(sizes)))


def _pixel_centers(count: int, align_corners: bool) -> Any:
    """Return pixel coordinates between -1 and 1; 0 for a single pixel."""
    if align_corners and count > 1:
        return np.linspace(-1, 1, count)
    return (2 * np.arange(count) + 1) / max(count, 1) - 1


@op("GridSample", since=16)
def grid_sample(
    x: Value,
    grid: Value,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Value:
    method: Any = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    outside: Any = padding_mode
    options = {"padding_mode": outside, "align_corners": bool(align_corners)}
    y = pg.image.grid_sample(pg.moveaxis(x, 1, -1), grid, method=method, **options)
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
    pixels = pg.permute_dims(x, (0, 2, 3, 1))
    sizes = tuple(x.shape[2:])
    regions = []
    for box, batch in zip(rois, batches, strict=True):
        left, top, right, bottom = box * spatial_scale - (0.5 if half else 0.0)
        axes = []
        for low, high, count in (
            (top, bottom, output_height),
            (left, right, output_width),
        ):
            span = high - low if half else max(high - low, 1.0)
            samples = sampling_ratio or max(math.ceil(span / count), 1)
            steps = (np.arange(count * samples) + 0.5) / samples
            axes.append((low + steps * (span / count), samples))
        (y, py), (z, pz) = axes
        grid = np.stack(np.meshgrid(y, z, indexing="ij")).reshape(2, -1)
        values = _aligned(pixels[int(batch)], sizes, grid, mode)
        shape = (output_height, py, output_width, pz, x.shape[1])
        reduce = pg.mean if mode == "avg" else pg.max
        regions.append(reduce(pg.reshape(values, shape), axis=(1, 3)))
    if not regions:
        return pg.zeros((0, x.shape[1], output_height, output_width), dtype=x.dtype)
    return pg.permute_dims(pg.stack(regions), (0, 3, 1, 2))


def _aligned(image: Value, sizes: Ints, grid: Any, mode: str) -> Value:
    """Sample a region; points at most one pixel outside are moved to the edge."""
    valid = np.ones(grid.shape[1:], bool)
    coordinates = []
    for at, n in zip(grid, sizes, strict=True):
        valid &= (at >= -1) & (at <= n)
        coordinates.append(np.clip(at, 0, n - 1).astype(np.float32))
    corners = []
    starts = [
        np.minimum(np.floor(p), max(n - 1, 0))
        for p, n in zip(coordinates, sizes, strict=True)
    ]
    for corner in itertools.product((0, 1), repeat=2):
        weight = np.ones_like(coordinates[0])
        at = []
        for p, s, o, n in zip(coordinates, starts, corner, sizes, strict=True):
            weight = weight * (1 - np.abs(p - (s + o)))
            at.append(np.minimum(s + o, n - 1).astype(np.int32))
        weight = (weight * valid)[:, None].astype(np.float32)
        corners.append(pg.gather_nd(image, np.stack(at, -1)) * pg.asarray(weight))
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
    """Convolve windows whose elements are read at displaced coordinates."""
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
    depth = channels // offset_group
    columns = []
    # If sizes are powers of two, whole pixels have exact grid coordinates: pad to them.
    halves = [2 ** (n - 1).bit_length() / 2 for n in sizes]
    margins = [(0, int(2 * h) + 1 - n) for h, n in zip(halves, sizes, strict=True)]
    for g in range(offset_group):
        part = pg.permute_dims(x[:, g * depth : (g + 1) * depth], (0, 2, 3, 1))
        part = pg.pad(part, [(0, 0), *margins, (0, 0)])
        for k, tap in enumerate(np.ndindex(*window)):
            begin = [tap[i] * dilations[i] - pads[i] for i in range(2)]
            y = _displaced(part, moved[:, g, k], begin, strides, halves)
            if mask is not None:
                masks = pg.reshape(mask, (batch, offset_group, count, -1))[:, g, k]
                y = y * pg.expand_dims(masks, -1)
            columns.append(y)
    return _weighted(columns, w, b, group, offset_group, out)


def _displaced(
    x: Value, offset: Value, begin: list[int], strides: Ints, halves: list[float]
) -> Value:
    """Read one element of each window; ``offset`` is [batch, (y, x), rows, columns]."""
    grid = []
    for i in (1, 0):
        positions = (
            np.arange(offset.shape[2 + i], dtype=np.float32) * strides[i] + begin[i]
        )
        positions = positions.reshape((-1, 1) if i == 0 else (1, -1))
        grid.append((offset[:, i] + positions) / halves[i] - 1)
    y = pg.image.grid_sample(x, pg.stack(grid, axis=-1), align_corners=True)
    return pg.reshape(y, (y.shape[0], -1, y.shape[-1]))


def _weighted(
    columns: list[Value], w: Value, b: Value, group: int, parts: int, out: list[int]
) -> Value:
    """Multiply the sampled columns, [batch, points, channels] each, by the filter."""
    count = len(columns) // parts
    by_position = [
        pg.concat(columns[k::count], axis=-1) if parts > 1 else columns[k]
        for k in range(count)
    ]
    samples = pg.stack(by_position, axis=-1)
    batch, points, channels, _ = samples.shape
    samples = pg.reshape(samples, (batch, points, group, channels // group * count))
    filters = pg.reshape(w, (group, w.shape[0] // group, -1))
    y = pg.einsum("npgk,gok->ngop", samples, filters)
    y = pg.reshape(y, (batch, w.shape[0], *out))
    return y if b is None else y + pg.reshape(b, (-1, 1, 1))
