"""Ops that create, rearrange, join and split arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import plugrad as pg
from plugrad.importing import namespace

from ..settings import Ints
from .table import on_host, op


@op("Shape")
def shape(x: Any, *, out_type: str = "int32") -> Any:
    return np.asarray(x.shape, np.int32)


@op("ShapeN")
def shape_n(*xs: Any, out_type: str = "int32") -> Any:
    return [shape(x) for x in xs]


@op("Rank")
def rank(x: Any) -> Any:
    return np.asarray(x.ndim, np.int32)


@op("Size")
def size(x: Any, *, out_type: str = "int32") -> Any:
    return np.asarray(x.size, np.int32)


@op("Reshape", reads=(1,))
def reshape(x: Any, sizes: Any) -> Any:
    return namespace(x).reshape(x, tuple(sizes.tolist()))


@op("EnsureShape")
def ensure_shape(x: Any, *, shape: Any) -> Any:
    return x if shape is None else pg.ensure_shape(x, shape)


@op("Squeeze")
def squeeze(x: Any, *, squeeze_dims: Ints = (), axis: Ints = ()) -> Any:
    axes = squeeze_dims or axis or tuple(i for i, n in enumerate(x.shape) if n == 1)
    return namespace(x).squeeze(x, axis=axes)


@op("ExpandDims", reads=(1,))
def expand_dims(x: Any, axis: Any) -> Any:
    return namespace(x).expand_dims(x, axis=axis.item())


@op("Pack")
def pack(*xs: Any, axis: int = 0) -> Any:
    return namespace(*xs).stack(xs, axis=axis)


@op("Unpack")
def unpack(x: Any, *, axis: int = 0, num: int = 0) -> Any:
    library = namespace(x)
    rows = range(x.shape[axis])
    return [np.take(x, i, axis) for i in rows] if library is np else pg.unstack(x, axis)


@op("ConcatV2", reads=(-1,))
def concat_v2(*xs: Any) -> Any:
    return namespace(*xs[:-1]).concat(xs[:-1], axis=xs[-1].item())


@op("Concat", reads=(0,))
def concat(*xs: Any) -> Any:
    return namespace(*xs[1:]).concat(xs[1:], axis=xs[0].item())


@op("Split", reads=(0,))
def split(axis: Any, x: Any, *, num_split: int = 1) -> Any:
    position = axis.item()
    size, rest = divmod(x.shape[position], num_split)
    if rest:
        raise ValueError(
            f"model: {x.shape[position]} elements cannot be split into {num_split} "
            "equal parts"
        )
    return pg.split(x, [size] * num_split, axis=position)


@op("SplitV", reads=(1, 2))
def split_v(x: Any, sizes: Any, axis: Any, *, num_split: int = 0) -> Any:
    position = axis.item()
    parts = sizes.tolist()
    if -1 in parts:
        parts[parts.index(-1)] = x.shape[position] - sum(parts) - 1
    return pg.split(x, parts, axis=position)


@op("Slice", reads=(1, 2))
def slice_(x: Any, begin: Any, sizes: Any) -> Any:
    pairs = zip(begin.tolist(), sizes.tolist(), strict=True)
    index = (slice(b, None if n == -1 else b + n) for b, n in pairs)
    return x[tuple(index)]


@op("StridedSlice", reads=(1, 2, 3))
def strided_slice(
    x: Any,
    begin: Any,
    end: Any,
    strides: Any,
    *,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
) -> Any:
    index: list[Any] = []
    for i, (b, e, step) in enumerate(
        zip(begin.tolist(), end.tolist(), strides.tolist(), strict=True)
    ):
        bit = 1 << i
        if ellipsis_mask & bit:
            index.append(...)
        elif new_axis_mask & bit:
            index.append(None)
        elif shrink_axis_mask & bit:
            index.append(b)
        else:
            low = None if begin_mask & bit else b
            index.append(slice(low, None if end_mask & bit else e, step))
    return np.asarray(x[tuple(index)]) if namespace(x) is np else x[tuple(index)]


@op("GatherV2", reads=(2,))
def gather_v2(x: Any, indices: Any, axis: Any, *, batch_dims: int = 0) -> Any:
    if namespace(x, indices) is np and not batch_dims:
        return np.asarray(np.take(x, indices, axis.item()))
    return pg.gather(x, indices, axis.item(), batch_dims=batch_dims)


@op("Gather")
def gather(x: Any, indices: Any, *, batch_dims: int = 0) -> Any:
    return pg.gather(x, indices, 0, batch_dims=batch_dims)


@op("GatherNd")
def gather_nd(x: Any, indices: Any) -> Any:
    return pg.gather_nd(x, indices)


@op("ScatterNd", reads=(2,))
def scatter_nd(indices: Any, updates: Any, shape: Any) -> Any:
    return pg.scatter_nd(indices, updates, tuple(shape.tolist()))


@op("TensorScatterUpdate")
def tensor_scatter_update(x: Any, indices: Any, updates: Any) -> Any:
    return pg.tensor_scatter_update(x, indices, updates)


@op("Tile", reads=(1,))
def tile(x: Any, repetitions: Any) -> Any:
    return namespace(x).tile(x, tuple(repetitions.tolist()))


@op("BroadcastTo", reads=(1,))
def broadcast_to(x: Any, sizes: Any) -> Any:
    return namespace(x).broadcast_to(x, tuple(sizes.tolist()))


@op("Pad", reads=(1,))
def pad(x: Any, paddings: Any) -> Any:
    return pg.pad(x, paddings.tolist())


@op("PadV2", reads=(1, 2))
def pad_v2(x: Any, paddings: Any, value: Any) -> Any:
    return pg.pad(x, paddings.tolist(), constant_values=value.item())


@op("MirrorPad", reads=(1,))
def mirror_pad(x: Any, paddings: Any, *, mode: str = "REFLECT") -> Any:
    return pg.pad(x, paddings.tolist(), mode=mode.lower())  # type: ignore[arg-type]


@op("ReverseV2", reads=(1,))
def reverse(x: Any, axis: Any) -> Any:
    return namespace(x).flip(x, axis=tuple(axis.reshape(-1).tolist()))


@op("Fill", reads=(0, 1))
def fill(sizes: Any, value: Any, *, index_type: str = "int32") -> Any:
    library: Any = np if value.dtype.kind == "i" else pg
    return library.full(tuple(sizes.tolist()), value.item(), dtype=value.dtype)


@op("Range", reads=(0, 1, 2))
def range_(start: Any, stop: Any, step: Any) -> Any:
    return np.arange(start.item(), stop.item(), step.item(), dtype=start.dtype)


@op("LinSpace", reads=(0, 1, 2))
def linspace(start: Any, stop: Any, count: Any) -> Any:
    return pg.linspace(start.item(), stop.item(), count.item())


@op("OneHot", reads=(1, 2, 3))
def one_hot(indices: Any, depth: Any, on: Any, off: Any, *, axis: int = -1) -> Any:
    options = {"on_value": on.item(), "off_value": off.item(), "dtype": on.dtype}
    return pg.one_hot(on_host(indices), depth.item(), **options, axis=axis)
