"""Which regions machine code is worth, and what is imported for the others."""

import subprocess
import sys

import numpy as np
import plugrad as pg
import pytest
from plugrad_llvm import worth

from .helpers import OWNER, bits

LEAST, DEEPEST = worth.MIN_WORK, worth.MAX_DEPTH  # which conftest.py replaces


@pytest.fixture
def chosen(monkeypatch):
    """Compile what is worth it."""
    monkeypatch.setattr(worth, "MIN_WORK", LEAST)
    monkeypatch.setattr(worth, "MAX_DEPTH", DEEPEST)
    worth._saved.cache_clear()


def chain(count):
    """Return as many kernels, of which each reads what the last has made."""

    def f(x, y):
        made = x * y
        for i in range(count - 1):
            made = made + y if i % 2 else made * x
        return made

    return f


def chained(function, count):
    """Return a function of itself."""

    def f(x, y):
        for _ in range(count):
            x = function(x)
        return x + y

    return f


MEANS = {
    "mean of squares": lambda x, y: pg.mean((x - y) ** 2),
    "with its gradient": pg.value_and_grad(lambda x, y: pg.mean(pg.square(x - y))),
    "sum of rows": lambda x, y: pg.sum(x * y + x, axis=-1),
    "sum of columns": lambda x, y: pg.sum(x * y + x, axis=0),
    "several": lambda x, y: (pg.max(x * y), pg.min(x * y), x * y + 1.0),
}


@pytest.mark.parametrize(
    ("f", "shape", "dtype", "taken"),
    [
        (chain(9), (100,), "float32", False),
        (chain(9), (10_000,), "float32", False),
        (chain(9), (80_000,), "float32", True),
        (chain(2), (500_000,), "float32", False),
        (chain(2), (700_000,), "float32", True),
        (chain(2), (100,), "float64", True),
        (chained(pg.tanh, 2), (700_000,), "float32", True),
        (chained(pg.tanh, 3), (700_000,), "float32", False),
        (MEANS["mean of squares"], (1024, 1024), "float64", True),
    ],
)
def test_what_is_worth_it(f, shape, dtype, taken, chosen):
    jitted = pg.jit(f)
    xs = [pg.asarray(np.ones(shape, dtype)) for _ in "xy"]
    by = {region.by.split()[0] for region in jitted.explain(*xs).regions}
    assert (OWNER in by) == taken


def check(f, *xs):
    """Compare with eager; return the only region: who runs it, and its kernels."""
    jitted = pg.jit(f)
    expected = bits(f(*xs))
    for _ in range(4):
        assert bits(jitted(*xs)) == expected
    (region,) = jitted.explain(*xs).regions
    return region.by.split()[0], [step.kernel.name for step in region.steps]


@pytest.mark.parametrize("name", MEANS)
def test_short_regions_that_reduce_are_left_to_cpu(name, chosen):
    rng = np.random.default_rng(0)
    xs = [pg.asarray(rng.standard_normal((1024, 600)).astype("f4")) for _ in "xy"]
    by, kernels = check(MEANS[name], *xs)
    assert by == "plugrad-cpu"
    assert worth.REDUCTIONS.intersection(kernels)


@pytest.mark.parametrize("axis", [None, -1, 0])
def test_long_regions_that_reduce(axis, chosen):
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


def test_nothing_is_imported_for_what_is_not_worth_it():
    program = "import sys, plugrad as pg; pg.set_backend('cpu')\n"
    program += "f = pg.jit(pg.grad(lambda x: pg.mean(pg.gelu(pg.softmax(x) * 2.0))))\n"
    program += "x = pg.ones((256, 256)); f(x); f(x); print('llvmlite' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    assert done.stdout == "False\n", done.stderr


def test_regions_that_are_alike_share_what_they_cost(chosen):
    """The first is left to cpu, and the others save enough together."""
    weights = [pg.asarray(np.full(31_000, k, "f4")) for k in range(40)]
    jitted = pg.jit(lambda xs: [chain(8)(x, x * 0.5) for x in xs])
    expected = bits([chain(8)(x, x * 0.5) for x in weights])
    for _ in range(4):
        assert bits(jitted(weights)) == expected
    by = [region.by.split()[0] for region in jitted.explain(weights).regions]
    assert len(by) == len(weights)
    assert by[:2] == ["plugrad-cpu"] * 2
    assert by[3:] == [OWNER] * 37
