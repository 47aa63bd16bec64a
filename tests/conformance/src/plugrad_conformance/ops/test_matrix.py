"""Diagonals, linear systems, determinants and norms, compared with NumPy."""

import math

import numpy as np
import plugrad as pg
import pytest

from ..check import check_complex_gradients, check_gradients, require_dtypes

RNG = np.random.default_rng(0)
linalg = pg.linalg


def real_normal(*shape):
    return RNG.normal(size=shape)


def complex_normal(*shape):
    return real_normal(*shape) + 1j * real_normal(*shape)


def close(y, expected, rtol=1e-10):
    """Check the dtype, the shape and the values of a result."""
    expected = np.asarray(expected)
    assert (y.dtype, y.shape) == (expected.dtype, expected.shape)
    size = np.abs(expected).max(initial=1) if np.isfinite(expected).all() else 1
    np.testing.assert_allclose(y.numpy(), expected, rtol=rtol, atol=rtol * size)


# --- diagonals and bands ---------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (1,), (3,), (0,), (2, 3)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "int8", "complex64"])
def test_diag(shape, dtype, backend):
    require_dtypes(backend, dtype)
    x = (RNG.normal(size=shape) * 3).astype(dtype)
    expected = np.zeros((x.size, x.size), dtype)
    np.fill_diagonal(expected, x)
    y = pg.diag(x)
    assert y.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(y.numpy(), expected.reshape(shape * 2))


def test_diag_copies_nan_infinity_and_signed_zeros(backend):
    y = pg.diag([np.nan, np.inf, -0.0]).numpy()
    np.testing.assert_array_equal(y, np.diag(np.array([np.nan, np.inf, -0.0], "f4")))
    assert np.signbit(y[2, 2])


BANDS = [(0, 0), (-1, 0), (0, -1), (1, 2), (-1, -1), (2, 0), (3, 4), (-7, 1)]


@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (2, 3, 3), (0, 3), (2, 0)], ids=str)
@pytest.mark.parametrize(("lower", "upper"), BANDS)
def test_band_part(lower, upper, shape, backend):
    rows, columns = shape[-2:]
    lower = min(lower, rows)
    upper = min(upper, columns)
    x = RNG.normal(size=shape).astype(np.float32)
    below = np.arange(rows)[:, None] - np.arange(columns)
    inside = ((lower < 0) | (below <= lower)) & ((upper < 0) | (-below <= upper))
    for counts in ((lower, upper), (pg.asarray(lower), np.int64(upper))):
        y = linalg.band_part(x, *counts)
        np.testing.assert_array_equal(y.numpy(), np.where(inside, x, 0))
    assert linalg.band_part(x > 0, lower, upper).dtype == np.bool_
    assert linalg.band_part(x.astype("i4"), lower, upper).dtype == np.int32


def test_a_band_wider_than_the_matrix(backend):
    require_dtypes(backend, "int64")
    x = np.ones((2, 3), np.float32)
    largest = pg.asarray(2**63 - 1, dtype="int64")
    np.testing.assert_array_equal(linalg.band_part(x, largest, largest).numpy(), x)


def test_nan_outside_the_band_becomes_0(backend):
    x = np.full((2, 2), np.nan, np.float32)
    assert linalg.band_part(x, 0, 0).numpy()[0, 1] == 0


def test_gradients_of_diagonals_and_bands(backend):
    require_dtypes(backend, "float64")
    check_gradients(lambda x: pg.square(pg.diag(x)), real_normal(2, 3))
    check_gradients(
        lambda x: pg.square(linalg.band_part(x, 1, 0)), real_normal(2, 3, 4)
    )


# --- systems of equations --------------------------------------------------------

SYSTEMS = [
    ((3, 3), (3,)),
    ((3, 3), (3, 2)),
    ((1, 1), (1, 1)),
    ((5, 3, 3), (3,)),
    ((5, 3, 3), (3, 2)),
    ((3, 3), (5, 3, 2)),
    ((5, 1, 3, 3), (2, 3, 4)),
    ((0, 3, 3), (3, 2)),
    ((0, 0), (0, 2)),
    ((3, 3), (3, 0)),
]


@pytest.mark.parametrize(("a", "b"), SYSTEMS, ids=str)
@pytest.mark.parametrize("make", [real_normal, complex_normal])
def test_solve(a, b, make, backend):
    require_dtypes(backend, "float64", "complex128")
    a = make(*a)
    b = make(*b)
    close(linalg.solve(pg.asarray(a), pg.asarray(b)), np.linalg.solve(a, b))
    (check_complex_gradients if make is complex_normal else check_gradients)(
        linalg.solve, a, b
    )


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize(("a", "b"), SYSTEMS, ids=str)
@pytest.mark.parametrize("make", [real_normal, complex_normal])
def test_triangular_solve(a, b, upper, make, backend):
    require_dtypes(backend, "float64", "complex128")
    a = make(*a) + 2 * np.eye(a[-1])
    b = make(*b)
    op = lambda a, b: linalg.triangular_solve(a, b, upper=upper)
    expected = np.linalg.solve(np.triu(a) if upper else np.tril(a), b)
    close(op(pg.asarray(a), pg.asarray(b)), expected)
    (check_complex_gradients if make is complex_normal else check_gradients)(op, a, b)


@pytest.mark.parametrize("upper", [False, True])
def test_large_triangular_systems(upper, backend):
    a = RNG.random((2, 200, 200), np.float32) / 100 + np.eye(200, dtype=np.float32)
    b = RNG.random((200, 3), np.float32)
    y = linalg.triangular_solve(a, b, upper=upper)
    expected = np.linalg.solve(np.triu(a) if upper else np.tril(a), b)
    close(y, expected, rtol=1e-5)


@pytest.mark.parametrize("upper", [False, True])
def test_infinite_triangles(upper, backend):
    """The second element of the solution is ``(1 - inf · 0) / inf``."""
    x = np.full((3, 3), np.inf, np.float32)
    y = linalg.triangular_solve(x, np.ones((3, 1), np.float32), upper=upper)
    assert np.isnan(y.numpy()).any()


@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (3, 2, 2), (0, 0), (0, 2, 2)])
@pytest.mark.parametrize("make", [real_normal, complex_normal])
def test_inv(shape, make, backend):
    require_dtypes(backend, "float64", "complex128")
    x = make(*shape)
    close(linalg.inv(pg.asarray(x)), np.linalg.inv(x))
    (check_complex_gradients if make is complex_normal else check_gradients)(
        linalg.inv, x
    )


@pytest.mark.parametrize("n", [-3, -1, 0, 1, 2, 5, 12])
def test_matrix_power(n, backend):
    require_dtypes(backend, "float64")
    x = real_normal(2, 3, 3)
    op = lambda x: linalg.matrix_power(x, n)
    close(op(pg.asarray(x)), np.linalg.matrix_power(x, n), rtol=1e-9)
    check_gradients(op, x)


def test_powers_of_integers_are_integers(backend):
    fibonacci = linalg.matrix_power([[1, 1], [1, 0]], 30)
    assert fibonacci.dtype == np.int32
    assert fibonacci.numpy()[0, 1] == 832040
    assert linalg.matrix_power([[2]], -1).numpy() == np.float32(0.5)
    for n in (0, 1, 2):
        assert linalg.matrix_power([[True]], n).dtype == np.int32
    x = pg.asarray([[1.0]])
    linalg.matrix_power(x, 1).dispose()
    assert x.item() == 1


# --- determinants ----------------------------------------------------------------


@pytest.mark.parametrize(
    "shape", [(1, 1), (2, 2), (5, 5), (3, 4, 4), (0, 0), (0, 2, 2)]
)
@pytest.mark.parametrize("make", [real_normal, complex_normal])
def test_determinants(shape, make, backend):
    require_dtypes(backend, "float64", "complex128")
    x = make(*shape)
    check = check_complex_gradients if make is complex_normal else check_gradients
    close(linalg.det(pg.asarray(x)), np.linalg.det(x))
    found = linalg.slogdet(pg.asarray(x))
    expected = np.linalg.slogdet(x)
    close(found.sign, expected.sign)
    close(found.logabsdet, expected.logabsdet)
    check(linalg.det, x)
    check(lambda x: linalg.slogdet(x)[1], x)
    check(lambda x: linalg.slogdet(x)[0], x)


def singular_matrix(n, rank):
    """Return a random matrix of a given rank."""
    u, s, vh = np.linalg.svd(real_normal(n, n))
    return (u * np.where(np.arange(n) < rank, s, 0)) @ vh


SINGULAR = [
    singular_matrix(4, 3),
    singular_matrix(5, 3),
    singular_matrix(4, 1),
    np.zeros((2, 2)),
]
SINGULAR += [np.zeros((3, 3)), np.ones((3, 3)), np.eye(4), np.diag([2.0, 0, 2, 0])]


@pytest.mark.parametrize("x", SINGULAR, ids=range(len(SINGULAR)))
def test_determinants_of_singular_matrices_have_gradients(x, backend):
    require_dtypes(backend, "float64")
    check_gradients(linalg.det, x)
    check_gradients(linalg.det, np.stack([x, real_normal(*x.shape)]))


def test_third_and_fourth_derivatives_of_the_determinant(backend):
    require_dtypes(backend, "float64")
    x = real_normal(4, 4)
    v = real_normal(4, 4)
    f = lambda t: linalg.det(pg.asarray(x) + t * pg.asarray(v))
    values = [np.linalg.det(x + t * v) for t in range(5)]
    polynomial = np.polynomial.Polynomial.fit(range(5), values, 4).convert()
    derivative = f
    t = pg.asarray(np.float64(0.3))
    for order in range(1, 5):
        derivative = pg.grad(derivative)
        np.testing.assert_allclose(
            derivative(t).item(), polynomial.deriv(order)(0.3), 1e-8
        )


def test_large_and_small_determinants(backend):
    x = np.eye(80, dtype=np.float32) * 10
    sign, size = linalg.slogdet(-x[:79, :79])
    assert sign.item() == -1
    np.testing.assert_allclose(size.item(), 79 * math.log(10), rtol=1e-6)
    assert linalg.det(x).item() == np.inf
    assert linalg.det(x / 100).item() == 0
    sign, size = linalg.slogdet(np.ones((2, 2), np.float32))
    assert (sign.item(), size.item()) == (0, -np.inf)


# --- norms -----------------------------------------------------------------------


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("ord", [2, -2, "nuc"])
@pytest.mark.parametrize("shape", [(3, 4), (2, 4, 3)])
def test_norms_by_singular_values(shape, ord, keepdims, backend):
    require_dtypes(backend, "float64", "complex128")
    op = lambda x: linalg.matrix_norm(x, keepdims=keepdims, ord=ord)
    for x in (real_normal(*shape), complex_normal(*shape)):
        expected = np.linalg.norm(x, ord, (-2, -1), keepdims)
        close(op(pg.asarray(x)), expected)
    check_gradients(op, real_normal(*shape))


# --- dtypes, NaN, errors ---------------------------------------------------------

OPS = {
    "det": (linalg.det, np.linalg.det),
    "inv": (linalg.inv, np.linalg.inv),
    "slogdet": (lambda x: linalg.slogdet(x)[1], lambda x: np.linalg.slogdet(x)[1]),
    "solve": (lambda x: linalg.solve(x, x), lambda x: np.linalg.solve(x, x)),
    "triangular_solve": (
        lambda x: linalg.triangular_solve(x, x),
        lambda x: np.linalg.solve(np.tril(x), x),
    ),
}


@pytest.mark.parametrize("dtype", ["float32", "complex64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("name", OPS)
def test_dtypes(name, dtype, backend):
    require_dtypes(backend, dtype)
    op, reference = OPS[name]
    x = np.asarray([[1, 0, 1], [1, 1, 0], [0, 1, 1]]).astype(dtype)
    floating = x if x.dtype.kind in "fc" else x.astype(np.float32)
    close(op(x), reference(floating), rtol=1e-5)


@pytest.mark.parametrize("name", OPS)
def test_nan_stays_in_its_matrix_of_a_batch(name, backend):
    op, reference = OPS[name]
    x = np.stack([np.eye(2), np.full((2, 2), np.nan), np.eye(2) * 2]).astype("f4")
    with np.errstate(all="ignore"):
        expected = reference(x)
    y = op(x).numpy()
    assert np.isnan(y[1]).any()
    np.testing.assert_allclose(y[[0, 2]], expected[[0, 2]])


def test_a_system_with_nan_next_to_zeros(backend):
    x = np.asarray([[[0, 1], [np.nan, 0]], [[1, 0], [0, 1]]], np.float32)
    y = linalg.solve(x, [[1.0, 2, 3], [4, 5, 6]]).numpy()
    assert np.isnan(y[0]).any()
    np.testing.assert_array_equal(y[1], [[1, 2, 3], [4, 5, 6]])


A = np.ones((2, 3), np.float32)
ONES = np.ones((2, 2), np.float32)
# Elimination with pivoting leaves about 1e-17 instead of the 0 on the diagonal.
ROUNDED = np.array([[0.2, 0, 0], [-0.4, 0, 0], [0.7, -0.5, -1.6]], np.float32)
ERRORS = [
    (lambda: linalg.solve(ONES, [1, 2]), ValueError, "solve: the matrix is singular"),
    (
        lambda: linalg.solve(np.stack([np.eye(2), ONES]), ONES),
        ValueError,
        r"solve: matrix \[1\] is singular",
    ),
    (
        lambda: linalg.inv(np.stack([[np.eye(2), np.eye(2)], [ONES, ONES]])),
        ValueError,
        r"matrix \[1, 0\] is singular",
    ),
    (
        lambda: linalg.triangular_solve([[1.0, 0], [1, 0]], [1, 1]),
        ValueError,
        "the matrix is singular",
    ),
    (
        lambda: linalg.triangular_solve(np.stack([np.eye(2), 0 * ONES]), ONES),
        ValueError,
        r"matrix \[1\] is singular",
    ),
    (lambda: linalg.matrix_power(ONES, -2), ValueError, "is singular"),
    (
        lambda: linalg.matrix_power(A, 2),
        ValueError,
        r"matrix_power: takes square .*\(2, 3\)",
    ),
    (lambda: linalg.matrix_power(ONES, 0.5), TypeError, "matrix_power: n must be an"),
    (lambda: linalg.det(A), ValueError, r"det: takes square matrices.*\(2, 3\)"),
    (lambda: linalg.slogdet(A[0]), ValueError, r"slogdet: takes .* shape \(3,\)"),
    (lambda: linalg.inv(1.0), ValueError, r"inv: takes .* shape \(\)"),
    (lambda: linalg.solve(A, A), ValueError, r"solve: takes .* shape \(2, 3\)"),
    (
        lambda: linalg.solve(ONES, A[0]),
        ValueError,
        r"solve: b must be \[m\] .* shapes \(3,\) and \(2, 2\)",
    ),
    (lambda: linalg.solve(ONES, 1.0), ValueError, r"solve: b must .* shapes \(\)"),
    (
        lambda: linalg.solve(np.ones((3, 2, 2)), np.ones((4, 2, 1))),
        ValueError,
        r"solve: shapes \(3,\) and \(4,\) do not broadcast",
    ),
    (
        lambda: linalg.triangular_solve(ONES, np.ones((3, 3))),
        ValueError,
        "triangular_solve: b must be",
    ),
    (
        lambda: linalg.band_part([1.0], 0, 0),
        ValueError,
        r"band_part: takes matrices, .* got shape \(1,\)",
    ),
    (lambda: linalg.band_part([["a"]], 0, 0), TypeError, "no band_part of strings"),
    (lambda: pg.diag(["a", "b"]), TypeError, "no diag of strings"),
    (
        lambda: linalg.triangular_solve(ROUNDED, np.ones(3, np.float32)),
        ValueError,
        "triangular_solve: the matrix is singular",
    ),
    (
        lambda: linalg.band_part(A, 3, 0),
        ValueError,
        r"band_part: num_lower 3 must be one number, at most 2; .* \(2, 3\)",
    ),
    (lambda: linalg.band_part(A, 0, 4), ValueError, "num_upper 4 must be one number"),
    (lambda: linalg.band_part(A, 0, [1, 2]), ValueError, "num_upper"),
    (lambda: linalg.band_part(A, 0.5, 0), TypeError, "num_lower must be integers"),
    (lambda: linalg.matrix_norm(A, ord=3), ValueError, "matrix_norm: ord 3: use"),
    (lambda: linalg.matrix_norm(A, ord="inf"), ValueError, "ord 'inf': use"),
    (lambda: linalg.matrix_norm(1.0, ord=2), ValueError, "matrix_norm: expected mat"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call, error, message, backend):
    if backend != "cpu":
        message = message.removeprefix("triangular_")  # solve may run instead
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    "op", [linalg.det, linalg.inv, linalg.slogdet, lambda x: linalg.solve(x, x)]
)
def test_float16_is_refused(op, backend):
    require_dtypes(backend, "float16")
    with pytest.raises(TypeError, match="is not defined for float16; cast with astype"):
        op(np.eye(2, dtype=np.float16))


def test_the_gradient_of_slogdet_of_a_singular_matrix_is_an_error(backend):
    f = lambda x: linalg.slogdet(x)[1]
    with pytest.raises(ValueError, match="the matrix is singular"):
        pg.grad(f)(ONES)
