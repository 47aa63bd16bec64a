"""Matrix products: by panels of columns on CPUs, by tiles on GPUs."""

from __future__ import annotations

from . import products, tiles
from .arrays import ClArray, Shape
from .products import Finish, Matrix


def product(
    shape: Shape,
    sizes: tuple[int, int, int, int],
    a: Matrix,
    b: Matrix,
    *,
    y_batch: int = 0,
    y_row: int = 0,
    finish: Finish | None = None,
) -> ClArray:
    """Return ``[z, m, k] [z, k, n]``; no size is 0.

    Args:
        shape: Of the result.
        sizes: ``z m n k``.
        a: The left matrix.
        b: The right one.
        y_batch: How far apart the matrices of the result are; contiguous by default.
        y_row: How far apart its rows are.
        finish: What to do to the result.

    """
    if a.x.device.style == "cpu":
        return products.product(
            shape, sizes, a, b, y_batch=y_batch, y_row=y_row, finish=finish
        )
    z = sizes[0]
    return tiles.product(
        shape, sizes, a, b, inner=z, y_batch=(y_batch, 0), y_row=y_row, finish=finish
    )
