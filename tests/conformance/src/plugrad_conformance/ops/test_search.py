"""Binary search, distinct elements, and elements that meet a condition."""

import numpy as np
import plugrad as pg
import pytest

from ..check import check_gradients
from .moves import decomposed
from .test_conv import require_dtypes

RNG = np.random.default_rng(0)
REALS = ["bool", "int8", "int32", "int64", "uint8", "float16", "float32", "float64"]
SIDES = ["left", "right"]
BOUNDS = {"left": pg.lower_bound, "right": pg.upper_bound}
KERNELS = ["SearchSorted", "LowerBound", "UpperBound"]


# --- positions in sorted arrays --------------------------------------------------


def sorted_row(n, dtype):
    """Return an ascending row with ties, and NaN at its end."""
    x = np.sort(RNG.integers(0, 2 * n, size=n).astype(dtype))
    if x.dtype.kind == "f" and n > 4:
        x[0] = -np.inf
        x[-3:] = [np.inf, np.nan, np.nan]
    return x


def values_to_find(x, m):
    """Return the elements of ``x``, and other numbers of its dtype."""
    other = RNG.integers(0, 5, size=m).astype(x.dtype)
    if x.dtype.kind == "f":
        other[:3] = [np.nan, np.inf, -np.inf]
    return np.concatenate([x, other])


def check_searchsorted(dtype):
    for n in (0, 1, 2, 3, 7, 8, 33):
        x = sorted_row(n, dtype)
        v = values_to_find(x, 12)
        for side in SIDES:
            expected = np.searchsorted(x, v, side).astype(np.int32)
            with pg.debug(finite=False):
                found = pg.searchsorted(x, v, side=side), BOUNDS[side](x, v)
            for y in found:
                np.testing.assert_array_equal(y.numpy(), expected, strict=True)
            y = pg.searchsorted(x, v.reshape(-1, 1, 1)[:4], side=side)
            np.testing.assert_array_equal(y.numpy().ravel(), expected[:4])
            assert y.shape == (min(len(v), 4), 1, 1)


@pytest.mark.parametrize("dtype", REALS)
def test_searchsorted(dtype, backend):
    require_dtypes(backend, dtype)
    check_searchsorted(dtype)


@pytest.mark.parametrize("dtype", REALS)
def test_the_decompositions_of_searchsorted(dtype):
    with decomposed(*KERNELS):
        check_searchsorted(dtype)


@pytest.mark.parametrize("side", SIDES)
def test_searchsorted_row_by_row(side, backend):
    x = np.sort(RNG.integers(0, 9, size=(2, 3, 5)), -1).astype(np.int32)
    v = RNG.integers(0, 9, size=(2, 3, 4)).astype(np.int32)
    expected = [[np.searchsorted(*b, side) for b in zip(*a)] for a in zip(x, v)]  # noqa: B905
    for y in (pg.searchsorted(x, v, side=side), BOUNDS[side](x, v)):
        np.testing.assert_array_equal(y.numpy(), expected)
    with decomposed(*KERNELS):
        y = pg.searchsorted(x, v, side=side)
        np.testing.assert_array_equal(y.numpy(), expected)
    assert pg.searchsorted(x[:0], v[:0], side=side).shape == (0, 3, 4)
    assert pg.searchsorted(x, v[:, :, :0], side=side).shape == (2, 3, 0)


def test_searchsorted_in_large_arrays(backend):
    x = sorted_row(3000, "float32")
    v = RNG.normal(size=9000).astype(np.float32) * 3000
    v[:2] = np.nan, np.inf
    for side in SIDES:
        y = pg.searchsorted(x, v, side=side).numpy()
        np.testing.assert_array_equal(y, np.searchsorted(x, v, side))


def test_searchsorted_of_scalars_and_with_a_sorter(backend):
    y = pg.searchsorted([1.0, 2.0, 2.0, 3.0], 2.0)
    assert (y.shape, y.item()) == ((), 1)
    assert pg.searchsorted([1, 2, 3], [1.5, 2.5]).tolist() == [1, 2]
    x = np.asarray([3.0, 1.0, 2.0], np.float32)
    assert pg.searchsorted(x, [1, 3], sorter=pg.argsort(x)).tolist() == [0, 2]


def test_searchsorted_has_no_gradient(backend):
    def f(x):
        at = pg.searchsorted(x, x) + pg.lower_bound(x, x) + pg.upper_bound(x, x)
        return pg.sum(x * pg.astype(at, "float32"))

    assert pg.grad(f)(pg.asarray([1.0, 2.0])).tolist() == [1, 4]


@pytest.mark.parametrize("invert", [False, True])
@pytest.mark.parametrize("dtype", REALS)
def test_isin(dtype, invert, backend):
    require_dtypes(backend, dtype)
    x, y = (RNG.integers(0, n, size=(n, 3)).astype(dtype) for n in (9, 4))
    if x.dtype.kind == "f":
        x[:2], y[:2] = np.nan, np.nan
    for others in (y, y[:0], y[0, 0]):
        found = pg.isin(x, others, invert=invert).numpy()
        expected = np.isin(x, others, invert=invert)
        np.testing.assert_array_equal(found, expected, strict=True)
    assert pg.isin(3, [1, 2, 3]).item()
    assert pg.isin([1, 2], [1.5, 2.0]).tolist() == [False, True]


# --- distinct elements -----------------------------------------------------------

SHAPES = [(9,), (4, 3), (3, 4, 2), (0,), (3, 0), (0, 2), (1, 1)]
DTYPES = [*REALS, "complex64"]


def sort_key(row):
    """Return the sort key of a row: NaN is last, and complex numbers sort by parts."""
    return [(np.isnan(z), *np.nan_to_num([z.real, z.imag])) for z in row.ravel()]


def distinct(x, axis, in_order):
    """Return values, first indices, inverse and counts, found one by one."""
    rows = x.reshape(-1, 1) if axis is None else np.moveaxis(x, axis, 0)
    first, inverse = [], []
    for i, candidate in enumerate(rows):
        same = [n for n, j in enumerate(first) if np.array_equal(rows[j], candidate)]
        inverse.append(same[0] if same else len(first))
        first += [] if same else [i]
    if in_order:
        order = sorted(range(len(first)), key=lambda n: sort_key(rows[first[n]]))
        first = [first[n] for n in order]
        inverse = [order.index(n) for n in inverse]
    first = np.asarray(first, np.int32)
    inverse = np.asarray(inverse, np.int32)
    values = np.take(x, first, axis)
    counts = np.bincount(inverse, minlength=len(first)).astype(np.int32)
    return values, first, inverse.reshape(x.shape if axis is None else -1), counts


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("in_order", [True, False])
def test_unique(in_order, dtype, shape, backend):
    require_dtypes(backend, dtype)
    x = RNG.integers(0, 3, size=shape).astype(dtype)
    if x.dtype.kind == "f" and x.size > 4:
        # NaN equals nothing, so the order of several NaNs is not specified
        x.flat[[0] if in_order else [0, 2, 3]], x.flat[1] = np.nan, -0.0
    for axis in (None, *range(-1, len(shape))):
        expected = distinct(x, axis, in_order)
        options = {"axis": axis} if in_order else {"axis": axis, "sorted": False}
        found = pg.unique_all(x, **options)
        for y, wanted in zip(found, expected, strict=True):
            np.testing.assert_array_equal(y.numpy(), wanted, strict=True)
        values, _, inverse, counts = (y.numpy() for y in found)
        check_equal = lambda y, z: np.testing.assert_array_equal(y.numpy(), z)
        check_equal(pg.unique_values(x, **options), values)
        result = pg.unique_inverse(x, **options)
        check_equal(result.values, values)
        check_equal(result.inverse_indices, inverse)
        result = pg.unique_counts(x, **options)
        check_equal(result.values, values)
        check_equal(result.counts, counts)


def test_unique_of_large_arrays_and_of_a_scalar(backend):
    x = RNG.integers(0, 1000, size=20_000).astype(np.float32)
    values, first, inverse, counts = (y.numpy() for y in pg.unique_all(x))
    _, at = np.unique(x, return_index=True)
    np.testing.assert_array_equal(first, at)
    np.testing.assert_array_equal(values, x[first])
    np.testing.assert_array_equal(values[inverse], x)
    np.testing.assert_array_equal(counts, (x == values[:, None]).sum(1))
    found = [y.tolist() for y in pg.unique_all(7)]
    assert found == [[7], [0], 0, [1]]


def test_every_nan_is_distinct_and_zeros_are_equal(backend):
    values, counts = pg.unique_counts([np.nan, 0.0, np.nan, -0.0])
    np.testing.assert_array_equal(values.numpy(), [0, np.nan, np.nan])
    assert counts.tolist() == [2, 1, 1]
    rows = pg.unique_values(
        [[0.0, np.nan], [0.0, np.nan], [-0.0, 1.0], [0.0, 1.0]], axis=0
    )
    assert rows.shape == (3, 2)


def test_unique_strings_ascend(backend):
    words = pg.asarray([["b", "a"], ["a", "ab"], ["b", "a"], ["", "ß"]])
    assert pg.unique_values(words).tolist() == [b"", b"a", b"ab", b"b", "ß".encode()]
    values, inverse = pg.unique_inverse(words, axis=0)
    assert values.tolist() == [[b"", "ß".encode()], [b"a", b"ab"], [b"b", b"a"]]
    assert inverse.tolist() == [2, 1, 2, 0]


def test_gradients_of_unique(backend):
    require_dtypes(backend, "float64")
    x = np.cos(np.arange(12.0) ** 2).reshape(3, 4)
    for axis in (None, 0, 1):
        check_gradients(lambda x, a=axis: pg.square(pg.unique_values(x, axis=a)), x)


def test_equal_elements_share_the_gradient(backend):
    x = pg.asarray([[1.0, 2.0], [1.0, 1.0]])
    dy = pg.asarray([6.0, 5.0])
    assert pg.grad(pg.unique_values)(x, dy=dy).tolist() == [[2, 5], [2, 2]]
    f = lambda x: pg.unique_inverse(x, axis=1)[0]
    x = pg.asarray([[1.0, 2.0, 1.0]])
    dy = pg.asarray([[4.0, 5.0]])
    assert pg.grad(f)(x, dy=dy).tolist() == [[2, 5, 2]]


def test_setdiff1d(backend):
    for x, y, expected in [
        ([1, 2, 3, 4, 5, 6], [1, 3, 5], ([2, 4, 6], [1, 3, 5])),
        ([3, 1, 3, 2], [1], ([3, 3, 2], [0, 2, 3])),
        ([1.5, 2.5], [2.5, 7.0], ([1.5], [0])),
        ([1, 2], [], ([1, 2], [0, 1])),
        ([], [1.0], ([], [])),
    ]:
        values, indices = pg.setdiff1d(x, y)
        assert (values.tolist(), indices.tolist()) == expected
        assert indices.dtype == np.int32
    f = lambda x: pg.setdiff1d(x, [2.0])[0]
    dy = pg.asarray([3.0, 4.0])
    assert pg.grad(f)(pg.asarray([1.0, 2.0, 5.0]), dy=dy).tolist() == [3, 0, 4]


# --- elements that meet a condition ----------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_nonzero(dtype, backend):
    require_dtypes(backend, dtype)
    for shape in ((5,), (3, 4), (2, 3, 2), (0, 3), (2, 0)):
        x = RNG.integers(0, 2, size=shape).astype(dtype)
        found = pg.nonzero(x)
        expected = np.nonzero(x)
        assert len(found) == len(expected)
        for y, wanted in zip(found, expected, strict=True):
            np.testing.assert_array_equal(
                y.numpy(), wanted.astype(np.int32), strict=True
            )
    assert pg.nonzero([0.0, np.nan, -0.0])[0].tolist() == [1]


def test_boolean_mask(backend):
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for axis, shape in [(0, (2,)), (0, (2, 3)), (0, (2, 3, 4)), (1, (3,)), (-1, (4,))]:
        for mask in (RNG.random(shape) > 0.5, np.zeros(shape, bool)):
            y = pg.boolean_mask(x, mask, axis=axis)
            key = (*[slice(None)] * (axis % 3), mask)
            np.testing.assert_array_equal(y.numpy(), x[key], strict=True)
    assert pg.boolean_mask([1, 2, 3], [True, False, True]).tolist() == [1, 3]


def test_gradients_of_a_mask(backend):
    require_dtypes(backend, "float64")
    x = np.cos(np.arange(12.0)).reshape(4, 3)
    mask = [True, False, True, True]
    check_gradients(lambda x: pg.square(pg.boolean_mask(x, mask)), x)


# --- errors ----------------------------------------------------------------------

X = np.ones((2, 3), np.float32)
ERRORS = [
    (
        lambda: pg.searchsorted([1.0], 1.0, side="up"),
        ValueError,
        "side 'up': use 'left'",
    ),
    (
        lambda: pg.searchsorted(X, [1.0]),
        ValueError,
        r"searchsorted: x1 must have one axis, or .* shapes \(2, 3\) and \(1,\)",
    ),
    (lambda: pg.searchsorted(X, 1.0), ValueError, r"shape of x2 .* and \(\)"),
    (lambda: pg.searchsorted(1.0, [1.0]), ValueError, r"x1 must have .* \(\) and \(1,"),
    (lambda: pg.searchsorted([1j], [1j]), TypeError, "searchsorted: complex numbers"),
    (lambda: pg.lower_bound(X, [1.0]), ValueError, "lower_bound: x1"),
    (lambda: pg.upper_bound([1j], [1j]), TypeError, "upper_bound: complex numbers"),
    (lambda: pg.isin([1j], [1j]), TypeError, "isin: complex numbers have no order"),
    (lambda: pg.unique_values(X, axis=2), ValueError, "unique_values: axis 2 is out"),
    (lambda: pg.unique_all(1.0, axis=0), ValueError, "unique_all: axis 0 is out of"),
    (lambda: pg.unique_all(X, sorted=2), TypeError, "unique_all: sorted must be"),
    (lambda: pg.unique_counts(X, axis=0.5), TypeError, "unique_counts: axis must be"),
    (lambda: pg.setdiff1d(X, [1.0]), ValueError, r"setdiff1d: .* shapes \(2, 3\)"),
    (lambda: pg.setdiff1d([1j], [1j]), TypeError, "setdiff1d: complex numbers"),
    (
        lambda: pg.searchsorted([2.0, 1.0], [1.0], sorter=[1]),
        ValueError,
        r"searchsorted: sorter must have the shape of x1, .* \(1,\) and \(2,\)",
    ),
    (
        lambda: pg.searchsorted([2.0, 1.0], [1.0], sorter=[1.0, 0.0]),
        TypeError,
        "searchsorted: sorter must be integers",
    ),
    (lambda: pg.nonzero(1.0), ValueError, "nonzero: x has rank 0"),
    (lambda: pg.boolean_mask(X, [1, 0]), TypeError, "mask must be bool, got int32"),
    (
        lambda: pg.boolean_mask(X, [True]),
        ValueError,
        r"boolean_mask: mask must .* \(1,",
    ),
    (lambda: pg.boolean_mask(X, True), ValueError, r"boolean_mask: mask must .* \(\)"),
    (lambda: pg.boolean_mask(X, X > 0, axis=1), ValueError, "from axis 1 on"),
    (lambda: pg.boolean_mask(X, [True], axis=2), ValueError, "boolean_mask: axis 2 is"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call, error, message, backend):
    with pytest.raises(error, match=message):
        call()
