"""Special functions: values over their whole range, poles, gradients, errors."""

import math

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import runtime

from ..check import check_gradients
from .elementwise import assert_near

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
ENDS = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, -2.0, 2.5, 1e-30, 3e30]


@pytest.mark.parametrize(("op", "reference"), LOGARITHMS, **by_name)
def test_products_with_a_logarithm(op, reference, backend):
    for dtype in ("float32", "float64"):
        if dtype in runtime(backend).dtypes:
            x = np.asarray(ENDS, dtype)
            y, wide = op(x[:, None], x).numpy(), x.astype(float)
            expected = reference(wide[:, None], wide).astype(dtype)
            assert_near(y, expected, 4)
    assert op([0, 2], [0, 1]).dtype == np.float32
    assert op(2.0, pg.asarray([1.0, 3.0])).shape == (2,)


AT = [  # op, a, b, the derivatives
    (pg.xlogy, 0.0, 2.0, math.log(2), 0),
    (pg.xlogy, 0.0, 0.0, 0, 0),
    (pg.xlogy, 0.0, -1.0, 0, 0),
    (pg.xlogy, 3.0, 2.0, math.log(2), 1.5),
    (pg.xlogy, 3.0, 0.0, -INF, INF),
    (pg.xlog1py, 0.0, 1.0, math.log(2), 0),
    (pg.xlog1py, 0.0, -1.0, 0, 0),
    (pg.xlog1py, 3.0, 1.0, math.log(2), 1.5),
]


@pytest.mark.parametrize(("op", "a", "b", "da", "db"), AT)
def test_derivatives_of_products_with_a_logarithm(op, a, b, da, db, backend):
    found = [dx.item() for dx in pg.grads(op)(a, b)]
    np.testing.assert_allclose(found, [da, db], rtol=1e-6)


@pytest.mark.parametrize("op", [pg.xlogy, pg.xlog1py], **by_name)
def test_gradients_of_products_with_a_logarithm(op, backend):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 4)), rng.uniform(0.3, 2, 4)
    check_gradients(op, a, b)
    a[0] = 0.0
    check_gradients(op, a, b)


# --- errors ----------------------------------------------------------------------

ERRORS = [
    (lambda: pg.xlogy(1j, 1.0), TypeError, "xlogy: .* complex"),
    (lambda: pg.xlog1py("a", 1.0), TypeError, "xlog1py: .* string"),
    (lambda: pg.xlogy([1.0, 2.0], [1.0, 2.0, 3.0]), ValueError, "xlogy: .*broadcast"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call, error, message, backend):
    with pytest.raises(error, match=message):
        call()
