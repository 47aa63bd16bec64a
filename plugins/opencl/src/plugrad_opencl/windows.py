"""Channel-by-channel operations on windows: pooling and depthwise convolution.

All use the template ``cl/window.cl``, each with its own body. ``forward`` computes
outputs from windows of the input, ``backward`` the cotangent of the input, and
``filter_gradient`` that of the filter.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np
from plugrad.geometry import Windows

from . import source
from .arrays import ClArray, DType, Shape, empty
from .products import Finish, formulae, table, width
from .runtime import Device, Launch

INT32 = np.dtype(np.int32)


class Body(NamedTuple):
    """C statements that compute an output from each ``value`` of its window.

    Attributes:
        start: The statements before the first kernel position.
        position: The statements at each kernel position.
        end: The statements after the last kernel position.
        back: The statements for each window that contains an element, in ``backward``.
        zero: The initial value of a sum of products with a filter. Such sums are
            computed faster, for four outputs at once.

    """

    start: str = ""
    position: str = ""
    end: str = ""
    back: str = ""
    zero: str = ""


def forward(
    body: Body,
    x: ClArray,
    filter: ClArray | None,
    geometry: Windows,
    *,
    finish: Finish | None = None,
    index: bool = False,
    counts: bool = False,
    into: ClArray | None = None,
) -> tuple[ClArray, ClArray]:
    """Return the result and, with ``index``, the int32 indices that the body writes.

    With ``counts``, the indices of elements continue from one image to the next.
    ``into`` is an array to write to instead of a new one.
    """
    device, shape = x.device, geometry.out_shape
    y = into or empty(device, shape, x.dtype)
    found = empty(device, shape, INT32) if index else y
    count = math.prod(shape)
    if count:
        bias, activation, alpha = finish or Finish()
        launch = _launch(device, "window", x.dtype, shape[-1], body, activation)
        given = (x, filter or x, y, found, bias or x, _sizes(device, geometry))
        work = count * len(geometry.kernel_positions)
        items = _items(launch, shape)
        numbers = (shape[0], shape[-1], counts, alpha)
        launch(work, items, *[array.buffer for array in given], *numbers)
    return y, found


def backward(
    body: Body, dy: ClArray, more: ClArray | None, index: ClArray | None, g: Windows
) -> ClArray:
    """Return, for each element of the input, the sum over the windows around it."""
    device, channels = dy.device, g.out_shape[-1]
    dx = empty(device, (*g.in_shape[:-1], channels), dy.dtype)
    if dx.size:
        launch = _launch(device, "back", dy.dtype, channels, Body(back=body.back))
        buffers = [(x or dy).buffer for x in (dy, more, dx, index)]
        sizes = _sizes(device, g)
        numbers = (g.in_shape[0], channels)
        work = dx.size * len(g.kernel_positions)
        items = _items(launch, dx.shape)
        launch(work, items, *buffers, sizes.buffer, *numbers)
    return dx


def filter_gradient(x: ClArray, dy: ClArray, g: Windows) -> ClArray:
    """Return ``[parts, positions, channels]``, whose parts the caller adds up."""
    device = x.device
    channels = dy.shape[-1]
    positions = len(g.kernel_positions)
    rows = dy.size // (channels * g.out_shape[-2])
    parts = max(1, min(rows, 64 * device.units // positions, dy.size >> 12))
    df = empty(device, (parts, positions, channels), x.dtype)
    launch = _launch(device, "filters", x.dtype, channels, Body())
    items = launch.items(df.size)
    if device.style == "cpu":
        items = parts * positions * -(-channels // (4 * _width(x.dtype, channels)))
    sizes = _sizes(device, g)
    numbers = (g.in_shape[0], channels, parts)
    buffers = [array.buffer for array in (x, dy, df, sizes)]
    launch(dy.size * positions, items, *buffers, *numbers)
    return df


def _items(launch: Launch, shape: Shape) -> int:
    """Return the number of items: one per row on a CPU, one per element on a GPU."""
    cpu = launch.device.style == "cpu"
    return math.prod(shape[:-2]) if cpu else int(launch.items(math.prod(shape)))


def _sizes(device: Device, g: Windows) -> ClArray:
    """Return the sizes of three axes; callers must keep the array until the launch."""
    while len(g.window) < 3:
        g = g.with_leading_axis()
    before = tuple([pair[0] for pair in g.padding])
    sides = (g.in_shape[1:-1], g.out_shape[1:-1], g.window, g.strides, g.dilations)
    return table(device, tuple([n for side in (*sides, before) for n in side]))


def _width(dtype: DType, channels: int) -> int:
    """Return the vector width; 1 for dtypes too small for the index of an element."""
    return width(dtype) if channels >= width(dtype) and dtype.itemsize > 3 else 1


@functools.lru_cache(4096)
def _launch(
    device: Device,
    name: str,
    dtype: DType,
    channels: int,
    body: Body,
    activation: str = "linear",
) -> Launch:
    return source.kernel(
        device,
        "window",
        name,
        width=_width(dtype, channels),
        FOUR=bool(body.zero),
        integer=source.SIGNED[max(dtype.itemsize, 4)],
        **(body._asdict() | {"zero": body.zero or "(T)(0)"}),
        **formulae(dtype, activation),
    )
