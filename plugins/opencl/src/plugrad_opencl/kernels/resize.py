"""Resizes images."""

from __future__ import annotations

import functools
import math
from typing import Any, cast

import numpy as np
from plugrad.geometry import Resizing
from plugrad.plugin import KernelTable

from .. import source
from ..arrays import ClArray, ClArrays, DType, empty
from ..products import width
from ..runtime import Device, Launch

kernels = KernelTable()


@functools.lru_cache(256)
def _tables(
    device: Device, geometry: Resizing, nearest: bool, dtype: DType
) -> list[ClArray]:
    """Return the pixels before and after each output, and the weights of the latter."""
    axes: list[Any] = [*geometry.linear]
    if nearest:
        axes = [(at, at, np.zeros(1)) for at in geometry.nearest]
    tables = [
        t if t.dtype == np.int32 else t.astype(dtype) for axis in axes for t in axis
    ]
    return [cast("ClArray", ClArrays(device).upload(t)) for t in tables]


@functools.cache
def _program(device: Device, dtype: DType, vector: int, nearest: bool) -> Launch:
    type_ = source.RAW[dtype.itemsize] if nearest else source.C[dtype]
    return source.kernel(device, "resize", width=vector, NEAREST=nearest, type=type_)


def _resized(x: ClArray, geometry: Resizing, nearest: bool) -> ClArray:
    (_, h, w, c), shape = geometry.in_shape, geometry.out_shape
    if (h, w) == shape[1:3]:
        return x
    y = empty(x.device, shape, x.dtype)
    if y.size:
        vector = width(x.dtype) if c >= width(x.dtype) else 1
        launch = _program(x.device, x.dtype, vector, nearest)
        rows = math.prod(shape[:2])
        items = rows if x.device.style == "cpu" else launch.items(y.size)
        tables = _tables(x.device, geometry, nearest, x.dtype)
        buffers = [array.buffer for array in (x, y, *tables)]
        launch(y.size * 4, items, *buffers, rows, h, w, *shape[1:])
    return y


@kernels("ResizeBilinear")
def resize_bilinear(images: ClArray, *, geometry: Resizing) -> Any:
    """Interpolate along rows, then along columns."""
    if images.dtype.kind != "f":
        return NotImplemented
    return _resized(images, geometry, False)


@kernels("ResizeNearestNeighbor")
def resize_nearest_neighbor(images: ClArray, *, geometry: Resizing) -> Any:
    """Read the nearest pixels, of any dtype except strings, which stay on the host."""
    if images.dtype.hasobject:
        return NotImplemented
    return _resized(images, geometry, True)
