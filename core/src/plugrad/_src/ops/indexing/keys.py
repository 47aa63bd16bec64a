"""Interpretation of the key of ``x[key]`` for a given shape.

Integers, lists and arrays that are known on the host are checked at once, and negative
indices count from the end. A mask is read on the host, because the shape of the result
depends on it.

Contents: ``ParsedKey``; ``parse_key``; the entries of a key.
"""

from __future__ import annotations

import math
import operator
from typing import Any, NamedTuple

import numpy as np

from plugrad import geometry
from plugrad._src.ops.array import gather
from plugrad._src.ops.basis import _convert, variable
from plugrad._src.tensor.dtypes import BOOL, dtype_kind
from plugrad._src.tensor.tensor import Tensor
from plugrad.geometry import Shape

FULL_SLICE = slice(None)


class ParsedKey(NamedTuple):
    """A key, interpreted for a shape.

    Attributes:
        source: The shape, with the axes of each mask merged into one.
        begin, size, strides: The strided slice of ``source``.
        view: The shape after the slice, without axes removed by integers, and with new
            axes.
        arrays: The index arrays, by their axis in ``view``.
        apart: Whether other entries separate the index arrays and integers.
        axes: The axis in ``source`` of each axis of ``view``; None for a new axis.

    """

    source: Shape
    begin: Shape
    size: Shape
    strides: Shape
    view: Shape
    arrays: dict[int, Tensor]
    apart: bool
    axes: tuple[int | None, ...]

    def index_shape(self) -> Shape:
        """Return the shape to which the index arrays broadcast."""
        return geometry.broadcast("setitem", *[a.shape for a in self.arrays.values()])

    def order(self) -> tuple[list[int], list[int]]:
        """Return the axes of ``view`` before and after those of the index arrays."""
        others = [i for i in range(len(self.view)) if i not in self.arrays]
        first = 0 if self.apart or not self.arrays else min(self.arrays)
        return [i for i in others if i < first], [i for i in others if i >= first]

    def result_shape(self) -> Shape:
        """Return the shape of ``x[key]``."""
        before, after = ([self.view[i] for i in axes] for axes in self.order())
        return (*before, *self.index_shape(), *after)

    def depth(self) -> int:
        """Return the number of axes up to the last one not indexed by a full slice."""
        whole = zip(self.size, self.strides, strict=True)
        read = {self.axes[i] for i in self.arrays}
        return max(
            (
                axis + 1
                for axis, (size, stride) in enumerate(whole)
                if (size, stride) != (self.source[axis], 1) or axis in read
            ),
            default=0,
        )

    def positions(self, axis: int) -> np.ndarray[Any, Any]:
        """Return the positions along an axis of ``source`` that a slice selects."""
        return self.begin[axis] + self.strides[axis] * np.arange(self.size[axis])


def parse_key(op: str, shape: Shape, key: Any) -> ParsedKey:
    """Interpret a key, or a tuple of entries, for a shape."""
    entries = _entries(op, shape, key if isinstance(key, tuple) else (key,))
    parts = []
    view = []
    arrays = {}
    axes: list[int | None] = []
    axis = 0
    entry_numbers = []
    for number, entry in enumerate(entries):
        if isinstance(entry, int):
            n = shape[axis]
            if not -n <= entry < n:
                raise gather.out_of_range(op, entry, axis, n)
            parts.append((n, entry + n if entry < 0 else entry, 1, 1))
            entry_numbers.append(number)
            axis += 1
        elif isinstance(entry, slice):
            axes.append(len(parts))
            parts.append(_slice_of_axis(op, entry, shape[axis]))
            view.append(parts[-1][2])
            axis += 1
        elif entry is None:
            axes.append(None)
            view.append(1)
        elif entry is not Ellipsis:
            axes.append(len(parts))
            sizes = shape[axis : axis + _axis_count(entry)]
            n = math.prod(sizes)
            arrays[len(view)] = _index_array(op, entry, axis, sizes)
            parts.append((n, 0, n, 1))
            view.append(n)
            entry_numbers.append(number)
            axis += len(sizes)
    source, begin, size, strides = zip(*parts, strict=True) if parts else ((),) * 4
    apart = bool(entry_numbers) and entry_numbers[-1] - entry_numbers[0] >= len(
        entry_numbers
    )
    return ParsedKey(source, begin, size, strides, (*view,), arrays, apart, (*axes,))


def _slice_of_axis(op: str, entry: slice, n: int) -> tuple[int, int, int, int]:
    """Return the size of an axis, and the begin, size and stride of its slice."""
    try:
        start, stop, step = entry.indices(n)
    except ValueError:
        raise ValueError(f"{op}: the step of a slice must not be 0") from None
    except TypeError:
        rule = "the ends of a slice must be integers or None"
        raise TypeError(f"{op}: {rule}, got {entry}") from None
    size = len(range(start, stop, step))
    return n, start if size else 0, size, step if size > 1 else 1


def _index_array(op: str, entry: Any, axis: int, sizes: Shape) -> Tensor:
    """Return an index array, or the positions of a mask, as indices from 0."""
    if entry.dtype != BOOL:
        return gather.counted_from_0(op, entry, sizes[0], axis)
    if any(m not in (0, n) for m, n in zip(entry.shape, sizes, strict=True)):
        raise IndexError(
            f"{op}: a mask of shape {entry.shape} does not fit axes of shape {sizes}"
        )  # a mask axis of size 0 selects nothing
    mask = entry._values() if isinstance(entry, Tensor) else entry
    return _convert.integer_tensor(op, "indices", np.flatnonzero(mask))


def _entries(op: str, shape: Shape, key: tuple[Any, ...]) -> list[Any]:
    """Return the entries of a key, with slices for the axes that it does not name."""
    entries = []
    named = 0
    after_ellipsis = 0
    for one in key:
        entry = (
            one if type(one) is int or type(one) is slice else _normalize_entry(op, one)
        )
        entries.append(entry)
        named += _axis_count(entry)
        if entry is Ellipsis:
            if after_ellipsis:
                raise IndexError(f"{op}: a key has at most one ellipsis (...)")
            after_ellipsis = len(entries)
    if named > len(shape):
        raise IndexError(
            f"{op}: too many indices, got {named} for {len(shape)} axes of shape "
            f"{shape}"
        )
    insert_at = after_ellipsis or len(entries)
    entries[insert_at:insert_at] = [FULL_SLICE] * (len(shape) - named)
    return entries  # even an empty ellipsis separates index arrays


def _axis_count(entry: Any) -> int:
    """Return the number of axes that an entry of a key indexes."""
    if hasattr(entry, "dtype"):
        return len(entry.shape) if entry.dtype == BOOL else 1
    return 0 if entry is None or entry is Ellipsis else 1


def _normalize_entry(op: str, entry: Any) -> Any:
    """Convert an entry to None, Ellipsis, a slice, an int, a tensor or an array."""
    if entry is None or entry is Ellipsis or isinstance(entry, slice):
        return entry
    if isinstance(entry, bool | np.bool_):
        return np.asarray(entry)
    if isinstance(entry, list | tuple):
        entry = _convert.listed(entry)
    elif isinstance(entry, variable.Variable):
        entry = entry.value
    elif not isinstance(entry, Tensor) and hasattr(entry, "__array__"):
        entry = _convert.array_of(op, entry)
    if isinstance(entry, Tensor | np.ndarray):
        if dtype_kind(entry.dtype) not in "biu":
            rule = "an index must contain integers or bool"
            raise TypeError(f"{op}: {rule}, not {entry.dtype}; cast it")
        number = entry.dtype != BOOL and not entry.shape
        return int(entry) if number and isinstance(entry, np.ndarray) else entry
    try:
        return operator.index(entry)
    except TypeError:
        raise TypeError(
            f"{op}: an index must be an integer, a slice, ..., None, an integer "
            f"array or a mask, got {type(entry).__name__}"
        ) from None
