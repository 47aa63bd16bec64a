"""Shape ops; shapes and integers computed from them stay on the host."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, cast

import numpy as np
import plugrad as pg
from plugrad import geometry
from plugrad.importing import namespace

from ..dtypes import dtype_of
from ..graph import Node
from ..registry import Value, op
from .windows import to_channels_first, to_channels_last

Ints = tuple[int, ...]


def ints(x: Value) -> Ints:
    """Return the integers of an array as a tuple."""
    return tuple(x.reshape(-1).tolist())


# The size limit for arrays that are computed from a few numbers, such as a range.
max_elements: ContextVar[float] = ContextVar("max_elements", default=math.inf)


def check_size(name: str, shape: Sequence[int]) -> Sequence[int]:
    """Return a shape; raise if it has a negative size or too many elements."""
    limit = max_elements.get()
    if any(n < 0 for n in shape) or math.prod(shape) > limit:
        raise ValueError(
            f"{name}: the shape {tuple(shape)} has a negative size, or more than "
            f"{limit} elements"
        )
    return shape


@op("Shape", host=True)
def shape(x: Value, *, start: int = 0, end: int | None = None) -> Value:
    return np.array(x.shape[start:end], np.int64)


@op("Size", host=True)
def size(x: Value) -> Value:
    return np.array(math.prod(x.shape), np.int64)


@op("Reshape", since=5, reads=(1,), host=True)
def reshape(x: Value, shape: Value, *, allowzero: int = 0) -> Value:
    return namespace(x).reshape(x, inferred_shape(x.shape, ints(shape), allowzero))


def inferred_shape(shape: Ints, sizes: Ints, allowzero: int = 0) -> Ints:
    """Return the target shape of a reshape; 0 copies the size of the input."""
    if allowzero:
        return sizes
    kept = tuple([shape[i] if n == 0 else n for i, n in enumerate(sizes)])
    if 0 not in kept or -1 not in kept:
        return kept
    # NumPy cannot infer -1 for an empty array: infer it from the other axes.
    remaining = math.prod(n for i, n in enumerate(shape) if i >= len(sizes) or sizes[i])
    count, rest = divmod(remaining, math.prod(n for n in sizes if n > 0))
    return tuple([count if n == -1 and not rest else n for n in kept])


@op("Shuffle", domain="plugrad")
def shuffle(x: Value, *, wide: Ints, narrow: Ints, channels_last: int = 0) -> Value:
    """Shuffle channels between groups; a pass inserts this op.

    It replaces three nodes of the file: a reshape to ``wide``, which is [n, groups,
    channels, ...], a transpose of groups and channels, and a reshape to ``narrow``.
    """
    if not channels_last:
        y = pg.reshape(x, inferred_shape(x.shape, wide))
        y = pg.permute_dims(y, (0, 2, 1, *range(3, y.ndim)))
        return pg.reshape(y, inferred_shape(y.shape, narrow))
    shape = (x.shape[0], x.shape[-1], *x.shape[1:-1])
    sizes = geometry.reshaped(shape, inferred_shape(shape, wide))
    swapped = (sizes[0], sizes[2], sizes[1], *sizes[3:])
    same_shape = geometry.reshaped(shape, inferred_shape(swapped, narrow)) == shape
    if same_shape and (sizes[0], *sizes[3:]) == (shape[0], *shape[2:]):
        y = pg.reshape(x, (*x.shape[:-1], *sizes[1:3]))
        return pg.reshape(pg.permute_dims(y, (*range(y.ndim - 2), -1, -2)), x.shape)
    return to_channels_last(shuffle(to_channels_first(x), wide=wide, narrow=narrow))


@op("Flatten", host=True)
def flatten(x: Value, *, axis: int = 1) -> Value:
    axis = axis + x.ndim if axis < 0 else axis
    sizes = (math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))
    return namespace(x).reshape(x, sizes)


@op("Transpose", host=True)
def transpose(x: Value, *, perm: Ints | None = None) -> Value:
    return namespace(x).permute_dims(x, perm or tuple(reversed(range(x.ndim))))


@op("Squeeze", host=True)
def squeeze_attribute(x: Value, *, axes: Ints | None = None) -> Value:
    return namespace(x).squeeze(x, _axes_of_size_1(x) if axes is None else axes)


def _axes_of_size_1(x: Value) -> Ints:
    return tuple(i for i, n in enumerate(x.shape) if n == 1)


@op("Squeeze", since=13, reads=(1,), host=True)
def squeeze(x: Value, axes: Value = None) -> Value:
    return squeeze_attribute(x, axes=None if axes is None else ints(axes))


@op("Unsqueeze", host=True)
def unsqueeze_attribute(x: Value, *, axes: Ints) -> Value:
    return namespace(x).expand_dims(x, axes)


@op("Unsqueeze", since=13, reads=(1,), host=True)
def unsqueeze(x: Value, axes: Value) -> Value:
    return unsqueeze_attribute(x, axes=ints(axes))


@op("Concat", since=4, host=True)
def concat(*xs: Value, axis: int) -> Value:
    return namespace(*xs).concat(xs, axis=axis)


def split_at(x: Value, sizes: Sequence[int], axis: int) -> tuple[Value, ...]:
    """Split into pieces of the given sizes along an axis."""
    if isinstance(x, np.ndarray):
        ends: Any = np.cumsum(sizes)[:-1] if sizes else []
        return tuple(np.split(x, ends, axis))
    return tuple(pg.split(x, list(sizes), axis))


@op("Split", since=2, host=True)
def split_attribute(
    x: Value, *, axis: int = 0, split: Ints | None = None, node: Node
) -> Value:
    count = len(node.outputs)
    return split_at(x, split or (x.shape[axis] // count,) * count, axis)


@op("Split", since=13, reads=(1,), host=True)
def split(
    x: Value,
    sizes: Value = None,
    *,
    axis: int = 0,
    num_outputs: int | None = None,
    node: Node,
) -> Value:
    if sizes is not None:
        return split_at(x, ints(sizes), axis)
    count = num_outputs or len(node.outputs)
    n = x.shape[axis]
    size = -(-n // count)
    return split_at(x, [*[size] * (count - 1), n - size * (count - 1)], axis)


@op("Slice", host=True)
def slice_attribute(
    x: Value, *, starts: Ints, ends: Ints, axes: Ints | None = None
) -> Value:
    index = [slice(None)] * x.ndim
    for axis, start, end in zip(axes or range(x.ndim), starts, ends, strict=False):
        index[axis] = slice(start, end)
    return x[tuple(index)]


@op("Slice", since=10, reads=(1, 2, 3, 4), host=True)
def slice_(
    x: Value, starts: Value, ends: Value, axes: Value = None, steps: Value = None
) -> Value:
    index = [slice(None)] * x.ndim
    numbers = (starts, ends, axes, steps)
    first, last, axis, step = (None if a is None else ints(a) for a in numbers)
    for i, start in enumerate(first or ()):
        stride = step[i] if step else 1
        i_axis = axis[i] if axis else i
        index[i_axis] = _slice(start, (last or ())[i], stride, x.shape[i_axis])
    return x[tuple(index)]


def _slice(start: int, end: int, step: int, size: int) -> slice:
    """Return a Python slice; positions outside the axis are clipped, as in ONNX."""
    start, end = (n + size if n < 0 else n for n in (start, end))
    if step > 0:
        return slice(max(start, 0), max(end, 0), step)
    if start < 0:
        return slice(0, 0, step)
    return slice(min(start, size - 1), end if end >= 0 else None, step)


@op("Expand", reads=(1,), host=True)
def expand(x: Value, shape: Value) -> Value:
    wanted = np.broadcast_shapes(x.shape, ints(shape))
    if isinstance(x, np.ndarray):
        return np.broadcast_to(x, tuple(check_size("Expand", wanted)))
    return pg.broadcast_to(x, wanted)


@op("Tile", reads=(1,), host=True)
def tile(x: Value, repeats: Value) -> Value:
    if isinstance(x, np.ndarray):
        check_size("Tile", [n * m for n, m in zip(x.shape, ints(repeats), strict=True)])
    return namespace(x).tile(x, ints(repeats))


@op("ConstantOfShape", reads=(0,), host=True)
def constant_of_shape(shape: Value, *, value: Value = None) -> Value:
    fill = np.zeros(1, np.float32) if value is None else value
    sizes = tuple(check_size("ConstantOfShape", ints(shape)))
    return np.full(sizes, fill.reshape(-1)[0], fill.dtype)


@op("Constant")
def constant(
    *,
    value: Value = None,
    value_float: float | None = None,
    value_floats: Sequence[float] | None = None,
    value_int: int | None = None,
    value_ints: Ints | None = None,
    value_string: str | None = None,
    value_strings: Sequence[str] | None = None,
    sparse_value: Value = None,
) -> Value:
    raise ValueError("Constant: exactly one value attribute is needed")


@op("Range", reads=(0, 1, 2), host=True)
def range_(start: Value, limit: Value, delta: Value) -> Value:
    first, last, step = (x.reshape(()) for x in (start, limit, delta))
    count = max(math.ceil((last.item() - first.item()) / step.item()), 0)
    check_size("Range", (count,))
    return first + np.arange(count).astype(start.dtype) * step


@op("EyeLike", host=True)
def eye_like(x: Value, *, dtype: int | None = None, k: int = 0) -> Value:
    kind = dtype_of(dtype) if dtype else np.dtype(x.dtype)
    check_size("EyeLike", x.shape)
    rows, columns = x.shape
    return np.eye(rows, columns, k=k, dtype=kind)


@op("OneHot", reads=(1,), host=False)
def one_hot(indices: Value, depth: Value, values: Value, *, axis: int = -1) -> Value:
    n = int(depth.item())
    positions = pg.remainder(pg.astype(indices, "int64"), n)
    inside = pg.logical_and(indices >= -n, indices < n)
    positions = pg.where(inside, positions, pg.full_like(positions, -1))
    axis = axis + indices.ndim + 1 if axis < 0 else axis
    shape = [1] * (indices.ndim + 1)
    shape[axis] = n
    numbers = pg.asarray(np.arange(n).reshape(shape))
    chosen = pg.equal(pg.expand_dims(positions, axis), numbers)
    return pg.where(chosen, values[1], values[0])


@op("Trilu", reads=(1,), host=True)
def trilu(x: Value, k: Value = None, *, upper: int = 1) -> Value:
    shift = 0 if k is None else int(k.item())
    xp = namespace(x)
    return (xp.triu if upper else xp.tril)(x, k=shift)


@op("CenterCropPad", reads=(1,))
def center_crop_pad(x: Value, shape: Value, *, axes: Ints | None = None) -> Value:
    positions = range(x.ndim) if axes is None else [a % x.ndim for a in axes]
    margins: list[Any] = [(0, 0)] * x.ndim
    index = [slice(None)] * x.ndim
    for axis, n in zip(positions, ints(shape), strict=True):
        growth = n - x.shape[axis]
        if growth >= 0:
            margins[axis] = (growth // 2, growth - growth // 2)
        else:
            start = -growth // 2
            index[axis] = slice(start, start + n)
    return pg.pad(x[tuple(index)], margins)


# --- padding ---------------------------------------------------------------------


@op("Pad", since=2)
def pad_attribute(
    x: Value, *, pads: Ints, mode: str = "constant", value: float = 0.0
) -> Value:
    return padded(x, pads, mode, value)


@op("Pad", since=11, reads=(1, 2, 3), host=True)
def pad(
    x: Value,
    pads: Value,
    value: Value = None,
    axes: Value = None,
    *,
    mode: str = "constant",
) -> Value:
    given = ints(pads)
    fill = 0 if value is None else value.reshape(-1)[0].item()
    if axes is not None:
        half = len(given) // 2
        all_pads = [0] * (2 * x.ndim)
        for i, axis in enumerate(ints(axes)):
            all_pads[axis % x.ndim] = given[i]
            all_pads[axis % x.ndim + x.ndim] = given[i + half]
        given = tuple(all_pads)
    return padded(x, given, mode, fill)


def padded(x: Value, pads: Ints, mode: str, fill: Any) -> Value:
    """Pad each axis by (before, after); negative numbers crop."""
    ends = list(zip(pads[: x.ndim], pads[x.ndim :], strict=True))
    if mode == "constant":
        crop = [
            slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in _zip_sizes(ends, x.shape)
        ]
        x = x[tuple(crop)] if any(a < 0 or b < 0 for a, b in ends) else x
        margins = [(max(a, 0), max(b, 0)) for a, b in ends]
        if isinstance(x, np.ndarray):
            check_size("Pad", [n + a + b for (a, b), n in _zip_sizes(margins, x.shape)])
            return np.pad(x, margins, constant_values=fill)
        return pg.pad(x, margins, constant_values=fill)
    for axis, (before, after) in enumerate(ends):
        if before or after:
            widths = (max(before, 0), max(after, 0))
            kind = cast(Any, mode)
            indices = np.pad(np.arange(x.shape[axis]), widths, mode=kind)
            indices = indices[max(-before, 0) : len(indices) - max(-after, 0)]
            x = namespace(x).take(x, indices, axis=axis)
    return x


def _zip_sizes(ends: Sequence[tuple[int, int]], sizes: Sequence[int]) -> Any:
    return zip(ends, sizes, strict=True)


@op("DepthToSpace")
def depth_to_space(x: Value, *, blocksize: int, mode: str = "DCR") -> Value:
    n, c, h, w = x.shape
    b = blocksize
    rest = c // blocksize**2
    if mode == "DCR":
        y = pg.permute_dims(pg.reshape(x, (n, b, b, rest, h, w)), (0, 3, 4, 1, 5, 2))
    else:
        y = pg.permute_dims(pg.reshape(x, (n, rest, b, b, h, w)), (0, 1, 4, 2, 5, 3))
    return pg.reshape(y, (n, rest, h * b, w * b))


@op("SpaceToDepth")
def space_to_depth(x: Value, *, blocksize: int, mode: str = "DCR") -> Value:
    n, c, h, w = x.shape
    b = blocksize
    y = pg.reshape(x, (n, c, h // b, b, w // b, b))
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return pg.reshape(pg.permute_dims(y, order), (n, c * b * b, h // b, w // b))
