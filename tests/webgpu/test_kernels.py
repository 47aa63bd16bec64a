import numpy as np
import plugrad as pg
import pytest

RNG = np.random.default_rng(0)
SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 1e8, 3.0, 0.1, 1e-40], "f4")


@pytest.mark.parametrize("n", [65_536, 100_000, 200_003])
def test_loops_are_longer_than_llvmpipe_allows(n):
    x = RNG.random(n).astype("f4")
    exact = x.sum(dtype="f8")
    np.testing.assert_allclose(pg.sum(pg.asarray(x)).item(), exact, rtol=1e-6)
    ids = pg.asarray(np.zeros(n, "i4"))
    y = pg.unsorted_segment_sum(pg.asarray(x), ids, 1)
    np.testing.assert_allclose(y.numpy(), [exact], rtol=1e-6)
    y = pg.matmul(pg.asarray(x[None]), pg.ones((n, 1)))
    np.testing.assert_allclose(y.numpy(), [[exact]], rtol=1e-4)


def test_a_window_is_larger_than_llvmpipe_allows():
    x = RNG.random((1, 300, 300, 1)).astype("f4")
    y = pg.max_pool(pg.asarray(x), (300, 300))
    assert y.item() == x.max()


def test_scatters_are_deterministic():
    x = RNG.standard_normal((20_000, 3)).astype("f4")
    ids = RNG.integers(0, 50, 20_000).astype("i4")
    first, second = [
        pg.unsorted_segment_sum(pg.asarray(x), pg.asarray(ids), 50).numpy()
        for _ in range(2)
    ]
    np.testing.assert_array_equal(first, second)
    exact = np.zeros((50, 3))
    np.add.at(exact, ids, x)
    np.testing.assert_allclose(first, exact, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("n", [1, 2, 3, 100, 5000])
def test_sorts_are_stable(n):
    x = RNG.integers(0, 7, (2, n)).astype("f4")
    y = pg.argsort(pg.asarray(x))
    np.testing.assert_array_equal(y.numpy(), np.argsort(x, kind="stable"))


CASES = {
    "x - x": lambda x: -(x - x),
    "x / x": lambda x: -(x / x),
    "(x + 1) - x": lambda x: -((x + 1.0) - x),
    "x * 0": lambda x: -(x * 0.0),
    "x * x - x * x": lambda x: -(x * x - x * x),
    "a product and a sum": lambda x: x * 1.1 + x * 0.3,
    "a sum at the end": lambda x: pg.sum(x * x * 1.5, axis=0),
}


@pytest.mark.parametrize("case", CASES)
def test_regions_have_the_bits_of_kernels(case):
    f, x = CASES[case], pg.asarray(SPECIAL)
    fast = pg.jit(f)
    fast(x)
    assert fast.explain(x).regions
    bits = [g(x).numpy().view("u4") & 0x7FFFFFFF for g in (fast, f)]
    np.testing.assert_array_equal(*bits)


def test_a_step_reads_a_reduction_of_the_same_shape():
    """A sum over an axis of size 1 keeps the shape, but ends a region."""
    x = np.arange(6, dtype=np.float32).reshape(6, 1)

    def f(x):
        return pg.exp(pg.sum(x * 2.0, axis=1, keepdims=True)) + x

    compiled = pg.jit(f)
    found = [compiled(pg.asarray(x)).numpy() for _ in range(3)]
    np.testing.assert_array_equal(found, [f(pg.asarray(x)).numpy()] * 3)


def test_simple_powers_have_the_bits_of_products():
    x = np.random.default_rng(0).normal(size=999).astype(np.float32)
    for exponent, expected in ((1.0, x), (2.0, x * x), (-1.0, 1 / x)):
        found = pg.pow(pg.asarray(x), pg.asarray(np.float32(exponent)))
        np.testing.assert_array_equal(found.numpy(), expected)
