"""Matrix factorizations: their products, gradients, degenerate cases, errors."""

import math

import numpy as np
import plugrad as pg
import pytest

from ..check import check_complex_gradients, check_gradients, require_dtypes

RNG = np.random.default_rng(0)
linalg = pg.linalg
H = lambda x: pg.conj(pg.matrix_transpose(x))


def real_normal(*shape):
    return RNG.normal(size=shape)


def complex_normal(*shape):
    return real_normal(*shape) + 1j * real_normal(*shape)


def check_any_gradients(op, *xs):
    """Check gradients, also if an argument is complex."""
    is_complex = any(x.dtype.kind == "c" for x in xs)
    (check_complex_gradients if is_complex else check_gradients)(op, *xs)


def near(y, expected, rtol=1e-11):
    np.testing.assert_allclose(y, expected, rtol=rtol, atol=rtol * 10)


def hermitian(x):
    return (x + H(x)) / 2


def positive_definite(x):
    return hermitian(x) + pg.asarray(9 * np.eye(x.shape[-1]))


def scale_columns(u, s):
    """Scale the columns of a matrix."""
    return u * pg.expand_dims(s, axis=-2)


real_and_complex = pytest.mark.parametrize("make", [real_normal, complex_normal])
SQUARE = [(1, 1), (4, 4), (3, 2, 2), (2, 1, 3, 3), (0, 0), (0, 2, 2)]
SHAPES = [(3, 3), (5, 3), (3, 5), (1, 4), (4, 1), (2, 4, 3), (0, 3), (3, 0), (0, 3, 2)]


# --- Cholesky and QR -------------------------------------------------------------


@real_and_complex
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("shape", SQUARE, ids=str)
def test_cholesky(shape, upper, make, backend):
    require_dtypes(backend, "float64", "complex128")
    x = make(*shape)
    op = lambda x: linalg.cholesky(positive_definite(x), upper=upper)
    y, given = op(pg.asarray(x)).numpy(), positive_definite(pg.asarray(x)).numpy()
    adjoint = y.conj().swapaxes(-1, -2)
    near(adjoint @ y if upper else y @ adjoint, given)
    np.testing.assert_array_equal(y, np.triu(y) if upper else np.tril(y))
    check_any_gradients(op, x)


def test_only_the_lower_triangle_counts(backend):
    require_dtypes(backend, "float64")
    x = positive_definite(pg.asarray(real_normal(3, 3)))
    garbage = np.where(np.tri(3), x.numpy(), np.nan)
    for op in (linalg.cholesky, linalg.eigvalsh, lambda x: linalg.eigh(x)[0]):
        near(op(garbage).numpy(), op(x).numpy())
    stack = np.stack([garbage, np.full((3, 3), np.nan)])
    for op in (linalg.cholesky, linalg.eigvalsh):
        near(op(stack).numpy()[0], op(x).numpy())  # LAPACK rejects the other matrix
    for op in (linalg.cholesky, linalg.eigvalsh):
        dy = pg.ones(op(x).shape, dtype="float64")
        dx = pg.grad(op)(x, dy=dy).numpy()
        near(dx, dx.T)


@real_and_complex
@pytest.mark.parametrize("mode", ["reduced", "complete"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_qr(shape, mode, make, backend):
    require_dtypes(backend, "float64", "complex128")
    x = make(*shape)
    q, r = linalg.qr(pg.asarray(x), mode=mode)
    expected = np.linalg.qr(x, mode)
    assert (q.shape, r.shape) == (expected.Q.shape, expected.R.shape)
    near((q @ r).numpy(), x)
    near((H(q) @ q).numpy(), np.broadcast_to(np.eye(q.shape[-1]), (H(q) @ q).shape))
    np.testing.assert_array_equal(r.numpy(), np.triu(r.numpy()))
    if math.prod(shape):
        check_any_gradients(lambda x: linalg.qr(x, mode=mode).R, x)
        if mode == "reduced" or shape[-2] <= shape[-1]:
            check_any_gradients(lambda x: linalg.qr(x, mode=mode).Q, x)
            check_any_gradients(lambda x: pg.sin(linalg.qr(x).Q) @ linalg.qr(x).R, x)


@real_and_complex
@pytest.mark.parametrize("shape", [(1, 3), (3, 3), (2, 3, 4), (0, 3)], ids=str)
def test_gram_schmidt(shape, make, backend):
    require_dtypes(backend, "float64", "complex128")
    x = make(*shape)
    y = linalg.gram_schmidt(pg.asarray(x)).numpy()
    gram = y @ y.conj().swapaxes(-1, -2)
    near(gram, np.broadcast_to(np.eye(shape[-2]), gram.shape))
    triangle = x @ y.conj().swapaxes(-1, -2)  # lower triangular, positive diagonal
    near(np.triu(triangle, 1), 0)
    assert (np.diagonal(triangle, axis1=-2, axis2=-1).real > 0).all()
    if math.prod(shape):
        check_any_gradients(linalg.gram_schmidt, x)


def test_gram_schmidt_of_a_list(backend):
    a, b = linalg.gram_schmidt([pg.asarray([3.0, 4.0]), pg.asarray([5.0, 0.0])])
    near(a.numpy(), [0.6, 0.8], 1e-6)
    near(b.numpy(), [0.8, -0.6], 1e-6)


# --- eigenvalues -----------------------------------------------------------------


@real_and_complex
@pytest.mark.parametrize("shape", SQUARE, ids=str)
def test_eigh(shape, make, backend):
    require_dtypes(backend, "float64", "complex128")
    x = make(*shape)
    given = hermitian(pg.asarray(x))
    w, v = linalg.eigh(given)
    assert (w.dtype, v.dtype) == (np.float64, x.dtype)
    near((scale_columns(v, w) @ H(v)).numpy(), given.numpy())
    near(w.numpy(), np.linalg.eigvalsh(given.numpy()))
    near(linalg.eigvalsh(given).numpy(), w.numpy())
    assert linalg.eigh(given).eigenvalues.shape == w.shape
    if not math.prod(shape):
        return
    check_any_gradients(lambda x: linalg.eigvalsh(hermitian(x)), x)
    check_any_gradients(lambda x: linalg.eigh(hermitian(x))[0], x)

    def exponential(x):
        w, v = linalg.eigh(hermitian(x))
        return scale_columns(v, pg.exp(w)) @ H(v)

    check_any_gradients(exponential, x)
    if make is real_normal:
        check_any_gradients(lambda x: linalg.eigh(hermitian(x))[1], x)


# --- singular values -------------------------------------------------------------


@real_and_complex
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_svd(shape, make, backend):
    require_dtypes(backend, "float64", "complex128")
    x = make(*shape)
    given = pg.asarray(x)
    k = min(shape[-2:])
    for full in (False, True):
        u, s, vh = linalg.svd(given, full_matrices=full)
        expected = np.linalg.svd(x, full)
        for y, z in zip((u, s, vh), expected, strict=True):
            assert (y.shape, y.dtype) == (z.shape, z.dtype)
        near((scale_columns(u[..., :k], s) @ vh[..., :k, :]).numpy(), x)
        near(s.numpy(), expected.S)
    near(linalg.svdvals(given).numpy(), expected.S)
    assert linalg.svd(given).Vh.shape[-1] == shape[-1]
    if not math.prod(shape):
        return
    for op in (linalg.svdvals, lambda x: linalg.svd(x).S):
        check_any_gradients(op, x)

    def polar(x):
        u, _, vh = linalg.svd(x, full_matrices=False)
        return u @ vh

    def squared(x):
        u, s, _ = linalg.svd(x, full_matrices=False)
        return scale_columns(u, s * s) @ H(u)

    check_any_gradients(polar, x)
    check_any_gradients(squared, x)
    if make is real_normal:
        for i in range(3):
            check_any_gradients(lambda x, i=i: linalg.svd(x, full_matrices=False)[i], x)


def test_derivatives_along_a_direction(backend):
    require_dtypes(backend, "float64")
    x = real_normal(4, 3)
    v = real_normal(4, 3)
    eps = 1e-6
    for f in (
        lambda x: linalg.svd(x, full_matrices=False),
        lambda x: linalg.qr(x),
        lambda x: linalg.eigh(hermitian(x[:3])),
    ):
        _, found = pg.jvp(f, [pg.asarray(x)], [pg.asarray(v)])
        ahead, behind = (f(pg.asarray(x + t * v)) for t in (eps, -eps))
        for y, a, b in zip(found, ahead, behind, strict=True):
            near(y.numpy(), (a.numpy() - b.numpy()) / (2 * eps), 1e-6)


# --- degenerate matrices ---------------------------------------------------------


DEGENERATE = [np.eye(3), np.zeros((3, 3)), np.diag([2.0, 2.0, 1.0])]


@pytest.mark.parametrize("x", DEGENERATE, ids=range(3))
@pytest.mark.parametrize(
    "op",
    [
        linalg.svdvals,
        linalg.eigvalsh,
        lambda x: linalg.svd(x).S,
        lambda x: linalg.eigh(x).eigenvalues,
    ],
)
def test_equal_eigenvalues_and_singular_values_have_gradients(op, x, backend):
    """The gradient of the sum is the identity, or, at 0, an orthogonal matrix."""
    require_dtypes(backend, "float64")
    dx = pg.grad(lambda x: pg.sum(op(x)))(pg.asarray(x)).numpy()
    near(dx @ dx.T, np.eye(3))
    if x.any():
        near(dx, np.eye(3))
    _, along = pg.jvp(lambda x: pg.sum(op(x)), [pg.asarray(x)], [pg.asarray(x)])
    near(along.numpy(), np.trace(x))


def test_singular_vectors_of_a_zero_value_have_gradients(backend):
    require_dtypes(backend, "float64")
    x = real_normal(5, 2) @ real_normal(2, 3)
    weights = pg.asarray([1.0, 2.0, 4.0])
    right = lambda x: scale_columns(H(linalg.svd(x).Vh), weights) @ linalg.svd(x).Vh
    check_gradients(right, x, order=1)
    left = lambda x: (lambda u: scale_columns(u, weights) @ H(u))(linalg.svd(x).U)
    check_gradients(left, x.T, order=1)


def test_vectors_of_equal_values_have_no_finite_gradient(backend):
    require_dtypes(backend, "float64")
    x = pg.asarray(np.eye(2))
    dy = pg.asarray(real_normal(2, 2))
    total = lambda x: pg.sum(pg.square(linalg.svdvals(x)))
    for f in (
        lambda x: linalg.svd(x).U,
        lambda x: linalg.eigh(x).eigenvectors,
        pg.grad(total),  # this gradient depends on the singular vectors
    ):
        assert not np.isfinite(pg.grad(f)(x, dy=dy).numpy()).all()


def test_vectors_that_are_not_unique_have_no_gradient(backend):
    x = RNG.random((4, 2), np.float32)
    for f, message in (
        (lambda x: linalg.qr(x, mode="complete").Q, r"beyond the first 2 .*\(4, 4\)"),
        (lambda x: linalg.svd(x).U, "vectors of U and Vh beyond the first 2 are arb"),
        (lambda x: linalg.svd(pg.matrix_transpose(x)).Vh, "beyond the first 2"),
    ):
        y = f(pg.asarray(x))
        with pytest.raises(ValueError, match=message):
            pg.grad(f)(x, dy=pg.ones(y.shape))
    part = lambda x: pg.sum(pg.sin(linalg.qr(x, mode="complete").Q[:, :2]))
    whole = lambda x: pg.sum(pg.sin(linalg.qr(x).Q))
    near(pg.grad(part)(x).numpy(), pg.grad(whole)(x).numpy(), 1e-5)


# --- rank, condition, pseudo-inverse, least squares ------------------------------


def matrix_of_rank(m, n, rank):
    """Return a random matrix of a given rank."""
    return real_normal(m, rank) @ real_normal(rank, n)


@pytest.mark.parametrize(
    ("x", "rtol"),
    [
        (real_normal(4, 3), None),
        (matrix_of_rank(5, 4, 2), None),
        (np.zeros((3, 2)), None),
        (np.diag([1.0, 0.1, 0.01]), 0.05),
        (np.stack([np.diag([1.0, 0.1, 0.01])] * 2), np.asarray([0.05, 0.5])),
        (np.zeros((2, 0, 3)), None),
    ],
)
def test_rank(x, rtol, backend):
    require_dtypes(backend, "float64")
    rank = linalg.matrix_rank(pg.asarray(x), rtol=rtol)
    assert rank.dtype == np.int32
    # NumPy before 2.4 refuses empty matrices.
    wanted = np.linalg.matrix_rank(x, rtol=rtol) if x.size else np.zeros(x.shape[:-2])
    np.testing.assert_array_equal(rank.numpy(), wanted)
    expected = np.linalg.pinv(x, rtol=rtol)
    y = linalg.pinv(pg.asarray(x), rtol=rtol)
    assert y.shape == expected.shape
    near(y.numpy(), expected)


@real_and_complex
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_pinv(shape, make, backend):
    require_dtypes(backend, "float64", "complex128")
    x = make(*shape)
    near(linalg.pinv(pg.asarray(x)).numpy(), np.linalg.pinv(x))
    if math.prod(shape):
        check_any_gradients(linalg.pinv, x)


def test_gradients_of_pinv_at_constant_rank(backend):
    require_dtypes(backend, "float64")
    check_gradients(linalg.pinv, np.eye(3))  # equal singular values do no harm
    a, b = real_normal(5, 2), real_normal(2, 4)
    check_gradients(lambda a, b: linalg.pinv(a @ b), a, b)


@pytest.mark.parametrize("ord", [2, -2, 1, -1, math.inf, -math.inf, "fro", "nuc"])
def test_cond(ord, backend):
    require_dtypes(backend, "float64")
    x = real_normal(2, 3, 3)
    op = lambda x: linalg.cond(x, ord=ord)
    near(op(pg.asarray(x)).numpy(), np.linalg.cond(x, ord))
    check_gradients(op, x)


def test_condition_numbers_of_rectangular_and_singular_matrices(backend):
    near(linalg.cond([[3.0, 0, 0], [0, 1, 0]]).item(), 3, 1e-6)
    assert linalg.cond([[1.0, 0], [0, 0]]).item() == np.inf
    assert linalg.cond([[0.0]]).item() == np.inf


@pytest.mark.parametrize(
    ("a", "b"), [((5, 3), (5,)), ((3, 5), (3, 2)), ((4, 5, 3), (5, 2)), ((3, 3), (3,))]
)
def test_lstsq(a, b, backend):
    require_dtypes(backend, "float64")
    a, b = real_normal(*a) + 2 * np.eye(*a[-2:]), real_normal(*b)
    y = linalg.lstsq(pg.asarray(a), pg.asarray(b))
    near(y.numpy(), np.linalg.pinv(a) @ b)
    if a.ndim == 2:
        near(y.numpy(), np.linalg.lstsq(a, b)[0])
    check_gradients(linalg.lstsq, a, b)


# --- dtypes, NaN, errors ---------------------------------------------------------

OPS = {
    "cholesky": linalg.cholesky,
    "eigh": lambda x: linalg.eigh(x).eigenvectors,
    "eigvalsh": linalg.eigvalsh,
    "pinv": linalg.pinv,
    "qr": lambda x: linalg.qr(x).R,
    "svd": lambda x: linalg.svd(x).U,
    "svdvals": linalg.svdvals,
}


@pytest.mark.parametrize("dtype", ["float32", "complex64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("name", OPS)
def test_dtypes(name, dtype, backend):
    require_dtypes(backend, dtype)
    x = np.asarray([[1, 0], [0, 1]]).astype(dtype)
    y = OPS[name](x)
    stays_complex = dtype == "complex64" and name not in ("eigvalsh", "svdvals")
    assert y.dtype == (np.complex64 if stays_complex else np.float32)


@pytest.mark.parametrize("name", OPS)
def test_float16_is_refused(name, backend):
    require_dtypes(backend, "float16")
    with pytest.raises(TypeError, match=f"{name}: is not defined for float16"):
        OPS[name](np.eye(2, dtype=np.float16))


@pytest.mark.parametrize("not_finite", [np.nan, np.inf])
@pytest.mark.parametrize("name", OPS)
def test_nan_stays_in_its_matrix_of_a_batch(name, not_finite, backend):
    x = np.stack([np.eye(2), np.full((2, 2), not_finite), np.eye(2) * 2]).astype("f4")
    y = OPS[name](x).numpy()
    assert not np.isfinite(y[1]).all()
    for i in (0, 2):
        np.testing.assert_array_equal(y[i], OPS[name](x[i]).numpy())


@pytest.mark.parametrize("place", [0, 1])
def test_eigenvalues_of_nan_on_the_diagonal(place, backend):
    x = np.stack([np.eye(2), np.ones((2, 2)) + np.eye(2)]).astype("f4")
    x[1, place, place] = np.nan
    for y in (linalg.eigvalsh(x), linalg.eigh(x).eigenvalues):
        np.testing.assert_array_equal(y.numpy(), [[1, 1], [np.nan, np.nan]])
    assert np.isnan(linalg.eigvalsh(x[1]).numpy()).all()


def test_gradients_in_float32(backend):
    x = RNG.random((3, 3), np.float32)
    for op in (*OPS.values(), linalg.gram_schmidt, linalg.cond):
        f = lambda x, op=op: pg.sum(op(hermitian(x) + np.eye(3, dtype="f4") * 3))
        dx = pg.grad(f)(x)
        assert (dx.dtype, np.isfinite(dx.numpy()).all()) == (np.float32, True)


A = np.ones((2, 3), np.float32)
ONES = np.ones((2, 2), np.float32)
ERRORS = [
    (
        lambda: linalg.cholesky([[1.0, 2], [2, 1]]),
        ValueError,
        "cholesky: the matrix is not positive definite",
    ),
    (
        lambda: linalg.cholesky(np.stack([np.eye(2), -np.eye(2)])),
        ValueError,
        r"cholesky: matrix \[1\] is not positive definite",
    ),
    (lambda: linalg.cholesky(A), ValueError, r"cholesky: takes .* shape \(2, 3\)"),
    (lambda: linalg.eigh(A), ValueError, r"eigh: takes square .* shape \(2, 3\)"),
    (lambda: linalg.eigvalsh(A[0]), ValueError, r"eigvalsh: takes .* shape \(3,\)"),
    (lambda: linalg.qr(A[0]), ValueError, r"qr: takes matrices.* shape \(3,\)"),
    (lambda: linalg.qr(A, mode="raw"), ValueError, "qr: mode 'raw': use 'reduced' or"),
    (lambda: linalg.svd(A[0]), ValueError, r"svd: takes .* shape \(3,\)"),
    (lambda: linalg.svdvals(1.0), ValueError, r"svdvals: takes .* shape \(\)"),
    (lambda: linalg.pinv(1.0), ValueError, r"pinv: takes .* shape \(\)"),
    (lambda: linalg.pinv(A, rtol=1j), TypeError, "complex"),
    (
        lambda: linalg.pinv(A, rtol=np.ones(3)),
        ValueError,
        r"pinv: rtol must broadcast to \(\); got shape \(3,\)",
    ),
    (lambda: linalg.matrix_rank(A[0]), ValueError, "matrix_rank: takes matrices"),
    (lambda: linalg.cond(A, ord=1), ValueError, r"cond: takes .* shape \(2, 3\)"),
    (lambda: linalg.cond(ONES, ord=1), ValueError, "the matrix is singular"),
    (lambda: linalg.cond(np.ones((0, 3))), ValueError, "cond: an empty matrix"),
    (lambda: linalg.cond(np.ones((0, 0)), ord=1), ValueError, "cond: an empty matrix"),
    (lambda: linalg.cond(np.ones((0, 0)), ord="fro"), ValueError, "cond: an empty mat"),
    (lambda: linalg.lstsq(A, A[0]), ValueError, r"lstsq: b must be .* \(3,\)"),
    (lambda: linalg.lstsq(A, 1.0), ValueError, r"lstsq: b must be .* \(\)"),
    (
        lambda: linalg.gram_schmidt(A.T),
        ValueError,
        "gram_schmidt: 3 vectors of 2 elements are not independent",
    ),
    (lambda: linalg.gram_schmidt([]), ValueError, "there is nothing to join"),
    (lambda: linalg.gram_schmidt(A[0]), ValueError, r"schmidt: takes .* \(3,\)"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call, error, message, backend):
    with pytest.raises(error, match=message):
        call()
