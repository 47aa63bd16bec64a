"""Compare opencl's kernels for CPUs and its kernels for GPUs with the backend cpu.

The conformance tests run only the kernels for the style of the device. These tests run
the kernels that differ most. No size is a multiple of a tile, a vector or a work group.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import plugrad as pg
import pytest

ROOT = Path(__file__).parents[2]


def draw(*shape, dtype="float32", scale=3.0):
    """Return the same numbers for each backend."""
    rng = np.random.default_rng(shape)
    return pg.asarray((rng.normal(size=shape) * scale).astype(dtype))


def both_ways(f, *xs):
    """Return a result and its gradients; each element has a different cotangent."""
    y, pullback = pg.vjp(f, *xs)
    return [y, *pullback(draw(*y.shape, scale=1.0))]


def convolved(x, filter, op=pg.conv2d, **options):
    return both_ways(lambda x, f: op(x, f, **options), draw(*x), draw(*filter))


def attended(heads, groups, queries, keys, sizes, **options):
    """Return attention and its gradients; keys and values have these sizes.

    The last of three calls repeats the launches of those before it.
    """
    size, width = sizes
    q = draw(2, heads, queries, size, scale=1.0)
    k, v = draw(2, groups, keys, size, scale=1.0), draw(2, groups, keys, width)
    if options:
        options = {name: make(queries, keys) for name, make in options.items()}
    y = pg.scaled_dot_product_attention(q, k, v, enable_gqa=True, **options)
    dy = draw(*y.shape, scale=1.0)
    mask, length = options.get("mask"), options.get("length")
    mask = None if mask is None else pg.reshape(mask, (-1, 1, queries, keys))
    length = None if length is None else pg.asarray(length, dtype="int32")
    how = {"scale": 0.3, "causal": "is_causal" in options}
    for _ in range(3):
        found = pg.run_kernel("AttentionGrad", [dy, q, k, v, mask, length], how)
    return [y, *found]


def causal(*_):
    return True


def some_pairs(queries, keys):
    return draw(queries, keys) > 0


def biases(queries, keys):
    return draw(2, 1, queries, keys)


def one_length(_, keys):
    return keys // 2


def lengths(_, keys):
    return [keys - 1, 5]


def jitted(f, *xs):
    """Return the results of a compiled function."""
    function = pg.jit(f)
    for _ in range(3):
        function(*xs)
    return [*function(*xs)]


CASES = {
    "product": lambda: [pg.matmul(draw(67, 130), draw(130, 45))],
    "transposed": lambda: [
        pg.matmul(draw(50, 33), draw(29, 50), transpose_a=True, transpose_b=True)
    ],
    "batches": lambda: [pg.matmul(draw(3, 1, 20, 7), draw(2, 7, 18))],
    "one row": lambda: [pg.matmul(draw(1, 700), draw(700, 130))],
    "one column": lambda: [pg.matmul(draw(130, 700), draw(700, 1))],
    "long sums": lambda: [pg.matmul(draw(5, 40_000), draw(40_000, 6))],
    "double": lambda: [pg.matmul(*(draw(37, 37, dtype="float64") for _ in "ab"))],
    "integers": lambda: [pg.matmul(*(draw(37, 37, dtype="int32") for _ in "ab"))],
    "complex": lambda: [pg.matmul(*(draw(19, 19, dtype="complex64") for _ in "ab"))],
    "bfloat16, one row": lambda: [
        pg.matmul(draw(1, 700), draw(700, 132, dtype=pg.bfloat16))
    ],
    "bfloat16, dots": lambda: [
        pg.matmul(draw(3, 128), draw(45, 128, dtype=pg.bfloat16), transpose_b=True)
    ],
    "bfloat16, many rows": lambda: [
        pg.matmul(draw(67, 130), draw(130, 45, dtype=pg.bfloat16))
    ],
    "conv2d": lambda: convolved((2, 9, 11, 5), (3, 3, 5, 18), pad="same"),
    "strides": lambda: convolved((1, 12, 9, 4), (3, 2, 4, 7), strides=(3, 2), pad=1),
    "dilations": lambda: convolved((1, 12, 9, 4), (3, 2, 4, 7), dilations=(1, 3)),
    "gaps": lambda: convolved((1, 9, 9, 3), (2, 2, 3, 4), strides=4),
    "groups": lambda: convolved((2, 7, 7, 6), (3, 3, 2, 9), groups=3),
    "conv3x3": lambda: convolved((2, 7, 9, 33), (3, 3, 33, 40), pad=((1, 1), (0, 2))),
    "conv3x3, padded": lambda: convolved((1, 6, 6, 32), (3, 3, 32, 35), pad=3),
    "conv1x1": lambda: convolved((1, 7, 7, 20), (1, 1, 20, 33)),
    "conv3d": lambda: convolved(
        (1, 5, 6, 7, 3), (2, 3, 2, 3, 5), pg.conv3d, strides=(1, 2, 1)
    ),
    "depthwise": lambda: convolved(
        (2, 9, 13, 19), (3, 3, 19, 1), pg.depthwise_conv2d, pad="same"
    ),
    "multiplier": lambda: convolved(
        (1, 8, 8, 5), (3, 3, 5, 2), pg.depthwise_conv2d, strides=2, pad="same"
    ),
    "max_pool": lambda: both_ways(lambda x: pg.max_pool(x, 2), draw(2, 9, 8, 19)),
    "overlapping": lambda: both_ways(
        lambda x: pg.max_pool(x, 3, strides=2, pad="same"), draw(2, 9, 8, 3)
    ),
    "avg_pool": lambda: both_ways(
        lambda x: pg.avg_pool(x, 3, strides=2, pad="same"), draw(2, 9, 8, 12)
    ),
    "argmax": lambda: [
        *pg.max_pool_with_argmax(draw(2, 7, 7, 9), 2, include_batch_in_index=True)
    ],
    "fused": lambda: [
        pg.fused.conv2d(
            draw(1, 9, 9, c), draw(3, 3, c, 33, scale=0.05), draw(33), activation=name
        )
        for c in (4, 32)
        for name in ("relu", "relu6", "elu", "leaky_relu", "sigmoid")
    ],
    "fused depthwise": lambda: [
        pg.fused.depthwise_conv2d(
            draw(1, 9, 9, 20),
            draw(3, 3, 20, 1),
            draw(20),
            pad="same",
            activation="relu",
        )
    ],
    "softmax": lambda: [pg.softmax(draw(5, 1003)), pg.softmax(draw(20, 3, 5), axis=0)],
    "kernels for gradients": lambda: [
        y
        for op in (pg.softmax, pg.log_softmax, pg.relu, pg.tanh, pg.sigmoid, pg.erf)
        for y in both_ways(op, draw(5, 1003, scale=1.0))
    ],
    "attention": lambda: attended(4, 4, 19, 45, (20, 13)),
    "attention, wide": lambda: attended(2, 2, 33, 70, (128, 100)),
    "attention, causal": lambda: attended(9, 3, 23, 40, (64, 64), is_causal=causal),
    "attention, mask": lambda: attended(4, 2, 17, 37, (7, 9), mask=some_pairs),
    "attention, biases": lambda: attended(
        4, 2, 17, 37, (7, 9), mask=biases, is_causal=causal
    ),
    "attention, length": lambda: attended(
        4, 2, 17, 80, (16, 16), length=one_length, is_causal=causal
    ),
    "attention, lengths": lambda: attended(4, 1, 5, 37, (8, 8), length=lengths),
    "attention, no keys": lambda: attended(1, 1, 16, 0, (4, 4)),
    "attention, few rows": lambda: attended(2, 2, 3, 40, (8, 8)),
    "log_softmax": lambda: [pg.log_softmax(draw(5, 1003))],
    "layer_norm": lambda: [
        pg.layer_norm(draw(5, 1003), *more)
        for more in ([], [draw(1003)], [None, draw(1003)], [draw(1003), draw(1, 1003)])
    ],
    "batch_norm": lambda: [
        pg.batch_norm(
            draw(2, 5, 5, 9), draw(9), pg.abs(draw(1, 9)), draw(9), draw(1, 1, 9)
        )
    ],
    "pad": lambda: [
        pg.pad(draw(3, 5, 37), [(1, 0), (2, 3), (0, 0)], constant_values=7.0),
        pg.pad(draw(3, 5, 37), [(0, 0), (0, 1), (4, 9)]),
    ],
    "cumulative": lambda: [
        pg.cumulative_sum(draw(3, 50, 70), axis=1, reverse=True),
        pg.cumulative_prod(draw(3, 20, scale=1.0), axis=1, exclusive=True),
    ],
    "fft": lambda: [
        part(f(draw(3, n, dtype="complex64")))
        for n in (64, 90, 61, 67)
        for f in (pg.fft.fft, pg.fft.ifft)
        for part in (pg.real, pg.imag)
    ],
    "resize": lambda: [
        f(draw(2, 7, 5, c), (11, 3))
        for c in (3, 20)
        for f in (pg.image.resize_bilinear, pg.image.resize_nearest_neighbor)
    ],
    "short rows": lambda: [pg.concat([draw(9, 9, n) for n in (4, 2, 8)], axis=2)],
    "scatter": lambda: [
        pg.tensor_scatter_update(
            draw(20, 7, 5),
            pg.abs(draw(300, 2, dtype="int32", scale=2.0)) % 7,
            draw(300, 5),
        )
    ],
    "a region": lambda: jitted(
        lambda x, y: (pg.tanh(x * y) + 1.0, pg.where(x > y, x, y * y)),
        *(draw(5, 1003), draw(1003)),
    ),
    "sorting": lambda: [
        y
        for dtype in ("float32", "float64", "int8", "uint32")
        for y in pg.top_k(pg.abs(draw(9, 300, dtype=dtype)), 70)
    ],
    "sums": lambda: [
        pg.sum(draw(70, 3000), axis=1),
        pg.sum(draw(3000, 70), axis=0),
        pg.prod(draw(70, 9), axis=1),
        pg.sum(pg.full((1 << 24,), 0.1)),  # plain summation would lose digits
    ],
}


def compare(name):
    """Check that opencl gives the same results as cpu."""
    found = {}
    for backend in ("cpu", "opencl"):
        with pg.use_backend(backend):
            found[backend] = [y.numpy() for y in CASES[name]()]
    for expected, actual in zip(found["cpu"], found["opencl"], strict=True):
        assert actual.dtype == expected.dtype
        if expected.dtype.kind == "i":
            np.testing.assert_array_equal(actual, expected)
            continue
        largest = np.abs(expected).max(initial=0)
        is_double = expected.dtype == np.float64
        tolerance = 1e-13 if is_double else 2e-6
        np.testing.assert_allclose(
            actual,
            expected,
            rtol=10 * tolerance,
            atol=tolerance * largest,
            err_msg=name,
        )


def test_infinities_in_winograd_convolutions():
    """Winograd's differences are NaN there, so these outputs are computed again."""
    x = np.ones((1, 8, 8, 32), np.float32)
    x[0, 2, 3, 5] = np.inf
    x[0, 6, 6, 1] = np.nan
    x[0, 0, 7, 2] = -np.inf
    with pg.use_backend("opencl"):
        y = pg.conv2d(x, np.ones((3, 3, 32, 32), np.float32), pad="same").numpy()
    expected = np.full((8, 8), 288.0)
    expected[0], expected[-1], expected[:, 0], expected[:, -1] = [192.0] * 4
    expected[[0, 0, -1, -1], [0, -1, 0, -1]] = 128.0
    expected[1:4, 2:5] = np.inf
    expected[5:8, 5:8] = np.nan
    expected[0:2, 6:8] = -np.inf
    np.testing.assert_array_equal(
        y, np.broadcast_to(expected[None, ..., None], y.shape)
    )


@pytest.mark.parametrize("name", CASES)
def test_kernels_for_the_device(name):
    compare(name)


def test_kernels_for_gpus():
    """This needs a new process, because the style of a device is fixed in a process."""
    code = (
        "from tests.opencl.test_styles import CASES, compare\n"
        "for name in CASES: compare(name)\n"
        "from plugrad.plugin import runtime\n"
        "print(runtime('opencl').arrays.device.style, len(CASES))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {"PLUGRAD_OPENCL_STYLE": "gpu"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["gpu", str(len(CASES))]
