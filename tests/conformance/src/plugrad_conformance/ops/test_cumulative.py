"""Cumulative sums and products, differences, counting, moving averages."""

import numpy as np
import plugrad as pg
import pytest

from ..check import check_gradients
from .moves import decomposed
from .test_conv import require_dtypes

RNG = np.random.default_rng(0)
WIDE = {"bool": "int32", "int8": "int32", "int16": "int32", "uint8": "uint32"}
DTYPES = [*WIDE, "int32", "int64", "uint32", "float16", "float32", "float64"]
DTYPES += ["complex64", "complex128"]
SHAPES = [(1,), (6,), (2, 5), (3, 4, 2), (0,), (3, 0), (0, 2)]
OPS = {"sum": pg.cumulative_sum, "prod": pg.cumulative_prod}
TOLERANCE = {"float16": 2e-3, "float64": 1e-12, "complex128": 1e-12}


def accumulated(name, x, axis, exclusive=False, reverse=False, include_initial=False):
    """Return NumPy's result in the dtype that the contract states."""
    x = x.astype(WIDE.get(str(x.dtype), x.dtype))
    ufunc = {"sum": np.add, "prod": np.multiply}[name]
    x = np.flip(x, axis) if reverse else x
    y = ufunc.accumulate(x, axis, np.complex128 if x.dtype.kind == "c" else None)
    if exclusive or include_initial:
        initial = np.full((*x.shape[:axis], 1, *x.shape[axis + 1 :]), ufunc.identity)
        y = np.concatenate([initial, y], axis)
        n = x.shape[axis]
        y = np.take(y, np.arange(n), axis) if exclusive else y
    y = np.flip(y, axis) if reverse else y
    return y.astype(x.dtype)


OPTION_SETS = [
    {},
    {"exclusive": True},
    {"reverse": True},
    {"exclusive": True, "reverse": True},
    {"include_initial": True},
    {"include_initial": True, "reverse": True},
]


def check_values(name, dtype, how):
    for shape in SHAPES:
        x = RNG.integers(0, 4, size=shape).astype(dtype)
        if x.dtype.kind in "fc":
            x = RNG.uniform(0.5, 1.5, size=shape).astype(dtype)
        for axis in range(len(shape)):
            with pg.debug(finite=False):
                y = OPS[name](x, axis=axis, **how).numpy()
            expected = accumulated(name, x, axis, **how)
            rtol = TOLERANCE.get(dtype, 1e-6) if x.dtype.kind in "fc" else 0
            np.testing.assert_allclose(y, expected, rtol=rtol, strict=True)


@pytest.mark.parametrize("how", OPTION_SETS, ids=str)
@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_values(name, dtype, how, backend):
    require_dtypes(backend, dtype, WIDE.get(dtype, dtype))
    check_values(name, dtype, how)


@pytest.mark.parametrize("how", OPTION_SETS, ids=str)
@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize(
    "dtype", ["int32", "uint32", "float16", "float32", "complex64"]
)
def test_the_decompositions_give_the_same(name, dtype, how):
    with decomposed("Cumsum", "Cumprod"):
        check_values(name, dtype, how)


def test_vectors_need_no_axis_and_dtype_casts_the_result(backend):
    assert pg.cumulative_sum([1, 2, 3]).tolist() == [1, 3, 6]
    y = pg.cumulative_prod([1, 2, 3], dtype="float32", axis=-1)
    assert (y.dtype, y.tolist()) == (np.float32, [1, 2, 6])
    x = pg.permute_dims(np.arange(6, dtype=np.float32).reshape(2, 3), (1, 0))
    y = pg.cumulative_sum(x, axis=0, exclusive=True)
    assert y.tolist() == [[0, 0], [0, 3], [1, 7]]
    assert x.tolist() == [[0, 3], [1, 4], [2, 5]]


def test_nan_and_infinities_affect_only_later_results(backend):
    x = np.asarray([1, np.inf, 2, -np.inf, 3], np.float32)
    y = pg.cumulative_sum(x).numpy()
    np.testing.assert_array_equal(y, [1, np.inf, np.inf, np.nan, np.nan])
    y = pg.cumulative_sum(x, exclusive=True, reverse=True).numpy()
    np.testing.assert_array_equal(y, [np.nan, -np.inf, -np.inf, 3, 0])
    y = pg.cumulative_prod([1.0, np.nan, 0.0]).numpy()
    np.testing.assert_array_equal(y, [1, np.nan, np.nan])


def test_a_long_sum_is_accurate(backend):
    x = RNG.random(200_000, dtype=np.float32)
    expected = np.cumsum(x, dtype=np.float64)
    np.testing.assert_allclose(pg.cumulative_sum(x).numpy(), expected, rtol=3e-7)
    with decomposed("Cumsum"):
        np.testing.assert_allclose(pg.cumulative_sum(x).numpy(), expected, rtol=1e-6)


X = RNG.normal(size=(2, 3, 4))


@pytest.mark.parametrize("how", OPTION_SETS, ids=str)
@pytest.mark.parametrize("name", OPS)
def test_gradients(name, how, backend):
    require_dtypes(backend, "float64")
    for axis in (0, 1, -1):
        f = lambda x, axis=axis: OPS[name](x, axis=axis, **how)
        check_gradients(lambda x, f=f: pg.square(f(x)), X)


@pytest.mark.parametrize("how", OPTION_SETS[:4], ids=str)
def test_the_gradient_of_a_product_with_zeros(how, backend):
    require_dtypes(backend, "float64")
    x = np.asarray([[0.0, 2, 3, 4], [2, 0, 0, 3], [1, 2, 3, 0]])
    check_gradients(lambda x: pg.cumulative_prod(x, axis=1, **how), x)
    dx = pg.grad(lambda x: pg.cumulative_prod(x)[2])(pg.asarray([0.0, 2.0, 3.0]))
    assert dx.tolist() == [6, 0, 0]


def test_gradients_of_empty_arrays(backend):
    for op in OPS.values():
        f = lambda x, op=op: pg.sum(op(x, axis=1))
        assert pg.grad(f)(pg.asarray(np.empty((2, 0), np.float32))).shape == (2, 0)


# --- differences -----------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32", "float64", "complex64"])
def test_diff(dtype, backend):
    require_dtypes(backend, dtype)
    x = RNG.integers(0, 9, size=(3, 5)).astype(dtype)
    for axis in (0, 1, -1):
        for n in (0, 1, 2, 5, 9):
            y = pg.diff(x, axis=axis, n=n).numpy()
            np.testing.assert_array_equal(y, np.diff(x, n, axis), strict=True)
            np.testing.assert_array_equal(y, pg.diff(x, n, axis).numpy())
        ends = {"prepend": x, "append": x[:, :5][:3]}
        y = pg.diff(x, axis=axis, **ends).numpy()
        np.testing.assert_array_equal(y, np.diff(x, axis=axis, **ends), strict=True)
    assert pg.diff(np.empty((2, 0), np.float32)).shape == (2, 0)
    assert pg.diff([1, 4], prepend=[0.5]).tolist() == [0.5, 3]


def test_diff_taken_0_times(backend):
    """The result is the tensor itself; ``prepend`` and ``append`` are ignored."""
    x = np.asarray([[1, 4]], np.int32)
    ends = np.asarray([[0.5]], np.float32)
    for given in ({}, {"prepend": ends}, {"append": ends, "axis": 0}):
        y = pg.diff(x, n=0, **given).numpy()
        np.testing.assert_array_equal(y, np.diff(x, n=0, **given), strict=True)
    dx = pg.grad(lambda x: pg.sum(pg.diff(x, n=0, prepend=ends)))(ends * 3)
    assert dx.tolist() == [[1]]


def test_gradients_of_diff(backend):
    require_dtypes(backend, "float64")
    check_gradients(lambda x: pg.square(pg.diff(x, axis=1, n=2)), X)
    both = lambda x, p: pg.square(pg.diff(x, axis=0, prepend=p))
    check_gradients(both, X, X[:1] + 1)


# --- counting --------------------------------------------------------------------

IDS = np.asarray([[1, 3, -1, 3], [0, 7, 1, 2]])
WEIGHTS = [
    "bool",
    "int8",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex64",
]


def counted(x, weights, size):
    """Count the elements one by one."""
    dtype = np.int32 if weights is None or weights.dtype == bool else weights.dtype
    y = np.zeros(size, dtype)
    for i, n in enumerate(x.ravel()):
        if 0 <= n < size:
            y[n] += 1 if weights is None else weights.ravel()[i]
    return y


def check_counts(weights):
    for ids in (IDS, IDS[:, :0], IDS.astype(np.uint8) % 5):
        given = None if weights is None else weights[:, : ids.shape[1]]
        for size in (0, 1, 4, 9):
            y = pg.bincount(ids, weights=given, size=size).numpy()
            rows = pg.dense_bincount(ids, weights=given, size=size).numpy()
            expected = counted(ids, given, size)
            np.testing.assert_allclose(y, expected, rtol=1e-3, strict=True)
            for i, row in enumerate(rows):
                expected = counted(ids[i], None if given is None else given[i], size)
                np.testing.assert_allclose(row, expected, rtol=1e-3, strict=True)
            options = {"weights": given, "size": size, "binary_output": True}
            binary = pg.dense_bincount(ids, **options).numpy()
            expected = [[n in row for n in range(size)] for row in ids]
            expected = np.asarray(expected, bool).reshape(binary.shape)
            np.testing.assert_array_equal(
                binary, expected.astype(rows.dtype), strict=True
            )


@pytest.mark.parametrize("dtype", [None, *WEIGHTS])
def test_counts(dtype, backend):
    require_dtypes(backend, dtype or "int32")
    check_counts(dtype and RNG.integers(0, 3, size=IDS.shape).astype(dtype))


@pytest.mark.parametrize("dtype", [None, *WEIGHTS])
def test_the_decompositions_count_the_same(dtype):
    with decomposed("Bincount", "DenseBincount"):
        check_counts(dtype and RNG.integers(0, 3, size=IDS.shape).astype(dtype))


def test_counts_of_rows_of_any_rank(backend):
    x = RNG.integers(0, 5, size=(2, 3, 7))
    y = pg.dense_bincount(x, size=5).numpy()
    np.testing.assert_array_equal(y, (x[..., None] == np.arange(5)).sum(-2))
    assert pg.dense_bincount([1, 1, 2], size=4).tolist() == [0, 2, 1, 0]
    assert pg.dense_bincount(x[:0], size=5).shape == (0, 3, 5)


def test_counts_up_to_the_greatest_id(backend):
    assert pg.bincount([1, 3, 1]).tolist() == [0, 2, 0, 1]
    assert pg.bincount([-3, -1]).tolist() == []
    assert pg.bincount([]).tolist() == []
    assert pg.bincount([1, 1], weights=[0.5, 0.25]).tolist() == [0, 0.75]


def test_the_minimum_number_of_counts(backend):
    for ids in ([1, 3, 1], [-3, -1], [0], []):
        for minlength in (0, 1, 4, 6):
            y = pg.bincount(ids, minlength=minlength).numpy()
            counted_ids = np.asarray([n for n in ids if n >= 0], int)
            np.testing.assert_array_equal(
                y, np.bincount(counted_ids, minlength=minlength)
            )
    y = pg.bincount([1, 1], weights=[0.5, 0.25], minlength=3)
    assert y.tolist() == [0, 0.75, 0]


def test_sums_of_many_weights_are_accurate(backend):
    w = RNG.random(100_000, dtype=np.float32)
    ids = RNG.integers(0, 3, size=w.size)
    y = pg.bincount(ids, weights=w, size=3).numpy()
    expected = np.bincount(ids, w.astype(np.float64))
    np.testing.assert_allclose(y, expected, rtol=3e-7)


def test_gradients_of_weights(backend):
    require_dtypes(backend, "float64")
    w = np.cos(np.arange(8.0)).reshape(2, 4)
    check_gradients(lambda w: pg.square(pg.bincount(IDS, weights=w, size=4)), w)
    check_gradients(lambda w: pg.square(pg.dense_bincount(IDS, weights=w, size=4)), w)
    binary = lambda w: pg.dense_bincount(IDS, weights=w, size=4, binary_output=True)
    f = lambda w: pg.sum(binary(w)) + pg.sum(w)
    assert (pg.grad(f)(pg.asarray(w)).numpy() == 1).all()


def test_confusion_matrix(backend):
    labels = [0, 1, 2, 1, 0, 5, 2]
    guesses = [0, 2, 1, 1, 0, 1, -1]
    y = pg.confusion_matrix(labels, guesses, 3)
    assert y.dtype == np.int32
    assert y.tolist() == [[2, 0, 0], [0, 1, 1], [0, 1, 0]]
    weights = pg.asarray([0.5, 1, 2, 3, 0.25, 9, 9])
    f = lambda w: pg.confusion_matrix(labels, guesses, 3, weights=w)
    assert f(weights).tolist() == [[0.75, 0, 0], [0, 3, 1], [0, 2, 0]]
    dw = pg.grad(f)(weights, dy=pg.asarray([[1.0, 2, 3], [4, 5, 6], [7, 8, 9]]))
    assert dw.tolist() == [1, 6, 8, 5, 1, 0, 0]
    assert pg.confusion_matrix([], [], 2).tolist() == [[0, 0], [0, 0]]
    far = pg.asarray([0, 2**31], dtype="int64")
    assert pg.confusion_matrix(far, [1, 1], 2).tolist() == [[0, 1], [0, 0]]


# --- moving averages -------------------------------------------------------------


def test_moving_average(backend):
    v = np.asarray([[0.0, 1.0]], np.float32)
    x = np.asarray([[1.0, 3.0]], np.float32)
    assert_close = lambda y, z: np.testing.assert_allclose(
        y.numpy(), z, rtol=1e-6, strict=True
    )
    assert_close(
        pg.moving_average(v, x, 0.6, zero_debias=False), v + (x - v) * np.float32(0.4)
    )
    expected = v + (x - v) * np.float32(0.4 / (1 - 0.6**2))
    for decay, step in [(0.6, 2), (np.float32(0.6), np.int32(2))]:
        assert_close(pg.moving_average(v, x, decay, step=step), expected)
        tensors = pg.asarray(decay), pg.asarray(step)
        assert_close(pg.moving_average(v, x, tensors[0], step=tensors[1]), expected)
    assert pg.moving_average([2], [4], 0.5, zero_debias=False).tolist() == [3.0]


def test_the_moving_average_of_equal_values_is_unbiased(backend):
    mean = pg.Variable(pg.zeros((2,)))
    for step in range(1, 5):
        mean.assign(pg.moving_average(mean, pg.asarray([3.0, -7.0]), 0.99, step=step))
        np.testing.assert_allclose(mean.numpy(), [3, -7], rtol=1e-5)


def test_gradients_of_a_moving_average(backend):
    require_dtypes(backend, "float64")
    f = lambda v, x, decay: pg.square(pg.moving_average(v, x, decay, step=3))
    check_gradients(f, X[0], X[1], np.asarray(0.8))


# --- errors ----------------------------------------------------------------------

ERRORS = [
    (
        lambda: pg.cumulative_sum(X),
        ValueError,
        "cumulative_sum: x of .* must have one axis",
    ),
    (
        lambda: pg.cumulative_sum(1.0),
        ValueError,
        r"x of shape \(\) must have one axis",
    ),
    (lambda: pg.cumulative_prod(X, axis=3), ValueError, "cumulative_prod: axis 3 is"),
    (lambda: pg.cumulative_sum([1], axis=0.5), TypeError, "axis must be an integer"),
    (
        lambda: pg.cumulative_sum([1], include_initial=True, exclusive=True),
        ValueError,
        "include_initial and exclusive are both True; use one",
    ),
    (lambda: pg.diff([True, False]), TypeError, "diff: is not defined for bool"),
    (lambda: pg.diff([1], n=-1), ValueError, "diff: n -1 must be 0 or more"),
    (lambda: pg.diff(1.0), ValueError, "diff: axis -1 is out of range for rank 0"),
    (lambda: pg.bincount([0.5]), TypeError, "bincount: x must be integers"),
    (lambda: pg.bincount([1], size=-2), ValueError, "bincount: size -2 must be 0"),
    (lambda: pg.bincount([1], minlength=-1), ValueError, "bincount: minlength -1 must"),
    (
        lambda: pg.bincount([1], size=2, minlength=3),
        ValueError,
        "bincount: size 2 and minlength 3 are mutually exclusive",
    ),
    (lambda: pg.bincount([1], size=1.5), TypeError, "bincount: size must be an int"),
    (
        lambda: pg.bincount([1, 2], weights=[1.0]),
        ValueError,
        r"bincount: weights \(1,\) must have the shape of x, \(2,\)",
    ),
    (lambda: pg.dense_bincount(1, size=2), ValueError, "dense_bincount: x has no axes"),
    (lambda: pg.dense_bincount([0.5], size=2), TypeError, "dense_bincount: x must be"),
    (
        lambda: pg.dense_bincount([[1]], size=2, weights=[1.0]),
        ValueError,
        "dense_bincount: weights",
    ),
    (
        lambda: pg.confusion_matrix([[1]], [1], 2),
        ValueError,
        r"confusion_matrix: labels and .* have one axis .* \(1, 1\) and \(1,\)",
    ),
    (lambda: pg.confusion_matrix([1, 0], [1], 2), ValueError, "of the same size"),
    (lambda: pg.confusion_matrix([1.0], [1], 2), TypeError, "labels must be integers"),
    (lambda: pg.confusion_matrix([1], [1], -2), ValueError, r"num_classes \(-2, -2\)"),
    (
        lambda: pg.confusion_matrix([1], [1], 2, weights=[1.0, 2.0]),
        ValueError,
        "confusion_matrix: weights",
    ),
    (
        lambda: pg.moving_average([1.0], [1.0, 2.0], 0.5, step=1),
        ValueError,
        r"moving_average: v and x must have the same shape; got .* \(2,\)",
    ),
    (
        lambda: pg.moving_average([[1.0, 2.0]], [[1.0], [2.0]], 0.5, step=1),
        ValueError,
        r"moving_average: v and x .* got shapes \(1, 2\) and \(2, 1\)",
    ),
    (
        lambda: pg.moving_average([1.0], [1.0], 0.5),
        ValueError,
        "zero_debias needs step",
    ),
    (
        lambda: pg.moving_average({}, [1.0], 0.5, step=1),
        TypeError,
        "asarray: cannot make a tensor of dict",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call, error, message, backend):
    with pytest.raises(error, match=message):
        call()
