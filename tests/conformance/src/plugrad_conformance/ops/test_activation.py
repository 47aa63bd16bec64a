"""Activation functions and clip: one row each; the row is the specification."""

import math

import numpy as np
import plugrad as pg
import pytest

from ..check import check_gradients
from .elementwise import (
    INF,
    NAN,
    SAMPLE,
    SPECIAL,
    Row,
    assert_near,
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

SCALE, ALPHA = 1.0507009873554805, 1.6732632423543772
erf = np.vectorize(math.erf, otypes=[float])


def elu(x):
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def selu(x):
    return SCALE * np.where(x > 0, x, ALPHA * np.expm1(np.minimum(x, 0)))


def sigmoid(x):
    return np.where(x < 0, np.exp(np.minimum(x, 0)), 1) / (1 + np.exp(-np.abs(x)))


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def step(x):
    return np.where(x > 0, 1, np.where(np.isnan(x), NAN, 0))


def gelu(tanh):
    """Return gelu, or its approximation with tanh."""
    if tanh:
        inner = lambda x: np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    else:
        inner = lambda x: erf(x / math.sqrt(2))
    return lambda x: x / 2 * (1 + inner(x))


def approximate_gelu(x):
    return pg.gelu(x, approximate=True)


SMOOTH = [
    Row(pg.elu, "Elu", elu, domain=(-2.0, -0.1)),
    Row(pg.selu, "Selu", selu, domain=(-2.0, -0.1), composed=9),
    Row(pg.sigmoid, "Sigmoid", sigmoid, composed=9),
    Row(pg.softplus, "Softplus", softplus),
    Row(pg.log_sigmoid, "", lambda x: -softplus(-x)),
    Row(pg.relu, "Relu", lambda x: np.maximum(x, 0), domain=(0.1, 2.0), keeps=True),
    Row(pg.relu6, "Relu6", lambda x: np.clip(x, 0, 6), domain=(1.0, 5.0), keeps=True),
    Row(pg.step, "Step", step, domain=(-2.0, -0.1)),
    Row(
        pg.leaky_relu,
        "LeakyRelu",
        lambda x: np.where(x < 0, 0.2 * x, x),
        domain=(-2.0, -0.1),
    ),
]
# Functions of the form x * gate(x). Only their absolute error is small near their zeros
# and in their tails.
SELF_GATED = [
    (pg.silu, lambda x: x * sigmoid(x)),
    (pg.mish, lambda x: x * np.tanh(softplus(x))),
    (pg.gelu, gelu(tanh=False)),
    (approximate_gelu, gelu(tanh=True)),
]
by_name = {"ids": lambda f: f.__name__}


PIECEWISE = [  # piecewise linear or rational
    (pg.hard_sigmoid, lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    (pg.hard_swish, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    (pg.softsign, lambda x: x / (1 + np.abs(x))),
]


@pytest.mark.parametrize(("op", "reference"), PIECEWISE, **by_name)
def test_piecewise_activations(op, reference, backend):
    x = np.array([-1e30, -4.0, -2.9, -1.5, 0.0, 0.3, 2.0, 3.1, 1e30, np.nan])
    tolerances = {"float32": 1e-6, "float64": 1e-14, "float16": 2e-3}
    for dtype in supported_dtypes(tolerances):
        given = (x[1:8] if dtype == "float16" else x).astype(dtype)
        y = op(pg.asarray(given))
        assert y.dtype == dtype
        expected = reference(given.astype(float))
        rtol = tolerances[dtype]
        np.testing.assert_allclose(y.numpy(), expected, rtol, rtol)
    assert op(pg.asarray([1, 2])).dtype == np.float32
    check_gradients(op, x[1:8])


@pytest.mark.parametrize("alpha", [0.5, 2.0, -1.0])
def test_elu_with_alpha(alpha, backend):
    x = np.array([-np.inf, -3.0, -1e-6, 0.0, 2.0, np.inf, np.nan], "float32")
    expected = np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))
    y = pg.elu(x, alpha=alpha)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)
    check_gradients(lambda x: pg.elu(x, alpha=alpha), [-1.5, -0.3, 0.4, 3.0])
    dx = pg.grad(lambda x: pg.sum(pg.elu(x, alpha=alpha)))(pg.asarray([0.0]))
    assert dx.tolist() == [alpha]


def test_hard_sigmoid_with_alpha_and_beta(backend):
    y = pg.hard_sigmoid([-4.0, -1.0, 0.0, 4.0], alpha=0.2, beta=0.4)
    np.testing.assert_allclose(y.numpy(), [0, 0.2, 0.4, 1], rtol=1e-6)


@every(SMOOTH)
def test_values(row, backend):
    check_values(row, backend)


@every(SMOOTH)
def test_special_values(row, backend):
    check_special_values(row, backend)


@every(SMOOTH)
def test_the_whole_range_of_float32(row, backend):
    check_the_whole_range(row, backend)


@every(SMOOTH)
def test_integers(row, backend):
    if row.op is pg.relu6:  # NumPy clips no bool
        x = np.asarray([-1, 3, 9], np.int32)
        assert_near(run(pg.relu6, x), np.asarray([0, 3, 6], np.int32), 0)
        assert pg.relu6([True, False]).tolist() == [True, False]
    else:
        check_integers(row, backend)


@every(SMOOTH)
def test_gradients(row, backend):
    check_gradient(row)
    if row.domain[0] < 0:  # on both sides of 0
        check_gradients(row.op, [-1.5, -0.3, 0.4, 3.0, 20.0, -30.0])


@every([row for row in SMOOTH if row.kernel])
def test_decompositions(row):
    dtypes = ["float32", "float64", "float16"]
    dtypes += ["int32", "uint8"] if row.keeps else []
    check_decomposition(row, dtypes, zeros=False)


@pytest.mark.parametrize(("op", "reference"), SELF_GATED, **by_name)
def test_self_gated_activations(op, reference, backend):
    for dtype, rtol in (("float32", 1e-6), ("float64", 1e-15)):
        if not supported_dtypes([dtype]):
            continue
        x = np.linspace(-12, 12, 401).astype(dtype)
        found = run(op, x)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, reference(x), rtol=4 * rtol, atol=4 * rtol)
    found = run(op, SAMPLE[np.isfinite(SAMPLE)])
    assert np.isfinite(found).all()
    assert run(op, np.asarray([INF, NAN], np.float32))[0] == INF
    assert op([1, 2]).dtype == np.float32
    assert op(np.zeros((0, 3))).shape == (0, 3)


@pytest.mark.parametrize(("op", "reference"), SELF_GATED, **by_name)
def test_gradients_of_self_gated_activations(op, reference, backend):
    x = [-3.0, -0.7, 0.0, 0.2, 1.5, 4.0]
    check_gradients(op, x)
    check_gradients(op, 0.3)
    far = pg.asarray([-1e4, 1e4, -1e30, 1e30, 3e38, -3e38])
    dx = pg.grad(op)(far, dy=pg.ones((6,)))
    np.testing.assert_allclose(dx.numpy(), [0, 1, 0, 1, 1, 0], atol=1e-6)
    second = pg.grad(lambda x: pg.sum(pg.grad(op)(x, dy=pg.ones((4,)))))(far[:4])
    assert second.tolist() == [0.0] * 4


# --- gradients at special points -------------------------------------------------

SLOPES = [
    (pg.relu, [0.0, -0.0, 1e-30, INF, NAN], [0, 0, 1, 1, NAN]),
    (pg.relu6, [0.0, 3.0, 6.0, 7.0, -INF, INF], [0, 1, 1, 0, 0, 0]),
    (pg.leaky_relu, [0.0, 2.0, -INF, NAN], [0.2, 1, 0.2, 0.2]),
    (pg.elu, [0.0, 1000.0, -1000.0, -INF, NAN], [1, 1, 0, 0, NAN]),
    (pg.selu, [1000.0, -1000.0, INF, -INF], [SCALE, 0, SCALE, 0]),
    (pg.sigmoid, [-1000.0, 1000.0, INF, -INF, 0.0], [0, 0, 0, 0, 0.25]),
    (pg.softplus, [-1000.0, 1000.0, INF, -INF, 0.0], [0, 1, 1, 0, 0.5]),
    (pg.softplus, [-80.0], [math.exp(-80)]),
    (pg.log_sigmoid, [-1000.0, 1000.0, 0.0], [1, 0, 0.5]),
    (pg.step, [0.0, 1.0, NAN], [0, 0, 0]),
]


@pytest.mark.parametrize(("op", "x", "slope"), SLOPES, ids=range(len(SLOPES)))
def test_slopes(op, x, slope, backend):
    x = pg.asarray(x)
    first = lambda x: pg.grad(op)(x, dy=pg.ones(x.shape))
    np.testing.assert_allclose(first(x).numpy(), np.asarray(slope, np.float32), 1e-6)
    second = pg.grad(lambda x: pg.sum(first(x)))(x).numpy()
    finite = np.isfinite(x.numpy())
    assert np.isfinite(second[finite]).all()


def test_saturated_values(backend):
    x = pg.asarray([-1000.0, -95.0, 95.0, 1000.0])
    assert pg.softplus(x).tolist()[2:] == [95.0, 1000.0]
    np.testing.assert_allclose(pg.log_sigmoid(x).numpy()[:2], [-1000, -95])
    assert pg.sigmoid(x).tolist()[0] == 0.0
    assert pg.sigmoid(x).tolist()[2:] == [1.0, 1.0]


# --- leaky_relu, step and prelu --------------------------------------------------


@pytest.mark.parametrize("alpha", [0.2, 1.0, 0.0, -0.5, 3, np.float32(0.1)])
def test_leaky_relu(alpha, backend):
    op = lambda x: pg.leaky_relu(x, alpha=alpha)
    for dtype in supported_dtypes(["float32", "float64"]):
        x = np.asarray(SPECIAL[:2] + SPECIAL[3:], dtype)
        with np.errstate(invalid="ignore"):
            expected = np.where(x < 0, x * np.asarray(alpha, dtype), x)
        assert_near(run(op, x), expected, 1)
        long = np.linspace(-1, 1, 9999).astype(dtype)
        expected = np.where(long < 0, long * np.asarray(alpha, dtype), long)
        assert_near(run(op, long), expected, 1)
    check_gradients(op, [[-1.0, 2.0], [0.5, -0.5]])


@pytest.mark.parametrize("alpha", [0.0, 0.1, -1, 2.5])
def test_step(alpha, backend):
    op = lambda x: pg.step(x, alpha=alpha)
    for dtype in supported_dtypes(["float32", "float64"]):
        x = np.asarray(SPECIAL, dtype)
        low = np.where(np.isnan(x), x, np.asarray(alpha, dtype))
        assert_near(run(op, x), np.where(x > 0, np.asarray(1, dtype), low), 0)
    assert op([0, 2, -3]).dtype == np.float32
    assert op(2.0).item() == 1.0
    check_gradients(lambda x: op(x) * x, [-1.0, 2.0])


PAIRS = [
    ((2, 3), (2, 3)),
    ((2, 3), (3,)),
    ((3,), (2, 1)),
    ((2, 3), ()),
    ((), ()),
    ((0, 3), (3,)),
]


@pytest.mark.parametrize(("x", "alpha"), PAIRS, ids=str)
def test_prelu(x, alpha, backend):
    rng = np.random.default_rng(0)
    x = rng.normal(size=x)
    alpha = rng.uniform(-1, 1, size=alpha)
    expected = np.where(x < 0, x * alpha, x)
    np.testing.assert_allclose(pg.prelu(x, alpha).numpy(), expected)
    check_gradients(pg.prelu, x, alpha)
    with without("Prelu"), pg.use_backend("toy"):
        np.testing.assert_allclose(pg.prelu(x, alpha).numpy(), expected)


def test_slopes_do_not_matter_where_x_is_positive(backend):
    x = pg.asarray([2.0, INF, 0.0])
    for alpha in (NAN, INF, [0.5, NAN, -INF]):
        assert pg.prelu(x, alpha).tolist() == [2.0, INF, 0.0]
    for alpha in (NAN, INF, -INF, 1e-50):
        assert pg.leaky_relu(x, alpha=alpha).tolist() == [2.0, INF, 0.0]
        y = pg.step([2.0, INF, -1.0], alpha=alpha).numpy()
        np.testing.assert_allclose(y, np.asarray([1.0, 1.0, alpha], np.float32))
    assert pg.prelu([1, -2], 0.5).dtype == np.float32
    assert pg.prelu([1, -2], [2, 3]).tolist() == [1.0, -6.0]


def test_elu_grad(backend):
    run_kernel = lambda dy, y: pg.run_kernel("EluGrad", [dy, y], {})
    dy = pg.asarray([2.0, 2.0, 3.0, 4.0])
    y = pg.asarray([1.5, 0.0, -0.25, -1.0])
    assert run_kernel(dy, y).tolist() == [2.0, 2.0, 2.25, 0.0]
    check_gradients(run_kernel, dy.numpy(), [1.5, 0.7, -0.25, -0.9])
    with without("EluGrad"), pg.use_backend("toy"):
        assert run_kernel(dy, y).tolist() == [2.0, 2.0, 2.25, 0.0]


# --- clip ------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "int64"])
@pytest.mark.parametrize("shape", [(), (7,), (2, 3), (0, 2), (50, 100)], ids=str)
def test_clip(shape, dtype, backend):
    if not supported_dtypes([dtype]):
        pytest.skip(f"no {dtype}")
    x = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)
    expected = np.clip(x, 20, 70)
    bounds = [np.asarray(20, dtype), np.asarray(70, dtype)]
    for low, high in ((20, 70), bounds, (20, bounds[1])):
        assert_near(pg.clip(x, low, high).numpy(), expected, 0)
    assert_near(pg.clip(x, 20).numpy(), np.maximum(x, 20).astype(dtype), 0)
    assert_near(pg.clip(x, max=70).numpy(), np.minimum(x, 70).astype(dtype), 0)
    assert_near(pg.clip(x).numpy(), x, 0)


@pytest.mark.parametrize("op", [pg.relu, pg.relu6], ids=lambda f: f.__name__)
def test_zeros_become_positive(op, backend):
    check_signs_of_zero(op, [False, False])


@pytest.mark.parametrize("op", [pg.relu, pg.relu6], ids=lambda f: f.__name__)
def test_an_infinite_cotangent_does_not_matter_where_the_op_is_flat(op, backend):
    x = pg.asarray([-2.0, 0.0, 4.0])
    dx = pg.grad(lambda x: pg.sum(pg.sqrt(op(x))))(x)
    assert dx.tolist() == [0, 0, 0.25]
    dx = pg.grad(op)(x, dy=pg.full((3,), INF))
    assert dx.tolist() == [0, 0, INF]


def test_clip_promotes_its_bounds_like_scalars(backend):
    assert pg.clip([1, 5], 2, 3).tolist() == [2, 3]
    assert pg.clip([1, 5], 2.5, 3).dtype == np.float32
    assert pg.clip([1, 5], 2.5).tolist() == [2.5, 5.0]
    assert pg.clip([1, 5], -INF, INF).tolist() == [1.0, 5.0]
    assert pg.clip([1.0, 5.0], 2, 3).dtype == np.float32
    if supported_dtypes(["float64"]):
        wide = np.asarray([2.0])
        assert pg.clip([1.0, 5.0], wide, wide + 1).dtype == np.float32
        assert pg.clip([1, 5], wide).dtype == np.float64


def test_clip_broadcasts_and_keeps_nan(backend):
    x = pg.asarray([[1.0], [2.0], [NAN]])
    low = pg.asarray([0.0, 1.5])
    expected = [[1, 1.5], [1.75, 1.75], [NAN, NAN]]
    np.testing.assert_array_equal(pg.clip(x, low, 1.75).numpy(), expected)
    np.testing.assert_array_equal(pg.clip([NAN, 2.0], 0, 1).numpy(), [NAN, 1])
    long = np.linspace(-1, 1, 5000, dtype=np.float32)
    long[7] = NAN
    np.testing.assert_array_equal(pg.clip(long, 0, 1).numpy(), np.clip(long, 0, 1))
    assert math.isnan(pg.clip(2.0, NAN, 1.0).item())
    assert pg.clip([1.0, 2.0], 1.5, 1.5).tolist() == [1.5, 1.5]


def test_gradients_of_clip(backend):
    x = [-2.0, -0.5, 0.5, 2.0]
    check_gradients(lambda x: pg.clip(x, -1, 1) * x, x)
    check_gradients(lambda x, a, b: pg.clip(x, a, b) * x, x, [-1.0, 0.0, 0, 0], 1.0)
    dx = pg.grad(lambda x: pg.clip(x, -1, 1))(
        pg.asarray([-1.0, 1.0, 1.5]), dy=pg.ones((3,))
    )
    assert dx.tolist() == [1.0, 1.0, 0.0]
    with without("ClipByValue"), pg.use_backend("toy"):
        assert pg.clip(pg.asarray([-2, 0, 2]), -1, 1).tolist() == [-1, 0, 1]
        assert pg.clip(pg.asarray([-2.0, 0.25, 2.0]), -1, 1).tolist() == [-1, 0.25, 1]


# --- overrides -------------------------------------------------------------------


def test_relu_inside_a_layer_can_be_overridden(backend):
    guided = {"Relu": {"x": lambda dy, y: pg.relu(dy) * pg.sign(y)}}
    x = pg.asarray([1.0, 1.0, -1.0])
    with pg.override_gradient("Relu", **guided["Relu"]):
        dx = pg.grad(pg.relu)(x, dy=pg.asarray([2.0, -2.0, 2.0]))
    assert dx.tolist() == [2.0, 0.0, 0.0]


# --- errors ----------------------------------------------------------------------

Z = pg.asarray([1j])
ERRORS = [
    *(
        (op, TypeError, f"{op.__name__}: there is no {op.__name__} of complex")
        for op in (
            pg.elu,
            pg.gelu,
            pg.leaky_relu,
            pg.log_sigmoid,
            pg.mish,
            pg.relu,
            pg.relu6,
            pg.selu,
            pg.sigmoid,
            pg.silu,
            pg.softplus,
            pg.step,
        )
    ),
    (lambda z: pg.prelu(z, 1.0), TypeError, "prelu: there is no prelu of complex"),
    (lambda z: pg.prelu(1.0, z), TypeError, "prelu: there is no prelu of complex"),
    (lambda z: pg.clip(z, 0, 1), TypeError, "clip: complex numbers have no order"),
    (lambda z: pg.clip(1.0, z), TypeError, "clip: complex numbers have no order"),
    (lambda z: pg.clip(1.0, max=z), TypeError, "clip: complex numbers have no order"),
    (lambda z: pg.clip(1.0, 0, 1j), TypeError, "clip: max must be real, got 1j"),
    (lambda z: pg.clip([3], 1, -1), ValueError, "clip: min 1 is more than max -1; sw"),
    (
        lambda z: pg.clip(np.asarray([3], np.int8), 0, 300),
        OverflowError,
        "clip: 300 does not fit into int8",
    ),
    (
        lambda z: pg.clip(pg.ones((2,)), pg.ones((3,))),
        ValueError,
        r"clip: shapes \(2,\) and \(3,\)",
    ),
    (
        lambda z: pg.prelu(pg.ones((2,)), pg.ones((3,))),
        ValueError,
        r"prelu: shapes \(2,\) and \(3,\)",
    ),
    (
        lambda z: pg.leaky_relu(1.0, alpha=z),
        TypeError,
        "leaky_relu: alpha must be a number, got Tensor",
    ),
    (lambda z: pg.step(1.0, alpha=1j), TypeError, "step: alpha must be real, got 1j"),
    (lambda z: pg.relu("q"), TypeError, "relu: there is no relu of strings"),
    (lambda z: pg.clip({}, 0, 1), TypeError, "cannot make a tensor of dict"),
    (lambda z: pg.prelu(["a"], 0.1), TypeError, "prelu: there is no prelu of strings"),
]


@pytest.mark.parametrize(("call", "error", "match"), ERRORS, ids=range(len(ERRORS)))
def test_errors(call, error, match, backend):
    with pytest.raises(error, match=match):
        call(Z)
