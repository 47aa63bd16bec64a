"""Matrix products on GPUs: ``cl/tiles.cl``.

A work group computes a tile of the result. ``TILES`` lists the available sizes, and
``chosen`` returns the largest one that keeps the device busy.

NVIDIA's matrix units multiply numbers with 11 significant bits (TF32). They are used
for bfloat16, whose numbers have 8 bits, and for float32 only on request:

- Under ``plugrad.precision("tf32")``, and with ``PLUGRAD_OPENCL_TF32=1``, the inputs of
  float32 products are rounded to such numbers.
- With ``PLUGRAD_OPENCL_TF32=3``, a float32 is split into two such numbers, and three
  products replace one. The error is up to 2^-21 instead of 2^-24, so a product with the
  identity matrix changes the last bit.

Sums of more than 32 products are in float32 in any case, because the units round
towards zero. OpenCL does not expose the units: the kernel contains PTX, which only
NVIDIA's compiler knows. Products of 4096 x 4096 matrices take 3.13 ms on an H100, 2.34
ms with three TF32 products and 1.50 ms with one.

Products with few rows are memory-bound, and read the other matrix once
(``cl/thin.cl``).

Contents: ``product``; ``thin``; ``chosen``; ``has_matrix_units``; how matrices are
read; ``places``, tables of windows.
"""

from __future__ import annotations

import functools
import math
import os
from typing import Any, NamedTuple, cast

import numpy as np
import plugrad as pg
from plugrad.plugin import get_precision

from . import source
from .arrays import ClArray, ClArrays, DType, Shape, empty
from .products import BFLOAT16, Finish, Image, Matrix, added, formulae, reading
from .runtime import Device, Launch

Array = np.ndarray[Any, np.dtype[np.float32]]

GROUP_TILES = 16  # left tiles that consecutive groups share, so that they stay cached
SUM_MAX_STEPS = 1 << 14  # steps of a slice; longer sums would lose precision


BUSY = 2 / 3  # tiles per compute unit that keep the device busy, by default


class Tile(NamedTuple):
    """The part of a product that a work group computes.

    Attributes:
        rows, columns: The size of the tile.
        item_rows, item_columns: The part that an item computes in registers.
        deep: The number of steps along k that are in local memory at once.
        units: The number of TF32 products that replace a float32 product: 3, or 1 with
            rounded inputs; 0 without matrix units.
        busy: The number of tiles per compute unit that keeps the device busy. With
            fewer tiles, a smaller size is used.

    """

    rows: int
    columns: int
    item_rows: int
    item_columns: int
    deep: int
    units: int = 0
    busy: float = BUSY

    @property
    def slices(self) -> int:
        """The number of items that compute the same elements, in different steps."""
        items = self.rows * self.columns // (self.item_rows * self.item_columns)
        return source.GROUP_ITEMS["gpu"] // items

    def local_bytes(self, itemsize: int) -> int:
        """Return how many bytes of local memory a group needs."""
        stages = 2 * self.deep * (self.rows + self.columns + 16)
        return max(stages, self.slices // 2 * self.rows * self.columns) * itemsize


# The tile sizes for each value of ``units``, from large to small: large tiles read less
# memory, but there must be enough of them for all compute units. For units=1, ``busy``
# was chosen from timings of products with different numbers of tiles on an H100.
TILES = {
    0: (
        Tile(128, 128, 8, 8, 16),
        Tile(128, 64, 8, 4, 16),
        Tile(64, 32, 4, 4, 32),
        Tile(32, 32, 4, 4, 32),
    ),
    1: (
        Tile(128, 128, 8, 8, 16, units=1),
        Tile(64, 64, 4, 4, 16, units=1, busy=2),
        Tile(64, 64, 4, 8, 32, units=1, busy=0.4),
        Tile(64, 32, 4, 4, 32, units=1),
        Tile(32, 32, 2, 4, 32, units=1),
    ),
    3: (
        Tile(128, 128, 8, 8, 16, units=3),
        Tile(64, 64, 4, 4, 32, units=3),
        Tile(64, 32, 4, 4, 32, units=3),
        Tile(32, 32, 2, 4, 32, units=3),
    ),
}


class Reading(NamedTuple):
    """How the items of a group read a matrix.

    Attributes:
        tables: Whether offsets are in tables.
        along_k: Whether neighboring items read neighbors along k.
        vector: The number of neighbors that an item reads at once.

    """

    tables: bool
    along_k: bool
    vector: int


def product(
    shape: Shape,
    sizes: tuple[int, int, int, int],
    a: Matrix,
    b: Matrix,
    *,
    inner: int = 1,
    y_batch: tuple[int, int] = (0, 0),
    y_row: int = 0,
    finish: Finish | None = None,
    precision: str = "",
) -> ClArray:
    """Return ``[z, m, k] @ [z, k, n]``; no size is 0.

    Args:
        shape: The shape of the result.
        sizes: ``(z, m, n, k)``.
        a: The left matrix.
        b: The right matrix.
        inner: The number of matrices in a batch. Matrices of a batch are ``batch``
            elements apart, and batches are ``outer`` elements apart.
        y_batch: The strides of matrices and of batches in the result; contiguous by
            default.
        y_row: The stride of rows in the result; contiguous by default.
        finish: The epilogue.
        precision: The precision of float32 products, if it is not the one in force.

    """
    tile = chosen(a.x.device, a.x.dtype, precision or get_precision(), *sizes)
    _, m, n, _ = sizes
    y_inner, y_outer = y_batch if any(y_batch) else (m * n, inner * m * n)
    steps = (y_outer, y_inner, y_row or n)
    return _computed(tile, shape, sizes, a, b, inner, steps, finish)


def _computed(
    tile: Tile,
    shape: Shape,
    sizes: tuple[int, int, int, int],
    a: Matrix,
    b: Matrix,
    inner: int = 1,
    steps: tuple[int, int, int] | None = None,
    finish: Finish | None = None,
) -> ClArray:
    """Return the product in tiles of this size; ``steps`` are strides of the result."""
    z, m, n, k = sizes
    device, dtype = a.x.device, a.x.dtype
    tiles = z * -(-m // tile.rows) * -(-n // tile.columns)
    parts = 1 if finish else _parts(device, tile, tiles, k)
    y = empty(device, (parts, math.prod(shape)), dtype)
    bias, activation, alpha = finish or Finish()
    steps = steps or (m * n, m * n, n)
    launch = _launch(
        device,
        dtype,
        tile,
        _reading_left(a, m, k),
        _reading_right(b, n, k),
        bias is not None,
        activation,
        _vector(dtype, n, y.size // parts, *steps),
    )
    tables = [(x or y).buffer for x in (a.rows, a.steps, b.rows, bias)]  # y is not read
    left = (a.outer, a.batch, a.row, a.step)
    right = (b.outer, b.batch, b.row, b.step)
    launch(
        z * m * n * k,
        tiles * parts * source.GROUP_ITEMS["gpu"],
        *(a.x.buffer, b.x.buffer, y.buffer, *tables),
        *(m, n, k, parts, inner, *left, *right, y.size // parts, *steps),
        *(a.image or Image()),
        alpha,
    )
    return y.view(shape) if parts == 1 else added(y, shape)


def _parts(device: Device, tile: Tile, tiles: int, k: int) -> int:
    """Return how many parts of ``k`` keep all units busy and preserve precision."""
    min_parts = -(-k // (tile.slices * SUM_MAX_STEPS))
    idle = UNIT_GROUPS * device.units // tiles
    return max(min_parts, min(idle, k // PART_MIN_STEPS), 1)


PART_MIN_STEPS = 2048  # steps per part; adding up parts takes a launch
UNIT_GROUPS = 3  # groups per unit: some compute while others wait for memory


# --- few rows -----------------------------------------------------------------------

THIN_MAX_ROWS = 8
WIDE_GROUP_ITEMS = 1024
# Neighboring items: DOT_LANES of them share a column, or ROW_LANES of them compute
# neighboring columns, up to 4 each.
DOT_LANES, ROW_LANES = 32, 8
THIN_PART_MIN_BYTES = 1 << 16  # right-matrix bytes; adding up parts takes a launch
THIN_ONE_LAUNCH_MAX_BYTES = 1 << 21


def suits_thin(sizes: tuple[int, int, int, int], b: Matrix) -> bool:
    """Return whether ``thin`` is faster: few rows, and contiguous rows or columns."""
    _, m, _, _ = sizes
    return m <= THIN_MAX_ROWS and b.rows is None and 1 in (b.row, b.step)


def thin(
    shape: Shape,
    sizes: tuple[int, int, int, int],
    a: Matrix,
    b: Matrix,
    finish: Finish | None = None,
) -> ClArray:
    """Return ``[z, m, k] @ [z, k, n]`` for few rows; see ``suits_thin``."""
    z, m, n, k = sizes
    device, dtype = a.x.device, a.x.dtype
    dots = b.row == 1 and b.step != 1
    vector = (
        _vector(dtype, k, b.step, b.batch)
        if dots
        else _vector(dtype, n, b.row, b.batch)
    )
    rows_contiguous = a.step == 1 and _vector(dtype, a.row, a.batch) == 4
    lanes = DOT_LANES if dots else ROW_LANES
    across = source.GROUP_ITEMS["gpu"] // lanes if dots else lanes * vector
    groups = z * -(-n // across)
    # Few groups of columns need many items that share the steps.
    max_group_items = device.info.handles[0].max_work_group_size
    use_wide_group = not dots and m <= 4 and groups <= 2 * device.units
    use_wide_group = use_wide_group and max_group_items >= WIDE_GROUP_ITEMS
    items = WIDE_GROUP_ITEMS if use_wide_group else source.GROUP_ITEMS["gpu"]
    parts = (
        1 if finish else _thin_parts(device, groups, n * k * dtype.itemsize // groups)
    )
    y = empty(device, (parts, math.prod(shape)), dtype)
    bias, activation, alpha = finish or Finish()
    flags = (dots, vector, rows_contiguous and vector == 4, bias is not None)
    launch = _thin(device, dtype, b.x.dtype, m, flags, activation, items)
    launch(
        z * m * n * k,
        groups * parts * items,
        *(a.x.buffer, b.x.buffer, y.buffer, (bias or y).buffer),
        *(n, k, parts, a.batch, a.row, a.step, b.batch, b.row, b.step),
        y.size // parts,
        alpha,
    )
    return y.view(shape) if parts == 1 else added(y, shape)


def _thin_parts(device: Device, groups: int, group_bytes: int) -> int:
    """Return the number of parts of ``k`` that keeps all compute units reading."""
    if groups * group_bytes <= THIN_ONE_LAUNCH_MAX_BYTES:
        return 1
    return max(1, min(device.units // groups, group_bytes // THIN_PART_MIN_BYTES))


@functools.cache
def _thin(
    device: Device,
    dtype: DType,
    matrix: DType,
    rows: int,
    flags: tuple[bool, int, bool, bool],
    activation: str,
    items: int,
) -> Launch:
    dots, vector, rows_contiguous, bias = flags
    values = formulae(dtype, activation) | reading(matrix == BFLOAT16)
    return source.kernel(
        device,
        "thin",
        "thin",
        items,
        M=rows,
        DOTS=dots,
        WIDE=vector,
        LANES=DOT_LANES if dots else ROW_LANES,
        ROWS_CONTIGUOUS=rows_contiguous,
        BIAS=bias,
        vector="float4" if dtype.kind == "c" else f"{source.C[dtype]}4",
        integer=source.SIGNED[dtype.itemsize],
        **values,
    )


# --- the size of tiles ----------------------------------------------------------------


@functools.cache
def chosen(
    device: Device, dtype: DType, precision: str, z: int, m: int, n: int, k: int
) -> Tile:
    """Return the largest tile size that gives the compute units enough tiles."""
    memory = device.info.handles[0].local_mem_size
    units = _units(device, precision) if dtype == np.float32 else 0
    fit = [t for t in TILES[units] if t.local_bytes(dtype.itemsize) <= memory]
    for tile in fit:
        tiles = z * -(-m // tile.rows) * -(-n // tile.columns)
        half_empty = tile.rows >= 2 * m or tile.columns >= 2 * n
        if tiles >= tile.busy * device.units and not half_empty:
            return tile
    return fit[-1]


def _units(device: Device, precision: str) -> int:
    """Return the TF32 products per float32 product; 0 without matrix units."""
    units = 1 if precision == "tf32" else requested()
    return units if units and has_matrix_units(device, units) else 0


@functools.cache
def _launch(
    device: Device,
    dtype: DType,
    tile: Tile,
    a: Reading,
    b: Reading,
    bias: bool,
    activation: str,
    y_vector: int,
) -> Launch:
    values: dict[str, Any] = formulae(dtype, activation)
    return source.kernel(
        device,
        "tiles",
        ROWS=tile.rows,
        COLUMNS=tile.columns,
        ITEM_ROWS=tile.item_rows,
        ITEM_COLUMNS=tile.item_columns,
        ITEMS_DOWN=tile.rows // tile.item_rows,
        ITEMS_ACROSS=tile.columns // tile.item_columns,
        WARPS_DOWN=tile.rows // (8 * tile.item_rows),
        WARPS_ACROSS=tile.columns // (4 * tile.item_columns),
        UNITS=tile.units,
        DEEP=tile.deep,
        GROUP_TILES=GROUP_TILES,
        A_TABLES=a.tables,
        A_ALONG_K=a.along_k,
        A_VECTOR=a.vector,
        B_TABLES=b.tables,
        B_ALONG_K=b.along_k,
        B_VECTOR=b.vector,
        Y_VECTOR=y_vector,
        BIAS=bias,
        VECTORS=dtype.kind != "c",
        vector="float4" if dtype.kind == "c" else f"{source.C[dtype]}4",
        integer=source.SIGNED[dtype.itemsize],
        **values,
    )


# --- matrix units -----------------------------------------------------------------

TF32 = "PLUGRAD_OPENCL_TF32"
AMPERE = 8  # the first compute capability with TF32
TRIAL_SIZE = 64
# The keys are ``units``. Rounding changes each factor by up to 2^-11 of its size, and
# results are sums of 64 terms whose absolute values are about 1.
TRIAL_TOLERANCE = {1: 2**-5, 3: 1e-5}


def requested() -> int:
    """Return the TF32 products per float32 product that the user asks for."""
    setting = os.environ.get(TF32, "") or "0"
    if setting not in map(str, TILES):
        raise ValueError(f"{TF32}={setting}: give 1 or 3, or unset it for float32")
    return int(setting)


def multiplies_halves(device: Device) -> bool:
    """Return whether matrix units multiply float32 numbers that come from bfloat16.

    The units read 11 significant bits, so that nothing is rounded.
    """
    return device.style == "gpu" and has_matrix_units(device, 1)


@functools.cache
def has_matrix_units(device: Device, units: int) -> bool:
    """Return whether the device has matrix units: compile and compare a product.

    Args:
        device: The device.
        units: The number of TF32 products that replace a float32 product.

    """
    handle = device.info.handles[0]
    if "cl_nv_device_attribute_query" not in handle.extensions:
        return False
    if handle.compute_capability_major_nv < AMPERE:
        return False
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, TRIAL_SIZE, TRIAL_SIZE), np.float32)
    a[0, 0], b[1, 1] = np.inf, np.nan  # row 0: infinite or NaN; column 1: NaN
    try:
        found = _trial(device, TILES[units][-1], a, b)
    except pg.BackendError:
        return False  # the compiler does not know the instruction
    expected = _trial(device, TILES[0][-1], a, b)
    error = TRIAL_TOLERANCE[units]
    return np.allclose(found, expected, rtol=error, atol=error, equal_nan=True)


def _trial(device: Device, tile: Tile, *matrices: Array) -> Array:
    arrays = ClArrays(device)
    a, b = [Matrix(cast("ClArray", arrays.upload(x)), TRIAL_SIZE) for x in matrices]
    sizes = (1, TRIAL_SIZE, TRIAL_SIZE, TRIAL_SIZE)
    return arrays.download(_computed(tile, matrices[0].shape, sizes, a, b))


# --- how matrices are read --------------------------------------------------------


def _reading_left(a: Matrix, m: int, k: int) -> Reading:
    dtype = a.x.dtype
    if a.rows is not None:
        return Reading(True, not a.down, _vector(dtype, a.run, a.batch))
    if a.step == 1:
        return Reading(False, True, _vector(dtype, k, a.row, a.batch, a.outer))
    down = a.row == 1
    vector = _vector(dtype, m, a.step, a.batch, a.outer) if down else 1
    return Reading(False, not down, vector)


def _reading_right(b: Matrix, n: int, k: int) -> Reading:
    dtype = b.x.dtype
    if b.rows is not None:
        return Reading(True, True, _vector(dtype, b.run, b.step, b.batch))
    if b.step == 1:
        return Reading(False, False, _vector(dtype, n, b.row, b.batch, b.outer))
    down = b.row == 1
    vector = _vector(dtype, k, b.step, b.batch, b.outer) if down else 1
    return Reading(False, True, vector)


def _vector(dtype: DType, *distances: int) -> int:
    """Return how many elements to read at once: 4 if it divides all ``distances``."""
    return 4 if dtype.kind != "c" and not any(d % 4 for d in distances) else 1


# --- tables -----------------------------------------------------------------------

MAX_PLACE = 1 << 15  # coordinates of sums of places are below this


@functools.lru_cache(256)
def places(device: Device, *axes: tuple[tuple[int, int], ...]) -> ClArray:
    """Return the sums of all combinations of pairs, one from each axis, as int32.

    Args:
        device: The device for the result.
        axes: Pairs of an offset and a place. A place is ``place(y, x)``.

    """
    pairs = [np.array(axis, np.int64).reshape(-1, 2) for axis in axes]
    start = np.zeros((), np.int64)
    offsets, found = (
        functools.reduce(np.add.outer, [pair[:, i] for pair in pairs], start)
        for i in (0, 1)
    )
    table = np.stack([offsets.ravel(), found.ravel()], axis=-1).astype(np.int32)
    return cast("ClArray", ClArrays(device).upload(table))


def place(y: int, x: int) -> int:
    """Return a place: two coordinates in one number. Places can be added."""
    return (y << 16) + x
