"""Ragged tensors: values compared with lists of lists, gradients, errors."""

import re
from itertools import pairwise

import numpy as np
import plugrad as pg
import pytest

from ..check import check_gradients
from .moves import DTYPES, sample

sparse = pg.sparse


def nested(levels, values):
    """Return a ragged tensor as lists of lists."""
    rows = list(values)
    for splits in reversed(levels):
        ends = list(splits)
        rows = [rows[b:e] for b, e in pairwise(ends)]
    return rows


def picked(rows, indices):
    if isinstance(indices, list):
        return [picked(rows, i) for i in indices]
    return rows[indices]


# --- gather ----------------------------------------------------------------------

GATHER_CASES = [
    ([[0, 3, 3, 7, 9]], (9,), [2, 1, 0, 3]),
    ([[0, 3, 3, 7, 9]], (9, 2), [3, 3, 1]),
    ([[0, 3, 3, 7, 9]], (9,), [[2, 1], [0, 3], [0, 0]]),
    ([[0, 3, 3, 7, 9]], (9,), [[[2, 1]], [[0, 3]]]),
    ([[0, 3, 3, 7, 9]], (9,), []),
    ([[0, 1, 3, 3, 5, 6], [0, 0, 2, 3, 5, 8, 9]], (9,), [2, 1, 0, 2, 3]),
    ([[0, 2, 3], [0, 1, 1, 3], [0, 4, 4, 6]], (6,), [[1], [0]]),
    ([[0]], (0,), []),
    ([[0, 3, 3, 7, 9]], (9,), 2),
    ([[0, 3, 3, 7, 9]], (9, 2), 1),
    ([[0, 1, 3, 3, 5, 6], [0, 0, 2, 3, 5, 8, 9]], (9,), 3),
]
every_gather_case = pytest.mark.parametrize(
    ("levels", "shape", "indices"), GATHER_CASES, ids=range(len(GATHER_CASES))
)


@every_gather_case
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("splits", ["int32", "int64"])
def test_ragged_gather(levels, shape, indices, dtype, splits, backend):
    x = sample(shape, dtype)
    given = [pg.asarray(np.array(level, splits)) for level in levels]
    outer, inner = sparse.ragged_gather(given, x, indices)
    assert len(outer) == len(levels) + np.ndim(indices) - 1
    assert all(s.dtype == np.dtype(splits) for s in outer)
    assert inner.dtype == x.dtype
    found = nested([s.tolist() for s in outer], inner.tolist())
    assert found == picked(nested(levels, x.tolist()), indices)


@every_gather_case
def test_gradients_of_ragged_gather(levels, shape, indices, backend):
    f = lambda x: pg.square(sparse.ragged_gather(levels, x, indices)[1])
    check_gradients(f, np.cos(sample(shape)))


def test_ragged_gather_takes_text(backend):
    outer, inner = sparse.ragged_gather([[0, 1, 3]], ["a", "b", "c"], [1])
    assert (outer[0].tolist(), inner.tolist()) == ([0, 2], [b"b", b"c"])


# --- range -----------------------------------------------------------------------

RANGES = [
    ([0, 5, 8, 5], [8, 7, 8, 1], [2, 1, 1, -1]),
    (0, [3, 0, 2], 1),
    (0, 12, [3, 4, 5]),
    ([0, 5], [5, 0], -2),
    (3, 10, 3),
    ([5], 5, 1),
    ([], 5, 1),
    (10, 0, -3),
]


@pytest.mark.parametrize(("starts", "limits", "deltas"), RANGES, ids=range(8))
@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "int8", "int32", "int64", "uint8"]
)
def test_ragged_range(starts, limits, deltas, dtype, backend):
    if dtype == "uint8" and np.min(deltas) < 0:
        pytest.skip("no negative delta fits into uint8")
    given = [np.asarray(x, dtype) for x in (starts, limits, deltas)]
    splits, values = sparse.ragged_range(*given)
    rows = np.broadcast(*np.atleast_1d(*given)) if np.size(starts) else []
    expected = [list(range(int(a), int(b), int(c))) for a, b, c in rows]
    assert (splits.dtype, values.dtype) == (np.int32, np.dtype(dtype))
    assert nested([splits.tolist()], values.tolist()) == expected


def test_ranges_of_fractions_and_extreme_integers(backend):
    splits, values = sparse.ragged_range([0.0, 1.0], [1.0, 0.0], [0.3, -0.4])
    np.testing.assert_allclose(values.numpy(), [0, 0.3, 0.6, 0.9, 1, 0.6, 0.2], 1e-6)
    assert splits.tolist() == [0, 4, 7]
    limits = np.iinfo(np.int64)
    step = 2**62
    splits, values = sparse.ragged_range(
        *(pg.asarray(np.array(x)) for x in (limits.min, limits.max, step))
    )
    assert values.tolist() == [-(2**63), -step, 0, step]
    _, values = sparse.ragged_range(
        np.uint64(0), np.uint64(2**64 - 1), np.uint64(2**63)
    )
    assert values.tolist() == [0, 2**63]
    _, values = sparse.ragged_range(pg.asarray([1.5, 2.5]), 4.0)
    assert values.tolist() == [1.5, 2.5, 3.5, 2.5, 3.5]


def test_gradients_of_ragged_range(backend):
    f = lambda a, b, c: pg.square(sparse.ragged_range(a, b, c)[1])
    check_gradients(f, [0.1, 5.2], [2.55, 1.1], [0.5, -1.3])
    check_gradients(f, 0.1, [2.55, 1.1, -1.0], 0.4)
    check_gradients(f, 0.1, 1.25, 0.4)


# --- dense -----------------------------------------------------------------------


def padded(rows, sizes, default):
    """Cut and pad lists of lists to a shape."""
    if not sizes:
        return rows
    rows = rows[: sizes[0]]
    blank = np.broadcast_to(default, sizes[1:])
    return [padded(row, sizes[1:], default) for row in rows] + [blank.tolist()] * (
        sizes[0] - len(rows)
    )


BY_IDS = "FIRST_DIM_SIZE VALUE_ROWIDS"
BY_SPLITS = "ROW_SPLITS"
IDS = [0, 0, 0, 2, 2, 2, 2, 3, 3]
OFFSETS = [0, 3, 3, 7, 9]
# Partitions, their types, the same partitions as splits, the requested shapes.
DENSE = [
    ([4, IDS], BY_IDS, [OFFSETS], [(4, 4), (3, 5), (6, 2), (-1, -1), (0, 3), (3, 0)]),
    ([OFFSETS], BY_SPLITS, [OFFSETS], [(4, 4), (3, 5), (-1, 2), -1]),
    ([5, IDS], BY_IDS, [[*OFFSETS, 9]], [(-1, -1), (5, 3)]),
    (
        [[0, 1, 3, 3, 5, 6], [0, 0, 2, 3, 5, 8, 9]],
        "ROW_SPLITS ROW_SPLITS",
        [[0, 1, 3, 3, 5, 6], [0, 0, 2, 3, 5, 8, 9]],
        [(5, 2, 3), (4, 1, 2), (-1, -1, -1), (6, 3, 4)],
    ),
    (
        [5, [0, 1, 1, 3, 3, 4], [1, 1, 2, 3, 3, 4, 4, 4, 5]],
        "FIRST_DIM_SIZE VALUE_ROWIDS VALUE_ROWIDS",
        [[0, 1, 3, 3, 5, 6], [0, 0, 2, 3, 5, 8, 9]],
        [(5, 2, 3), (4, 1, 2), -1],
    ),
    (
        [3, [0, 2, 2, 4], [0, 0, 1, 1, 1, 2, 2, 3, 3]],
        "FIRST_DIM_SIZE ROW_SPLITS VALUE_ROWIDS",
        [[0, 2, 2, 4], [0, 2, 5, 7, 9]],
        [(3, 2, 3), (-1, 1, -1)],
    ),
    ([9], "FIRST_DIM_SIZE", [], [(9,), (5,), (11,), -1]),
]
DENSE_CASES = [
    (parts, types.split(), splits, shape)
    for parts, types, splits, shapes in DENSE
    for shape in shapes
]
every_inner_shape = pytest.mark.parametrize("inner", [(), (2,)], ids=["", "inner"])
every_dense_case = pytest.mark.parametrize(
    ("parts", "types", "splits", "shape"), DENSE_CASES, ids=range(len(DENSE_CASES))
)


def with_inner_axes(shape, inner):
    return shape if shape == -1 else (*shape, *inner)


@every_dense_case
@every_inner_shape
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "complex64"])
def test_ragged_tensor_to_tensor(parts, types, splits, shape, inner, dtype, backend):
    x = sample((9, *inner), dtype)
    default = np.array(50, dtype)
    y = sparse.ragged_tensor_to_tensor(
        with_inner_axes(shape, inner), x, default, parts, types
    )
    rows = nested(splits, x.tolist())
    smallest_shape = [len(rows)]
    for level in splits:
        smallest_shape.append(max(np.diff(level), default=0))
    sizes = (
        smallest_shape
        if shape == -1
        else [n if s < 0 else s for s, n in zip(shape, smallest_shape, strict=True)]
    )
    sizes = (*map(int, sizes), *inner)
    assert (y.dtype, y.shape) == (x.dtype, sizes)
    assert y.tolist() == padded(rows, sizes, default)


@every_dense_case
@every_inner_shape
def test_gradients_of_ragged_tensor_to_tensor(
    parts, types, splits, shape, inner, backend
):
    sizes = with_inner_axes(shape, inner)
    f = lambda x, d: pg.square(
        sparse.ragged_tensor_to_tensor(sizes, x, d, parts, types)
    )
    check_gradients(f, np.cos(sample((9, *inner))), np.full(inner, 0.7))
    if inner:
        check_gradients(f, np.cos(sample((9, *inner))), 0.7)


def test_rows_that_are_cut_off_take_no_memory(backend):
    types = ["FIRST_DIM_SIZE", "VALUE_ROWIDS"]
    parts = [2**31 - 1, [0, 0, 2**31 - 2]]
    y = sparse.ragged_tensor_to_tensor((1, 3), [1, 2, 3], 0, parts, types)
    assert y.tolist() == [[1, 2, 0]]


def test_ragged_to_dense_promotes_and_takes_text(backend):
    y = sparse.ragged_tensor_to_tensor(-1, [1, 2, 3], 0.5, [[0, 1, 3]], [BY_SPLITS])
    assert (y.dtype, y.tolist()) == (np.float32, [[1, 0.5], [2, 3]])
    y = sparse.ragged_tensor_to_tensor(
        -1, ["a", "b", "c\0"], "", [[0, 1, 3]], [BY_SPLITS]
    )
    assert y.tolist() == [[b"a", b""], [b"b", b"c\0"]]


# --- errors ----------------------------------------------------------------------

X = sample((9,))
SIZE = "FIRST_DIM_SIZE"
gather = sparse.ragged_gather
dense = lambda shape, parts, types, x=X, d=0.0: sparse.ragged_tensor_to_tensor(
    shape, x, d, parts, types.split()
)
ERRORS = [
    (lambda: gather([], X, [0]), ValueError, "pass one or more splits (got 0), and"),
    (lambda: gather([[0, 9]], 1.0, [0]), ValueError, "values with an axis; got shape"),
    (lambda: gather([[0, 9]], X, 1), IndexError, "index 1 is out of range"),
    (lambda: gather([[[0, 9]]], X, [0]), ValueError, "nested_splits must have rank 1"),
    (lambda: gather([[0.0, 9.0]], X, [0]), TypeError, "must be integers, got float32"),
    (lambda: gather([[0, 3, 2, 9]], X, [0]), ValueError, "must begin with 0, not decr"),
    (lambda: gather([[1, 3, 9]], X, [0]), ValueError, "[1 3 9] must begin with 0"),
    (lambda: gather([[0, 20]], X, [0]), ValueError, "end with 9; a split is the index"),
    (lambda: gather([[0, 2], [0, 9]], X, [0]), ValueError, "end with 1"),
    (lambda: gather([[]], X, []), ValueError, "splits [] must begin with 0"),
    (lambda: gather([[0, 3, 9]], X, [2]), IndexError, "index 2 is out of range"),
    (lambda: gather([[0, 3, 9]], X, [-1]), IndexError, "index -1 is out of range"),
    (
        lambda: sparse.ragged_range([1, 2], [3, 4, 5]),
        ValueError,
        "shapes must be () or the same shape (n,); got shapes (2,) and (3,) and ()",
    ),
    (
        lambda: sparse.ragged_range([[1]], 2),
        ValueError,
        "shapes must be () or the same shape (n,); got shapes (1, 1) and () and ()",
    ),
    (lambda: sparse.ragged_range(0, 5, 0), ValueError, "a delta is 0"),
    (lambda: sparse.ragged_range(0, 5, [1, 0]), ValueError, "a delta is 0"),
    (lambda: sparse.ragged_range(0, 5, np.nan), ValueError, "a delta is 0 or NaN"),
    (lambda: sparse.ragged_range(0.0, 1e10, 1e-10), ValueError, "more than 2147483647"),
    (lambda: sparse.ragged_range(0.0, np.inf, 1), ValueError, "would have more"),
    (lambda: sparse.ragged_range(0, [2**31 - 1] * 2), ValueError, "would have more"),
    (lambda: sparse.ragged_range(1j, 2), TypeError, "there is no range of complex64"),
    (lambda: sparse.ragged_range("a", "b", "c"), TypeError, "no range of string"),
    (lambda: dense(-1, [], ""), ValueError, "0 row_partition_tensors of"),
    (lambda: dense(-1, [OFFSETS], BY_IDS), ValueError, "1 row_partition_tensors of"),
    (lambda: dense(-1, [IDS], "VALUE_ROWIDS"), ValueError, "('VALUE_ROWIDS',); give"),
    (
        lambda: dense(-1, [1, 2], f"{SIZE} {SIZE}"),
        ValueError,
        "2 row_partition_tensors of the types ('FIRST_DIM",
    ),
    (lambda: dense(-1, [IDS], "SPLITS"), ValueError, "of the types ('SPLITS',)"),
    (
        lambda: dense(-1, [[4], IDS], BY_IDS),
        ValueError,
        "FIRST_DIM_SIZE must have rank 0",
    ),
    (lambda: dense(-1, [4, 5], BY_IDS), ValueError, "VALUE_ROWIDS must have rank 1"),
    (lambda: dense((4, 4, 1), [4, IDS], BY_IDS), ValueError, "need 2 sizes, or -1"),
    (lambda: dense(-1, [9], SIZE, 1.0), ValueError, "-1; got shapes () and ()"),
    (lambda: dense(7, [4, IDS], BY_IDS), ValueError, "shape 7 does not fit"),
    (
        lambda: dense((-2, 4), [4, IDS], BY_IDS),
        ValueError,
        "shape [-2, 4] does not fit",
    ),
    (
        lambda: dense((4, 4, 3), [4, IDS], BY_IDS, np.ones((9, 2))),
        ValueError,
        "the sizes of the values, (2,)",
    ),
    (
        lambda: dense(-1, [4, IDS], BY_IDS, d=np.zeros(2)),
        ValueError,
        "default_value must broadcast to (); got shape (2,)",
    ),
    (
        lambda: dense(-1, [4, IDS], BY_IDS, np.ones((9, 2)), np.zeros(3)),
        ValueError,
        "do not broadcast",
    ),
    (lambda: dense(-1, [3, IDS], BY_IDS), ValueError, "at least 0 and below 3"),
    (lambda: dense(-1, [4, IDS[::-1]], BY_IDS), ValueError, "must not decrease"),
    (lambda: dense(-1, [4, [-1] * 9], BY_IDS), ValueError, "at least 0 and below 4"),
    (lambda: dense(-1, [4, IDS[:-1]], BY_IDS), ValueError, "but the rows have space"),
    (lambda: dense(-1, [[0, 8]], BY_SPLITS), ValueError, "9 values, but the rows"),
    (
        lambda: dense(-1, [[0, 5, 4, 9]], BY_SPLITS),
        ValueError,
        "not decrease; a split is",
    ),
    (
        lambda: dense(-1, [3, OFFSETS], f"{SIZE} {BY_SPLITS}"),
        ValueError,
        "do not fit 3 row",
    ),
    (lambda: dense(-1, [-1, []], BY_IDS), ValueError, "FIRST_DIM_SIZE -1 must not"),
    (lambda: dense((2, 2), [-1, []], BY_IDS, []), ValueError, "must not be negative"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS, ids=range(len(ERRORS)))
def test_errors(call, error, message, backend):
    with pytest.raises(error, match=re.escape(message)):
        call()
