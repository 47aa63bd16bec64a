"""Derivatives at zeros, infinities and NaN agree between vjp and jvp."""

import math

import numpy as np
import plugrad as pg
import pytest

from ..check import require_dtypes

INF, NAN = math.inf, math.nan
POINTS = [0.0, -0.0, INF, -INF, NAN]
DTYPES = ["float16", "float32", "float64"]
SELU_SCALE, SELU_SLOPE_BELOW_0 = 1.0507009873554805, 1.7580993408473766

# An op, its derivatives at 0, inf and -inf (None: that of the formula), and at NaN (if
# left out, the derivative at NaN is NaN).
ACTIVATIONS = {
    "clip": (lambda x: pg.clip(x, -1, 1), 1, 0, 0, 0),
    "clip from below": (lambda x: pg.clip(x, -1, INF), 1, 1, 0, 0),
    "elu": (pg.elu, 1, 1, 0),
    "elu of 0.8": (lambda x: pg.elu(x, alpha=0.8), 0.8, 1, 0),
    "elu of 0": (lambda x: pg.elu(x, alpha=0.0), 0, 1, 0),
    "gelu": (pg.gelu, 0.5, 1, 0),
    "gelu by tanh": (lambda x: pg.gelu(x, approximate=True), 0.5, 1, 0),
    "hard_sigmoid": (pg.hard_sigmoid, 1 / 6, 0, 0),
    "hard_sigmoid of 0.2": (lambda x: pg.hard_sigmoid(x, alpha=0.2), 0.2, 0, 0),
    "hard_swish": (pg.hard_swish, 0.5, 1, 0),
    "leaky_relu": (pg.leaky_relu, 0.2, 1, 0.2, 0.2),
    "leaky_relu of 0": (lambda x: pg.leaky_relu(x, alpha=0.0), 0, 1, 0, 0),
    "leaky_relu of 1": (lambda x: pg.leaky_relu(x, alpha=1.0), 1, 1, 1, 1),
    "log_sigmoid": (pg.log_sigmoid, 0.5, 0, 1),
    "mish": (pg.mish, 0.6, None, None),
    "prelu": (lambda x: pg.prelu(x, 0.25), 0.25, 1, 0.25, 0.25),
    "relu": (pg.relu, 0, 1, 0),
    "relu6": (pg.relu6, 0, 0, 0),
    "selu": (pg.selu, SELU_SLOPE_BELOW_0, SELU_SCALE, 0),
    "sigmoid": (pg.sigmoid, 0.25, 0, 0),
    "silu": (pg.silu, 0.5, None, None),
    "softplus": (pg.softplus, 0.5, 1, 0),
    "softsign": (pg.softsign, 1, None, None),
    "tanh": (pg.tanh, 1, 0, 0),
}


def derivatives(op, x):
    """Return the derivatives by vjp and by jvp of an element-wise op."""
    y, pullback = pg.vjp(op, x)
    (reverse,) = pullback(pg.ones(y.shape, dtype=y.dtype))
    _, forward = pg.jvp(op, [x], [pg.ones(x.shape, dtype=x.dtype)])
    return reverse.numpy(), forward.numpy()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_derivatives_of_activations(name, dtype, backend):
    require_dtypes(backend, dtype)
    op, at_zero, above, below, *at_nan = ACTIVATIONS[name]
    reverse, forward = derivatives(op, pg.asarray(np.asarray(POINTS, dtype)))
    np.testing.assert_array_equal(reverse, forward)
    rtol = 1e-3 if dtype == "float16" else 1e-6
    expected = [at_zero, at_zero, above, below, *(at_nan or [NAN])]
    for found, wanted in zip(reverse.tolist(), expected, strict=True):
        if wanted is not None:
            assert found == pytest.approx(wanted, rel=rtol, abs=0, nan_ok=True)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 2.0])
def test_the_derivative_of_step_is_0_everywhere(alpha, backend):
    x = pg.asarray(np.asarray(POINTS, "float32"))
    for found in derivatives(lambda x: pg.step(x, alpha=alpha), x):
        assert found.tolist() == [0] * 5


@pytest.mark.parametrize("name", ["relu", "relu6", "clip", "hard_sigmoid"])
def test_an_infinite_cotangent_does_not_leak(name, backend):
    """Where an activation is saturated, the gradient is 0 for every cotangent."""
    x = pg.asarray([-9.0, 9.0, 0.25])
    _, pullback = pg.vjp(ACTIVATIONS[name][0], x)
    dx = pullback(pg.full((3,), INF))[0].tolist()
    assert dx == [0, INF if name == "relu" else 0, INF]


def test_derivatives_of_the_slopes_of_prelu(backend):
    x = pg.asarray([-2.0, 2.0, INF, NAN])
    slopes = pg.full((4,), 0.5)
    for found in derivatives(lambda a: pg.prelu(x, a), slopes):
        np.testing.assert_array_equal(found, [-2, 0, 0, NAN])


UNARY_OPS = """
abs acos acosh asin asinh atan atanh ceil cos cosh erf exp exp2 expm1 floor
log log1p log2 log10 negative positive reciprocal round rsqrt sign sin sinh sqrt square
tan trunc"""
BINARY_OPS = """
add atan2 copysign divide divide_no_nan fmod hypot logaddexp maximum minimum
multiply nextafter remainder subtract"""


@pytest.mark.parametrize("name", UNARY_OPS.split())
def test_vjp_and_jvp_agree(name, backend):
    points = [*POINTS, 0.5, 1.0, -1.0, 3.0]
    reverse, forward = derivatives(getattr(pg, name), pg.asarray(points))
    np.testing.assert_allclose(reverse, forward, rtol=1e-6)


@pytest.mark.parametrize("name", BINARY_OPS.split())
def test_vjp_and_jvp_of_two_arguments_agree(name, backend):
    op = getattr(pg, name)
    points = [*POINTS, 1.0, -3.0]
    a, b = (pg.asarray(x.ravel().astype("f4")) for x in np.meshgrid(points, points))
    for partial_op in (lambda x: op(x, b), lambda x: op(b, x)):
        reverse, forward = derivatives(partial_op, a)
        np.testing.assert_allclose(reverse, forward, rtol=1e-6)


def test_derivatives_of_hypot_at_infinities(backend):
    a = pg.asarray([INF, -INF, 2.0, INF])
    b = pg.asarray([2.0, 2.0, -INF, NAN])
    da, db = pg.grads(lambda a, b: pg.sum(pg.hypot(a, b)))(a, b)
    assert (da.tolist(), db.tolist()) == ([1, -1, 0, 1], [0, 0, -1, 0])


# --- reductions ------------------------------------------------------------------

ROWS = {  # the derivative of logsumexp in each element of the row
    (0.0, INF): [0, 1],
    (INF, 0.0, INF): [0.5, 0, 0.5],
    (-INF, INF): [0, 1],
    (-INF, 0.0): [0, 1],
    (-INF, -INF): [0.5, 0.5],
    (-INF,) * 4: [0.25] * 4,
    (0.0, NAN): [NAN, NAN],
    (INF, NAN): [NAN, NAN],
    (1000.0, 1000.0): [0.5, 0.5],
    (-1000.0, -1000.0): [0.5, 0.5],
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_derivatives_of_logsumexp(row, dtype, backend):
    require_dtypes(backend, dtype)
    x = pg.asarray(np.asarray(row, dtype))
    np.testing.assert_array_equal(pg.grad(pg.logsumexp)(x).numpy(), ROWS[row])
    _, forward = pg.jvp(pg.logsumexp, [x], [pg.ones(x.shape, dtype=x.dtype)])
    assert forward.item() == pytest.approx(1, nan_ok=True) or NAN in row
    square = pg.reshape(pg.asarray(np.asarray([row, row], dtype)), (2, 1, -1))
    for axis, factor in (((1, 2), 1), (None, 0.5), ((0, 2), 0.5)):
        total = lambda x, axis=axis: pg.sum(pg.logsumexp(x, axis=axis))
        dx = pg.grad(total)(square).numpy()
        expected = np.broadcast_to(np.asarray(ROWS[row]) * factor, dx.shape)
        np.testing.assert_array_equal(dx, expected)


@pytest.mark.parametrize("op", [pg.max, pg.min], ids=["max", "min"])
def test_the_gradient_of_a_maximum_or_minimum_that_is_nan_is_nan(op, backend):
    x = pg.asarray([[1.0, NAN, 2.0], [INF, -INF, 0.0], [3.0, 3.0, 3.0]])
    third = [1 / 3] * 3
    one_hot = [1, 0, 0] if op is pg.max else [0, 1, 0]
    dx = pg.grad(lambda x: pg.sum(op(x, axis=1)))(x).numpy()
    np.testing.assert_allclose(dx, [[NAN] * 3, one_hot, third], rtol=1e-6)
    assert np.isnan(pg.grad(op)(x).numpy()).all()
    initial = lambda x: pg.sum(op(x, axis=1, initial=0.0))
    assert np.isnan(pg.grad(initial)(x).numpy()[0]).all()
    norm = lambda x: pg.linalg.vector_norm(x, ord=INF if op is pg.max else -INF)
    assert np.isnan(pg.grad(norm)(x).numpy()).all()
