"""Python's ``x[...]`` and ``x[...] = y``, and ``strided_slice``. No kernels.

A key is applied in up to three steps; most keys need one or two. Slices and integers
need a strided slice, removed and new axes need a reshape, and index arrays need a
gather. Integers, lists and arrays that are known on the host are checked at once, and
negative indices count from the end. A mask is read on the host, because the shape of
the result depends on it.

Map: ``getitem``, ``setitem``, iteration and ``in``; ``strided_slice``; ``_parse_key``,
which interprets a key for a shape; index arrays.
"""

from __future__ import annotations

import math
import operator
import os
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple, Unpack

import numpy as np

from plugrad import geometry
from plugrad._src.engine.context import Scope, made_outside
from plugrad._src.engine.dispatch import run
from plugrad._src.ops.array import gather, ranges, slicing
from plugrad._src.ops.basis import _convert, compare, creation, shape, variable
from plugrad._src.tensor.arguments import Ints, integers, misfit
from plugrad._src.tensor.dtypes import BOOL, STRING, named
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import Shape

from . import scatter

__all__ = ["strided_slice"]

ALL = slice(None)
_assigning = threading.RLock()  # held from reading the old value to replacing it


def _reset_lock() -> None:  # another thread may have held the lock at the fork
    global _assigning
    _assigning = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_lock)


def getitem(x: TensorLike, key: Any, /) -> Tensor:
    """Return ``x[key]``.

    Args:
        x: A tensor.
        key: One of the following, or a tuple of them: an integer; a slice; ``...``;
            None, which makes a new axis; an index array, that is, a tensor, array or
            list of integers; or a mask, a bool tensor with the shape of the axes that
            it indexes. Several index arrays broadcast. If they are adjacent, their axes
            stay in their position; otherwise they come first.

    Raises:
        IndexError: There are too many entries, an integer is out of range, or a mask
            does not fit its axes. The values of an index tensor are checked when the
            backend reads them.
        ValueError: The step of a slice is 0, or index arrays do not broadcast.
        TypeError: An entry is none of these.

    """
    return select("getitem", _convert.asarray(x), key)


def setitem(x: Tensor | variable.Variable, key: Any, value: TensorLike, /) -> None:
    """Replace the value of ``x`` by one in which ``x[key]`` is ``value``.

    ``x[key] = value`` calls this op. Only the object ``x`` gets the new value. Tensors
    that were computed from ``x``, its aliases, and values that tapes have saved keep
    the old one. Therefore gradients of every order are correct, both with respect to
    the old ``x`` and to ``value``. If several threads assign to ``x``, they take turns,
    and no assignment is lost.

    Args:
        x: A tensor, or a variable, which is assigned.
        key: See ``getitem``. If index arrays name an element several times, it gets the
            last of the values.
        value: A tensor, which is broadcast to the shape of ``x[key]`` and converted to
            the dtype of ``x``.

    Raises:
        IndexError: See ``getitem``.
        ValueError: The value does not broadcast to the shape of ``x[key]``.
        TypeError: The value is complex or strings, and ``x`` is not.
        OverflowError: The value is a number that the dtype of ``x`` cannot represent.

    Example:
        >>> x = pg.asarray([1.0, 2.0, 3.0])
        >>> y = x * 2.0
        >>> x[1:] = 0.0
        >>> x
        Tensor([1., 0., 0.], dtype=float32, backend='cpu')
        >>> y
        Tensor([2., 4., 6.], dtype=float32, backend='cpu')

    """
    with _assigning:
        if isinstance(x, variable.Variable):
            x.assign(_assigned(x.value, key, value))
            return
        home: Any = x._alive()
        if made_outside(x):
            raise ValueError(
                "setitem: the tensor was made outside of vmap, and cannot hold a value "
                "for each example; assign to a new one, such as x + 0"
            )
        with Scope(backend=home):  # the values stay on their backend
            x._rebind(_assigned(x, key, value))


def _assigned(x: Tensor, key: Any, value: TensorLike) -> Tensor:
    """Return ``x`` with ``value`` at ``key``, as a new tensor."""
    new = _convert_value(x, value)
    whole = (
        getattr(key, "dtype", None) == BOOL and key.shape == x.shape[: len(key.shape)]
    )
    if whole and not new.shape:  # a mask of leading axes, and a scalar
        ones = (1,) * (len(x.shape) - len(key.shape))
        mask = shape.reshape(_convert.asarray(key), (*key.shape, *ones))
        return compare.where(mask, new, x)
    positions = _flat_positions(x.shape, key)
    if not positions.size:
        return creation.identity(x)
    lead = len(new.shape) - len(positions.shape)
    if lead > 0 and set(new.shape[:lead]) == {1}:  # as NumPy allows
        new = shape.reshape(new, new.shape[lead:])
    if geometry.broadcast("setitem", new.shape, positions.shape) != positions.shape:
        raise misfit("setitem", f"the value must broadcast to {positions.shape}", new)
    new = run(shape.BROADCAST_TO, new, shape=positions.shape)
    flat = run(shape.RESHAPE, x, shape=(x.size,))
    rows = run(shape.RESHAPE, positions, shape=(positions.size, 1))
    new = run(shape.RESHAPE, new, shape=(positions.size,))
    y = run(scatter.TENSOR_SCATTER_UPDATE, flat, rows, new)
    return run(shape.RESHAPE, y, shape=x.shape)


def _convert_value(x: Tensor, value: TensorLike) -> Tensor:
    """Convert a value that is assigned to the dtype of ``x``."""
    numbers = isinstance(value, bool | int | float | list | tuple)
    numbers = numbers and x.dtype is not STRING
    if numbers or (isinstance(value, complex) and x.dtype.kind == "c"):
        return _convert.asarray(value, dtype=x.dtype)
    new = _convert.asarray(value)
    real_from_complex = new.dtype.kind == "c" and x.dtype.kind != "c"
    if real_from_complex or (new.dtype is STRING) != (x.dtype is STRING):
        raise TypeError(
            f"setitem: a tensor of {named(x.dtype)} cannot hold {named(new.dtype)}; "
            "convert the value"
        )
    return creation.cast(new, x.dtype)


def _flat_positions(sizes: Shape, key: Any) -> Tensor:
    """Return the row-major positions of the elements that a key selects."""
    total = math.prod(sizes)
    kind = np.int32 if total < 2**31 else np.int64
    read = _parse_key("setitem", sizes, key if isinstance(key, tuple) else (key,))
    if read.arrays:
        every = shape.reshape(ranges.arange(total, dtype=np.dtype(kind)), sizes)
        return select("setitem", every, key)
    positions = np.zeros((), kind)
    steps = zip(read.source, read.begin, read.size, read.strides, strict=True)
    for n, begin, size, stride in steps:
        positions = positions[..., None] * n + (
            begin + stride * np.arange(size, dtype=kind)
        )
    return _convert.asarray(positions.astype(kind, copy=False).reshape(read.view))


def iterate(x: TensorLike, /) -> Iterator[Tensor]:
    """Return an iterator over the first axis; raise a TypeError if there is none."""
    x = _convert.asarray(x)
    if not x.shape:
        raise TypeError("iter: cannot iterate over a tensor without axes")
    return iter(shape.unstack(x))


def contains(x: TensorLike, value: TensorLike, /) -> bool:
    """Return whether an element of ``x`` equals ``value``, as ``value in x`` does.

    A ``value`` with axes broadcasts; a single pair of equal elements is enough.
    """
    return bool(compare.equal(x, value)._values().any())


def select(op: str, x: Tensor, key: Any) -> Tensor:
    """Return ``x[key]``; ``op`` is for messages."""
    read = _parse_key(op, x.shape, key if isinstance(key, tuple) else (key,))
    y = x
    if read.source != x.shape:
        y = run(shape.RESHAPE, y, shape=read.source)
    if read.size != read.source or min(read.strides, default=1) < 0:
        part = {"begin": read.begin, "size": read.size, "strides": read.strides}
        y = run(slicing.STRIDED_SLICE, y, **part)
    if read.view != read.size:
        y = run(shape.RESHAPE, y, shape=read.view)
    if read.arrays:
        return _apply_index_arrays(op, y, read)
    return creation.identity(x) if y is x else y


def strided_slice(
    x: TensorLike,
    /,
    begin: Ints,
    end: Ints,
    strides: Ints | None = None,
    *,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``x[begin:end:strides]``, with one entry for each axis.

    Bit ``i`` of a mask refers to entry ``i``. ``x[...]`` is easier to read.

    Args:
        x: A tensor of any dtype.
        begin: The first index along each axis; negative ones count from the end.
        end: The end along each axis, which is not included.
        strides: The steps; 1 by default.
        begin_mask: The entries that start at the first element, or at the last one for
            a negative stride.
        end_mask: The entries that extend to the end.
        ellipsis_mask: The entry that stands for all axes that no other entry names.
            This mask takes precedence over the other ones.
        new_axis_mask: The entries that insert a new axis of size 1.
        shrink_axis_mask: The entries that select the single element at ``begin`` and
            remove the axis.

    Returns:
        A tensor of the dtype of ``x``.

    Raises:
        ValueError: ``begin``, ``end`` and ``strides`` differ in length, or a stride is
            0.
        IndexError: A single index is out of range, there are more entries than axes, or
            there is more than one ellipsis.
        TypeError: An argument other than ``x`` is not an integer or a sequence of
            integers.

    Example:
        >>> x = [[1, 2, 3], [4, 5, 6]]
        >>> pg.strided_slice(x, [0, 2], [2, 0], [1, -1])
        Tensor([[3, 2],
                [6, 5]], dtype=int32, backend='cpu')
        >>> pg.strided_slice(x, [1, 0], [2, 3], shrink_axis_mask=1)
        Tensor([4, 5, 6], dtype=int32, backend='cpu')

    Source:
        The semantics are those of ``tf.stridedSlice`` in TensorFlow.js.

    """
    if unknown:
        raise unexpected(strided_slice, unknown)
    op = "strided_slice"
    starts = integers(op, "begin", begin)
    ends = integers(op, "end", end)
    steps = (1,) * len(starts) if strides is None else integers(op, "strides", strides)
    parts = (starts, ends, steps)
    if len({*map(len, parts)}) > 1:
        lists = f"begin {starts}, end {ends} and strides {steps}"
        raise ValueError(f"{op}: {lists} must have the same length")
    masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    integers(op, "the masks", masks)
    key: list[object] = []
    for i, (b, e, s) in enumerate(zip(*parts, strict=True)):
        bit = 1 << i
        if ellipsis_mask & bit:
            key.append(Ellipsis)
        elif new_axis_mask & bit:
            key.append(None)
        elif shrink_axis_mask & bit:
            key.append(b)
        else:
            first = None if begin_mask & bit else b
            key.append(slice(first, None if end_mask & bit else e, s))
    return select(op, _convert.asarray(x), tuple(key))


class _ParsedKey(NamedTuple):
    """The meaning of a key for a shape.

    Attributes:
        source: The shape, with the axes of each mask merged into one.
        begin, size, strides: The strided slice of ``source``.
        view: The shape after the slice, without the axes that integers remove, and with
            the new axes.
        arrays: The index arrays, by their axis in ``view``.
        apart: Whether other entries separate the index arrays and integers.

    """

    source: Shape
    begin: Shape
    size: Shape
    strides: Shape
    view: Shape
    arrays: dict[int, Tensor]
    apart: bool


def _parse_key(op: str, shape: Shape, key: tuple[Any, ...]) -> _ParsedKey:
    parts = []
    view = []
    arrays = {}
    axis = 0
    entry_numbers = []
    for number, entry in enumerate(_entries(op, shape, key)):
        if isinstance(entry, int):
            n = shape[axis]
            if not -n <= entry < n:
                raise gather.out_of_range(op, entry, axis, n)
            parts.append((n, entry + n if entry < 0 else entry, 1, 1))
            entry_numbers.append(number)
            axis += 1
        elif isinstance(entry, slice):
            parts.append(_slice_of_axis(op, entry, shape[axis]))
            view.append(parts[-1][2])
            axis += 1
        elif entry is None:
            view.append(1)
        elif entry is not Ellipsis:
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
    return _ParsedKey(source, begin, size, strides, (*view,), arrays, apart)


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
        )  # an axis of size 0 selects nothing
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
    entries[insert_at:insert_at] = [ALL] * (len(shape) - named)
    return entries  # the ellipsis stays: it separates others even if it has no axis


def _axis_count(entry: Any) -> int:
    """Return how many axes an entry of a key indexes."""
    if hasattr(entry, "dtype"):
        return len(entry.shape) if entry.dtype == BOOL else 1
    return 0 if entry is None or entry is Ellipsis else 1


def _normalize_entry(op: str, entry: Any) -> Any:
    """Return one entry as None, Ellipsis, a slice, an int, a tensor or an array."""
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
        if entry.dtype.kind not in "biu":
            rule = "an index must be integers or bool"
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


# --- index arrays ----------------------------------------------------------------


def _apply_index_arrays(op: str, x: Tensor, read: _ParsedKey) -> Tensor:
    """Apply the index arrays of a key to ``x``, which has already been sliced."""
    axes = list(read.arrays)
    arrays = list(read.arrays.values())
    first = axes[0]
    rank = len(x.shape)
    if len(arrays) == 1:
        y = run(gather.GATHER_V2, x, *arrays, axis=first, batch_dims=0)
        start = first
    else:
        common = geometry.broadcast(op, *[a.shape for a in arrays])
        arrays = [
            a if a.shape == common else run(shape.BROADCAST_TO, a, shape=common)
            for a in arrays
        ]
        if axes != [*range(len(axes))]:
            rest = [i for i in range(rank) if i not in axes]
            x = run(shape.TRANSPOSE, x, axes=(*axes, *rest))
        y = run(scatter.GATHER_ND, x, shape.stack(arrays, axis=-1))
        start = 0
    wide = len(y.shape) - rank + len(axes)  # the number of axes of the index arrays
    target = 0 if read.apart else first
    if start == target or not wide:
        return y
    rest = [*range(start), *range(start + wide, len(y.shape))]
    order = (*rest[:target], *range(start, start + wide), *rest[target:])
    return run(shape.TRANSPOSE, y, axes=order)
