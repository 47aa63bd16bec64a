"""Cumulative maxima, minima and logsumexp: values, ties, gradients, errors."""

import numpy as np
import plugrad as pg
import pytest

from ..check import check_gradients, require_dtypes

NAN, INF = np.nan, np.inf
EXTREMES = {
    "max": (pg.cumulative_max, np.maximum),
    "min": (pg.cumulative_min, np.minimum),
}
OPS = [op for op, _ in EXTREMES.values()]
by_name = {"ids": lambda f: f.__name__}
X = np.random.default_rng(0).integers(-3, 4, (3, 7, 2))  # with ties


def flipped(x, axis, reverse):
    return np.flip(x, axis) if reverse else x


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "int8", "int32", "uint64", "bool"]
)
@pytest.mark.parametrize("name", EXTREMES)
def test_extremes(name, dtype, axis, reverse, backend):
    require_dtypes(backend, dtype)
    op, reference = EXTREMES[name]
    x = X.astype(dtype)
    y, indices = op(x, axis, reverse=reverse)
    expected = flipped(
        reference.accumulate(flipped(x, axis, reverse), axis), axis, reverse
    )
    np.testing.assert_array_equal(y.numpy(), expected, strict=True)
    assert (indices.dtype, indices.shape) == (np.int32, x.shape)
    np.testing.assert_array_equal(
        np.take_along_axis(x, indices.numpy(), axis), expected
    )


EXAMPLES = [  # x, maxima, their indices, minima, their indices
    ([1, 3, 2, 3, 5], [1, 3, 3, 3, 5], [0, 1, 1, 3, 4], [1] * 5, [0] * 5),
    ([2, 2, 1], [2, 2, 2], [0, 1, 1], [2, 2, 1], [0, 1, 2]),
    (
        [1, NAN, 3, NAN],
        [1, NAN, NAN, NAN],
        [0, 1, 1, 3],
        [1, NAN, NAN, NAN],
        [0, 1, 1, 3],
    ),
    ([-INF, -INF, INF], [-INF, -INF, INF], [0, 1, 2], [-INF] * 3, [0, 1, 1]),
    ([7], [7], [0], [7], [0]),
]


@pytest.mark.parametrize(("x", "maxima", "argmaxima", "minima", "argminima"), EXAMPLES)
def test_ties_and_nan(x, maxima, argmaxima, minima, argminima, backend):
    for op, values, indices in (
        (OPS[0], maxima, argmaxima),
        (OPS[1], minima, argminima),
    ):
        y, i = op(pg.asarray(x, dtype="float32"))
        np.testing.assert_array_equal(y.numpy(), values)
        assert i.tolist() == indices


def test_reverse_counts_indices_from_the_start(backend):
    y, indices = pg.cumulative_max([3, 1, 3, 2], reverse=True)
    assert (y.tolist(), indices.tolist()) == ([3, 3, 3, 2], [0, 2, 2, 3])


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint64"])
def test_limits_of_integer_dtypes(dtype, backend):
    require_dtypes(backend, dtype)
    low = np.iinfo(dtype).min
    high = np.iinfo(dtype).max
    x = np.asarray([low, low + 1, high - 1, high, low], dtype)
    assert pg.cumulative_max(x)[0].tolist() == [low, low + 1, high - 1, high, high]
    assert pg.cumulative_min(x[::-1])[0].tolist() == [low] * 5


@pytest.mark.parametrize("op", OPS, **by_name)
@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3)])
def test_empty_arrays(op, shape, backend):
    y, indices = op(np.zeros(shape, np.float32), -1)
    assert y.shape == indices.shape == shape
    assert pg.cumulative_logsumexp(np.zeros(shape, np.float32), -1).shape == shape


def test_the_cotangent_goes_to_the_element_at_the_index(backend):
    x = pg.asarray([2.0, 2.0, 1.0, NAN, 4.0])
    w = pg.asarray([1.0, 10.0, 100.0, 1000.0, 10000.0])
    slope = lambda op: pg.grad(lambda x: pg.sum(op(x)[0] * w))(x).tolist()
    assert slope(pg.cumulative_max) == [1, 110, 0, 11000, 0]
    assert slope(pg.cumulative_min) == [1, 10, 100, 11000, 0]


@pytest.mark.parametrize("op", OPS, **by_name)
def test_gradients_of_extremes(op, backend):
    x = np.random.default_rng(1).normal(size=(3, 5))
    for axis, reverse in ((0, False), (1, True)):
        f = lambda x, axis=axis, reverse=reverse: op(x, axis, reverse=reverse)[0]
        check_gradients(lambda x, f=f: f(x) * x, x)


# --- logsumexp -------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
def test_logsumexp(dtype, axis, reverse, backend):
    require_dtypes(backend, dtype)
    x = (np.random.default_rng(2).normal(size=(4, 9)) * 40).astype(dtype)
    y = pg.cumulative_logsumexp(x, axis, reverse=reverse)
    wide = flipped(x.astype(float), axis, reverse)
    expected = flipped(np.logaddexp.accumulate(wide, axis), axis, reverse)
    rtol = {"float16": 1e-3, "float64": 1e-13}.get(dtype, 1e-6)
    np.testing.assert_allclose(y.numpy(), expected, rtol=rtol)
    assert y.dtype == (dtype if dtype[0] == "f" else np.float32)


SUMS = [
    ([1000.0, 1000.0], [1000.0, 1000 + np.log(2)]),
    ([-INF, -INF, 2.0, -INF], [-INF, -INF, 2.0, 2.0]),
    ([1.0, INF, 2.0], [1.0, INF, INF]),
    ([1.0, NAN, INF], [1.0, NAN, NAN]),
]


@pytest.mark.parametrize(("x", "expected"), SUMS)
def test_logsumexp_of_infinite_numbers(x, expected, backend):
    np.testing.assert_allclose(pg.cumulative_logsumexp(x).numpy(), expected, rtol=1e-6)


def test_logsumexp_of_a_long_vector(backend):
    x = np.zeros(70_000, np.float32)
    np.testing.assert_allclose(
        pg.cumulative_logsumexp(x).numpy(), np.log(np.arange(1, 70_001)), rtol=2e-6
    )


def test_gradients_of_logsumexp(backend):
    x = np.random.default_rng(3).normal(size=(3, 5))
    for reverse in (False, True):
        check_gradients(
            lambda x, r=reverse: pg.cumulative_logsumexp(x, 1, reverse=r), x
        )
    f = lambda x: pg.sum(pg.cumulative_logsumexp(x) * [1.0, 10.0, 100.0])
    assert pg.grad(f)(pg.asarray([-INF, 1.0, -INF])).tolist() == [1, 110, 0]


# --- errors, and transformations -------------------------------------------------


def test_under_jit_and_vmap(backend):
    x = pg.asarray(X[:, :, 0].astype(np.float32))
    for op in (*OPS, lambda *args: (pg.cumulative_logsumexp(*args),)):
        expected = [y.numpy() for y in op(x, 1)]
        f = pg.jit(lambda x, op=op: op(x, 1))
        for found in (f(x), f(x), f(x), pg.vmap(op)(x)):
            for y, right in zip(found, expected, strict=True):
                np.testing.assert_array_equal(y.numpy(), right)


ERRORS = [
    (
        lambda: pg.cumulative_max(np.ones((2, 2))),
        ValueError,
        "must have one axis; give",
    ),
    (lambda: pg.cumulative_min(2.0), ValueError, r"x of shape \(\) must have one axis"),
    (lambda: pg.cumulative_max([1.0], 1), ValueError, "cumulative_max: axis 1 is out"),
    (
        lambda: pg.cumulative_max([1j]),
        TypeError,
        "cumulative_max: complex numbers have",
    ),
    (lambda: pg.cumulative_min(["a"]), TypeError, "cumulative_min: .* strings"),
    (lambda: pg.cumulative_max([1.0], reverse=2), TypeError, "reverse must be True or"),
    (
        lambda: pg.cumulative_logsumexp([1j]),
        TypeError,
        "cumulative_logsumexp: .*complex",
    ),
    (lambda: pg.cumulative_logsumexp(1.0), ValueError, "must have one axis; give axis"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call, error, message, backend):
    with pytest.raises(error, match=message):
        call()
