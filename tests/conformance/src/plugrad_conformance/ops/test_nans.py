"""Ops that ignore or replace NaN: values, ties, gradients, errors."""

import numpy as np
import plugrad as pg
import pytest

from ..check import check_gradients, require_dtypes

NAN, INF = np.nan, np.inf
SPECIAL = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 2.5]
by_name = {"ids": lambda f: f.__name__}

# --- replaced numbers ------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    "given",
    [{}, {"nan": 1.5, "posinf": 3, "neginf": -2.0}, {"posinf": NAN, "nan": INF}],
    ids=str,
)
def test_nan_to_num(dtype, given, backend):
    require_dtypes(backend, dtype)
    x = np.asarray(SPECIAL, dtype)
    y = pg.nan_to_num(x, **given).numpy()
    np.testing.assert_array_equal(y, np.nan_to_num(x, **given), strict=True)
    assert np.signbit(y[3:5]).tolist() == [False, True]


def test_nan_to_num_of_complex_numbers(backend):
    require_dtypes(backend, "complex64")
    z = np.asarray([complex(NAN, INF), complex(-INF, 2), 3 - 4j], np.complex64)
    y = pg.nan_to_num(z).numpy()
    np.testing.assert_array_equal(y, np.nan_to_num(z), strict=True)


def test_nan_to_num_of_integers(backend):
    for x in ([1, -2], [True, False]):
        y = pg.nan_to_num(x, nan=7)
        assert y.tolist() == x
        assert y.dtype == np.asarray(x, np.int32 if x[0] is not True else bool).dtype


def test_the_gradient_of_replaced_numbers_is_zero(backend):
    f = lambda x: pg.sum(pg.nan_to_num(x, posinf=2.0) * [1.0, 2.0, 3.0, 4.0])
    assert pg.grad(f)(pg.asarray([NAN, INF, -INF, 5.0])).tolist() == [0, 0, 0, 4]
    check_gradients(lambda x: pg.nan_to_num(x) ** 2, np.asarray([0.3, -1.2]))


# --- fmax and fmin ---------------------------------------------------------------

PAIRS = [(pg.fmax, np.fmax), (pg.fmin, np.fmin)]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(("op", "reference"), PAIRS, **by_name)
def test_fmax_and_fmin(op, reference, dtype, backend):
    require_dtypes(backend, dtype)
    x = np.asarray(SPECIAL, dtype)
    y = op(x[:, None], x)
    np.testing.assert_array_equal(y.numpy(), reference(x[:, None], x), strict=True)


@pytest.mark.parametrize(("op", "reference"), PAIRS, **by_name)
def test_fmax_and_fmin_of_integers_and_scalars(op, reference, backend):
    a = np.asarray([3, -(2**31), 7], np.int32)
    b = np.asarray([[2], [8]], np.int32)
    np.testing.assert_array_equal(op(a, b).numpy(), reference(a, b), strict=True)
    x = pg.asarray([NAN, 1.0, 3.0])
    assert op(x, 2).tolist() == op(2.0, x).tolist() == reference(x.numpy(), 2).tolist()
    flags = np.asarray([True, False])
    assert op(flags, True).tolist() == reference(flags, True).tolist()


SELECTIONS = [  # a, b, the gradients of fmax in a and in b
    (1.0, 2.0, 0, 1),
    (2.0, 1.0, 1, 0),
    (2.0, 2.0, 1, 0),
    (NAN, 2.0, 0, 1),
    (2.0, NAN, 1, 0),
    (NAN, NAN, 1, 0),
    (INF, INF, 1, 0),
]


@pytest.mark.parametrize(("a", "b", "first", "second"), SELECTIONS)
def test_the_gradient_goes_to_the_selected_argument(a, b, first, second, backend):
    assert [dx.item() for dx in pg.grads(pg.fmax)(a, b)] == [first, second]
    assert [dx.item() for dx in pg.grads(pg.fmin)(-a, -b)] == [first, second]


@pytest.mark.parametrize("op", [pg.fmax, pg.fmin], **by_name)
def test_gradients_of_fmax_and_fmin(op, backend):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(3, 4))
    b = rng.normal(size=(4,))
    check_gradients(lambda a, b: op(a, b) * op(a * a, b), a, b)


# --- reductions ------------------------------------------------------------------

REDUCTIONS = [
    (pg.nansum, np.nansum),
    (pg.nanmean, np.nanmean),
    (pg.nanmax, np.nanmax),
    (pg.nanmin, np.nanmin),
]
ROWS = [
    [NAN, 1.0, 2.0],
    [NAN, NAN, NAN],
    [-INF, NAN, NAN],
    [INF, NAN, 1.0],
    [3.0, 3.0, NAN],
    [INF, -INF, NAN],
    [-1.5, 0.5, 4.0],
]
AXES = [None, 0, 1, (0, 1), ()]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # for rows without numbers
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "bool"])
@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize(("op", "reference"), REDUCTIONS, **by_name)
def test_reductions(op, reference, axis, dtype, backend):
    require_dtypes(backend, dtype)
    x = np.asarray(ROWS)
    x = x.astype(dtype) if dtype[0] == "f" else np.nan_to_num(x, posinf=9, neginf=-9)
    x = x.astype(dtype)
    for keepdims in (False, True):
        y = op(x, axis=axis, keepdims=keepdims).numpy()
        wide = x.astype(np.float64) if dtype[0] == "f" else x
        expected = reference(wide, axis=axis, keepdims=keepdims)
        np.testing.assert_allclose(
            y, expected, rtol=1e-3 if dtype[5:] == "16" else 1e-6
        )
        assert y.shape == np.shape(expected)
        plain = getattr(pg, op.__name__.removeprefix("nan"))
        assert y.dtype == plain(x, axis=axis).dtype


GRADIENTS = {
    pg.nansum: [[0, 1, 1], [0, 0, 0], [1, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 0]],
    pg.nanmax: [[0, 0, 1], [0, 0, 0], [1, 0, 0], [1, 0, 0], [0.5, 0.5, 0], [1, 0, 0]],
    pg.nanmin: [[0, 1, 0], [0, 0, 0], [1, 0, 0], [0, 0, 1], [0.5, 0.5, 0], [0, 1, 0]],
}
DOUBLED_NANMEAN_GRADIENTS = [
    [0, 1, 1],
    [0, 0, 0],
    [2, 0, 0],
    [1, 0, 1],
    [1, 1, 0],
    [1, 1, 0],
]
GRADIENTS[pg.nanmean] = [[n / 2 for n in row] for row in DOUBLED_NANMEAN_GRADIENTS]


@pytest.mark.parametrize("op", GRADIENTS, **by_name)
def test_the_gradient_at_nan_is_zero(op, backend):
    x = pg.asarray(ROWS[:-1])
    for keepdims in (False, True):
        f = lambda x, keep=keepdims: pg.sum(op(x, axis=1, keepdims=keep))
        assert pg.grad(f)(x).tolist() == GRADIENTS[op]


@pytest.mark.parametrize("op", GRADIENTS, **by_name)
def test_gradients_of_reductions(op, backend):
    x = np.random.default_rng(1).normal(size=(3, 4))
    check_gradients(lambda x: op(x * x, axis=1) * op(x), x)


def test_nansum_and_nanmean_of_complex_numbers(backend):
    require_dtypes(backend, "complex64")
    z = np.asarray([complex(NAN, 1), 2 + 1j, complex(0, NAN), 4 - 3j], np.complex64)
    assert pg.nansum(z).item() == 6 - 2j
    assert pg.nanmean(z).item() == 3 - 1j


def test_nanmean_of_a_long_float16_array(backend):
    require_dtypes(backend, "float16")
    x = np.full(70_000, 2.0, np.float16)
    x[::7] = NAN
    assert pg.nanmean(x).item() == 2.0  # the sum of 60,000 numbers overflows


def test_nansum_in_another_dtype(backend):
    require_dtypes(backend, "float64")
    y = pg.nansum(np.asarray([NAN, 1.0], np.float32), dtype="float64")
    assert (y.item(), y.dtype) == (1.0, np.float64)


def test_reductions_under_jit_and_vmap(backend):
    x = pg.asarray(ROWS)
    for op in GRADIENTS:
        expected = op(x, axis=1).numpy()
        f = pg.jit(lambda x, op=op: op(x, axis=1))
        for _ in range(3):
            np.testing.assert_array_equal(f(x).numpy(), expected)
        np.testing.assert_array_equal(pg.vmap(op)(x).numpy(), expected)


# --- errors ----------------------------------------------------------------------

ERRORS = [
    (lambda: pg.fmax(1j, 1j), TypeError, "fmax: complex numbers have no order"),
    (lambda: pg.fmin(["a"], ["a"]), TypeError, "fmin: there is no fmin of strings"),
    (lambda: pg.fmax([1.0, 2.0], [1.0, 2.0, 3.0]), ValueError, "fmax: .*broadcast"),
    (lambda: pg.nanmax(pg.zeros(0)), ValueError, "nanmax: .* without elements"),
    (lambda: pg.nanmin([1.0], axis=1), ValueError, "nanmin: axis 1 is out of range"),
    (lambda: pg.nanmax([1j]), TypeError, "nanmax: complex numbers have no order"),
    (lambda: pg.nansum(["a"]), TypeError, "nansum: there is no nansum of strings"),
    (lambda: pg.nanmean(["a"]), TypeError, "nanmean: there is no nanmean of strings"),
    (
        lambda: pg.nansum([1.0], dtype=bool),
        TypeError,
        "nansum: is not defined for bool",
    ),
    (lambda: pg.nan_to_num("a"), TypeError, "nan_to_num: .* strings"),
    (lambda: pg.nan_to_num([1.0], nan=1j), TypeError, "nan_to_num: nan must be real"),
    (
        lambda: pg.nan_to_num([1.0], posinf="x"),
        TypeError,
        "nan_to_num: posinf must be a number, got 'x'",
    ),
    (
        lambda: pg.nan_to_num(pg.asarray([1.0], dtype="float32"), neginf=-1e300),
        OverflowError,
        r"nan_to_num: -1e\+300 does not fit into float32",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call, error, message, backend):
    with pytest.raises(error, match=message):
        call()
