"""Resizing axis by axis, in parts that fit a cache; reading images at any position.

Columns and channels lie in one axis, so that what is read in one go is long.
"""

import math
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

import numpy as np
from plugrad.geometry import Resizing
from plugrad.plugin import KernelTable

from ..arrays import Array
from ._windows import batches, blocks
from .gather import out_of_range

kernels = KernelTable()

# --- resizing --------------------------------------------------------------------


@kernels("ResizeBilinear")
def resize_bilinear(images: Array, *, geometry: Resizing) -> Array:
    """Make as many rows at a time as fit the cache, with all that is on the way."""
    (n, h, w, c), shape, dtype = geometry.in_shape, geometry.out_shape, _dtype(images)
    if (h, w) == shape[1:3]:
        return images
    (top, bottom, down), (left, right, across) = geometry.linear
    down, across = down.astype(dtype)[:, None], across.astype(dtype).repeat(c)
    before, behind = _columns(left, c), _columns(right, c)
    x, y = images.reshape(n, h, w * c), np.empty(shape, images.dtype)
    for block in blocks(shape, max(w, shape[2]) * c * dtype.itemsize, 1 << 18):
        some, into, rows = x[block[0]].astype(dtype, copy=False), y[block], block[1]
        if h != shape[1]:
            ends = some.take(top[rows], 1), some.take(bottom[rows], 1)
            some = _mix(*ends, down[rows])
        else:
            some = some[:, rows]
        if w != shape[2]:
            some = _mix(before(some), behind(some), across)
        into[...] = some.reshape(into.shape)
    return y


@kernels("ResizeBilinearGrad")
def resize_bilinear_grad(
    images: Array | None, dy: Array, *, geometry: Resizing
) -> Array:
    """Add the weighed cotangent of each position to the pixels beside it."""
    tables = []
    for low, high, share in geometry.linear:
        between, share = np.flatnonzero(low < high), share.astype(_dtype(dy))
        rest = np.where(low < high, 1 - share, 1)
        first = np.arange(len(low)), low, rest
        tables.append([first, (between, high[between], share[between])])
    return _put_back(dy, geometry, tables)


@kernels("ResizeNearestNeighbor")
def resize_nearest_neighbor(images: Array, *, geometry: Resizing) -> Array:
    """Read columns, and rows: first what leaves less to read."""
    (n, h, w, c), (rows, columns) = geometry.in_shape, geometry.nearest
    x, read = images.reshape(n, h, w * c), _columns(columns, c)
    y = read(x).take(rows, 1) if len(rows) > h else read(x.take(rows, 1))
    return y.reshape(geometry.out_shape)


@kernels("ResizeNearestNeighborGrad")
def resize_nearest_neighbor_grad(
    images: Array | None, dy: Array, *, geometry: Resizing
) -> Array:
    """Put each cotangent to the pixel that was read."""
    ones = np.ones(max(dy.shape[1:3]), _dtype(dy))
    tables = [[(np.arange(len(at)), at, ones)] for at in geometry.nearest]
    return _put_back(dy, geometry, tables)


def _dtype(x: Array) -> np.dtype:
    """Return the dtype to compute in."""
    return np.dtype(np.float32) if x.dtype == np.float16 else x.dtype


def _columns(index: Array, c: int) -> Callable[[Array], Array]:
    """Return what reads columns of ``[n, rows, columns and channels]``.

    Those of few channels go number by number: NumPy is slow at short pieces.
    """
    if c < 4:
        numbers = _channels(index, c)
        return lambda x: x.take(numbers, 2)

    def read(x: Array) -> Array:
        n, h, wc = x.shape
        columns = x.reshape(n, h, wc // c, c).take(index, 2)
        return columns.reshape(n, h, index.size * c)

    return read


def _channels(index: Array, c: int) -> Array:
    """Return the numbers of all channels of columns."""
    return (index[:, None] * c + np.arange(c)).ravel()


def _put_back(dy: Array, geometry: Resizing, ends: list[Any]) -> Array:
    """Add up what was read from one position, along one axis after the other.

    ``ends`` has, for rows and columns, tables of positions, what was read, and weights.
    """
    (_, h, w, c), (_, height, width, _) = geometry.in_shape, geometry.out_shape
    passes = [_passes(tables, axis, c) for axis, tables in enumerate(ends, 1)]
    dx = np.empty(geometry.in_shape, dy.dtype)
    for part in batches(dy if dy.size > dx.size else dx):
        some = dy[part].astype(_dtype(dy), copy=False)
        some = some.reshape(len(some), height, width * c)
        for axis, size in enumerate((h, w * c), 1):
            if some.shape[axis] != size:
                x, shape = some, [*some.shape]
                shape[axis] = size
                some = np.zeros(shape, x.dtype)
                for read, to, weights in passes[axis - 1]:
                    some[(slice(None),) * axis + (to,)] += read(x) * weights
        dx[part] = some.reshape(dx[part].shape)
    return dx


def _passes(tables: list[Any], axis: int, c: int) -> list[tuple[Any, Any, Array]]:
    """Return what to read, where to add it (no position twice), and the weights."""
    found: list[tuple[Any, Any, Array]] = []
    for positions, index, weights in tables:
        for run in _runs(index):
            at, to, some = positions[run], index[run], weights[run]
            if axis == 1:
                read = itemgetter((slice(None), _range(at)))
                found.append((read, _range(to), some[:, None]))
            else:
                to = _range(_channels(to, c))
                found.append((_columns(at, c), to, some.repeat(c)))
    return found


def _runs(index: Array) -> Iterator[Array]:
    """Cut a sorted table into parts without repetition; yield their positions."""
    starts = np.flatnonzero(np.diff(index, prepend=-1))
    counts = np.diff(starts, append=len(index))
    for k in range(counts.max(initial=0)):
        yield starts[counts > k] + k


def _range(index: Array) -> Array | slice:
    """Return indices at equal distances as a slice, which is faster."""
    step = int(index[1] - index[0]) if len(index) > 1 else 1
    if not len(index) or step < 1 or (np.diff(index) != step).any():
        return index
    return slice(int(index[0]), int(index[-1]) + 1, step)


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
        front, whole = back[::-1], count - 1
        if count == 1:
            front, back, whole = back + 1, back + 1, 2
        v = boxes[:, axis, None] * front + boxes[:, axis + 2, None] * back
        positions.append(v * (image.shape[axis + 1] - 1) / whole)
    y, x = positions[0][:, :, None], positions[1][:, None, :]
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
