"""Resizing axis by axis, in parts that fit a cache; reading images at any place.

Columns and channels lie in one axis, so that what is read in one go is long.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from plugrad.geometry import Resizing
from plugrad.plugin import KernelTable

from ..arrays import Array
from ._windows import batches
from .gather import out_of_range

kernels = KernelTable()

# --- resizing --------------------------------------------------------------------


@kernels("ResizeBilinear")
def resize_bilinear(images: Array, *, geometry: Resizing) -> Array:
    """Weigh the two ends of each place."""
    return _taken(images, geometry, _ends(geometry, _dtype(images)))


@kernels("ResizeBilinearGrad")
def resize_bilinear_grad(
    images: Array | None, dy: Array, *, geometry: Resizing
) -> Array:
    """Put the weighed cotangent of each place to both of its ends."""
    return _put_back(dy, geometry, _ends(geometry, _dtype(dy)))


@kernels("ResizeNearestNeighbor")
def resize_nearest_neighbor(images: Array, *, geometry: Resizing) -> Array:
    """Read rows and columns."""
    return _taken(images, geometry, _ends(geometry))


@kernels("ResizeNearestNeighborGrad")
def resize_nearest_neighbor_grad(
    images: Array | None, dy: Array, *, geometry: Resizing
) -> Array:
    """Put each cotangent to the pixel that was read."""
    return _put_back(dy, geometry, _ends(geometry))


def _dtype(x: Array) -> np.dtype:
    """Return the dtype to compute in."""
    return np.dtype(np.float32) if x.dtype == np.float16 else x.dtype


def _ends(geometry: Resizing, dtype: np.dtype | None = None) -> list[list[Any]]:
    """Return, for rows and columns, what is read at each place, and with what weights.

    The nearest pixel, without a weight, unless a dtype for weights is given.
    """
    if dtype is None:
        return [[(index, None)] for index in geometry.nearest]
    rows, columns = (
        [(low, (1 - share).astype(dtype)), (high, share.astype(dtype))]
        for low, high, share in geometry.linear
    )
    c = geometry.in_shape[3]
    return [[(i, w[:, None]) for i, w in rows], [(i, w.repeat(c)) for i, w in columns]]


def _flat(index: Array, axis: int, geometry: Resizing) -> Array:
    """Return columns as indices of columns and channels."""
    c = geometry.in_shape[3]
    return index if axis == 1 else (index[:, None] * c + np.arange(c)).ravel()


def _by_axis(step: Any, x: Array, shape: tuple[int, ...]) -> Array:
    """Take each axis that changes a step, first that which leaves less to do."""
    _, h, w, c = x.shape
    axes = [1, 2] if shape[1] * w < h * shape[2] else [2, 1]
    axes = [axis for axis in axes if shape[axis] != x.shape[axis]]
    if not axes:
        return x
    y = np.empty(shape, x.dtype)
    for part in batches(y if y.size > x.size else x):
        some = x[part].astype(_dtype(x), copy=False)
        some = some.reshape(len(some), h, w * c)
        for axis in axes:
            some = step(some, axis)
        y[part] = some.reshape(len(some), *shape[1:])
    return y


def _taken(images: Array, geometry: Resizing, ends: list[list[Any]]) -> Array:
    """Add up what is read at each place."""
    tables = [
        [(_flat(at, axis, geometry), weights) for at, weights in some]
        for axis, some in enumerate(ends, 1)
    ]

    def take(x: Array, axis: int) -> Array:
        parts = []
        for at, weights in tables[axis - 1]:
            some = x.take(at, axis)
            parts.append(some if weights is None else np.multiply(some, weights, some))
        for some in parts[1:]:
            parts[0] += some
        return parts[0]

    return _by_axis(take, images, geometry.out_shape)


def _put_back(dy: Array, geometry: Resizing, ends: list[list[Any]]) -> Array:
    """Add up what was read from the same place."""
    sizes = (geometry.in_shape[1], geometry.in_shape[2] * geometry.in_shape[3])
    passes: list[list[Any]] = [[], []]
    for axis, tables in enumerate(ends, 1):
        for index, weights in tables:
            for run in _runs(index):
                at, to = (_flat(i, axis, geometry) for i in (run, index[run]))
                passes[axis - 1].append((at, weights, _range(to)))

    def put(x: Array, axis: int) -> Array:
        y = np.zeros([*x.shape[:axis], sizes[axis - 1], *x.shape[axis + 1 :]], x.dtype)
        lead = (slice(None),) * axis
        for at, weights, to in passes[axis - 1]:
            some = x.take(at, axis)
            y[(*lead, to)] += some if weights is None else some * weights[at]
        return y

    return _by_axis(put, dy, geometry.in_shape)


def _runs(index: Array) -> Iterator[Array]:
    """Cut a sorted table into parts without repetition; yield their places."""
    starts = np.flatnonzero(np.diff(index, prepend=-1))
    counts = np.diff(starts, append=len(index))
    for k in range(counts.max(initial=0)):
        yield starts[counts > k] + k


def _range(index: Array) -> Array | slice:
    """Return neighbours as a slice, which is faster."""
    first, last = (index[0], index[-1]) if len(index) else (0, -1)
    return slice(first, last + 1) if last - first + 1 == len(index) else index


# --- reading at places -----------------------------------------------------------


@kernels("CropAndResize")
def crop_and_resize(
    image: Array,
    boxes: Array,
    box_ind: Array,
    *,
    crop_size: tuple[int, int],
    method: str,
    extrapolation_value: float,
) -> Array:
    """Read from edge to edge of each box."""
    bad = (box_ind < 0) | (box_ind >= len(image))
    if bad.any():
        raise out_of_range("image.crop_and_resize", box_ind, 0, len(image))
    places = []
    for axis, count in enumerate(crop_size):
        back = np.arange(count, dtype=boxes.dtype)
        front, whole = back[::-1], count - 1
        if count == 1:
            front, back, whole = back + 1, back + 1, 2
        v = boxes[:, axis, None] * front + boxes[:, axis + 2, None] * back
        places.append(v * (image.shape[axis + 1] - 1) / whole)
    y, x = places[0][:, :, None], places[1][:, None, :]
    seen = (y >= 0) & (y <= image.shape[1] - 1) & (x >= 0) & (x <= image.shape[2] - 1)
    batch = box_ind.astype(np.intp)[:, None, None]
    return _sampled(image, batch, (y, x), seen, "clamp", method, extrapolation_value)


@kernels("Transform")
def transform(
    image: Array,
    transforms: Array,
    *,
    interpolation: str,
    fill_mode: str,
    fill_value: float,
    output_shape: tuple[int, int],
) -> Array:
    """Read where a projection points."""
    n, h, w, _ = image.shape
    i = np.arange(output_shape[1], dtype=transforms.dtype)
    j = np.arange(output_shape[0], dtype=transforms.dtype)[:, None]
    a = transforms.T[:, :, None, None]
    divisor = a[6] * i + a[7] * j + 1
    x = (a[0] * i + a[1] * j + a[2]) / divisor
    y = (a[3] * i + a[4] * j + a[5]) / divisor
    edge = {"constant": "pad", "wrap": "wrap"}.get(fill_mode, "clamp")
    if edge == "pad":
        seen = (y > -1) & (y < h) & (x > -1) & (x < w)
    else:
        seen = np.isfinite(x) & np.isfinite(y)
        y, x = _folded(y, h, fill_mode), _folded(x, w, fill_mode)
    batch = np.arange(n)[:, None, None]
    return _sampled(image, batch, (y, x), seen, edge, interpolation, fill_value)


def _folded(v: Array, size: int, mode: str) -> Array:
    """Take coordinates into the image."""
    if mode == "wrap":
        v = np.remainder(v, size)
        return np.where(v == size, 0, v)
    if mode == "reflect":
        v = np.remainder(v, 2 * size)
        v = np.minimum(v, 2 * size - 1 - v)
    return np.clip(v, 0, size - 1)


def _sampled(
    image: Array,
    batch: Array,
    places: tuple[Array, Array],
    seen: Array,
    edge: str,
    method: str,
    fill: float,
) -> Array:
    """Return what images show at places [n, rows, columns], or ``fill`` if not seen."""
    x = image.astype(_dtype(image), copy=False)
    if edge == "pad":
        n, h, w, c = image.shape
        x = np.full((n, h + 2, w + 2, c), fill, x.dtype)
        x[:, 1:-1, 1:-1] = image
    _, height, width, c = x.shape
    pixels = x.reshape(math.prod(x.shape[:3]), c)
    ends = [batch * (height * width)]
    for v, size, step in zip(places, image.shape[1:3], (width, 1), strict=True):
        ends += _around(np.where(seen, v, 0), size, edge, method, step, x.dtype)
    y = np.empty((len(batch), *seen.shape[1:], c), image.dtype)
    few = c <= 8  # are read one by one: NumPy is slow along short axes
    planes = [*np.ascontiguousarray(pixels.T)] if few else [pixels]
    results = [y[..., k] for k in range(c)] if few else [y]
    read = _nearest if method == "nearest" else _linear
    for part in batches(y):
        some, *rest = (t if len(t) == 1 else t[part] for t in (seen, *ends))
        for plane, result in zip(planes, results, strict=True):
            found = read(plane, *rest)
            if not some.all():
                np.copyto(found, fill, where=~_beside(some, plane))
            result[part] = found
    return y


def _around(
    v: Array, size: int, edge: str, method: str, step: int, dtype: np.dtype
) -> list[Array]:
    """Return where the pixels around a place lie along an axis, and their weight."""
    low = np.floor(v)
    share = v - low
    first = low.astype(np.intp)
    ends = [first + (share >= 0.5)] if method == "nearest" else [first, first + 1]
    if edge == "pad":
        ends = [i + 1 for i in ends]
    elif edge == "wrap":
        ends = [np.where(i == size, 0, i) for i in ends]
    else:
        ends = [np.minimum(i, size - 1) for i in ends]
    ends = [i * step for i in ends]
    return ends if method == "nearest" else [*ends, share.astype(dtype)]


def _nearest(pixels: Array, batch: Array, y: Array, x: Array) -> Array:
    return pixels.take(batch + y + x, 0)


def _linear(pixels: Array, batch: Array, *ends: Array) -> Array:
    y0, y1, down, x0, x1, right = ends
    down, right = _beside(down, pixels), _beside(right, pixels)
    top, bottom = (
        _mix(pixels.take(batch + y + x0, 0), pixels.take(batch + y + x1, 0), right)
        for y in (y0, y1)
    )
    return _mix(top, bottom, down)


def _beside(t: Array, pixels: Array) -> Array:
    """Give a table an axis for channels if pixels have one."""
    return t.reshape(*t.shape, *pixels.shape[1:] and (1,))


def _mix(a: Array, b: Array, share: Array) -> Array:
    """Write into ``b``; on a pixel nothing but that counts."""
    b *= share
    b += a * (1 - share)
    whole = share == 0
    if whole.any():
        np.copyto(b, a, where=whole)
    return b
