"""LU decomposition, matrix exponential, and chains of matrix products."""

import itertools

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import runtime

from ..check import check_complex_gradients, check_gradients, require_dtypes

RNG = np.random.default_rng(0)
linalg = pg.linalg
INF, NAN = np.inf, np.nan


def real_normal(*shape):
    return RNG.normal(size=shape)


def complex_normal(*shape):
    return real_normal(*shape) + 1j * real_normal(*shape)


def check_any_gradients(op, *xs):
    """Check gradients, also if an argument is complex."""
    is_complex = any(x.dtype.kind == "c" for x in xs)
    (check_complex_gradients if is_complex else check_gradients)(op, *xs)


real_and_complex = pytest.mark.parametrize("make", [real_normal, complex_normal])
SHAPES = [(1, 1), (4, 4), (5, 3), (3, 5), (70, 70), (40, 100), (100, 40), (2, 3, 3, 3)]
EMPTY = [(0, 0), (0, 3), (3, 0), (0, 2, 2), (2, 0, 3)]

# --- the LU decomposition --------------------------------------------------------


@real_and_complex
@pytest.mark.parametrize("shape", [*SHAPES, *EMPTY], ids=str)
def test_lu(shape, make, backend):
    require_dtypes(backend, "complex128" if make is complex_normal else "float64")
    x = make(*shape)
    *batch, m, n = shape
    k = min(m, n)
    p, lower, upper = (y.numpy() for y in linalg.lu(x))
    assert p.shape == (*batch, m, m)
    assert lower.shape == (*batch, m, k)
    assert upper.shape == (*batch, k, n)
    assert p.dtype == lower.dtype == upper.dtype == x.dtype
    np.testing.assert_allclose(p @ lower @ upper, x, atol=1e-12)
    np.testing.assert_array_equal(p.sum(-1), np.ones((*batch, m)))
    np.testing.assert_array_equal(lower, np.tril(lower))
    np.testing.assert_array_equal(upper, np.triu(upper))
    assert (lower.diagonal(0, -2, -1) == 1).all()
    assert (np.abs(lower.real) + np.abs(lower.imag)).max(initial=0) <= 2


KNOWN = [  # x, P, L, U
    ([[1, 2], [4, 6]], [[0, 1], [1, 0]], [[1, 0], [0.25, 1]], [[4, 6], [0, 0.5]]),
    ([[0, 0], [0, 0]], [[1, 0], [0, 1]], [[1, 0], [0, 1]], [[0, 0], [0, 0]]),
    ([[2, 1], [2, 3]], [[1, 0], [0, 1]], [[1, 0], [1, 1]], [[2, 1], [0, 2]]),
    ([[0, 3], [0, 6]], [[1, 0], [0, 1]], [[1, 0], [0, 1]], [[0, 3], [0, 6]]),
    ([[1, -4, 2]], [[1]], [[1]], [[1, -4, 2]]),
    ([[1], [-4]], [[0, 1], [1, 0]], [[1], [-0.25]], [[-4]]),
]


@pytest.mark.parametrize(("x", "p", "lower", "upper"), KNOWN, ids=range(len(KNOWN)))
def test_known_factors(x, p, lower, upper, backend):
    found = linalg.lu(pg.asarray(x))
    assert [y.dtype for y in found] == [np.float32] * 3
    assert [y.tolist() for y in found] == [p, lower, upper]
    assert found.U is found[2]


@real_and_complex
@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2), (2, 3, 3)], ids=str)
def test_gradients_of_lu(shape, make, backend):
    require_dtypes(backend, "complex128" if make is complex_normal else "float64")
    x = make(*shape)
    check_any_gradients(lambda x: tuple(linalg.lu(x))[1:], x)
    check_any_gradients(lambda x: (p := linalg.lu(x)).P @ p.L @ p.U, x)


# --- the exponential -------------------------------------------------------------


def exponential(x):
    """Return ``Σ x^k / k!``, by scaling and squaring."""
    halvings = 30 if np.abs(x).max(initial=0) > 1e-3 else 0
    term = total = np.broadcast_to(np.eye(x.shape[-1]), x.shape).astype(np.clongdouble)
    for k in range(1, 12):
        term = term @ (x / 2.0**halvings / k)
        total = total + term
    for _ in range(halvings):
        total = total @ total
    return total


@real_and_complex
@pytest.mark.parametrize("scale", [1e-9, 0.1, 1, 12])
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (2, 3, 3)], ids=str)
def test_matrix_exp(shape, scale, make, backend):
    for dtype in (
        ("float32", "float64") if make is real_normal else ("complex64", "complex128")
    ):
        if dtype in runtime(backend).dtypes:
            x = (make(*shape) * scale).astype(dtype)
            y = linalg.matrix_exp(x)
            expected = exponential(x.astype(np.complex128))
            expected = expected if make is complex_normal else expected.real
            size = np.abs(expected).max()
            rtol = 1e-6 if dtype in ("float32", "complex64") else 1e-9
            np.testing.assert_allclose(y.numpy(), expected, rtol=rtol, atol=rtol * size)
            assert y.dtype == dtype


def test_known_exponentials(backend):
    quarter_turn = pg.asarray([[0.0, -np.pi / 2], [np.pi / 2, 0.0]])
    y = linalg.matrix_exp(quarter_turn).numpy()
    np.testing.assert_allclose(y, [[0, -1], [1, 0]], atol=1e-6)
    assert linalg.matrix_exp([[0, 1], [0, 0]]).tolist() == [[1, 1], [0, 1]]
    assert linalg.matrix_exp([[-1e6, 0.0], [0.0, -1e20]]).tolist() == [[0, 0], [0, 0]]
    assert linalg.matrix_exp([[1000.0]]).item() == INF
    assert linalg.matrix_exp(np.zeros((2, 0, 0), np.float32)).shape == (2, 0, 0)


def test_the_exponential_of_nan_and_infinity(backend):
    x = np.zeros((3, 2, 2), np.float32)
    x[0, 0, 1], x[2, 1, 0] = NAN, INF
    y = linalg.matrix_exp(x).numpy()
    np.testing.assert_array_equal(np.isnan(y).all((1, 2)), [True, False, True])
    np.testing.assert_array_equal(y[1], np.eye(2))


@real_and_complex
@pytest.mark.parametrize("shape", [(3, 3), (2, 2, 2)], ids=str)
def test_gradients_of_matrix_exp(shape, make, backend):
    require_dtypes(backend, "complex128" if make is complex_normal else "float64")
    check_any_gradients(linalg.matrix_exp, make(*shape))


# --- chains of products ----------------------------------------------------------

A = real_normal(3)
B = real_normal(3, 4)
C = real_normal(4, 2)
D = real_normal(2)
CHAINS = [[A, B], [B, C], [A, B, C], [B, C, D], [A, B, C, D], [A, A], [C, D]]
SIZES = [(10, 1, 10, 1, 10), (2, 9, 3, 8, 4, 7), (1, 1, 1, 1), (3, 0, 2)]
CHAINS += [
    [real_normal(*pair) for pair in itertools.pairwise(sizes)] for sizes in SIZES
]


@pytest.mark.parametrize("chain", range(len(CHAINS)))
def test_chains(chain, backend):
    require_dtypes(backend, "float64")
    xs = CHAINS[chain]
    y = linalg.multi_dot(xs)
    np.testing.assert_allclose(y.numpy(), np.linalg.multi_dot(xs), rtol=1e-12)
    if 0 not in xs[0].shape:
        check_any_gradients(lambda *xs: linalg.multi_dot(xs), *xs)


def test_chains_are_multiplied_in_the_cheapest_order(backend):
    """Multiplying from left to right would overflow in the first product."""
    x = pg.full((4, 1), 1e30)
    y = pg.full((1, 4), 1e30)
    z = pg.full((4, 1), 1e-30)
    np.testing.assert_allclose(linalg.multi_dot([x, y, z]).numpy(), [[4e30]] * 4)


def test_dtypes_of_chains(backend):
    assert linalg.multi_dot([[[1, 2]], [[3], [4]]]).tolist() == [[11]]
    y = linalg.multi_dot([[True, True], [[True], [True]]])
    assert (y.tolist(), y.dtype) == ([2], np.int32)
    assert linalg.multi_dot([[[1, 2]], [[0.5], [1.5]]]).dtype == np.float32


def test_under_jit_and_vmap(backend):
    x = pg.asarray(real_normal(3, 4, 4).astype(np.float32))
    for op in (linalg.matrix_exp, lambda x: tuple(linalg.lu(x))):
        expected = [y.numpy() for y in pg.tree.leaves(op(x))]
        f = pg.jit(op)
        for found in (f(x), f(x), f(x), pg.vmap(op)(x)):
            for y, wanted in zip(pg.tree.leaves(found), expected, strict=True):
                np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-6)


ERRORS = [
    (lambda: linalg.lu([1.0]), ValueError, "lu: takes matrices"),
    (lambda: linalg.lu(pg.ones((2, 2), dtype="float16")), TypeError, "lu: .* float16"),
    (lambda: linalg.lu([["a"]]), TypeError, "lu: .* strings"),
    (lambda: linalg.matrix_exp(pg.ones((2, 3))), ValueError, "matrix_exp: .* square"),
    (lambda: linalg.multi_dot([B]), ValueError, "takes two matrices or more, got 1"),
    (lambda: linalg.multi_dot(B[0, 0]), TypeError, "xs must be a sequence"),
    (lambda: linalg.multi_dot([B, B]), ValueError, r"xs\[1\] must .* as xs\[0\] has"),
    (lambda: linalg.multi_dot([B, D, C]), ValueError, r"xs\[1\] must be a matrix; got"),
    (
        lambda: linalg.multi_dot([B, real_normal(2, 2, 2)]),
        ValueError,
        r"1\] must be .* a vector",
    ),
    (lambda: linalg.multi_dot([["a"], ["b"]]), TypeError, "multi_dot: .* strings"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call, error, message, backend):
    with pytest.raises(error, match=message):
        call()
