"""The largest elements, sorting, quantiles and medians."""

import numpy as np
import plugrad as pg
import pytest

from ..check import check_gradients
from .moves import decomposed
from .test_conv import require_dtypes

RNG = np.random.default_rng(0)
INTEGERS = ["int8", "int32", "int64", "uint8", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
DTYPES = ["bool", *INTEGERS, *FLOATS]
SHAPES = [(7,), (1,), (3, 5), (2, 3, 4), (0,), (3, 0), (0, 4)]


def sample(shape, dtype):
    """Return numbers with ties and the limits of the dtype."""
    dtype = np.dtype(dtype)
    x = RNG.integers(0, 4, size=shape).astype(dtype)
    ends = [True, False]
    if dtype.kind in "iu":
        ends = [np.iinfo(dtype).max, np.iinfo(dtype).min, np.iinfo(dtype).max]
    elif dtype.kind == "f":
        ends = [np.nan, -np.inf, -0.0, 0.0, np.inf, -np.nan, -1.5]
    if x.size > 6:
        x.flat[: len(ends)] = ends
    return np.moveaxis(RNG.permuted(x, axis=0), -1, 0).reshape(shape)


def order(x, axis=-1, descending=False):
    """Return NumPy's stable order; descending order reverses the array twice."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    reversed_order = np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    return x.shape[axis] - 1 - reversed_order


def assert_same_bits(y, expected):
    """Compare values, NaN included, and the signs of zeros."""
    np.testing.assert_array_equal(y, expected, strict=True)
    if expected.dtype.kind == "f":
        zero = expected == 0
        np.testing.assert_array_equal(np.signbit(y[zero]), np.signbit(expected[zero]))


# --- values ----------------------------------------------------------------------


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_sort_and_argsort(dtype, shape, descending, backend):
    require_dtypes(backend, dtype)
    array = sample(shape, dtype)
    for axis in range(-1, len(shape)):
        options = {"axis": axis, "descending": descending}
        with pg.debug(finite=False):
            y = pg.sort(array, **options)
            at = pg.argsort(array, **options)
        expected = order(array, **options)
        assert at.dtype == np.int32
        np.testing.assert_array_equal(at.numpy(), expected)
        values = np.take_along_axis(array, expected, axis)
        np.testing.assert_array_equal(y.numpy(), values, strict=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_decomposition_of_sort(dtype):
    for shape in SHAPES:
        x = sample(shape, dtype)
        for axis, descending in ((0, False), (-1, True)):
            at = order(x, axis, descending)
            with decomposed("Sort"), pg.debug(finite=False):
                y = pg.sort(x, axis=axis, descending=descending)
                assert_same_bits(y.numpy(), np.take_along_axis(x, at, axis))


@pytest.mark.parametrize("sorted", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_top_k(dtype, shape, sorted, backend):
    require_dtypes(backend, dtype)
    x = sample(shape, dtype)
    for k in range(shape[-1] + 1):
        with pg.debug(finite=False):
            values, indices = pg.top_k(x, k, sorted=sorted)
        at = order(x, descending=True)[..., :k]
        at = at if sorted else np.sort(at, -1)
        np.testing.assert_array_equal(indices.numpy(), at.astype(np.int32), strict=True)
        assert_same_bits(values.numpy(), np.take_along_axis(x, at, -1))


@pytest.mark.parametrize("dtype", ["int32", "int64", "float16", "float32", "float64"])
def test_long_rows_with_many_ties(dtype, backend):
    require_dtypes(backend, dtype)
    x = RNG.integers(-300, 300, size=(3, 20_000)).astype(dtype)
    at = order(x, descending=True)
    for k in (1, 10, 9_000, 20_000):
        values, indices = pg.top_k(x, k)
        np.testing.assert_array_equal(indices.numpy(), at[:, :k])
        np.testing.assert_array_equal(values.numpy(), np.sort(x)[:, ::-1][:, :k])
    np.testing.assert_array_equal(pg.argsort(x).numpy(), order(x))


def test_float32_of_all_magnitudes_are_sorted(backend):
    """Sort random bit patterns, which include denormal numbers, NaN and infinities."""
    bits = RNG.integers(0, 2**32, size=50_000, dtype=np.uint32)
    x = np.concatenate([bits, [0, 1, 2**31, 2**31 + 1]]).astype(np.uint32)
    x = x.view(np.float32)
    np.testing.assert_array_equal(pg.argsort(x).numpy(), order(x))
    x = x[~np.isnan(x)]
    np.testing.assert_array_equal(pg.argsort(x, descending=True).numpy(), order(-x))


def test_tensors_that_are_not_contiguous_are_sorted(backend):
    x = pg.permute_dims(sample((4, 5), "float32"), (1, 0))
    np.testing.assert_array_equal(pg.sort(x, axis=0).numpy(), np.sort(x.numpy(), 0))
    values, _ = pg.top_k(x[:, ::2], 1)
    np.testing.assert_array_equal(values.numpy(), np.sort(x.numpy()[:, ::2])[:, -1:])


def test_nan_counts_as_the_greatest(backend):
    x = [2.0, np.nan, np.inf, 1.0]
    assert pg.argsort(x).tolist() == [3, 0, 2, 1]
    assert pg.argsort(x, descending=True).tolist() == [1, 2, 0, 3]
    assert pg.top_k(x, 2)[1].tolist() == [1, 2]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_zeros_of_both_signs_are_equal(dtype, descending, axis, backend):
    """Both ``sort`` and ``argsort`` keep their order."""
    require_dtypes(backend, dtype)
    rng = np.random.default_rng(0)
    values = np.array([-0.0, 0.0, 1, -1, np.nan, np.inf], dtype)
    for n in (3, 40, 9000):
        shape = [2, 3, 2]
        shape[axis] = n
        x = rng.choice(values, shape)
        y = pg.sort(x, axis=axis, descending=descending).numpy()
        places = pg.argsort(x, axis=axis, descending=descending).numpy()
        expected = np.take_along_axis(x, places, axis)
        np.testing.assert_array_equal(y, expected)
        zero = y == 0
        np.testing.assert_array_equal(np.signbit(y[zero]), np.signbit(expected[zero]))
    y = pg.sort(pg.zeros((3,), dtype=dtype) * -1)
    assert np.signbit(y.numpy()).all()


def test_in_top_k(backend):
    scores = [[0.1, 0.9, 0.9, 0.2], [4.0, 3.0, 2.0, 1.0], [0.0, 0.0, 0.0, 0.0]]
    for k, targets, expected in [
        (1, [1, 0, 0], [True, True, True]),
        (1, [2, 1, 3], [False, False, False]),
        (2, [2, 1, 1], [True, True, True]),
        (4, [0, 3, 7], [True, True, False]),
        (0, [1, 0, 0], [False, False, False]),
    ]:
        assert pg.in_top_k(scores, targets, k).tolist() == expected
    assert pg.in_top_k([1.0, 2.0], 1, 1).item()
    assert pg.in_top_k(np.ones((2, 3, 4)), [[0, 1, 2], [3, 0, 1]], 3).shape == (2, 3)


# --- quantiles -------------------------------------------------------------------

AXES = [None, 0, -1, (0, 2), (2, 1, 0), ()]
METHODS = ["linear", "lower", "higher", "nearest", "midpoint"]
QUANTILES = [0.5, 0, 1.0, [0.0, 0.25, 0.3, 1.0], [[0.1, 0.9], [0.5, 0.75]]]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_quantile(dtype, axis, method, backend):
    require_dtypes(backend, dtype)
    x = (RNG.normal(size=(3, 4, 5)) * 9).astype(dtype)
    for q in QUANTILES:
        for keepdims in (False, True):
            options = {"axis": axis, "keepdims": keepdims, "method": method}
            y = pg.quantile(x, q, **options)
            expected = np.quantile(x.astype(np.float64), q, **options)
            assert y.dtype == (np.float32 if dtype == "int32" else np.dtype(dtype))
            assert y.shape == expected.shape
            rtol = 1e-12 if dtype == "float64" else 1e-6
            np.testing.assert_allclose(y.numpy(), expected, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_median(size, axis, keepdims, backend):
    x = RNG.normal(size=(size, 3, 4)).astype(np.float32)
    y = pg.median(x, axis=axis, keepdims=keepdims).numpy()
    expected = np.median(x, axis, keepdims=keepdims)
    np.testing.assert_allclose(y, expected, rtol=1e-6, strict=True)


def test_quantiles_of_nan_and_infinities(backend):
    inf, nan = np.inf, np.nan
    rows = pg.asarray([[1.0, nan, 2.0], [inf, 1.0, inf], [-inf, 3.0, inf]])
    np.testing.assert_array_equal(pg.median(rows, axis=1).numpy(), [nan, inf, 3.0])
    assert pg.quantile([1.0, inf], 0).item() == 1
    assert pg.quantile([1.0, inf], 0.25).item() == inf
    assert pg.quantile([-inf, -inf, 1.0], 0.25).item() == -inf
    huge = np.finfo(np.float32).max
    assert pg.median([-huge, huge]).item() == 0
    assert pg.median([huge, huge]).item() == huge


def test_quantiles_of_float16(backend):
    require_dtypes(backend, "float16")
    y = pg.quantile(pg.asarray([1, 2, 4], dtype="float16"), [0.25, 0.5])
    assert (y.dtype, y.tolist()) == (np.float16, [1.5, 2.0])


# --- gradients -------------------------------------------------------------------

X = np.cos(np.arange(24.0) ** 2).reshape(2, 3, 4)  # all different
SMOOTH = {
    "top_k": lambda x: pg.top_k(x, 2)[0],
    "top_k of all": lambda x: pg.top_k(x, 4)[0],
    "top_k unsorted": lambda x: pg.top_k(x, 3, sorted=False)[0],
    "sort": lambda x: pg.sort(x),
    "sort axis 0": lambda x: pg.sort(x, axis=0, descending=True),
    "sort axis 1": lambda x: pg.sort(x, axis=1),
    "median": lambda x: pg.median(x, axis=(0, 2)),
    "median of all": lambda x: pg.median(x, keepdims=True),
    "quantile": lambda x: pg.quantile(x, [0.1, 0.5, 1.0], axis=1),
    "midpoint": lambda x: pg.quantile(x, 0.4, axis=-1, method="midpoint"),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients(name, backend):
    require_dtypes(backend, "float64")
    check_gradients(lambda x: pg.square(SMOOTH[name](x)), X)
    check_gradients(lambda x: pg.square(SMOOTH[name](pg.sin(x) * 2)), X)


def test_gradients_of_one_row_and_of_empty_rows(backend):
    require_dtypes(backend, "float64")
    check_gradients(lambda x: pg.square(pg.top_k(x, 2)[0]), X[0, 0])
    check_gradients(lambda x: pg.square(pg.sort(x)), np.empty((2, 0)))
    dx = pg.grad(lambda x: pg.sum(pg.top_k(x, 0)[0]))(pg.asarray([1.0, 2.0]))
    assert dx.tolist() == [0, 0]


def test_gradients_of_equal_elements_follow_the_stable_order(backend):
    x = pg.asarray([1.0, 3.0, 1.0, 3.0])
    dy = pg.asarray([1.0, 2.0, 3.0, 4.0])
    assert pg.grad(pg.sort)(x, dy=dy).tolist() == [1, 3, 2, 4]
    down = lambda x: pg.sort(x, descending=True)
    assert pg.grad(down)(x, dy=dy).tolist() == [3, 1, 4, 2]
    first = lambda x: pg.top_k(x, 1)[0]
    assert pg.grad(first)(x, dy=pg.asarray([7.0])).tolist() == [0, 7, 0, 0]


@pytest.mark.parametrize("value", [0.0, 0.1, -7.0])
def test_equal_elements_share_the_gradient_of_a_quantile(value, backend):
    x = pg.asarray([value, value])
    assert pg.median(x).item() == x[0].item()
    assert pg.grad(pg.median)(x).tolist() == [0.5, 0.5]
    quarter = lambda x: pg.quantile(x, [0.25, 1.0])
    assert quarter(x).tolist() == x.tolist()
    assert pg.grad(quarter)(x, dy=pg.asarray([4.0, 0.0])).tolist() == [3, 1]


def test_the_gradient_of_a_quantile_between_infinities_is_finite(backend):
    x = pg.asarray([np.inf, 1.0, np.inf, -np.inf])
    for q in (0.0, 0.25, 0.5, 0.9):
        dx = pg.grad(lambda x, q=q: pg.quantile(x, q))(x)
        assert pg.sum(dx).item() == pytest.approx(1)


def test_indices_have_no_gradient(backend):
    def f(x):
        _, at = pg.top_k(x, 2)
        return pg.sum(x) + pg.sum(pg.astype(at + pg.argsort(x)[:2], "float32"))

    assert pg.grad(f)(pg.asarray([3.0, 1.0, 2.0])).tolist() == [1, 1, 1]


# --- errors ----------------------------------------------------------------------

ERRORS = [
    (lambda: pg.top_k([1.0, 2.0], [1]), TypeError, r"k must be an integer, got \[1\]"),
    (
        lambda: pg.top_k([1.0, 2.0], 3),
        ValueError,
        r"top_k: k 3 must be from 0 to .*\(2,",
    ),
    (lambda: pg.top_k([1.0], -1), ValueError, "top_k: k -1 must"),
    (lambda: pg.top_k(1.0, 1), ValueError, r"last axis; got shape \(\)"),
    (lambda: pg.top_k([1.0], 0.5), TypeError, "top_k: k must be an integer"),
    (lambda: pg.top_k([1j], 1), TypeError, "top_k: complex numbers have no order"),
    (lambda: pg.sort([1j]), TypeError, "sort: complex numbers have no order"),
    (lambda: pg.argsort([1j]), TypeError, "argsort: complex numbers have no order"),
    (lambda: pg.sort([1.0], axis=1), ValueError, "sort: axis 1 is out of range"),
    (lambda: pg.sort(1.0), ValueError, "sort: axis -1 is out of range for rank 0"),
    (lambda: pg.argsort([1.0], axis=-2), ValueError, "argsort: axis -2 is out of"),
    (lambda: pg.median([]), ValueError, "median: cannot reduce axis"),
    (lambda: pg.median([1j]), TypeError, "median: there is no median of complex"),
    (lambda: pg.median([1.0], axis=1), ValueError, "median: axis 1 is out of range"),
    (lambda: pg.quantile([], 0.5), ValueError, "quantile: cannot reduce axis"),
    (lambda: pg.quantile([1.0], 1.5), ValueError, "quantile: q must be from 0 to 1"),
    (lambda: pg.quantile([1.0], [np.nan]), ValueError, "quantile: q must be from 0"),
    (lambda: pg.quantile([1.0], "half"), TypeError, "q must be real numbers"),
    (
        lambda: pg.quantile([1.0], 0.5, method="cubic"),
        ValueError,
        "quantile: method 'cubic': use 'linear', 'lower'",
    ),
    (
        lambda: pg.in_top_k([[1.0, 2.0]], [1, 0], 1),
        ValueError,
        r"in_top_k: targets must .* \(2,",
    ),
    (lambda: pg.in_top_k(1.0, 0, 1), ValueError, "in_top_k: targets"),
    (lambda: pg.in_top_k([[1.0]], [0.5], 1), TypeError, "targets must be integers"),
    (lambda: pg.in_top_k([[1.0]], [0], 2), ValueError, "in_top_k: k 2 must be from 0"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call, error, message, backend):
    with pytest.raises(error, match=message):
        call()
