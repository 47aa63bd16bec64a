"""Covariances and histograms: values, weights, gradients, errors."""

import numpy as np
import plugrad as pg
import pytest

from ..check import check_complex_gradients, check_gradients, require_dtypes

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 9))
COUNTS = RNG.integers(0, 4, 9)
WEIGHTS = RNG.uniform(0.1, 1, 9)
INF, NAN = np.inf, np.nan

# --- covariances -----------------------------------------------------------------

OPTIONS = [
    {},
    {"correction": 0},
    {"correction": 2.5},
    {"fweights": COUNTS},
    {"aweights": WEIGHTS},
    {"fweights": COUNTS, "aweights": WEIGHTS, "correction": 2},
]


def reference(x, correction=1, **weights):
    """Return NumPy's covariances, extended to corrections that are not integers."""
    y = np.cov(x, ddof=0 if correction % 1 else correction, **weights)
    return y * 9 / (9 - correction) if correction % 1 else y


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "complex64", "int32"]
)
@pytest.mark.parametrize("options", range(len(OPTIONS)))
def test_covariances(options, dtype, backend):
    require_dtypes(backend, dtype)
    options = OPTIONS[options]
    x = (X * 3 + (1j * X[::-1] if dtype[0] == "c" else 0)).astype(dtype)
    rtol = {"float16": 3e-3, "float64": 1e-12}.get(dtype, 2e-5)
    y = pg.cov(x, **options)
    expected = reference(x.astype("c16" if dtype[0] == "c" else float), **options)
    np.testing.assert_allclose(y.numpy(), expected, rtol=rtol, atol=rtol)
    assert y.dtype == (np.float32 if dtype == "int32" else dtype)
    y = pg.cov(x[0], **options)
    np.testing.assert_allclose(y.numpy(), expected[0, 0], rtol=rtol, atol=rtol)
    assert y.shape == ()


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "complex64", "int32"]
)
def test_correlations(dtype, backend):
    require_dtypes(backend, dtype)
    x = (X * 3 + (1j * X[::-1] if dtype[0] == "c" else 0)).astype(dtype)
    rtol = {"float16": 3e-3, "float64": 1e-12}.get(dtype, 2e-6)
    y = pg.corrcoef(x).numpy()
    expected = np.corrcoef(x.astype("c16" if dtype[0] == "c" else float))
    np.testing.assert_allclose(y, expected, rtol=rtol, atol=rtol)
    assert y.dtype == (np.float32 if dtype == "int32" else dtype)


def test_undefined_covariances(backend):
    assert np.isnan(pg.cov(3.0).item())
    assert np.isnan(pg.cov(np.zeros((2, 0), np.float32)).numpy()).all()
    y = pg.corrcoef([[1.0, 1.0], [1.0, 2.0]]).numpy()
    np.testing.assert_array_equal(y, [[NAN, NAN], [NAN, 1]])
    assert pg.corrcoef([1.0, 5.0]).item() == 1.0


def test_correlations_do_not_exceed_one(backend):
    x = np.asarray([0.1, 0.2, 0.7, 0.4, 0.33], np.float32)
    y = pg.corrcoef(np.stack([x, x * 3, -x / 7])).numpy()
    assert np.abs(y).max() <= 1


def test_gradients_of_covariances(backend):
    check_gradients(lambda x, a: pg.cov(x, aweights=a, fweights=COUNTS), X, WEIGHTS)
    check_gradients(pg.corrcoef, X)
    check_gradients(pg.cov, X[0])


def test_gradients_of_complex_covariances(backend):
    require_dtypes(backend, "complex128")
    z = X[:2, :4] + 1j * X[2:, :4]
    check_complex_gradients(lambda z: pg.real(pg.cov(z)) + pg.imag(pg.cov(z)), z)


# --- histograms ------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "uint8"])
@pytest.mark.parametrize("range", [None, (-2, 3), (0.5, 0.5)], ids=str)
def test_histograms(range, dtype, backend):
    require_dtypes(backend, dtype)
    rng = np.random.default_rng(1)
    for bins in (1, 3, 7, 10):
        x = np.abs(rng.normal(size=(4, 10)) * 5).astype(dtype)
        y, edges = pg.histogram(x, bins, range=range)
        wide = x if x.itemsize > 2 and dtype[0] == "f" else x.astype(np.float32)
        counts, expected_edges = np.histogram(wide, bins, range)
        np.testing.assert_array_equal(y.numpy(), counts)
        np.testing.assert_allclose(edges.numpy(), expected_edges, rtol=1e-6, atol=1e-6)
        assert y.dtype == np.int32
        assert edges.dtype == (np.float64 if dtype == "float64" else np.float32)


ROWS = [  # x, edges, counts
    ([0.0, 1.0, 2.0, 3.0, 4.0], [0, 2, 3], [2, 2]),
    ([NAN, 1.0, -1.0, 9.0, INF, -INF], [0, 1, 2], [0, 1]),
    ([1.0, 1.0, 2.0], [0, 1, 1], [0, 2]),
    ([1.0, 1.0, 2.0], [1, 1, 2], [0, 3]),
    ([5.0], [0, 1], [0]),
    ([5.0], [5], []),
    ([], [0, 1], [0]),
]


@pytest.mark.parametrize(("x", "edges", "counts"), ROWS)
def test_edges_of_bins(x, edges, counts, backend):
    for given in (edges, pg.asarray(edges, dtype="float32")):
        y, ends = pg.histogram(pg.asarray(x, dtype="float32"), given)
        assert y.tolist() == counts == np.histogram(x, edges)[0].tolist()
        assert ends.tolist() == edges


def test_large_integers_between_integer_edges(backend):
    require_dtypes(backend, "int64")
    x = np.asarray([2**53 + 1, 2**53 + 2, 2**53 + 3])
    edges = np.asarray([2**53, 2**53 + 2, 2**53 + 3])
    assert pg.histogram(x, edges)[0].tolist() == [1, 2]


def test_weights_and_densities(backend):
    x = X.astype(np.float32).ravel()
    weights = RNG.uniform(0.5, 2, x.shape).astype(np.float32)
    for options in ({"weights": weights}, {"weights": weights, "density": True}):
        y = pg.histogram(x, 5, **options)[0]
        np.testing.assert_allclose(
            y.numpy(), np.histogram(x, 5, **options)[0], rtol=2e-6
        )
        assert y.dtype == np.float32
    y, edges = pg.histogram(x, [-1, 0, 3], density=True)
    assert (y.dtype, edges.dtype) == (np.float32, np.int32)
    np.testing.assert_allclose(pg.sum(y * pg.diff(edges)).item(), 1, rtol=1e-6)
    assert pg.histogram([1, 2], 1, weights=[True, True])[0].tolist() == [2]


def test_the_gradient_of_weights(backend):
    w = np.random.default_rng(3).uniform(0.5, 2, 5)
    for density in (False, True):
        f = lambda w, d=density: pg.histogram(
            [0.5, 1.5, 2.5, 2.6, 9.0], 3, range=(0, 3), weights=w, density=d
        )[0]
        check_gradients(lambda w, f=f: pg.square(f(w)), w)


def test_histograms_under_jit_and_vmap(backend):
    x = pg.asarray(X.astype(np.float32))
    op = lambda x: pg.histogram(x, 4, range=(-2, 2))[0]
    for row, y in zip(X, pg.vmap(op)(x).numpy(), strict=True):
        assert y.tolist() == np.histogram(row, 4, (-2, 2))[0].tolist()
    f = pg.jit(lambda x: pg.histogram(x, 4))
    for values in (x, x * 2, x * 3):
        y, edges = f(values)
        counts, ends = np.histogram(values.numpy(), 4)
        assert y.tolist() == counts.tolist()
        np.testing.assert_allclose(edges.numpy(), ends, rtol=1e-6)


ERRORS = [
    (lambda: pg.cov(np.ones((2, 2, 2))), ValueError, "cov: x must be .*; reshape it"),
    (lambda: pg.cov(["a"]), TypeError, "cov: there is no cov of strings"),
    (
        lambda: pg.cov(X, fweights=[1.5] * 9),
        TypeError,
        "cov: fweights must be integers",
    ),
    (
        lambda: pg.cov(X, fweights=[1]),
        ValueError,
        r"cov: fweights must have shape \(9,\)",
    ),
    (lambda: pg.cov(X, aweights=[[1.0]]), ValueError, "cov: aweights must have shape"),
    (lambda: pg.cov(X, aweights=[1j] * 9), TypeError, "cov: .* complex"),
    (lambda: pg.cov(X, correction=1j), TypeError, "cov: correction must be real"),
    (lambda: pg.corrcoef(np.ones((2, 2, 2))), ValueError, "corrcoef: x must be"),
    (
        lambda: pg.histogram([NAN, 1.0]),
        ValueError,
        "elements range from nan to nan; pass",
    ),
    (lambda: pg.histogram([1.0], 0), ValueError, "histogram: bins 0 must be 1 or more"),
    (lambda: pg.histogram([1.0], 2.5), TypeError, "bins must be an integer, got 2.5"),
    (lambda: pg.histogram([1.0], "auto"), TypeError, "bins must be a number .* 'auto'"),
    (
        lambda: pg.histogram([1.0], [2, 1]),
        ValueError,
        "bin edges must ascend; sort",
    ),
    (lambda: pg.histogram([1.0], [[1, 2]]), ValueError, "bin edges must have one axis"),
    (
        lambda: pg.histogram([1.0], 3, range=(2, 1)),
        ValueError,
        "range 2 to 1 must ascend",
    ),
    (lambda: pg.histogram([1.0], 3, range=(2, INF)), ValueError, "range .* be finite"),
    (lambda: pg.histogram([1.0], 3, range=2), ValueError, "range must be two numbers"),
    (lambda: pg.histogram([1.0], [1, 2], range=(1, 2)), ValueError, "not to edges"),
    (lambda: pg.histogram([1.0], 3, weights=[1.0, 2]), ValueError, "weights .* shape"),
    (lambda: pg.histogram([1j]), TypeError, "histogram: complex numbers have no order"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call, error, message, backend):
    with pytest.raises(error, match=message):
        call()
