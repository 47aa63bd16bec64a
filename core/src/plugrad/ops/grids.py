"""Matrices with diagonals, and grids: composed of other ops. No kernels."""

from __future__ import annotations

from typing import Any, Literal

from plugrad.tensor.arguments import choice, integer, sizes
from plugrad.tensor.dtypes import FLOAT32
from plugrad.tensor.tensor import Tensor, TensorLike

from . import _convert, compare
from . import shape as shapes
from .creation import arange, cast

__all__ = ["eye", "meshgrid", "tril", "triu"]


def eye(n: int, m: int | None = None, /, *, k: int = 0, dtype: Any = None) -> Tensor:
    """Return ``n`` rows and ``m`` (default ``n``) columns with ones on a diagonal.

    ``k`` is the diagonal: 0 the main one, above it if positive, below if negative. The
    dtype is float32 unless given; a negative size is a ValueError.
    """
    rows, columns = sizes("eye", (n, n if m is None else m))
    hit = _diagonal("eye", rows, columns, k) == arange(columns)
    return cast(hit, FLOAT32 if dtype is None else dtype)


def _diagonal(op: str, rows: int, columns: int, k: int) -> Tensor:
    """Return, as a column, in which place of each row diagonal ``k`` lies."""
    k = max(-rows, min(integer(op, "k", k), columns))
    return shapes.reshape(arange(k, rows + k), (rows, 1))


def tril(x: TensorLike, /, *, k: int = 0) -> Tensor:
    """Return ``x`` with zeros above diagonal ``k`` of its last two axes.

    ``k`` is that of ``eye``. Fewer than two axes are a ValueError.
    """
    x = _convert.numbers("tril", x)
    return compare.where(_above("tril", x, k), False, x)


def triu(x: TensorLike, /, *, k: int = 0) -> Tensor:
    """Return ``x`` with zeros below diagonal ``k`` of its last two axes.

    ``k`` is that of ``eye``. Fewer than two axes are a ValueError.
    """
    x = _convert.numbers("triu", x)
    return compare.where(_above("triu", x, integer("triu", "k", k) - 1), x, False)


def _above(op: str, x: Tensor, k: int) -> Tensor:
    """Return where the last two axes are above diagonal ``k``."""
    if len(x.shape) < 2:
        raise ValueError(f"{op}: x must have two axes or more, got shape {x.shape}")
    rows, columns = x.shape[-2:]
    return arange(columns) > _diagonal(op, rows, columns, k)


def meshgrid(*xs: TensorLike, indexing: Literal["xy", "ij"] = "xy") -> list[Tensor]:
    """Return each of the vectors ``xs``, repeated over the grid that they span.

    ``indexing="ij"`` gives shape (n_0, n_1, …), axis i belonging to ``xs[i]``; "xy"
    swaps the first two axes, so that those of a picture are rows and columns. Each has
    the dtype of its vector; a scalar is a vector of one element, and more than one axis
    is a ValueError.
    """
    choice("meshgrid", "indexing", indexing, "xy", "ij")
    vectors = [_convert.asarray(x) for x in xs]
    for x in vectors:
        if len(x.shape) > 1:
            raise ValueError(f"meshgrid: expected vectors, got shape {x.shape}")
    axes = list(range(len(vectors)))  # of each vector, and the vector of each axis
    if indexing == "xy":
        axes[:2] = reversed(axes[:2])
    grid = tuple(vectors[axis].size for axis in axes)
    columns = [
        shapes.reshape(x, (-1, *[1] * (len(axes) - axis - 1)))
        for axis, x in zip(axes, vectors, strict=True)
    ]
    return [shapes.broadcast_to(x, grid) for x in columns]
