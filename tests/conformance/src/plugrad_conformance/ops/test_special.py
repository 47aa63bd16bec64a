"""Special functions: values over their whole range, poles, gradients, errors."""

import math

import numpy as np
import plugrad as pg
import pytest

from ..check import check_gradients
from .elementwise import (
    Row,
    assert_near,
    check_decomposition,
    check_gradient,
    check_integers,
    check_signs_of_zero,
    check_values,
    every,
    run,
    supported_dtypes,
)
from .special_values import DIGAMMA, ERFINV, POLYGAMMA

NAN, INF = np.nan, np.inf
by_name = {"ids": lambda f: f.__name__}

# --- products with a logarithm ---------------------------------------------------


def xlogy(a, b):
    with np.errstate(all="ignore"):
        return np.where((a == 0) & ~np.isnan(b), 0.0, a * np.log(b))


def xlog1py(a, b):
    with np.errstate(all="ignore"):
        return np.where((a == 0) & ~np.isnan(b), 0.0, a * np.log1p(b))


LOGARITHMS = [(pg.xlogy, xlogy), (pg.xlog1py, xlog1py)]
SPECIAL = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, -2.0, 2.5, 1e-30, 3e30]


@pytest.mark.parametrize(("op", "reference"), LOGARITHMS, **by_name)
def test_products_with_a_logarithm(op, reference, backend):
    for dtype in supported_dtypes(["float32", "float64"]):
        x = np.asarray(SPECIAL, dtype)
        y = op(x[:, None], x).numpy()
        wide = x.astype(float)
        expected = reference(wide[:, None], wide).astype(dtype)
        assert_near(y, expected, 4)
    assert op([0, 2], [0, 1]).dtype == np.float32
    assert op(2.0, pg.asarray([1.0, 3.0])).shape == (2,)


DERIVATIVES = [  # op, a, b, the derivatives
    (pg.xlogy, 0.0, 2.0, math.log(2), 0),
    (pg.xlogy, 0.0, 0.0, 0, 0),
    (pg.xlogy, 0.0, -1.0, 0, 0),
    (pg.xlogy, 3.0, 2.0, math.log(2), 1.5),
    (pg.xlogy, 3.0, 0.0, -INF, INF),
    (pg.xlog1py, 0.0, 1.0, math.log(2), 0),
    (pg.xlog1py, 0.0, -1.0, 0, 0),
    (pg.xlog1py, 3.0, 1.0, math.log(2), 1.5),
]


@pytest.mark.parametrize(("op", "a", "b", "da", "db"), DERIVATIVES)
def test_derivatives_of_products_with_a_logarithm(op, a, b, da, db, backend):
    found = [dx.item() for dx in pg.grads(op)(a, b)]
    np.testing.assert_allclose(found, [da, db], rtol=1e-6)


@pytest.mark.parametrize("op", [pg.xlogy, pg.xlog1py], **by_name)
def test_gradients_of_products_with_a_logarithm(op, backend):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(3, 4))
    b = rng.uniform(0.3, 2, 4)
    check_gradients(op, a, b)
    a[0] = 0.0
    check_gradients(op, a, b)


# --- the gamma function, and the inverse of the error function -------------------


@np.vectorize(otypes=[float])
def lgamma(x):
    if x == -INF or (x <= 0 and x == math.floor(x)):
        return INF
    return math.lgamma(x)


@np.vectorize(otypes=[float])
def digamma(x):
    """Shift positive x up until the asymptotic series is exact in float64."""
    terms = []
    while x < 20:
        terms.append(-1 / x)
        x += 1
    u = 1 / (x * x)
    series = u * (1 / 12 - u * (1 / 120 - u * (1 / 252 - u * (1 / 240 - u / 132))))
    return math.fsum([*terms, math.log(x), -0.5 / x, -series])


@np.vectorize(otypes=[float])
def erfinv(x):
    """Solve ``erf(y) = x`` by Newton's method."""
    y = 0.0
    for _ in range(60):
        y += (x - math.erf(y)) * math.exp(y * y) * math.sqrt(math.pi) / 2
    return y


LGAMMA_ROW = Row(pg.lgamma, "Lgamma", lgamma, domain=(4.0, 9.0))
DIGAMMA_ROW = Row(pg.digamma, "Digamma", digamma, domain=(4.0, 9.0))
ERFINV_ROW = Row(pg.erfinv, "Erfinv", erfinv, domain=(-0.7, 0.7))
ROWS = [LGAMMA_ROW, DIGAMMA_ROW, ERFINV_ROW]


@every(ROWS)
def test_values(row, backend):
    check_values(row, backend)


@every([LGAMMA_ROW])
def test_integers(row, backend):
    check_integers(row, backend)
    assert pg.digamma([1, 2]).dtype == pg.erfinv([True]).dtype == np.float32


@every(ROWS)
def test_gradients(row, backend):
    check_gradient(row)


@every(ROWS)
def test_gradients_of_negative_numbers(row, backend):
    check_gradients(row.op, -np.asarray([0.3, 0.62]))


@every(ROWS)
def test_decompositions(row):
    check_decomposition(row, ["float32", "float64", "float16", "int32", "bool"])


def test_erfinv_keeps_the_sign_of_zero(backend):
    check_signs_of_zero(pg.erfinv, [True, False])


TABLES = [(pg.digamma, DIGAMMA), (pg.erfinv, ERFINV)]
TABLES += [(pg.erfinv, [(-x, -y) for x, y in ERFINV])]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("op", "table"), TABLES, ids=["digamma", "erfinv", "odd"])
def test_known_values(op, table, dtype, backend):
    for _ in supported_dtypes([dtype]):
        x, y = np.asarray(table).T.astype(dtype)
        assert_near(run(op, x), y, 4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_known_values_of_polygamma(n, dtype, backend):
    for _ in supported_dtypes([dtype]):
        rows = [(x, y) for order, x, y in POLYGAMMA if order == n]
        x, y = np.asarray(rows).T.astype(dtype)
        assert_near(pg.polygamma(x, n).numpy(), y, 3 + 3 * n)


# For each order, the values at POINTS, computed by mpmath with 50 digits.
POINTS = [0.1875, 0.75, 1.5, 2.5, 7.875, 8.0, 20.5, 155.75, 386.75, 1e4, 3e30]
POINTS += [-0.375, -2.25, -7.25]
HIGH_ORDERS = {
    8: [
        -1.4076967290158996e11,
        -5.3726037722620092e5,
        -1.0599617600414264e3,
        -1.1146030731869932e1,
        -5.4586382258451677e-4,
        -4.7801089520539324e-4,
        -1.9541016061477283e-7,
        -1.4932193656488235e-14,
        -1.0173581393069504e-17,
        -5.0420163023999945e-29,
        -7.6817558299039826e-241,
        2.7216946368742339e8,
        1.0569114258563671e10,
        1.056911425966632e10,
    ],
    12: [
        -1.3530705053817113e18,
        -2.0162654429043862e10,
        -2.4644776094268285e6,
        -3.2566979804026979e3,
        -1.3758770518245115e-3,
        -1.1286290081054342e-3,
        -9.5893335398134036e-9,
        -2.0354446867055225e-19,
        -3.6200526544117825e-24,
        -3.9940755269183818e-41,
        -7.5110501447950074e-359,
        1.6495401540630847e14,
        3.2145233093874009e16,
        3.2145233093874118e16,
    ],
    17: [
        4.3355641648025063e27,
        6.3090777207865815e16,
        2.4069665857699496e11,
        2.4500551821893323e7,
        2.9809615649843622e-2,
        2.2551746239673773e-2,
        1.5467690665188129e-9,
        1.1826399649837854e-24,
        2.2070801656241557e-31,
        2.0940579594715884e-55,
        1.6201613349365237e-505,
        1.6540544450859603e22,
        2.444265400342793e25,
        2.444265400342793e25,
    ],
    20: [
        -4.4988126074878534e33,
        -1.0229115768532277e21,
        -4.8777294946260987e14,
        -1.0709198259124132e10,
        -4.0065950641492644e-1,
        -2.8883763083320128e-1,
        -1.1111455308704728e-9,
        -1.8371609145691656e-27,
        -2.2267621543507524e-35,
        -1.2176678808502238e-63,
        -3.4887474078966484e-593,
        2.1451539598739395e27,
        1.0700016187896298e31,
        1.0700016187896298e31,
    ],
    30: [
        -9.1331510625668663e54,
        -1.9804364447424111e36,
        -9.2221270661620558e26,
        -1.2232990235199245e20,
        -4.4754686155609026e4,
        -2.7506955293920804e4,
        -7.4937952797063385e-9,
        -1.6401843531989622e-35,
        -2.1896326146271053e-47,
        -8.8550314890946506e-90,
        -4.2943869917015791e-884,
        4.2529543168404901e45,
        1.2232629049437595e51,
        1.2232629049437595e51,
    ],
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", HIGH_ORDERS)
def test_high_orders_of_polygamma(n, dtype, backend):
    """The arguments reach the limits of normal numbers, where powers underflow."""
    for _ in supported_dtypes([dtype]):
        found = run(lambda x: pg.polygamma(x, n), np.asarray(POINTS, dtype))
        with np.errstate(over="ignore"):
            expected = np.asarray(HIGH_ORDERS[n]).astype(dtype)
        normal = np.abs(HIGH_ORDERS[n]) >= np.finfo(dtype).tiny
        assert normal.sum() >= 8
        assert_near(found[normal], expected[normal], 3 + 2 * n)
        assert (np.abs(found[~normal]) <= np.finfo(dtype).tiny).all()


def test_lgamma_over_all_magnitudes(backend):
    wide = np.geomspace(1e-38, 3e38, 20_001).astype(np.float32)
    moderate = np.linspace(0, 12, 20_001).astype(np.float32)
    for x in (wide, moderate):
        with np.errstate(over="ignore"):
            expected = lgamma(x.astype(float)).astype(np.float32)
        assert_near(run(pg.lgamma, x), expected, 3)


def test_lgamma_of_negative_numbers(backend):
    x = -np.linspace(0.001, 30, 20_001).astype(np.float32)
    found = run(pg.lgamma, x)
    y = lgamma(x.astype(float))
    finite = np.isfinite(y)
    assert np.isinf(found[~finite]).all()
    terms = np.abs(y) + lgamma(1 - x.astype(float)) + 1
    error = np.abs(found[finite] - y[finite]) / terms[finite]
    assert error.max() < 4e-7


def test_factorials(backend):
    n = np.arange(1, 30)
    logs = [math.log(math.factorial(i)) for i in n.tolist()]
    np.testing.assert_allclose(pg.lgamma(n + 1).numpy(), logs, rtol=3e-7)


POLES = [0.0, -0.0, -1.0, -2.0, -1e6, -3e38, -INF, INF, NAN]
AT_POLES = [
    (pg.lgamma, [INF, INF, INF, INF, INF, INF, INF, INF, NAN]),
    (pg.digamma, [-INF, INF, NAN, NAN, NAN, NAN, NAN, INF, NAN]),
    (lambda x: pg.polygamma(x, 1), [INF, INF, INF, INF, INF, INF, NAN, 0, NAN]),
    (lambda x: pg.polygamma(x, 2), [-INF, INF, NAN, NAN, NAN, NAN, NAN, 0, NAN]),
    (lambda x: pg.polygamma(x, 0), [-INF, INF, NAN, NAN, NAN, NAN, NAN, INF, NAN]),
]


@pytest.mark.parametrize(("op", "expected"), AT_POLES, ids=range(len(AT_POLES)))
def test_poles(op, expected, backend):
    for dtype in supported_dtypes(["float32", "float64"]):
        y = run(op, np.asarray(POLES, dtype))
        np.testing.assert_array_equal(y, expected)


def test_erfinv_at_the_ends_of_its_domain(backend):
    for dtype in supported_dtypes(["float16", "float32", "float64"]):
        x = np.asarray([1, -1, 1.5, -2, INF, -INF, NAN], dtype)
        y = run(pg.erfinv, x)
        np.testing.assert_array_equal(y, [INF, -INF, NAN, NAN, NAN, NAN, NAN])


def test_the_recurrence_relation_of_polygamma(backend):
    """``ψ(n, x) - ψ(n, x + 1)`` is ``-(-1)^n n! / x^(n+1)``, for all orders."""
    x = np.asarray([0.3, 0.7, 1.1], np.float32)
    for n in range(1, 31):
        found = (pg.polygamma(x, n) - pg.polygamma(x + 1, n)).numpy()
        term = -((-1.0) ** n) * math.factorial(n) / x.astype(float) ** (n + 1)
        expected = np.asarray(
            [t if abs(t) < 3.4e38 else np.sign(t) * INF for t in term]
        )
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_gradients_of_polygamma(backend):
    for n in (0, 1, 2, 3):
        check_gradients(lambda x, n=n: pg.polygamma(x, n), np.asarray([0.8, 2.5]))
        check_gradients(lambda x, n=n: pg.polygamma(x, n), np.asarray([-0.3, -1.6]))


# --- errors ----------------------------------------------------------------------

ERRORS = [
    (lambda: pg.xlogy(1j, 1.0), TypeError, "xlogy: .* complex"),
    (lambda: pg.xlog1py("a", 1.0), TypeError, "xlog1py: .* string"),
    (lambda: pg.xlogy([1.0, 2.0], [1.0, 2.0, 3.0]), ValueError, "xlogy: .*broadcast"),
    (lambda: pg.lgamma([1j]), TypeError, "lgamma: .*complex"),
    (lambda: pg.digamma("a"), TypeError, "digamma: .* strings"),
    (lambda: pg.erfinv([1j]), TypeError, "erfinv: .*complex"),
    (lambda: pg.polygamma([1j], 1), TypeError, "polygamma: .*complex"),
    (lambda: pg.polygamma([1.0], 31), ValueError, "polygamma: n 31 must be from 0 to"),
    (lambda: pg.polygamma([1.0], -1), ValueError, "polygamma: n -1 must be 0 or more"),
    (lambda: pg.polygamma([1.0], 1.5), TypeError, "polygamma: n must be an integer"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call, error, message, backend):
    with pytest.raises(error, match=message):
        call()
