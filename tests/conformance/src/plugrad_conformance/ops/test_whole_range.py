"""``trunc``, ``copysign``, ``hypot`` and ``exp2`` over the whole range of each dtype.

Each test runs the kernel of the backend, and then its decomposition.
"""

import math

import numpy as np
import plugrad as pg
import pytest

from .elementwise import assert_near, supported_dtypes
from .moves import decomposed

INF, NAN = math.inf, math.nan
FLOATS = ["float16", "float32", "float64"]
COUNT = 20_000
BITS = {"float16": np.uint16, "float32": np.uint32, "float64": np.uint64}
EDGES = [0.0, -0.0, 0.5, -0.5, 1.0, -1.5, INF, -INF, NAN]


@pytest.fixture(params=FLOATS)
def dtype(request, backend):
    if not supported_dtypes([request.param]):
        pytest.skip(f"{backend} has no {request.param}")
    return request.param


def floats_of_every_exponent(dtype, seed):
    """Return random floats of all exponents, subnormal numbers included, and EDGES."""
    info = np.finfo(dtype)
    draw = np.random.default_rng(seed)
    bits = draw.integers(
        0, np.iinfo(BITS[dtype]).max, COUNT, BITS[dtype], endpoint=True
    )
    x = bits.view(dtype)
    limits = [info.max, info.smallest_normal, info.smallest_subnormal]
    x = np.concatenate([x[np.isfinite(x)], np.asarray([*limits, *EDGES], dtype)])
    return draw.permutation(x)


def float_pairs(dtype):
    """Return pairs of similar floats, random pairs, and all pairs of EDGES."""
    a = floats_of_every_exponent(dtype, 0)
    similar = a * np.random.default_rng(2).uniform(-2, 2, a.size).astype(dtype)
    edges = np.meshgrid(*[np.asarray(EDGES, dtype)] * 2)
    other = floats_of_every_exponent(dtype, 1)
    size = min(a.size, other.size)
    pairs = [(a, similar), (a[:size], other[:size]), [x.ravel() for x in edges]]
    return [np.concatenate(parts) for parts in zip(*pairs, strict=True)]


def results_with_and_without_kernel(op, kernel, *xs):
    """Yield the result of the op's kernel, then that of its decomposition."""
    yield op(*map(pg.asarray, xs)).numpy()
    with decomposed(kernel):
        yield op(*map(pg.asarray, xs)).numpy()


def assert_same(found, expected):
    """Compare values and the signs of zeros."""
    np.testing.assert_array_equal(found, expected)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(expected[known]))


# --- exact ops -------------------------------------------------------------------


@np.errstate(all="ignore")
def test_trunc_is_exact(dtype, backend):
    x = floats_of_every_exponent(dtype, 0)
    for y in results_with_and_without_kernel(pg.trunc, "Trunc", x):
        assert_same(y, np.trunc(x))


@np.errstate(all="ignore")
def test_copysign_is_exact(dtype, backend):
    a, b = float_pairs(dtype)
    b = np.where(np.isnan(b), 1, b).astype(dtype)
    for y in results_with_and_without_kernel(pg.copysign, "CopySign", a, b):
        assert_same(y, np.copysign(a, b))


def test_copysign_of_integers(backend):
    y = pg.copysign([3, -4], [-1, 2])
    assert (y.dtype, y.tolist()) == (np.float32, [-3, 4])


# --- ops that round --------------------------------------------------------------


@np.errstate(all="ignore")
def test_hypot_is_within_3_ulp(dtype, backend):
    a, b = float_pairs(dtype)
    exact = np.hypot(a.astype(np.float64), b.astype(np.float64)).astype(dtype)
    for y in results_with_and_without_kernel(pg.hypot, "Hypot", a, b):
        assert_near(y, exact, 3)
        assert not np.signbit(y[~np.isnan(y)]).any()


@np.errstate(all="ignore")
def test_exp2_of_whole_numbers_is_exact(dtype, backend):
    info = np.finfo(dtype)
    smallest = info.minexp - info.nmant
    x = np.arange(smallest - 3, info.maxexp + 3).astype(dtype)
    exact = np.ldexp(np.float64(1), x.astype(np.int32)).astype(dtype)
    assert (exact[2], exact[3]) == (0, info.smallest_subnormal)
    for y in results_with_and_without_kernel(pg.exp2, "Exp2", x):
        assert_same(y, exact)


@np.errstate(all="ignore")
def test_exp2_is_within_3_ulp(dtype, backend):
    info = np.finfo(dtype)
    draw = np.random.default_rng(0)
    smallest = info.minexp - info.nmant
    intervals = [
        (smallest - 2, info.maxexp + 1),
        (smallest - 2, info.minexp + 2),
        (-1, 1),
    ]
    x = np.concatenate([draw.uniform(*ends, COUNT) for ends in intervals] + [EDGES])
    x = x.astype(dtype)
    exact = np.exp2(x.astype(np.float64)).astype(dtype)
    for y in results_with_and_without_kernel(pg.exp2, "Exp2", x):
        assert_near(y, exact, 3)


# --- gradients -------------------------------------------------------------------


def test_the_slope_of_exp2_in_the_tails(dtype, backend):
    end = np.finfo(dtype).maxexp
    x = pg.asarray(np.asarray([-INF, -3 * end, 2 - end, end - 2, 3 * end, INF], dtype))
    smallest = 2.0 ** (2 - end) * math.log(2)
    largest = 2.0 ** (end - 2) * math.log(2)
    expected = np.asarray([0, 0, smallest, largest, INF, INF], dtype)
    (dx,) = pg.grads(pg.exp2)(x, dy=pg.ones(x.shape, dtype=dtype))
    _, along = pg.jvp(pg.exp2, [x], [pg.ones(x.shape, dtype=dtype)])
    for slope in (dx, along):
        np.testing.assert_allclose(slope.numpy(), expected, rtol=2e-3)


# The two arguments of hypot, and its derivative in each of them.
SLOPES = [
    ((INF, 1), (1, 0)),
    ((-INF, NAN), (-1, 0)),
    ((NAN, -INF), (0, -1)),
    ((-INF, INF), (-1, 0)),
    ((2, INF), (0, 1)),
    ((0, 0), (0, 0)),
    ((0, -2), (0, -1)),
    ((NAN, 1), (NAN, NAN)),
    ((1, NAN), (NAN, NAN)),
]


@np.errstate(all="ignore")
def test_the_slopes_of_hypot_at_its_edges(dtype, backend):
    info = np.finfo(dtype)
    root = math.sqrt(0.5)
    large = float(info.max)
    small = float(info.smallest_subnormal)
    rows = [*SLOPES, ((large, -large), (root, -root)), ((-small, small), (-root, root))]
    a, b = np.asarray([x for x, _ in rows], dtype).T
    expected = np.asarray([slopes for _, slopes in rows]).T
    dy = pg.ones(a.shape, dtype=dtype)
    found = pg.grads(pg.hypot)(pg.asarray(a), pg.asarray(b), dy=dy)
    for slope, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(slope.numpy(), wanted, rtol=4 * float(info.eps))


def test_second_derivatives_of_hypot_at_the_origin_are_0(backend):
    second = pg.grad(lambda a: pg.grad(lambda a: pg.hypot(a, 0.0 * a))(a))
    assert second(pg.asarray(0.0)).item() == 0
    curved = pg.grad(lambda a: pg.grad(lambda a: pg.hypot(a, pg.asarray(4.0)))(a))
    assert curved(pg.asarray(3.0)).item() == pytest.approx(16 / 125, rel=1e-5)


def test_the_slopes_of_copysign_follow_the_signs(backend):
    a = pg.asarray([2.0, -2.0, 0.0, -0.0, INF, -3.0])
    b = pg.asarray([-0.0, -1.0, -INF, -5.0, 1.0, 0.0])
    da, db = pg.grads(lambda a, b: pg.sum(pg.copysign(a, b)))(a, b)
    assert (da.tolist(), db.tolist()) == ([-1, 1, -1, 1, 1, -1], [0] * 6)
    second = pg.grad(lambda a: pg.grad(lambda a: pg.copysign(a * a, -1.0))(a))
    assert second(pg.asarray(3.0)).item() == -2
