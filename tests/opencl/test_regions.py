"""Regions as OpenCL C: their steps, their programs, and when these are dropped."""

import gc
import weakref
from collections import deque

import numpy as np
import plugrad as pg
import pytest

from tests.core.jit.helpers import look

X = np.linspace(-3, 3, 1003)


@pytest.fixture(autouse=True)
def on_opencl(device):
    """Run on opencl, without the kernels of earlier functions."""
    device._latest.clear()
    with pg.use_backend("opencl"):
        yield


def regions(f, *xs):
    """Compare with eager mode; return step counts of regions with several steps."""
    jitted = pg.jit(f)
    for _ in range(4):
        assert look(jitted(*xs)) == look(f(*xs))
    counts = [len(region.steps) for region in jitted.explain(*xs).regions]
    return [count for count in counts if count > 1]


def mixed_precision(x):
    """Return a result of elementary functions in float32 and in float64."""
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
        (
            "float32",
            mixed_precision,
            [],
        ),  # a program may have elementary functions of only one dtype
        ("float32", lambda x: pg.exp(x), []),  # the backend has this kernel
        ("int32", lambda x: x // 2 % 5, []),  # it needs loops, which cannot use vectors
        ("complex64", lambda x: x * x + x, []),
    ],
)
def test_dtypes(dtype, f, steps):
    assert regions(f, pg.asarray(X.astype(dtype))) == steps


def many_functions(x):
    """Return results of many functions in three dtypes: float32, bool and int32."""
    y = pg.sin(x * 7.5) + pg.tanh(x) * pg.pow(pg.abs(x), x) - pg.remainder(x, 0.7)
    z = pg.where(x > y, pg.erf(x), pg.exp(y)) / (pg.log1p(pg.square(x)) + 1.0)
    return y, z, z < y, pg.astype(z * 3.0, "int32")


@pytest.mark.parametrize(("lanes", "width"), [(4, 8), (8, 16), (16, 16)])
@pytest.mark.parametrize("shape", [(), (7,), (1003,), (3, 40), (40_003,)], ids=str)
def test_registers_affect_vector_widths_but_not_results(
    shape, lanes, width, device, monkeypatch
):
    monkeypatch.setattr(device, "lanes", lanes)
    gc.collect()  # programs of earlier functions
    before = {*device._launches}
    x = np.random.default_rng(0).normal(scale=4, size=shape).astype("float32")
    if x.size > 5:
        x.flat[:6] = np.nan, np.inf, -np.inf, -0.0, 3e6, -3e38
    x = pg.asarray(x)
    jitted = pg.jit(many_functions)
    for _ in range(4):
        assert look(jitted(x)) == look(many_functions(x))
    programs = [
        source for source, name in {*device._launches} - before if name == "region"
    ]
    assert programs
    width = width if device.style == "cpu" else 1
    assert all(f"#define WIDTH {width}\n" in source for source in programs)


@pytest.mark.parametrize(("row", "width"), [(10, 8), (100, 8), (128, 16), (300, 16)])
def test_short_rows_have_narrow_vectors(row, width, device, monkeypatch):
    monkeypatch.setattr(device, "lanes", 16)
    gc.collect()
    before = {*device._launches}
    x = pg.ones((30, row)) * 0.3
    bias = pg.arange(row, dtype="float32")
    f = lambda x, bias: pg.exp(x) * bias - x
    jitted = pg.jit(f)
    for _ in range(4):
        assert look(jitted(x, bias)) == look(f(x, bias))
    (programs,) = [
        code for code, name in {*device._launches} - before if name == "region"
    ]
    assert f"#define WIDTH {width if device.style == 'cpu' else 1}\n" in programs


def test_too_many_arguments_for_a_program():
    """Each input that broadcasts differently needs its own strides."""
    shapes = [(2, 1, 3, 1, 2), (1, 3, 1, 2, 1), (2, 3, 1, 1, 2), (1, 1, 3, 2, 1)] * 6
    xs = [pg.ones(s) * (n + 0.5) for n, s in enumerate(shapes[:23])]
    whole = pg.ones((2, 3, 3, 2, 2))
    assert regions(lambda *xs: sum(xs, whole), *xs[:20]) == [20]
    assert regions(lambda *xs: sum(xs, whole), *xs) == []


def test_numbers_are_not_part_of_a_program(device):
    x = pg.asarray(X.astype("float32"))
    before = {*device._launches}
    functions = []
    for alpha in (0.5, 0.25):
        f = lambda x, a=alpha: pg.leaky_relu(pg.cos(x) * a, alpha=a) + a
        functions.append(pg.jit(f))
        assert [look(functions[-1](x)) for _ in range(4)] == [look(f(x))] * 4
    programs = [name for _, name in {*device._launches} - before]
    assert programs.count("region") == 1


def test_a_function_that_is_recorded_again_finds_its_kernels(device):
    x = pg.asarray(X.astype("float32"))
    found = []
    for _ in range(2):
        jitted = pg.jit(lambda x: pg.sin(x) * 3.0 + x)
        results = [look(jitted(x)) for _ in range(4)]
        assert results == [results[0]] * 4
        launches = [k for k in device._launches.values() if k._name == "region"]
        found.append(weakref.ref(launches[-1]))
        del jitted, launches
        gc.collect()
    assert found[0]() is found[1]() is not None


def test_a_program_is_dropped_with_its_function(device, monkeypatch):
    monkeypatch.setattr(device, "_latest", deque(maxlen=1))
    x = pg.asarray(X.astype("float32"))
    used = []
    for count in range(2, 6):
        f = lambda x, n=count: sum([pg.sin(x * i) for i in range(n)], x)
        jitted = pg.jit(f)
        assert [look(jitted(x)) for _ in range(4)] == [look(f(x))] * 4
        names = [name for _, name in device._launches]
        assert "region" in names
        del jitted
        gc.collect()
        used.append((len(device._launches), len(device._programs)))
    assert len({*used[1:]}) == 1
