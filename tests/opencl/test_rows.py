"""Reductions, softmax and normalization of rows: values, and how many launches.

Kernels of GPUs differ by the length of rows, so the lengths are those around which they
change. The values are those of NumPy in float64.
"""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import runtime
from plugrad_opencl import reductions
from plugrad_opencl.runtime import Launch

ROOT = Path(__file__).parents[2]
LENGTHS = [1, 2, 31, 32, 33, 100, 513, 1000, 1024, 4097, 5000]
SHAPES = [*[(3, n) for n in LENGTHS], (1, 100), (1, 1), (67, 24), (300, 5), (2, 70_000)]
REDUCTIONS = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}
SPECIAL = [np.nan, np.inf, -np.inf]
UNITS = 132  # of the GPU whose launches are counted


@pytest.fixture(autouse=True)
def on_opencl():
    with pg.use_backend("opencl"):
        yield


@contextlib.contextmanager
def launches():
    """Collect the names of the kernels that are launched in the block."""
    found, call = [], Launch.__call__

    def counted(self, size, items, *args):
        found.append(self._name)
        return call(self, size, items, *args)

    Launch.__call__ = counted
    try:
        yield found
    finally:
        Launch.__call__ = call


@contextlib.contextmanager
def many_units():
    """Let the device plan its launches as one with ``UNITS`` units."""
    device = runtime("opencl").arrays.device
    before, device.units = device.units, UNITS
    reductions.planned.cache_clear()
    try:
        yield
    finally:
        device.units = before
        reductions.planned.cache_clear()


def draw(*shape):
    """Return the same numbers for the same shape."""
    return (np.random.default_rng(shape).normal(size=shape) * 2).astype(np.float32)


def close(found, expected, bound=5e-6):
    np.testing.assert_allclose(found.numpy(), expected, rtol=bound, atol=bound)


def jitted(f, *xs):
    """Return what a compiled function computes, and what it launches."""
    function = pg.jit(f)
    for _ in range(3):
        function(*xs)
    with launches() as ran:
        found = function(*xs)
    return found, ran


# --- values ----------------------------------------------------------------------


def check_reductions():
    shapes = [(x, axis) for x in SHAPES for axis in (0, 1)]
    shapes += [((5, n, m), 1) for n in (2, 33, 600) for m in (1, 31, 40)]
    shapes += [((4000, 3), 0), ((70_000, 9), 0), ((3, 4, 5), (0, 2)), ((9, 8), (0, 1))]
    for shape, axis in shapes:
        x = draw(*shape)
        count = np.prod([shape[i] for i in np.atleast_1d(axis)])
        for name, reference in REDUCTIONS.items():
            expected = reference(x.astype(np.float64), axis)
            scale = np.sqrt(count) if name == "sum" else 1.0
            close(getattr(pg, name)(x, axis=axis), expected, 2e-6 * scale)
        total, mean = pg.sum(x, axis=axis).numpy(), pg.mean(x, axis=axis).numpy()
        np.testing.assert_array_equal(mean, total / np.float32(count))


def check_special_reductions():
    for shape in [(3, 33), (3, 5000), (1, 70_000), (600, 40)]:
        for value in SPECIAL:
            for axis in (0, 1):
                x = draw(*shape)
                x[shape[0] // 2, shape[1] - 2] = value
                for name, reference in REDUCTIONS.items():
                    expected = reference(x, axis)
                    close(getattr(pg, name)(x, axis=axis), expected, 3e-4)


def check_dtypes_of_reductions():
    for dtype in ("float64", "complex64", "int32"):
        x = draw(3, 700).astype(dtype)
        for axis in (0, 1, (0, 1)):
            expected = np.sum(
                x.astype("complex128" if dtype[0] == "c" else dtype), axis
            )
            close(pg.sum(x, axis=axis), expected, 1e-4)
            if dtype != "int32":
                close(pg.mean(x, axis=axis), np.mean(x, axis), 1e-5)
    wide = draw(3, 700).astype("float64")
    close(pg.mean(wide, axis=1), wide.mean(1), 1e-14)
    with np.errstate(all="ignore"):
        assert np.isnan(pg.mean(np.empty((0, 3), np.float32), axis=0).numpy()).all()


def check_several_reductions():
    """Several at the end of a region, with inputs that broadcast, and an output."""
    for shape in [(300, 40), (3, 5000), (2, 3, 33), (1200, 9)]:
        x, y, row = draw(*shape), draw(*shape), draw(shape[-1])
        column = draw(*shape[:-1], 1)
        for axis in (0, len(shape) - 1, tuple(range(len(shape)))):

            def f(x, y, row, column, axis=axis):
                z = (x - column) * y + row
                found = [pg.sum(z, axis=axis), pg.mean(z * x, axis=axis, keepdims=True)]
                return [*found, pg.max(z, axis=axis), z * 2.0]

            given = [*map(pg.asarray, (x, y, row, column))]
            found, _ = jitted(f, *given)
            for a, b in zip(found, f(*given), strict=True):
                np.testing.assert_array_equal(a.numpy(), b.numpy())
            z = (x.astype(np.float64) - column) * y + row
            close(found[0], z.sum(axis), 1e-5 * np.sqrt(z.size))
            close(found[1], (z * x).mean(axis, keepdims=True), 2e-5)
            close(found[2], z.max(axis), 2e-6)
            close(found[3], z * 2, 5e-6)


CHECKS = {
    "reductions": check_reductions,
    "special values": check_special_reductions,
    "dtypes": check_dtypes_of_reductions,
    "several reductions": check_several_reductions,
}


@pytest.mark.parametrize("name", CHECKS)
def test_values_in_the_style_of_the_device(name):
    CHECKS[name]()


# --- launches on a GPU -----------------------------------------------------------

# An array, what is done with it, and how many kernels that takes.
ALONE = [
    ((512, 256), lambda x: pg.mean(x, axis=1), 1),
    ((1000,), pg.mean, 1),
    ((512, 256), lambda x: pg.sum(x, axis=0), 1),
    ((512, 1024), lambda x: pg.sum(x, axis=0), 1),
    ((128, 256), lambda x: pg.mean(x, axis=0), 1),
    ((1024, 1024), lambda x: pg.sum(x, axis=0), 1),
    ((1024, 1024), lambda x: pg.sum(x, axis=1), 1),
    ((4, 128, 256), lambda x: pg.mean(x, axis=(0, 1)), 1),
    ((5, 6, 7), lambda x: pg.mean(x, axis=(0, 2)), 2),
    ((1 << 20,), pg.mean, 2),  # a second launch costs less than a single group
    ((1 << 17, 8), lambda x: pg.sum(x, axis=0), 2),
]


def check_launches():
    for shape, f, count in ALONE:
        x = pg.asarray(draw(*shape))
        with launches() as ran:
            y = f(x)
        assert len(ran) == count, (shape, ran)
        close(y, f(draw(*shape).astype(np.float64)).numpy(), 1e-3)


def check_launches_of_regions():
    x, y, row = map(pg.asarray, (draw(512, 256), draw(512, 256), draw(256)))
    loss = lambda x, y: pg.mean(pg.square(x - y), axis=0)
    assert jitted(loss, x, y)[1] == ["reduce"]
    both = lambda x, y: (pg.sum(x * y + x, axis=0), pg.sum(x * y, axis=0))
    assert jitted(both, x, y)[1] == ["reduce"]
    stored = lambda x, y, row: (x * y + row, pg.sum(x * y + row, axis=0))
    assert jitted(stored, x, y, row)[1] == ["reduce"]


COUNTS = {"launches": check_launches, "launches of regions": check_launches_of_regions}


def test_in_the_style_of_gpus():
    """In a process of its own: the style is that of a device for good."""
    code = (
        "import plugrad as pg\n"
        "from plugrad.plugin import runtime\n"
        "pg.set_backend('opencl')\n"
        "from tests.opencl.test_rows import CHECKS, COUNTS, many_units\n"
        "for check in CHECKS.values(): check()\n"
        "with many_units():\n"
        "    for check in [*CHECKS.values(), *COUNTS.values()]: check()\n"
        "print(runtime('opencl').arrays.device.style, len(CHECKS))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {"PLUGRAD_OPENCL_STYLE": "gpu"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["gpu", str(len(CHECKS))]
