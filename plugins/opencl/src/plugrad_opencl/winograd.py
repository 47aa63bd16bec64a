"""Winograd convolution with windows of 3 x 3, on CPUs: ``cl/winograd.cl``."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from plugrad.geometry import Windows

from . import source
from .arrays import ClArray, DType, empty
from .multiply import product
from .products import Finish, Matrix, formulae, width
from .runtime import Device, Launch

# With fewer channels the transforms cost more than the products save.
WINOGRAD_MIN_CHANNELS = 32
MAX_INTERMEDIATE_ELEMENTS = 1 << 26  # elements of the transformed input and output


def suits(x: ClArray, geometry: Windows) -> bool:
    """Return whether Winograd convolution is faster; its errors are twice as large.

    On GPUs its four launches take longer than the products that it saves.
    """
    intermediate = 4 * math.prod(geometry.out_shape[:3])
    intermediate *= geometry.in_shape[-1] + geometry.out_shape[-1]
    return (
        x.device.style == "cpu"
        and x.dtype == np.float32
        and geometry.window == (3, 3)
        and max(geometry.strides + geometry.dilations) == geometry.groups == 1
        and min(geometry.in_shape[-1], geometry.out_shape[-1]) >= WINOGRAD_MIN_CHANNELS
        and min(geometry.out_shape[1:3]) > 2
        and intermediate <= MAX_INTERMEDIATE_ELEMENTS
    )


def conv(
    x: ClArray, filter: ClArray, geometry: Windows, finish: Finish | None
) -> ClArray:
    """Return ``finish(conv2d(x, filter))``; no array is empty."""
    device, dtype = x.device, x.dtype
    (batch, height, out_width, k), (_, h, w, c) = geometry.out_shape, geometry.in_shape
    down = -(-height // 2)
    across = -(-out_width // 2)
    rows = batch * down
    tiles = rows * across
    bias, activation, alpha = finish or Finish()
    u = empty(device, (16, c, k), dtype)
    v = empty(device, (16, tiles, c), dtype)
    y = empty(device, geometry.out_shape, dtype)
    run = functools.partial(_launch, device, dtype, bias is not None, activation)
    corner = (geometry.padding[0][0], geometry.padding[1][0])
    tiling = (rows, down, across, h, w, c, *corner)
    _run(run("prepare"), u.size, c, filter, u, c, k)
    _run(run("spread"), v.size, rows, x, v, *tiling)
    left = Matrix(v, c, 1, tiles * c)
    right = Matrix(u, k, 1, c * k)
    m = product((16, tiles, k), (16, tiles, k, c), left, right)
    arrays = (m, x, filter, bias or y, y)
    sizes = (*tiling, height, out_width, k, alpha)
    _run(run("collect"), m.size, rows, *arrays, *sizes)
    return y


def _run(launch: Launch, size: int, items: int, *args: Any) -> None:
    arguments = [x.buffer if isinstance(x, ClArray) else x for x in args]
    launch(size, items, *arguments)


@functools.cache
def _launch(
    device: Device, dtype: DType, bias: bool, activation: str, name: str
) -> Launch:
    values = {"BIAS": bias, "integer": source.SIGNED[dtype.itemsize]}
    values |= formulae(dtype, activation)
    return source.kernel(device, "winograd", name, width=width(dtype), **values)
