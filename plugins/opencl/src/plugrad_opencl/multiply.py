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
    halves: bool = False,
) -> ClArray:
    """Return ``[z, m, k] @ [z, k, n]``; no size is 0.

    Args:
        shape: The shape of the result.
        sizes: ``(z, m, n, k)``.
        a: The left matrix.
        b: The right matrix.
        y_batch: The stride of matrices in the result; contiguous by default.
        y_row: The stride of rows in the result; contiguous by default.
        finish: The epilogue.
        halves: Whether all elements have at most 11 significant bits, and the range of
            float32: then NVIDIA's matrix units multiply them without rounding.

    """
    if a.x.device.style == "cpu":
        return products.product(
            shape, sizes, a, b, y_batch=y_batch, y_row=y_row, finish=finish
        )
    z = sizes[0]
    return tiles.product(
        shape,
        sizes,
        a,
        b,
        inner=z,
        y_batch=(y_batch, 0),
        y_row=y_row,
        finish=finish,
        precision="tf32" if halves else "",
    )
