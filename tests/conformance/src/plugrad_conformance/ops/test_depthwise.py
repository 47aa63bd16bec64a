"""Depthwise convolutions, compared with sums over kernel positions; gradients."""

import numpy as np
import plugrad as pg
import pytest

from ..check import check_gradients
from ..toy import toy
from .test_conv import reference, require_dtypes

RNG = np.random.default_rng(0)
KERNELS = [
    "DepthwiseConv2dNative",
    "DepthwiseConv2dNativeBackpropInput",
    "DepthwiseConv2dNativeBackpropFilter",
]
MODE = "dim_rounding_mode"
X = (2, 5, 6, 3)
CASES = [  # x, filter, options, padding before, output size
    (X, (3, 2, 3, 1), {}, (0, 0), (3, 5)),
    (X, (3, 2, 3, 2), {"pad": "same"}, (1, 0), (5, 6)),
    (X, (3, 2, 3, 1), {"pad": "same", "strides": 2}, (1, 0), (3, 3)),
    (X, (3, 2, 3, 2), {"strides": (2, 1), "pad": 2}, (2, 2), (4, 9)),
    (X, (2, 2, 3, 2), {"dilations": (2, 3)}, (0, 0), (3, 3)),
    (X, (2, 2, 3, 1), {"dilations": 2, "strides": 3}, (0, 0), (1, 2)),
    (X, (3, 2, 3, 1), {"pad": [(0, 1), (2, 0)]}, (0, 2), (4, 7)),
    (X, (3, 2, 3, 2), {"pad": 1, "strides": 3, MODE: "ceil"}, (1, 1), (3, 3)),
    (X, (1, 1, 3, 2), {}, (0, 0), (5, 6)),
]


def depthwise(x, filter, *window_args, **options):
    """Return the reference: a convolution with one group for each channel."""
    *window, c, m = filter.shape
    filter = filter.reshape(*window, 1, c * m)
    return reference(x, filter, *window_args, groups=c, **options)


@pytest.mark.parametrize(
    ("x", "filter", "options", "pad_before", "out_size"), CASES, ids=str
)
def test_values_and_gradients(x, filter, options, pad_before, out_size, backend):
    require_dtypes(backend, "float64")
    x = RNG.normal(size=x)
    filter = RNG.normal(size=filter)
    expected = depthwise(x, filter, pad_before, out_size, **options)
    y = pg.depthwise_conv2d(pg.asarray(x), pg.asarray(filter), **options)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-12, atol=1e-12)
    assert y.shape == expected.shape
    check_gradients(lambda *xs: pg.depthwise_conv2d(*xs, **options), x, filter)


@pytest.mark.parametrize(
    ("x", "filter", "options", "pad_before", "out_size"), CASES, ids=str
)
def test_decompositions(x, filter, options, pad_before, out_size):
    x, filter = (RNG.normal(size=s).astype("float32") for s in (x, filter))
    conv = lambda *xs: pg.depthwise_conv2d(*xs, **options)
    dy = RNG.normal(size=conv(x, filter).shape).astype("float32")
    expected = [conv(x, filter), *pg.grads(conv)(x, filter, dy=dy)]
    lacking = [*KERNELS, "Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"]
    for without in (KERNELS, lacking):
        with toy(without=without), pg.use_backend("toy"):
            found = [conv(x, filter), *pg.grads(conv)(x, filter, dy=dy)]
            for y, z in zip(found, expected, strict=True):
                assert y.dtype == np.float32
                np.testing.assert_allclose(y.numpy(), z.numpy(), rtol=1e-4, atol=1e-4)


def test_channels_first_and_no_batch(backend):
    x, filter = (RNG.normal(size=s).astype("float32") for s in (X, (3, 2, 3, 2)))
    y = pg.depthwise_conv2d(x, filter, pad="same", strides=2).numpy()
    first = x.transpose(0, 3, 1, 2)
    options = {"pad": "same", "strides": 2, "data_format": "NCHW"}
    z = pg.depthwise_conv2d(first, filter, **options)
    np.testing.assert_allclose(z.numpy(), y.transpose(0, 3, 1, 2), rtol=1e-5, atol=1e-5)
    z = pg.depthwise_conv2d(first[1], filter, **options)
    np.testing.assert_allclose(z.numpy(), y[1].transpose(2, 0, 1), rtol=1e-5, atol=1e-5)


def test_integers_float16_and_empty(backend):
    require_dtypes(backend, "int32", "float16")
    x = np.arange(150).reshape(1, 5, 10, 3)
    filter = np.full((2, 2, 3, 2), 1000)
    x = x.astype("int32")
    filter = filter.astype("int32")
    y = pg.depthwise_conv2d(x, filter)
    assert y.dtype == np.int32
    np.testing.assert_array_equal(y.numpy(), depthwise(x, filter, (0, 0), (4, 9)))
    x = np.full((1, 50, 50, 1), 1.001, "float16")
    y = pg.depthwise_conv2d(x, np.ones((50, 50, 1, 1), "float16"))
    np.testing.assert_allclose(y.item(), 2500 * float(x[0, 0, 0, 0]), rtol=1e-3)
    y = pg.depthwise_conv2d(np.ones((0, 5, 6, 3)), np.ones((2, 2, 3, 2)))
    assert y.shape == (0, 4, 5, 6)


def test_a_batch_larger_than_a_block(backend):
    require_dtypes(backend, "float64")
    x = RNG.normal(size=(5, 64, 64, 16))
    filter = RNG.normal(size=(3, 3, 16, 1))
    y = pg.depthwise_conv2d(x, filter, strides=2)
    expected = depthwise(x, filter, (0, 0), (31, 31), strides=2)
    np.testing.assert_allclose(y.numpy(), expected, atol=1e-12)
    f = lambda x, filter: pg.depthwise_conv2d(x, filter, strides=2)
    dx, df = pg.grads(f)(x, filter, dy=y)
    square = np.vdot(expected, expected)
    np.testing.assert_allclose(np.vdot(dx.numpy(), x), square)
    np.testing.assert_allclose(np.vdot(df.numpy(), filter), square)


@pytest.mark.parametrize("strides", [1, (1, 2), 3])
def test_large_gradients_with_channels_first(strides, backend):
    shapes = (2, 32, 32, 12), (3, 2, 12, 2)
    x, filter = (RNG.normal(size=s).astype("float32") for s in shapes)
    last = lambda *xs: pg.depthwise_conv2d(*xs, strides=strides, pad=1)
    first = lambda *xs: pg.depthwise_conv2d(
        *xs, strides=strides, pad=1, data_format="NCHW"
    )
    y = last(x, filter).numpy()
    dx, df = (g.numpy() for g in pg.grads(last)(x, filter, dy=y))
    channels_first = (t.transpose(0, 3, 1, 2) for t in (x, y))
    x, y = map(np.ascontiguousarray, channels_first)
    found = [g.numpy() for g in pg.grads(first)(x, filter, dy=y)]
    for g, expected in zip(found, [dx.transpose(0, 3, 1, 2), df], strict=True):
        limit = 1e-5 * np.abs(expected).max()
        np.testing.assert_allclose(g, expected, rtol=1e-5, atol=limit)


def test_complex(backend):
    require_dtypes(backend, "complex128")
    z = lambda *shape: RNG.normal(size=shape) + 1j * RNG.normal(size=shape)
    x = z(*X)
    filter = z(3, 2, 3, 2)
    y = pg.depthwise_conv2d(x, filter).numpy()
    np.testing.assert_allclose(y, depthwise(x, filter, (0, 0), (3, 5)))
    dx, df = pg.grads(pg.depthwise_conv2d)(x, filter, dy=y)
    np.testing.assert_allclose(np.vdot(dx.numpy(), x), np.vdot(y, y))
    np.testing.assert_allclose(np.vdot(df.numpy(), filter), np.vdot(y, y))


def test_run_kernel_accepts_the_attributes_of_the_op(backend):
    x, f = (pg.asarray(RNG.normal(size=s).astype("float32")) for s in (X, (3, 2, 3, 2)))
    options = {"strides": 2, "pad": "same"}
    y = pg.run_kernel(KERNELS[0], [x, f], options)
    dx, df = pg.grads(lambda *xs: pg.depthwise_conv2d(*xs, **options))(x, f, dy=y)
    again = pg.run_kernel(KERNELS[1], [y, f], {**options, "in_shape": X})
    np.testing.assert_array_equal(again.numpy(), dx.numpy())
    again = pg.run_kernel(KERNELS[2], [x, y], {**options, "filter_shape": f.shape})
    np.testing.assert_array_equal(again.numpy(), df.numpy())


# --- separable -------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{}, {"pad": "same", "strides": 2}, {"dilations": 2}]
)
def test_separable(options, backend):
    require_dtypes(backend, "float64")
    x, first, second = (RNG.normal(size=s) for s in (X, (2, 2, 3, 2), (1, 1, 6, 4)))
    y = pg.separable_conv2d(x, first, second, **options)
    between = pg.depthwise_conv2d(x, first, **options).numpy()
    np.testing.assert_allclose(y.numpy(), between @ second[0, 0])
    op = lambda *xs: pg.separable_conv2d(*xs, **options)
    check_gradients(op, x, first, second)
    z = pg.separable_conv2d(
        x.transpose(0, 3, 1, 2), first, second, **options, data_format="NCHW"
    )
    np.testing.assert_allclose(z.numpy(), y.numpy().transpose(0, 3, 1, 2))


# --- errors ----------------------------------------------------------------------

ERRORS = [
    ({"x": (2, 5)}, "depthwise_conv2d: x must have rank 4, or 3 without a batch"),
    ({"filter": (3, 2, 3)}, "depthwise_conv2d: filter must have rank 4"),
    ({"filter": (3, 2, 5, 1)}, "input has 3 channels but filter expects 5"),
    ({"filter": (6, 2, 3, 1)}, "a window of 6 does not fit into 5 elements"),
    ({"data_format": "CHWN"}, "data_format 'CHWN': use 'NHWC' or 'NCHW'"),
    ({"pad": "valid", MODE: "round"}, "needs a pad that is a number or pairs"),
    ({"x": (1, 5, 5, 0), "filter": (2, 2, 0, 1)}, "0 channels do not divide into 0"),
]


@pytest.mark.parametrize(("given", "message"), ERRORS, ids=str)
def test_errors(given, message, backend):
    given = {"x": X, "filter": (3, 2, 3, 2)} | given
    x, filter = (np.ones(given.pop(name), "float32") for name in ("x", "filter"))
    with pytest.raises(ValueError, match=message):
        pg.depthwise_conv2d(x, filter, **given)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ((2, 2, 3), (1, 1, 6, 4), "depthwise_filter must have rank 4"),
        ((2, 2, 3, 2), (1, 1, 5, 4), r"must have shape \(1, 1, 6, out_channels\)"),
        ((2, 2, 3, 2), (2, 1, 6, 4), r"must have shape \(1, 1, 6, out_channels\)"),
        ((2, 2, 3, 2), (1, 6, 4), r"got shapes \(1, 6, 4\) and \(2, 2, 3, 2\)"),
    ],
)
def test_errors_of_separable(first, second, message, backend):
    first = np.ones(first, "float32")
    second = np.ones(second, "float32")
    with pytest.raises(ValueError, match=f"separable_conv2d: .*{message}"):
        pg.separable_conv2d(np.ones(X, "float32"), first, second)
