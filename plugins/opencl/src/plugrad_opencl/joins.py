"""Concatenates and splits arrays on a GPU, several arrays in one launch.

Contents: ``put_together``, which concatenates; ``take_apart``, which splits.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from itertools import accumulate

from . import source
from .arrays import ClArray
from .moves import LARGE_ELEMENTS, index_types, per_item
from .runtime import Device, Launch

MAX_ARRAYS = 8  # arrays per launch; more arrays need several launches
SIZES = (2, 4, 8)  # numbers of arrays for which there are kernels


def put_together(parts: Sequence[ClArray], whole: ClArray, axis: int) -> None:
    """Concatenate ``parts`` along an axis into the new array ``whole``.

    Raises:
        ValueError: The shapes do not fit.

    """
    _join("concat", parts, whole, axis)


def take_apart(whole: ClArray, parts: Sequence[ClArray], axis: int) -> None:
    """Split ``whole`` along an axis into the new arrays ``parts``.

    Raises:
        ValueError: The shapes do not fit.

    """
    _join("split", parts, whole, axis)


def _join(name: str, parts: Sequence[ClArray], whole: ClArray, axis: int) -> None:
    _check(parts, whole, axis)
    if not whole.size:
        return
    rows = math.prod(whole.shape[:axis])
    filled = [part for part in parts if part.size]
    widths = [part.size // rows for part in filled]
    size = largest_unit(whole.dtype.itemsize, *widths)
    scale = size // whole.dtype.itemsize
    widths = [width // scale for width in widths]
    y_row = sum(widths)
    start = 0
    small = rows * y_row < LARGE_ELEMENTS
    for i in range(0, len(filled), MAX_ARRAYS):
        chunk = filled[i : i + MAX_ARRAYS]
        ends = [*accumulate(widths[i : i + MAX_ARRAYS])]
        count = next(n for n in SIZES if n >= len(chunk))
        missing = count - len(chunk)
        buffers = [x.buffer for x in chunk] + [chunk[-1].buffer] * missing
        ends += ends[-1:] * missing
        n = rows * ends[-1]
        launch = _joiner(whole.device, name, size, count, small)
        launch(n, launch.items(n), *buffers, whole.buffer, n, start, y_row, *ends)
        start += ends[-1]


def _check(parts: Sequence[ClArray], whole: ClArray, axis: int) -> None:
    """Raise unless the parts fill the whole array: kernels do not check this."""
    before = whole.shape[:axis]
    behind = whole.shape[axis + 1 :]
    shapes = [part.shape for part in parts]
    fits = 0 <= axis < len(whole.shape) and all(
        (*before, *s[axis : axis + 1], *behind) == s for s in shapes
    )
    if not fits or sum(s[axis] for s in shapes) != whole.shape[axis]:
        raise ValueError(
            f"opencl: arrays of shapes {shapes}, joined along axis {axis}, do not have "
            f"the shape {whole.shape}"
        )


def largest_unit(size: int, *widths: int) -> int:
    """Return the largest unit in bytes, up to 16, that divides the lengths of all rows.

    ``size`` is the size of an element in bytes; ``widths`` are the lengths of rows in
    elements.
    """
    common = math.gcd(*widths)
    while size < 16 and common % 2 == 0:
        size = size * 2
        common = common // 2
    return size


@functools.cache
def _joiner(device: Device, name: str, size: int, count: int, small: bool) -> Launch:
    """Return the kernel for ``count`` arrays with elements of ``size`` bytes."""
    part, whole = ("const S", "S") if name == "concat" else ("S", "const S")
    arrays = [f"__global {part} *x{k}" for k in range(count)]
    choices = [
        f"if (column >= (N)e{k - 1}) "
        f"{{ begin = (N)e{k - 1}; width = (N)e{k} - begin; x = x{k}; }}"
        for k in range(1, count)
    ]
    return source.kernel(
        device,
        "join",
        name,
        name=name,
        type=source.RAW[size],
        each=per_item(size),
        arrays=", ".join([*arrays, f"__global {whole} *restrict y"]),
        ends=", ".join([f"L e{k}" for k in range(count)]),
        last=f"e{count - 1}",
        choices="\n    ".join(choices),
        part=part,
        whole=whole,
        source="x" if name == "concat" else "all",
        target="all" if name == "concat" else "x",
        **index_types(small),
    )
