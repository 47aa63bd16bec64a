"""Values between the elements of an array."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

import plugrad as pg
from plugrad import Tensor

from ..core.variables import convert_to_tensor
from .layouts import rounded, wide

FILL_MODES = ("constant", "nearest", "wrap", "mirror", "reflect")
MAX_COORDINATE = 2.0**30  # floats are clipped to this before they become int32


def map_coordinates(
    inputs: Any,
    coordinates: Any,
    order: int,
    fill_mode: str = "constant",
    fill_value: float = 0.0,
) -> Tensor:
    """Return the values of an array at coordinates, one for each of its axes."""
    x = convert_to_tensor(inputs)
    if isinstance(coordinates, list | tuple):
        coordinates = pg.stack([convert_to_tensor(one) for one in coordinates])
    at = convert_to_tensor(coordinates)
    if len(at.shape) < 2:
        raise ValueError(
            "Invalid coordinates rank: expected at least rank 2. Received input with "
            f"shape: {at.shape}"
        )
    if at.shape[0] != len(x.shape):
        raise ValueError(
            "First dim of `coordinates` must be the same as the rank of `inputs`. "
            f"Received inputs with shape: {x.shape} and coordinate leading dim of "
            f"{at.shape[0]}"
        )
    if order not in (0, 1):
        raise ValueError(f"`order` must be 0 or 1. Received: order={order}")
    places = pg.unstack(wide(at), axis=0)
    flat = pg.reshape(wide(x), (-1,))
    y = interpolated(flat, 0, x.shape, places, order, fill_mode, fill_value)
    return rounded(y, x.dtype.name)


def interpolated(
    flat: Tensor,
    base: Tensor | int,
    sizes: Sequence[int],
    places: Sequence[Tensor],
    order: int,
    fill_mode: str,
    fill_value: Any,
) -> Tensor:
    """Return the values at these places of arrays, whose rows follow one another.

    Args:
        flat: The rows, ``[rows, ...]``.
        base: The number of the first row of the array, for each place.
        sizes: The size of the array along each axis.
        places: The coordinates along each axis.
        order: 0 for the nearest row, 1 for linear interpolation.
        fill_mode: What is outside the array.
        fill_value: The value outside with "constant".

    Returns:
        A tensor of the shape of ``base`` and ``places``, and then that of a row.

    """
    if fill_mode not in FILL_MODES:
        raise ValueError(
            f"`fill_mode` must be one of {FILL_MODES}. Received: fill_mode={fill_mode}"
        )
    steps = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    along = [_neighbors(place, order) for place in places]
    total: Any = 0
    for corner in itertools.product(*along):
        inside = [
            _inside(index, size, fill_mode)
            for (index, _), size in zip(corner, sizes, strict=True)
        ]
        offsets = [i * step for i, step in zip(inside, steps, strict=True)]
        value = pg.take(flat, sum(offsets, start=base), axis=0)
        if fill_mode == "constant":
            exact = [index == i for (index, _), i in zip(corner, inside, strict=True)]
            is_inside = functools.reduce(operator.and_, exact)
            value = pg.where(_like_rows(is_inside, value), value, fill_value)
        if order == 1:
            weight = functools.reduce(operator.mul, [share for _, share in corner])
            value = value * _like_rows(weight, value)
        total = total + value
    return total


def _neighbors(place: Tensor, order: int) -> list[tuple[Tensor, Any]]:
    """Return the indices next to coordinates, with their weights."""
    if order == 0:
        return [(_integers(place + 0.5), 1.0)]
    lower = pg.floor(place)
    share = place - lower
    index = _integers(lower)
    return [(index, 1 - share), (index + 1, share)]


def _integers(x: Tensor) -> Tensor:
    """Return floats rounded down; those that are not finite become any integers."""
    return pg.astype(
        pg.floor(pg.clip(pg.stop_gradient(x), -MAX_COORDINATE, MAX_COORDINATE)), "int32"
    )


def _inside(index: Tensor, size: int, fill_mode: str) -> Tensor:
    """Return the index inside the array whose element stands at any index."""
    if fill_mode in ("constant", "nearest"):
        return pg.clip(index, 0, size - 1)
    if fill_mode == "wrap" or size == 1:
        return pg.remainder(index, size)
    if fill_mode == "reflect":
        again = pg.remainder(index, 2 * size)
        return pg.minimum(again, 2 * size - 1 - again)
    again = pg.remainder(index, 2 * size - 2)
    return pg.minimum(again, 2 * size - 2 - again)


def _like_rows(x: Tensor, rows: Tensor) -> Tensor:
    """Return one number for each row, with axes of size 1 for those of the rows."""
    return pg.reshape(x, (*x.shape, *[1] * (len(rows.shape) - len(x.shape))))
