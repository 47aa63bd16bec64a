"""Regions that end in a reduction: one kernel, with the same bits as eager mode."""

import numpy as np
import plugrad as pg
import pytest

from tests.core.jit.helpers import look

from .test_regions import on_opencl  # noqa: F401  # a fixture

RNG = np.random.default_rng(5)


def draw(*shape):
    return pg.asarray(RNG.normal(size=shape).astype("float32"))


def fused(f, *xs):
    """Compare with eager mode; return the kernels of regions with several kernels."""
    jitted = pg.jit(f)
    for _ in range(4):
        assert look(jitted(*xs)) == look(f(*xs))
    found = jitted.explain(*xs).regions
    names = [[step.kernel.name for step in region.steps] for region in found]
    return [kernels for kernels in names if len(kernels) > 1]


REDUCTIONS = {
    "all": (pg.sum, {}, ["Sum"]),
    "rows": (pg.mean, {"axis": -1}, ["Mean"]),
    "columns": (pg.max, {"axis": 0}, ["Max"]),
    "in the middle": (pg.min, {"axis": 1, "keepdims": True}, ["Min"]),
    "two axes": (pg.mean, {"axis": (1, 2)}, ["Mean"]),
}


@pytest.mark.parametrize("end", REDUCTIONS)
@pytest.mark.parametrize("shape", [(3, 5, 7), (2, 130, 33), (40, 50, 64)], ids=str)
def test_a_reduction_joins_the_region(shape, end):
    fold, options, names = REDUCTIONS[end]
    f = lambda x, y: fold(pg.exp(x * 0.5) * y - 3.0, **options)
    regions = fused(f, draw(*shape), draw(*shape))
    assert regions == [["Multiply", "Exp", "Multiply", "Sub", *names]]


def test_special_numbers():
    x = draw(64, 90).numpy().copy()
    x.flat[::7] = np.inf
    x.flat[3::11] = np.nan
    x[5] = -0.0
    for fold in (pg.sum, pg.max, pg.min):
        for axis in (0, 1, None):
            fused(lambda x, a=axis, f=fold: f(pg.relu(-x) + x, axis=a), pg.asarray(x))


def test_other_dtypes():
    x = draw(50, 60)
    n = pg.asarray(RNG.integers(-5, 5, (50, 60), "int32"))
    f = lambda x, n: pg.sum(pg.where(n > 0, x, pg.astype(n, "float32")), axis=0)
    assert fused(f, x, n)[0][-1] == "Sum"
    assert all("Sum" not in names for names in fused(lambda n: pg.sum(n * n), n))


def test_values_that_are_read_elsewhere_are_stored():
    x = draw(30, 40)
    row = draw(40)
    both = lambda x: (pg.mean(x * x + 1.0), x * x + 1.0)
    (names,) = fused(both, x)
    assert names[0] == "Multiply"
    assert "Mean" in names
    two = lambda x: (pg.sum(pg.exp(x) * x, axis=0), pg.max(pg.exp(x) * x, axis=1))
    assert fused(two, x) == [["Exp", "Multiply", "Sum", "Max"]]
    assert fused(lambda x, y: pg.sum(x * y + x, axis=0), x, row)[0][-1] == "Sum"
    apart = lambda x: pg.sum(x * x + x, axis=(0, 2))
    assert fused(apart, draw(5, 6, 7)) == [["Multiply", "Add", "Sum"]]
    alone = lambda x: pg.sum(x * x, axis=(0, 2))  # fusing this is no faster
    assert fused(alone, draw(5, 6, 7)) == []


def test_a_sum_that_keeps_the_shape_is_not_a_reduction():
    x = draw(1, 40)
    keeps_shape = lambda x: pg.exp(pg.sum(x * x + x, axis=0, keepdims=True)) * 2.0
    assert all("Sum" not in names for names in fused(keeps_shape, x))
    fused(lambda x: pg.sum(x * x + x) * 2.0 + 1.0, draw())
    fused(lambda x: pg.sum(x * x + x, axis=0) * 2.0 + 1.0, x)


def test_gradients():
    x = draw(20, 30)
    y = draw(20, 30)
    loss = lambda x: pg.mean(pg.square(pg.tanh(x) - y))
    value = pg.jit(pg.value_and_grad(loss))
    for _ in range(4):
        assert look(value(x)) == look(pg.value_and_grad(loss)(x))
    names = [s.kernel.name for r in value.explain(x).regions for s in r.steps]
    assert "Mean" in names
