"""Sums by segment, for CPUs and GPUs; on GPUs, many rows are sorted first.

The file runs once more in a process that uses the kernels for GPUs.
"""

import numpy as np
import plugrad as pg
import pytest
from plugrad_opencl import segments

from tests.opencl.styles import run_as_gpu


@pytest.fixture(autouse=True)
def on_opencl():
    with pg.use_backend("opencl"):
        yield


def expected(x, ids, count):
    y = np.zeros((count, *x.shape[1:]), np.result_type(x.dtype, np.float64))
    good = (ids >= 0) & (ids < count)
    np.add.at(y, ids[good], x[good])
    return y.astype(x.dtype)


CASES = [  # rows, the rest of the shape, number of segments
    (1, (3,), 2),
    (600, (), 1),
    (4097, (5,), 3),
    (1023, (8,), 255),
    (5000, (33,), 256),
    (4096, (2, 2), 70_000),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize(("rows", "rest", "count"), CASES)
def test_sums(rows, rest, count, dtype):
    rng = np.random.default_rng(rows)
    x = (rng.normal(size=(rows, *rest)) * 9).astype(dtype)
    for integer in ("int32", "int64"):
        ids = rng.integers(-2, count + 2, rows).astype(integer)
        given = pg.asarray(x), pg.asarray(ids)
        y = pg.unsorted_segment_sum(*given, count)
        repeated = pg.unsorted_segment_sum(*given, count)
        np.testing.assert_array_equal(y.numpy(), repeated.numpy())
        exact = expected(x, ids, count)
        np.testing.assert_allclose(y.numpy(), exact, rtol=2e-7, atol=1e-5)


def test_complex_numbers_and_small_ids():
    x = np.arange(3000).astype(np.complex64) * (1 + 2j)
    ids = np.arange(3000).astype(np.int8)  # half of them negative
    y = pg.unsorted_segment_sum(pg.asarray(x), pg.asarray(ids), 100)
    wanted = [x[ids == i].sum() for i in range(100)]
    np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-6)


def test_no_digit_is_lost_in_long_segments():
    x = np.full((100_000, 2), 0.1, np.float32)
    x[::1000] = 1e6
    ids = np.zeros(len(x), np.int32)
    y = pg.unsorted_segment_sum(pg.asarray(x), pg.asarray(ids), 3).numpy()
    assert y[0].tolist() == x.sum(0, np.float64).astype(np.float32).tolist()
    assert not y[1:].any()


def test_infinities_and_nan_stay_in_their_segments():
    x = np.ones(2000, np.float32)
    x[[3, 4, 9]] = np.inf, np.nan, -np.inf
    ids = np.zeros(2000, np.int32)
    ids[[3, 4, 9]] = 1, 2, 3
    y = pg.unsorted_segment_sum(pg.asarray(x), pg.asarray(ids), 4).numpy()
    np.testing.assert_array_equal(y, np.float32([1997, np.inf, np.nan, -np.inf]))


def test_equal_rows_stay_in_order(device):
    if device.style != "gpu":
        return  # only GPUs sort, and this file also runs with their kernels
    rng = np.random.default_rng(0)
    for count in (200, 300, 70_000):
        ids = rng.integers(-1, count + 1, 9000).astype(np.int32)
        given = pg.asarray(ids)
        keys, order = segments._sorted(given._data, count)
        clean = np.where((ids < 0) | (ids >= count), count, ids)
        found = np.empty(9000, np.int32)
        device.read(found, order.buffer)
        np.testing.assert_array_equal(found, np.argsort(clean, kind="stable"))
        device.read(found, keys.buffer)
        np.testing.assert_array_equal(found, np.sort(clean))


def test_how_many_parts_a_sum_has():
    for rows, width, parts in [
        (0, 1, 1),
        (31, 1, 1),
        (32, 1, 2),
        (1 << 20, 1, 256),
        (1 << 20, 3, 64),
        (1 << 20, 100, 32),
    ]:
        assert segments._parts(rows, width) == parts


def test_this_file_with_the_kernels_for_gpus(request, device):
    if device.style != "gpu":
        run_as_gpu(__file__, request.config)
