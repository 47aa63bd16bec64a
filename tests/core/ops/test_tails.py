"""Small values and small derivatives, compared with mpmath.

``benchmarks/tails.py`` measures them over all exponents; see ``docs/tails.md``.
"""

import functools
import sys
from pathlib import Path

import mpmath as mp
import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import erfc_polynomial, runtime
from plugrad_conformance.toy import toy

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
import tails
from tails_functions import FUNCTIONS

mp.mp.prec = 200
TINY = np.logspace(-40, 0, 41)
BACKENDS = ["cpu", "wasm", "opencl"]
GELU_TANH = lambda x: pg.gelu(x, approximate=True)


@pytest.fixture(params=[*BACKENDS, "toy"])
def on(request):
    """Activate a backend; "toy" is cpu without the kernels that are tested here."""
    if request.param == "toy":
        missing = ["Erfc", "Gelu", "GeluTanh"]
        with toy(without=missing, dtypes=runtime("cpu").dtypes), pg.use_backend("toy"):
            yield request.param
        return
    if request.param not in pg.backends():
        pytest.skip(f"plugrad-{request.param} is not installed")
    with pg.use_backend(request.param):
        yield request.param


def largest_error(found, exact_values):
    """Return the largest error of some numbers, in ulp of the exact mpmath numbers."""
    largest = mp.mpf(0)
    for y, exact in zip(found, exact_values, strict=True):
        nearest = np.asarray(mp.nstr(exact, 40, min_fixed=1, max_fixed=0)).astype("f8")
        one_ulp = mp.mpf(float(np.spacing(np.abs(nearest.astype(found.dtype)))))
        largest = max(largest, abs(mp.mpf(float(y)) - exact) / one_ulp)
    return float(largest)


def normal(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def sigmoid(x):
    return 1 / (1 + mp.exp(-x))


def gelu_tanh(x):
    factor = mp.mpf("0.044715")
    return x * sigmoid(mp.sqrt(8 / mp.pi) * (x + factor * x**3))


# name: (op, formula, arguments whose results almost underflow in float32 and float64,
# allowed error in ulp). gelu by tanh gives 0 where e^u is denormal.
VALUES = {
    "erfc": (pg.erfc, mp.erfc, (10.2, 27.4), 3),
    "gelu": (pg.gelu, lambda x: x * normal(x), (-14.5, -39), 6),
    "gelu(approximate=True)": (GELU_TANH, gelu_tanh, (-9.8, -21), 4),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", VALUES)
def test_values_down_to_the_smallest_number(name, dtype, on):
    op, formula, zeros_at, ulp = VALUES[name]
    zero_at = zeros_at[dtype == "float64"]
    spread = np.linspace(-abs(zero_at), abs(zero_at), 701)
    x = np.concatenate([spread, [zero_at * 0.98], -TINY, TINY]).astype(dtype)
    found = op(pg.asarray(x)).numpy()
    # A decomposition rounds more often than a kernel.
    limit = ulp + 1 if on == "toy" else ulp
    assert largest_error(found, [formula(mp.mpf(float(v))) for v in x]) <= limit


@pytest.mark.parametrize(("dtype", "error"), [("float32", 3e-9), ("float64", 3e-17)])
def test_the_polynomial_of_erfc(dtype, error):
    """``benchmarks/fit_tails.py`` computes its coefficients."""
    terms, middle, offset, zero_at = erfc_polynomial(np.dtype(dtype))
    for a in mp.linspace(0, zero_at, 300):
        q = (a - middle) / (a + middle)
        p = functools.reduce(lambda y, c, q=q: y * q + c, terms) / (a + offset)
        assert abs(p / (mp.exp(a * a) * mp.erfc(a)) - 1) < error


def test_values_in_the_tail_of_gelu(on):
    x = np.asarray([-5, -5.5, -6, -8], "float32")
    found = pg.gelu(x).numpy()
    expected = [-1.4333e-06, -1.0444e-07, -5.9193e-09, -4.977e-15]
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    expected = [float(v * normal(mp.mpf(v))) for v in x.tolist()]
    np.testing.assert_allclose(found, expected, rtol=6e-7)
    x = np.asarray([-9.0, -20.0, -37.5])
    expected = [float(v * normal(mp.mpf(v))) for v in x.tolist()]
    np.testing.assert_allclose(pg.gelu(x).numpy(), expected, rtol=1e-15)
    for dtype, x, tolerance in (
        ("float32", [-5, -6, -9], 6e-7),
        ("float64", [-20], 1e-15),
    ):
        x = np.asarray(x, dtype)
        expected = [float(gelu_tanh(mp.mpf(v))) for v in x.tolist()]
        np.testing.assert_allclose(GELU_TANH(x).numpy(), expected, rtol=tolerance)


def test_values_at_infinity_nan_and_zero(on):
    x = np.asarray([np.inf, -np.inf, np.nan, 0.0, 1e30, -1e30], "float32")
    np.testing.assert_array_equal(pg.erfc(x).numpy(), [0, 2, np.nan, 1, 0, 2])
    for op in (pg.gelu, GELU_TANH):
        expected = [np.inf, np.nan, np.nan, 0, 1e30, 0]
        np.testing.assert_allclose(op(x).numpy(), expected, rtol=1e-7)
        zeros = op(np.asarray([-0.0, 0.0], "float32")).numpy()
        assert np.signbit(zeros).tolist() == [True, False]


# --- derivatives: the table of docs/tails.md -------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_within_8_ulp(name, dtype, on):
    """Test some numbers of ``benchmarks/tails.py``; a few rows have other limits."""
    row = FUNCTIONS[name]
    x = tails.points(row.low, row.high, dtype)[:: 11 if dtype == "float32" else 17]
    found = tails.plugrad_derivatives(row.op, x)
    for y, exact, limit in zip(found, (row.first, row.second), row.limits, strict=True):
        error = tails.errors(y, x, exact)
        at = int(error.argmax())
        assert error[at] <= limit, f"{name} at {x[at]}: {y[at]}, off by {error[at]} ulp"
