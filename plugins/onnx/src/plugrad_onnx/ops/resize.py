"""Resize: with plugrad kernels if they give the same result, else with matrices."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plugrad as pg

from ..registry import Value, op

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Axis:
    """The sizes, scale and region of one resized axis."""

    size: int
    wanted: int
    scale: float
    start: float = 0.0
    end: float = 1.0


@dataclass(frozen=True)
class Rule:
    """The attributes that decide which elements are read and with which weights."""

    mode: str = "nearest"
    coordinates: str = "half_pixel"
    nearest: str = "round_prefer_floor"
    cubic: float = -0.75
    outside: bool = False
    antialias: bool = False
    extrapolation: float = 0.0


def positions(axis: Axis, rule: Rule) -> Array:
    """Return the input coordinate of each output element."""
    i = np.arange(axis.wanted)
    n = axis.size
    wide = axis.scale * axis.size
    half = (i + 0.5) / axis.scale - 0.5
    if rule.coordinates == "half_pixel" or axis.wanted == 1 == n:
        return half
    if rule.coordinates == "pytorch_half_pixel":
        return half if axis.wanted > 1 else np.zeros(1)
    if rule.coordinates == "half_pixel_symmetric":
        return n / 2 * (1 - axis.wanted / wide) + half
    if rule.coordinates == "align_corners":
        return i * (n - 1) / (wide - 1) if wide != 1 else np.zeros(axis.wanted)
    if rule.coordinates == "tf_half_pixel_for_nn":
        return half + 0.5
    if rule.coordinates == "tf_crop_and_resize":
        if axis.wanted == 1:
            return np.array([0.5 * (axis.start + axis.end) * (n - 1)])
        step = (axis.end - axis.start) * (n - 1) / (axis.wanted - 1)
        return axis.start * (n - 1) + i * step
    return i / axis.scale


def nearest_places(axis: Axis, rule: Rule) -> Array:
    """Return the index of the nearest input element."""
    x = positions(axis, rule)
    rounded = {
        "opset_10": lambda: np.ceil(x) if axis.scale < 1 else np.floor(x),
        "round_prefer_floor": lambda: np.ceil(x - 0.5),
        "round_prefer_ceil": lambda: np.floor(x + 0.5),
        "floor": lambda: np.floor(x),
        "ceil": lambda: np.ceil(x),
    }[rule.nearest]()
    return np.clip(rounded, 0, axis.size - 1).astype(np.int64)


@functools.lru_cache(maxsize=256)
def matrix(axis: Axis, rule: Rule) -> Array:
    """Return the interpolation weights of an axis, [wanted, size]."""
    x = positions(axis, rule)
    stretch = min(axis.scale, 1.0) if rule.antialias else 1.0
    reach = (2 if rule.mode == "cubic" else 1) / stretch
    offsets = np.arange(math.floor(-reach) + 1, 2 - (math.floor(-reach) + 1))
    places = np.floor(x)[:, None].astype(int) + offsets
    distance = np.abs(places - x[:, None]) * stretch
    weights = _cubic(distance, rule.cubic) if rule.mode == "cubic" else 1 - distance
    weights = weights if rule.mode == "cubic" else np.maximum(weights, 0)
    if rule.outside:
        weights = np.where((places >= 0) & (places < axis.size), weights, 0)
    if rule.outside or rule.antialias:
        weights = weights / weights.sum(1, keepdims=True)
    y = np.zeros((axis.wanted, axis.size), np.float32)
    rows = np.arange(axis.wanted)[:, None]
    np.add.at(y, (rows, np.clip(places, 0, axis.size - 1)), weights)
    return y


def _cubic(x: Array, a: float) -> Array:
    near = (a + 2) * x**3 - (a + 3) * x**2 + 1
    far = a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def resized(x: Value, axes: dict[int, Axis], rule: Rule) -> Value:
    """Resize the axes of a tensor of any rank."""
    for i, axis in axes.items():
        unchanged = axis.size == axis.wanted and axis.scale == 1
        if unchanged and rule.coordinates != "tf_crop_and_resize":
            continue
        if rule.mode == "nearest":
            x = pg.gather(x, nearest_places(axis, rule), i)
        else:
            weights = pg.astype(pg.asarray(matrix(axis, rule)), x.dtype)
            moved = pg.moveaxis(x, i, -1)
            x = pg.moveaxis(pg.matmul(moved, weights, transpose_b=True), -1, i)
        if rule.coordinates == "tf_crop_and_resize":
            coordinates = positions(axis, rule)
            outside = (coordinates < 0) | (coordinates > axis.size - 1)
            if outside.any():
                shape = [1] * x.ndim
                shape[i] = len(coordinates)
                fill = np.dtype(x.dtype).type(rule.extrapolation)
                x = pg.where(outside.reshape(shape), fill, x)
    return x


def _by_kernel(x: Value, axes: dict[int, Axis], rule: Rule) -> Value | None:
    """Return the result of a channels-last kernel; None if no kernel fits."""
    if x.ndim != 4 or not {*axes} >= {1, 2} or x.dtype != np.float32:
        return None
    exact = all(a.scale * a.size == a.wanted for a in axes.values())
    others_unchanged = all(a.size == a.wanted for i, a in axes.items() if i in (0, 3))
    if not exact or not others_unchanged or rule.antialias or rule.outside:
        return None
    size = (axes[1].wanted, axes[2].wanted)
    if rule.mode == "linear":
        known = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
        mode = rule.coordinates
        if mode not in known or (min(size) == 1 and mode == "pytorch_half_pixel"):
            return None
        half = mode.endswith("half_pixel")
        align = mode == "align_corners"
        options = {"half_pixel_centers": half, "align_corners": align}
        return pg.image.resize_bilinear(x, size, **options)
    for axis in (axes[1], axes[2]):
        expected = np.arange(axis.wanted) * axis.size // axis.wanted
        if not np.array_equal(nearest_places(axis, rule), expected):
            return None
    return pg.image.resize_nearest_neighbor(x, size)


def _resize(
    x: Value,
    scales: Sequence[float] | None,
    sizes: Sequence[int] | None,
    roi: Sequence[float] | None,
    axes: Sequence[int],
    rule: Rule,
    channels_last: int,
) -> Value:
    last = x.ndim - 1
    positions = [a % x.ndim for a in axes]
    if channels_last:
        positions = [0 if a == 0 else last if a == 1 else a - 1 for a in positions]
    rows = {}
    for i, position in enumerate(positions):
        n = x.shape[position]
        wanted = math.floor(n * scales[i]) if scales else (sizes or ())[i]
        scale = scales[i] if scales else wanted / n
        region = (roi[i], roi[i + len(positions)]) if roi else (0.0, 1.0)
        rows[position] = Axis(n, wanted, scale, *region)
    if channels_last and rule.mode != "cubic":
        y = _by_kernel(x, rows, rule)
        if y is not None:
            return y
    return resized(x, rows, rule)


def _numbers(x: Value) -> list[Any] | None:
    return None if x is None or not x.size else x.reshape(-1).tolist()


@op("Upsample", since=7)
def upsample_attribute(
    x: Value, *, scales: Sequence[float], mode: str = "nearest", channels_last: int = 0
) -> Value:
    return upsample(x, np.array(scales), mode=mode, channels_last=channels_last)


@op("Upsample", since=9, reads=(1,))
@op("Resize", since=10, reads=(1,))
def upsample(
    x: Value, scales: Value, *, mode: str = "nearest", channels_last: int = 0
) -> Value:
    rule = Rule(mode, "asymmetric", "opset_10")
    return _resize(x, _numbers(scales), None, None, range(x.ndim), rule, channels_last)


@op("Resize", since=11, reads=(1, 2, 3))
def resize(
    x: Value,
    roi: Value = None,
    scales: Value = None,
    sizes: Value = None,
    *,
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
    channels_last: int = 0,
) -> Value:
    chosen = range(x.ndim) if axes is None else axes
    factors = _numbers(scales)
    wanted = _numbers(sizes)
    if keep_aspect_ratio_policy != "stretch" and wanted:
        choose = min if keep_aspect_ratio_policy == "not_larger" else max
        n = [x.shape[_axis_position(a % x.ndim, x.ndim, channels_last)] for a in chosen]
        factor = choose(w / s for w, s in zip(wanted, n, strict=True))
        wanted = [math.floor(factor * s + 0.5) for s in n]
    rule = Rule(
        mode,
        coordinate_transformation_mode,
        nearest_mode,
        cubic_coeff_a,
        bool(exclude_outside),
        bool(antialias),
        extrapolation_value,
    )
    crop = coordinate_transformation_mode == "tf_crop_and_resize"
    box = _numbers(roi) if crop else None
    return _resize(x, factors, wanted, box, chosen, rule, channels_last)


def _axis_position(axis: int, rank: int, channels_last: int) -> int:
    if not channels_last or axis == 0:
        return axis
    return rank - 1 if axis == 1 else axis - 1
