"""Elementary functions in float32 are within 3 ulp, even for difficult arguments."""

import math
from importlib.util import find_spec

import numpy as np
import plugrad as pg
import pytest

BACKENDS = [name for name in ("cpu", "wasm") if find_spec(f"plugrad_{name}")]
if not BACKENDS:
    pytest.skip("neither cpu nor wasm is installed", allow_module_level=True)


@pytest.fixture(params=BACKENDS, autouse=True)
def on_backend(request):
    with pg.use_backend(request.param):
        yield


QUARTERS = (np.arange(1, 5094) * (np.pi / 2)).astype(np.float32)
NEIGHBOURS = [np.nextafter(QUARTERS, np.float32(limit)) for limit in (0, np.inf)]
NEAR_ZEROS = np.concatenate(
    [QUARTERS, *NEIGHBOURS, np.float32([7999, 8000, 8001, 1e5, 3e38])]
)
MODERATE = np.concatenate(
    [
        np.linspace(-1.1, 1.1, 40_001),
        np.linspace(-100, 100, 40_001),
        np.logspace(-44, 2, 4001),
        -np.logspace(-44, 2, 4001),
    ]
).astype(np.float32)
POSITIVE = np.concatenate([np.logspace(-44.8, 38, 40_001), np.linspace(0.5, 2, 40_001)])
ROWS = [
    (pg.sin, np.sin, NEAR_ZEROS),
    (pg.cos, np.cos, NEAR_ZEROS),
    (pg.sin, np.sin, MODERATE),
    (pg.cos, np.cos, MODERATE),
    (pg.exp, np.exp, MODERATE),
    (pg.expm1, np.expm1, MODERATE),
    (pg.tanh, np.tanh, MODERATE),
    (pg.erf, np.vectorize(math.erf), MODERATE),
    (pg.sigmoid, lambda x: np.exp(-np.logaddexp(0, -x)), MODERATE),
    (pg.softplus, lambda x: np.logaddexp(0, x), MODERATE),
    (pg.log, np.log, POSITIVE.astype(np.float32)),
    (pg.log1p, np.log1p, POSITIVE.astype(np.float32)),
    (pg.log1p, np.log1p, MODERATE[(MODERATE > -1) & (MODERATE < 1)]),
]


@pytest.mark.parametrize(("op", "reference", "x"), ROWS)
def test_functions_are_within_3_ulp(op, reference, x):
    found = op(pg.asarray(x)).numpy().astype(float)
    with np.errstate(all="ignore"):
        truth = reference(x.astype(float))
        nearest = truth.astype(np.float32)
    finite = np.isfinite(nearest)
    np.testing.assert_array_equal(found[~finite], nearest[~finite])
    distance = np.abs(found - truth)[finite] / np.spacing(np.abs(nearest[finite]))
    worst = distance.argmax()
    assert distance[worst] <= 3, (x[finite][worst], found[finite][worst])


SPECIAL = [0, -0.0, 1, -1, 2, -2, 0.5, np.inf, -np.inf, np.nan, 1e-40, 3e38, 3, -3]
RANDOM = np.random.default_rng(0)
POWERS = {
    "special": np.meshgrid(np.float32(SPECIAL), np.float32(SPECIAL)),
    "moderate": (RANDOM.random(100_001) * 5, RANDOM.normal(size=100_001) * 3),
    "near 1": (
        1 + RANDOM.normal(size=100_001) / 1e3,
        RANDOM.normal(size=100_001) * 3e4,
    ),
    "far": (np.exp(RANDOM.normal(size=100_001) * 15), RANDOM.normal(size=100_001)),
    "whole": (RANDOM.normal(size=100_001), RANDOM.integers(-5, 6, 100_001)),
    "one exponent": (RANDOM.random(100_001) * 5, np.array([2.4])),
    "one base": (np.array(1.7), RANDOM.normal(size=100_001) * 9),
}


@pytest.mark.parametrize("name", POWERS)
def test_powers_are_within_3_ulp(name):
    x, y = (np.asarray(v, np.float32) for v in POWERS[name])
    found = pg.pow(pg.asarray(x), pg.asarray(y)).numpy().astype(float)
    with np.errstate(all="ignore"):
        truth = np.power(x.astype(float), y.astype(float))
        nearest = truth.astype(np.float32)
    finite = np.isfinite(nearest)
    np.testing.assert_array_equal(found[~finite], nearest[~finite])
    distance = np.abs(found[finite] - truth[finite])
    assert (distance / np.spacing(np.abs(nearest[finite]))).max() <= 3


OPS = (pg.exp, pg.expm1, pg.log, pg.log1p, pg.sin, pg.cos, pg.tanh, pg.erf)
OPS += (pg.sigmoid, pg.softplus, pg.elu, pg.selu, pg.sqrt, pg.rsqrt)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (5,), (4, 7), (33,)])
@pytest.mark.parametrize("op", OPS)
def test_remainders_of_rows(op, shape):
    """Elements after the last full vector get the same bits as those in vectors."""
    x = np.linspace(0.1, 0.9, math.prod(shape), dtype=np.float32).reshape(shape)
    full_vectors = np.broadcast_to(x[..., None], (*shape, 32)).copy()
    found = op(pg.asarray(x)).numpy()
    np.testing.assert_array_equal(found, op(pg.asarray(full_vectors)).numpy()[..., 3])


MIXED = np.linspace(-9, 9, 67, dtype=np.float32)
MIXED[::7] = [-1e9, -9000, -104, -90, 89, 9000, 1e9, np.nan, np.inf, 0]


@pytest.mark.parametrize("op", OPS)
def test_a_result_depends_only_on_its_element(op):
    """Large numbers, infinities and NaN run other code, but change no neighbors."""
    found = op(pg.asarray(MIXED)).numpy()
    alone = [op(pg.asarray(MIXED[i : i + 1])).numpy() for i in range(len(MIXED))]
    np.testing.assert_array_equal(np.concatenate(alone), found)


def test_a_power_depends_only_on_its_elements():
    x = np.abs(MIXED)
    y = np.roll(MIXED, 3)
    found = pg.pow(pg.asarray(x), pg.asarray(y)).numpy()
    alone = [
        pg.pow(pg.asarray(x[i : i + 1]), pg.asarray(y[i : i + 1])).numpy()
        for i in range(len(x))
    ]
    np.testing.assert_array_equal(np.concatenate(alone), found)


def test_a_square_is_the_product():
    x = np.concatenate(
        [MODERATE, NEAR_ZEROS, np.float32([np.inf, -np.inf, np.nan, 0, -0.0])]
    )
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal((pg.asarray(x) ** 2).numpy(), x * x)
