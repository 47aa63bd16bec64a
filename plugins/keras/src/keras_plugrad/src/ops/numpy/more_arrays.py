"""Tensors joined, split, repeated, padded and rearranged, and parts of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import plugrad as pg
from plugrad import Tensor

from keras_plugrad.src.keras_names import config, standardize_dtype

from ..core.variables import convert_to_tensor, promoted

MIRRORS = {
    "circular": "wrap",
    "edge": "edge",
    "reflect": "reflect",
    "symmetric": "symmetric",
    "wrap": "wrap",
}
STATISTICS: dict[str, Callable[..., Tensor]] = {
    "maximum": pg.max,
    "mean": pg.mean,
    "median": pg.median,
    "minimum": pg.min,
}


def concatenate(xs: Any, axis: int = 0) -> Tensor:
    """Return tensors joined along an axis."""
    return pg.concat(promoted(*xs), axis=axis)


def stack(x: Any, axis: int = 0) -> Tensor:
    """Return tensors joined along a new axis."""
    return pg.stack(promoted(*x), axis=axis)


def append(x1: Any, x2: Any, axis: int | None = None) -> Tensor:
    """Return ``x2`` joined to the end of ``x1``; both are flat without an axis."""
    return pg.concat(promoted(x1, x2), axis=axis)


def hstack(xs: Any) -> Tensor:
    """Return tensors joined along axis 1, or vectors along axis 0."""
    parts = [_with_axes(x, 1) for x in promoted(*xs)]
    return pg.concat(parts, axis=0 if parts[0].ndim == 1 else 1)


def vstack(xs: Any) -> Tensor:
    """Return tensors joined along axis 0; a vector counts as one row."""
    return pg.concat([_with_axes(x, 2) for x in promoted(*xs)], axis=0)


def dstack(xs: Any) -> Tensor:
    """Return tensors joined along axis 2, which is added to matrices and vectors."""
    parts = [_with_axes(x, 2) for x in promoted(*xs)]
    deep = [pg.expand_dims(x, axis=2) if x.ndim == 2 else x for x in parts]
    return pg.concat(deep, axis=2)


def column_stack(xs: Any) -> Tensor:
    """Return tensors joined along axis 1; a vector counts as one column."""
    parts = [_with_axes(x, 1) for x in promoted(*xs)]
    columns = [pg.expand_dims(x, axis=1) if x.ndim == 1 else x for x in parts]
    return pg.concat(columns, axis=1)


def _with_axes(x: Tensor, ndim: int) -> Tensor:
    """Return ``x`` with at least ``ndim`` axes; new ones come first."""
    return pg.reshape(x, (1,) * (ndim - x.ndim) + x.shape) if x.ndim < ndim else x


def split(x: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Return equal parts along an axis, or the parts between indices."""
    x = convert_to_tensor(x)
    where = _integers(indices_or_sections)
    if isinstance(where, int):
        return pg.split(x, where, axis=axis)
    n = x.shape[axis]
    ends = [slice(end).indices(n)[1] for end in where]
    begins = [0, *ends]
    sizes = [end - begin for begin, end in zip(begins, [*ends, n], strict=True)]
    if min(sizes) < 0:
        raise ValueError(
            f"indices_or_sections={indices_or_sections}: pass ascending indices"
        )
    return pg.split(x, sizes, axis=axis)


def array_split(x: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Return parts along an axis whose sizes differ by at most one."""
    x = convert_to_tensor(x)
    where = _integers(indices_or_sections)
    if not isinstance(where, int):
        return split(x, where, axis=axis)
    size, rest = divmod(x.shape[axis], where)
    sizes = [size + 1] * rest + [size] * (where - rest)
    return pg.split(x, sizes, axis=axis)


def hsplit(x: Any, indices_or_sections: Any) -> list[Tensor]:
    """Return the parts along axis 1, or along the axis of a vector."""
    x = convert_to_tensor(x)
    return split(x, indices_or_sections, axis=0 if x.ndim == 1 else 1)


def vsplit(x: Any, indices_or_sections: Any) -> list[Tensor]:
    """Return the parts along axis 0."""
    return split(x, indices_or_sections, axis=0)


def dsplit(x: Any, indices_or_sections: Any) -> list[Tensor]:
    """Return the parts along axis 2."""
    return split(x, indices_or_sections, axis=2)


def ravel(x: Any) -> Tensor:
    """Return all elements as a vector."""
    return pg.reshape(convert_to_tensor(x), (-1,))


def moveaxis(x: Any, source: Any, destination: Any) -> Tensor:
    """Return ``x`` with axes moved to new positions."""
    return pg.moveaxis(convert_to_tensor(x), source, destination)


def swapaxes(x: Any, axis1: int, axis2: int) -> Tensor:
    """Return ``x`` with two axes exchanged."""
    x = convert_to_tensor(x)
    axes = list(range(x.ndim))
    axes[axis1], axes[axis2] = axes[axis2], axes[axis1]
    return pg.permute_dims(x, axes)


def fliplr(x: Any) -> Tensor:
    """Return the elements in reverse order along axis 1."""
    return pg.flip(convert_to_tensor(x), axis=1)


def flipud(x: Any) -> Tensor:
    """Return the elements in reverse order along axis 0."""
    return pg.flip(convert_to_tensor(x), axis=0)


def rot90(array: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """Return ``array`` turned ``k`` times from the first of two axes to the second."""
    x = convert_to_tensor(array)
    if x.ndim < 2:
        raise ValueError(
            "Input array must have at least 2 dimensions. "
            f"Received: array.shape={x.shape}"
        )
    if len(axes) != 2 or axes[0] % x.ndim == axes[1] % x.ndim:
        raise ValueError(
            f"Invalid axes: {axes}. Axes must be a tuple of two different dimensions."
        )
    turns = k % 4
    if turns == 2:
        return pg.flip(x, axis=tuple(axes))
    if turns == 1:
        return swapaxes(pg.flip(x, axis=axes[1]), *axes)
    return pg.flip(swapaxes(x, *axes), axis=axes[1]) if turns else x


def roll(x: Any, shift: Any, axis: Any = None) -> Tensor:
    """Return the elements shifted along axes, or in row-major order without axes."""
    x = convert_to_tensor(x)
    if isinstance(shift, Tensor):
        return _rolled(x, shift, axis)
    if axis is None:
        return pg.roll(x, _integers(shift))
    shifts, axes = _paired(_listed(shift), _listed(axis))
    return pg.roll(x, shifts, axis=axes)


def _listed(x: Any) -> list[int]:
    """Return one integer, or several, as a list."""
    values = _integers(x)
    return [values] if isinstance(values, int) else values


def _paired(first: list[Any], second: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return lists of equal length; a single element is repeated."""
    size = max(len(first), len(second))
    return (
        first * size if len(first) == 1 else first,
        second * size if len(second) == 1 else second,
    )


def _rolled(x: Tensor, shift: Tensor, axis: Any) -> Tensor:
    """Return the elements shifted by a tensor, whose value is not read."""
    if axis is None:
        return pg.reshape(_rolled(ravel(x), pg.sum(shift), 0), x.shape)
    given = list(pg.unstack(pg.reshape(shift, (-1,))))
    shifts, axes = _paired(given, _listed(axis))
    for one, along in zip(shifts, axes, strict=True):
        n = x.shape[along]
        places = pg.remainder(pg.arange(n, dtype="int32") - one, max(n, 1))
        x = pg.take(x, places, axis=along)
    return x


def tile(x: Any, repeats: Any) -> Tensor:
    """Return copies of ``x``, end to end along each axis."""
    return pg.tile(convert_to_tensor(x), _integers(repeats))


def repeat(x: Any, repeats: Any, axis: int | None = None) -> Tensor:
    """Return each element several times in a row along an axis."""
    return pg.repeat(convert_to_tensor(x), _integers(repeats), axis=axis)


def _integers(x: Any) -> int | list[int]:
    """Return one Python integer, or a list, from integers, arrays or tensors."""
    if isinstance(x, list | tuple):
        return [int(one) for one in x]
    values: int | list[int] = np.asarray(x).astype(int).tolist()
    return values


def pad(
    x: Any, pad_width: Any, mode: str = "constant", constant_values: Any = None
) -> Tensor:
    """Return ``x`` with elements added before and after it along each axis."""
    x = convert_to_tensor(x)
    if mode != "constant" and constant_values is not None:
        raise ValueError(
            "Argument `constant_values` can only be provided when "
            f"`mode == 'constant'`. Received: mode={mode}"
        )
    margins = _margins(pad_width, x.ndim)
    if mode in ("constant", "empty"):
        return _filled(x, margins, constant_values)
    if mode in MIRRORS:
        return _mirrored(x, margins, MIRRORS[mode])
    if mode == "linear_ramp":
        return _surrounded(x, margins, _ramps)
    if mode in STATISTICS:
        statistic = STATISTICS[mode]
        return _surrounded(x, margins, lambda *given: _constants(statistic, *given))
    known = ["constant", "empty", "linear_ramp", *MIRRORS, *STATISTICS]
    raise ValueError(f"mode={mode!r}: choose one of {', '.join(known)}")


def _margins(pad_width: Any, ndim: int) -> list[tuple[int, int]]:
    """Return how many elements to add before and after, for each axis."""
    if isinstance(pad_width, list | tuple):
        pad_width = [_integers(one) for one in pad_width]
    pairs = np.broadcast_to(np.asarray(pad_width), (ndim, 2))
    return [(int(before), int(after)) for before, after in pairs]


def _filled(x: Tensor, margins: list[tuple[int, int]], value: Any) -> Tensor:
    """Return ``x`` surrounded by one value."""
    if not isinstance(value, Tensor):
        fill = 0 if value is None else np.asarray(value).item()
        if not pg.isdtype(x.dtype, ("real floating", "complex floating")):
            fill = int(fill)
        return pg.pad(x, margins, constant_values=fill)
    inside = pg.pad(pg.ones(x.shape, dtype="bool"), margins)
    return pg.where(inside, pg.pad(x, margins), pg.astype(value, x.dtype))


def _mirrored(x: Tensor, margins: list[tuple[int, int]], mode: Any) -> Tensor:
    """Return ``x`` surrounded by its own elements."""
    if all(max(pair) < n for pair, n in zip(margins, x.shape, strict=True)):
        return pg.pad(x, margins, mode=mode)
    for axis, pair in enumerate(margins):
        if max(pair) > 0:
            places = np.pad(np.arange(x.shape[axis]), pair, mode)
            x = pg.take(x, places.astype("int32"), axis=axis)
    return x


def _surrounded(
    x: Tensor,
    margins: list[tuple[int, int]],
    values: Callable[[Tensor, int, int, bool], Tensor],
) -> Tensor:
    """Return ``x`` surrounded by what ``values(x, axis, size, is_before)`` returns."""
    for axis, (before, after) in enumerate(margins):
        first = values(x, axis, before, True)
        last = values(x, axis, after, False)
        x = pg.concat([pg.astype(first, x.dtype), x, pg.astype(last, x.dtype)], axis)
    return x


def _constants(
    statistic: Callable[..., Tensor], x: Tensor, axis: int, size: int, is_before: bool
) -> Tensor:
    """Return a statistic along an axis, ``size`` times."""
    value = statistic(x, axis=axis, keepdims=True)
    if pg.isdtype(x.dtype, "integral"):
        value = pg.round(value)
    return pg.repeat(value, size, axis=axis)


def _ramps(x: Tensor, axis: int, size: int, is_before: bool) -> Tensor:
    """Return numbers from 0 to the edge of ``x``, or from the edge to 0."""
    n = x.shape[axis]
    edge = pg.take(x, np.array([0 if is_before else n - 1], "int32"), axis=axis)
    steps = np.arange(size) / max(size, 1)
    shape = [size if one == axis else 1 for one in range(x.ndim)]
    ramp = convert_to_tensor(steps if is_before else steps[::-1], dtype="float32")
    return edge * pg.reshape(ramp, shape)


def take(x: Any, indices: Any, axis: int | None = None) -> Tensor:
    """Return the elements at indices along an axis, or of the flat ``x``."""
    x = convert_to_tensor(x)
    if axis is None:
        return pg.take(pg.reshape(x, (-1,)), _indices(indices), axis=0)
    return pg.take(x, _indices(indices), axis=axis)


def take_along_axis(x: Any, indices: Any, axis: int | None = None) -> Tensor:
    """Return the elements at indices along an axis, row by row."""
    x = convert_to_tensor(x)
    at = _indices(indices)
    if axis is None:
        return pg.take(pg.reshape(x, (-1,)), pg.reshape(at, (-1,)), axis=0)
    return pg.take_along_axis(x, at, axis=axis)


def _indices(x: Any) -> Tensor:
    """Return indices as a tensor of integers."""
    x = convert_to_tensor(x)
    return x if pg.isdtype(x.dtype, "integral") else pg.astype(x, "int32")


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Tensor:
    """Return the elements of the first choice whose condition is true."""
    if len(condlist) != len(choicelist):
        raise ValueError(
            f"condlist has {len(condlist)} and choicelist {len(choicelist)} elements: "
            "pass one choice for each condition"
        )
    *choices, result = promoted(*choicelist, default)
    pairs = list(zip(condlist, choices, strict=True))
    for condition, choice in reversed(pairs):
        is_chosen = convert_to_tensor(condition, dtype="bool")
        result = pg.where(is_chosen, choice, result)
    return result


def unravel_index(indices: Any, shape: Any) -> tuple[Tensor, ...]:
    """Return indices into a flat tensor as indices along each axis of ``shape``."""
    flat = convert_to_tensor(indices)
    is_wide = flat.dtype.name in ("int64", "uint32", "uint64")
    rest = pg.astype(flat, "int64" if is_wide else "int32")
    found = []
    for size in reversed([int(n) for n in shape]):
        found.append(pg.astype(pg.remainder(rest, size), flat.dtype))
        rest = pg.floor_divide(rest, size)
    return tuple(reversed(found))


def argpartition(x: Any, kth: int, axis: int | None = -1) -> Tensor:
    """Return indices that put the element of rank ``kth`` in its sorted position."""
    x = convert_to_tensor(x)
    if axis is None:
        x = pg.reshape(x, (-1,))
        axis = -1
    size = x.shape[axis]
    if not -size <= kth < size:
        raise ValueError(
            f"kth={kth}: pass a number from {-size} to {size - 1} for an axis of "
            f"size {size}"
        )
    return pg.argsort(x, axis=axis)


def diag(x: Any, k: int = 0) -> Tensor:
    """Return a diagonal of a matrix, or a matrix with a vector on a diagonal."""
    x = convert_to_tensor(x)
    if x.ndim == 2:
        return pg.linalg.diagonal(x, offset=k)
    if x.ndim != 1:
        raise ValueError(f"x.shape={x.shape}: pass a vector or a matrix")
    above, below = max(k, 0), max(-k, 0)
    return pg.pad(pg.diag(x), [(below, above), (above, below)])


def diagflat(x: Any, k: int = 0) -> Tensor:
    """Return a matrix with all elements of ``x`` on a diagonal."""
    return diag(pg.reshape(convert_to_tensor(x), (-1,)), k=k)


def diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Return the diagonals of the matrices along two axes."""
    x = _with_matrices_last(convert_to_tensor(x), axis1, axis2)
    return pg.linalg.diagonal(x, offset=offset)


def trace(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Return the sums of the diagonals of the matrices along two axes."""
    x = _with_matrices_last(convert_to_tensor(x), axis1, axis2)
    return pg.linalg.trace(x, offset=offset)


def _with_matrices_last(x: Tensor, axis1: int, axis2: int) -> Tensor:
    """Return ``x`` with two axes moved to the end."""
    if x.ndim < 2 or axis1 % x.ndim == axis2 % x.ndim:
        raise ValueError(
            f"axis1={axis1}, axis2={axis2}: pass two different axes of a tensor with "
            f"at least two; its shape is {x.shape}"
        )
    return pg.moveaxis(x, (axis1, axis2), (-2, -1))


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Tensor:
    """Return ones on and below a diagonal, and zeros above it."""
    name = standardize_dtype(dtype or config.floatx())
    return pg.tril(pg.ones((N, N if M is None else M), dtype=name), k=k)


def tril(x: Any, k: int = 0) -> Tensor:
    """Return the lower triangle of each matrix, with zeros above a diagonal."""
    return pg.tril(convert_to_tensor(x), k=k)


def triu(x: Any, k: int = 0) -> Tensor:
    """Return the upper triangle of each matrix, with zeros below a diagonal."""
    return pg.triu(convert_to_tensor(x), k=k)


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Tensor:
    """Return the powers of each element, one row for each, from the highest."""
    x = convert_to_tensor(x)
    n = x.shape[0] if N is None else N
    if n == 0:
        return pg.zeros((x.shape[0], 0), dtype=x.dtype)
    factors = pg.broadcast_to(pg.expand_dims(x, axis=1), (x.shape[0], n - 1))
    powers = pg.cumulative_prod(factors, axis=1, include_initial=True)
    powers = pg.astype(powers, x.dtype)
    return powers if increasing else pg.flip(powers, axis=1)


def meshgrid(*x: Any, indexing: Any = "xy") -> list[Tensor]:
    """Return the coordinates of a grid, one tensor for each vector."""
    vectors = [pg.reshape(convert_to_tensor(one), (-1,)) for one in x]
    return list(pg.meshgrid(*vectors, indexing=indexing))
