"""Fused ops equal their parts, forward and backward, and respect overrides of them."""

import numpy as np
import plugrad as pg
import pytest

from ..check import check_gradients
from ..toy import toy
from .test_conv import name, require_dtypes

RNG = np.random.default_rng(0)
KERNELS = ["_FusedMatMul", "FusedConv2D", "FusedDepthwiseConv2D"]
ACTIVATIONS = {
    "linear": lambda y, w: y,
    "relu": lambda y, w: pg.relu(y),
    "relu6": lambda y, w: pg.relu6(y),
    "elu": lambda y, w: pg.elu(y),
    "prelu": lambda y, w: pg.prelu(y, w),
    "leaky_relu": lambda y, w: pg.leaky_relu(y, alpha=0.3),
    "sigmoid": lambda y, w: pg.sigmoid(y),
}
X = (2, 4, 5, 3)
F = (2, 3, 3, 4)
D = (2, 3, 3, 2)
CASES = [  # fused, plain, shapes of the two factors, options
    (pg.fused.matmul, pg.matmul, (3, 4), (4, 4), {}),
    (pg.fused.matmul, pg.matmul, (2, 4, 3), (4, 3), {"transpose_b": True}),
    (pg.fused.matmul, pg.matmul, (2, 1, 3, 5), (4, 3, 4), {"transpose_a": True}),
    (pg.fused.conv2d, pg.conv2d, X, F, {"pad": "same", "strides": 2}),
    (pg.fused.conv2d, pg.conv2d, (4, 5, 2), (2, 2, 1, 4), {"groups": 2}),
    (pg.fused.depthwise_conv2d, pg.depthwise_conv2d, X, (2, 3, 3, 2), {"dilations": 2}),
]
cases = pytest.mark.parametrize(("op", "plain", "a", "b", "options"), CASES, ids=name)


def fused_and_parts(op, plain, activation, options):
    """Return the fused function of four arguments, and the composition of its parts."""
    activate = ACTIVATIONS[activation]
    given = options | {"activation": activation, "leaky_relu_alpha": 0.3}
    weights = lambda w: w if activation == "prelu" else None
    return (
        lambda a, b, bias, w: op(a, b, bias, weights(w), **given),
        lambda a, b, bias, w: activate(plain(a, b, **options) + bias, w),
    )


@cases
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_fused_op_equals_its_parts(op, plain, a, b, options, activation, backend):
    xs = [RNG.normal(size=s).astype("float32") for s in (a, b)]
    channels = plain(*xs, **options).shape[-1]
    xs += [RNG.normal(size=channels).astype("float32") for _ in range(2)]
    fused, parts = fused_and_parts(op, plain, activation, options)
    y = fused(*xs)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y.numpy(), parts(*xs).numpy(), rtol=1e-5, atol=1e-5)
    dy = RNG.normal(size=y.shape).astype("float32")
    for dx, expected in zip(
        pg.grads(fused)(*xs, dy=dy), pg.grads(parts)(*xs, dy=dy), strict=True
    ):
        np.testing.assert_allclose(dx.numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)
    with toy(without=KERNELS), pg.use_backend("toy"):
        z = fused(*xs)
        assert z.dtype == np.float32
        np.testing.assert_allclose(z.numpy(), y.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_special_values(activation, backend):
    values = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 7, -200, 200]
    x = np.asarray(values, "float32").reshape(-1, 1)
    one = np.ones((1, 1), "float32")
    w = np.full(1, 0.5, "float32")
    fused, parts = fused_and_parts(pg.fused.matmul, pg.matmul, activation, {})
    y, z = (f(x, one, -0 * w, w).numpy() for f in (fused, parts))
    np.testing.assert_allclose(y, z, rtol=1e-6, atol=1e-37)


@pytest.mark.parametrize("activation", ["linear", "leaky_relu", "sigmoid"])
def test_second_order(activation, backend):
    require_dtypes(backend, "float64")
    xs = [RNG.normal(size=s) for s in (X, F, (4,))]
    op = lambda *xs: pg.fused.conv2d(*xs, pad="same", activation=activation)
    check_gradients(op, *xs)


def test_without_bias(backend):
    a, b = (RNG.normal(size=(3, 3)).astype("float32") for _ in range(2))
    y = pg.fused.matmul(a, b, activation="relu")
    np.testing.assert_allclose(y.numpy(), pg.relu(pg.matmul(a, b)).numpy(), rtol=1e-6)
    dx = pg.grad(lambda a: pg.sum(pg.fused.matmul(a, b)))(a)
    np.testing.assert_allclose(dx.numpy(), np.broadcast_to(b.sum(1), (3, 3)), rtol=1e-5)


def test_an_override_of_a_part_applies_inside_the_fused_op(backend):
    x, f = (np.ones(s, "float32") for s in (X, F))
    op = lambda x: pg.sum(pg.fused.conv2d(x, f, activation="relu"))
    assert pg.grad(op)(x).numpy().any()
    with pg.override_gradient("Relu", x=lambda dy: dy * 0):
        assert not pg.grad(op)(x).numpy().any()


BIAS_SHAPES = [  # shapes of biases if channels come first
    (),
    (4,),
    (4, 1, 1),
    (4, 3, 3),
    (3, 3),
    (2, 4, 3, 3),
]


@pytest.mark.parametrize("shape", BIAS_SHAPES, ids=str)
def test_channels_first(shape, backend):
    x, f, bias, w = (
        RNG.normal(size=s).astype("float32") for s in ((2, 3, 4, 5), F, shape, shape)
    )
    options = {"data_format": "NCHW", "activation": "prelu"}
    y = pg.fused.conv2d(x, f, bias, w, **options).numpy()
    z = pg.conv2d(x, f, data_format="NCHW").numpy()
    if shape == (4,):
        bias = bias[:, None, None]
        w = w[:, None, None]
    z = z + bias
    np.testing.assert_allclose(y, np.where(z < 0, z * w, z), rtol=1e-5, atol=1e-5)


def test_integers_become_float32(backend):
    a = np.ones((2, 2), "int32")
    y = pg.fused.matmul(a, a, [1, -9], activation="sigmoid")
    assert y.dtype == np.float32
    np.testing.assert_allclose(
        y.numpy(), [1 / (1 + np.exp([-3.0, 7.0]))] * 2, rtol=1e-6
    )


def test_run_kernel_accepts_the_attributes_of_the_op(backend):
    x, f, d = (pg.asarray(np.ones(s, "float32")) for s in (X, F, D))
    options = {"strides": 2, "pad": "same"}
    y = pg.run_kernel("FusedConv2D", [x, f, None, None], options)
    np.testing.assert_array_equal(y.numpy(), pg.conv2d(x, f, **options).numpy())
    given = options | {"activation": "relu"}
    y = pg.run_kernel("FusedDepthwiseConv2D", [x, d, None, None], given)
    z = pg.fused.depthwise_conv2d(x, d, **given)
    np.testing.assert_array_equal(y.numpy(), z.numpy())
    a = pg.ones((2, 3))
    b = pg.ones((4, 3))
    y = pg.run_kernel("_FusedMatMul", [a, b, None, None], {"transpose_b": True})
    assert y.tolist() == [[3.0] * 4] * 2


ERRORS = [
    (lambda a, b: pg.fused.matmul(a, b, activation="gelu"), "activation 'gelu': use "),
    (
        lambda a, b: pg.fused.matmul(a, b, activation="prelu"),
        "prelu_weights must be given",
    ),
    (lambda a, b: pg.fused.matmul(a, b, None, a), "prelu_weights must be given"),
    (lambda a, b: pg.fused.matmul(a, b), r"inner sizes 3 and 4 .* shapes \(2, 3\)"),
    (lambda a, b: pg.fused.matmul(a[0], b), "must have 2 axes or more"),
    (lambda a, b: pg.fused.matmul(a, a.T, np.ones(3)), r"fused.matmul: .*\(2, 2\)"),
    (lambda a, b: pg.fused.matmul(a, a.T, np.ones((5, 2, 2))), "must broadcast to"),
    (lambda a, b: pg.fused.conv2d(a, b), "fused.conv2d: x must have rank 4"),
    (lambda a, b: pg.fused.depthwise_conv2d(np.ones(X), b), "filter must have rank 4"),
    (
        lambda a, b: pg.fused.conv2d(np.ones(X), np.ones(F), np.ones(3)),
        r"fused.conv2d: shapes \(3,\) and \(2, 3, 3, 4\) do not broadcast",
    ),
]


@pytest.mark.parametrize(("call", "message"), ERRORS, ids=name)
def test_errors(call, message, backend):
    with pytest.raises(ValueError, match=message):
        call(np.ones((2, 3), "float32"), np.ones((4, 5), "float32"))


def test_complex_numbers_are_refused(backend):
    a = np.ones((2, 2), "complex64")
    with pytest.raises(TypeError, match=r"no fused\.matmul of complex numbers"):
        pg.fused.matmul(a, a)
