"""Eigenvalues and eigenvectors of general matrices: values, gradients, errors."""

import numpy as np
import plugrad as pg
import pytest

from ..check import check_complex_gradients, check_gradients, require_dtypes
from ..toy import toy
from .test_matrix_factors import (
    SQUARE,
    complex_normal,
    near,
    real_and_complex,
    real_normal,
    scale_columns,
)

linalg = pg.linalg
WIDE = {"float32": "complex64", "float64": "complex128"}


def ordered(w):
    """Sort eigenvalues by their real parts, then by their imaginary parts."""
    return np.sort_complex(np.round(w, 9))


@real_and_complex
@pytest.mark.parametrize("shape", SQUARE, ids=str)
def test_eig(shape, make, backend):
    require_dtypes(backend, "float64", "complex128")
    x = make(*shape)
    w, v = linalg.eig(pg.asarray(x))
    assert (w.shape, v.shape) == (shape[:-1], shape)
    near((pg.asarray(x) @ v).numpy(), scale_columns(v, w).numpy())
    near(linalg.vector_norm(v, axis=-2).numpy(), 1)
    near(ordered(w.numpy()), ordered(np.linalg.eigvals(x)))
    near(ordered(linalg.eigvals(x).numpy()), ordered(w.numpy()))
    assert linalg.eig(x).eigenvectors.shape == v.shape


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64", "complex64"])
def test_results_are_always_complex(dtype, backend):
    """The results are complex although all eigenvalues are real."""
    require_dtypes(backend, dtype, WIDE.get(dtype, "complex64"))
    x = pg.asarray(np.diag([1, 2, 3]).astype(dtype))
    w, v = linalg.eig(x)
    for y in (w, v, linalg.eigvals(x)):
        assert y.dtype == WIDE.get(dtype, "complex64")
    assert sorted(pg.real(w).tolist()) == [1, 2, 3]
    assert w.backend == backend


def _projected(v):
    return v * pg.conj(v[..., :1, :])  # independent of the phase


GRADIENTS = {
    "values": linalg.eigvals,
    "values with vectors": lambda x: linalg.eig(x).eigenvalues ** 2,
    "vectors": lambda x: pg.abs(linalg.eig(x).eigenvectors) ** 3,
    "projections": lambda x: _projected(linalg.eig(x).eigenvectors),
}


@real_and_complex
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 4, 4)], ids=str)
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name, shape, make, backend):
    require_dtypes(backend, "float64", "complex128")
    op = GRADIENTS[name]
    if make is complex_normal:
        return check_complex_gradients(op, make(*shape))
    return check_gradients(lambda x: pg.real(op(x)) + 2 * pg.imag(op(x)), make(*shape))


def test_equal_eigenvalues_have_gradients(backend):
    require_dtypes(backend, "complex64")
    dx = pg.grad(lambda x: pg.sum(pg.real(linalg.eigvals(x))))(pg.eye(3) * 2)
    near(dx.numpy(), np.eye(3), 1e-6)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_matrix_that_is_not_finite_gives_nan(value, backend):
    require_dtypes(backend, "complex64")
    x = np.stack([np.diag([1.0, 2.0]), np.ones((2, 2))]).astype(np.float32)
    x[1, 0, 1] = value
    w, v = linalg.eig(x)
    for y in (w, linalg.eigvals(x)):
        assert sorted(pg.real(y[0]).tolist()) == [1, 2]
        assert np.isnan(y[1].numpy()).all()
    assert np.isnan(v[1].numpy()).all()


ERRORS = [
    (
        lambda: linalg.eig(real_normal(2, 3)),
        ValueError,
        r"eig: takes square .* \(2, 3\)",
    ),
    (
        lambda: linalg.eigvals(real_normal(3)),
        ValueError,
        r"eigvals: takes square .* \(3,\)",
    ),
    (lambda: linalg.eig("a"), TypeError, "eig: .*strings"),
    (lambda: linalg.eigvals(np.ones((2, 2), "f2")), TypeError, "eigvals: .*float16"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call, error, message, backend):
    with pytest.raises(error, match=message):
        call()


def test_a_backend_without_complex_numbers_says_so():
    problem = pytest.raises(TypeError, match="eig: backend 'toy' has no complex64")
    with toy(dtypes=["float32"]), pg.use_backend("toy"), problem:
        linalg.eig(pg.ones((2, 2)))
