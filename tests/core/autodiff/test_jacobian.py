"""Jacobians and Hessians, compared with their formulas."""

import numpy as np
import plugrad as pg
import pytest

A = np.random.default_rng(0).normal(size=(3, 4))


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_jacobian_of_a_linear_map_is_its_matrix(mode, backend):
    found = pg.jacobian(lambda x, a: a @ x, mode=mode)(np.ones(4), A)
    np.testing.assert_allclose(found.numpy(), A)


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_shapes_of_result_and_argument(mode, backend):
    x = pg.asarray(np.arange(6.0).reshape(2, 3))
    found = pg.jacobian(lambda x: pg.sum(x * x, axis=1), mode=mode)(x)
    expected = np.zeros((2, 2, 3))
    for i in range(2):
        expected[i, i] = 2 * x.numpy()[i]
    np.testing.assert_allclose(found.numpy(), expected)
    scalar = pg.jacobian(lambda x: pg.sum(x), mode=mode)(x)
    assert scalar.shape == (2, 3)
    assert pg.jacobian(pg.exp, mode=mode)(0.0).item() == 1.0
    assert pg.jacobian(lambda x: x, mode=mode)(pg.ones((0,))).shape == (0, 0)


def test_hessian_and_derivatives_of_higher_order(backend):
    q = A @ A.T
    found = pg.hessian(lambda x: pg.sum(x * (pg.asarray(q) @ x)))(np.ones(3))
    np.testing.assert_allclose(found.numpy(), 2 * q)
    third_derivative = pg.jacobian(pg.hessian(lambda x: pg.sum(x * x * x)))(
        np.array([2.0])
    )
    assert third_derivative.tolist() == [[[6.0]]]
    gradient_of_jacobian = pg.grad(lambda x: pg.sum(pg.jacobian(pg.square)(x)))(
        np.array([3.0, 4.0])
    )
    assert gradient_of_jacobian.tolist() == [2.0, 2.0]


def test_the_modes_differ_on_complex_numbers(backend):
    z = np.asarray(1 + 2j, np.complex64)
    assert pg.jacobian(pg.square)(z).item() == 2 - 4j
    assert pg.jacobian(pg.square, mode="forward")(z).item() == 2 + 4j


BAD_CALLS = [
    (lambda: pg.jacobian(pg.exp, mode="sideways"), ValueError, "'sideways': use"),
    (lambda: pg.jacobian(pg.exp)([pg.ones(())]), TypeError, "one tensor, got a list"),
    (lambda: pg.jacobian(lambda x: x > 0)(1.0), TypeError, "floating tensor, got bool"),
    (lambda: pg.jacobian(lambda x: (x, x))(1.0), TypeError, "got tuple"),
    (lambda: pg.jacobian(lambda x: x)(1), TypeError, "one floating tensor"),
    (lambda: pg.hessian(pg.exp)(np.ones(2)), ValueError, "must return a scalar"),
]


@pytest.mark.parametrize(("call", "kind", "message"), BAD_CALLS)
def test_calls_without_jacobian_or_hessian_are_refused(call, kind, message, backend):
    with pytest.raises(kind, match=message):
        call()
