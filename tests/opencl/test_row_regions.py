"""Row kernels for GPUs, fused with neighboring steps: the same bits as eager mode."""

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import runtime

from tests.core.jit.helpers import look

from .styles import run_as_gpu
from .test_regions import on_opencl  # noqa: F401  # a fixture
from .test_rows import launches

FLAT = [(3, 1), (5, 31), (2, 100), (3, 1024), (2, 5000)]
SHAPES = [*FLAT, (2, 17_000), (2, 3, 7, 36), (64, 128)]
SPECIAL = [np.nan, np.inf, -np.inf]


def draw(*shape, seed=0):
    """Return the same numbers for the same shape and seed."""
    x = np.random.default_rng((seed, *shape)).normal(size=shape) * 2
    return pg.asarray(x.astype("float32"))


def is_gpu():
    return runtime("opencl").arrays.device.style == "gpu"


def fused(f, *xs):
    """Compare with eager mode; return the names of the kernels that jit launches."""
    ran = []
    function = pg.jit(f)
    expected = look(f(*xs))
    for _ in range(5):  # the last calls replay recorded launches
        with launches() as found:
            assert look(function(*xs)) == expected
        ran = found or ran
    return ran


def in_one_launch(f, *xs):
    """Compare with eager mode; on a GPU, ``f`` must be one launch if a row fits."""
    ran = fused(f, *xs)
    if is_gpu() and xs[0].shape[-1] <= 16_384:
        assert ran == ["rows_region"]


def slopes(op):
    """Return the gradient of a row kernel, as a function of x and dy."""
    return lambda x, dy: pg.vjp(op, x)[1](dy)[0]


ROWS = {
    "softmax": pg.softmax,
    "log_softmax": pg.log_softmax,
    "layer_norm": lambda x: pg.layer_norm(x),
}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_prologue_and_epilogue(name, shape):
    op = ROWS[name]
    x = draw(*shape)
    y = draw(*shape, seed=1)
    in_one_launch(lambda x: op(x * 0.25), x)
    in_one_launch(lambda x: pg.tanh(op(x)) * 2.0, x)
    in_one_launch(lambda x, y: op(pg.exp(x * 0.5) + y) * x - y, x, y)
    in_one_launch(lambda x, y: (x + y, op(x + y)), x, y)
    f = lambda x, y: (op(x - y), x - y, op(x - y) > 0.1, pg.exp(x - y))
    in_one_launch(f, x, y)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_broadcasts(shape):
    x = draw(*shape)
    scalar = draw()
    row = draw(shape[-1])
    column = draw(*shape[:-1], 1)
    for op in ROWS.values():
        for other in (scalar, row, column):
            in_one_launch(lambda x, y, op=op: op(x * y) + y, x, other)
        f = lambda x, a, b, c, op=op: op(x * a + b) * c - a
        in_one_launch(f, x, scalar, row, column)
    scaled = lambda x, a, b: pg.tanh(pg.layer_norm(x * 2.0, a, b) + x)
    in_one_launch(scaled, x, row, draw(shape[-1], seed=2))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_masks(shape):
    x = draw(*shape)
    full = x > 0.0
    row = draw(shape[-1]) > 0.5
    outer = draw(*shape[:1], *[1] * (len(shape) - 2), shape[-1]) > -1.0
    for mask in (full, row, outer):
        for fill in (-np.inf, -1e9):
            f = lambda x, mask, fill=fill: pg.softmax(pg.where(mask, x, fill))
            in_one_launch(f, x, mask)
            g = lambda x, mask, fill=fill: pg.where(
                mask, pg.log_softmax(pg.where(mask, x * 0.1, fill)), 0.0
            )
            in_one_launch(g, x, mask)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_gradients(name, shape):
    op = ROWS[name]
    x = draw(*shape)
    dy = draw(*shape, seed=1)
    ran = fused(lambda x, dy: slopes(op)(x, dy * 0.5) * 0.125 + dy, x, dy)
    if is_gpu() and shape[-1] <= 16_384:
        assert ran[-1] == "rows_region"
        assert len(ran) == 1 + (name != "layer_norm")  # softmax is another launch
    scaled = lambda x, scale, dy: pg.vjp(
        lambda x, s: pg.layer_norm(pg.tanh(x), s), x, scale
    )[1](dy)
    fused(scaled, x, draw(shape[-1]), dy)


def test_special_numbers():
    for n in (10, 100, 1024):
        x = draw(7, n).numpy().copy()
        for i, value in enumerate(SPECIAL):
            x[i, n // 2] = value
        x[4] = -np.inf
        x[5] = -0.0
        y = draw(7, n)
        for op in ROWS.values():
            in_one_launch(lambda x, y, op=op: pg.relu(op(pg.relu(x) - y)), x, y)
            in_one_launch(lambda x, y, op=op: op(x * 2.0) * y, pg.asarray(x), y)


def test_several_row_kernels():
    for shape in [(5, 31), (3, 1024)]:
        x = draw(*shape)
        y = draw(*shape, seed=1)
        chain = lambda x, y: pg.softmax(pg.layer_norm(x + y) * 2.0 - x) * y
        ran = fused(chain, x, y)
        assert not is_gpu() or ran == ["rows_region"] * 2
        both = lambda x, y: (pg.softmax(x * y), pg.log_softmax(x * y) + y)
        ran = fused(both, x, y)
        assert not is_gpu() or ran == ["rows_region"] * 2
        apart = lambda x, y: pg.softmax(x * 2.0) + pg.layer_norm(pg.exp(y) - x)
        ran = fused(apart, x, y)
        assert not is_gpu() or ran == ["rows_region"] * 2
        three = lambda x, y: pg.softmax(pg.softmax(pg.softmax(x) * y) + x)
        assert len(fused(three, x, y)) <= (3 if is_gpu() else 5)


def test_reductions_after_rows():
    for shape in [(5, 31), (40, 1024)]:
        x = draw(*shape)
        y = draw(*shape, seed=1)
        for axis in (0, 1, None):
            f = lambda x, y, axis=axis: pg.sum(pg.softmax(x * 2.0) * y, axis=axis)
            ran = fused(f, x, y)
            assert not is_gpu() or ran == ["rows_region", "reduce"]
            g = lambda x, y, axis=axis: (pg.mean(x * y, axis=axis), pg.softmax(x * y))
            assert len(fused(g, x, y)) <= 3
        both = lambda x, y: pg.softmax(x - pg.sum(x * y, axis=1, keepdims=True)) * y
        fused(both, x, y)


def test_reductions_over_several_axes():
    x = draw(40, 50)
    y = draw(40, 50, seed=1)
    two = lambda x, y: (pg.sum(pg.exp(x) * y, axis=0), pg.max(pg.exp(x) * y, axis=1))
    ran = fused(two, x, y)
    assert not is_gpu() or ran == ["reduce"] * 2
    stored = lambda x, y: (*two(x, y), pg.mean(x * y), pg.exp(x))
    ran = fused(stored, x, y)
    assert not is_gpu() or sorted(ran) == ["reduce"] * 3

    def six_sums(x, y):
        z = pg.exp(x) * y
        return [pg.sum(z * float(i), axis=0) for i in range(6)]

    ran = fused(six_sums, x, y)
    assert not is_gpu() or ran == ["reduce"] * 2


def test_rows_that_are_normalized_twice():
    for shape in [(5, 31), (3, 1024), (2, 17_000)]:
        x = draw(*shape)
        scale = draw(shape[-1])
        offset = draw(shape[-1], seed=1)

        def f(x, scale, offset):
            z = x * 2.0
            return (
                pg.layer_norm(z, scale, offset),
                pg.layer_norm(z),
                pg.layer_norm(z, scale),
                pg.layer_norm(z, None, offset) * z,
            )

        in_one_launch(f, x, scale, offset)
        g = lambda x, *more: (*f(x, *more), pg.layer_norm(x * 2.0, epsilon=0.1))
        ran = fused(g, x, scale, offset)
        assert not is_gpu() or shape[1] > 16_384 or ran == ["rows_region", "layer_norm"]


def test_steps_that_do_not_fit_into_a_row_region():
    x = draw(4, 6, 8)
    y = draw(4, 6, 8, seed=1)
    fused(lambda x, y: pg.layer_norm(x * y, axis=(1, 2)) + y, x, y)
    part = lambda x, a: pg.layer_norm(x * a, axis=(1, 2)) + a
    assert len(fused(part, x, draw(6, 1))) <= 3
    fused(lambda x, y: pg.softmax(x * y, axis=1) + y, x, y)
    fused(lambda x: pg.astype(pg.softmax(x * 2.0), "int32"), x)
    double = lambda x: pg.softmax(pg.astype(x, "float64")) * 2.0
    if "float64" in runtime("opencl").dtypes:
        fused(double, x)
    wide = lambda x: pg.softmax(pg.astype(pg.astype(x, "int64"), "float32") * 0.5)
    fused(wide, x)
    narrow = lambda x, m: (
        pg.softmax(pg.astype(m, "float32") + x) * pg.astype(m, "float32")
    )
    fused(narrow, x, pg.astype(y, "int8"))


def test_vectors_are_single_rows():
    x = draw(300)
    y = draw(300, seed=1)
    for op in ROWS.values():
        in_one_launch(lambda x, y, op=op: op(x * y) + y, x, y)
    in_one_launch(lambda x, y: pg.layer_norm(x, y * 2.0, x + y) * 3.0, x, y)


def test_this_file_with_the_kernels_for_gpus(request):
    if not is_gpu():
        run_as_gpu(__file__, request.config)
