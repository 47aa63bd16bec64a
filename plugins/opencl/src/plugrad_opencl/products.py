"""Describes matrices in memory, and multiplies them on CPUs (``cl/gemm.cl``).

``Matrix(x, row=k, step=1)`` has contiguous rows of ``k`` elements. A transpose has
other strides. Rows and columns without a constant stride, such as the windows of a
convolution, have tables of offsets. ``multiply.product`` selects the kernel for the
device.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple, cast

import numpy as np
import plugrad

from . import source
from .arrays import ClArray, ClArrays, DType, Shape, empty
from .reductions import along
from .runtime import Device, Launch
from .source import width as width

BFLOAT16: DType = plugrad.bfloat16
PANEL_COLUMNS = 16  # columns of b that are adjacent in memory
GROUP_TILES = 16  # tiles of a that consecutive items share, so that they stay cached
SUM_MAX_ELEMENTS = 1 << 14  # elements per sum; longer sums would lose precision
PACK_MIN_ELEMENTS = 1 << 18  # packing b is faster if b is larger

# Activation functions of ``y``, to which the bias has been added.
FINISH = {
    "linear": "y",
    "relu": "WHERE(y < (S)0, (S)0, y)",
    "relu6": "WHERE(y < (S)0, (S)0, WHERE(y > (S)6, (S)6, y))",
    "elu": "WHERE(y < (S)0, expm1(y), y)",
    "leaky_relu": "WHERE(y < (S)0, y * alpha, y)",
    "sigmoid": "f_sigmoid(y)",
}

# The multiply-add by kind of dtype, if it is not ``a * b + sum``.
PRODUCT = {"f": "MULTIPLY_ADD(a, b, sum)", "c": "sum + c_mul(a, b)"}


class Matrix(NamedTuple):
    """The layout of a matrix, or of a batch of matrices, in an array.

    Attributes:
        x: The array.
        row: The stride of rows, if there is no table ``rows``.
        step: The stride of columns, if there is no table ``steps``.
        batch: The stride of matrices.
        outer: The stride of batches of matrices; see ``tiles.product``.
        rows: A table of int32 offsets of the rows; on a GPU, a result of
            ``tiles.places``.
        steps: The same for columns; a right matrix has none.
        run: The number of consecutive table entries that are offsets of neighboring
            elements.
        down: Whether ``run`` describes ``rows`` instead of ``steps``.
        image: The rectangle outside of which elements are 0.

    """

    x: ClArray
    row: int = 0
    step: int = 1
    batch: int = 0
    outer: int = 0
    rows: ClArray | None = None
    steps: ClArray | None = None
    run: int = 1
    down: bool = False
    image: Image | None = None


class Image(NamedTuple):
    """The rectangle of places that contain elements; see ``tiles.places``."""

    top: int = 0
    left: int = 0
    height: int = 1
    width: int = 1


class Finish(NamedTuple):
    """The epilogue of a product: ``activation(y + bias)``, with one bias per column."""

    bias: ClArray | None = None
    activation: str = "linear"
    alpha: float = 0.0


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
    """Return ``[z, m, k] @ [z, k, n]`` on a CPU; no size is 0.

    Args:
        shape: The shape of the result.
        sizes: ``(z, m, n, k)``.
        a: The left matrix.
        b: The right matrix.
        y_batch: The stride of matrices in the result; contiguous by default.
        y_row: The stride of rows in the result; contiguous by default.
        finish: The epilogue.

    """
    z, m, n, k = sizes
    device, dtype = a.x.device, a.x.dtype
    tiles = -(-m // _rows(dtype)) * -(-n // PANEL_COLUMNS)
    parts = 1 if finish else _parts(device, z * tiles, k)
    y = empty(device, (parts, math.prod(shape)), dtype)
    bias, activation, alpha = finish or Finish()
    tables = a.rows is not None
    launch = _gemm(device, dtype, tables, bias is not None, activation)
    b, b_panel = _panels(b, dtype, z, m, n, k)
    optional = [(x or y).buffer for x in (a.rows, a.steps, bias)]  # y is not read
    numbers = (m, n, k, parts, a.batch, a.row, a.step, b.batch, b_panel, b.row)
    steps = (y.size // parts, y_batch or m * n, y_row or n)
    buffers = (a.x.buffer, b.x.buffer, y.buffer, *optional)
    launch(z * m * n * k, z * tiles * parts, *buffers, *numbers, *steps, alpha)
    return y.view(shape) if parts == 1 else added(y, shape)


def thin(
    shape: Shape, sizes: tuple[int, int, int, int], a: Matrix, b: Matrix
) -> ClArray:
    """Return a product with few rows on a CPU.

    Either the rows of ``b`` are contiguous, or both the columns of ``b`` and the rows
    of ``a``. If ``b`` is bfloat16, ``a`` is float32.
    """
    z, m, n, k = sizes
    device, dtype = a.x.device, a.x.dtype
    y = empty(device, shape, dtype)
    strip = 8 * width(dtype)
    launch = _thin(device, dtype, b.x.dtype == BFLOAT16, b.step != 1, strip)
    steps = (a.batch, a.row, a.step, b.batch, b.row, b.step)
    items = z * m * -(-n // strip)
    buffers = (a.x.buffer, b.x.buffer, y.buffer)
    launch(z * m * n * k, items, *buffers, *sizes, *steps)
    return y


def added(y: ClArray, shape: Shape) -> ClArray:
    """Return the sum over the first axis, which contains the parts."""
    total: ClArray = along("Sum", y, (0,), False)
    return total.view(shape)


def _parts(device: Device, tiles: int, k: int) -> int:
    """Return how many parts of ``k`` keep all units busy and preserve precision."""
    idle = 2 * device.units // tiles if k >= 512 else 1
    return max(1, min(idle, k // 256), -(-k // SUM_MAX_ELEMENTS))


def _rows(dtype: DType) -> int:
    """Return the number of rows of a tile: as many as fit in registers."""
    return {8: 6, 4: 3, 1: 1}[width(dtype)]


def _panels(
    b: Matrix, dtype: DType, z: int, m: int, n: int, k: int
) -> tuple[Matrix, int]:
    """Return the right matrix in panels of 16 columns, and the stride of panels.

    The matrix is packed, unless it is small and its rows consist of whole panels.
    Packing converts bfloat16 to ``dtype``, which is float32.
    """
    device = b.x.device
    simple = b.rows is None and b.step == 1 and b.x.dtype == dtype
    small = n * k <= PACK_MIN_ELEMENTS or m < 64
    if simple and small and n % PANEL_COLUMNS == 0:
        return b, PANEL_COLUMNS
    panels = -(-n // PANEL_COLUMNS)
    count = z if b.batch else 1
    packed = empty(device, (count, panels, k, PANEL_COLUMNS), dtype)
    cuts = max(1, min(2 * device.units // (count * panels), k // 64))
    is_half = b.x.dtype == BFLOAT16
    launch = _pack(device, dtype, is_half, b.rows is not None, cuts)
    table = b.rows.buffer if b.rows else packed.buffer
    steps = (count, n, k, b.batch, b.row, b.step)
    launch(packed.size, count * panels * cuts, b.x.buffer, packed.buffer, table, *steps)
    batch = packed.size // count if b.batch else 0
    return Matrix(packed, PANEL_COLUMNS, 1, batch), k * PANEL_COLUMNS


@functools.cache
def _gemm(
    device: Device, dtype: DType, tables: bool, bias: bool, activation: str
) -> Launch:
    return source.kernel(
        device,
        "gemm",
        width=width(dtype),
        TABLES=tables,
        BIAS=bias,
        ROWS=_rows(dtype),
        GROUP_TILES=GROUP_TILES,
        COLUMNS=PANEL_COLUMNS,
        integer=source.SIGNED[dtype.itemsize],
        **formulae(dtype, activation),
    )


def formulae(dtype: DType, activation: str = "linear") -> dict[str, str]:
    """Return C code for the types, the multiply-add and the epilogue."""
    product = PRODUCT.get(dtype.kind, "a * b + sum")
    finish = FINISH[activation]
    return {
        "type": source.C[dtype],
        "real": source.C[dtype] if dtype.kind == "f" else "float",
        "product": product,
        "finish": finish,
        "functions": source.functions(f"{product}; {finish}", dtype),
    }


def reading(is_half: bool) -> dict[str, Any]:
    """Return C code that reads the right matrix: bfloat16, or what the left one is."""
    return {"HALF": is_half, "reading": source.text("half")}


@functools.cache
def _thin(
    device: Device, dtype: DType, is_half: bool, dots: bool, strip: int
) -> Launch:
    values = {"DOTS": dots, "STRIP": strip, **formulae(dtype), **reading(is_half)}
    return source.kernel(device, "matmul", width=width(dtype), **values)


@functools.cache
def _pack(
    device: Device, dtype: DType, is_half: bool, tables: bool, cuts: int
) -> Launch:
    values = {"TABLES": tables, "CUTS": cuts, "type": source.C[dtype]}
    values |= reading(is_half)
    return source.kernel(
        device, "pack", width=width(dtype), COLUMNS=PANEL_COLUMNS, **values
    )


@functools.lru_cache(256)
def table(device: Device, *axes: tuple[int, ...]) -> ClArray:
    """Return the sums of all combinations of numbers, one from each axis, as int32."""
    total = functools.reduce(np.add.outer, axes, np.zeros((), np.int64))
    numbers = np.asarray(total, np.int32).ravel()
    return cast("ClArray", ClArrays(device).upload(numbers))


def fits(*shapes: Shape) -> bool:
    """Return whether offsets into arrays of these shapes fit int32."""
    return all(math.prod(shape) < 2**31 for shape in shapes)
