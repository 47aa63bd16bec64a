"""Reductions, softmax and normalization of rows: values, and numbers of launches.

On a GPU, the kernel depends on the length of rows; LENGTHS are near its thresholds.
Values are compared with NumPy's in float64.
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
LENGTHS = [1, 2, 31, 32, 33, 100, 513, 1000, 1024, 4095, 4097, 9000]
SHAPES = [*[(3, n) for n in LENGTHS], (1, 100), (1, 1), (67, 24), (300, 5), (2, 70_000)]
REDUCTIONS = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}
SPECIAL = [np.nan, np.inf, -np.inf]
UNITS = 132  # compute units of the GPU whose launches are counted


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
    """Make the device plan its launches as if it had ``UNITS`` compute units."""
    device = runtime("opencl").arrays.device
    before, device.units = device.units, UNITS
    forget_plans()
    try:
        yield
    finally:
        device.units = before
        forget_plans()


def forget_plans():
    """Make kernels plan their launches anew."""
    from plugrad_opencl.kernels import KERNELS

    reductions._along.cache_clear()
    for kernel in KERNELS.values():
        getattr(kernel, "known", {}).clear()


def draw(*shape):
    """Return the same numbers for the same shape."""
    return (np.random.default_rng(shape).normal(size=shape) * 2).astype(np.float32)


def assert_close(found, expected, bound=5e-6):
    np.testing.assert_allclose(found.numpy(), expected, rtol=bound, atol=bound)


def jitted(f, *xs):
    """Return the results of a compiled function, and the kernels that it launches."""
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
            assert_close(getattr(pg, name)(x, axis=axis), expected, 2e-6 * scale)
        total = pg.sum(x, axis=axis).numpy()
        mean = pg.mean(x, axis=axis).numpy()
        np.testing.assert_array_equal(mean, total / np.float32(count))


def check_special_reductions():
    for shape in [(3, 33), (3, 5000), (1, 70_000), (600, 40)]:
        for value in SPECIAL:
            for axis in (0, 1):
                x = draw(*shape)
                x[shape[0] // 2, shape[1] - 2] = value
                for name, reference in REDUCTIONS.items():
                    expected = reference(x, axis)
                    assert_close(getattr(pg, name)(x, axis=axis), expected, 3e-4)


def check_arg():
    """Expect the first of equal elements, and NaN only where there is nothing else."""
    shapes = [*SHAPES, (600, 70), (3, 40, 33), (2, 5, 1), (70_000, 2)]
    for shape in shapes:
        for axis in range(len(shape)):
            x = np.round(draw(*shape))  # many elements are equal
            x.flat[:: 7 if x.size > 7 else 1] = np.nan
            x.flat[3::11] = np.inf
            x.flat[5::13] = -np.inf
            for op, worst, reference in [
                (pg.argmax, -np.inf, np.argmax),
                (pg.argmin, np.inf, np.argmin),
            ]:
                # Every number is preferred to NaN, even the worst one.
                order = np.where(np.isnan(x), worst, x)
                number = ~np.isnan(x) & (order == worst)
                expected = reference(order, axis)
                best = np.take_along_axis(order, np.expand_dims(expected, axis), axis)
                only_worst = (best == worst).squeeze(axis) & number.any(axis)
                expected = np.where(only_worst, np.argmax(number, axis), expected)
                all_nan = np.isnan(x).all(axis)
                expected = np.where(all_nan, 0, expected)
                found = op(pg.asarray(x), axis=axis).numpy()
                np.testing.assert_array_equal(found, expected, err_msg=str(shape))
                integers = np.round(draw(*shape)).astype(np.int32)
                found = op(pg.asarray(integers), axis=axis).numpy()
                np.testing.assert_array_equal(found, reference(integers, axis))


def check_dtypes_of_reductions():
    for dtype in ("float64", "complex64", "int32"):
        x = draw(3, 700).astype(dtype)
        for axis in (0, 1, (0, 1)):
            expected = np.sum(
                x.astype("complex128" if dtype[0] == "c" else dtype), axis
            )
            assert_close(pg.sum(x, axis=axis), expected, 1e-4)
            if dtype != "int32":
                assert_close(pg.mean(x, axis=axis), np.mean(x, axis), 1e-5)
    wide = draw(3, 700).astype("float64")
    assert_close(pg.mean(wide, axis=1), wide.mean(1), 1e-14)
    with np.errstate(all="ignore"):
        assert np.isnan(pg.mean(np.empty((0, 3), np.float32), axis=0).numpy()).all()


def check_several_reductions():
    """Check regions with broadcast inputs, several reductions and a stored output."""
    for shape in [(300, 40), (3, 5000), (2, 3, 33), (1200, 9)]:
        x = draw(*shape)
        y = draw(*shape)
        row = draw(shape[-1])
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
            assert_close(found[0], z.sum(axis), 1e-5 * np.sqrt(z.size))
            assert_close(found[1], (z * x).mean(axis, keepdims=True), 2e-5)
            assert_close(found[2], z.max(axis), 2e-6)
            assert_close(found[3], z * 2, 5e-6)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def check_softmax():
    for shape in SHAPES:
        for scale in (1.0, 20.0):  # with 20, one element dominates
            x = draw(*shape) * np.float32(scale)
            dy = draw(*shape[::-1]).T.copy()
            wide = x.astype(np.float64)
            y = softmax(wide)
            found, pull_back = pg.vjp(pg.softmax, pg.asarray(x))
            assert_close(found, y, 1e-5)
            (dx,) = pull_back(pg.asarray(dy))
            assert_close(dx, y * (dy - (dy * y).sum(-1, keepdims=True)), 1e-5)
            found, pull_back = pg.vjp(pg.log_softmax, pg.asarray(x))
            shifted = wide - wide.max(-1, keepdims=True)
            total = np.log(np.exp(shifted).sum(-1, keepdims=True))
            assert_close(found, shifted - total, 1e-5)
            (dx,) = pull_back(pg.asarray(dy))
            bound = 2e-6 * np.sqrt(shape[-1]) + 1e-5
            assert_close(dx, dy - y * dy.sum(-1, keepdims=True, dtype="float64"), bound)


def check_layer_norm():
    for shape in SHAPES:
        x = draw(*shape)
        dy = draw(*shape[::-1]).T.copy()
        wide = x.astype(np.float64)
        n = shape[-1]
        scale = draw(n, 1)[:, 0]
        offset = draw(n, 2)[:, 0]
        factor = 1 / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
        z = (wide - wide.mean(-1, keepdims=True)) * factor
        f = lambda *xs: pg.layer_norm(*xs)
        for params in ((), (scale,), (scale, offset)):
            found, pull_back = pg.vjp(f, *map(pg.asarray, (x, *params)))
            y = z * (params[0] if params else 1) + (params[1] if params[1:] else 0)
            assert_close(found, y, 1e-5)
            gradients = pull_back(pg.asarray(dy))
            g = dy * (params[0].astype(np.float64) if params else 1.0)
            part = (g * z).mean(-1, keepdims=True)
            assert_close(
                gradients[0], (g - g.mean(-1, keepdims=True) - z * part) * factor, 2e-5
            )
            for found, slope in zip(gradients[1:], (dy * z, dy), strict=False):
                assert_close(found, slope.sum(0, dtype="float64"), 1e-4)


def check_special_rows():
    """Check that NaN and infinities stay in their rows if rows share a work group."""
    for n in (10, 33, 100, 1024, 5000, 9000, 17_000):
        x = draw(7, n)
        dy = draw(n, 7).T.copy()
        scale = draw(n)
        ops = [pg.softmax, pg.log_softmax, lambda x, s=scale: pg.layer_norm(x, s)]
        clean = [both_ways(op, x, dy) for op in ops]
        x[1, n - 2] = np.nan
        x[2, 0] = np.inf
        x[4] = -np.inf
        for op, rows in zip(ops, clean, strict=True):
            for found, before in zip(both_ways(op, x, dy), rows, strict=True):
                assert np.isnan(found[[1, 2, 4]]).all()
                special = [1, 2, 4]
                np.testing.assert_array_equal(
                    np.delete(found, special, 0), np.delete(before, special, 0)
                )
        x[4] = draw(7, n)[4]
        x[4, n // 2] = -np.inf
        y = pg.softmax(x).numpy()[4]
        assert_close(pg.asarray(y), softmax(x[4].astype(np.float64)), 1e-5)


def both_ways(op, x, dy):
    """Return a result and its gradient."""
    y, pull_back = pg.vjp(op, pg.asarray(x))
    return [y.numpy(), pull_back(pg.asarray(dy))[0].numpy()]


def check_rows_of_float64():
    for n in (10, 33, 514, 5000, 9000):
        x = draw(3, n).astype(np.float64)
        assert_close(pg.softmax(x), softmax(x), 1e-13)
        pg.check_gradients(lambda x: pg.layer_norm(x), x[:, :34])
        pg.check_gradients(pg.grad(lambda x: pg.sum(pg.layer_norm(x) ** 3)), x[:, :9])


CHECKS = {
    "softmax": check_softmax,
    "layer_norm": check_layer_norm,
    "special rows": check_special_rows,
    "rows of float64": check_rows_of_float64,
    "reductions": check_reductions,
    "special values": check_special_reductions,
    "dtypes": check_dtypes_of_reductions,
    "arg": check_arg,
    "several reductions": check_several_reductions,
}


@pytest.mark.parametrize("name", CHECKS)
def test_values_in_the_style_of_the_device(name):
    CHECKS[name]()


# --- launches on a GPU -----------------------------------------------------------

# The shape of an array, a function of it, and the number of launches.
SINGLE_OPS = [
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
    for shape, f, count in SINGLE_OPS:
        x = pg.asarray(draw(*shape))
        with launches() as ran:
            y = f(x)
        assert len(ran) == count, (shape, ran)
        assert_close(y, f(draw(*shape).astype(np.float64)).numpy(), 1e-3)


def check_launches_of_regions():
    x, y, row = map(pg.asarray, (draw(512, 256), draw(512, 256), draw(256)))
    loss = lambda x, y: pg.mean(pg.square(x - y), axis=0)
    assert jitted(loss, x, y)[1] == ["reduce"]
    both = lambda x, y: (pg.sum(x * y + x, axis=0), pg.sum(x * y, axis=0))
    assert jitted(both, x, y)[1] == ["reduce"]
    stored = lambda x, y, row: (x * y + row, pg.sum(x * y + row, axis=0))
    assert jitted(stored, x, y, row)[1] == ["reduce"]


def check_launches_of_rows():
    x, dy, row = map(pg.asarray, (draw(512, 256), draw(256, 512).T, draw(256)))
    for op, names in [
        (pg.softmax, ["softmax", "softmax_grad"]),
        (pg.log_softmax, ["softmax", "softmax_grad"]),
        (pg.layer_norm, ["layer_norm", "layer_norm_grad"]),
    ]:
        with launches() as ran:
            both_ways(op, x, dy)
        assert ran == names

    def slopes(x, scale, offset, dy):
        return pg.vjp(lambda *xs: pg.layer_norm(*xs), x, scale, offset)[1](dy * 2.0)

    _, ran = jitted(slopes, x, row, row, dy)
    assert sorted(ran) == ["layer_norm", "reduce", "rows_region"]


COUNTS = {
    "launches": check_launches,
    "launches of regions": check_launches_of_regions,
    "launches of rows": check_launches_of_rows,
}
# Checks whose launches depend on the number of compute units.
PLANNED = ("reductions", "special values", "dtypes", "several reductions")
# Without --all, fewer checks run, with fewer shapes: compiling for all takes minutes.
CHECKS_WITHOUT_ALL = ("softmax", "launches", "launches of rows")
SHAPES_WITHOUT_ALL = [(3, 33), (67, 24), (3, 4097)]


def test_values_and_launches_with_the_kernels_for_gpus(request):
    """This needs a new process, because the style of a device is fixed in a process."""
    if request.config.getoption("all"):
        names = (*CHECKS, *COUNTS)
        shapes = SHAPES
    else:
        names = CHECKS_WITHOUT_ALL
        shapes = SHAPES_WITHOUT_ALL
    code = (
        "import plugrad as pg\n"
        "from plugrad.plugin import runtime\n"
        "pg.set_backend('opencl')\n"
        "from tests.opencl.test_rows import CHECKS, COUNTS, PLANNED\n"
        "from tests.opencl.test_rows import SHAPES, many_units\n"
        f"names = {names}\n"
        f"SHAPES[:] = {shapes}\n"
        "for name in names:\n"
        "    if name in CHECKS: CHECKS[name]()\n"
        "with many_units():\n"
        "    for name in names:\n"
        "        if name in PLANNED: CHECKS[name]()\n"
        "        if name in COUNTS: COUNTS[name]()\n"
        "print(runtime('opencl').arrays.device.style, len(names))"
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
    assert done.stdout.split() == ["gpu", str(len(names))]
