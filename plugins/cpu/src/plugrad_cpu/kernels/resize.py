"""Resizing along one axis after the other; reading images at any position."""

import functools
import math

import numpy as np
from plugrad.geometry import Resizing
from plugrad.plugin import KernelTable

from ..arrays import Array
from ..native import MAX_ELEMENTS, around, in_order
from ..native import kernels as in_c
from ._windows import batches
from .gather import gather, out_of_range

kernels = KernelTable()
MIX = in_c("mix")

# --- resizing --------------------------------------------------------------------


@kernels("ResizeBilinear")
def resize_bilinear(images: Array, *, geometry: Resizing) -> Array:
    """Interpolate; exactly on a pixel only that pixel is read."""
    return _mixed(images, geometry, True, False)


@kernels("ResizeBilinearGrad")
def resize_bilinear_grad(
    images: Array | None, dy: Array, *, geometry: Resizing
) -> Array:
    """Add the weighed cotangent of each position to the pixels beside it."""
    return _mixed(dy, geometry, True, True)


@kernels("ResizeNearestNeighbor")
def resize_nearest_neighbor(images: Array, *, geometry: Resizing) -> Array:
    """Read rows and columns: first what leaves less to read."""
    (_, h, *_) = geometry.in_shape
    tables = [*enumerate(geometry.nearest, 1)]
    for axis, at in tables if len(tables[0][1]) < h else tables[::-1]:
        images = gather(images, at, axis=axis, batch_dims=0)
    return images


@kernels("ResizeNearestNeighborGrad")
def resize_nearest_neighbor_grad(
    images: Array | None, dy: Array, *, geometry: Resizing
) -> Array:
    """Add each cotangent to the pixel that was read."""
    return _mixed(dy, geometry, False, True)


def _dtype(x: Array) -> np.dtype:
    """Return the dtype to compute in."""
    return np.dtype(np.float32) if x.dtype == np.float16 else x.dtype


def _mixed(x: Array, geometry: Resizing, linear: bool, back: bool) -> Array:
    """Go along rows and columns, first where more goes away."""
    dtype = x.dtype
    x = x.astype(_dtype(x), copy=False)
    tables = _terms(geometry, linear, back, x.dtype)
    gain = [len(terms[0]) / n for terms, n in zip(tables, x.shape[1:3], strict=True)]
    for axis in (1, 2) if gain[0] <= gain[1] else (2, 1):
        starts, indices, weights = tables[axis - 1]
        (outer, n, inner) = around(x.shape, axis)
        m = len(starts) - 1
        if n == m:
            continue
        y = np.empty((*x.shape[:axis], m, *x.shape[axis + 1 :]), x.dtype)
        function = MIX.get(x.dtype)
        if function and 0 < max(x.size, y.size) < MAX_ELEMENTS:
            function(in_order(x), y, outer, n, m, inner, starts, indices, weights)
        elif y.size:
            y.fill(0)
            to = np.repeat(np.arange(m), np.diff(starts))
            terms = np.moveaxis(x, axis, 0)[indices] * weights[:, None, None, None]
            np.add.at(np.moveaxis(y, axis, 0), to, terms)
        x = y
    return x.astype(dtype, copy=False)


@functools.lru_cache(maxsize=256)
def _terms(
    geometry: Resizing, linear: bool, back: bool, dtype: np.dtype
) -> list[tuple[Array, Array, Array]]:
    """Return the terms of rows and columns, with weights of a dtype."""
    terms = geometry.terms(linear=linear, back=back)
    return [(starts, read, w.astype(dtype)) for starts, read, w in terms]


# --- reading at positions ----------------------------------------------------------


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
    positions = []
    for axis, count in enumerate(crop_size):
        back = np.arange(count, dtype=boxes.dtype)
        front = back[::-1]
        whole = count - 1
        if count == 1:
            front = back + 1
            back = back + 1
            whole = 2
        v = boxes[:, axis, None] * front + boxes[:, axis + 2, None] * back
        positions.append(v * (image.shape[axis + 1] - 1) / whole)
    y = positions[0][:, :, None]
    x = positions[1][:, None, :]
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
        y = _folded(y, h, fill_mode)
        x = _folded(x, w, fill_mode)
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
    positions: tuple[Array, Array],
    seen: Array,
    edge: str,
    method: str,
    fill: float,
) -> Array:
    """Return pixels of images at positions [n, rows, columns], or ``fill`` outside."""
    x = image.astype(_dtype(image), copy=False)
    if edge == "pad":
        n, h, w, c = image.shape
        x = np.full((n, h + 2, w + 2, c), fill, x.dtype)
        x[:, 1:-1, 1:-1] = image
    _, height, width, c = x.shape
    pixels = x.reshape(math.prod(x.shape[:3]), c)
    ends = [batch * (height * width)]
    for v, size, step in zip(positions, image.shape[1:3], (width, 1), strict=True):
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
    """Return where the pixels around a position lie along an axis, and their weight."""
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
    down = _beside(down, pixels)
    right = _beside(right, pixels)
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
