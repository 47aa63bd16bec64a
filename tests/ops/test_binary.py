"""Binary ops: values, gradients on every layout, and the table of promotion."""

import math

import numpy as np
import plugrad as pg
import pytest

from tests.check import check_gradients

OPS = [
    (pg.add, np.add),
    (pg.subtract, np.subtract),
    (pg.multiply, np.multiply),
    (pg.divide, np.divide),
]
SHAPES = [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2, 3))]


@pytest.mark.parametrize(("op", "reference"), OPS, ids=lambda f: f.__name__)
@pytest.mark.parametrize(("a", "b"), SHAPES, ids=str)
def test_values_and_gradients(op, reference, a, b, backend):
    rng = np.random.default_rng(0)
    a, b = rng.uniform(1, 2, size=a), rng.uniform(1, 2, size=b)
    y = op(pg.asarray(a), pg.asarray(b))
    np.testing.assert_allclose(y.numpy(), reference(a, b))
    check_gradients(op, a, b)


PROMOTION = [
    ("int32", "float32", "float32"),
    ("int64", "float32", "float32"),
    ("int32", "int64", "int64"),
    ("float32", "float64", "float64"),
    ("bool", "int32", "int32"),
]


@pytest.mark.parametrize(("a", "b", "both"), PROMOTION)
def test_promotion(a, b, both, backend):
    a, b = pg.ones((2,), dtype=a), pg.ones((2,), dtype=b)
    assert (a + b).dtype == (b + a).dtype == np.dtype(both)


WEAK = [
    ("float32", 1, "float32"),
    ("float32", np.sqrt(2.0), "float32"),
    ("float64", np.float32(1), "float64"),
    ("int64", 1, "int64"),
    ("int32", 1.5, "float32"),
    ("bool", 1, "int32"),
]


@pytest.mark.parametrize(("dtype", "scalar", "result"), WEAK, ids=str)
def test_scalars_are_weak(dtype, scalar, result, backend):
    x = pg.ones((2,), dtype=dtype)
    assert (x + scalar).dtype == (scalar + x).dtype == np.dtype(result)


def test_minus_zero_is_not_zero(backend):
    x = pg.asarray([1.0])
    assert [(x / 0.0).item(), (x / -0.0).item()] == [math.inf, -math.inf]
    assert math.isnan((x * math.nan).item())


def test_a_scalar_that_does_not_fit_is_an_overflow(backend):
    with pytest.raises(OverflowError, match="add: 2147483648 does not fit into int32"):
        pg.asarray([1]) + 2**31


def test_numpy_on_the_left_keeps_the_gradient(backend):
    left = np.asarray([2.0], np.float32)
    assert pg.grad(lambda x: pg.sum(left * x))(pg.asarray([1.0])).tolist() == [2.0]


def test_shapes_that_do_not_broadcast(backend):
    with pytest.raises(ValueError, match=r"shapes \(2,\) and \(3,\) do not broadcast"):
        pg.ones((2,)) + pg.ones((3,))


def test_dividing_integers_gives_float32(backend):
    x = pg.asarray([1, 2])
    assert (x / x).dtype == (x / 2).dtype == (2 / x).dtype == np.float32
    assert pg.divide(1, 2).item() == 0.5


def test_the_cast_of_a_promotion_is_recorded(backend):
    x = pg.ones((2,), dtype="float32")
    dx = pg.grad(lambda x: pg.sum(x * pg.ones((2,), dtype="float64")))(x)
    assert dx.dtype == np.float32
