"""Matrix products and convolutions on GPUs, with tiles of each size."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import plugrad as pg
import pytest
from plugrad_opencl import tiles
from plugrad_opencl.kernels import KERNELS
from plugrad_opencl.tiles import TILES

ROOT = Path(__file__).parents[2]
LOCAL_BYTES = 48 << 10  # local memory of a work group on every NVIDIA GPU
H100_UNITS = 132
FLOAT32 = np.dtype(np.float32)


def in_gpu_style(call: str) -> None:
    """Run a function of this module in a process that uses the kernels for GPUs."""
    code = f"from tests.opencl import test_tiles as t; t.{call}; print('done')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {"PLUGRAD_OPENCL_STYLE": "gpu", "PLUGRAD_BACKEND": "opencl"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == "done\n"


def numbers(*shape: int) -> np.ndarray:
    """Return integers as float32, so that sums of products are exact."""
    rng = np.random.default_rng(sum(shape))
    return rng.integers(-8, 9, shape).astype(np.float32)


def check_products(tile: tiles.Tile, sizes: list[tuple[int, int, int]]) -> None:
    """Compare products of all sizes and transposes, computed with one tile."""
    tiles.chosen = lambda *_: tile
    tiles.suits_thin = lambda *_: False
    for m, n, k in sizes:
        check_layouts(numbers(m, k), numbers(k, n))


# Rows are read four elements at a time if their lengths are multiples of 4.
@pytest.mark.parametrize("tile", range(len(TILES[0])))
def test_products_of_each_tile(tile):
    in_gpu_style(
        f"check_products(t.TILES[0][{tile}], "
        "[(132, 136, 68), (129, 131, 33), (4, 4, 4), (1, 3, 5)])"
    )


def check_convolutions() -> None:
    """Compare values and gradients with those of cpu."""
    cases = [
        ((2, 9, 7, 4), (3, 3, 4, 8), 1, "same"),
        ((1, 8, 8, 3), (3, 3, 3, 5), 2, "same"),
        ((1, 7, 9, 4), (3, 3, 4, 4), 1, ((2, 1), (0, 3))),
        ((1, 11, 10, 8), (5, 3, 8, 4), (1, 3), "valid"),
        ((1, 6, 6, 4), (1, 1, 4, 4), 2, "valid"),
    ]
    for x_shape, f_shape, strides, pad in cases:
        x = numbers(*x_shape)
        f = numbers(*f_shape)

        def loss(x: pg.Tensor, f: pg.Tensor) -> pg.Tensor:
            y = pg.conv2d(x, f, strides=strides, pad=pad)  # noqa: B023
            return pg.sum(y * pg.asarray(numbers(*y.shape)))

        found = {}
        for backend in ("opencl", "cpu"):
            with pg.use_backend(backend):
                y, (dx, df) = pg.value_and_grad(loss, argnums=(0, 1))(x, f)
                found[backend] = [t.numpy() for t in (y, dx, df)]
        for one, other in zip(found["opencl"], found["cpu"], strict=True):
            np.testing.assert_array_equal(one, other, f"{x_shape} {f_shape} {pad}")


def test_convolutions():
    in_gpu_style("check_convolutions()")


def check_other_products() -> None:
    """Compare batches, long sums and other dtypes."""
    a = numbers(3, 1, 40, 24)
    b = numbers(4, 24, 20)
    np.testing.assert_array_equal(pg.matmul(a, b).numpy(), a @ b)
    a = numbers(20, 9000)
    b = numbers(9000, 20)
    np.testing.assert_array_equal(pg.matmul(a, b).numpy(), a @ b)
    for dtype in (np.int32, np.complex64):
        a = numbers(33, 17).astype(dtype)
        b = numbers(17, 40).astype(dtype)
        np.testing.assert_array_equal(pg.matmul(a, b).numpy(), a @ b)


def check_few_rows() -> None:
    """Compare all layouts, one launch and several parts, with and without a bias."""
    sizes = [(1, 100, 300), (3, 33, 1000), (8, 4, 5), (400, 1, 36), (9, 12, 40)]
    for m, n, k in sizes:
        check_layouts(numbers(m, k), numbers(k, n))
    check_layouts(*[numbers(5, 5).astype(np.complex64)] * 2)
    for parts in (1, 3):
        tiles._thin_parts = lambda *_, parts=parts: parts
        for kernel in KERNELS.values():
            getattr(kernel, "known", {}).clear()
        check_layouts(numbers(3, 1000), numbers(1000, 33))
        a = numbers(3, 2, 40)
        b = numbers(3, 40, 20)
        np.testing.assert_array_equal(pg.matmul(a, b).numpy(), a @ b)
    for transposed in (False, True):
        a = numbers(2, 40)
        b = numbers(40, 12)
        bias = numbers(12)
        y = pg.fused.matmul(
            a,
            b.T.copy() if transposed else b,
            transpose_b=transposed,
            bias=bias,
            activation="relu",
        )
        np.testing.assert_array_equal(y.numpy(), np.maximum(a @ b + bias, 0))


def check_layouts(a: np.ndarray, b: np.ndarray) -> None:
    """Compare products for all combinations of transposes."""
    for transpose_a, transpose_b in itertools.product((False, True), (False, True)):
        y = pg.matmul(
            a.T.copy() if transpose_a else a,
            b.T.copy() if transpose_b else b,
            transpose_a=transpose_a,
            transpose_b=transpose_b,
        )
        np.testing.assert_array_equal(y.numpy(), a @ b, f"{a.shape} {b.shape}")


def test_products_of_few_rows():
    in_gpu_style("check_few_rows()")


@pytest.mark.parametrize(
    ("groups", "group_bytes", "parts"),
    [(128, 1 << 19, 1), (32, 1 << 19, 4), (32, 1 << 12, 1), (4, 1 << 20, 16)],
)
def test_few_columns_are_split_where_that_pays(groups, group_bytes, parts):
    assert tiles._thin_parts(device(), groups, group_bytes) == parts


def test_batches_and_dtypes():
    in_gpu_style("check_other_products()")


class FakeDevice(SimpleNamespace):
    """The attributes of a device that ``chosen`` reads."""

    __hash__ = object.__hash__


def device(extensions: str = "", capability: int = 0) -> FakeDevice:
    """Return a fake H100, without matrix units unless the extension is given."""
    handle = SimpleNamespace(
        local_mem_size=LOCAL_BYTES,
        extensions=extensions,
        compute_capability_major_nv=capability,
    )
    return FakeDevice(units=H100_UNITS, info=SimpleNamespace(handles=[handle]))


@pytest.mark.parametrize("tile", [tile for group in TILES.values() for tile in group])
def test_a_tile_fits_into_local_memory(tile):
    assert tile.local_bytes(4) <= LOCAL_BYTES
    assert tile.slices in (1, 2, 4, 8)
    if tile.units:  # an instruction sums 8 products; a warp has 8 by 4 work items
        assert tile.deep // tile.slices % 8 == 0
        assert tile.rows % (8 * tile.item_rows) == 0
        assert tile.columns % (4 * tile.item_columns) == 0


@pytest.mark.parametrize(
    ("sizes", "tile"),
    [
        ((1, 4096, 4096, 4096), TILES[0][0]),
        ((1, 1024, 1024, 1024), TILES[0][1]),
        ((1, 512, 512, 512), TILES[0][2]),
        ((1, 3136, 64, 576), TILES[0][2]),
        ((1, 8, 8, 8), TILES[0][-1]),
    ],
)
def test_the_largest_tile_that_keeps_the_device_busy_is_chosen(sizes, tile):
    for precision in ("float32", "tf32"):  # the same without matrix units
        found = tiles.chosen.__wrapped__(device(), FLOAT32, precision, *sizes)
        assert found == tile


SIZES_TF32 = {
    (1, 4096, 4096, 4096): TILES[1][0],
    (1, 2048, 2048, 2048): TILES[1][0],
    (1, 1024, 1024, 1024): TILES[1][2],
    (1, 512, 512, 512): TILES[1][2],
    (1, 25088, 64, 576): TILES[1][1],
    (1, 8, 8, 8): TILES[1][-1],
}


@pytest.mark.parametrize("sizes", SIZES_TF32)
def test_tf32_has_tiles_with_one_product(sizes, monkeypatch):
    monkeypatch.setattr(tiles, "has_matrix_units", lambda device, units: True)
    choose = tiles.chosen.__wrapped__
    assert choose(device(), FLOAT32, "tf32", *sizes) == SIZES_TF32[sizes]
    assert choose(device(), FLOAT32, "float32", *sizes).units == 0
    assert choose(device(), np.dtype(np.int32), "tf32", *sizes).units == 0


@pytest.mark.parametrize(
    ("precision", "requested", "working", "units"),
    [
        ("float32", "", {1, 3}, 0),
        ("float32", "1", {1, 3}, 1),
        ("float32", "3", {1, 3}, 3),
        ("float32", "3", {1}, 0),
        ("tf32", "", {1, 3}, 1),
        ("tf32", "3", {1, 3}, 1),
        ("tf32", "", {3}, 0),
    ],
)
def test_matrix_units_are_used_on_request(
    precision, requested, working, units, monkeypatch
):
    monkeypatch.setenv(tiles.TF32, requested)
    monkeypatch.setattr(tiles, "has_matrix_units", lambda _, units: units in working)
    sizes = 1, 4096, 4096, 4096
    choose = tiles.chosen.__wrapped__
    assert choose(device(), FLOAT32, precision, *sizes).units == units
    assert not choose(device(), np.dtype(np.int32), precision, *sizes).units


def check_records_of_each_precision() -> None:
    """Check that launches recorded for one precision are not replayed for another.

    Every call that does not replay launches chooses tiles.
    """
    found, choose = [], tiles.chosen

    def record_and_choose(device, dtype, precision, *sizes):
        found.append(precision)
        return choose(device, dtype, precision, *sizes)

    tiles.chosen = record_and_choose
    f = numbers(3, 3, 4, 8)
    x = numbers(1, 6, 6, 4)
    w = numbers(8, 12)
    for op, a, b in ((pg.matmul, numbers(20, 8), w), (pg.conv2d, x, f)):
        for wrapped in (op, pg.jit(lambda a, b, op=op: op(a, b))):
            found.clear()
            results = []
            for name in ["float32"] * 6 + ["tf32"] * 6 + ["float32", "tf32"]:
                with pg.precision(name):
                    results.append(wrapped(pg.asarray(a), pg.asarray(b)).numpy())
            assert all(np.array_equal(y, results[0]) for y in results)
            # Only the first calls of each precision choose tiles, not the last ones.
            assert [name for name, _ in itertools.groupby(found)] == ["float32", "tf32"]


def test_each_precision_has_its_own_records():
    in_gpu_style("check_records_of_each_precision()")


def check_halves() -> None:
    """Check which precision products of bfloat16 ask for, and what they give.

    The units do not exist here: a tile without them computes the same numbers.
    """
    found = []

    def choose(device, dtype, precision, *sizes):
        found.append(precision)
        return TILES[0][-1]

    tiles.chosen = choose
    a, b = numbers(20, 40), numbers(40, 24)
    halves = [pg.asarray(x, dtype="bfloat16") for x in (a, b)]
    rounded = (a @ b).astype(pg.bfloat16)
    for has_units in (False, True):
        tiles.has_matrix_units = lambda device, units, found=has_units: found
        found.clear()
        y = pg.matmul(*halves, preferred_element_type="float32")
        np.testing.assert_array_equal(y.numpy(), a @ b)
        turned = pg.matmul(halves[1], halves[0], transpose_a=True, transpose_b=True)
        np.testing.assert_array_equal(turned.numpy(), rounded.T)
        batch = pg.matmul(pg.stack(halves[:1] * 2), pg.stack(halves[1:] * 2))
        np.testing.assert_array_equal(batch.numpy()[1], rounded)
        assert found == ["tf32" if has_units else "float32"] * 3
        KERNELS["BatchMatMul"].known.clear()
        KERNELS["MixedMatMul"].known.clear()
        wide = pg.matmul(a, b)
        np.testing.assert_array_equal(wide.numpy(), a @ b)
        assert found[-1] == "float32"


def test_bfloat16_uses_matrix_units():
    in_gpu_style("check_halves()")


def check_convolutions_of_halves() -> None:
    """Check convolutions of bfloat16 and their gradients, as in ``check_halves``."""
    found = []

    def choose(device, dtype, precision, *sizes):
        found.append(precision)
        return TILES[0][-1]

    tiles.chosen = choose
    xs = numbers(2, 9, 9, 8), numbers(3, 3, 8, 12)
    bias = numbers(12)
    halves = [pg.asarray(x, dtype="bfloat16") for x in xs]
    convolve = lambda x, w: pg.conv2d(x, w, pad="same", strides=2)
    with pg.use_backend("cpu"):
        y, pull = pg.vjp(convolve, *xs)
        dy = numbers(*y.shape)
        fused = pg.fused.conv2d(*xs, bias, activation="relu").numpy()
        expected = [x.numpy() for x in (y, *pull(pg.asarray(dy)))]
    product = np.maximum(numbers(20, 16) @ numbers(16, 24), 0)
    for has_units in (False, True):
        tiles.has_matrix_units = lambda device, units, found=has_units: found
        for kernel in KERNELS.values():
            getattr(kernel, "known", {}).clear()
        found.clear()
        y, pull = pg.vjp(convolve, *halves)
        results = [y, *pull(pg.asarray(dy, dtype="bfloat16"))]
        narrow_bias = pg.asarray(bias, dtype="bfloat16")
        results.append(pg.fused.conv2d(*halves, narrow_bias, activation="relu"))
        for result, value in zip(results, [*expected, fused], strict=True):
            np.testing.assert_array_equal(result.numpy(), value.astype(pg.bfloat16))
        matrices = [
            pg.asarray(numbers(*shape), dtype="bfloat16")
            for shape in ((20, 16), (16, 24))
        ]
        y = pg.fused.matmul(*matrices, activation="relu")
        np.testing.assert_array_equal(y.numpy(), product.astype(pg.bfloat16))
        assert {*found} == {"tf32" if has_units else "float32"}


def test_convolutions_of_bfloat16_use_matrix_units():
    in_gpu_style("check_convolutions_of_halves()")


def test_float64_has_tiles_that_fit():
    found = tiles.chosen.__wrapped__(
        device(), np.dtype(np.float64), "tf32", 1, 4096, 4096, 4096
    )
    assert found.local_bytes(8) <= LOCAL_BYTES


@pytest.mark.parametrize("units", [1, 3])
@pytest.mark.parametrize(
    ("extensions", "capability"), [("", 9), ("cl_nv_device_attribute_query", 7)]
)
def test_only_nvidia_gpus_from_ampere_on_have_matrix_units(
    extensions, capability, units
):
    has = tiles.has_matrix_units.__wrapped__
    assert not has(device(extensions, capability), units)


def test_an_invalid_request_is_an_error(monkeypatch):
    monkeypatch.setenv(tiles.TF32, "2")
    with pytest.raises(ValueError, match="PLUGRAD_OPENCL_TF32=2: give 1 or 3"):
        tiles.requested()


def test_a_place_has_two_numbers():
    assert tiles.place(3, 5) + tiles.place(-1, 2) == tiles.place(2, 7)
