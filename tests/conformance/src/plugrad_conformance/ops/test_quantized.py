"""Int8 convolutions and products give exactly NumPy's sums and rounding; errors."""

import re

import numpy as np
import plugrad as pg
import pytest

from ..check import require_dtypes

RNG = np.random.default_rng(0)
quantized = pg.quantized


def random_integers(dtype, shape):
    """Return random integers; about half are the limits of the dtype."""
    limits = np.iinfo(dtype)
    drawn = RNG.integers(limits.min, limits.max + 1, shape)
    ends = RNG.choice([limits.min, limits.max], shape)
    return np.where(RNG.integers(0, 2, shape), drawn, ends).astype(dtype)


def apply_epilogue(sums, bias, scale, zero_point):
    y = sums if bias is None else sums + bias
    if scale is None:
        return y
    y = y.astype(np.float32) * scale
    if zero_point is None:
        return y
    limits = np.iinfo(zero_point.dtype)
    y = np.round(y) + np.float32(zero_point)
    return np.clip(y, limits.min, limits.max).astype(zero_point.dtype)


def convolved(x, w, x_zero, strides, pad, dilations):
    """Return int32 sums for a filter [h, w, c, k] or a depthwise filter [h, w, c]."""
    wide = x.astype(np.int32) - (0 if x_zero is None else np.int32(x_zero))
    wide = np.pad(wide, [(0, 0), *pad, (0, 0)])
    spans = [(n - 1) * d + 1 for n, d in zip(w.shape, dilations, strict=False)]
    windows = np.lib.stride_tricks.sliding_window_view(wide, spans, (1, 2))
    windows = windows[
        :, :: strides[0], :: strides[1], :, :: dilations[0], :: dilations[1]
    ]
    subscripts = "npqchw,hwck->npqk" if w.ndim == 4 else "npqchw,hwc->npqc"
    return np.einsum(subscripts, windows, w.astype(np.int32), dtype=np.int32)


# Input and output channels, window size, strides, padding and dilations.
WINDOWS = {
    "a number": ((1, 1), (1, 1), (1, 1), [(0, 0), (0, 0)], (1, 1)),
    "1 x 1": ((64, 70), (1, 1), (1, 1), [(0, 0), (0, 0)], (1, 1)),
    "1 x 1, part of a word": ((7, 16), (1, 1), (1, 1), [(0, 0), (0, 0)], (1, 1)),
    "1 x 1, strided": ((8, 33), (1, 1), (2, 1), [(0, 0), (0, 0)], (1, 1)),
    "3 x 3": ((33, 40), (3, 3), (1, 1), [(1, 1), (1, 1)], (1, 1)),
    "3 x 3, strided": ((3, 17), (3, 3), (2, 2), [(0, 1), (1, 0)], (1, 1)),
    "dilated": ((5, 4), (3, 2), (1, 1), [(2, 2), (0, 3)], (2, 3)),
    "1 x 7": ((16, 15), (1, 7), (1, 1), [(0, 0), (3, 3)], (1, 1)),
    "larger than the input": ((2, 3), (7, 9), (1, 1), [(5, 5), (6, 6)], (1, 1)),
    "most windows outside": ((4, 4), (1, 1), (3, 3), [(2, 2), (2, 2)], (1, 1)),
    "9 x 9": ((17, 3), (9, 9), (1, 1), [(4, 4), (4, 4)], (1, 1)),
}
# Dtypes of x and of the result; whether each channel has its own scale.
EPILOGUES = {
    "sums": ("uint8", "int32", False),
    "sums of int8": ("int8", "int32", False),
    "float32": ("uint8", "float32", True),
    "uint8": ("uint8", "uint8", True),
    "int8 by one scale": ("int8", "int8", False),
    "uint8 of int8": ("int8", "uint8", False),
}


def epilogue_arguments(epilogue, channels, plain):
    """Return the zero point of x, the bias, the scale and the result's zero point."""
    x_dtype, result_dtype, per_channel = EPILOGUES[epilogue]
    scale = RNG.uniform(1e-5, 1e-2, channels if per_channel else ()).astype(np.float32)
    return [
        None if plain else random_integers(x_dtype, ()),
        None if plain else RNG.integers(-(10**5), 10**5, channels).astype(np.int32),
        None if result_dtype == "int32" else scale,
        random_integers(result_dtype, ())
        if result_dtype in ("int8", "uint8")
        else None,
    ]


def tensors(*arrays):
    return [x if x is None else pg.asarray(x) for x in arrays]


@pytest.mark.parametrize("depthwise", [False, True], ids=["conv2d", "depthwise_conv2d"])
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("epilogue", EPILOGUES)
@pytest.mark.parametrize("row", WINDOWS)
def test_convolutions(row, epilogue, plain, depthwise, backend):
    require_dtypes(backend, "int8", "uint8")
    (c, k), window, strides, pad, dilations = WINDOWS[row]
    x = random_integers(EPILOGUES[epilogue][0], (2, 6, 7, c))
    w = random_integers("int8", (*window, c) if depthwise else (*window, c, k))
    x_zero, *rest = epilogue_arguments(epilogue, c if depthwise else k, plain)
    expected = apply_epilogue(convolved(x, w, x_zero, strides, pad, dilations), *rest)
    options = {"strides": strides, "pad": pad, "dilations": dilations}
    arguments = tensors(x_zero, *rest)
    if depthwise:
        w = pg.asarray(w[..., None])
        y = quantized.depthwise_conv2d(pg.asarray(x), w, *arguments, **options)
    else:
        y = quantized.conv2d(pg.asarray(x), pg.asarray(w), *arguments, **options)
    assert y.dtype == expected.dtype
    np.testing.assert_array_equal(y.numpy(), expected)


def test_depthwise_convolution_with_several_results_per_channel(backend):
    require_dtypes(backend, "int8", "uint8")
    x = random_integers("uint8", (1, 4, 5, 3))
    w = random_integers("int8", (2, 2, 3, 4))
    y = quantized.depthwise_conv2d(pg.asarray(x), pg.asarray(w))
    geometry = (1, 1), [(0, 0), (0, 0)], (1, 1)
    expected = [convolved(x, w[..., i], None, *geometry) for i in range(4)]
    np.testing.assert_array_equal(y.numpy(), np.stack(expected, -1).reshape(y.shape))


# The shape of a, and the number of columns: one row, part of a tile, several tiles,
# sums that wrap, empty arrays.
SHAPES = [
    ((5,), 3),
    ((1, 130), 70),
    ((7, 64), 16),
    ((3, 29, 12), 17),
    ((100, 100), 40),
    ((2, 66000), 2),
    ((0, 4), 3),
    ((3, 0), 4),
    ((3, 4), 0),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_products(shape, epilogue, backend):
    require_dtypes(backend, "int8", "uint8")
    rows, n = shape
    a = random_integers(EPILOGUES[epilogue][0], rows)
    w = random_integers("int8", (rows[-1], n))
    if rows[-1] > 60000:
        a = np.full_like(a, np.iinfo(a.dtype).max)
        w = np.full_like(w, -128)
    a_zero, *rest = epilogue_arguments(epilogue, n, rows[-1] > 60000)
    wide = a.astype(np.int32) - (0 if a_zero is None else np.int32(a_zero))
    expected = apply_epilogue(np.matmul(wide, w.astype(np.int32)), *rest)
    y = quantized.matmul(a, w, *tensors(a_zero, *rest))
    assert (y.dtype, y.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(y.numpy(), expected)


def test_results_are_rounded_half_to_even_and_clipped(backend):
    require_dtypes(backend, "int8", "uint8")
    sums = np.array([-(2**31), -600, -5, -3, -1, 0, 1, 3, 5, 600, 2**31 - 1], np.int32)
    w = np.zeros((1, sums.size), np.int8)
    a = np.zeros((1, 1), np.uint8)
    bias_and_scale = (pg.asarray(sums), pg.asarray(np.float32(0.5)))
    for zero, expected in {
        np.uint8(3): [0, 0, 1, 1, 3, 3, 3, 5, 5, 255, 255],
        np.int8(-4): [-128, -128, -6, -6, -4, -4, -4, -2, -2, 127, 127],
    }.items():
        y = quantized.matmul(a, w, None, *bias_and_scale, pg.asarray(zero))
        assert y.tolist() == [expected]


def test_the_gradient_in_the_scale_is_the_unscaled_sum(backend):
    require_dtypes(backend, "int8", "uint8")
    a = random_integers("uint8", (3, 4))
    w = random_integers("int8", (4, 2))
    f = lambda scale: pg.sum(quantized.matmul(a, w, None, None, scale))
    found = pg.grad(f)(pg.asarray(np.ones(2, np.float32)))
    expected = (a.astype(np.int32) @ w.astype(np.int32)).sum(0)
    np.testing.assert_array_equal(found.numpy(), expected.astype(np.float32))


# A backend may cache weights in its own layout between calls.

OPS = {"conv2d": (1, 2, 3, 5), "depthwise_conv2d": (1, 2, 5, 1), "matmul": (5, 20)}


def run(op, x, w):
    return getattr(quantized, op)(x, w)


def sums(op, x, w):
    """Return the result of ``run``, computed by NumPy."""
    if op == "matmul":
        return x.astype(np.int32) @ w.astype(np.int32)
    w = w[..., 0] if op == "depthwise_conv2d" else w
    return convolved(x, w, None, (1, 1), [(0, 0), (0, 0)], (1, 1))


def operands(op):
    x = random_integers("uint8", (3, 5) if op == "matmul" else (2, 3, 4, OPS[op][2]))
    return x, random_integers("int8", OPS[op]), random_integers("int8", OPS[op])


@pytest.mark.parametrize("op", OPS)
def test_weights_that_are_used_again(op, backend):
    require_dtypes(backend, "int8", "uint8")
    x, w, other = operands(op)
    first = pg.asarray(w)
    second = pg.asarray(other)
    for _ in range(4):
        assert (run(op, x, first).numpy() == sums(op, x, w)).all()
        assert (run(op, x, second).numpy() == sums(op, x, other)).all()
        assert (run(op, x, pg.asarray(other)).numpy() == sums(op, x, other)).all()


@pytest.mark.parametrize("op", OPS)
def test_assigning_to_weights(op, backend):
    require_dtypes(backend, "int8", "uint8")
    x, w, _ = operands(op)
    v = pg.asarray(w)
    alias = pg.stop_gradient(v)
    for number in range(6):
        for _ in range(3):
            assert (run(op, x, v).numpy() == sums(op, x, w)).all()
        w = w.copy()
        w[0] = v[0] = number
    assert (run(op, x, alias).numpy() != run(op, x, v).numpy()).any()


@pytest.mark.parametrize("op", OPS)
def test_weights_in_memory_shared_with_numpy(op, backend):
    """The owner may write to the memory if the backend shares it."""
    require_dtypes(backend, "int8", "uint8")
    x, w, _ = operands(op)
    v = pg.asarray(w, copy=False)
    for number in range(4):
        w[0] = number
        assert (run(op, x, v).numpy() == sums(op, x, v.numpy())).all()


@pytest.mark.parametrize("op", OPS)
def test_weights_that_are_results(op, backend):
    """The memory of results is reused for other arrays."""
    require_dtypes(backend, "int8", "uint8")
    x, w, other = operands(op)
    for number in range(8):
        y = run(op, x, pg.asarray(w if number % 2 else other))
        y = y + run(op, x, pg.astype(pg.asarray(w), "int32").astype("int8"))
        expected = sums(op, x, w if number % 2 else other) + sums(op, x, w)
        assert (y.numpy() == expected).all()


@pytest.mark.parametrize("op", OPS)
def test_weights_under_jit(op, backend):
    require_dtypes(backend, "int8", "uint8")
    x, w, other = operands(op)
    first = pg.asarray(w)
    second = pg.asarray(other)
    passed = pg.jit(lambda x, w: run(op, x, w))
    closed_over = pg.jit(lambda x: run(op, x, first))
    computed = pg.jit(lambda x, w: run(op, x, (w.astype("int32") // 2).astype("int8")))
    for _ in range(4):
        for tensor, array in ((first, w), (second, other)):
            y = passed(pg.asarray(x), tensor)
            assert (y.numpy() == sums(op, x, array)).all()
            y = computed(pg.asarray(x), tensor)
            assert (y.numpy() == sums(op, x, array // 2)).all()
        assert (closed_over(pg.asarray(x)).numpy() == sums(op, x, w)).all()
    first[0] = second[0]
    w = w.copy()
    w[0] = other[0]
    for _ in range(3):
        assert (closed_over(pg.asarray(x)).numpy() == sums(op, x, w)).all()


X = np.zeros((1, 4, 4, 3), np.uint8)
W = np.zeros((2, 2, 3, 5), np.int8)
V = W[0, 0]
ERRORS = {
    "a rank": (
        lambda: quantized.conv2d(X[0], W),
        ValueError,
        "quantized.conv2d: the input must have rank 4, got shape (4, 4, 3)",
    ),
    "a matrix of weights": (
        lambda: quantized.conv2d(X, V),
        ValueError,
        "quantized.conv2d: filter must have rank 4, got shape (3, 5)",
    ),
    "channels": (
        lambda: quantized.conv2d(X[..., :2], W),
        ValueError,
        "quantized.conv2d: input has 2 channels but filter expects 3",
    ),
    "a dtype": (
        lambda: quantized.conv2d(X, W, np.int8(1)),
        TypeError,
        "quantized.conv2d: x_zero_point must be uint8, got int8",
    ),
    "a dtype of rows": (
        lambda: quantized.matmul(X, V, np.int8(1)),
        TypeError,
        "quantized.matmul: a_zero_point must be uint8, got int8",
    ),
    "a bias": (
        lambda: quantized.conv2d(X, W, None, np.zeros(4, np.int32)),
        ValueError,
        "quantized.conv2d: bias must have the shape (5,), got (4,)",
    ),
    "a zero point without a scale": (
        lambda: quantized.conv2d(X, W, zero_point=np.uint8(1)),
        ValueError,
        "quantized.conv2d: a result with a zero point needs a scale",
    ),
    "weights": (
        lambda: quantized.conv2d(X, W.astype(np.uint8)),
        TypeError,
        "quantized.conv2d: filter must be int8, got uint8",
    ),
    "numbers that are not bytes": (
        lambda: quantized.depthwise_conv2d(X.astype(np.float32), W[..., :1]),
        TypeError,
        "quantized.depthwise_conv2d: x must be int8 or uint8, got float32",
    ),
    "a matrix that is not int8": (
        lambda: quantized.matmul(X, V.astype(np.int32)),
        TypeError,
        "quantized.matmul: b must be int8, got int32",
    ),
    "a vector of weights": (
        lambda: quantized.matmul(X, V[0]),
        ValueError,
        "quantized.matmul: a must have 1 axis or more, and b must have 2; "
        "got shapes (1, 4, 4, 3) and (5,)",
    ),
    "a number": (
        lambda: quantized.matmul(np.uint8(3), V),
        ValueError,
        "quantized.matmul: a must have 1 axis or more, and b must have 2",
    ),
    "rows that are too long": (
        lambda: quantized.matmul(X[..., :2], V),
        ValueError,
        "quantized.matmul: the last axis of a must be as long as the first of b; "
        "got shapes (1, 4, 4, 2) and (3, 5)",
    ),
}


@pytest.mark.parametrize("row", ERRORS)
def test_errors(row, backend):
    require_dtypes(backend, "int8", "uint8", "float32")
    call, error, message = ERRORS[row]
    with pytest.raises(error, match=re.escape(message)):
        call()
