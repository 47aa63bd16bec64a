"""plugrad-cpu's single kernels under ``jit``, with prepared numbers and constants."""

import gc
import tracemalloc

import numpy as np
import plugrad as pg
import pytest

from .test_cpu_regions import check, floats, on_cpu  # noqa: F401  # a fixture

IMAGE = (2, 9, 11, 12)
# The op, the shapes of its image and its filter, and its options.
CONVOLUTIONS = {
    "3 x 3": (pg.fused.conv2d, IMAGE, (3, 3, 12, 20), {"pad": "same"}),
    "by tiles": (pg.fused.conv2d, (1, 30, 30, 32), (3, 3, 32, 64), {"pad": "same"}),
    "points": (pg.fused.conv2d, IMAGE, (1, 1, 12, 33), {}),
    "groups": (pg.fused.conv2d, IMAGE, (3, 1, 4, 21), {"groups": 3, "strides": 2}),
    "depthwise": (pg.fused.depthwise_conv2d, IMAGE, (3, 5, 12, 1), {"pad": "same"}),
}
EPILOGUES = {
    "nothing": (None, {}),
    "a bias": (floats, {}),
    "relu6": (floats, {"activation": "relu6"}),
    "relu": (None, {"activation": "relu"}),
    "elu": (floats, {"activation": "elu"}),
}


@pytest.mark.parametrize("epilogue", EPILOGUES)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name, epilogue):
    op, shape, size, options = CONVOLUTIONS[name]
    bias, more = EPILOGUES[epilogue]
    x = floats(*shape)
    w = floats(*size)
    b = bias and bias(size[-1] if name != "depthwise" else size[2])
    check(lambda x, w: op(x, w, b, **options, **more), x, w)
    f = lambda x: op(x, w, b, **options, **more)  # constants
    check(f, x)
    jitted = pg.jit(f)
    for y in (x, x, x, x[:, ::-1], x * 0.5, pg.asarray(np.asfortranarray(x.numpy()))):
        assert jitted(y).numpy().tobytes() == f(y).numpy().tobytes()


def test_constants_may_have_strides():
    x = floats(*IMAGE)
    w = floats(20, 12, 3, 3)
    permuted = pg.permute_dims(w, (2, 3, 1, 0))
    check(lambda x: pg.fused.conv2d(x, permuted, pad="same"), x)


def reversed_in_memory(x):
    """Return an equal tensor: a view of memory with the axes in reverse order."""
    axes = range(x.ndim)[::-1]
    return pg.permute_dims(pg.asarray(pg.permute_dims(x, axes), copy=True), axes)


# Functions of x and weights, and the shapes of the weights.
READERS = {
    "matmul": (lambda x, w: pg.matmul(x, w), [(24, 40)]),
    "matmul of a transpose": (lambda x, w: pg.matmul(x, w.T), [(40, 24)]),
    "fused.matmul": (
        lambda x, w, b: pg.fused.matmul(x, w, bias=b, activation="relu"),
        [(24, 40), (40,)],
    ),
    "conv2d": (
        lambda x, w: pg.conv2d(pg.reshape(x, (1, 3, 3, 24)), w, pad="same"),
        [(3, 3, 24, 8)],
    ),
    "depthwise": (
        lambda x, w: pg.depthwise_conv2d(pg.reshape(x, (1, 3, 3, 24)), w, pad="same"),
        [(3, 3, 24, 1)],
    ),
    "softmax": (lambda x, w: pg.softmax(w), [(24, 40)]),
    "layer norm": (lambda x, *w: pg.layer_norm(*w), [(9, 24), (24,), (24,)]),
    "element-wise": (lambda x, w: pg.tanh(x * w + x) - w * 0.1, [(9, 24)]),
    "a step of SGD": (lambda x, w: w - 0.1 * pg.matmul(x.T, x), [(24, 24)]),
}


@pytest.mark.parametrize("name", READERS)
def test_weights_may_have_strides(name):
    """Regions read contiguous arrays; for other weights, the plain kernels run."""
    f, shapes = READERS[name]
    x = floats(9, 24)
    weights = [floats(*shape) for shape in shapes]
    jitted = pg.jit(f)
    for change in (
        pg.asarray,
        pg.asarray,
        pg.asarray,
        reversed_in_memory,
        pg.asarray,
        reversed_in_memory,
        reversed_in_memory,
    ):
        changed = [change(w) for w in weights]
        assert jitted(x, *changed).numpy().tobytes() == f(x, *changed).numpy().tobytes()
    assert jitted.explain(x, *weights).retraces == []


def test_prelu_with_slopes_of_channels():
    x = floats(*IMAGE)
    w = floats(3, 3, 12, 16)
    slopes = floats(16)
    f = lambda x: pg.fused.conv2d(x, w, activation="prelu", prelu_weights=slopes)
    check(f, x)


@pytest.mark.parametrize("op", [pg.max_pool, pg.avg_pool])
def test_pooling(op):
    f = lambda x: op(x, 3, strides=2, pad="same")
    x = floats(2, 9, 11, 24)
    check(f, x)
    check(f, pg.astype(x, "float64"), regions=0)
    check(f, floats(2, 40, 60, 3), regions=0)  # on NumPy


@pytest.mark.parametrize("activation", ["linear", "relu", "sigmoid"])
def test_products_with_an_epilogue(activation):
    x = floats(9, 40)
    w = floats(33, 40)
    b = floats(33)
    dense = lambda x, w, b: pg.fused.matmul(
        x, w, transpose_b=True, bias=b, activation=activation
    )
    check(dense, x, w, b)
    check(lambda x: dense(x, w, b), x)
    shared_bias = floats(1)  # one number for all columns
    check(lambda x: dense(x, w, shared_bias), x, regions=0)


@pytest.mark.parametrize("result", ["int32", "float32", "uint8"])
@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_int8_products(kind, result):
    draw = lambda *shape: np.random.default_rng(7).integers(-128, 128, shape, "int8")
    x = pg.astype(pg.asarray(draw(2, 7, 8, 5)), kind)
    w = pg.asarray(draw(3, 3, 5, 40))
    zero = pg.asarray(3, dtype=kind)
    bias = pg.asarray(draw(40).astype("int32"))
    epilogue = {}
    if result != "int32":
        epilogue["scale"] = pg.abs(floats(40)) * 1e-3
    if result == "uint8":
        epilogue["zero_point"] = pg.asarray(100, dtype="uint8")
    f = lambda x, zero: pg.quantized.conv2d(x, w, zero, bias, **epilogue)
    assert f(x, zero).dtype == result
    check(f, x, zero)
    check(lambda x: pg.quantized.conv2d(x, w), x)
    check(lambda x, w: pg.quantized.conv2d(x, w, **epilogue), x, w, regions=0)
    matrix = pg.reshape(w[0, 0], (5, 40))
    check(
        lambda x, zero: pg.quantized.matmul(x, matrix, zero, bias, **epilogue), x, zero
    )
    check(lambda x, w: pg.quantized.matmul(x, w), x, matrix, regions=0)


def test_other_convolutions_run_without_regions():
    x = floats(1, 9, 9, 4)
    w = floats(3, 3, 4, 8)
    wide = lambda t: pg.astype(t, "float64")
    check(lambda x, w: pg.conv2d(x, w), wide(x), wide(w), regions=0)
    two = floats(3, 3, 4, 2)
    cube = floats(3, 3, 3, 4, 8)
    check(lambda x: pg.depthwise_conv2d(x, two), x, regions=0)
    check(lambda x: pg.conv2d(x, w), floats(0, 9, 9, 4), regions=0)
    check(lambda x: pg.conv3d(x, cube), floats(1, 5, 6, 7, 4))  # also runs in C


def test_calls_do_not_leak_memory():
    x = floats(1, 64, 64, 32)
    w = floats(3, 3, 32, 32)
    f = pg.jit(lambda x: pg.conv2d(x, w, pad="same"))
    f(x), f(x), f(x)
    gc.collect()
    tracemalloc.start()
    try:
        f(x)
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(20):
            f(x)
        assert tracemalloc.get_traced_memory()[0] - before < 4096
    finally:
        tracemalloc.stop()
