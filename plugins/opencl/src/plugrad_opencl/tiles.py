"""Matrix products on GPUs: ``cl/tiles.cl``.

A work group computes a tile of the result. ``TILES`` are the sizes that there are, and
``chosen`` takes the one that keeps the device busy.

NVIDIA's matrix units multiply numbers of 11 significant bits (TF32). They are used on
request: under ``plugrad.precision("tf32")``, and with ``PLUGRAD_OPENCL_TF32=1``, the
inputs of float32 products are rounded to such numbers; with ``3``, a float32 is the sum
of two of them, and three products make one, whose error is up to 2^-21 instead of
2^-24. That is no float32: a product with the identity changes the last bit. Sums of
more than 32 products are in float32 in any case, because the units round towards zero.
OpenCL has no name for the units: the kernel contains PTX, which only NVIDIA's compiler
knows. 4096 x 4096 on an H100: 3.13 ms, with three products 2.34, with one 1.50.

Products of few rows are bound by reading the other matrix once: ``cl/thin.cl``.

Map: ``product``; ``thin``; ``chosen``; ``has_matrix_units``; how matrices are read;
``places``, tables of windows.
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
from .products import Finish, Image, Matrix, added, formulae
from .runtime import Device, Launch

Array = np.ndarray[Any, np.dtype[np.float32]]

GROUP_TILES = 16  # of the left matrix, one after the other
SUM_MAX_STEPS = 1 << 14  # of a slice; longer sums would lose digits


BUSY = 2 / 3  # tiles for each compute unit, unless a tile has another number


class Tile(NamedTuple):
    """What a work group computes.

    Attributes:
        rows, columns: Of the tile.
        item_rows, item_columns: Of an item, in registers.
        deep: Steps along k that are in local memory at once.
        units: How many products of matrix units make one of float32: 3, or 1 of
            rounded numbers; 0 without them.
        busy: How many there have to be for each compute unit. Then none has to be
            smaller.

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
        """How many items compute the same elements, each of some steps."""
        items = self.rows * self.columns // (self.item_rows * self.item_columns)
        return source.GROUP_ITEMS["gpu"] // items

    def local_bytes(self, itemsize: int) -> int:
        """Return the bytes of local memory that a group needs."""
        stages = 2 * self.deep * (self.rows + self.columns + 16)
        return max(stages, self.slices // 2 * self.rows * self.columns) * itemsize


# By how many products of matrix units make one of float32; 0 without them. From large
# to small: large ones read less memory, but each compute unit needs one.
# The numbers of ``busy`` with units=1 are between sizes measured on an H100.
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
        along_k: Whether neighbouring items read neighbours along k.
        vector: How many neighbours an item reads at once.

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
) -> ClArray:
    """Return ``[z, m, k] [z, k, n]``; no size is 0.

    Args:
        shape: Of the result.
        sizes: ``z m n k``.
        a: The left matrix.
        b: The right one.
        inner: How many matrices are ``batch`` apart; groups of so many are ``outer``
            apart.
        y_batch: How far apart the inner and the outer matrices of the result are; they
            are contiguous by default.
        y_row: How far apart its rows are.
        finish: What to do to the result.

    """
    tile = chosen(a.x.device, a.x.dtype, get_precision(), *sizes)
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
    """Return the product by tiles of this size; ``steps`` are those of the result."""
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
    """Return into how many parts to split ``k``, for all units and for precision."""
    long = -(-k // (tile.slices * SUM_MAX_STEPS))
    idle = UNIT_GROUPS * device.units // tiles
    return max(long, min(idle, k // PART_MIN_STEPS), 1)


PART_MIN_STEPS = 2048  # of a part: adding the parts takes a launch
UNIT_GROUPS = 3  # of a compute unit, so that some work while others wait for memory


# --- few rows -----------------------------------------------------------------------

THIN_MAX_ROWS = 8
WIDE_GROUP_ITEMS = 1024
# Items side by side: in a column, and in a row of LANES times 4 columns.
DOT_LANES, ROW_LANES = 32, 8
THIN_PART_MIN_BYTES = 1 << 16  # of the right matrix: adding the parts takes a launch
THIN_ONE_LAUNCH_MAX_BYTES = 1 << 21


def suits_thin(sizes: tuple[int, int, int, int], b: Matrix) -> bool:
    """Return whether ``thin`` is faster: few rows, and a matrix that lies in rows."""
    _, m, _, _ = sizes
    return m <= THIN_MAX_ROWS and b.rows is None and 1 in (b.row, b.step)


def thin(
    shape: Shape,
    sizes: tuple[int, int, int, int],
    a: Matrix,
    b: Matrix,
    finish: Finish | None = None,
) -> ClArray:
    """Return ``[z, m, k] [z, k, n]`` for few rows; see ``suits_thin``."""
    z, m, n, k = sizes
    device, dtype = a.x.device, a.x.dtype
    dots = b.row == 1 and b.step != 1
    wide = (
        _vector(dtype, k, b.step, b.batch)
        if dots
        else _vector(dtype, n, b.row, b.batch)
    )
    lie = a.step == 1 and _vector(dtype, a.row, a.batch) == 4
    lanes = DOT_LANES if dots else ROW_LANES
    across = source.GROUP_ITEMS["gpu"] // lanes if dots else lanes * wide
    groups = z * -(-n // across)
    # Few groups of columns need many items that share the steps.
    most = device.info.handles[0].max_work_group_size
    wider = not dots and m <= 4 and groups <= 2 * device.units
    wider = wider and most >= WIDE_GROUP_ITEMS
    items = WIDE_GROUP_ITEMS if wider else source.GROUP_ITEMS["gpu"]
    parts = (
        1 if finish else _thin_parts(device, groups, n * k * dtype.itemsize // groups)
    )
    y = empty(device, (parts, math.prod(shape)), dtype)
    bias, activation, alpha = finish or Finish()
    flags = (dots, wide, lie and wide == 4, bias is not None)
    launch = _thin(device, dtype, m, flags, activation, items)
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
    """Return into how many parts to split ``k``, so that all units read."""
    if groups * group_bytes <= THIN_ONE_LAUNCH_MAX_BYTES:
        return 1
    return max(1, min(device.units // groups, group_bytes // THIN_PART_MIN_BYTES))


@functools.cache
def _thin(
    device: Device,
    dtype: DType,
    rows: int,
    flags: tuple[bool, int, bool, bool],
    activation: str,
    items: int,
) -> Launch:
    dots, wide, rows_lie, bias = flags
    values: dict[str, Any] = formulae(dtype, activation)
    return source.kernel(
        device,
        "thin",
        "thin",
        items,
        M=rows,
        DOTS=dots,
        WIDE=wide,
        LANES=DOT_LANES if dots else ROW_LANES,
        ROWS_LIE=rows_lie,
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
    """Return the largest tile of which there are enough for the compute units."""
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
    """Return how many products of matrix units make one of float32; 0 without them."""
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
# Of the trial, by products. Rounding changes each factor by 2^-11, and results are sums
# of 64 terms of 1 or so.
TRIAL_TOLERANCE = {1: 2**-5, 3: 1e-5}


def requested() -> int:
    """Return how many TF32 products the user asks for in place of one of float32."""
    given = os.environ.get(TF32, "") or "0"
    if given not in map(str, TILES):
        raise ValueError(f"{TF32}={given}: give 1 or 3, or unset it for float32")
    return int(given)


@functools.cache
def has_matrix_units(device: Device, units: int) -> bool:
    """Return whether the device has them: compile a product, and compare it.

    Args:
        device: Where.
        units: How many products of them make one of float32.

    """
    handle = device.info.handles[0]
    if "cl_nv_device_attribute_query" not in handle.extensions:
        return False
    if handle.compute_capability_major_nv < AMPERE:
        return False
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, TRIAL_SIZE, TRIAL_SIZE), np.float32)
    a[0, 0], b[1, 1] = np.inf, np.nan  # its row is infinite or NaN, its column is NaN
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
    """Return how many elements may be read at once where these are multiples of it."""
    return 4 if dtype.kind != "c" and not any(d % 4 for d in distances) else 1


# --- tables -----------------------------------------------------------------------

MAX_PLACE = 1 << 15  # of a sum of places, on each axis


@functools.lru_cache(256)
def places(device: Device, *axes: tuple[tuple[int, int], ...]) -> ClArray:
    """Return all sums of an offset of each of the ``axes``, and of their places.

    Args:
        device: Where they are needed.
        axes: An offset and a place each. A place is ``place(y, x)``.

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
    """Return one number for both; the numbers of two places can be added."""
    return (y << 16) + x
