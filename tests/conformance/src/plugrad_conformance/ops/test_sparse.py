"""Sparse tensors: values compared with loops, gradients, decompositions."""

import re

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import runtime

from ..check import check_gradients
from ..toy import toy
from .moves import DTYPES, decomposed, listed, sample

sparse = pg.sparse

# --- to_dense --------------------------------------------------------------------

# Coordinates, the shapes of the values and the result; some coordinates repeat.
DENSE_CASES = [
    ([[0, 1], [2, 3], [1, 0]], (3,), (3, 4)),
    ([[0, 1], [0, 1], [1, 0], [0, 1]], (4,), (2, 2)),
    ([[0, 1], [1, 1]], (), (2, 2)),
    ([4, 0, 2], (3,), (6,)),
    (3, (), (5,)),
    (3, (1,), (5,)),
    (np.zeros((0, 2), np.int32), (0,), (2, 3)),
    (np.zeros((1, 0), np.int32), (1,), ()),
    (np.zeros((0, 1), np.int32), (), (0,)),
]
every_dense_case = pytest.mark.parametrize(
    ("places", "values_shape", "shape"), DENSE_CASES, ids=range(9)
)


def dense(places, values, shape, default):
    y = np.full(shape, default, values.dtype)
    places = np.asarray(places)
    places = places if places.ndim == 2 else places.reshape(-1, 1)
    for place, value in zip(places, np.broadcast_to(values, len(places)), strict=True):
        y[tuple(place)] = value
    return y


def check_dense(places, values_shape, shape, dtype):
    values = sample(values_shape, dtype)
    for at in (places, pg.asarray(np.asarray(places, np.int64))):
        y = sparse.to_dense(at, values, shape)
        np.testing.assert_array_equal(
            y.numpy(), dense(places, values, shape, 0), strict=True
        )
        y = sparse.to_dense(at, values, shape, default_value=np.array(1, dtype))
        np.testing.assert_array_equal(
            y.numpy(), dense(places, values, shape, 1), strict=True
        )


@every_dense_case
@pytest.mark.parametrize("dtype", DTYPES)
def test_to_dense(places, values_shape, shape, dtype, backend):
    check_dense(places, values_shape, shape, dtype)


@every_dense_case
def test_to_dense_decomposes(places, values_shape, shape):
    with decomposed("SparseToDense"):
        check_dense(places, values_shape, shape, "float32")


@every_dense_case
def test_gradients_of_to_dense(places, values_shape, shape, backend):
    f = lambda v, d: pg.square(sparse.to_dense(places, v, shape, default_value=d))
    check_gradients(f, np.cos(sample(values_shape)), 0.7)


def test_only_the_value_that_stays_has_a_gradient(backend):
    f = lambda v, d: sparse.to_dense([1, 1], v, 3, default_value=d)
    dv, dd = pg.grads(f)(pg.ones((2,)), 0.5, dy=pg.asarray([1.0, 2.0, 4.0]))
    assert (dv.tolist(), dd.item()) == ([0, 2], 5)


def test_to_dense_promotes_and_takes_strings(backend):
    y = sparse.to_dense([0], [1], 2, default_value=0.5)
    assert (y.dtype, y.tolist()) == (np.float32, [1, 0.5])
    assert sparse.to_dense([1], ["a"], 2).tolist() == [b"", b"a"]
    y = sparse.to_dense([1], ["a"], (2,), default_value="no")
    assert y.tolist() == [b"no", b"a"]
    assert sparse.to_dense([1], True, (2,)).tolist() == [False, True]


# --- reshape ---------------------------------------------------------------------

SHAPES = [
    ((3, 4), (2, 6), (2, 6)),
    ((2, 3, 4), (6, -1), (6, 4)),
    ((24,), (2, -1, 3), (2, 4, 3)),
    ((4, 6), (24,), (24,)),
    ((5,), (5,), (5,)),
    ((1, 1), (), ()),
    ((), (1, -1), (1, 1)),
    ((0, 3), (3, 0), (3, 0)),
]


def check_reshape(old, new, sizes, dtype):
    count = int(np.prod(old))
    order = np.random.default_rng(0).permutation(count)
    at = np.stack(np.unravel_index(order, old), -1) if old else np.zeros((count, 0))
    y, found_sizes = sparse.reshape(pg.asarray(at.astype(dtype)), old, list(new))
    expected = np.stack(np.unravel_index(order, sizes), -1) if sizes else order[:, None]
    expected = expected.reshape(count, len(sizes)) if sizes else expected[:, :0]
    np.testing.assert_array_equal(y.numpy(), expected.astype(dtype), strict=True)
    assert (found_sizes.dtype, found_sizes.tolist()) == (dtype, list(sizes))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize(("old", "new", "sizes"), SHAPES, ids=str)
def test_reshape(old, new, sizes, dtype, backend):
    check_reshape(old, new, sizes, dtype)


@pytest.mark.parametrize(("old", "new", "sizes"), SHAPES, ids=str)
def test_reshape_decomposes(old, new, sizes):
    with decomposed("SparseReshape"):
        check_reshape(old, new, sizes, "int32")


@pytest.mark.parametrize(
    "decomposed_kernels", [(), ("SparseReshape",)], ids=["cpu", "parts"]
)
def test_positions_beyond_32_bits(decomposed_kernels):
    at = np.array([[70000, 69999]])
    sizes = (100010, 70001)
    flat = 70000 * 70001 + 69999
    with (
        decomposed(*decomposed_kernels) if decomposed_kernels else pg.use_backend("cpu")
    ):
        y, found_sizes = sparse.reshape(at, sizes, (10, -1, 10001))
        assert (y.dtype, found_sizes.dtype) == (np.int32, np.int32)
        assert y.tolist() == [list(np.unravel_index(flat, found_sizes.tolist()))]
        with pytest.raises(OverflowError, match="fit into int32"):
            sparse.reshape(at, sizes, (-1,))
        y, found_sizes = sparse.reshape(pg.asarray(at), sizes, (-1,))
        assert (y.tolist(), found_sizes.tolist()) == ([[flat]], [100010 * 70001])


# --- fill_empty_rows -------------------------------------------------------------


def filled(indices, values, rows, default):
    """Fill empty rows one by one."""
    at = []
    y = []
    empty = []
    new_positions = [0] * len(indices)
    for row in range(rows):
        in_row = [i for i, place in enumerate(indices) if place[0] == row]
        empty.append(not in_row)
        for i in in_row:
            new_positions[i] = len(at)
            at.append(indices[i])
            y.append(values[i])
        if not in_row:
            at.append([row] + [0] * (len(indices[0]) - 1))
            y.append(default)
    return at, y, empty, new_positions


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_fill_empty_rows(seed, dtype, backend):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 20))
    rows = int(rng.integers(1, 9))
    at = rng.integers(0, rows, (count, seed % 3 + 1)).astype(dtype)
    values = rng.normal(size=count)
    sizes = [rows, 9, 9][: at.shape[1]]
    found = sparse.fill_empty_rows(pg.asarray(at), values, sizes, -1.0)
    expected = filled(at.tolist(), values.tolist(), rows, -1.0)
    assert [y.tolist() for y in found] == list(expected)
    assert [y.dtype for y in found] == [dtype, "float64", "bool", dtype]


def test_fill_rows_of_empty_tensors(backend):
    no_indices = np.zeros((0, 2), np.int32)
    found = sparse.fill_empty_rows(no_indices, np.zeros(0), [2, 3], 7.0)
    assert [y.tolist() for y in found] == [[[0, 0], [1, 0]], [7, 7], [True, True], []]
    found = sparse.fill_empty_rows(no_indices, np.zeros(0), [0, 3], 7.0)
    assert [y.shape for y in found] == [(0, 2), (0,), (0,), (0,)]


def test_fill_rows_with_strings(backend):
    found = sparse.fill_empty_rows([[1, 0]], ["a\0"], [2, 1], "b\0")
    assert found.values.tolist() == [b"b\0", b"a\0"]
    assert found.empty_row_indicator.tolist() == [True, False]


def test_gradients_of_fill_empty_rows(backend):
    at = [[3, 1], [1, 0], [3, 0], [0, 2]]
    f = lambda v, d: pg.square(sparse.fill_empty_rows(at, v, [6, 3], d).values)
    check_gradients(f, [0.5, -1.5, 2.0, 1.0], 0.7)
    without_empty_rows = lambda v, d: pg.square(
        sparse.fill_empty_rows(at, v, [4, 3], d).values
    )
    check_gradients(without_empty_rows, [0.5, -1.5, 2.0, 1.0], 0.7)


# --- segments --------------------------------------------------------------------

# The shape of the data, indices, ids, the requested number of segments.
SEGMENTS = [
    ((5,), [4, 0, 0], [0, 0, 1], None),
    ((5, 2), [4, 1, 0, 3], [0, 2, 2, 5], None),
    ((3, 2, 2), [0, 1, 2, 2, 1], [1, 1, 1, 3, 3], None),
    ((5, 2), [4, 1, 0, 3], [0, 2, 2, 5], 8),
    ((5, 2), [4, 1, 0, 3], [0, 2, 2, 5], 3),
    ((4, 2), [3, 2, 2], [1, 0, 1], 2),
    ((3, 0), [1, 2], [0, 1], None),
    ((3, 2), [], [], None),
    ((3, 2), [], [], 2),
]
every_segment_case = pytest.mark.parametrize(
    ("shape", "at", "ids", "count"), SEGMENTS, ids=range(9)
)


def segments(x, at, ids, count, mean):
    count = (ids[-1] + 1 if ids else 0) if count is None else count
    y = np.zeros((count, *x.shape[1:]), x.dtype)
    for segment in range(count):
        rows = [x[i] for i, j in zip(at, ids, strict=True) if j == segment]
        if rows:
            total = np.sum(rows, 0, dtype=x.dtype)
            y[segment] = total / len(rows) if mean else total
    return y


def check_segments(shape, at, ids, count, dtype):
    x = sample(shape, dtype)
    wide = x.astype(np.int32) if dtype == "bool" else x
    y = sparse.segment_sum(x, at, ids, num_segments=count)
    expected = segments(wide, at, ids, count, False)
    np.testing.assert_array_equal(y.numpy(), expected, strict=True)
    wide = x if x.dtype.kind in "fc" else x.astype(np.float32)
    at, ids = (pg.asarray(np.array(i, np.int64)) for i in (at, ids))
    y = sparse.segment_mean(x, at, ids, num_segments=count)
    expected = segments(wide, at.tolist(), ids.tolist(), count, True)
    np.testing.assert_allclose(
        y.numpy(), expected, rtol=1e-3 if dtype == "float16" else 1e-6, strict=True
    )


@every_segment_case
@pytest.mark.parametrize("dtype", DTYPES)
def test_segments(shape, at, ids, count, dtype, backend):
    check_segments(shape, at, ids, count, dtype)


@every_segment_case
@pytest.mark.parametrize("dtype", ["float16", "float32", "int32", "bool", "complex64"])
def test_segments_decompose(shape, at, ids, count, dtype):
    with decomposed("SparseSegmentSum", "SparseSegmentMean"):
        check_segments(shape, at, ids, count, dtype)


@every_segment_case
def test_gradients_of_segments(shape, at, ids, count, backend):
    x = np.cos(sample(shape))
    for op in (sparse.segment_sum, sparse.segment_mean):
        check_gradients(
            lambda x, op=op: pg.square(op(x, at, ids, num_segments=count)), x
        )


@pytest.mark.parametrize("decompose", [False, True])
def test_a_mean_of_float16_does_not_overflow(decompose):
    x = np.full((4, 1), 60000, np.float16)
    with decomposed("SparseSegmentMean") if decompose else pg.use_backend("cpu"):
        y = sparse.segment_mean(x, [0, 1, 2, 3], [0, 0, 0, 0])
    assert (y.dtype, y.tolist()) == (np.float16, [[60000.0]])


# --- errors ----------------------------------------------------------------------

X = sample((3, 2))
HUGE = np.full(3, 2**31)
ERRORS = [
    (
        lambda: sparse.to_dense([[0, 1]], [1], (3,)),
        ValueError,
        "sparse.to_dense: indices [n, k], values [n], default_value [] must fit shape "
        "(3,); got shapes (1, 2) and (1,) and ()",
    ),
    (lambda: sparse.to_dense([0], [1, 2], 3), ValueError, "(1, 1) and (2,) and ()"),
    (lambda: sparse.to_dense([0], [1], -3), ValueError, "shape -3 must not"),
    (lambda: sparse.to_dense([0], [1], 3, default_value=[1]), ValueError, "and (1,)"),
    (lambda: sparse.to_dense([0], [1], 2.5), TypeError, "shape must be integers"),
    (lambda: sparse.to_dense([0.5], [1], 2), TypeError, "indices must be integers"),
    (lambda: sparse.to_dense([0], ["a"], 2, default_value=1), TypeError, "holds both"),
    (lambda: sparse.reshape([0], [3], [3]), ValueError, "indices must have rank 2"),
    (lambda: sparse.reshape([[0]], 3, [3]), ValueError, "input_shape must have rank 1"),
    (lambda: sparse.reshape([[0]], [3], 3), ValueError, "new_shape must have rank 1"),
    (lambda: sparse.reshape([[0]], [3, 1], [3]), ValueError, "shapes (1, 1) and (2,)"),
    (lambda: sparse.reshape([[0]], [3], [2]), ValueError, "shape (3,) with 3 elements"),
    (
        lambda: sparse.reshape([[0]], [3], [-1, -1]),
        ValueError,
        "3 elements into (-1, -1)",
    ),
    (
        lambda: sparse.reshape(np.zeros((0, 2), int), [-1, -1], [1]),
        ValueError,
        "sparse.reshape: input_shape (-1, -1) must not be negative",
    ),
    (
        lambda: sparse.reshape([[2**30, 1, 5]], HUGE, HUGE),
        ValueError,
        "fewer than 2**63 elements",
    ),
    (lambda: sparse.fill_empty_rows([0], [1], [1], 0), ValueError, "indices must have"),
    (
        lambda: sparse.fill_empty_rows(np.zeros((0, 2), int), [], [-4, 2], 0),
        ValueError,
        "sparse.fill_empty_rows: the number of rows, -4, must not be negative",
    ),
    (
        lambda: sparse.fill_empty_rows([[0]], [1, 2], [1], 0),
        ValueError,
        "fill_empty_rows: indices [n, k], values [n], dense_shape [k], default_value "
        "[] must fit; got shapes (1, 1) and (2,) and (1,) and ()",
    ),
    (
        lambda: sparse.fill_empty_rows([[0]], [1], [1], [0]),
        ValueError,
        "default_value [] must fit; got shapes (1, 1) and (1,) and (1,) and (1,)",
    ),
    (
        lambda: sparse.fill_empty_rows(np.zeros((1, 0), int), [1], np.zeros(0, int), 0),
        ValueError,
        "a tensor without axes has no rows",
    ),
    (
        lambda: sparse.segment_sum(1.0, [], []),
        ValueError,
        "segment_sum: data must have rows, and indices as many elements as segment_ids"
        "; got shapes () and (0,) and (0,)",
    ),
    (
        lambda: sparse.segment_sum(X, [0], [0, 1]),
        ValueError,
        "as many elements as segment_ids; got shapes (3, 2) and (1,) and (2,)",
    ),
    (lambda: sparse.segment_sum(X, [[0]], [0]), ValueError, "indices must have rank 1"),
    (lambda: sparse.segment_sum(X, [0, 1], [1, 0]), ValueError, "negative or decrease"),
    (
        lambda: sparse.segment_mean(X, [0], [-1]),
        ValueError,
        "segment_mean: segment_ids",
    ),
    (
        lambda: sparse.segment_mean(X, [0], [0], num_segments=-1),
        ValueError,
        "num_segments -1 must be 0",
    ),
    (lambda: sparse.segment_sum(X, [0.5], [0]), TypeError, "indices must be integers"),
    (
        lambda: sparse.segment_sum(["a"], [0], [0]),
        TypeError,
        "no sparse.segment_sum of",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS, ids=range(len(ERRORS)))
def test_errors(call, error, message, backend):
    with pytest.raises(error, match=re.escape(message)):
        call()


OUT_OF_RANGE = [
    (lambda: sparse.to_dense([6], [1], 6), "sparse.to_dense: index 6 is out of range"),
    (lambda: sparse.to_dense([[0, -1]], [1], (2, 2)), "to_dense: index -1 .* axis 1"),
    (
        lambda: sparse.reshape([[3]], [3], [3]),
        "sparse.reshape: index 3 is out of range",
    ),
    (
        lambda: sparse.fill_empty_rows([[5, 0]], [1], [5, 5], 0),
        "sparse.fill_empty_rows: index 5 is out of range for axis 0 with size 5",
    ),
    (lambda: sparse.segment_sum(X, [3], [0]), "sparse.segment_sum: index 3 is out of"),
    (lambda: sparse.segment_mean(X, [-1], [0]), "sparse.segment_mean: index -1 is out"),
]


OUT_OF_RANGE += [
    (lambda: sparse.to_dense([[0, 7]], [1.0], (3, 3)), "to_dense: index 7 .* axis 1"),
    (
        lambda: sparse.reshape([[0, 7]], [3, 3], [9]),
        "sparse.reshape: index 7 is out of range for axis 1",
    ),
    (lambda: sparse.reshape([[1, -1]], [3, 3], [9]), "index -1 .* for axis 1"),
]
every_call_out_of_range = pytest.mark.parametrize(
    ("call", "message"), OUT_OF_RANGE, ids=range(len(OUT_OF_RANGE))
)


@every_call_out_of_range
def test_out_of_range(call, message, backend):
    """Asynchronous backends raise when a result is read."""
    with pytest.raises(IndexError):
        _ = [y.numpy() for y in listed(call())]


KERNELS = ("SparseToDense", "SparseReshape", "SparseSegmentSum", "SparseSegmentMean")


@every_call_out_of_range
@pytest.mark.parametrize("without", [(), KERNELS], ids=["kernel", "decomposition"])
def test_the_error_names_the_index_out_of_range(call, message, without):
    dtypes = runtime("cpu").dtypes
    error = pytest.raises(IndexError, match=message)
    with toy(without=without, dtypes=dtypes), pg.use_backend("toy"), error:
        call()
