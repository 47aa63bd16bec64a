"""Maxima, minima and products by segment: values, gradients, errors."""

import numpy as np
import plugrad as pg
import pytest

from ..check import check_gradients, require_dtypes

RNG = np.random.default_rng(0)
NAN, INF = np.nan, np.inf


def reduced(ufunc, x, ids, count, empty):
    """Reduce segment by segment."""
    rows = x.reshape(ids.size, *x.shape[ids.ndim :])
    y = np.full((count, *rows.shape[1:]), empty, x.dtype)
    for i in range(count):
        if (ids == i).any():
            y[i] = ufunc.reduce(rows[ids.reshape(-1) == i], axis=0, dtype=x.dtype)
    return y


def lowest(dtype):
    return -INF if np.dtype(dtype).kind == "f" else np.iinfo(dtype).min


def highest(dtype):
    return INF if np.dtype(dtype).kind == "f" else np.iinfo(dtype).max


OPS = {
    "max": (pg.unsorted_segment_max, np.maximum, lowest),
    "min": (pg.unsorted_segment_min, np.minimum, highest),
    "prod": (pg.unsorted_segment_prod, np.multiply, lambda dtype: 1),
}
SEGMENTS = [  # the shape, the ids, the number of segments
    ((5, 2), [0, 2, 0, 1, 2], 4),
    ((6,), [3, -1, 3, 9, 0, 3], 4),
    ((2, 3, 2), [[0, 1, 0], [2, 1, 0]], 3),
    ((300, 3), RNG.integers(-1, 7, 300), 6),
    ((3, 0), [0, 0, 1], 2),
    ((0, 2), np.zeros(0, np.int32), 3),
    ((3, 2), [0, 1, 0], 0),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int32"])
@pytest.mark.parametrize(("shape", "ids", "count"), SEGMENTS, ids=str)
@pytest.mark.parametrize("name", OPS)
def test_values(name, shape, ids, count, dtype, backend):
    require_dtypes(backend, dtype)
    op, ufunc, empty = OPS[name]
    factor = RNG.choice([-1, 1], shape) if name == "prod" else 9
    x = (RNG.uniform(0.97, 1.03, shape) * factor).astype(dtype)
    if name != "prod":
        x = (RNG.normal(size=shape) * 5).astype(dtype)
    ids = np.asarray(ids)
    for id_type in ("int32", "int64"):
        y = op(pg.asarray(x), ids.astype(id_type), count)
        expected = reduced(ufunc, x, ids, count, empty(dtype))
        assert (y.dtype, y.shape) == (np.dtype(dtype), expected.shape)
        rtol = {"float16": 2e-2, "float32": 1e-5}.get(dtype, 1e-12)
        np.testing.assert_allclose(
            y.numpy(), expected, rtol=rtol if name == "prod" else 0
        )


SMOOTH = [row for row in SEGMENTS if np.prod(row[0]) < 100]


@pytest.mark.parametrize(("shape", "ids", "count"), SMOOTH, ids=str)
@pytest.mark.parametrize("name", OPS)
def test_gradients(name, shape, ids, count, backend):
    op = OPS[name][0]
    inner = lambda x: pg.tanh(op(x, ids, count))
    check_gradients(inner, np.random.default_rng(1).normal(size=shape))


def test_ties_share_the_gradient(backend):
    x = pg.asarray([3.0, 3.0, 1.0, -2.0, -2.0, 7.0])
    ids = [0, 0, 0, 1, 1, 5]
    for op, sign in ((pg.unsorted_segment_max, 1), (pg.unsorted_segment_min, -1)):
        f = lambda x, op=op: pg.sum(op(x, ids, 3) * [1.0, 2.0, 3.0])
        dx = pg.grad(f)(x * sign)
        assert dx.tolist() == [0.5, 0.5, 0, 1, 1, 0]


def test_the_gradient_of_a_product_with_zeros(backend):
    x = pg.asarray([0.0, 2.0, 3.0, 0.0, 0.0, 4.0, INF])
    f = lambda x: pg.sum(pg.unsorted_segment_prod(x, [0, 0, 0, 1, 1, 1, -1], 2))
    assert pg.grad(f)(x).tolist() == [6, 0, 0, 0, 0, 0, 0]


def test_nan_and_inf_stay_in_their_segment(backend):
    x = pg.asarray([NAN, 1.0, -INF, INF, NAN])
    for op, expected in (
        (pg.unsorted_segment_max, [NAN, 1, -INF]),
        (pg.unsorted_segment_min, [NAN, 1, -INF]),
        (pg.unsorted_segment_prod, [NAN, 1, -INF]),
    ):
        y = op(x, [0, 1, 2, 3, -1], 3)
        np.testing.assert_array_equal(y.numpy(), expected)
        dx = pg.grad(lambda x, op=op: op(x, [0, 1, 2, 3, -1], 3)[1])(x)
        assert dx.tolist() == [0, 1, 0, 0, 0]


def test_bool(backend):
    x, ids = pg.asarray([True, False, True]), [0, 0, 1]
    for op, expected in (
        (pg.unsorted_segment_max, [True, True, False]),
        (pg.unsorted_segment_min, [False, True, True]),
        (pg.unsorted_segment_prod, [0, 1, 1]),
    ):
        y = op(x, ids, 3)
        assert y.tolist() == expected
        assert y.dtype == (np.int32 if op is pg.unsorted_segment_prod else bool)


def test_vmap_and_jit(backend):
    x = RNG.normal(size=(3, 5)).astype(np.float32)
    for op, *_ in OPS.values():
        f = lambda x, op=op: op(x, [0, 1, 0, 2, 1], 3)
        expected = np.stack([f(pg.asarray(row)).numpy() for row in x])
        np.testing.assert_allclose(pg.vmap(f)(pg.asarray(x)).numpy(), expected)
        jitted = pg.jit(f)
        for row, y in zip(x, expected, strict=True):
            np.testing.assert_array_equal(jitted(pg.asarray(row)).numpy(), y)


X = np.ones((2, 3), np.float32)
ERRORS = [
    (lambda f: f(X, [0], 2), ValueError, "must have the first axes"),
    (lambda f: f(X, 0, 2), ValueError, "must have the first axes"),
    (lambda f: f(X, [0, 1], -1), ValueError, "num_segments -1 must be 0 or"),
    (lambda f: f(X, [0, 1], 2.5), TypeError, "num_segments must be"),
    (lambda f: f(X, [0.0, 1.0], 2), TypeError, "segment_ids must be integers"),
    (lambda f: f(["a", "b"], [0, 1], 2), TypeError, "there is no .* of strings"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
@pytest.mark.parametrize("name", OPS)
def test_errors(name, call, error, message, backend):
    with pytest.raises(error, match=f"unsorted_segment_{name}: .*{message}"):
        call(OPS[name][0])


def test_complex_numbers(backend):
    with pytest.raises(TypeError, match="complex numbers have no order"):
        pg.unsorted_segment_max([1j], [0], 1)
    require_dtypes(backend, "complex64")
    assert pg.unsorted_segment_prod([1j, 2j], [0, 0], 1).tolist() == [-2]


def test_ids_that_change_after_the_run(backend):
    """The gradient uses the values that a NumPy array had when the op ran."""
    x = pg.asarray(np.arange(6, dtype=np.float32).reshape(3, 2))
    dy = pg.asarray(np.arange(6, dtype=np.float32).reshape(3, 2))
    found = []
    for is_changed in (False, True):
        ids = np.array([2, 1, 2], np.int32)
        sums = lambda x, ids=ids: pg.unsorted_segment_sum(x, ids, 3)
        _, pull = pg.vjp(sums, x)
        if is_changed:
            ids[...] = 0
        found.append(pull(dy)[0].tolist())
    assert found[0] == found[1]
