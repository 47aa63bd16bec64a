"""Arithmetic, comparisons, logic and bits, for each pair of elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import plugrad as pg
from plugrad import Tensor

from ..core.variables import cast, convert_to_tensor, floating, promoted

Op = Callable[..., Tensor]
NUMBERS = (int, float)


def _promoting(op: Op, *to: Any) -> Op:
    """Return ``op`` for two arguments of the dtype to which Keras promotes them."""

    def call(x1: Any, x2: Any) -> Tensor:
        return op(*promoted(x1, x2, to=to))

    call.__doc__ = f"Return ``plugrad.{op.__name__}`` of promoted arguments."
    return call


def _counting(op: Op) -> Op:
    """Return ``op`` for two promoted arguments, in which bool becomes int32."""

    def call(x1: Any, x2: Any) -> Tensor:
        a, b = promoted(x1, x2)
        if a.dtype == pg.bool:
            a, b = cast(a, "int32"), cast(b, "int32")
        return op(a, b)

    call.__doc__ = f"Return ``plugrad.{op.__name__}``; for bool, as integers."
    return call


def _logical(op: Op) -> Op:
    """Return ``op`` for two arguments as bool."""

    def call(x1: Any, x2: Any) -> Tensor:
        return op(as_bool(x1), as_bool(x2))

    call.__doc__ = f"Return ``plugrad.{op.__name__}`` of arguments as bool."
    return call


def as_bool(x: Any) -> Tensor:
    """Return whether each element is not zero."""
    return cast(x, "bool")


# --- arithmetic ------------------------------------------------------------------

add = _promoting(pg.add)
subtract = _promoting(pg.subtract)
multiply = _promoting(pg.multiply)
divide = _promoting(pg.divide, float)
true_divide = divide
power = _counting(pg.pow)
maximum = _promoting(pg.maximum)
minimum = _promoting(pg.minimum)
floor_divide = _counting(pg.floor_divide)
mod = _counting(pg.remainder)
arctan2 = _promoting(pg.atan2, float)


def clip(x: Any, x_min: Any, x_max: Any) -> Tensor:
    """Return ``x`` limited to an interval; a bound of None is no bound."""
    x = convert_to_tensor(x)
    if x.dtype == pg.bool:
        x = cast(x, "int32")
    low, high = _bound(x_min, x.dtype), _bound(x_max, x.dtype)
    if isinstance(low, NUMBERS) and isinstance(high, NUMBERS):
        low = min(low, high)
    return pg.clip(x, low, high)


def _bound(limit: Any, dtype: Any) -> Any:
    """Return a bound as a tensor, or as a number that the dtype has; None if None."""
    if limit is None:
        return None
    if not isinstance(limit, NUMBERS):
        return convert_to_tensor(limit, dtype=dtype)
    if dtype.kind in "iu":
        ends = pg.iinfo(dtype)
        return int(max(ends.min, min(limit, ends.max)))
    largest = pg.finfo(dtype).max
    is_finite = -largest <= limit <= largest
    return float(limit) if is_finite else convert_to_tensor(limit, dtype=dtype)


# --- comparisons -----------------------------------------------------------------

equal = _promoting(pg.equal)
not_equal = _promoting(pg.not_equal)
greater = _promoting(pg.greater)
greater_equal = _promoting(pg.greater_equal)
less = _promoting(pg.less)
less_equal = _promoting(pg.less_equal)


def isclose(
    x1: Any,
    x2: Any,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> Tensor:
    """Return ``|x1 - x2| <= atol + rtol · |x2|``; infinities equal themselves."""
    a, b = promoted(x1, x2)
    wide = floating(a), floating(b)
    return pg.isclose(*wide, rtol=rtol, atol=atol, equal_nan=equal_nan)


def allclose(
    x1: Any,
    x2: Any,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> Tensor:
    """Return whether ``isclose`` holds for all elements."""
    return pg.all(isclose(x1, x2, rtol, atol, equal_nan))


# --- logic and bits --------------------------------------------------------------

logical_and = _logical(pg.logical_and)
logical_or = _logical(pg.logical_or)
logical_xor = _logical(pg.logical_xor)
bitwise_and = _promoting(pg.bitwise_and)
bitwise_or = _promoting(pg.bitwise_or)
bitwise_xor = _promoting(pg.bitwise_xor)
bitwise_left_shift = _counting(pg.bitwise_left_shift)
bitwise_right_shift = _counting(pg.bitwise_right_shift)
left_shift = bitwise_left_shift
right_shift = bitwise_right_shift


def logical_not(x: Any) -> Tensor:
    """Return whether each element is zero."""
    return pg.logical_not(as_bool(x))


def bitwise_invert(x: Any) -> Tensor:
    """Return ``x`` with all bits inverted."""
    return pg.bitwise_invert(convert_to_tensor(x))


bitwise_not = bitwise_invert


def where(condition: Any, x1: Any = None, x2: Any = None) -> Any:
    """Return ``x1`` where the condition holds, else ``x2``; or the indices."""
    condition = as_bool(condition)
    if (x1 is None) != (x2 is None):
        raise ValueError("`x1` and `x2` either both should be `None` or neither.")
    if x1 is None:
        return tuple([cast(index, "int32") for index in pg.nonzero(condition)])
    a, b = promoted(x1, x2)
    return pg.where(condition, a, b)
