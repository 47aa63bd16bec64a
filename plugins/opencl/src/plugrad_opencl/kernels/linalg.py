"""Matrix products."""

from __future__ import annotations

import math
from typing import Any

from plugrad.geometry import broadcast
from plugrad.plugin import KernelTable, takes_bfloat16

from .. import tiles
from ..arrays import ClArray, Shape, filled
from ..multiply import product
from ..products import BFLOAT16, Finish, Matrix, thin
from .creation import FLOAT32, cast
from .shape import broadcast_to, transpose

kernels = KernelTable()

# A product with up to this many rows takes as long as reading the other matrix.
MEMORY_BOUND_ROWS = 4


@kernels("BatchMatMul")
@takes_bfloat16
def batch_matmul(
    a: ClArray,
    b: ClArray,
    *,
    transpose_a: bool,
    transpose_b: bool,
    finish: Finish | None = None,
    halves: bool = False,
) -> Any:
    """Multiply; transposes are strides, and irregular batches are copied.

    ``halves`` says that the float32 numbers are those of bfloat16.
    """
    if a.dtype == BFLOAT16:
        y = mixed_matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
        return y if y is NotImplemented else cast(y, dtype=BFLOAT16)
    batch = broadcast("matmul", a.shape[:-2], b.shape[:-2])
    m, k = a.shape[-2:][::-1] if transpose_a else a.shape[-2:]
    rows, n = b.shape[-2:][::-1] if transpose_b else b.shape[-2:]
    if k != rows:
        raise ValueError(
            f"matmul: the left matrix has {k} columns, but the right one {rows} rows"
        )
    shape = (*batch, m, n)
    z = math.prod(batch)
    if math.prod(b.shape[:-2]) == 1 and not transpose_a:  # a becomes one matrix
        a, b, z, m = a.view((z * m, k)), b.view(b.shape[-2:]), 1, z * m
    if not k or not z * m * n:
        return filled(a.device, shape, 0, a.dtype)
    a, a_batch = _with_batch(a, batch)
    b, b_batch = _with_batch(b, batch)
    left = Matrix(a, *((1, m) if transpose_a else (k, 1)), a_batch)
    right = Matrix(b, *((1, k) if transpose_b else (n, 1)), b_batch)
    sizes = (z, m, n, k)
    if a.device.style == "gpu":
        return _on_gpu(shape, sizes, left, right, finish, halves)
    if finish is None and (n == 1 or m <= MEMORY_BOUND_ROWS):
        return _thin(shape, sizes, left, right)
    return product(shape, sizes, left, right, finish=finish)


@kernels("MixedMatMul")
@takes_bfloat16
def mixed_matmul(
    a: ClArray, b: ClArray, *, transpose_a: bool, transpose_b: bool
) -> Any:
    """Multiply by a bfloat16 matrix, which is converted where it is read or packed."""
    outputs = b.shape[-2 if transpose_b else -1]
    rows = math.prod(a.shape) // max(a.shape[-1], 1)
    most = tiles.THIN_MAX_ROWS if a.device.style == "gpu" else rows
    if transpose_a or outputs == 1 or len(b.shape) > 2 or rows > most:
        if a.dtype == FLOAT32 or not tiles.multiplies_halves(a.device):
            return NotImplemented
        return batch_matmul(
            cast(a, dtype=FLOAT32),
            cast(b, dtype=FLOAT32),
            transpose_a=transpose_a,
            transpose_b=transpose_b,
            halves=True,
        )
    wide = cast(a, dtype=FLOAT32)
    return batch_matmul(wide, b, transpose_a=False, transpose_b=transpose_b)


def _on_gpu(
    shape: Shape,
    sizes: tuple[int, int, int, int],
    a: Matrix,
    b: Matrix,
    finish: Finish | None,
    halves: bool,
) -> ClArray:
    z, m, n, k = sizes
    if n == 1 < m and finish is None:  # the transpose has one row, and the same memory
        flipped = _transposed(b), _transposed(a)
        return _on_gpu(shape, (z, n, m, k), *flipped, None, halves)
    if tiles.suits_thin(sizes, b):
        return tiles.thin(shape, sizes, a, b, finish)
    return product(shape, sizes, a, b, finish=finish, halves=halves)


def _thin(
    shape: Shape, sizes: tuple[int, int, int, int], a: Matrix, b: Matrix
) -> ClArray:
    z, m, n, k = sizes
    if n == 1 < m:  # the transpose has one row, and the same memory
        return _thin(shape, (z, n, m, k), _transposed(b), _transposed(a))
    if b.step != 1 and a.step != 1:
        axes = (*range(len(a.x.shape) - 2), -1, -2)
        order = tuple([i % len(a.x.shape) for i in axes])
        a = Matrix(transpose(a.x, axes=order), k, 1, a.batch)
    return thin(shape, sizes, a, b)


def _transposed(a: Matrix) -> Matrix:
    return a._replace(row=a.step, step=a.row)


def _with_batch(x: ClArray, batch: Shape) -> tuple[ClArray, int]:
    """Return matrices for the whole batch, and their stride; 0 for a single matrix."""
    own_batch = x.shape[:-2]
    size = math.prod(x.shape[-2:])
    if math.prod(own_batch) == 1:
        return x, 0
    if math.prod(own_batch) != math.prod(batch):
        x = broadcast_to(x, shape=(*batch, *x.shape[-2:]))
    return x, size
