"""Kernels that move elements, for CPUs and GPUs: values and numbers of launches.

The file runs once more in a process that uses the kernels for GPUs.
"""

import itertools

import numpy as np
import plugrad as pg
import pytest
from plugrad_opencl import joins, moves, runtime
from plugrad_opencl.kernels import gather

from tests.opencl.styles import run_as_gpu

DTYPES = ["bool", "int8", "uint16", "float32", "int64", "complex64"]  # all sizes
LENGTHS = (1, 3, 31, 33, 1023, 4097)


@pytest.fixture(autouse=True)
def on_opencl():
    with pg.use_backend("opencl"):
        yield


@pytest.fixture
def launched(monkeypatch):
    """Return a list to which launches append the names of their kernels."""
    names, call = [], runtime.Launch.__call__

    def recorded(self, *args):
        names.append(self._name)
        return call(self, *args)

    monkeypatch.setattr(runtime.Launch, "__call__", recorded)
    return names


@pytest.fixture
def large(monkeypatch):
    """Make kernels treat all arrays as large, with 64-bit offsets."""
    for module in (moves, joins, gather):
        monkeypatch.setattr(module, "LARGE_ELEMENTS", 1)


def draw(dtype, *shape):
    rng = np.random.default_rng(shape)
    if dtype == "complex64":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    return rng.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)


def assert_same(actual, expected):
    actual = actual.numpy()
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)


def check_joins(dtype, count, axis):
    shapes = np.full((count, 3), (5, 7, 3))
    shapes[:, axis] = np.arange(count) * 3 % 5  # sizes 0, 3, 1, 4, 2, 0, ...
    xs = [draw(dtype, *shape) for shape in shapes]
    y = pg.concat([pg.asarray(x) for x in xs], axis=axis)
    assert_same(y, np.concatenate(xs, axis))
    pieces = pg.split(y, shapes[:, axis].tolist(), axis=axis)
    for piece, x in zip(pieces, xs, strict=True):
        assert_same(piece, x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [1, 2, 3, 8, 9, 19])
def test_concat_and_split(dtype, count):
    for axis in range(3):
        check_joins(dtype, count, axis)


def test_64_bit_offsets(large):
    check_joins("float32", 5, 1)
    x = draw("float32", 33, 5, 40)
    for axes in itertools.permutations(range(3)):
        assert_same(pg.permute_dims(pg.asarray(x), axes), x.transpose(axes))
    assert_same(pg.asarray(x)[1:, ::-2, 1:], x[1:, ::-2, 1:])


@pytest.mark.parametrize("dtype", DTYPES)
def test_stack_and_unstack(dtype):
    x = draw(dtype, 4, 3, 8)
    for axis in range(4):
        y = pg.stack([pg.asarray(x), pg.asarray(x[::-1])], axis=axis)
        assert_same(y, np.stack([x, x[::-1]], axis))
        assert_same(pg.unstack(y, axis=axis)[1], x[::-1])


def test_numbers_of_launches_that_join_arrays(device, launched):
    gpu = device.style == "gpu"
    for count in (4, 8, 9, 17):
        xs = [pg.asarray(draw("float32", 6, 3)) for _ in range(count)]
        expected = -(-count // joins.MAX_ARRAYS) if gpu else count
        for join in (pg.concat, pg.stack):
            launched.clear()
            y = join(xs, axis=1)
            assert len(launched) == expected
        launched.clear()
        pg.unstack(y, axis=1)
        assert len(launched) == expected


SIDES = [(1, 7), (31, 33), (33, 31), (1023, 3), (3, 1023), (4097, 5), (2, 300)]
SIDES += [(64, 64), (300, 300), (16, 96)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_transposes(dtype):
    for sides in SIDES:
        x = draw(dtype, *sides)
        assert_same(pg.permute_dims(pg.asarray(x), (1, 0)), x.T)
    for shape in ((6, 10, 8), (3, 33, 2, 40)):
        x = draw(dtype, *shape)
        for axes in itertools.permutations(range(x.ndim)):
            assert_same(pg.permute_dims(pg.asarray(x), axes), x.transpose(axes))


def test_tiles_for_gpus_have_the_same_size_for_short_rows():
    for size, total in moves.TILE_ELEMENTS.items():
        for sides in SIDES:
            down, across = moves._tile(*sides, size)
            assert down * across == total
            local = across * (down + 1) * size
            assert local <= 32 << 10  # every device has that much local memory


PARTS = {
    "from 1": np.s_[1:],
    "to the last": np.s_[:-1],
    "backwards": np.s_[::-1],
    "steps": np.s_[::3],
    "steps backwards": np.s_[-2::-2],
}


@pytest.mark.parametrize("dtype", DTYPES)
def test_slices_with_unaligned_offsets(dtype):
    for n in LENGTHS:
        x = draw(dtype, n + 1)
        rows = draw(dtype, 3, n)
        for part in PARTS.values():
            assert_same(pg.asarray(x)[part], x[part])
            assert_same(pg.asarray(rows)[:, part], rows[:, part])
        assert_same(pg.asarray(rows)[1:], rows[1:])


@pytest.mark.parametrize("dtype", DTYPES)
def test_tile_and_broadcast(dtype):
    for n in LENGTHS:
        x = draw(dtype, 3, n)
        given = pg.asarray(x)
        assert_same(pg.tile(given, (2, 3)), np.tile(x, (2, 3)))
        assert_same(
            pg.broadcast_to(given[:, :1], (3, n)), np.broadcast_to(x[:, :1], (3, n))
        )
        y = pg.broadcast_to(pg.reshape(given, (3, 1, n)), (3, 2, n))
        assert_same(y, np.broadcast_to(x[:, None], (3, 2, n)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("integer", ["int8", "int32", "uint64"])
def test_rows_by_index(dtype, integer):
    for shape, axis in [((9, 1), 0), ((9, 4), 0), ((5, 9, 33), 1), ((7, 9, 16), 1)]:
        x = draw(dtype, *shape)
        at = draw(integer, 3, 11) % 9
        y = pg.gather(pg.asarray(x), pg.asarray(at), axis=axis)
        assert_same(y, x.take(at, axis))
    x = draw(dtype, 4, 2, 5, 8)
    at = draw(integer, 4, 2, 300) % 5
    y = pg.gather(pg.asarray(x), pg.asarray(at), axis=2, batch_dims=2)
    assert_same(y, np.take_along_axis(x, at[..., None].astype(int), 2))


def test_a_bad_index_among_many_is_reported_and_reads_zeros(large):
    x = pg.asarray(np.ones((10, 3), np.float32))
    at = np.zeros(3000, np.int32)
    at[2999] = 10
    how = {"axis": 0, "batch_dims": 0}
    y = pg.run_kernel("GatherV2", [x, pg.asarray(at)], how)
    with pytest.raises(IndexError, match="index 10 is out of range for axis 0"):
        y.numpy()
    found = y.numpy()
    assert found[:2999].all()
    assert not found[2999:].any()


def test_moves_that_keep_the_order_are_views(launched):
    values = draw("float32", 3, 1, 5)
    x = pg.asarray(values)
    for y in (
        pg.permute_dims(x, (1, 0, 2)),
        pg.broadcast_to(x, (3, 1, 5)),
        pg.tile(x, (1, 1, 1)),
        x[:, 0:1],
    ):
        assert_same(pg.reshape(y, values.shape), values)
    assert not set(launched) & {"copy", "transpose"}


def test_take_is_one_launch(launched):
    x = pg.asarray(draw("float32", 50, 8))
    at = pg.asarray(draw("int32", 7) - 50)
    for take in (
        lambda: pg.take(x, at, axis=0),
        lambda: pg.gather(x, at, axis=0),
        lambda: pg.take_along_axis(pg.reshape(x, (400,)), at),
    ):
        launched.clear()
        take().numpy()
        assert launched == ["gather"]


def test_this_file_with_the_kernels_for_gpus(request, device):
    if device.style != "gpu":
        run_as_gpu(__file__, request.config)


def test_valid_indices_are_not_checked_again():
    x = pg.asarray(draw("float32", 50, 8))
    at = pg.asarray([3, 49, 0])
    (device,) = runtime._DEVICES
    device.synchronize()
    pg.take(x, at, axis=0)
    assert len(device._checks) == 1
    device.synchronize()
    for same_size in (x, x + 1.0):
        y = pg.take(same_size, at, axis=0)
        assert not device._checks
        np.testing.assert_array_equal(y.numpy(), same_size.numpy()[at.numpy()])
    pg.take(x[:40], at, axis=0)  # for another size the indices may be invalid
    assert len(device._checks) == 1
    with pytest.raises(IndexError, match="axis 0 with size 40"):
        device.synchronize()
