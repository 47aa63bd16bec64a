"""Gathering by index, segment sums and one-hot, compared with NumPy and loops."""

from collections import Counter

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import contracts

from ..check import check_gradients, require_dtypes
from .moves import (
    DTYPES,
    Move,
    check_derivatives,
    check_values,
    decomposed,
    sample,
)

RNG = np.random.default_rng(0)


def gathered(x, indices, axis, batch):
    """Gather batch by batch."""
    if not batch:
        return np.take(x, indices, axis)
    if not x.size:
        return np.empty((*x.shape[:axis], *indices.shape[batch:]), x.dtype)
    pairs = zip(x, indices, strict=True)
    return np.stack([gathered(a, i, axis - 1, batch - 1) for a, i in pairs])


def gather(axis, batch, shape, indices):
    indices = np.asarray(indices)
    return Move(
        f"gather {shape} {indices.shape} axis={axis} batch_dims={batch}",
        lambda x: pg.gather(x, indices, axis=axis, batch_dims=batch),
        lambda x: gathered(x, indices, axis, batch),
        shape,
    )


FROM_END = np.array([[-1, 0], [1, -3]])  # some count from the end of an axis of size 3
MOVES = [
    gather(0, 0, (4, 3), [1, 1, 3, 0]),
    gather(1, 0, (2, 4, 3), [[3, 1, 0], [0, 0, 2]]),
    gather(2, 0, (2, 2, 3), 1),
    gather(0, 0, (4, 3), np.zeros((0, 2), np.int64)),
    gather(1, 1, (2, 3, 2), [[2, 2, 0], [1, 0, 1]]),
    gather(2, 1, (2, 3, 4, 2), [[3, 1], [0, 0]]),
    gather(2, 2, (2, 2, 3), RNG.integers(0, 3, (2, 2, 4, 2))),
    gather(3, 1, (2, 2, 2, 3), RNG.integers(0, 3, (2, 2, 2))),
    gather(1, 1, (2, 3), [0, 2]),
    gather(1, 1, (0, 3), np.zeros((0, 2), np.int32)),
    Move(
        "gather batch_dims=-1",
        lambda x: pg.gather(x, [[1, 0], [2, 2]], axis=-1, batch_dims=-1),
        lambda x: np.take_along_axis(x, np.array([[1, 0], [2, 2]]), 1),
        (2, 3),
    ),
    *[
        Move(
            f"gather from the end, {'host' if host else 'tensor'}, {batch}",
            lambda x, host=host, axis=axis, batch=batch: pg.gather(
                x,
                FROM_END if host else pg.asarray(FROM_END),
                axis=axis,
                batch_dims=batch,
            ),
            lambda x, axis=axis, batch=batch: gathered(x, FROM_END % 3, axis, batch),
            shape,
        )
        for axis, batch, shape in [(0, 0, (3, 2)), (1, 1, (2, 3, 2))]
        for host in (True, False)
    ],
    Move("take", lambda x: pg.take(x, [2, -1, -3]), lambda x: x[[2, -1, -3]], (3,)),
    Move(
        "take axis",
        lambda x: pg.take(x, pg.asarray([-1, 0]), axis=-2),
        lambda x: x[:, [-1, 0]],
    ),
    Move("take one", lambda x: pg.take(x, -1, axis=0), lambda x: x[-1]),
    Move(
        "take_along_axis",
        lambda x: pg.take_along_axis(x, pg.asarray([[[1], [-1], [0]]])),
        lambda x: np.take_along_axis(x, np.array([[[1], [-1], [0]]]), -1),
    ),
    Move(
        "take_along_axis 0",
        lambda x: pg.take_along_axis(x, np.array([[[-2]], [[0]], [[1]]]), axis=0),
        lambda x: np.take_along_axis(x, np.array([[[-2]], [[0]], [[1]]]), 0),
    ),
    Move(
        "take_along_axis broadcasts x",
        lambda x: pg.take_along_axis(x, np.array([[0, 1], [2, 2]]), axis=1),
        lambda x: np.take_along_axis(x.repeat(2, 0), np.array([[0, 1], [2, 2]]), 1),
        (1, 3),
    ),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("move", MOVES, ids=str)
def test_values(move, dtype, backend):
    check_values(move, dtype)


@pytest.mark.parametrize("move", MOVES, ids=str)
def test_gradients(move, backend):
    check_derivatives(move)


INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_all_integers_are_indices(dtype, backend):
    x = pg.asarray([1.0, 2.0, 3.0])
    for indices in (np.array([2, 0], dtype), pg.asarray(np.array([2, 0], dtype))):
        assert pg.gather(x, indices).tolist() == pg.take(x, indices).tolist() == [3, 1]
        assert pg.one_hot(indices, 3).tolist() == [[0, 0, 1], [1, 0, 0]]


@pytest.mark.parametrize("dtype", ["uint32", "int64", "uint64"])
@pytest.mark.parametrize("form", [np.asarray, pg.asarray], ids=["array", "tensor"])
def test_what_int32_cannot_hold_is_out_of_range(form, dtype, backend):
    """No index wraps, whether the backend has int64 or not."""
    require_dtypes(backend, *([dtype] if form is pg.asarray else []))
    huge_indices = [2**31 - 1, 2**31, 2**32 - 1] + [2**32, 2**63 - 1] * (
        dtype[-2:] == "64"
    )
    x = pg.asarray([1.0, 2.0, 3.0])
    for index in huge_indices:
        at = form(np.asarray([index, 2], dtype))
        with pytest.raises(IndexError):
            pg.gather(x, at).numpy()
        with pytest.raises(IndexError):
            pg.gather_nd(x, at[:, None]).numpy()
        with pytest.raises(IndexError):
            pg.scatter_nd(at[:, None], x[:2], (3,)).numpy()
        with pytest.raises(IndexError):
            pg.take_along_axis(x, at).numpy()
        assert pg.one_hot(at, 3).tolist() == [[0, 0, 0], [0, 0, 1]]
        assert pg.unsorted_segment_sum(x[:2], at, 3).tolist() == [0, 0, 2]
        assert pg.bincount(at, size=3).tolist() == [0, 0, 1]


def test_an_empty_list_is_a_list_of_integer_indices(backend):
    assert pg.gather(pg.asarray([1.0, 2.0]), []).shape == (0,)


OUT_OF_RANGE = [
    (
        lambda x, i: pg.gather(x, i),
        [0, 3],
        "gather: index 3 is out of range for axis 0",
    ),
    (lambda x, i: pg.gather(x, i), [0, -4], "gather: index -[14] is out of range"),
    (lambda x, i: pg.gather(x, i, axis=1), 2, "index 2 .* axis 1 with size 2"),
    (lambda x, i: pg.gather(x, i, axis=1, batch_dims=1), [[0], [1], [2]], "index 2"),
    (lambda x, i: pg.take(x, i, axis=0), [0, -4], "index -"),
    (lambda x, i: pg.take_along_axis(x, i), [[0], [2], [0]], "index 2 is out of range"),
]


@pytest.mark.parametrize(("op", "indices", "message"), OUT_OF_RANGE)
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_indices_out_of_range(op, indices, message, dtype):
    indices = np.array(indices, dtype)
    with pg.use_backend("cpu"):
        x = pg.asarray(sample((3, 2)))
        for given in (indices, pg.asarray(indices)):
            with pytest.raises(IndexError, match=message):
                op(x, given)


def test_unsigned_indices_do_not_wrap():
    with pg.use_backend("cpu"):
        x = pg.asarray([1.0, 2.0])
        for dtype in ("uint32", "uint64"):
            huge = np.array([np.iinfo(dtype).max], dtype)
            for given in (huge, pg.asarray(huge)):
                with pytest.raises(IndexError, match="is out of range"):
                    pg.gather(x, given)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint32", "int64"])
def test_run_kernel_accepts_indices_of_every_integer_dtype(dtype, backend):
    at = pg.asarray(np.array([2, 0, 2], dtype))
    read = {"axis": 0, "batch_dims": 0}
    loss = lambda x: pg.sum(pg.run_kernel("GatherV2", [x, at], read) ** 3)
    twice = pg.grad(lambda x: pg.sum(pg.grad(loss)(x)))(pg.ones(300))
    assert twice[:4].tolist() == [6, 0, 12, 0]
    loss = lambda x: pg.sum(
        pg.run_kernel("UnsortedSegmentSum", [x, at], {"num_segments": 300}) ** 2
    )
    assert pg.grad(loss)(pg.asarray([1.0, 2.0, 3.0])).tolist() == [8, 4, 8]


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
@pytest.mark.parametrize("count", [3, 3000])
def test_the_take_kernel_counts_negative_indices_from_the_end(dtype, count, backend):
    x = np.arange(900.0, dtype=np.float32).reshape(2, 150, 3)
    at = np.arange(2 * count).reshape(2, count) % 7
    at = (at if dtype == "uint8" else at - 3).astype(dtype)
    attrs = {"axis": 1, "batch_dims": 0}
    y = pg.run_kernel("Take", [pg.asarray(x), pg.asarray(at)], attrs)
    np.testing.assert_array_equal(y.numpy(), x.take(at, 1))
    y = pg.run_kernel(
        "Take", [pg.asarray(x), pg.asarray(at)], attrs | {"batch_dims": 1}
    )
    np.testing.assert_array_equal(
        y.numpy(), np.stack([a.take(i, 0) for a, i in zip(x, at, strict=True)])
    )
    loss = lambda x: pg.sum(pg.run_kernel("Take", [x, pg.asarray(at)], attrs) ** 2)
    expected = np.zeros_like(x)
    np.add.at(expected, (slice(None), at.ravel()), 2 * x.take(at.ravel(), 1))
    slope = pg.grad(loss)(pg.asarray(x))
    np.testing.assert_allclose(slope.numpy(), expected, rtol=1e-5)


def test_messages_show_a_bad_index_as_it_was_given(backend):
    x = pg.asarray([1.0, 2.0, 3.0])
    for bad in (-4, 3):
        at = pg.asarray([0, -3, bad])
        with pytest.raises(IndexError, match=f"index {bad} is out of range for axis 0"):
            pg.take(x, at).numpy()


def test_negative_int8_indices_are_not_read_as_large_ones():
    with pg.use_backend("cpu"):
        x = pg.asarray(np.arange(300.0))
        last = pg.asarray(np.array([-1], np.int8))
        with pytest.raises(IndexError, match="index -1 is out of range"):
            pg.run_kernel("GatherV2", [x, last], {"axis": 0, "batch_dims": 0})
        y = pg.run_kernel("UnsortedSegmentSum", [x[:1], last], {"num_segments": 300})
        assert not y.numpy().any()


# --- segments --------------------------------------------------------------------


def segment_sums(x, ids, count):
    y = np.zeros((count, *x.shape[ids.ndim :]), x.dtype)
    for at in np.ndindex(ids.shape):
        if 0 <= ids[at] < count:
            y[ids[at]] += x[at]
    return y


SEGMENTS = [
    ((5, 2), [1, 0, 1, 3, 1], 4),
    ((5,), [1, 0, -1, 3, 7], 3),
    ((2, 3, 2), [[1, 0, 1], [-2, 2, 5]], 3),
    ((4, 600), [1, 0, 1, -1], 2),
    ((40, 3), RNG.integers(-1, 3, 40), 2),
    ((3, 0), [0, 0, 1], 2),
    ((0, 2), np.zeros(0, np.int32), 3),
    ((3, 2), [0, 1, 0], 0),
    ((3, 40000), [2, 0, 2], 3),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int32", "complex64"])
@pytest.mark.parametrize(("shape", "ids", "count"), SEGMENTS, ids=str)
def test_segment_sums(shape, ids, count, dtype, backend):
    x = sample(shape, dtype)
    ids = np.asarray(ids)
    for id_type in ("int32", "int64"):
        y = pg.unsorted_segment_sum(x, ids.astype(id_type), count)
        np.testing.assert_array_equal(
            y.numpy(), segment_sums(x, ids, count), strict=True
        )


SMALL_SEGMENTS = [row for row in SEGMENTS if np.prod(row[0]) < 10000]


@pytest.mark.parametrize(("shape", "ids", "count"), SMALL_SEGMENTS, ids=str)
def test_gradients_of_segment_sums(shape, ids, count, backend):
    op = lambda x: pg.square(pg.unsorted_segment_sum(x, ids, count))
    check_gradients(op, np.sin(sample(shape)), rtol=1e-4)


def test_many_small_numbers_add_up():
    """Sums of float16, and of a million float32 numbers, lose no small summands."""
    with pg.use_backend("cpu"):
        ones = np.full(1_000_000, 0.1, np.float32)
        y = pg.unsorted_segment_sum(ones, np.arange(ones.size) % 2, 2)
        np.testing.assert_allclose(y.numpy(), ones[0] * 500_000.0, rtol=1e-6)
        half = pg.unsorted_segment_sum(np.ones(4096, np.float16), [0] * 4096, 4000)
        assert (half.dtype, half[0].item()) == (np.float16, 4096)


def test_bool_is_counted(backend):
    y = pg.unsorted_segment_sum([True, True, False], [0, 0, 1], 2)
    assert (y.dtype, y.tolist()) == (np.int32, [2, 0])


def test_nan_stays_in_its_segment(backend):
    x = pg.asarray([np.nan, 1.0, np.inf])
    y = pg.unsorted_segment_sum(x, [0, 1, 5], 2)
    np.testing.assert_array_equal(y.numpy(), [np.nan, 1.0])
    dy = pg.asarray([np.nan, 1.0])
    dx = pg.grad(lambda x: pg.unsorted_segment_sum(x, [1, 1, 5], 2))(x, dy=dy)
    assert dx.tolist() == [1.0, 1.0, 0.0]


def test_segment_sums_against_a_counter():
    ids = RNG.integers(-3, 50, 10_000)
    with pg.use_backend("cpu"):
        y = pg.unsorted_segment_sum(np.ones((10_000, 7), np.int32), ids, 45)
    counts = Counter(ids.tolist())
    assert y.tolist() == [[counts[i]] * 7 for i in range(45)]


# --- one-hot ---------------------------------------------------------------------

ONE_HOT_CASES = [
    ([1, 0, 3], 4, {}),
    ([[1, -1], [5, 2]], 3, {"on_value": 7, "off_value": -2, "dtype": "int32"}),
    ([[1, 0], [2, 2]], 3, {"axis": 0}),
    ([[1, 0], [2, 2]], 3, {"axis": 1, "dtype": "float64", "off_value": 0.5}),
    (2, 3, {"dtype": bool}),
    ([], 2, {}),
    ([0, 1], 0, {"dtype": "int8"}),
    ([0], 1, {"dtype": "complex64", "on_value": 2j}),
]


@pytest.mark.parametrize(("indices", "depth", "more"), ONE_HOT_CASES, ids=str)
def test_one_hot(indices, depth, more, backend):
    on = more.get("on_value", 1)
    off = more.get("off_value", 0)
    flat = np.asarray(indices, np.int32)
    expected = np.where(flat[..., None] == np.arange(depth), on, off)
    expected = np.moveaxis(expected, -1, more.get("axis", -1))
    expected = expected.astype(more.get("dtype", "float32"))
    y = pg.one_hot(indices, depth, **more)
    np.testing.assert_array_equal(y.numpy(), expected, strict=True)
    with decomposed("OneHot"):
        y = pg.one_hot(indices, depth, **more)
        np.testing.assert_array_equal(y.numpy(), expected, strict=True)


def test_gathers_and_segments_are_kernels_of_every_backend():
    for name in ("GatherV2", "UnsortedSegmentSum"):
        assert contracts()[name].decomposition is None


X = sample((2, 3))
ERRORS = [
    (
        lambda: pg.gather(X, [0.5]),
        TypeError,
        "gather: indices must be integers, got fl",
    ),
    (lambda: pg.gather(X, [True]), TypeError, "must be integers, got bool"),
    (lambda: pg.gather(1.0, [0]), ValueError, "axis 0 is out of range for rank 0"),
    (lambda: pg.gather(X, [[0]], batch_dims=1), ValueError, "batch_dims 1 must be at"),
    (lambda: pg.gather(X, [0], axis=1, batch_dims=2), ValueError, "at most axis 1"),
    (
        lambda: pg.gather(X, [[0]], axis=1, batch_dims=1),
        ValueError,
        "the first 1 axes",
    ),
    (lambda: pg.take(X, [0]), ValueError, r"take: x of shape \(2, 3\) must have one"),
    (
        lambda: pg.take(X, [5], axis=0),
        IndexError,
        "take: index 5 is out of range for a",
    ),
    (lambda: pg.take_along_axis(X, [0]), ValueError, "the ranks must be equal"),
    (
        lambda: pg.take_along_axis(X, X.T.astype(int) * 0, axis=0),
        ValueError,
        "broadcast",
    ),
    (
        lambda: pg.unsorted_segment_sum(X, [0], 2),
        ValueError,
        "must have the first axes",
    ),
    (lambda: pg.unsorted_segment_sum(X, 0, 2), ValueError, "must have the first axes"),
    (lambda: pg.unsorted_segment_sum(X, [0, 1], -1), ValueError, "-1 must be 0 or"),
    (
        lambda: pg.unsorted_segment_sum(X, [0, 1], 2.5),
        TypeError,
        "num_segments must be",
    ),
    (lambda: pg.one_hot([0.5], 2), TypeError, "one_hot: indices must be integers"),
    (lambda: pg.one_hot([0], -1), ValueError, "depth -1 must be 0 or more"),
    (lambda: pg.one_hot([0], 2, axis=2), ValueError, "axis 2 is out of range"),
    (
        lambda: pg.one_hot([0], 2, on_value=2.5, dtype=int),
        TypeError,
        "does not fit into",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call, error, message, backend):
    with pytest.raises(error, match=message):
        call()
