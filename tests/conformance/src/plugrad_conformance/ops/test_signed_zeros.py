"""The signs of zeros, and results next to zero, match those of NumPy and C."""

import numpy as np
import plugrad as pg
import pytest

from ..check import require_dtypes

FUNCTIONS = {
    pg.fmod: np.fmod,
    pg.remainder: np.remainder,
    pg.nextafter: np.nextafter,
    pg.copysign: np.copysign,
    pg.atan2: np.arctan2,
    pg.multiply: np.multiply,
    pg.divide: np.divide,
    pg.hypot: np.hypot,
}


def pairs(dtype):
    """Return all pairs of zeros, tiny and moderate numbers, infinities and NaN."""
    tiny = float(np.finfo(dtype).smallest_subnormal)
    values = [0, tiny, 2 * tiny, 0.25, 1, 1.5, 3, np.inf]
    values = np.asarray([*values, *[-x for x in values], np.nan]).astype(dtype)
    return [x.ravel() for x in np.meshgrid(values, values)]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("op", FUNCTIONS, ids=lambda op: op.__name__)
def test_signs_of_zeros(op, dtype, backend):
    require_dtypes(backend, dtype)
    a, b = pairs(dtype)
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[op](a, b)
    y = op(pg.asarray(a), pg.asarray(b)).numpy()
    eps = float(np.finfo(dtype).eps)
    np.testing.assert_allclose(y, expected, rtol=0 if op is pg.fmod else 4 * eps)
    zero = expected == 0
    wrong = zero & (np.signbit(y) != np.signbit(expected))
    assert not wrong.any(), (a[wrong], b[wrong])


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_the_angle_of_a_zero_is_the_imaginary_part_of_its_logarithm(dtype, backend):
    require_dtypes(backend, dtype)
    z = np.asarray([complex(a, b) for a in (0.0, -0.0) for b in (0.0, -0.0)], dtype)
    y = pg.angle(pg.asarray(z)).numpy()
    expected = [0, -0.0, np.pi, -np.pi]
    np.testing.assert_allclose(y, expected, rtol=1e-6)
    np.testing.assert_array_equal(np.signbit(y), np.signbit(expected))
    np.testing.assert_allclose(y, pg.imag(pg.log(pg.asarray(z))).numpy(), rtol=1e-6)
    assert not pg.grad(lambda z: pg.sum(pg.angle(z)))(pg.asarray(z)).numpy().any()


def test_the_angle_of_a_real_zero(backend):
    y = pg.angle(pg.asarray([0.0, -0.0])).numpy()
    np.testing.assert_allclose(y, [0, np.pi], rtol=1e-6)


def test_the_derivative_of_nextafter_is_that_of_its_first_argument(backend):
    a = pg.asarray([1.0, 0.0, -0.0, np.inf, -1.4e-45, np.nan])
    b = pg.asarray([1.0, -0.0, 1.0, 0.0, 0.0, 1.0])
    ones = pg.ones(a.shape)
    da, db = pg.grads(lambda a, b: pg.sum(pg.nextafter(a, b)))(a, b)
    assert (da.tolist(), db.tolist()) == ([1] * 6, [0] * 6)
    _, along = pg.jvp(pg.nextafter, [a, b], [ones, ones * 2])
    assert along.tolist() == [1] * 6
    (total,) = pg.grads(lambda a: pg.sum(pg.nextafter(a, b)))(pg.asarray(1.0))
    assert total.item() == 6


def test_the_derivatives_of_fmod_at_zeros(backend):
    x = pg.asarray([0.0, -0.0, 0.5, -0.5, 2.5, -2.5])
    da, db = pg.grads(lambda a, b: pg.sum(pg.fmod(a, b)))(x, pg.ones(x.shape))
    assert (da.tolist(), db.tolist()) == ([1] * 6, [0, 0, 0, 0, -2, 2])
