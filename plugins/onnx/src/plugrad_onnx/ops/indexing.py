"""Gather, scatter, search and sort."""

from __future__ import annotations

from typing import Any

import numpy as np
import plugrad as pg
from plugrad.importing import namespace

from ..registry import Value, op
from .shape import ints

Ints = tuple[int, ...]


@op("Gather", either=(1,), host=True)
def gather(x: Value, indices: Value, *, axis: int = 0) -> Value:
    if isinstance(x, np.ndarray):
        return np.take(x, indices, axis=axis)
    axis = axis % x.ndim
    if isinstance(indices, np.ndarray) and indices.size == 1:  # a view
        found = x[(slice(None),) * axis + (int(indices.item()),)]
        shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
        return pg.reshape(found, shape)
    return pg.gather(x, indices, axis)


@op("GatherElements", host=True)
def gather_elements(x: Value, indices: Value, *, axis: int = 0) -> Value:
    xp = namespace(x, indices)
    region = tuple(
        slice(None) if i == axis % x.ndim else slice(0, n)
        for i, n in enumerate(indices.shape)
    )
    return xp.take_along_axis(x[region], indices, axis=axis)


@op("GatherND", host=True)
def gather_nd(x: Value, indices: Value, *, batch_dims: int = 0) -> Value:
    xp = namespace(x, indices)
    if batch_dims:
        grid = np.moveaxis(np.indices(indices.shape[:-1])[:batch_dims], 0, -1)
        indices = xp.concat([grid, indices], axis=-1)
    if xp is np:
        return x[tuple(np.moveaxis(indices, -1, 0))]
    return pg.gather_nd(x, indices)


# --- scatter ---------------------------------------------------------------------


@op("ScatterElements", "Scatter", since=9, host=True)
def scatter_elements(
    x: Value, indices: Value, updates: Value, *, axis: int = 0, reduction: str = "none"
) -> Value:
    coordinates: list[Value] = [*np.indices(indices.shape)]
    coordinates[axis] = indices
    indices = namespace(x, indices).stack(coordinates, axis=-1)
    return scatter_nd(x, indices, updates, reduction=reduction)


_UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


@op("ScatterND", since=11, host=True)
def scatter_nd(
    x: Value, indices: Value, updates: Value, *, reduction: str = "none"
) -> Value:
    if not isinstance(x, np.ndarray):
        name: Any = {"none": "replace", "mul": "multiply"}.get(reduction, reduction)
        if indices.ndim == 1:  # one position, which the op would mistake for several
            indices, updates = pg.expand_dims(indices, 0), pg.expand_dims(updates, 0)
        return pg.tensor_scatter_update(x, indices, updates, reduction=name)
    y = x.copy()
    index = tuple(np.moveaxis(indices, -1, 0))
    if reduction == "none":
        y[index] = updates
    else:
        _UFUNCS[reduction].at(y, index, updates)
    return y


@op("TensorScatter")
def tensor_scatter(
    cache: Value,
    update: Value,
    write_indices: Value = None,
    *,
    axis: int = -2,
    mode: str = "linear",
) -> Value:
    axis, n = axis % cache.ndim, cache.shape[axis]
    batch, count = cache.shape[0], update.shape[axis]
    start = (
        pg.zeros((batch,), dtype="int64") if write_indices is None else write_indices
    )
    positions = pg.expand_dims(start, 1) + np.arange(count)
    if mode == "circular":
        positions = pg.remainder(positions, n)
    sizes = (*cache.shape[:axis], count)
    grid = [np.broadcast_to(i, sizes) for i in np.ogrid[tuple(map(slice, sizes))]]
    columns: list[Value] = [i.astype(np.int64) for i in grid[:-1]]
    places = pg.reshape(positions, (batch, *(1,) * (axis - 1), count))
    columns.append(pg.broadcast_to(places, sizes))
    return pg.tensor_scatter_update(cache, pg.stack(columns, axis=-1), update)


# --- search and sort -------------------------------------------------------------


@op("NonZero", host=lambda x: np.stack(np.nonzero(np.atleast_1d(x))).astype(np.int64))
def non_zero(x: Value) -> Value:
    axes = pg.nonzero(x if x.ndim else pg.reshape(x, (1,)))
    return pg.stack([pg.astype(p, "int64") for p in axes])


@op("Compress", reads=(1,))
def compress(x: Value, condition: Value, *, axis: int | None = None) -> Value:
    chosen = np.flatnonzero(condition)
    if axis is None:
        x = pg.reshape(x, (-1,))
        axis = 0
    return pg.take(x, chosen, axis=axis)


@op("TopK", since=10, reads=(1,))
def top_k(
    x: Value, k: Value, *, axis: int = -1, largest: int = 1, sorted: int = 1
) -> Value:
    count = int(k.item())
    is_last = axis % x.ndim == x.ndim - 1
    x = x if is_last else pg.moveaxis(x, axis, -1)
    if largest:
        values, indices = pg.top_k(x, count)
    else:
        order = pg.argsort(x, axis=-1)
        indices = order[..., :count]
        values = pg.take_along_axis(x, indices, axis=-1)
    restore = (lambda t: t) if is_last else (lambda t: pg.moveaxis(t, -1, axis))
    return restore(values), pg.astype(restore(indices), "int64")


@op("TopK")
def top_k_attribute(x: Value, *, k: int, axis: int = -1) -> Value:
    return top_k(x, np.array(k), axis=axis)


def _cumulative(name: str) -> Any:
    def run(x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Value:
        function = getattr(pg, name)
        options = {"exclusive": bool(exclusive), "reverse": bool(reverse)}
        return function(x, int(axis.item()), dtype=x.dtype, **options)

    return run


op("CumSum", reads=(1,))(_cumulative("cumulative_sum"))
op("CumProd", reads=(1,))(_cumulative("cumulative_prod"))


@op("ReverseSequence", reads=(1,))
def reverse_sequence(
    x: Value, lengths: Value, *, batch_axis: int = 1, time_axis: int = 0
) -> Value:
    steps = np.arange(x.shape[time_axis])
    count = lengths.reshape(-1, 1)
    indices = np.where(steps < count, count - 1 - steps, steps)
    if batch_axis > time_axis:
        indices = indices.T
    indices = indices.reshape(*indices.shape, *[1] * (x.ndim - 2))
    return pg.take_along_axis(x, pg.broadcast_to(indices, x.shape), axis=time_axis)


@op("Unique", reads=(0,))
def unique(x: Value, *, axis: int | None = None, sorted: int = 1) -> Value:
    y, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first)
        rank = np.argsort(order)
        y = np.take(y, order, axis=axis or 0)
        first = first[order]
        inverse = rank[inverse]
        counts = counts[order]
    return y, *(a.astype(np.int64) for a in (first, inverse, counts))


@op("ArrayFeatureExtractor", domain="ai.onnx.ml", reads=(1,))
def array_feature_extractor(x: Value, indices: Value) -> Value:
    return pg.take(x, np.array(ints(indices)), axis=-1)
