"""Regions as OpenCL C: which there are, their programs, and when these go."""

import gc

import numpy as np
import plugrad as pg
import pytest

from tests.core.jit.helpers import look

X = np.linspace(-3, 3, 1003)


@pytest.fixture(autouse=True)
def on_opencl():
    """Run on opencl."""
    with pg.use_backend("opencl"):
        yield


def regions(f, *xs):
    """Compare with eager; return the number of steps of each region."""
    jitted = pg.jit(f)
    for _ in range(3):
        assert look(jitted(*xs)) == look(f(*xs))
    return [len(region.steps) for region in jitted.explain(*xs).regions]


def both(x):
    """Return what elementary functions of two dtypes make; one line joins them."""
    wide = pg.exp(pg.astype(x, "float64"))
    return pg.where(wide > 1.0, pg.exp(x), pg.astype(pg.tanh(wide), "float32"))


@pytest.mark.parametrize(
    ("dtype", "f", "steps"),
    [
        ("float64", lambda x: pg.tanh(x * x) - pg.floor(x), [4]),
        ("int64", lambda x: pg.where(x > 1, x * x, -x) + 3, [5]),
        ("uint8", lambda x: pg.maximum(x * 3, x) + x, [3]),
        ("int16", lambda x: pg.astype(x, "float32") * 0.5 + 1.0, [3]),
        ("float32", lambda x: pg.astype(x * 3.0, "int32") * 2, [3]),
        ("float32", lambda x: pg.astype(x, "float64") * 2.0 + 1.0, [3]),
        ("float32", both, []),  # elementary functions are of one dtype in a program
        ("float32", lambda x: pg.exp(x), []),  # the kernel does the same
        ("int32", lambda x: x // 2 % 5, []),  # loops, which are not of vectors
        ("complex64", lambda x: x * x + x, []),
    ],
)
def test_dtypes(dtype, f, steps):
    assert regions(f, pg.asarray(X.astype(dtype))) == steps


def test_too_many_arguments_for_a_program():
    """Inputs that broadcast in their own ways each have strides."""
    shapes = [(2, 1, 3, 1, 2), (1, 3, 1, 2, 1), (2, 3, 1, 1, 2), (1, 1, 3, 2, 1)] * 6
    xs = [pg.ones(s) * (n + 0.5) for n, s in enumerate(shapes[:23])]
    whole = pg.ones((2, 3, 3, 2, 2))
    assert regions(lambda *xs: sum(xs, whole), *xs[:20]) == [20]
    assert regions(lambda *xs: sum(xs, whole), *xs) == []


def test_numbers_are_no_part_of_a_program(device):
    x, before = pg.asarray(X.astype("float32")), {*device._launches}
    held = []
    for alpha in (0.5, 0.25):
        f = lambda x, a=alpha: pg.leaky_relu(pg.cos(x) * a, alpha=a) + a
        held.append(pg.jit(f))
        assert look(held[-1](x)) == look(held[-1](x)) == look(f(x))
    made = [name for _, name in {*device._launches} - before]
    assert made.count("region") == 1


def test_a_program_goes_with_its_function(device):
    x, used = pg.asarray(X.astype("float32")), []
    for count in range(2, 6):
        f = lambda x, n=count: sum([pg.sin(x * i) for i in range(n)], x)
        jitted = pg.jit(f)
        assert look(jitted(x)) == look(jitted(x)) == look(f(x))
        names = [name for _, name in device._launches]
        assert "region" in names
        del jitted
        gc.collect()
        used.append((len(device._launches), len(device._programs)))
    assert len({*used[1:]}) == 1
