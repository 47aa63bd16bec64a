"""Trigonometric and hyperbolic functions; each row specifies one op."""

import math

import numpy as np
import plugrad as pg
import pytest

from .. import check
from .elementwise import (
    NAN,
    Row,
    check_decomposition,
    check_gradient,
    check_integers,
    check_signs_of_zero,
    check_special_values,
    check_the_whole_range,
    check_values,
    every,
    run,
    supported_dtypes,
    without,
)

ROWS = [
    Row(pg.sin, "Sin", np.sin),
    Row(pg.cos, "Cos", np.cos),
    Row(pg.tan, "Tan", np.tan, domain=(-1.2, 1.2), composed=13),
    Row(pg.asin, "Asin", np.arcsin, domain=(-0.9, 0.9), loose=4),
    Row(pg.acos, "Acos", np.arccos, domain=(-0.9, 0.9)),
    Row(pg.atan, "Atan", np.arctan),
    Row(pg.sinh, "Sinh", np.sinh, composed=10),
    Row(pg.cosh, "Cosh", np.cosh),
    Row(pg.tanh, "Tanh", np.tanh),
    Row(pg.asinh, "Asinh", np.arcsinh),
    Row(pg.acosh, "Acosh", np.arccosh, domain=(1.1, 4.0)),
    Row(pg.atanh, "Atanh", np.arctanh, domain=(-0.9, 0.9)),
]
DECOMPOSED = [row for row in ROWS if row.kernel not in ("Sin", "Cos", "Tanh")]


@every(ROWS)
def test_values(row, backend):
    check_values(row, backend)


@every(ROWS)
def test_special_values(row, backend):
    check_special_values(row, backend)


@every(ROWS)
def test_the_whole_range_of_float32(row, backend):
    check_the_whole_range(row, backend)


@every(ROWS)
def test_integers_become_float32(row, backend):
    check_integers(row, backend)


@every(ROWS)
def test_gradients(row, backend):
    check_gradient(row)


ODD = [row for row in ROWS if row.kernel not in ("Cos", "Acos", "Cosh", "Acosh")]


@every(ODD)
def test_odd_functions_keep_the_sign_of_zero(row, backend):
    check_signs_of_zero(row.op, [True, False])


@every(DECOMPOSED)
def test_decompositions(row):
    check_decomposition(row)


def test_float16_is_not_squared_to_infinity(backend):
    if not supported_dtypes(["float16"]):
        pytest.skip("no float16")
    x = np.asarray([300.0, 60000.0], np.float16)
    np.testing.assert_allclose(run(pg.asinh, x), np.arcsinh(x), rtol=4e-3)
    np.testing.assert_allclose(run(pg.acosh, x), np.arccosh(x), rtol=4e-3)


# --- gradients at difficult points -----------------------------------------------

DERIVATIVES = [
    (pg.asin, [1.0, -1.0], [math.inf, math.inf]),
    (pg.acos, [1.0, -1.0], [-math.inf, -math.inf]),
    (pg.asin, [1 - 2**-24], [2**11.5]),
    (pg.atan, [1e10, -1e18, math.inf], [1e-20, 1e-36, 0.0]),
    (pg.asinh, [1e10, -1e30, math.inf], [1e-10, 1e-30, 0.0]),
    (pg.acosh, [1e10, 1e30, math.inf], [1e-10, 1e-30, 0.0]),
    (pg.acosh, [1.0, 0.5, -2.0], [math.inf, NAN, NAN]),
    (pg.atanh, [1 - 2**-24, 1.0], [2.0**23, math.inf]),
    (pg.tanh, [100.0, -1e30, math.inf], [0.0, 0.0, 0.0]),
    (pg.cosh, [0.0, math.inf], [0.0, math.inf]),
]


@pytest.mark.parametrize(("op", "x", "slope"), DERIVATIVES, ids=range(len(DERIVATIVES)))
def test_slopes(op, x, slope, backend):
    x = pg.asarray(x)
    dx = pg.grad(op)(x, dy=pg.ones(x.shape)).numpy()
    np.testing.assert_allclose(dx, np.asarray(slope, np.float32), rtol=3e-5)


# --- complex numbers -------------------------------------------------------------


@every(ROWS)
def test_complex_values_and_gradients(row, backend):
    check.require_dtypes(backend, "complex128")
    rng = np.random.default_rng(0)
    draw = lambda: rng.normal(size=50) + 1j * rng.normal(size=50)
    z = 2 * draw()
    v = draw()
    dy = draw()
    eps = 1e-6
    f = lambda z: run(row.op, z)
    np.testing.assert_allclose(f(z), row.reference(z), rtol=1e-14)
    single = f(z.astype(np.complex64))
    assert single.dtype == np.complex64
    np.testing.assert_allclose(single, row.reference(z), rtol=1e-5)
    (dz,) = pg.grads(row.op)(pg.asarray(z), dy=pg.asarray(dy))
    numeric = (dy.conj() * (f(z + eps * v) - f(z - eps * v))).real / (2 * eps)
    np.testing.assert_allclose((dz.numpy().conj() * v).real, numeric, rtol=1e-5)


def test_the_sine_of_imaginary_numbers_is_imaginary(backend):
    check.require_dtypes(backend, "complex64")
    y = run(pg.sin, np.asarray([100j, -100j, 1j], np.complex64))
    assert y.real.tolist() == [0, 0, 0]
    expected = [math.inf, -math.inf, math.sinh(1)]
    np.testing.assert_allclose(y.imag, expected, rtol=1e-6)


@pytest.mark.parametrize("kernel", ["Sinh", "Cosh", "Tan"])
def test_complex_decompositions(kernel):
    (row,) = [row for row in ROWS if row.kernel == kernel]
    z = np.asarray([1e-9 + 1e-9j, 1 + 2j, -3 - 1j, -40 + 0.5j, 0.1 + 60j])
    with without(kernel), pg.use_backend("toy"):
        np.testing.assert_allclose(run(row.op, z), row.reference(z), rtol=1e-14)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("kernel", ["Asin", "Acos", "Atan", "Asinh", "Acosh", "Atanh"])
def test_complex_inverse_decompositions(kernel, dtype):
    """Test both sides of branch cuts (signed zeros), points near poles and far away."""
    (row,) = [row for row in ROWS if row.kernel == kernel]
    part = np.array([0, 1e-9, 1e-4, 0.3, 1, 1 + 1e-5, 1.5, 1e6, 1e15, math.inf])
    part = np.concatenate([part, -part]).astype(np.finfo(dtype).dtype)
    z = np.empty((len(part), len(part)), dtype)
    z.real = part[:, None]
    z.imag = part
    with without(kernel), pg.use_backend("toy"):
        found = run(row.op, z)
    with np.errstate(all="ignore"):
        expected = row.reference(z.astype("complex128"))
    for f, e in ((found.real, expected.real), (found.imag, expected.imag)):
        np.testing.assert_allclose(f, e, rtol=4 * np.finfo(dtype).eps, atol=1e-37)
        np.testing.assert_array_equal(np.signbit(f), np.signbit(e))


# --- errors ----------------------------------------------------------------------


@every(ROWS)
def test_strings_and_dicts_are_refused(row, backend):
    with pytest.raises(TypeError, match="of strings"):
        row.op("q")
    with pytest.raises(TypeError, match="cannot make a tensor of dict"):
        row.op({})
