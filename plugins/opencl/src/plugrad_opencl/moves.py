"""Copies elements from one position to another, for all kernels that only copy.

An order of elements consists of a start and a step for each axis. A negative step goes
backwards, and 0 repeats an element. ``move`` returns a new array whose elements are
those of another array in some order. ``put`` writes an array into a part of a new one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from plugrad.geometry import collapse_axes, contiguous_strides

from . import source
from .arrays import ClArray, Shape, empty
from .runtime import Device, Launch

TILE_SIZE = 16  # rows and columns of a tile on a CPU
SHORT_ROW_ELEMENTS = 64  # a CPU copies shorter rows in units of several elements
LARGE_ELEMENTS = 1 << 31  # such arrays and larger ones need 64-bit offsets on GPUs

# The largest tiles on a GPU, by the size of an element in bytes, because the fastest
# tile depends on it.
MAX_TILE_SIDE = {1: 64, 2: 64, 4: 32, 8: 32, 16: 32}  # rows or columns
TILE_ELEMENTS = {1: 4096, 2: 4096, 4: 1024, 8: 1024, 16: 1024}
MIN_CROSSING_ELEMENTS = 512  # rows times columns; below, tiles would be mostly empty


def around(x: ClArray, axis: int) -> tuple[int, int, int]:
    """Return the products of the sizes before an axis, along it and after it."""
    if not 0 <= axis < len(x.shape):
        raise ValueError(f"opencl: axis {axis} is not an axis of shape {x.shape}")
    return math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])


def move(x: ClArray, shape: Shape, order: Sequence[int], start: int = 0) -> ClArray:
    """Return an array of ``shape`` whose axes step through ``x`` by ``order``.

    The result is a view of ``x`` if it contains all elements of ``x`` in their order.
    """
    to = contiguous_strides(shape)
    axes = _collapsed(tuple(shape), tuple(order), tuple(to))
    if not start and axes == ((x.size, 1, 1),) and math.prod(shape) == x.size:
        return x.view(shape)
    y = empty(x.device, shape, x.dtype)
    put(x, y, shape, order, to, start)
    return y


def put(
    x: ClArray,
    y: ClArray,
    shape: Shape,
    x_order: Sequence[int],
    y_order: Sequence[int],
    x_start: int = 0,
    y_start: int = 0,
) -> None:
    """Write ``shape`` elements of ``x`` into the new array ``y``.

    Raises:
        ValueError: Some of the elements are outside of ``x``, or of ``y``.

    """
    from_ = tuple(x_order)
    to = tuple(y_order)
    n = math.prod(shape)
    _check_range(x, shape, from_, x_start)
    if n != y.size:
        _check_range(y, shape, to, y_start)
    if not n:
        return
    axes = _collapsed(shape, from_, to)
    if x.device.style == "gpu":
        _put_on_gpu(x, y, axes, x_start, y_start)
        return
    crossing = _crossing(axes, TILE_SIZE // 2)
    if crossing is not None:
        rows, columns, outer = crossing
        launch = _transposer(x.device, x.dtype.itemsize, len(outer))
        tiles = -(-rows[0] // TILE_SIZE) * math.prod([n for n, _, _ in outer])
        sizes = (rows[0], columns[0], columns[1], rows[2], *_sizes(outer))
        launch(n, tiles, x.buffer, y.buffer, x_start, y_start, *sizes)
    else:
        axes, size = _widened(
            axes, x_start, y_start, x.dtype.itemsize, SHORT_ROW_ELEMENTS
        )
        launch = _copier(x.device, size, len(axes) - 1, axes[-1][1:] == (1, 1))
        scale = size // x.dtype.itemsize
        n = n // scale
        x_start = x_start // scale
        y_start = y_start // scale
        items = launch.items(n)
        sizes = (*axes[-1], *_sizes(axes[:-1]))
        launch(n, items, x.buffer, y.buffer, n, x_start, y_start, *sizes)


def _put_on_gpu(
    x: ClArray, y: ClArray, axes: tuple[Axis, ...], x_start: int, y_start: int
) -> None:
    """Copy in the largest possible units, through tiles if rows become columns."""
    axes, size = _widened(axes, x_start, y_start, x.dtype.itemsize, math.inf)
    scale = size // x.dtype.itemsize
    x_start = x_start // scale
    y_start = y_start // scale
    n = math.prod([axis[0] for axis in axes])
    small = max(x.size, y.size) // scale < LARGE_ELEMENTS
    crossing = _crossing(axes, 2)
    if crossing is None or crossing[0][0] * crossing[1][0] < MIN_CROSSING_ELEMENTS:
        launch = _copier(x.device, size, len(axes) - 1, False, small)
        items = launch.items(n)
        sizes = (*axes[-1], *_sizes(axes[:-1]))
        launch(n, items, x.buffer, y.buffer, n, x_start, y_start, *sizes)
        return
    rows, columns, outer = crossing
    down, across = _tile(rows[0], columns[0], size)
    launch = _transposer(x.device, size, len(outer), down, across, small)
    tiles = -(-rows[0] // down) * -(-columns[0] // across)
    tiles *= math.prod([n for n, _, _ in outer])
    sizes = (rows[0], columns[0], columns[1], rows[2], *_sizes(outer))
    items = tiles * source.GROUP_ITEMS["gpu"]
    launch(n, items, x.buffer, y.buffer, x_start, y_start, *sizes)


def _check_range(x: ClArray, shape: Shape, order: Shape, start: int) -> None:
    """Raise unless all elements of an order are in ``x``: kernels do not check this."""
    low, high = _range(shape, order)
    if low <= high and not 0 <= start + low <= start + high < x.size:
        raise ValueError(
            f"opencl: {shape} elements from offset {start} with steps {order} exceed "
            f"an array of shape {x.shape}"
        )


@functools.lru_cache(4096)
def _range(shape: Shape, order: Shape) -> tuple[int, int]:
    """Return the least and the greatest offset of an order that starts at 0."""
    if any(n < 0 for n in shape):
        raise ValueError(
            f"opencl: shape {shape} is invalid; sizes must not be negative"
        )
    if 0 in shape:
        return 0, -1
    ends = [(n - 1) * step for n, step in zip(shape, order, strict=True)]
    return sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends)


# --- kernels ---------------------------------------------------------------------


@functools.cache
def _copier(
    device: Device, size: int, rank: int, contiguous: bool, small: bool = False
) -> Launch:
    """Return the kernel that copies rows; ``rank`` is the number of other axes."""
    width = 32 // size if contiguous and size < 8 else 4 if contiguous else 1
    width = width if size < 16 else 1
    return source.kernel(
        device,
        "copy",
        width=width,
        CONTIGUOUS=contiguous,
        ROWS=rank > 0,
        type=source.RAW[size],
        each=per_item(size),
        **offset_types(device, small),
        **_outer(rank),
    )


@functools.cache
def _transposer(
    device: Device,
    size: int,
    rank: int,
    down: int = TILE_SIZE,
    across: int = TILE_SIZE,
    small: bool = False,
) -> Launch:
    """Return the kernel that copies columns to rows, in tiles of ``down x across``."""
    return source.kernel(
        device,
        "transpose",
        TILE=TILE_SIZE,
        DOWN=down,
        ACROSS=across,
        type=source.RAW[size],
        **offset_types(device, small),
        **_outer(rank),
    )


def _tile(rows: int, columns: int, size: int) -> tuple[int, int]:
    """Return the sides of a tile, powers of 2: if one is short, the other is longer."""
    side, total = MAX_TILE_SIDE[size], TILE_ELEMENTS[size]
    down, across = [min(side, 1 << (n - 1).bit_length()) for n in (rows, columns)]
    if down < side:
        return down, total // down
    return total // across, across


def per_item(size: int) -> int:
    """Return how many elements of ``size`` bytes a work item of a GPU copies."""
    return 4 if size <= 4 else 2


def index_types(small: bool) -> dict[str, Any]:
    """Return the types of sizes and offsets in GPU kernels: 32 bits if ``small``.

    On a GPU, dividing 64-bit numbers takes several times as long.
    """
    return {"size": "int" if small else "long", "index": "uint" if small else "ulong"}


def offset_types(device: Device, small: bool) -> dict[str, Any]:
    """Return the types of sizes and offsets, which have 64 bits on a CPU."""
    if device.style == "cpu":
        return {"size": "long", "index": "long"}
    return index_types(small)


def _outer(rank: int) -> dict[str, Any]:
    """Return C code for ``rank`` axes: parameters, and offsets based on ``rest``."""
    sizes = [f", L d{k}" for k in range(1, rank)]
    sizes += [f", L {s}{k}" for s in "xy" for k in range(rank)]
    lines = [f"from += at{k} * (N)x{k}; to += at{k} * (N)y{k};" for k in range(rank)]
    return {"sizes": "".join(sizes), "offsets": " ".join([*divided(rank), *lines])}


def divided(rank: int, offset: str = "N") -> list[str]:
    """Return C code that splits ``rest`` into positions on ``rank`` axes.

    The positions are the variables ``at0``, ``at1`` and so on, of the type ``offset``.
    """
    return [
        f"const {offset} at{k} = "
        + (f"rest % ({offset})d{k}; rest /= ({offset})d{k};" if k else "rest;")
        for k in reversed(range(rank))
    ]


# --- axes ------------------------------------------------------------------------

Axis = tuple[int, ...]  # elements, step in x, step in y


def _sizes(outer: Sequence[Axis]) -> list[int]:
    """Return the arguments for the axes outside of rows, in the order of ``_outer``."""
    sizes = [n for n, _, _ in outer[1:]]
    return sizes + [x for _, x, _ in outer] + [y for _, _, y in outer]


_collapsed = functools.lru_cache(4096)(collapse_axes)


@functools.lru_cache(4096)
def _widened(
    axes: tuple[Axis, ...], x_start: int, y_start: int, size: int, limit: float
) -> tuple[tuple[Axis, ...], int]:
    """Merge neighboring elements into units of up to 16 bytes; return axes and bytes.

    Only elements of contiguous rows with less than ``limit`` elements are merged.
    """
    *outer, (n, x, y) = axes
    offsets = [n, x_start, y_start, *[step for _, *steps in outer for step in steps]]
    if (x, y) == (1, 1) and n < limit:
        while size < 16 and not any(offset % 2 for offset in offsets):
            offsets = [offset // 2 for offset in offsets]
            size = size * 2
    n, _, _, *rest = offsets
    found = [(k, *s) for (k, _, _), s in zip(outer, _pairs(rest), strict=True)]
    return _without_single((*found, (n, 1, 1) if (x, y) == (1, 1) else (n, x, y))), size


def _pairs(numbers: list[int]) -> list[tuple[int, int]]:
    return [*zip(numbers[::2], numbers[1::2], strict=True)]


def _without_single(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """Drop the last axis if it has one element, and is not the only one."""
    return axes[:-1] if axes[-1][0] == 1 and len(axes) > 1 else axes


@functools.lru_cache(4096)
def _crossing(
    axes: tuple[Axis, ...], least: int
) -> tuple[Axis, Axis, tuple[Axis, ...]] | None:
    """Return rows, columns and the other axes of a transpose; None if it is not one.

    In a transpose, an outer axis has step 1 in x: its elements are the rows. Rows and
    columns have at least ``least`` elements.
    """
    *outer, last = axes
    if last[2] != 1 or last[1] == 1 or last[0] < least:
        return None
    for i, axis in enumerate(outer):
        if axis[1] == 1 and axis[0] >= least:
            return axis, last, (*outer[:i], *outer[i + 1 :])
    return None
