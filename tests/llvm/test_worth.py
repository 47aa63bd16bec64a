"""Which regions are worth compiling; for the others, LLVM is not imported."""

import subprocess
import sys

import numpy as np
import plugrad as pg
import pytest
from plugrad_llvm import worth

from .helpers import OWNER, bits

MIN_WORK, MAX_DEPTH = worth.MIN_WORK, worth.MAX_DEPTH  # conftest.py replaces them


@pytest.fixture
def chosen(monkeypatch):
    """Compile only regions that are worth it."""
    monkeypatch.setattr(worth, "MIN_WORK", MIN_WORK)
    monkeypatch.setattr(worth, "MAX_DEPTH", MAX_DEPTH)
    worth._work_counter.cache_clear()


def chain(count):
    """Return a function of ``count`` kernels, which form a chain."""

    def f(x, y):
        result = x * y
        for i in range(count - 1):
            result = result + y if i % 2 else result * x
        return result

    return f


def repeated(function, count):
    """Return a function that applies ``function`` repeatedly."""

    def f(x, y):
        for _ in range(count):
            x = function(x)
        return x + y

    return f


REDUCING = {
    "mean of squares": lambda x, y: pg.mean((x - y) ** 2),
    "with its gradient": pg.value_and_grad(lambda x, y: pg.mean(pg.square(x - y))),
    "sum of rows": lambda x, y: pg.sum(x * y + x, axis=-1),
    "sum of columns": lambda x, y: pg.sum(x * y + x, axis=0),
    "several": lambda x, y: (pg.max(x * y), pg.min(x * y), x * y + 1.0),
}


@pytest.mark.parametrize(
    ("f", "shape", "dtype", "compiled"),
    [
        (chain(9), (100,), "float32", False),
        (chain(9), (10_000,), "float32", False),
        (chain(9), (80_000,), "float32", True),
        (chain(2), (500_000,), "float32", False),
        (chain(2), (700_000,), "float32", True),
        (chain(2), (100,), "float64", True),
        (repeated(pg.tanh, 2), (700_000,), "float32", True),
        (repeated(pg.tanh, 3), (700_000,), "float32", False),
        (REDUCING["mean of squares"], (1024, 1024), "float64", True),
    ],
)
def test_which_regions_are_worth_compiling(f, shape, dtype, compiled, chosen):
    jitted = pg.jit(f)
    xs = [pg.asarray(np.ones(shape, dtype)) for _ in "xy"]
    by = {region.by.split()[0] for region in jitted.explain(*xs).regions}
    assert (OWNER in by) == compiled


def check(f, *xs):
    """Compare with eager mode; return who runs the only region, and its kernels."""
    jitted = pg.jit(f)
    expected = bits(f(*xs))
    for _ in range(4):
        assert bits(jitted(*xs)) == expected
    (region,) = jitted.explain(*xs).regions
    return region.by.split()[0], [step.kernel.name for step in region.steps]


@pytest.mark.parametrize("name", REDUCING)
def test_short_regions_that_reduce_are_left_to_cpu(name, chosen):
    rng = np.random.default_rng(0)
    xs = [pg.asarray(rng.standard_normal((1024, 600)).astype("f4")) for _ in "xy"]
    by, kernels = check(REDUCING[name], *xs)
    assert by == "plugrad-cpu"
    assert worth.REDUCTIONS.intersection(kernels)


@pytest.mark.parametrize("axis", [None, -1, 0])
def test_long_regions_that_reduce_are_compiled(axis, chosen):
    """The kernel of the reduction reads what machine code has written."""
    f = chain(worth.REDUCTION_MAX_STEPS + 1)
    rng = np.random.default_rng(0)
    xs = [pg.asarray(rng.uniform(0.5, 1, (1024, 600)).astype("f4")) for _ in "xy"]
    for g in (
        lambda x, y: pg.mean(f(x, y), axis=axis),
        lambda x, y: (pg.sum(f(x, y), axis=axis), f(x, y) * 2.0, pg.max(x)),
    ):
        by, kernels = check(g, *xs)
        assert by == OWNER
        assert worth.REDUCTIONS.intersection(kernels)


def test_regions_that_are_not_worth_compiling_import_nothing():
    program = "import sys, plugrad as pg; pg.set_backend('cpu')\n"
    program += "f = pg.jit(pg.grad(lambda x: pg.mean(pg.gelu(pg.softmax(x) * 2.0))))\n"
    program += "x = pg.ones((256, 256)); f(x); f(x); print('llvmlite' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    assert done.stdout == "False\n", done.stderr


def test_equal_regions_share_the_cost_of_compilation(chosen):
    """The first regions are left to cpu; together, the others save enough time."""
    weights = [pg.asarray(np.full(31_000, k, "f4")) for k in range(40)]
    jitted = pg.jit(lambda xs: [chain(8)(x, x * 0.5) for x in xs])
    expected = bits([chain(8)(x, x * 0.5) for x in weights])
    for _ in range(4):
        assert bits(jitted(weights)) == expected
    by = [region.by.split()[0] for region in jitted.explain(weights).regions]
    assert len(by) == len(weights)
    assert by[:2] == ["plugrad-cpu"] * 2
    assert by[3:] == [OWNER] * 37
