"""Reductions and scans along axes, sorting, and the places of elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import plugrad as pg
from plugrad import Tensor

from ..core.variables import cast, convert_to_tensor, floating
from .arithmetic import as_bool

Axis = Any
WIDER = {
    "bool": "int32",
    "int8": "int32",
    "int16": "int32",
    "uint8": "uint32",
    "uint16": "uint32",
}
HALVES = ("float16", "bfloat16")


def _axes(axis: Axis) -> Any:
    return tuple(axis) if isinstance(axis, list) else axis


# --- sums ------------------------------------------------------------------------


def sum(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the sum; small integers are added up as int32 or uint32."""
    x = convert_to_tensor(x)
    x = cast(x, WIDER.get(x.dtype.name, x.dtype))
    return cast(pg.sum(x, axis=_axes(axis), keepdims=keepdims), x.dtype)


def prod(
    x: Any, axis: Axis = None, keepdims: bool = False, dtype: Any = None
) -> Tensor:
    """Return the product; small integers are multiplied as int32 or uint32."""
    x = convert_to_tensor(x)
    x = cast(x, WIDER.get(x.dtype.name, x.dtype) if dtype is None else dtype)
    return cast(pg.prod(x, axis=_axes(axis), keepdims=keepdims), x.dtype)


def _moment(op: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a moment; that of 16-bit numbers is computed in float32."""

    def call(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
        x = floating(x)
        wide = cast(x, "float32") if x.dtype.name in HALVES else x
        y = op(wide, axis=_axes(axis), keepdims=keepdims)
        return cast(y, x.dtype) if x.dtype.name in HALVES else y

    call.__doc__ = f"Return ``plugrad.{op.__name__}``; integers become floating."
    return call


mean = _moment(pg.mean)
_variance = _moment(pg.var)
_deviation = _moment(pg.std)


def var(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the mean squared distance from the mean."""
    x = convert_to_tensor(x)
    if x.dtype.kind == "c":
        return cast(_complex_variance(x, axis, keepdims), x.dtype)
    return _variance(x, axis, keepdims)


def std(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the standard deviation; that of complex numbers is real."""
    x = convert_to_tensor(x)
    if x.dtype.kind == "c":
        return pg.sqrt(_complex_variance(x, axis, keepdims))
    return _deviation(x, axis, keepdims)


def _complex_variance(x: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    away = x - pg.mean(x, axis=_axes(axis), keepdims=True)
    squares = pg.square(pg.real(away)) + pg.square(pg.imag(away))
    return pg.mean(squares, axis=_axes(axis), keepdims=keepdims)


def cumsum(x: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    """Return the cumulative sums along an axis, or of all elements."""
    return _scan(pg.cumulative_sum, x, axis, dtype)


def cumprod(x: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    """Return the cumulative products along an axis, or of all elements."""
    return _scan(pg.cumulative_prod, x, axis, dtype)


def _scan(op: Callable[..., Tensor], x: Any, axis: int | None, dtype: Any) -> Tensor:
    x = convert_to_tensor(x)
    if dtype is None:
        dtype = "int32" if x.dtype == pg.bool else x.dtype
    x = cast(x, dtype)
    if axis is None:
        x, axis = pg.reshape(x, (-1,)), 0
    return cast(op(x, axis=axis), dtype)


# --- extremes --------------------------------------------------------------------


def max(
    x: Any, axis: Axis = None, keepdims: bool = False, initial: Any = None
) -> Tensor:
    """Return the largest element, at least ``initial``."""
    return _extreme(pg.max, pg.maximum, x, axis, keepdims, initial)


def min(
    x: Any, axis: Axis = None, keepdims: bool = False, initial: Any = None
) -> Tensor:
    """Return the smallest element, at most ``initial``."""
    return _extreme(pg.min, pg.minimum, x, axis, keepdims, initial)


def _extreme(
    op: Callable[..., Tensor],
    of_two: Callable[..., Tensor],
    x: Any,
    axis: Axis,
    keepdims: bool,
    initial: Any,
) -> Tensor:
    x = convert_to_tensor(x)
    if initial is None:
        return op(x, axis=_axes(axis), keepdims=keepdims)
    limit = convert_to_tensor(initial, dtype=x.dtype)
    if not x.size:
        return pg.zeros_like(pg.sum(x, axis=_axes(axis), keepdims=keepdims)) + limit
    return of_two(op(x, axis=_axes(axis), keepdims=keepdims), limit)


def argmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the first largest element; NaN is ignored."""
    return _index(pg.argmax, x, axis, keepdims)


def argmin(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the first smallest element; NaN is ignored."""
    return _index(pg.argmin, x, axis, keepdims)


def _index(
    op: Callable[..., Tensor], x: Any, axis: int | None, keepdims: bool
) -> Tensor:
    x = convert_to_tensor(x)
    if x.dtype == pg.bool:
        x = cast(x, "int32")
    if not x.shape:
        return pg.zeros((), dtype="int32")
    return cast(op(x, axis=axis, keepdims=keepdims), "int32")


# --- tests of all elements -------------------------------------------------------


def all(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return whether no element is zero."""
    return pg.all(as_bool(x), axis=_axes(axis), keepdims=keepdims)


def any(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return whether some element is not zero."""
    return pg.any(as_bool(x), axis=_axes(axis), keepdims=keepdims)


def count_nonzero(x: Any, axis: Axis = None) -> Tensor:
    """Return the number of elements that are not zero."""
    return pg.count_nonzero(convert_to_tensor(x), axis=_axes(axis))


# --- sorting and places ----------------------------------------------------------


def sort(x: Any, axis: int | None = -1) -> Tensor:
    """Return the elements along an axis in ascending order."""
    x = convert_to_tensor(x)
    if axis is None:
        x, axis = pg.reshape(x, (-1,)), -1
    if x.dtype == pg.bool:
        return cast(pg.sort(cast(x, "int32"), axis=axis), "bool")
    return pg.sort(x, axis=axis)


def argsort(x: Any, axis: int | None = -1) -> Tensor:
    """Return the indices that sort the elements along an axis."""
    x = convert_to_tensor(x)
    if x.dtype == pg.bool:
        x = cast(x, "int32")
    if axis is None or not x.shape:
        x, axis = pg.reshape(x, (-1,)), -1
    return cast(pg.argsort(x, axis=axis), "int32")


def nonzero(x: Any) -> tuple[Tensor, ...]:
    """Return the indices of the elements that are not zero, along each axis."""
    return tuple([cast(index, "int32") for index in pg.nonzero(as_bool(x))])


def diff(a: Any, n: int = 1, axis: int = -1) -> Tensor:
    """Return the differences of neighbors along an axis, ``n`` times."""
    x = convert_to_tensor(a)
    if x.dtype != pg.bool:
        return pg.diff(x, n=n, axis=axis)
    for _ in range(n):
        x = cast(pg.diff(cast(x, "int32"), axis=axis), "bool")
    return x
