"""Resizing along one axis at a time; reading images at arbitrary positions."""

import functools
import math

import numpy as np
from plugrad.geometry import Resizing
from plugrad.plugin import KernelTable

from ..arrays import Array
from ..native import MAX_ELEMENTS, as_contiguous, sizes_around
from ..native import kernels as in_c
from ._windows import batches
from .gather import gather, out_of_range

kernels = KernelTable()
MIX = in_c("mix")

# --- resizing --------------------------------------------------------------------


@kernels("ResizeBilinear")
def resize_bilinear(images: Array, *, geometry: Resizing) -> Array:
    """Interpolate; a position exactly on a pixel reads only that pixel."""
    return _weighted_sums(images, geometry, True, False)


@kernels("ResizeBilinearGrad")
def resize_bilinear_grad(
    images: Array | None, dy: Array, *, geometry: Resizing
) -> Array:
    """Add the weighted cotangent of each position to its neighboring pixels."""
    return _weighted_sums(dy, geometry, True, True)


@kernels("ResizeNearestNeighbor")
def resize_nearest_neighbor(images: Array, *, geometry: Resizing) -> Array:
    """Read rows and columns, first along the axis that shrinks more."""
    _, h, *_ = geometry.in_shape
    tables = [*enumerate(geometry.nearest, 1)]
    for axis, indices in tables if len(tables[0][1]) < h else tables[::-1]:
        images = gather(images, indices, axis=axis, batch_dims=0)
    return images


@kernels("ResizeNearestNeighborGrad")
def resize_nearest_neighbor_grad(
    images: Array | None, dy: Array, *, geometry: Resizing
) -> Array:
    """Add each cotangent to the pixel that was read."""
    return _weighted_sums(dy, geometry, False, True)


def _dtype(x: Array) -> np.dtype:
    """Return the dtype to compute in."""
    return np.dtype(np.float32) if x.dtype == np.float16 else x.dtype


def _weighted_sums(x: Array, geometry: Resizing, linear: bool, back: bool) -> Array:
    """Compute weighted sums along both axes, first the one that shrinks more."""
    dtype = x.dtype
    x = x.astype(_dtype(x), copy=False)
    tables = _terms(geometry, linear, back, x.dtype)
    gain = [len(terms[0]) / n for terms, n in zip(tables, x.shape[1:3], strict=True)]
    for axis in (1, 2) if gain[0] <= gain[1] else (2, 1):
        starts, indices, weights = tables[axis - 1]
        outer, n, inner = sizes_around(x.shape, axis)
        m = len(starts) - 1
        if n == m:
            continue
        y = np.empty((*x.shape[:axis], m, *x.shape[axis + 1 :]), x.dtype)
        function = MIX.get(x.dtype)
        if function and 0 < max(x.size, y.size) < MAX_ELEMENTS:
            function(as_contiguous(x), y, outer, n, m, inner, starts, indices, weights)
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
    """Return the terms of rows and columns, with weights in ``dtype``."""
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
    """Sample each box from edge to edge."""
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
    """Sample at the positions of a projective transform."""
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
        y = _into_image(y, h, fill_mode)
        x = _into_image(x, w, fill_mode)
    batch = np.arange(n)[:, None, None]
    return _sampled(image, batch, (y, x), seen, edge, interpolation, fill_value)


def _into_image(v: Array, size: int, mode: str) -> Array:
    """Map coordinates into the image by wrapping, reflecting or clamping."""
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
    """Sample images at positions [n, rows, columns]; outside, use ``fill``."""
    x = image.astype(_dtype(image), copy=False)
    if edge == "pad":
        n, h, w, c = image.shape
        x = np.full((n, h + 2, w + 2, c), fill, x.dtype)
        x[:, 1:-1, 1:-1] = image
    _, height, width, c = x.shape
    pixels = x.reshape(math.prod(x.shape[:3]), c)
    ends = [batch * (height * width)]
    for v, size, step in zip(positions, image.shape[1:3], (width, 1), strict=True):
        ends += _neighbors(np.where(seen, v, 0), size, edge, method, step, x.dtype)
    y = np.empty((len(batch), *seen.shape[1:], c), image.dtype)
    few = c <= 8  # read channel by channel: NumPy is slow along short axes
    planes = [*np.ascontiguousarray(pixels.T)] if few else [pixels]
    results = [y[..., k] for k in range(c)] if few else [y]
    read = _nearest if method == "nearest" else _linear
    for part in batches(y):
        inside, *rest = (t if len(t) == 1 else t[part] for t in (seen, *ends))
        for plane, result in zip(planes, results, strict=True):
            found = read(plane, *rest)
            if not inside.all():
                np.copyto(found, fill, where=~_with_channel_axis(inside, plane))
            result[part] = found
    return y


def _neighbors(
    v: Array, size: int, edge: str, method: str, step: int, dtype: np.dtype
) -> list[Array]:
    """Return the offsets of the pixels around positions of an axis, and the weights."""
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
    down = _with_channel_axis(down, pixels)
    right = _with_channel_axis(right, pixels)
    top, bottom = (
        _interpolate(
            pixels.take(batch + y + x0, 0), pixels.take(batch + y + x1, 0), right
        )
        for y in (y0, y1)
    )
    return _interpolate(top, bottom, down)


def _with_channel_axis(t: Array, pixels: Array) -> Array:
    """Append a channel axis to a table if ``pixels`` has one."""
    return t.reshape(*t.shape, *pixels.shape[1:] and (1,))


def _interpolate(a: Array, b: Array, share: Array) -> Array:
    """Interpolate into ``b``; if the share is 0, ``b`` is ignored, even if NaN."""
    b *= share
    b += a * (1 - share)
    whole = share == 0
    if whole.any():
        np.copyto(b, a, where=whole)
    return b
