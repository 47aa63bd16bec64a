"""Parts of tensors: slices, scattered elements, and the parts along an axis."""

from __future__ import annotations

import builtins
from typing import Any

import plugrad as pg
from plugrad import Tensor

from .variables import convert_to_tensor

REDUCTIONS = {
    None: "replace",
    "add": "add",
    "max": "max",
    "min": "min",
    "mul": "multiply",
}


def scatter(indices: Any, values: Any, shape: Any) -> Tensor:
    """Return zeros with values added at indices."""
    indices = convert_to_tensor(indices, dtype="int32")
    return pg.scatter_nd(indices, convert_to_tensor(values), _integers(shape))


def scatter_update(
    inputs: Any, indices: Any, updates: Any, reduction: str | None = None
) -> Tensor:
    """Return ``inputs`` with the elements at the indices replaced or combined."""
    x = convert_to_tensor(inputs)
    at = convert_to_tensor(indices, dtype="int32")
    new = convert_to_tensor(updates, dtype=x.dtype)
    how: Any = REDUCTIONS[reduction]
    return pg.tensor_scatter_update(x, at, new, reduction=how)


def slice(inputs: Any, start_indices: Any, shape: Any) -> Tensor:
    """Return the part of ``shape`` that begins at ``start_indices``."""
    x = convert_to_tensor(inputs)
    sizes = _integers(shape)
    begins = _begins(start_indices)
    if isinstance(begins, list):
        begins, sizes = _clamped(begins, sizes, x.shape)
        return pg.slice(x, begins, sizes)
    for axis, places in enumerate(_places(begins, sizes, x.shape)):
        if sizes[axis] < x.shape[axis]:
            x = pg.take(x, places, axis=axis)
    return x


def slice_update(inputs: Any, start_indices: Any, updates: Any) -> Tensor:
    """Return ``inputs`` with the part that begins at ``start_indices`` replaced."""
    x = convert_to_tensor(inputs)
    new = convert_to_tensor(updates, dtype=x.dtype)
    begins = _begins(start_indices)
    if isinstance(begins, Tensor):
        return _scattered(x, _places(begins, list(new.shape), x.shape), new)
    begins, _ = _clamped(begins, list(new.shape), x.shape)
    pieces: Any = tuple(
        [
            builtins.slice(begin, begin + size)
            for begin, size in zip(begins, new.shape, strict=True)
        ]
    )
    y = pg.asarray(x, copy=True)
    y[pieces] = new
    return y


def _begins(x: Any) -> list[int] | Tensor:
    """Return indices as Python integers, or as one tensor if they contain tensors."""
    if isinstance(x, Tensor) or (
        isinstance(x, list | tuple) and any(isinstance(v, Tensor) for v in x)
    ):
        return pg.reshape(convert_to_tensor(x, dtype="int32"), (-1,))
    return _integers(x)


def _places(begins: Tensor, sizes: list[int], shape: tuple[int, ...]) -> list[Tensor]:
    """Return the indices of a part along each axis."""
    found = []
    for axis, (size, n) in enumerate(zip(sizes, shape, strict=True)):
        begin = pg.clip(begins[axis], 0, n - size)
        found.append(begin + pg.arange(size, dtype="int32"))
    return found


def _scattered(x: Tensor, places: list[Tensor], new: Tensor) -> Tensor:
    """Return ``x`` with the elements at these indices along each axis replaced."""
    flat = pg.zeros((), dtype="int32")
    for n, along in zip(x.shape, places, strict=True):
        flat = pg.expand_dims(flat * n, axis=-1) + along
    at = pg.reshape(flat, (-1, 1))
    y = pg.tensor_scatter_update(pg.reshape(x, (-1,)), at, pg.reshape(new, (-1,)))
    return pg.reshape(y, x.shape)


def _integers(x: Any) -> list[int]:
    """Return indices or sizes as Python integers."""
    if isinstance(x, int):
        return [x]
    if isinstance(x, Tensor):
        return [int(v) for v in x.numpy().ravel()]
    return [int(v) for v in x]


def _clamped(
    begins: list[int], sizes: list[int], shape: tuple[int, ...]
) -> tuple[list[int], list[int]]:
    """Return begins that keep the part inside, as XLA does, and sizes without -1."""
    sizes = [
        n - b if size == -1 else size
        for b, size, n in zip(begins, sizes, shape, strict=True)
    ]
    inside = [
        max(0, min(b, n - size))
        for b, size, n in zip(begins, sizes, shape, strict=True)
    ]
    return inside, sizes


def unstack(x: Any, num: int | None = None, axis: int = 0) -> list[Tensor]:
    """Return the parts along an axis, without that axis."""
    return list(pg.unstack(convert_to_tensor(x), axis=axis))
