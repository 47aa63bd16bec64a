"""Matrix products: in C for float32; other dtypes by ``np.matmul``, which uses BLAS."""

from __future__ import annotations

import functools
from math import prod
from typing import Any

import numpy as np
from plugrad.plugin import KernelTable, takes_bfloat16

from .. import native
from ..arrays import Array
from ..pool import native as in_c

kernels = KernelTable()
End = tuple[Any, ...]  # the epilogue in C: bias, slopes, activation, slope
NOTHING: End = (None, None, 0, 0.0)
FLOAT32 = np.dtype("float32")
PRODUCT = native.strided("product_f32")
MATRICES: Any = getattr(in_c, "product", None)
HALF_PRODUCT = native.kernels("product_bf16", {None: ""}).get(None)
PAIRS_PRODUCT = native.strided("pairs_product_bf16")
PAIRS_MAX_LENGTH = 1 << 14  # of the sums: bfloat16_product.c
PAIRS_MAX_ROWS = 12  # of a panel that it packs
FEW_ROWS = 4  # for more rows, a product in float32 is faster
BYTE_PRODUCT = native.kernels("matmul_integer", {np.dtype(np.int8): "_i8"})
# The minimum numbers of rows, columns and multiply-adds: below them, BLAS is faster and
# no threads are woken.
PRODUCT_MIN_SIZES = 4, 16, 9216
PACKED_MAX_WORDS = 1 << 19  # 4-byte words of the rows that are packed together
Shape = tuple[int, ...]


@kernels("BatchMatMul")
@takes_bfloat16
def batch_matmul(a: Array, b: Array, *, transpose_a: bool, transpose_b: bool) -> Array:
    """Multiply; transposes are views, and 16-bit numbers are computed in float32."""
    if a.dtype == native.BFLOAT16:
        if (y := few_rows(a, b, transpose_a, transpose_b)) is not None:
            return native.to_bfloat16(y)
        return pairs_product(a, b, transpose_a, transpose_b, native.BFLOAT16)
    if a.dtype == native.HALF:
        how = {"transpose_a": transpose_a, "transpose_b": transpose_b}
        return native.in_float32(batch_matmul, a, b, **how)
    if PRODUCT:
        y = MATRICES(PRODUCT, a, b, transpose_a, transpose_b, *PRODUCT_MIN_SIZES)
        if y is not None:
            return y
    a = a.swapaxes(-1, -2) if transpose_a else a
    b = b.swapaxes(-1, -2) if transpose_b else b
    if a.dtype == FLOAT32 and (y := product(a, b, NOTHING)) is not None:
        return y
    if a.dtype.kind in "iu" and a.size and b.size:
        return _integer_product(a, b)
    return np.matmul(a, b)


@kernels("MixedMatMul")
@takes_bfloat16
def mixed_matmul(a: Array, b: Array, *, transpose_a: bool, transpose_b: bool) -> Any:
    """Multiply by a bfloat16 matrix; float32 rows must be few."""
    if (y := few_rows(a, b, transpose_a, transpose_b)) is not None:
        return y
    if a.dtype == FLOAT32:
        return NotImplemented
    return pairs_product(a, b, transpose_a, transpose_b, FLOAT32)


def few_rows(a: Array, b: Array, transpose_a: bool, transpose_b: bool) -> Array | None:
    """Multiply a few rows by a bfloat16 matrix, which is read once, as it is."""
    inputs, outputs = b.shape[-2:][:: -1 if transpose_b else 1]
    rows = a.size // max(inputs, 1)
    fits = 0 < rows <= FEW_ROWS and b.ndim == 2 and b.flags.c_contiguous
    if not HALF_PRODUCT or not fits or transpose_a or b.size >= native.MAX_ELEMENTS:
        return None
    is_half = a.dtype == native.BFLOAT16
    x = native.from_bfloat16(a) if is_half else native.as_contiguous(a)
    y = np.empty((*a.shape[:-1], outputs), FLOAT32)
    if y.size:
        HALF_PRODUCT(x, b, y, rows, outputs, inputs, transpose_b)
    return y


def pairs_product(
    a: Array, b: Array, transpose_a: bool, transpose_b: bool, dtype: np.dtype[Any]
) -> Any:
    """Return the product of bfloat16 matrices in float32, or rounded to bfloat16."""
    a = a.swapaxes(-1, -2) if transpose_a else a
    b = b.swapaxes(-1, -2) if transpose_b else b
    layout = a.shape, a.strides, b.shape, b.strides
    found = pairs_plan(*layout) if PAIRS_PRODUCT else None
    if found is None:
        return NotImplemented
    shape, how, words = found
    y = np.empty(shape, dtype)
    memory = np.empty(words, np.uint32)
    PAIRS_PRODUCT(how, a, b, y, memory, dtype == native.BFLOAT16)  # type: ignore[misc]
    return y


@functools.lru_cache(maxsize=4096)
def pairs_plan(a: Shape, a_strides: Shape, b: Shape, b_strides: Shape) -> Any:
    """Return what ``plan`` returns, and the words of memory that C needs; or None."""
    found = plan(a, a_strides, b, b_strides, native.BFLOAT16.itemsize)
    if found is None or a[-1] > PAIRS_MAX_LENGTH:
        return None
    rows, _, length, count = found[1][:4].tolist()
    return *found, count * (rows + PAIRS_MAX_ROWS) * -(-length // 2)


def product(a: Array, b: Array, end: End) -> Array | None:
    """Return ``activation(a b + bias)`` for float32; None if NumPy must compute it."""
    found = plan(a.shape, a.strides, b.shape, b.strides) if PRODUCT else None
    if found is None:
        return None
    shape, how = found
    y = np.empty(shape, FLOAT32)
    PRODUCT(how, a, b, y, *end)  # type: ignore[misc]
    return y


@functools.lru_cache(maxsize=4096)
def plan(
    a: Shape, a_strides: Shape, b: Shape, b_strides: Shape, itemsize: int = 4
) -> Any:
    """Return the shape of the product and the layout argument for C, or None.

    C reads a view without a copy if rows or columns of its matrices are contiguous.
    """
    m = a[-2]
    n = b[-1]
    batch = np.broadcast_shapes(a[:-2], b[:-2])
    count = prod(batch)
    numbers = []
    if count * m * n >= native.MAX_ELEMENTS or count * a[-1] == 0:
        return None
    for shape, strides in ((a, a_strides), (b, b_strides)):
        steps = [stride // itemsize for stride in strides]
        pairs = zip(shape, steps, strict=True)
        if sum((size - 1) * abs(step) for size, step in pairs) >= native.MAX_ELEMENTS:
            return None
        if 1 not in steps[-2:] or any(stride % itemsize for stride in strides):
            return None
        begins = np.broadcast_to(_offsets(shape[:-2], steps), batch).ravel()
        numbers.append((steps[-2:], _constant_step(begins), begins.tolist()))
    (of_a, a_step, a_begins), (of_b, b_step, b_begins) = numbers
    if a_step == m * of_a[0] and b_step == 0:  # one product, of all rows of the batch
        m = m * count
        count = 1
    rows, columns, multiply_adds = PRODUCT_MIN_SIZES
    if (m < rows or n < columns) and m * n * a[-1] < multiply_adds:
        return None
    irregular = a_step is None or b_step is None
    how = [m, n, a[-1], count, *of_a, a_step or 0, *of_b, b_step or 0, irregular]
    how += [*a_begins, *b_begins] if irregular else []
    return (*batch, a[-2], n), np.array(how, np.int32)


def _offsets(batch: Shape, steps: list[int]) -> Array:
    """Return the offsets of the matrices of a batch."""
    at = np.zeros((), np.int64)
    for size, step in zip(batch, steps, strict=False):
        at = at[..., None] + np.arange(size) * step
    return at


def _constant_step(begins: Array) -> int | None:
    """Return the step between consecutive numbers; None if it is not constant."""
    steps = np.unique(np.diff(begins)).tolist() or [0]
    return steps[0] if len(steps) == 1 else None


def _integer_product(a: Array, b: Array) -> Array:
    """Multiply integers in float64, which is exact if all sums are below 2**53."""
    if a.size + b.size < 256:
        return np.matmul(a, b)
    largest = max(int(a.max()), -int(a.min())) * max(int(b.max()), -int(b.min()))
    if largest * a.shape[-1] >= 2**53:
        return np.matmul(a, b)
    exact = np.matmul(a.astype(np.float64), b.astype(np.float64))
    return exact.astype(np.int64).astype(a.dtype)


def packing_sizes(rows: int, columns: int, k: int) -> tuple[int, int]:
    """Return an int8 product's workspace size in words, and how many rows it packs.

    The workspace contains the epilogue of the columns and the packed rows: see
    integer.c.
    """
    words = -(-k // 4)
    rows = min(rows, max(64, PACKED_MAX_WORDS // max(words, 1)))
    return 2 * (-(-columns // 32) * 32 + rows * words), rows


def matmul_integer(a: Array, b: Array, *, transpose_a: bool, transpose_b: bool) -> Any:
    """Multiply two matrices in C; the workspace also contains the packed ``b``."""
    if a.ndim != 2 or b.ndim != 2 or not (a.size and b.size):
        return NotImplemented
    given = native.contiguous(a.T if transpose_a else a, b)
    m, k = a.shape[:: -1 if transpose_a else 1]
    n = b.shape[1 - transpose_b]
    wide = -(-n // 32) * 32
    size, rows = packing_sizes(m, n, k)
    size += wide * (1 + -(-k // 4))
    if given is None or size >= native.MAX_ELEMENTS or m * n >= native.MAX_ELEMENTS:
        return NotImplemented
    y = np.empty((m, n), np.int32)
    memory = np.empty(size, np.int32)
    how = (m, n, k, a.dtype == np.int8, transpose_b, rows)
    BYTE_PRODUCT[b.dtype](*given, y, memory, *how)
    return y


if BYTE_PRODUCT:
    kernels["MatMulInteger"] = matmul_integer
