"""Int8 convolutions and products: exactly NumPy's sums and rounding; errors."""

import re

import numpy as np
import plugrad as pg
import pytest

from ..check import require_dtypes

RNG = np.random.default_rng(0)
quantized = pg.quantized


def drawn(dtype, shape):
    """Return integers, many of which are the smallest or the largest of a dtype."""
    limits = np.iinfo(dtype)
    inner = RNG.integers(limits.min, limits.max + 1, shape)
    ends = RNG.choice([limits.min, limits.max], shape)
    return np.where(RNG.integers(0, 2, shape), inner, ends).astype(dtype)


def ended(sums, bias, scale, zero):
    y = sums if bias is None else sums + bias
    if scale is None:
        return y
    y = y.astype(np.float32) * scale
    if zero is None:
        return y
    limits = np.iinfo(zero.dtype)
    y = np.round(y) + np.float32(zero)
    return np.clip(y, limits.min, limits.max).astype(zero.dtype)


def convolved(x, w, x_zero, strides, pad, dilations):
    """Return sums in int32: of a filter [h, w, c, k], or of each channel, [h, w, c]."""
    wide = x.astype(np.int32) - (0 if x_zero is None else np.int32(x_zero))
    wide = np.pad(wide, [(0, 0), *pad, (0, 0)])
    spans = [(n - 1) * d + 1 for n, d in zip(w.shape, dilations, strict=False)]
    seen = np.lib.stride_tricks.sliding_window_view(wide, spans, (1, 2))
    seen = seen[:, :: strides[0], :: strides[1], :, :: dilations[0], :: dilations[1]]
    rule = "npqchw,hwck->npqk" if w.ndim == 4 else "npqchw,hwc->npqc"
    return np.einsum(rule, seen, w.astype(np.int32), dtype=np.int32)


# Channels in and out; the window; strides, padding and dilations.
WINDOWS = {
    "a number": ((1, 1), (1, 1), (1, 1), [(0, 0), (0, 0)], (1, 1)),
    "1 x 1": ((64, 70), (1, 1), (1, 1), [(0, 0), (0, 0)], (1, 1)),
    "1 x 1, a rest of a word": ((7, 16), (1, 1), (1, 1), [(0, 0), (0, 0)], (1, 1)),
    "1 x 1 in steps": ((8, 33), (1, 1), (2, 1), [(0, 0), (0, 0)], (1, 1)),
    "3 x 3": ((33, 40), (3, 3), (1, 1), [(1, 1), (1, 1)], (1, 1)),
    "3 x 3 in steps": ((3, 17), (3, 3), (2, 2), [(0, 1), (1, 0)], (1, 1)),
    "dilated": ((5, 4), (3, 2), (1, 1), [(2, 2), (0, 3)], (2, 3)),
    "1 x 7": ((16, 15), (1, 7), (1, 1), [(0, 0), (3, 3)], (1, 1)),
    "larger than the input": ((2, 3), (7, 9), (1, 1), [(5, 5), (6, 6)], (1, 1)),
    "all outside": ((4, 4), (1, 1), (3, 3), [(2, 2), (2, 2)], (1, 1)),
    "9 x 9": ((17, 3), (9, 9), (1, 1), [(4, 4), (4, 4)], (1, 1)),
}
# Dtypes of x and of the result; whether it is scaled channel by channel.
ENDS = {
    "sums": ("uint8", "int32", False),
    "sums of signed": ("int8", "int32", False),
    "float32": ("uint8", "float32", True),
    "uint8": ("uint8", "uint8", True),
    "int8 by one scale": ("int8", "int8", False),
    "uint8 of signed": ("int8", "uint8", False),
}


def given(end, columns, plain):
    """Return the zero point of x, the bias, the scale and the zero point of a row."""
    of_x, to, many = ENDS[end]
    scale = RNG.uniform(1e-5, 1e-2, columns if many else ()).astype(np.float32)
    return [
        None if plain else drawn(of_x, ()),
        None if plain else RNG.integers(-(10**5), 10**5, columns).astype(np.int32),
        None if to == "int32" else scale,
        drawn(to, ()) if to in ("int8", "uint8") else None,
    ]


def tensors(*arrays):
    return [x if x is None else pg.asarray(x) for x in arrays]


@pytest.mark.parametrize("each", [False, True], ids=["conv2d", "depthwise_conv2d"])
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("row", WINDOWS)
def test_convolutions(row, end, plain, each, backend):
    require_dtypes(backend, "int8", "uint8")
    (c, k), window, strides, pad, dilations = WINDOWS[row]
    x = drawn(ENDS[end][0], (2, 6, 7, c))
    w = drawn("int8", (*window, c) if each else (*window, c, k))
    x_zero, *rest = given(end, c if each else k, plain)
    expected = ended(convolved(x, w, x_zero, strides, pad, dilations), *rest)
    how = {"strides": strides, "pad": pad, "dilations": dilations}
    more = tensors(x_zero, *rest)
    if each:
        w = pg.asarray(w[..., None])
        y = quantized.depthwise_conv2d(pg.asarray(x), w, *more, **how)
    else:
        y = quantized.conv2d(pg.asarray(x), pg.asarray(w), *more, **how)
    assert y.dtype == expected.dtype
    np.testing.assert_array_equal(y.numpy(), expected)


def test_several_results_of_a_channel(backend):
    require_dtypes(backend, "int8", "uint8")
    x = drawn("uint8", (1, 4, 5, 3))
    w = drawn("int8", (2, 2, 3, 4))
    y = quantized.depthwise_conv2d(pg.asarray(x), pg.asarray(w))
    how = (1, 1), [(0, 0), (0, 0)], (1, 1)
    expected = [convolved(x, w[..., i], None, *how) for i in range(4)]
    np.testing.assert_array_equal(y.numpy(), np.stack(expected, -1).reshape(y.shape))


# Of a: one row, fewer and more than a tile has; sums that wrap; nothing.
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
@pytest.mark.parametrize("end", ENDS)
def test_products(shape, end, backend):
    require_dtypes(backend, "int8", "uint8")
    rows, n = shape
    a = drawn(ENDS[end][0], rows)
    w = drawn("int8", (rows[-1], n))
    if rows[-1] > 60000:
        a = np.full_like(a, np.iinfo(a.dtype).max)
        w = np.full_like(w, -128)
    a_zero, *rest = given(end, n, rows[-1] > 60000)
    wide = a.astype(np.int32) - (0 if a_zero is None else np.int32(a_zero))
    expected = ended(np.matmul(wide, w.astype(np.int32)), *rest)
    y = quantized.matmul(a, w, *tensors(a_zero, *rest))
    assert (y.dtype, y.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(y.numpy(), expected)


def test_results_are_rounded_half_to_even_and_bounded(backend):
    require_dtypes(backend, "int8", "uint8")
    sums = np.array([-(2**31), -600, -5, -3, -1, 0, 1, 3, 5, 600, 2**31 - 1], np.int32)
    w = np.zeros((1, sums.size), np.int8)
    a = np.zeros((1, 1), np.uint8)
    end = (pg.asarray(sums), pg.asarray(np.float32(0.5)))
    for zero, expected in {
        np.uint8(3): [0, 0, 1, 1, 3, 3, 3, 5, 5, 255, 255],
        np.int8(-4): [-128, -128, -6, -6, -4, -4, -4, -2, -2, 127, 127],
    }.items():
        y = quantized.matmul(a, w, None, *end, pg.asarray(zero))
        assert y.tolist() == [expected]


def test_the_gradient_in_the_scale_is_the_sum(backend):
    require_dtypes(backend, "int8", "uint8")
    a = drawn("uint8", (3, 4))
    w = drawn("int8", (4, 2))
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
    x = drawn("uint8", (3, 5) if op == "matmul" else (2, 3, 4, OPS[op][2]))
    return x, drawn("int8", OPS[op]), drawn("int8", OPS[op])


@pytest.mark.parametrize("op", OPS)
def test_weights_that_are_used_again(op, backend):
    require_dtypes(backend, "int8", "uint8")
    x, w, other = operands(op)
    one = pg.asarray(w)
    two = pg.asarray(other)
    for _ in range(4):
        assert (run(op, x, one).numpy() == sums(op, x, w)).all()
        assert (run(op, x, two).numpy() == sums(op, x, other)).all()
        assert (run(op, x, pg.asarray(other)).numpy() == sums(op, x, other)).all()


@pytest.mark.parametrize("op", OPS)
def test_weights_that_are_assigned(op, backend):
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
def test_weights_in_memory_of_others(op, backend):
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
    one = pg.asarray(w)
    two = pg.asarray(other)
    passed = pg.jit(lambda x, w: run(op, x, w))
    closed = pg.jit(lambda x: run(op, x, one))
    computed = pg.jit(lambda x, w: run(op, x, (w.astype("int32") // 2).astype("int8")))
    for _ in range(4):
        for tensor, array in ((one, w), (two, other)):
            y = passed(pg.asarray(x), tensor)
            assert (y.numpy() == sums(op, x, array)).all()
            y = computed(pg.asarray(x), tensor)
            assert (y.numpy() == sums(op, x, array // 2)).all()
        assert (closed(pg.asarray(x)).numpy() == sums(op, x, w)).all()
    one[0] = two[0]
    w = w.copy()
    w[0] = other[0]
    for _ in range(3):
        assert (closed(pg.asarray(x)).numpy() == sums(op, x, w)).all()


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
    "numbers that are no bytes": (
        lambda: quantized.depthwise_conv2d(X.astype(np.float32), W[..., :1]),
        TypeError,
        "quantized.depthwise_conv2d: x must be int8 or uint8, got float32",
    ),
    "a matrix that is no bytes": (
        lambda: quantized.matmul(X, V.astype(np.int32)),
        TypeError,
        "quantized.matmul: b must be int8, got int32",
    ),
    "a vector of weights": (
        lambda: quantized.matmul(X, V[0]),
        ValueError,
        "quantized.matmul: a must have 1 axis or more, and b 2; "
        "got shapes (1, 4, 4, 3) and (5,)",
    ),
    "a number": (
        lambda: quantized.matmul(np.uint8(3), V),
        ValueError,
        "quantized.matmul: a must have 1 axis or more, and b 2",
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
