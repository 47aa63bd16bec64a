"""Reductions, softmax, argmax and argmin."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import plugrad as pg
from plugrad.importing import namespace

from ..dtypes import is_floating
from ..registry import Value, op
from .shape import ints

Ints = tuple[int, ...]


def _extreme(word: str, sign: float) -> Any:
    """Return a max or min reduction.

    Over no elements, a max is the lowest number of the dtype, and a min the highest.
    """

    def extreme(xp: Any, x: Value, axes: Ints | None, keep: bool) -> Value:
        options: dict[str, Any] = {"axis": axes, "keepdims": keep}
        if x.dtype.kind == "b":
            return getattr(xp, "any" if sign < 0 else "all")(x, **options)
        if not x.size:
            limits = np.iinfo(x.dtype) if x.dtype.kind in "iu" else None
            limits_of_dtype = (
                (limits.min, limits.max) if limits else (-math.inf, math.inf)
            )
            options["initial"] = limits_of_dtype[sign > 0]
        return getattr(xp, word)(x, **options)

    return extreme


def _sum(xp: Any, x: Value, axes: Ints | None, keep: bool) -> Value:
    return xp.sum(x, axis=axes, keepdims=keep, dtype=x.dtype)


def _prod(xp: Any, x: Value, axes: Ints | None, keep: bool) -> Value:
    return xp.prod(x, axis=axes, keepdims=keep, dtype=x.dtype)


def _mean(xp: Any, x: Value, axes: Ints | None, keep: bool) -> Value:
    if is_floating(x.dtype):
        return xp.mean(x, axis=axes, keepdims=keep)
    total = xp.sum(x, axis=axes, keepdims=keep, dtype=x.dtype)
    return xp.astype(total // max(x.size // max(total.size, 1), 1), x.dtype)


def _log_sum_exp(xp: Any, x: Value, axes: Ints | None, keep: bool) -> Value:
    if x.dtype.kind != "f":
        return xp.astype(_log_sum_exp(xp, pg.astype(x, "float32"), axes, keep), x.dtype)
    return pg.logsumexp(x, axis=axes, keepdims=keep)


def _root(xp: Any, x: Value) -> Value:
    return xp.astype(xp.sqrt(x), x.dtype) if x.dtype.kind != "f" else xp.sqrt(x)


def _log(xp: Any, x: Value) -> Value:
    return xp.astype(xp.log(x), x.dtype) if x.dtype.kind != "f" else xp.log(x)


REDUCTIONS: dict[str, Any] = {
    "ReduceSum": _sum,
    "ReduceMean": _mean,
    "ReduceProd": _prod,
    "ReduceMax": _extreme("max", -1),
    "ReduceMin": _extreme("min", 1),
    "ReduceL1": lambda xp, x, a, k: _sum(xp, xp.abs(x), a, k),
    "ReduceL2": lambda xp, x, a, k: _root(xp, _sum(xp, x * x, a, k)),
    "ReduceSumSquare": lambda xp, x, a, k: _sum(xp, x * x, a, k),
    "ReduceLogSum": lambda xp, x, a, k: _log(xp, _sum(xp, x, a, k)),
    "ReduceLogSumExp": _log_sum_exp,
}
HOST_REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin")


def _register(name: str, reduce: Any) -> None:
    def by_attribute(x: Value, *, axes: Ints | None = None, keepdims: int = 1) -> Value:
        return reduce(namespace(x), x, axes, bool(keepdims))

    def by_input(
        x: Value,
        axes: Value = None,
        *,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> Value:
        axis = None if axes is None or not axes.size else ints(axes)
        if axis is None and noop_with_empty_axes:
            axis = ()
        return reduce(namespace(x), x, axis, bool(keepdims))

    since = 13 if name == "ReduceSum" else 18
    host = name in HOST_REDUCTIONS
    op(name, host=host)(by_attribute)
    op(name, since=since, reads=(1,), host=host)(by_input)


for _name, _reduce in REDUCTIONS.items():
    _register(_name, _reduce)


def _position(word: str) -> Any:
    def run(
        x: Value, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
    ) -> Value:
        if select_last_index:
            places = getattr(pg, word)(pg.flip(x, axis), axis=axis, keepdims=True)
            places = x.shape[axis] - 1 - places
            places = places if keepdims else pg.squeeze(places, axis)
        else:
            places = getattr(pg, word)(x, axis=axis, keepdims=bool(keepdims))
        return pg.astype(places, "int64")

    return run


op("ArgMax")(_position("argmax"))
op("ArgMin")(_position("argmin"))


# --- softmax ---------------------------------------------------------------------


def _hardmax(x: Value, axis: int) -> Value:
    n = x.shape[axis]
    return pg.one_hot(pg.argmax(x, axis=axis), n, axis=axis, dtype=x.dtype)


def _register_softmax(name: str, function: Any) -> None:
    def flattened(x: Value, *, axis: int = 1) -> Value:
        axis = axis % x.ndim
        rows = (math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))
        if not x.size:
            return x
        return pg.reshape(function(pg.reshape(x, rows), -1), x.shape)

    def along(x: Value, *, axis: int = -1) -> Value:
        return function(x, axis % x.ndim)

    op(name)(flattened)
    op(name, since=13)(along)


_register_softmax("Softmax", lambda x, axis: pg.softmax(x, axis))
_register_softmax("LogSoftmax", lambda x, axis: pg.log_softmax(x, axis))
_register_softmax("Hardmax", _hardmax)
