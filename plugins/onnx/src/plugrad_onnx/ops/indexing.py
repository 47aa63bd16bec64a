"""Gather, scatter, and what searches and sorts."""

from __future__ import annotations

from typing import Any

import numpy as np
import plugrad as pg

from ..registry import Value, namespace, op
from .shape import ints

Ints = tuple[int, ...]


def counted(indices: Value, size: int) -> Value:
    """Return indices from the beginning on; negative ones count from the end."""
    if isinstance(indices, np.ndarray):
        if np.any((indices < -size) | (indices >= size)):
            raise IndexError(f"index: {indices} is out of range for an axis of {size}")
        return np.where(indices < 0, indices + size, indices)
    return pg.where(indices < 0, indices + size, indices)


@op("Gather", either=(1,), host=True)
def gather(x: Value, indices: Value, *, axis: int = 0) -> Value:
    axis = axis % x.ndim
    if isinstance(x, np.ndarray):
        return np.take(x, counted(indices, x.shape[axis]), axis=axis)
    if isinstance(indices, np.ndarray):
        if indices.size == 1:  # a view
            start = int(counted(indices, x.shape[axis]).item())
            found = x[(slice(None),) * axis + (slice(start, start + 1),)]
            shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
            return pg.reshape(found, shape)
        return pg.gather(x, counted(indices, x.shape[axis]), axis)
    return pg.gather(x, counted(indices, x.shape[axis]), axis)


@op("GatherElements", host=True)
def gather_elements(x: Value, indices: Value, *, axis: int = 0) -> Value:
    xp = namespace(x, indices)
    where = tuple(
        slice(None) if i == axis % x.ndim else slice(0, n)
        for i, n in enumerate(indices.shape)
    )
    return xp.take_along_axis(x[where], indices, axis=axis)


@op("GatherND", host=True)
def gather_nd(x: Value, indices: Value, *, batch_dims: int = 0) -> Value:
    xp, depth = namespace(x, indices), indices.shape[-1]
    parts = [counted(indices[..., i], x.shape[batch_dims + i]) for i in range(depth)]
    for i in reversed(range(batch_dims)):
        line = [1] * (indices.ndim - 1)
        line[i] = x.shape[i]
        parts.insert(0, np.arange(x.shape[i]).reshape(line))
    shape = tuple(indices.shape[:-1])
    if xp is np:
        return x[tuple(np.broadcast_to(part, shape) for part in parts)]
    places = [pg.broadcast_to(pg.astype(pg.asarray(p), "int64"), shape) for p in parts]
    if not places:
        return pg.broadcast_to(x, (*shape, *x.shape))
    return pg.gather_nd(x, pg.stack(places, axis=-1))


# --- scatter ---------------------------------------------------------------------


@op("ScatterND", since=11, host=True)
def scatter_nd(
    x: Value, indices: Value, updates: Value, *, reduction: str = "none"
) -> Value:
    depth = indices.shape[-1]
    sizes = x.shape[:depth]
    places = [counted(indices[..., i], n) for i, n in enumerate(sizes)]
    if isinstance(x, np.ndarray):
        return _scattered_on_host(x, tuple(places), updates, reduction)
    if not depth:
        return updates if reduction == "none" else _combined(x, updates, reduction)
    return _scattered(x, pg.stack(places, axis=-1), updates, reduction)


@op("ScatterElements", "Scatter", since=9, host=True)
def scatter_elements(
    x: Value, indices: Value, updates: Value, *, axis: int = 0, reduction: str = "none"
) -> Value:
    axis = axis % x.ndim
    places: list[Any] = list(np.indices(indices.shape, sparse=True))
    places[axis] = counted(indices, x.shape[axis])
    if isinstance(x, np.ndarray):
        return _scattered_on_host(x, tuple(places), updates, reduction)
    shape = tuple(indices.shape)
    rows = [pg.broadcast_to(pg.astype(pg.asarray(p), "int64"), shape) for p in places]
    return _scattered(x, pg.stack(rows, axis=-1), updates, reduction)


_UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _scattered_on_host(x: Value, places: Any, updates: Value, reduction: str) -> Value:
    y = x.copy()
    if reduction == "none":
        y[places] = updates
    else:
        _UFUNCS[reduction].at(y, places, updates)
    return y


def _combined(x: Value, y: Value, reduction: str) -> Value:
    words = {"add": pg.add, "mul": pg.multiply, "max": pg.maximum, "min": pg.minimum}
    return words[reduction](x, y)


def _scattered(x: Value, places: Value, updates: Value, reduction: str) -> Value:
    """Write or combine updates; those of one place are combined one after the other."""
    if reduction == "none":
        return pg.tensor_scatter_update(x, places, updates)
    if reduction == "add":
        return x + pg.astype(pg.scatter_nd(places, updates, x.shape), x.dtype)
    depth = places.shape[-1]
    rows = pg.reshape(places, (-1, depth))
    new = pg.reshape(updates, (rows.shape[0], *x.shape[depth:]))
    for number in _rounds(rows.numpy()):
        now = pg.asarray(number)
        place = pg.gather(rows, now)
        old = pg.gather_nd(x, place)
        merged = _combined(old, pg.gather(new, now), reduction)
        x = pg.tensor_scatter_update(x, place, merged)
    return x


def _rounds(rows: Value) -> list[Value]:
    """Return which updates come at once: each place comes once a round."""
    _, which = np.unique(rows, axis=0, return_inverse=True)
    which = which.reshape(-1)
    order = np.argsort(which, kind="stable")
    sorted_ = which[order]
    firsts = np.r_[0, np.flatnonzero(np.diff(sorted_)) + 1] if len(order) else []
    starts = np.zeros(len(order), np.int64)
    starts[firsts] = 1
    begin = (
        np.asarray(firsts, np.int64)[np.cumsum(starts) - 1] if len(order) else starts
    )
    turn = np.arange(len(order)) - begin
    return [np.sort(order[turn == i]) for i in range(int(turn.max(initial=-1)) + 1)]


@op("TensorScatter")
def tensor_scatter(
    cache: Value,
    update: Value,
    write: Value = None,
    *,
    axis: int = -2,
    mode: str = "linear",
) -> Value:
    axis, n = axis % cache.ndim, cache.shape[axis]
    batch, count = cache.shape[0], update.shape[axis]
    start = pg.zeros((batch,), dtype="int64") if write is None else write
    places = pg.expand_dims(start, 1) + np.arange(count)
    if mode == "circular":
        places = pg.remainder(places, n)
    rows = pg.broadcast_to(np.arange(batch)[:, None], (batch, count))
    where = pg.stack([pg.astype(rows, "int64"), places], axis=-1)
    cache, update = (pg.moveaxis(t, axis, 1) for t in (cache, update))
    return pg.moveaxis(pg.tensor_scatter_update(cache, where, update), 1, axis)


# --- search and sort -------------------------------------------------------------


@op("NonZero", host=lambda x: np.stack(np.nonzero(np.atleast_1d(x))).astype(np.int64))
def non_zero(x: Value) -> Value:
    places = pg.nonzero(x if x.ndim else pg.reshape(x, (1,)))
    return pg.stack([pg.astype(p, "int64") for p in places])


@op("Compress", reads=(1,))
def compress(x: Value, condition: Value, *, axis: int | None = None) -> Value:
    chosen = np.flatnonzero(condition)
    if axis is None:
        x, axis = pg.reshape(x, (-1,)), 0
    return pg.take(x, chosen, axis=axis)


@op("TopK", since=10, reads=(1,))
def top_k(
    x: Value, k: Value, *, axis: int = -1, largest: int = 1, sorted: int = 1
) -> Value:
    count, last = int(k.item()), axis % x.ndim == x.ndim - 1
    x = x if last else pg.moveaxis(x, axis, -1)
    if largest:
        values, places = pg.top_k(x, count)
    else:
        order = pg.argsort(x, axis=-1)
        places = order[..., :count]
        values = pg.take_along_axis(x, places, axis=-1)
    back = (lambda t: t) if last else (lambda t: pg.moveaxis(t, -1, axis))
    return back(values), pg.astype(back(places), "int64")


@op("TopK")
def top_k_attribute(x: Value, *, k: int, axis: int = -1) -> Value:
    return top_k(x, np.array(k), axis=axis)


def _cumulative(word: str) -> Any:
    def run(x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Value:
        function = getattr(pg, word)
        options = {"exclusive": bool(exclusive), "reverse": bool(reverse)}
        return function(x, int(axis.item()), dtype=x.dtype, **options)

    return run


op("CumSum", reads=(1,))(_cumulative("cumulative_sum"))
op("CumProd", reads=(1,))(_cumulative("cumulative_prod"))


@op("ReverseSequence", reads=(1,))
def reverse_sequence(
    x: Value, lengths: Value, *, batch_axis: int = 1, time_axis: int = 0
) -> Value:
    steps, count = np.arange(x.shape[time_axis]), lengths.reshape(-1, 1)
    places = np.where(steps < count, count - 1 - steps, steps)
    if batch_axis > time_axis:
        places = places.T
    places = places.reshape(*places.shape, *[1] * (x.ndim - 2))
    return pg.take_along_axis(x, pg.broadcast_to(places, x.shape), axis=time_axis)


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
        first, inverse, counts = first[order], rank[inverse], counts[order]
    return y, *(a.astype(np.int64) for a in (first, inverse, counts))


@op("ArrayFeatureExtractor", domain="ai.onnx.ml", reads=(1,))
def array_feature_extractor(x: Value, places: Value) -> Value:
    return pg.take(x, np.array(ints(places)), axis=-1)
