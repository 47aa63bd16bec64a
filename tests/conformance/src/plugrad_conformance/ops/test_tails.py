"""Small values and derivatives, which cancellation would destroy."""

import numpy as np
import plugrad as pg
import pytest

from ..check import check_gradients
from .elementwise import without

# Function, argument and value, computed by mpmath.
VALUES = [
    (pg.erfc, 3.0, 2.2090497e-05),
    (pg.erfc, 9.0, 4.1370317e-37),
    (pg.erfc, 10.0, 2.0884876e-45),
    (pg.gelu, -5.0, -1.4332579e-06),
    (pg.gelu, -5.5, -1.0444259e-07),
    (pg.gelu, -8.0, -4.9767685e-15),
    (pg.gelu, -12.0, -2.1317785e-32),
    (pg.sigmoid, -80.0, 1.8048513e-35),
    (pg.softplus, -80.0, 1.8048513e-35),
]


@pytest.mark.parametrize("row", VALUES, ids=lambda row: f"{row[0].__name__} {row[1]}")
def test_values_in_the_tails(row, backend):
    op, x, value = row
    found = op(pg.asarray([x], dtype="float32")).item()
    smallest = 1.4e-45
    np.testing.assert_allclose(found, value, rtol=1e-6, atol=smallest)


@pytest.mark.parametrize("x", [-5.0, -6.0, -9.0])
def test_gelu_by_tanh_in_the_tail(x, backend):
    """Rounding the exponent u to the dtype would make the error of exp(u) too large."""
    u = np.sqrt(8 / np.pi) * (x + 0.044715 * x**3)
    found = pg.gelu(pg.asarray(x, dtype="float32"), approximate=True).item()
    np.testing.assert_allclose(found, x * np.exp(u) / (1 + np.exp(u)), rtol=1e-6)


def test_gradients_from_inputs(backend):
    """Gradients from the outputs would be 0 where the outputs round to 1."""
    for name, x, slope in (
        ("SigmoidGrad", [0.0, 17.0, -60.0], [0.25, 4.1399374e-08, 8.7565108e-27]),
        ("TanhGrad", [0.0, 9.2, -30.0], [1.0, 4.0835858e-08, 3.5026043e-26]),
    ):
        run_kernel = lambda dy, x, name=name: pg.run_kernel(name, [dy, x], {})
        dy = pg.asarray([2.0, 2.0, -2.0])
        x = pg.asarray(x)
        expected = np.asarray(slope) * [2, 2, -2]
        np.testing.assert_allclose(run_kernel(dy, x).numpy(), expected, rtol=2e-6)
        check_gradients(run_kernel, dy.numpy(), [0.7, -0.25, 1.5])
        with without(name), pg.use_backend("toy"):
            found = run_kernel(dy, x).numpy()
        np.testing.assert_allclose(found, expected, rtol=2e-6)


TAILS = [  # function, x, first and second derivative, by mpmath
    (pg.sigmoid, 17.0, 4.1399376e-08, -4.1399372e-08),
    (pg.sigmoid, -60.0, 8.7565108e-27, 8.7565108e-27),
    (pg.tanh, 9.2, 4.0835858e-08, -8.1671714e-08),
    (pg.elu, -20.0, 2.0611536e-09, 2.0611536e-09),
    (pg.selu, -20.0, 3.6237128e-09, 3.6237128e-09),
    (pg.softsign, 1e6, 9.99998e-13, -1.9999940e-18),
    (pg.softsign, -1e10, 1e-20, 2e-30),
    (pg.softplus, 20.0, 1.0, 2.0611536e-09),
    (pg.log_sigmoid, 20.0, 2.0611536e-09, -2.0611536e-09),
    (pg.silu, 25.0, 1.0, -3.1942271e-10),
    (pg.mish, 12.0, 1.0, -3.3220238e-09),
    (pg.gelu, -5.5, -5.7334724e-07, -3.0424572e-06),
    (pg.erf, 6.0, 2.6173012e-16, -3.1407615e-15),
    (pg.erfc, 6.0, -2.6173012e-16, 3.1407615e-15),
    (pg.atan, 1e9, 1e-18, -2e-27),
    (pg.asinh, 1e9, 1e-9, -1e-18),
    (
        lambda x: pg.softmax(pg.stack([x, x * 0]))[0],
        20.0,
        2.0611536e-09,
        -2.0611536e-09,
    ),
    (
        lambda x: pg.log_softmax(pg.stack([x, x * 0]))[0],
        20.0,
        2.0611536e-09,
        -2.0611536e-09,
    ),
]


@pytest.mark.parametrize("row", TAILS, ids=lambda row: f"{row[0].__name__} {row[1]}")
def test_derivatives_in_the_tails(row, backend):
    op, x, first, second = row
    slope = pg.grad(op)
    x = pg.asarray(x, dtype="float32")
    np.testing.assert_allclose(slope(x).item(), first, rtol=2e-6)
    np.testing.assert_allclose(pg.grad(slope)(x).item(), second, rtol=2e-6)
