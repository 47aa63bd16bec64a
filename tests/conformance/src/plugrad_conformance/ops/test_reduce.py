"""Reductions, one row per op: values, dtypes, gradients, and decompositions."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import plugrad as pg
import pytest

from ..check import check_gradients, require_dtypes
from ..toy import toy

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 3, 4))
AXES = [None, 1, -1, (0, -1), (2, 0, 1), ()]


def logsumexp(x, axis, keepdims):
    with np.errstate(all="ignore"):
        return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))


def unbiased(x, **options):
    return pg.var(x, correction=1, **options)


@dataclass(frozen=True)
class Reduction:
    op: Callable[..., pg.Tensor]
    reference: Callable[..., np.ndarray]
    # The dtype of the result for int32, for int8, for bool and for floating numbers;
    # None: the dtype of the numbers.
    integer: str = "int32"
    small: str = "int32"
    bool: str = "int32"
    float: str | None = None
    of_empty: object = None  # the result of an empty reduction; None: an error


CASES = [
    Reduction(pg.sum, np.sum, of_empty=0),
    Reduction(pg.prod, np.prod, of_empty=1),
    Reduction(pg.mean, np.mean, "float32", "float32", "float32", of_empty=np.nan),
    Reduction(pg.max, np.max, "int32", "int8", "bool"),
    Reduction(pg.min, np.min, "int32", "int8", "bool"),
    Reduction(pg.var, np.var, "float32", "float32", "float32", of_empty=np.nan),
    Reduction(pg.std, np.std, "float32", "float32", "float32", of_empty=np.nan),
    Reduction(
        unbiased,
        lambda x, **options: np.var(x, ddof=1, **options),
        *("float32", "float32", "float32"),
        of_empty=np.nan,
    ),
    Reduction(pg.logsumexp, logsumexp, *("float32",) * 3, of_empty=-np.inf),
    Reduction(pg.all, np.all, "bool", "bool", "bool", "bool", of_empty=True),
    Reduction(pg.any, np.any, "bool", "bool", "bool", "bool", of_empty=False),
    Reduction(
        pg.count_nonzero,
        lambda x, **options: np.asarray(np.count_nonzero(x, **options)),
        *("int32", "int32", "int32", "int32"),
        of_empty=0,
    ),
    Reduction(
        lambda x, **options: pg.moments(x, **options)[0],
        np.mean,
        *("float32", "float32", "float32"),
        of_empty=np.nan,
    ),
    Reduction(
        lambda x, **options: pg.moments(x, **options)[1],
        np.var,
        *("float32", "float32", "float32"),
        of_empty=np.nan,
    ),
]
IDS = [
    *[
        "sum",
        "prod",
        "mean",
        "max",
        "min",
        "var",
        "std",
        "unbiased",
        "logsumexp",
        "all",
        "any",
    ]
]
IDS += ["count_nonzero", "moments-0", "moments-1"]
SMOOTH = ["sum", "prod", "mean", "max", "min", "var", "std", "logsumexp"]


@pytest.fixture(params=CASES, ids=IDS)
def case(request):
    return request.param


# --- values ----------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # for ddof
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool"])
def test_values(case, dtype, axis, keepdims, backend):
    require_dtypes(backend, dtype)
    x = X > 0.3 if dtype == "bool" else (X * 3).astype(dtype)
    y = case.op(pg.asarray(x), axis=axis, keepdims=keepdims)
    expected = case.reference(x, axis=axis, keepdims=keepdims)
    if dtype in ("int32", "bool") and y.dtype == np.float32:
        expected = case.reference(x.astype(np.float32), axis=axis, keepdims=keepdims)
    assert y.shape == expected.shape
    rtol = 1e-12 if dtype == "float64" else 2e-6
    np.testing.assert_allclose(y.numpy(), expected, rtol=rtol, atol=rtol)
    result_dtype = {"int32": case.integer, "bool": case.bool}.get(
        dtype, case.float or dtype
    )
    assert y.dtype == np.dtype(result_dtype)


def test_small_integers(case, backend):
    require_dtypes(backend, "int8")
    x = np.full((2, 200), 100, np.int8)
    y = case.op(pg.asarray(x), axis=1)
    assert y.dtype == np.dtype(case.small)
    if case.op is pg.sum:
        assert y.tolist() == [20000, 20000]
    else:
        wide = x.astype(np.int32 if case.op is pg.prod else np.float64)
        expected = case.reference(wide, axis=1, keepdims=False)
        if case.op is pg.prod:
            expected = np.multiply.reduce(wide, 1, np.int32)
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("op", [pg.sum, pg.prod], ids=lambda f: f.__name__)
def test_unsigned_integers_and_a_given_dtype(op, backend):
    require_dtypes(backend, "uint8", "uint64", "int16", "float64")
    x = pg.asarray(np.asarray([200, 200], np.uint8))
    assert (op(x).item(), op(x).dtype) == (op([200, 200]).item(), np.uint32)
    assert op(x, dtype="float64").dtype == np.float64
    assert op(pg.asarray([2**33, 1], dtype="uint64")).dtype == np.uint64
    assert op(pg.asarray([3, 2], dtype="int16"), dtype="int16").dtype == np.int16


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)], ids=str)
def test_empty_tensors(case, shape, backend):
    x = pg.asarray(np.empty(shape, np.float32))
    axis = shape.index(0)
    other_sizes = tuple(n for n in shape if n)
    if case.of_empty is None:
        with pytest.raises(
            ValueError, match=r"m..: cannot reduce axis .* without elements; got shape"
        ):
            case.op(x, axis=axis)
    else:
        y = case.op(x, axis=axis)
        np.testing.assert_array_equal(y.numpy(), np.full(other_sizes, case.of_empty))
    if len(shape) == 2:  # no error, because the result is empty
        assert case.op(x, axis=1 - axis).shape == (0,)


INITIAL = [  # x, axis, initial, the maximum, the minimum
    (np.zeros((2, 0), "f"), 1, np.inf, [np.inf, np.inf], [np.inf, np.inf]),
    (np.zeros((0, 2), "u1"), 0, 255, [255, 255], [255, 255]),
    (np.zeros((0, 3, 0), "i4"), (0, 2), -5, [-5, -5, -5], [-5, -5, -5]),
    (np.float32([[1, 5], [3, 4]]), 0, 4, [4, 5], [1, 4]),
    (np.float32([[1, np.nan]]), 0, 4, [4, np.nan], [1, np.nan]),
    (np.int8([[1, -5]]), None, 0, 1, -5),
    (np.zeros((0,), bool), 0, True, True, True),
    (np.array([False, False]), 0, True, True, False),
]


@pytest.mark.parametrize(
    ("x", "axis", "initial", "largest", "smallest"), INITIAL, ids=str
)
def test_initial_counts_as_one_more_element(
    x, axis, initial, largest, smallest, backend
):
    for op, expected in ((pg.max, largest), (pg.min, smallest)):
        y = op(pg.asarray(x), axis=axis, initial=initial)
        expected = np.asarray(expected, x.dtype)
        np.testing.assert_array_equal(y.numpy(), expected, strict=True)
        y = op(pg.asarray(x), axis=axis, initial=initial, keepdims=True)
        assert y.shape == np.sum(x, axis=axis, keepdims=True).shape


def test_initial_shares_the_gradient(backend):
    f = lambda x: pg.sum(pg.max(x, axis=1, initial=2.0))
    dx = pg.grad(f)(pg.asarray([[1.0, 2.0], [3.0, 3.0], [0.0, 1.0]]))
    assert dx.tolist() == [[0, 1], [0.5, 0.5], [0, 0]]
    assert pg.grad(f)(pg.zeros((3, 0))).shape == (3, 0)


def test_a_scalar(case, backend):
    y = case.op(pg.asarray(2.0), keepdims=True)
    if case.op is unbiased:
        assert np.isnan(y.item())
    else:
        expected = case.reference(np.asarray(2.0), axis=None, keepdims=True)
        np.testing.assert_allclose(y.item(), expected, rtol=1e-6)
    assert y.shape == ()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # for inf - inf
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_inf(case, bad, backend):
    x = np.asarray([[1, bad, 2], [1, 2, 3]], np.float32)
    expected = case.reference(x, axis=1, keepdims=False)
    y = case.op(pg.asarray(x), axis=1)
    np.testing.assert_allclose(y.numpy(), expected, rtol=2e-6)


LAYOUTS = {
    "rows": lambda: (RNG.random((3000, 4)), 0),
    "few long rows": lambda: (RNG.random((70, 900)), 0),
    "columns": lambda: (RNG.random((3000, 7)), 1),
    "middle": lambda: (RNG.random((5, 211, 6)), 1),
    "image": lambda: (RNG.random((3, 23, 25, 5)), (0, 1, 2)),
    "both ends": lambda: (RNG.random((50, 30, 10)), (0, 2)),
    "all": lambda: (RNG.random((50, 30, 10)), None),
    "transposed": lambda: (RNG.random((90, 70)).T, 0),
    "steps": lambda: (RNG.random((4000, 6))[::2, ::3], 0),
    "repeated": lambda: (np.broadcast_to(RNG.random((90, 1)), (90, 70)), 1),
}
REFERENCES = [(pg.sum, np.sum), (pg.max, np.max), (pg.min, np.min), (pg.mean, np.mean)]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("op", "reference"), REFERENCES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_layouts(op, reference, dtype, layout, backend):
    require_dtypes(backend, dtype)
    array, axis = LAYOUTS[layout]()
    x = (array * 100).astype(dtype)
    y = op(pg.asarray(x, copy=False), axis=axis)
    expected = reference(x.astype(np.float64), axis=axis)
    exact = reference in (np.max, np.min) or (dtype == "int32" and op is pg.sum)
    np.testing.assert_allclose(y.numpy(), expected, rtol=0 if exact else 1e-6)


def test_a_product_of_many_factors(backend):
    x = RNG.uniform(0.9, 1.1, size=(300, 11)).astype(np.float32)
    expected = np.prod(x.astype(np.float64), axis=0)
    np.testing.assert_allclose(pg.prod(x, axis=0).numpy(), expected, rtol=3e-5)


@pytest.mark.parametrize("shape", [(10**6, 1), (1, 10**6), (10**5, 10), (10, 10**5)])
def test_a_long_sum_is_accurate_along_any_axis(shape, backend):
    x = RNG.random(shape, dtype=np.float32)
    for axis in (0, 1):
        expected = x.sum(axis, dtype=np.float64)
        np.testing.assert_allclose(pg.sum(x, axis=axis).numpy(), expected, rtol=5e-7)


def test_float16_is_summed_in_float32(backend):
    require_dtypes(backend, "float16")
    x = np.full((3000,), 1.001, np.float16)
    assert pg.sum(x).item() == np.float16(x.astype(np.float64).sum())
    assert pg.mean(x).item() == x[0]
    assert pg.var(pg.asarray([300, -300], dtype="float16")).dtype == np.float16
    # a mean may be of 70,000 elements, although float16 cannot represent this count
    assert pg.mean(pg.ones((70_000,), dtype="float16")).item() == 1
    assert pg.logsumexp(pg.zeros((70_000,), dtype="float16")).item() == 11.15625


def test_the_variance_does_not_cancel(backend):
    x = np.asarray([1e4, 1e4 + 1, 1e4 + 2], np.float32)
    np.testing.assert_allclose(pg.var(x).item(), 2 / 3, rtol=1e-6)


LARGE = [
    ([1000.0, 1000.0], 1000 + np.log(2)),
    ([-1000.0], -1000.0),
    ([-np.inf], -np.inf),
]


@pytest.mark.parametrize(("x", "expected"), LARGE)
def test_logsumexp_does_not_overflow(x, expected, backend):
    np.testing.assert_allclose(pg.logsumexp(x).item(), expected, rtol=1e-6)
    if np.isfinite(expected):
        assert pg.sum(pg.grad(pg.logsumexp)(pg.asarray(x))).item() == 1


def test_all_and_any_of_numbers(backend):
    assert pg.all([[1.0, np.nan], [0.0, 1.0]], axis=1).tolist() == [True, False]
    assert pg.any([[0, 0], [0, 2]], axis=1).tolist() == [False, True]


# --- argmax and argmin -----------------------------------------------------------

ARG_REDUCTIONS = [(pg.argmax, np.argmax), (pg.argmin, np.argmin)]


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "bool"])
@pytest.mark.parametrize(("op", "reference"), ARG_REDUCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_argmax_and_argmin(op, reference, axis, dtype, backend):
    require_dtypes(backend, dtype)
    x = RNG.integers(0, 5, size=(3, 4, 5)).astype(dtype)  # with ties
    for keepdims in (False, True):
        y = op(pg.asarray(x), axis=axis, keepdims=keepdims)
        expected = reference(x, axis=axis, keepdims=keepdims)
        np.testing.assert_array_equal(y.numpy(), expected)
        assert (y.dtype, y.shape) == (np.int32, expected.shape)


ARGMAX_WITH_NAN = [
    ([[0, 3, np.nan, 5]], 3, 0),
    ([[np.nan, -np.inf, -np.inf]], 1, 1),
    ([[np.nan, np.nan]], 0, 0),
    ([[1, 1, 0, 0]], 0, 2),
]


@pytest.mark.parametrize(("x", "largest", "smallest"), ARGMAX_WITH_NAN, ids=str)
def test_argmax_and_argmin_ignore_nan(x, largest, smallest, backend):
    assert pg.argmax(x, axis=1).tolist() == [largest]
    assert pg.argmin(x, axis=1).tolist() == [smallest]


def test_argmax_has_no_gradient(backend):
    f = lambda x: pg.sum(x) + pg.astype(pg.argmax(x), "float32") * 2
    assert pg.grad(f)(pg.asarray([1.0, 3.0])).tolist() == [1.0, 1.0]


# --- gradients -------------------------------------------------------------------


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 1, (0, -1), ()], ids=str)
@pytest.mark.parametrize("name", SMOOTH)
def test_gradients(name, axis, keepdims, backend):
    require_dtypes(backend, "float64")
    if (name, axis) == ("std", ()):
        pytest.skip("std over no axis is 0, where it has no derivative")
    check_gradients(lambda x: getattr(pg, name)(x, axis=axis, keepdims=keepdims), X)


def test_gradients_of_an_empty_tensor(backend):
    x = pg.asarray(np.empty((0, 3), np.float32))
    for op in (pg.sum, pg.mean, pg.prod, pg.var):
        assert pg.grad(lambda x, op=op: pg.sum(op(x, axis=0)))(x).shape == (0, 3)


@pytest.mark.parametrize("op", [pg.max, pg.min], ids=lambda f: f.__name__)
def test_ties_share_the_gradient(op, backend):
    x = pg.asarray([[2.0, 3.0, 3.0], [2.0, 2.0, 3.0]])
    dx = pg.grad(lambda x: pg.sum(op(x, axis=1)))(x).tolist()
    expected = {pg.max: [[0, 0.5, 0.5], [0, 0, 1]], pg.min: [[1, 0, 0], [0.5, 0.5, 0]]}
    assert dx == expected[op]


def test_the_gradient_of_a_product_with_zeros(backend):
    require_dtypes(backend, "float64")
    x = np.asarray([[0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [1.0, 2.0, 3.0]])
    dx = pg.grad(lambda x: pg.sum(pg.prod(x, axis=1)))(pg.asarray(x))
    assert dx.tolist() == [[6, 0, 0], [0, 0, 0], [6, 3, 2]]
    check_gradients(lambda x: pg.prod(x, axis=1), x)


def test_the_gradient_of_std_of_equal_elements_is_zero(backend):
    assert pg.grad(pg.std)(pg.asarray([1.0, 1.0])).tolist() == [0, 0]


def test_broadcasting_is_transposed_by_a_sum_to_the_shape(backend):
    require_dtypes(backend, "float64")
    for shape in ((3, 1), (1, 4), (4,), (), (1,), (2, 1, 1)):
        x = RNG.normal(size=shape)
        check_gradients(lambda x: pg.square(pg.broadcast_to(x, (2, 3, 4))), x)


# --- decompositions --------------------------------------------------------------

DTYPES = ["bool", "int8", "int32", "uint8", "uint32", "float16", "float32", "float64"]
KERNELS = ["All", "Any", "ArgMax", "ArgMin", "Mean", "Min", "Prod"]
ROWS = {
    "all": lambda x, axis: pg.all(x, axis=axis),
    "any": lambda x, axis: pg.any(x, axis=axis, keepdims=True),
    "argmax": lambda x, axis: pg.argmax(x, axis=axis),
    "argmin": lambda x, axis: pg.argmin(x, axis=axis),
    "mean": lambda x, axis: pg.mean(x, axis=axis),
    "min": lambda x, axis: pg.min(x, axis=axis, keepdims=True),
    "prod": lambda x, axis: pg.prod(x, axis=axis),
}
ARRAYS = {
    "float32": X.astype(np.float32),
    "float64": X,
    "float16": (X * 100).astype(np.float16),
    "int32": np.asarray([[-(2**31), 2**31 - 1, 0, 7], [3, 3, -1, -1]], np.int32),
    "uint8": np.asarray([[0, 255, 7], [3, 3, 0]], np.uint8),
    "bool": np.asarray([[True, False], [True, True], [False, False]]),
    "nan": np.asarray([[np.nan, 1, 2], [3, np.nan, np.nan]], np.float32),
    "empty": np.empty((3, 0), np.float32),
}


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("array", ARRAYS)
def test_decompositions(row, array):
    x = ARRAYS[array]
    for axis in (0, -1):
        if array == "empty" and row in ("min", "argmin", "argmax") and axis == -1:
            continue  # this is an error
        expected = ROWS[row](pg.asarray(x), axis)
        with toy(without=KERNELS, dtypes=DTYPES), pg.use_backend("toy"):
            y = ROWS[row](pg.asarray(x), axis)
        assert (y.dtype, y.shape) == (expected.dtype, expected.shape)
        rtol = {"float16": 2e-3, "float32": 1e-6}.get(str(y.dtype), 1e-12)
        np.testing.assert_allclose(y.numpy(), expected.numpy(), rtol=rtol)


# --- errors ----------------------------------------------------------------------

ERRORS = [
    (lambda x: pg.sum(x, axis=3), ValueError, "sum: axis 3 is out of range for rank 3"),
    (lambda x: pg.sum(x, axis=(0, -3)), ValueError, "names one axis twice"),
    (lambda x: pg.argmax(x, axis=(0, 1)), ValueError, "argmax: axis must be one int"),
    (lambda x: pg.argmax(pg.ones((0,))), ValueError, "argmax: .* without elements"),
    (lambda x: pg.max(pg.ones((0,))), ValueError, "max: .* without elements"),
    (lambda x: pg.max(1j), TypeError, "max: complex numbers have no order"),
    (
        lambda x: pg.max([1], initial=0.5),
        TypeError,
        "max: initial 0.5 does not fit into int32; cast x",
    ),
    (lambda x: pg.argmin(1j), TypeError, "argmin: complex numbers have no order"),
    (lambda x: pg.var(1j), TypeError, "var: there is no var of complex numbers"),
    (lambda x: pg.all(["a"]), TypeError, "all: there is no all of strings"),
    (lambda x: pg.any(["a"]), TypeError, "any: there is no any of strings"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call, error, message, backend):
    with pytest.raises(error, match=message):
        call(pg.asarray(X.astype(np.float32)))
