"""Reductions of the elements that a mask selects: ``where=``."""

import numpy as np
import plugrad as pg
import pytest

from ..check import check_gradients, require_dtypes

NAN, INF = np.nan, np.inf
RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 3, 4))
MASKS = {
    "full": RNG.random((2, 3, 4)) < 0.6,
    "rows": np.asarray([[True], [False], [True]]),
    "scalar": np.asarray(False),
}
OPS = {
    "sum": {},
    "prod": {},
    "mean": {},
    "max": {"initial": -1},
    "min": {"initial": 1},
    "all": {},
    "any": {},
}
SMOOTH = ["sum", "prod", "mean", "max", "min"]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # for means of no elements
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "bool"])
@pytest.mark.parametrize("axis", [None, 1, (0, -1), ()], ids=str)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", OPS)
def test_values(name, mask, axis, dtype, backend):
    require_dtypes(backend, dtype)
    x = X > 0.3 if dtype == "bool" else (X * 3).astype(dtype)
    options = OPS[name]
    if dtype == "bool" and options:
        options = {"initial": name == "min"}
    where = MASKS[mask]
    for keepdims in (False, True):
        more = {"axis": axis, "keepdims": keepdims, "where": where, **options}
        y = getattr(pg, name)(pg.asarray(x), **more)
        expected = getattr(np, name)(x, **more)
        assert y.shape == expected.shape
        rtol = {"float16": 4e-3, "float64": 1e-12}.get(dtype, 2e-6)
        np.testing.assert_allclose(y.numpy(), expected, rtol=rtol, atol=rtol)
        assert y.dtype == getattr(pg, name)(pg.asarray(x), **options).dtype


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients(name, backend):
    mask = MASKS["full"] | (np.arange(4) == 0)  # no row without elements
    f = lambda x: getattr(pg, name)(x, axis=-1, where=mask, **OPS[name])
    check_gradients(f, X)


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
@pytest.mark.parametrize("name", SMOOTH)
def test_elements_left_out_have_no_effect(name, bad, backend):
    x = pg.asarray([[2.0, bad, 3.0], [bad, 5.0, bad], [bad, bad, bad]])
    mask = [[True, False, True], [False, True, False], [False, False, False]]
    f = lambda x: getattr(pg, name)(x, axis=1, where=mask, **OPS[name])
    zeros = pg.where(pg.asarray(mask), x, 1.0)
    y = f(x).numpy()
    np.testing.assert_array_equal(y, f(zeros).numpy())
    dx = pg.grad(lambda x: pg.sum(f(x)))(x).numpy()
    assert np.isfinite(dx).all()
    assert (dx[~np.asarray(mask)] == 0).all()
    expected = {"sum": 1, "mean": 1, "prod": 1, "max": 1, "min": 0}
    assert dx[1, 1] == expected[name]


def test_the_initial_number_takes_no_gradient_from_elements_left_out(backend):
    f = lambda x: pg.sum(pg.max(x, initial=0.0, where=[True, False]))
    assert pg.grad(f)(pg.asarray([2.0, 2.0])).tolist() == [1, 0]


def test_integers_and_bool_extremes(backend):
    x = pg.asarray(np.asarray([3, 250], np.uint8))
    for op, mask, expected in (
        (pg.max, [True, False], 3),
        (pg.max, [False, False], 1),
        (pg.min, [False, True], 1),
    ):
        y = op(x, initial=1, where=mask)
        assert (y.item(), y.dtype) == (expected, np.uint8)
    assert pg.max([True, False], initial=False, where=[False, True]).item() is False
    assert pg.min([True, False], initial=True, where=[True, False]).item() is True


def test_complex_numbers(backend):
    require_dtypes(backend, "complex64")
    x = np.asarray([1 + 2j, NAN, 3 - 1j], np.complex64)
    mask = [True, False, True]
    for name in ("sum", "prod", "mean"):
        y = getattr(pg, name)(x, where=mask)
        np.testing.assert_allclose(y.numpy(), getattr(np, name)(x, where=mask))


def test_under_jit_and_vmap(backend):
    mask = pg.asarray(MASKS["full"])
    f = lambda x, mask: pg.mean(x, axis=-1, where=mask)
    x = pg.asarray(X.astype(np.float32))
    expected = f(x, mask).numpy()
    np.testing.assert_allclose(pg.vmap(f)(x, mask).numpy(), expected, rtol=1e-6)
    jitted = pg.jit(f)
    for _ in range(3):
        np.testing.assert_allclose(jitted(x, mask).numpy(), expected, rtol=1e-6)


ERRORS = [
    ({"where": [1, 0, 1, 1]}, TypeError, "where must be bool, got int32; use x != 0"),
    ({"where": [True, False]}, ValueError, "where must broadcast to x; got shapes"),
    ({"where": np.ones((5, 2, 3, 4), bool)}, ValueError, "where must broadcast to x"),
]


@pytest.mark.parametrize(("given", "error", "message"), ERRORS, ids=range(3))
@pytest.mark.parametrize("name", OPS)
def test_errors(name, given, error, message, backend):
    with pytest.raises(error, match=f"{name}: {message}"):
        getattr(pg, name)(X.astype(np.float32), **OPS[name], **given)


@pytest.mark.parametrize("op", [pg.max, pg.min], ids=lambda f: f.__name__)
def test_extremes_need_an_initial_number(op, backend):
    with pytest.raises(ValueError, match="where needs initial"):
        op([1.0], where=[True])
