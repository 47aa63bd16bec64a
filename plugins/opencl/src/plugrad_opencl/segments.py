"""Sums rows by segment, in the same order every time.

On a GPU, each element of a small result reads the ids of all rows. For a larger result,
a stable sort first orders the rows by segment.

Contents: ``segment_sum``; ``_sorted``, the sort.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from . import source
from .arrays import ClArray, DType, empty
from .runtime import Device, Launch

INT32 = np.dtype(np.int32)
UINT32 = np.dtype(np.uint32)

# On a GPU, rows are sorted if one of the first two limits is exceeded. The sort takes 3
# launches for each 8 bits of the number of segments.
DIRECT_MAX_ROWS = 512
DIRECT_MAX_READS = 1 << 24  # number of id reads
CHUNK_ROWS = 4096  # rows that a work group sorts
MIN_PART_ROWS = 16  # rows per work item; several items share longer segments


def segment_sum(x: ClArray, ids: ClArray, num_segments: int) -> ClArray:
    """Return the sum of the rows of ``x`` for each id; ignore rows with invalid ids."""
    rows, rest = x.shape[0], x.shape[1:]
    y = empty(x.device, (num_segments, *rest), x.dtype)
    if not y.size:
        return y
    device = x.device
    width = math.prod(rest)
    if device.style == "gpu" and _must_sort(rows, num_segments, y.size):
        keys, order = _sorted(ids, num_segments)
        parts = _parts(rows // num_segments, width)
        launch = _summer(device, "sorted_sum", x.dtype, ids.dtype, parts)
        buffers = [array.buffer for array in (x, keys, order, y)]
        launch(
            x.size, launch.items(y.size * parts), *buffers, rows, width, num_segments
        )
        return y
    launch = _summer(device, "segment_sum", x.dtype, ids.dtype)
    parts = 1
    grid = launch.items(y.size)
    if device.style == "cpu":
        large = x.size + y.size > source.BLOCK_ELEMENTS and rows * 8 < x.size + y.size
        grid = parts = min(2 * device.units, num_segments) if large else 1
    sizes = (rows, width, num_segments, parts)
    low = empty(device, y.shape, y.dtype)
    buffers = [array.buffer for array in (x, ids, y, low)]
    launch(x.size + y.size, grid, *buffers, *sizes)
    return y


def _must_sort(rows: int, segments: int, elements: int) -> bool:
    """Return whether rows are sorted by segment on a GPU."""
    if max(rows, segments) >= 1 << 31:  # the sort uses numbers of 32 bits
        return False
    return rows > DIRECT_MAX_ROWS or rows * elements > DIRECT_MAX_READS


def _parts(rows: int, width: int) -> int:
    """Return how many items share an element of a segment of ``rows`` rows.

    At least 8 neighboring elements of a row are read at once, if the row is that long.
    """
    max_parts = source.GROUP_ITEMS["gpu"] // min(8, 1 << (width - 1).bit_length())
    return max(1, min(max_parts, 1 << (rows // MIN_PART_ROWS).bit_length() >> 1))


@functools.cache
def _summer(
    device: Device, name: str, dtype: DType, integer: DType, parts: int = 1
) -> Launch:
    type_ = source.C[dtype]
    return source.kernel(
        device,
        "segment",
        name,
        EXACT=type_ in ("float", "double", "float2"),
        PARTS=parts,
        type=type_,
        integer=source.C[integer],
    )


@functools.cache
def _sorter(device: Device, name: str, integer: DType, is_first: bool) -> Launch:
    c = source.C[integer]
    return source.kernel(
        device, "order", name, FIRST_PASS=is_first, CHUNK=CHUNK_ROWS, integer=c
    )


def _sorted(ids: ClArray, segments: int) -> tuple[ClArray, ClArray]:
    """Return the segments of all rows in ascending order, and the indices of the rows.

    Rows that belong to no segment count as one segment after the last.
    """
    device, rows = ids.device, ids.size
    groups = -(-rows // CHUNK_ROWS)
    items = groups * source.GROUP_ITEMS["gpu"]
    counts = empty(device, (256 * groups,), INT32)
    keys = order = empty(device, (0,), INT32)  # the first pass reads the ids
    for shift in range(0, segments.bit_length(), 8):
        run = functools.partial(_sorter, device, integer=ids.dtype, is_first=not shift)
        numbers = (rows, segments, shift, groups)
        new = empty(device, (rows,), UINT32), empty(device, (rows,), INT32)
        given = (ids.buffer, keys.buffer)
        run("count")(rows, items, *given, counts.buffer, *numbers)
        run("starts")(rows, source.GROUP_ITEMS["gpu"], counts.buffer, groups)
        arrays = (order, counts, *new)
        run("place")(rows, items, *given, *[a.buffer for a in arrays], *numbers)
        keys, order = new
    return keys, order
