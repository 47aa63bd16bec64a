"""Compare cl/math.cl with NumPy in float64: within 3 ulp for every kind of float32."""

import numpy as np
import plugrad as pg
import pytest

RNG = np.random.default_rng(0)
SPECIAL = [0, 1, 0.5, 2, 3, 1e-45, 1e-39, 1.2e-38, 88.7228, 103.9, 1e6, 1.7e7, 3.4e38]
SPECIAL = np.array([*SPECIAL, 1 + 2**-23, 1 - 2**-24, np.pi, np.inf, np.nan], "f")
SPECIAL = np.concatenate([SPECIAL, -SPECIAL])
RANDOM_BITS = (
    RNG.integers(0, 2**32, 20_000, dtype=np.uint64).astype(np.uint32).view("f")
)
MODERATE = np.concatenate([RNG.normal(size=9000), RNG.uniform(-110, 110, 9000)]).astype(
    "f"
)
QUARTER_TURNS = (np.arange(-9000, 9000) * np.pi / 2).astype("f")
X = np.concatenate([SPECIAL, RANDOM_BITS, MODERATE, QUARTER_TURNS])
UNARY = {
    "cos": np.cos,
    "elu": lambda x: np.where(x < 0, np.expm1(x), x),
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sigmoid": lambda x: np.where(x < 0, np.exp(x), 1) / (1 + np.exp(-np.abs(x))),
    "sin": np.sin,
    "softplus": lambda x: np.logaddexp(0, x),
    "tan": np.tan,
    "tanh": np.tanh,
}


@pytest.fixture(autouse=True)
def opencl():
    with pg.use_backend("opencl"), np.errstate(all="ignore"):
        yield


def pairs():
    """Return all pairs of special numbers, then random and moderate pairs."""
    a, b = (x.ravel() for x in np.meshgrid(SPECIAL, SPECIAL))
    integers = RNG.integers(-20, 20, MODERATE.size).astype("f")
    a = np.concatenate([a, RANDOM_BITS[:-1], MODERATE, MODERATE, np.abs(MODERATE)])
    return a, np.concatenate(
        [b, RANDOM_BITS[1:], MODERATE[::-1], integers, MODERATE[::-1]]
    )


def assert_within(ulp, found, exact):
    """Compare float32 with float64, including signs of zeros, infinities and NaN."""
    nearest = exact.astype("f")
    gap = np.spacing(np.maximum(np.abs(nearest), np.float32(1.2e-38))).astype("d")
    same = (found == nearest) | (np.isnan(found) & np.isnan(nearest))
    wrong = ~(same | (np.abs(found - exact) <= ulp * gap))
    wrong |= same & (nearest == 0) & (np.signbit(found) != np.signbit(nearest))
    assert not wrong.any(), (found[wrong][:5], exact[wrong][:5])


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number(name):
    y = getattr(pg, name)(pg.asarray(X)).numpy()
    assert_within(3, y, UNARY[name](X.astype("d")))
    for n in (1, 7, 31):  # shorter than a vector, or no multiple of it
        part = getattr(pg, name)(pg.asarray(X[:n])).numpy()
        np.testing.assert_array_equal(part, y[:n])


def test_powers():
    a, b = pairs()
    y = pg.pow(pg.asarray(a), pg.asarray(b)).numpy()
    assert_within(1, y, np.power(a.astype("d"), b.astype("d")))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["remainder", "floor_divide"])
def test_remainders_and_floor_divisions_are_exact(name, dtype):
    a, b = (x.astype(dtype) for x in pairs())
    y = getattr(pg, name)(pg.asarray(a), pg.asarray(b)).numpy()
    with pg.use_backend("cpu"):
        np.testing.assert_array_equal(y, getattr(pg, name)(a, b).numpy())
