"""Products, convolutions, pooling and softmax, at the edges of tiles and blocks."""

import hashlib
import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import plugrad as pg
import pytest

pytest.importorskip("plugrad_wasm", reason="plugrad-wasm is not installed")

EDGES = [1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 33]
BEYOND = [(65, 17, 257), (1, 1030, 300), (130, 1030, 3), (7, 9, 1025), (3, 2050, 513)]
SHAPES = [*itertools.product(EDGES[:9], EDGES, (1, 5, 8)), *BEYOND]
TRANSPOSES = list(itertools.product((False, True), repeat=2))


@pytest.fixture(autouse=True)
def _wasm():
    with pg.use_backend("wasm"):
        yield


def draw(*shape, dtype=np.float32):
    rng = np.random.default_rng(sum(shape) + len(shape))
    return (rng.standard_normal(shape) * 4).astype(dtype)


def assert_close(found, wanted, scale=1.0):
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5 * scale)


def kernel(name, xs, attrs):
    xs = [x if x is None else pg.asarray(x) for x in xs]
    return pg.run_kernel(name, xs, attrs)


def on_cpu(name, xs, attrs):
    with pg.use_backend("cpu"):
        return kernel(name, xs, attrs).numpy()


# --- products --------------------------------------------------------------------


@pytest.mark.parametrize(("transpose_a", "transpose_b"), TRANSPOSES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_products_of_all_edge_sizes(transpose_a, transpose_b, dtype):
    for m, n, k in SHAPES:
        a = draw(*((k, m) if transpose_a else (m, k)), dtype=dtype)
        b = draw(*((n, k) if transpose_b else (k, n)), dtype=dtype)
        y = pg.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b).numpy()
        wide = np.float64 if dtype == np.float32 else dtype
        wanted = (a.T if transpose_a else a).astype(wide) @ (b.T if transpose_b else b)
        assert y.dtype == dtype
        assert_close(y, wanted, 4 * k**0.5)


@pytest.mark.parametrize(
    ("left", "right"),
    [((3, 2), (3, 2)), ((3, 2), ()), ((), (3, 2)), ((3, 1), (2,)), ((1, 2), (3, 1))],
)
@pytest.mark.parametrize(
    ("m", "n", "k"), [(5, 6, 7), (5, 1, 3), (1, 6, 3), (40, 40, 9)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.complex64])
def test_batches_broadcast(left, right, m, n, k, dtype):
    a = draw(*left, m, k, dtype=dtype)
    b = draw(*right, k, n, dtype=dtype)
    assert_close(pg.matmul(a, b).numpy(), a @ b, 20)
    transposed = pg.matmul(a.swapaxes(-1, -2).copy(), b, transpose_a=True)
    assert_close(transposed.numpy(), a @ b, 20)


def test_more_batches_than_fit_into_a_block():
    a = draw(700, 9, 33)
    b = draw(700, 33, 17)
    assert_close(pg.matmul(a, b).numpy(), a @ b, 50)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint32, np.uint64])
def test_integers_wrap(dtype):
    rng = np.random.default_rng(0)
    info = np.iinfo(dtype)
    a, b = rng.integers(info.min, info.max, (2, 9, 9), dtype)
    np.testing.assert_array_equal(pg.matmul(a, b).numpy(), a @ b)


def test_empty_sums_give_zeros():
    y = pg.matmul(np.ones((3, 0), np.float32), np.ones((0, 4), np.float32))
    np.testing.assert_array_equal(y.numpy(), np.zeros((3, 4), np.float32))


def test_infinity_times_padding_gives_no_nan():
    """Panels are padded with zeros, and 0 times infinity would be NaN."""
    a = np.full((5, 5), np.inf, np.float32)
    b = np.ones((5, 9), np.float32)
    assert (pg.matmul(a, b).numpy() == np.inf).all()


ACTIVATIONS = ["linear", "relu", "relu6", "elu", "prelu", "leaky_relu", "sigmoid"]


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("m", "n"), [(1, 5), (8, 1), (9, 8), (13, 21)])
@pytest.mark.parametrize("bias", [None, "row", "scalar", "matrix"])
def test_fused_matmul_equals_its_parts(activation, m, n, bias):
    a = draw(m, 6) / 4
    b = draw(6, n) / 4
    a[0, 0] = np.nan
    shapes = {"row": (n,), "scalar": (), "matrix": (m, n)}
    xs = [a, b, None if bias is None else draw(*shapes[bias])]
    xs.append(draw(n) if activation == "prelu" else None)
    attrs = {"activation": activation, "leaky_relu_alpha": 0.3}
    wanted = on_cpu("_FusedMatMul", xs, attrs)
    assert_close(kernel("_FusedMatMul", xs, attrs).numpy(), wanted)


# --- convolutions and pooling ----------------------------------------------------

CONVOLUTIONS = [  # x, filter, attributes
    ((2, 7, 9, 3), (3, 3, 3, 5), {}),
    ((1, 8, 8, 4), (3, 3, 4, 8), {"pad": "same"}),
    ((2, 9, 10, 5), (3, 2, 5, 6), {"strides": 2, "pad": "same"}),
    ((2, 9, 10, 8), (3, 2, 4, 6), {"strides": (2, 3), "pad": 1, "groups": 2}),
    ((2, 12, 13, 8), (3, 3, 2, 8), {"dilations": 2, "groups": 4, "pad": "same"}),
    ((1, 13, 14, 6), (3, 3, 6, 7), {"dilations": (2, 3), "strides": (4, 2), "pad": 3}),
    ((1, 9, 9, 4), (1, 1, 4, 1), {"strides": 3}),  # elements that no window sees
    ((1, 9, 9, 4), (2, 2, 4, 3), {"strides": 3}),
    ((3, 20, 20, 70), (3, 3, 70, 33), {"pad": "same"}),  # more than a block deep
    ((1, 8, 8, 6), (3, 3, 6, 4), {"pad": [(4, 0), (0, 5)]}),
    # From here on, computed in tiles.
    ((2, 13, 12, 32), (3, 3, 32, 36), {"pad": "same"}),
    ((1, 70, 71, 16), (3, 3, 16, 64), {"pad": [(2, 0), (0, 3)]}),
    ((1, 14, 15, 300), (3, 3, 300, 16), {}),
    ((2, 6, 6, 8), (3, 3, 1, 8), {"groups": 8, "pad": "same"}),
    ((2, 6, 6, 3), (3, 3, 1, 6), {"groups": 3, "strides": 2}),
    ((2, 5, 6, 7, 3), (2, 3, 2, 3, 4), {"strides": 2, "pad": "same"}),
    ((1, 5, 6, 7, 4), (3, 3, 3, 2, 4), {"groups": 2, "pad": 1}),
]
KERNELS = {4: ["Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"]}
KERNELS[5] = ["Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2"]


def convolution_calls(names, x, filter, attrs):
    """Yield kernel, inputs and attributes of a convolution and its transposes."""
    y = on_cpu(names[0], [x, filter], attrs)
    dy = draw(*y.shape, dtype=x.dtype)
    yield names[0], [x, filter], attrs
    yield names[1], [dy, filter], {**attrs, "in_shape": x.shape}
    yield names[2], [x, dy], {**attrs, "filter_shape": filter.shape}


@pytest.mark.parametrize(("x", "filter", "attrs"), CONVOLUTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int8])
def test_convolutions_are_those_of_cpu(x, filter, attrs, dtype):
    x = draw(*x, dtype=dtype)
    filter = draw(*filter, dtype=dtype)
    for name, xs, call_attrs in convolution_calls(KERNELS[x.ndim], x, filter, attrs):
        found = kernel(name, xs, call_attrs).numpy()
        # cpu computes float32 in float64 here, so only wasm's results are rounded.
        wide = np.float64 if dtype == np.float32 else dtype
        wanted = on_cpu(name, [x.astype(wide) for x in xs], call_attrs)
        assert found.dtype == dtype
        assert_close(found, wanted, 60)


DEPTHWISE = ["", "BackpropInput", "BackpropFilter"]


@pytest.mark.parametrize("channels", [1, 3, 4, 5, 9, 130])
@pytest.mark.parametrize("multiplier", [1, 2])
@pytest.mark.parametrize(
    ("window", "attrs"),
    [
        ((3, 3), {"pad": "same"}),
        ((3, 3), {"strides": 2, "pad": "same"}),
        ((2, 5), {"strides": (1, 3), "dilations": 2, "pad": 3}),
        ((1, 1), {"strides": 3}),
        ((40, 2), {"pad": "same"}),
    ],
)
def test_depthwise_convolutions_are_those_of_cpu(channels, multiplier, window, attrs):
    x = draw(2, 11, 13, channels)
    filter = draw(*window, channels, multiplier)
    names = [f"DepthwiseConv2dNative{suffix}" for suffix in DEPTHWISE]
    for name, xs, call_attrs in convolution_calls(names, x, filter, attrs):
        assert_close(
            kernel(name, xs, call_attrs).numpy(), on_cpu(name, xs, call_attrs), 60
        )


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("name", ["Conv2D", "Conv2DBackpropInput"])
def test_tiles_keep_infinities(name, bad):
    """An infinity must not make other windows of its tile NaN."""
    x = draw(2, 14, 14, 32)
    filter = draw(3, 3, 32, 32)
    x[0, 6, 7, 3] = x[1, 0, 0, 0] = bad
    filter[1, 1, 3, 2] = filter[0, 2, 8, 9] = 0
    attrs = {"pad": "same"} | ({"in_shape": x.shape} if "Input" in name else {})
    assert_close(
        kernel(name, [x, filter], attrs).numpy(), on_cpu(name, [x, filter], attrs), 60
    )
    x[0, 6, 7, 3] = x[1, 0, 0, 0] = 1
    filter[1, 1, 3, 2] = bad
    assert_close(
        kernel(name, [x, filter], attrs).numpy(), on_cpu(name, [x, filter], attrs), 60
    )


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("name", ["FusedConv2D", "FusedDepthwiseConv2D"])
@pytest.mark.parametrize("n", [6, 32])
def test_fused_convolutions_equal_their_parts(name, activation, n):
    x = draw(2, 7, 7, n) / 4
    x[0, 3, 3, 0] = np.nan
    filter = draw(3, 3, n, 1 if name == "FusedDepthwiseConv2D" else n) / 4
    xs = [x, filter, draw(n), draw(n) if activation == "prelu" else None]
    attrs = {"pad": "same", "activation": activation, "leaky_relu_alpha": 0.3}
    assert_close(kernel(name, xs, attrs).numpy(), on_cpu(name, xs, attrs), 4)


@pytest.mark.parametrize("channels", [1, 16, 70])
@pytest.mark.parametrize(
    "attrs",
    [
        {"filter_size": 2, "strides": 2},
        {"filter_size": 3, "strides": 1, "pad": "same"},
        {"filter_size": 3, "strides": 2, "pad": 1},
        {"filter_size": 2, "strides": 1, "dilations": 2, "pad": 3},
        {"filter_size": (3, 2), "strides": 4},
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pooling_ignores_nan_as_on_cpu(channels, attrs, dtype):
    x = np.round(draw(2, 9, 10, channels, dtype=dtype))  # with equal maxima
    x.flat[::7] = np.nan
    y = on_cpu("MaxPool", [x], attrs)
    dy = draw(*y.shape, dtype=dtype)
    rows = [("MaxPool", [x]), ("AvgPool", [x])]
    rows += [("MaxPoolGrad", [dy, x, y]), ("AvgPoolGrad", [dy, x])]
    for name, xs in rows:
        assert_close(kernel(name, xs, attrs).numpy(), on_cpu(name, xs, attrs))
    for batch in (False, True):
        options = {**attrs, "include_batch_in_index": batch}
        found = kernel("MaxPoolWithArgmax", [x], options)
        with pg.use_backend("cpu"):
            wanted = kernel("MaxPoolWithArgmax", [x], options)
        for ours, theirs in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


# --- softmax ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape", [(3, 1, 1), (5, 7, 1), (2, 1000, 1), (2, 9, 5), (1, 300, 3), (2, 5, 39)]
)
@pytest.mark.parametrize("op", [pg.softmax, pg.log_softmax])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_softmax_along_any_axis(shape, op, dtype):
    x = draw(*shape, dtype=dtype)
    x.flat[0] = -np.inf if shape[1] > 1 else 0
    wide = x.astype(np.longdouble)
    e = np.exp(wide - wide.max(1, keepdims=True))
    wanted = e / e.sum(1, keepdims=True)
    if op is pg.log_softmax:
        with np.errstate(divide="ignore"):
            wanted = np.log(wanted)
    rtol = 4e-6 if dtype == np.float32 else 1e-14
    atol = 1e-37 if op is pg.softmax else rtol
    np.testing.assert_allclose(op(x, axis=1).numpy(), wanted, rtol=rtol, atol=atol)
    x.flat[0] = np.nan
    assert np.isnan(op(x, axis=1).numpy()[0, :, 0]).all()


def test_softmax_of_many_elements_sums_to_one():
    total = pg.softmax(np.zeros(3_000_001, np.float32)).numpy().sum(dtype=np.float64)
    assert abs(total - 1) < 1e-6


@pytest.mark.parametrize("shape", [(2, 3, 7), (5, 1), (4, 130), (6,)])
@pytest.mark.parametrize(
    "parameters", [(), ("scale",), ("offset",), ("scale", "offset")]
)
def test_batch_norm_with_moments_of_channels_or_elements(shape, parameters):
    x = draw(*shape)
    c = shape[-1:]
    moments = [draw(*c), draw(*c) ** 2]
    moments += [
        draw(*c) + 1 if name in parameters else None for name in ("scale", "offset")
    ]
    attrs = {"epsilon": 0.01}
    wanted = on_cpu("FusedBatchNorm", [x, *moments], attrs)
    assert_close(kernel("FusedBatchNorm", [x, *moments], attrs).numpy(), wanted, 10)
    moments[1] = np.broadcast_to(moments[1], shape).copy()
    assert_close(kernel("FusedBatchNorm", [x, *moments], attrs).numpy(), wanted, 10)


# --- threads ---------------------------------------------------------------------


def digest():
    """Return a hash of results that several threads compute together."""
    found = hashlib.sha256()
    with pg.use_backend("wasm"):
        x = draw(4, 30, 31, 20)
        w = draw(3, 3, 20, 52)
        results = [
            pg.matmul(draw(201, 300), draw(300, 203)),
            pg.matmul(draw(3, 1000), draw(1000, 999)),
            pg.matmul(draw(16, 40, 50), draw(16, 50, 40)),
            pg.softmax(draw(100, 999)),
            pg.softmax(draw(100, 999), axis=0),
            pg.layer_norm(draw(100, 999), draw(999)),
        ]
        conv = lambda x, w: pg.sum(pg.square(pg.conv2d(x, w, pad="same")))
        results += pg.grads(conv)(x, w)
        depthwise = lambda x, w: pg.sum(
            pg.depthwise_conv2d(x, w, strides=2, pad="same")
        )
        results += pg.grads(depthwise)(x, w[..., :1])
        for pool in (pg.max_pool, pg.avg_pool):
            results.append(pg.grad(lambda x, p=pool: pg.sum(pg.square(p(x, 3))))(x))
        for y in results:
            found.update(y.numpy().tobytes())
    return found.hexdigest()


def test_bits_do_not_depend_on_the_number_of_threads():
    code = "from tests.wasm.test_dense import digest; print(digest())"
    found = []
    for threads in ("1", "2", "3"):
        environment = {**os.environ, "PLUGRAD_WASM_THREADS": threads}
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        found.append(done.stdout)
    assert len(set(found)) == 1, found
