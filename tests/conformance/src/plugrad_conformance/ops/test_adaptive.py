"""Adaptive pooling to a given size, and RMS normalization."""

import itertools

import numpy as np
import plugrad as pg
import pytest

from ..check import check_gradients, require_dtypes

NAN, INF = np.nan, np.inf
RNG = np.random.default_rng(0)
FORMATS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
POOLS = {
    ("avg", 1): pg.adaptive_avg_pool1d,
    ("avg", 2): pg.adaptive_avg_pool,
    ("avg", 3): pg.adaptive_avg_pool,
    ("max", 1): pg.adaptive_max_pool1d,
    ("max", 2): pg.adaptive_max_pool,
    ("max", 3): pg.adaptive_max_pool,
}
SIZES = [  # input sizes, output sizes
    ((7, 5, 6), (3, 5, 4)),
    ((4, 6, 2), (2, 3, 1)),
    ((3, 2, 5), (5, 4, 7)),
    ((1, 1, 1), (1, 2, 3)),
    ((9, 10, 4), (1, 1, 1)),
    ((5, 4, 3), (2, 2, 2)),
]


def windows(n, m):
    """Return the indices in each window, by the definition."""
    return [range(i * n // m, -(-(i + 1) * n // m)) for i in range(m)]


def pooled(x, size, reduce):
    """Return the reduced windows of an array with channels last."""
    sizes = x.shape[1:-1]
    y = np.empty((x.shape[0], *size, x.shape[-1]), float)
    parts = [windows(n, m) for n, m in zip(sizes, size, strict=True)]
    for position in itertools.product(*map(range, size)):
        chosen = [part[i] for part, i in zip(parts, position, strict=True)]
        part = x[(slice(None), *np.ix_(*chosen))]
        y[(slice(None), *position)] = reduce(part, tuple(range(1, x.ndim - 1)))
    return y


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
@pytest.mark.parametrize("sizes", range(len(SIZES)))
@pytest.mark.parametrize(("kind", "spatial"), POOLS)
def test_values(kind, spatial, sizes, dtype, backend):
    require_dtypes(backend, dtype)
    op = POOLS[kind, spatial]
    shape, size = (part[:spatial] for part in SIZES[sizes])
    x = (RNG.normal(size=(2, *shape, 3)) * 9).astype(dtype)
    y = op(x, size)
    expected = pooled(x.astype(float), size, np.mean if kind == "avg" else np.max)
    rtol = {"float16": 2e-3, "float64": 1e-13}.get(dtype, 1e-5)
    np.testing.assert_allclose(y.numpy(), expected, rtol=rtol, atol=rtol)
    integer_result = np.float32 if kind == "avg" else np.int32
    assert y.dtype == (integer_result if dtype == "int32" else dtype)
    channels_first = op(np.moveaxis(x, -1, 1), size, data_format=FORMATS[spatial])
    np.testing.assert_array_equal(channels_first.numpy(), np.moveaxis(y.numpy(), -1, 1))
    if spatial < 3:
        np.testing.assert_array_equal(op(x[0], size).numpy(), y.numpy()[0])


def test_one_size_for_all_axes(backend):
    x = RNG.normal(size=(1, 5, 7, 2)).astype(np.float32)
    for op in (pg.adaptive_avg_pool, pg.adaptive_max_pool):
        np.testing.assert_array_equal(op(x, 3).numpy(), op(x, (3, 3)).numpy())


def test_infinity_stays_in_its_windows(backend):
    x = np.arange(5, dtype=np.float32).reshape(5, 1)
    x[4] = INF
    assert pg.adaptive_avg_pool1d(x, 2)[:, 0].tolist() == [1.0, INF]
    assert pg.adaptive_avg_pool1d(x, 3)[:, 0].tolist() == [0.5, 2.0, INF]
    x[4] = NAN
    assert pg.adaptive_max_pool1d(x, 2)[:, 0].tolist() == [2.0, 3.0]


def test_the_gradient_goes_to_the_first_maximum(backend):
    x = pg.reshape(pg.asarray([1.0, 3.0, 3.0, 2.0, 3.0]), (5, 1))
    f = lambda x: pg.sum(pg.adaptive_max_pool1d(x, 2)[:, 0] * [1.0, 10.0])
    assert pg.grad(f)(x)[:, 0].tolist() == [0, 1, 10, 0, 0]


@pytest.mark.parametrize(("kind", "spatial"), POOLS)
def test_gradients(kind, spatial, backend):
    op = POOLS[kind, spatial]
    for shape, size in (SIZES[0], SIZES[1], SIZES[2]):
        x = RNG.normal(size=(2, *shape[:spatial], 2))
        check_gradients(lambda x, op=op, s=size[:spatial]: op(x, s) ** 2, x)


def test_under_jit_and_vmap(backend):
    x = pg.asarray(RNG.normal(size=(3, 2, 5, 7, 2)).astype(np.float32))
    for op in (pg.adaptive_avg_pool, pg.adaptive_max_pool):
        f = pg.jit(lambda x, op=op: op(x, (2, 3)))
        expected = np.stack([op(image, (2, 3)).numpy() for image in x])
        for _ in range(3):
            np.testing.assert_array_equal(f(x[0]).numpy(), expected[0])
        y = pg.vmap(lambda x, op=op: op(x, (2, 3)))(x)
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)


# --- RMS normalization -----------------------------------------------------------


def rms_norm(x, scale, axis, epsilon):
    return x / np.sqrt(np.mean(x * x, axis, keepdims=True) + epsilon) * scale


@pytest.mark.parametrize("axis", [-1, 0, (1, 2), None], ids=str)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_rms_norm(dtype, axis, backend):
    require_dtypes(backend, dtype)
    x = (RNG.normal(size=(3, 4, 5)) * 3).astype(dtype)
    scale = RNG.normal(size=(4, 1)).astype(dtype)
    axes = (0, 1, 2) if axis is None else axis
    rtol = {"float16": 2e-3, "float64": 1e-13}.get(dtype, 2e-6)
    for given, epsilon in ((None, 1e-5), (scale, 0.3)):
        y = pg.rms_norm(x, given, axis=axis, epsilon=epsilon)
        s = 1 if given is None else scale.astype(float)
        expected = rms_norm(x.astype(float), s, axes, epsilon)
        np.testing.assert_allclose(y.numpy(), expected, rtol=rtol, atol=rtol)
        assert y.dtype == dtype


def test_rms_norm_of_large_float16_and_of_zeros(backend):
    require_dtypes(backend, "float16")
    x = np.full((2, 4), 30000, np.float16)  # the square overflows float16
    assert pg.rms_norm(x).tolist() == [[1.0] * 4] * 2
    assert pg.rms_norm([0.0, 0.0]).tolist() == [0, 0]
    assert pg.rms_norm([3, 3]).dtype == np.float32


def test_gradients_of_rms_norm(backend):
    x = RNG.normal(size=(3, 4))
    scale = RNG.normal(size=4)
    check_gradients(pg.rms_norm, x, scale)
    check_gradients(lambda x: pg.rms_norm(x, axis=0, epsilon=0.5), x)


X = np.ones((1, 4, 4, 2), np.float32)
ERRORS = [
    (lambda: pg.adaptive_avg_pool(X, (2, 2, 2)), ValueError, "must be 2 sizes of 1"),
    (
        lambda: pg.adaptive_max_pool(X, 0),
        ValueError,
        "output_size 0 must be .* 1 or more",
    ),
    (lambda: pg.adaptive_max_pool(X[:, :0], 2), ValueError, "must not be empty; got"),
    (lambda: pg.adaptive_avg_pool(X[0, 0], 2), ValueError, "x must have rank 4, or 3"),
    (
        lambda: pg.adaptive_avg_pool1d(X, 2),
        ValueError,
        "adaptive_avg_pool1d: x must have",
    ),
    (lambda: pg.adaptive_avg_pool(X, 2.5), TypeError, "adaptive_avg_pool: output_size"),
    (
        lambda: pg.adaptive_max_pool(X > 0, 2),
        TypeError,
        "adaptive_max_pool: bool has no",
    ),
    (
        lambda: pg.adaptive_max_pool1d(1j * X[0], 1),
        TypeError,
        "complex numbers have no",
    ),
    (
        lambda: pg.adaptive_avg_pool1d(["a"], 1),
        TypeError,
        "adaptive_avg_pool1d: .*string",
    ),
    (
        lambda: pg.adaptive_max_pool(X, 2, data_format="NWC"),
        ValueError,
        "adaptive_max_pool: data_format 'NWC': use 'NHWC' or 'NCHW'",
    ),
    (
        lambda: pg.rms_norm(X, epsilon=-1.0),
        ValueError,
        "epsilon must be 0 or more, and finite, got",
    ),
    (
        lambda: pg.rms_norm(X, epsilon=NAN),
        ValueError,
        "epsilon must be 0 or more, and finite, got",
    ),
    (lambda: pg.rms_norm(X, np.ones(3, "f")), ValueError, "rms_norm: .*broadcast"),
    (lambda: pg.rms_norm(X, axis=4), ValueError, "rms_norm: axis 4 is out of range"),
    (lambda: pg.rms_norm(1j * X), TypeError, "rms_norm: .*complex"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call, error, message, backend):
    with pytest.raises(error, match=message):
        call()
