"""Identity and triangular matrices, and grids, composed of other ops. No kernels."""

from __future__ import annotations

from typing import Any, Literal, Unpack

import numpy as np

from plugrad._src.ops.basis import _convert, compare, creation
from plugrad._src.ops.basis import shape as shapes
from plugrad._src.tensor.arguments import choice, integer, sizes
from plugrad._src.tensor.dtypes import FLOAT32, INT32
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike

from .ranges import arange

__all__ = ["eye", "meshgrid", "tril", "tril_indices", "triu", "triu_indices"]


def eye(
    n: int,
    /,
    m: int | None = None,
    *,
    k: int = 0,
    dtype: Any = None,
    device: str | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return a matrix with ones on one diagonal and zeros elsewhere.

    Args:
        n: The number of rows.
        m: The number of columns; by default ``n``.
        k: The diagonal: 0 is the main one, positive numbers are above it, negative ones
            below it.
        dtype: The dtype; float32 by default.
        device: The backend on which the tensor is made; by default the active one.

    Returns:
        A tensor ``[n, m]``.

    Raises:
        ValueError: A size is negative.
        TypeError: A size or ``k`` is not an integer, or the backend lacks the dtype.

    Example:
        >>> pg.eye(2, 3, k=1)
        Tensor([[0., 1., 0.],
                [0., 0., 1.]], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    if unknown:
        raise unexpected(eye, unknown)
    if device is not None:
        return _convert.call_on_device(device, eye, n, m, k=k, dtype=dtype)
    rows, columns = sizes("eye", (n, n if m is None else m))
    hit = _diagonal("eye", rows, columns, k) == arange(columns)
    return creation.cast(hit, FLOAT32 if dtype is None else dtype)


def _diagonal(op: str, rows: int, columns: int, k: int) -> Tensor:
    """Return a column vector: for each row, the column of diagonal ``k``."""
    k = max(-rows, min(integer(op, "k", k), columns))
    return shapes.reshape(arange(k, rows + k), (rows, 1))


def tril_indices(
    n: int, /, m: int | None = None, *, k: int = 0
) -> tuple[Tensor, Tensor]:
    """Return the row and column indices of the lower triangle of an ``[n, m]`` matrix.

    ``x[tril_indices(n)]`` contains the elements of that triangle, row by row.

    Args:
        n: The number of rows.
        m: The number of columns; by default ``n``.
        k: The last diagonal of the triangle: 0 is the main one, positive numbers are
            above it, negative ones below it.

    Returns:
        Two int32 tensors of the same size.

    Raises:
        ValueError: A size is negative.
        TypeError: A size or ``k`` is not an integer.

    Example:
        >>> rows, columns = pg.tril_indices(2)
        >>> rows.tolist(), columns.tolist()
        ([0, 1, 1], [0, 0, 1])

    Source:
        ``numpy.tril_indices``, whose second parameter is ``k``.

    """
    return _triangle("tril_indices", n, m, k, lower=True)


def triu_indices(
    n: int, /, m: int | None = None, *, k: int = 0
) -> tuple[Tensor, Tensor]:
    """Return the row and column indices of the upper triangle of an ``[n, m]`` matrix.

    ``x[triu_indices(n)]`` contains the elements of that triangle, row by row.

    Args:
        n: The number of rows.
        m: The number of columns; by default ``n``.
        k: The first diagonal of the triangle: 0 is the main one, positive numbers are
            above it, negative ones below it.

    Returns:
        Two int32 tensors of the same size.

    Raises:
        ValueError: A size is negative.
        TypeError: A size or ``k`` is not an integer.

    Example:
        >>> rows, columns = pg.triu_indices(2)
        >>> rows.tolist(), columns.tolist()
        ([0, 0, 1], [0, 1, 1])

    Source:
        ``numpy.triu_indices``, whose second parameter is ``k``.

    """
    return _triangle("triu_indices", n, m, k, lower=False)


def _triangle(
    op: str, n: int, m: int | None, k: int, lower: bool
) -> tuple[Tensor, Tensor]:
    rows, columns = sizes(op, (n, n if m is None else m))
    k = max(-rows, min(integer(op, "k", k), columns))
    below = np.tri(rows, columns, k if lower else k - 1, dtype=bool)
    found = np.nonzero(below if lower else ~below)
    first, second = (_convert.tensor_of(i.astype(INT32), copy=False) for i in found)
    return first, second


def tril(x: TensorLike, /, *, k: int = 0) -> Tensor:
    """Return the lower triangle of each matrix, with zeros above diagonal ``k``.

    Args:
        x: ``[..., n, m]`` of numbers or bool.
        k: The last diagonal to keep: 0 is the main one, positive numbers are above it,
            negative ones below it.

    Returns:
        A tensor with the shape and dtype of ``x``.

    Raises:
        ValueError: ``x`` has fewer than two axes.
        TypeError: ``x`` contains strings, or ``k`` is not an integer.

    Example:
        >>> pg.tril([[1, 2], [3, 4]])
        Tensor([[1, 0],
                [3, 4]], dtype=int32, backend='cpu')

    Source:
        The array API standard.

    """
    x = _convert.numbers("tril", x)
    return compare.where(_above_diagonal("tril", x, k), False, x)


def triu(x: TensorLike, /, *, k: int = 0) -> Tensor:
    """Return the upper triangle of each matrix, with zeros below diagonal ``k``.

    Args:
        x: ``[..., n, m]`` of numbers or bool.
        k: The first diagonal to keep: 0 is the main one, positive numbers are above it,
            negative ones below it.

    Returns:
        A tensor with the shape and dtype of ``x``.

    Raises:
        ValueError: ``x`` has fewer than two axes.
        TypeError: ``x`` contains strings, or ``k`` is not an integer.

    Example:
        >>> pg.triu([[1, 2], [3, 4]])
        Tensor([[1, 2],
                [0, 4]], dtype=int32, backend='cpu')

    Source:
        The array API standard.

    """
    x = _convert.numbers("triu", x)
    return compare.where(
        _above_diagonal("triu", x, integer("triu", "k", k) - 1), x, False
    )


def _above_diagonal(op: str, x: Tensor, k: int) -> Tensor:
    """Return a mask of the elements above diagonal ``k`` of each matrix."""
    if len(x.shape) < 2:
        raise ValueError(f"{op}: x must have two axes or more, got shape {x.shape}")
    rows, columns = x.shape[-2:]
    return arange(columns) > _diagonal(op, rows, columns, k)


def meshgrid(
    *xs: TensorLike, indexing: Literal["xy", "ij"] = "xy"
) -> tuple[Tensor, ...]:
    """Return coordinate arrays: each vector, broadcast to the grid of all vectors.

    Args:
        xs: Vectors of any dtype; a scalar is a vector of one element.
        indexing: With "ij", ``xs[i]`` varies along axis i. "xy" swaps the first two
            axes: ``xs[0]`` varies along axis 1, and ``xs[1]`` along axis 0.

    Returns:
        A tuple of tensors with the shape of the grid, each with the dtype of its
        vector.

    Raises:
        ValueError: An argument has more than one axis, or ``indexing`` is unknown.

    Example:
        >>> x, y = pg.meshgrid([1, 2, 3], [10, 20])
        >>> x
        Tensor([[1, 2, 3],
                [1, 2, 3]], dtype=int32, backend='cpu')
        >>> y
        Tensor([[10, 10, 10],
                [20, 20, 20]], dtype=int32, backend='cpu')

    Source:
        The array API standard.

    """
    choice("meshgrid", "indexing", indexing, "xy", "ij")
    vectors = [_convert.asarray(x) for x in xs]
    for x in vectors:
        if len(x.shape) > 1:
            raise ValueError(f"meshgrid: expected vectors, got shape {x.shape}")
    # The axis of each vector. This permutation is its own inverse.
    axes = list(range(len(vectors)))
    if indexing == "xy":
        axes[:2] = reversed(axes[:2])
    grid = tuple(vectors[axis].size for axis in axes)
    columns = [
        shapes.reshape(x, (-1, *[1] * (len(axes) - axis - 1)))
        for axis, x in zip(axes, vectors, strict=True)
    ]
    return tuple([shapes.broadcast_to(x, grid) for x in columns])
