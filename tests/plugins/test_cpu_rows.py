"""plugrad-cpu's regions with row kernels and reductions: the bits of eager mode."""

import numpy as np
import plugrad as pg
import pytest

from tests.processes import output

native = pytest.importorskip("plugrad_cpu.native", reason="needs plugrad-cpu")
if not native.LOADED:
    pytest.skip(f"no kernels in C: {native.LIBRARY}", allow_module_level=True)

from plugrad_cpu.compiler.rows import CALLS  # noqa: E402  # after the skip

RNG = np.random.default_rng(11)
SPECIAL = np.float32([0, -0.0, 1e-40, 3e38, -3e38, np.nan, np.inf, -np.inf])


@pytest.fixture(autouse=True)
def on_cpu(own_compilers):
    """Run on cpu."""
    with pg.use_backend("cpu"):
        yield


def floats(*shape, special=0.0):
    """Return an array of random numbers; ``special`` is the share of special ones."""
    x = RNG.normal(size=shape).astype("float32")
    which = RNG.random(shape) < special
    x[which] = RNG.choice(SPECIAL, int(which.sum()))
    return pg.asarray(x)


def check(f, *xs, kernels):
    """Check that ``jit(f)`` equals ``f`` to the bit; ``kernels``: counts by region."""
    jitted = pg.jit(f)
    expected = pg.tree.leaves(f(*xs))
    for _ in range(4):
        for found, y in zip(pg.tree.leaves(jitted(*xs)), expected, strict=True):
            assert (found.shape, found.dtype) == (y.shape, y.dtype)
            assert found.numpy().tobytes() == y.numpy().tobytes()
    regions = jitted.explain(*xs).regions
    assert [len(region.steps) for region in regions] == kernels


REDUCTIONS = [
    # (shape, axis): whole rows; few rows; long rows; blocks and remainders
    *[((n, 40), 1) for n in (52, 129, 4000)],
    *[((64, n), 1) for n in (32, 33, 1000, 4097)],
    *[((2, 65_000), 1), ((1, 2048), 1), ((3, 4, 500), (1, 2)), ((9, 1, 300), (1, 2))],
    *[((n,), 0) for n in (2048, 65_536, 65_537, 98_304, 300_001)],
    *[((300, 400), (0, 1)), ((500, 1031), None)],
    # Leading axes, and axes in the middle.
    *[((n, 40), 0) for n in (52, 819, 1639, 9000)],
    *[((8, 31, 256), (0, 1)), ((70, 2000), 0), ((200, 1500), 0), ((900, 3), 0)],
    *[((6, 50, 30), 1), ((200, 7, 5), 1), ((6, 50, 30), (0, 2))],
]


@pytest.mark.parametrize(("shape", "axis"), REDUCTIONS)
def test_reductions(shape, axis):
    x = floats(*shape)
    row = floats(shape[-1])
    for reduce in (pg.sum, pg.mean, pg.max, pg.min):
        f = lambda x, row, reduce=reduce: reduce(x * x + row, axis=axis)
        check(f, x, row, kernels=[3])
    check(lambda x: pg.sum(-x, axis=axis, keepdims=True), x, kernels=[2])
    check(lambda x: pg.prod(x * 0.1 + 1.0, axis=axis), x, kernels=[3])
    for reduce in (pg.sum, pg.max, pg.min):
        y = floats(*shape, special=0.001)
        check(lambda x, reduce=reduce: reduce(-x, axis=axis), y, kernels=[2])


OUTSIDE_REGIONS = {
    "a last block that is summed differently": ((65_536 + 32,), 0),
    "several long rows": ((3, 70_000), 1),
    "wide blocks": ((100, 4096), 0),
    "few elements": ((20, 50), 1),
}


@pytest.mark.parametrize("name", OUTSIDE_REGIONS)
def test_reductions_outside_of_regions(name):
    shape, axis = OUTSIDE_REGIONS[name]
    check(lambda x: pg.sum(-x * x, axis=axis), floats(*shape), kernels=[2])


def test_several_reductions():
    def f(x, row):
        y = x * row + 1.0
        return y, pg.sum(y, axis=0), pg.max(y, axis=1), pg.mean(y), pg.sum(-y, axis=1)

    # The mean of all elements needs different blocks from the sums of columns, so it
    # runs later.
    for shape in ((300, 784), (90, 30), (4000, 64)):
        check(f, floats(*shape), floats(shape[1]), kernels=[7])


def test_reductions_of_other_dtypes_run_outside_of_regions():
    x = floats(40, 90)
    check(lambda x: pg.sum(pg.astype(x > 0.0, "int32"), axis=1), x, kernels=[1])
    check(lambda x: pg.any(x * 2.0 > x, axis=1), x, kernels=[2])
    wide = pg.asarray(x.numpy().astype("float64"))
    check(lambda x: pg.sum(x * x, axis=1), wide, kernels=[])


ROWS = [(7, 5), (40, 16), (3, 30, 100), (2, 2, 9, 1025), (1, 1, 5000), (3, 40_000)]
OPS = {
    "softmax": lambda x, row: pg.softmax(x),
    "log_softmax": lambda x, row: pg.log_softmax(x),
    "layer_norm": lambda x, row: pg.layer_norm(x, axis=-1),
    "layer_norm, scaled": lambda x, row: pg.layer_norm(x, scale=row, axis=-1),
    "layer_norm, scaled and shifted": lambda x, row: pg.layer_norm(
        x, row, row + 1.0, axis=-1
    ),
}


@pytest.mark.parametrize("shape", ROWS)
@pytest.mark.parametrize("name", OPS)
def test_rows(name, shape):
    op = OPS[name]
    x = floats(*shape)
    mask = floats(*shape[-2:])
    row = floats(shape[-1])
    is_row_separate = (
        name == "layer_norm, scaled and shifted" and row.shape != mask.shape
    )
    f = lambda x, row, mask: pg.tanh(op(x * 0.5 + mask, row)) * x
    jitted = pg.jit(f)
    for _ in range(4):
        assert (
            jitted(x, row, mask).numpy().tobytes() == f(x, row, mask).numpy().tobytes()
        )
    sizes = [len(region.steps) for region in jitted.explain(x, row, mask).regions]
    assert sizes[-1] == 5
    assert sum(sizes) <= 5 + is_row_separate
    special = floats(*shape, special=0.01)
    check(lambda x, row: op(-x, row) * x, special, row, kernels=[*sizes[:-1], 3])


@pytest.mark.parametrize("shape", [(40, 16), (3, 30, 100), (70, 1025)])
@pytest.mark.parametrize("name", OPS)
def test_gradients_of_rows(name, shape):
    op = OPS[name]
    x = floats(*shape)
    row = floats(shape[-1])
    loss = lambda x, row: pg.sum(pg.square(op(x * 0.5, row)) * pg.cos(x))
    f = lambda x, row: pg.grad(loss, argnums=(0, 1))(x, row)
    jitted = pg.jit(f)
    for _ in range(4):
        for found, y in zip(jitted(x, row), f(x, row), strict=True):
            assert found.numpy().tobytes() == y.numpy().tobytes()
    kernels = {s.kernel.name for r in jitted.explain(x, row).regions for s in r.steps}
    assert kernels & {"Softmax", "LogSoftmax", "LayerNorm"}
    assert any("Grad" in kernel for kernel in kernels)


def test_consecutive_row_kernels():
    def f(x, row):
        y = pg.softmax(pg.layer_norm(x, axis=-1) * row)
        z = pg.softmax(pg.softmax(y) - y)
        return z, pg.sum(z * y, axis=0), pg.max(pg.log_softmax(z + row), axis=-1)

    for shape in ((30, 100), (4, 500, 24)):
        check(f, floats(*shape), floats(shape[-1]), kernels=[11])


def test_other_axes_and_views():
    x = floats(30, 90)
    row = floats(90)
    check(lambda x: pg.softmax(x * 2.0 + 1.0, axis=0), x, kernels=[2, 1])
    view = lambda row: pg.broadcast_to(row * row + row, (30, 90))
    check(lambda row: pg.softmax(view(row)) * row, row, kernels=[2, 1, 1])
    check(lambda row: pg.sum(view(row), axis=0), row, kernels=[2])
    both = lambda x, row: (y := pg.broadcast_to(row, x.shape), pg.softmax(x + y) * y)
    check(both, x, row, kernels=[])
    jitted = pg.jit(lambda x: pg.softmax(x * 2.0) - x)
    for y in (x, x, pg.asarray(np.asfortranarray(x.numpy())), x):
        assert (
            jitted(y).numpy().tobytes() == (pg.softmax(y * 2.0) - y).numpy().tobytes()
        )


def test_squares():
    x = floats(50, 70, special=0.1)
    y = floats(50, 70)
    check(lambda x, y: (x - y) ** 2, x, y, kernels=[2])
    check(lambda x, y: pg.mean((x - y) ** 2), y, y * 2.0, kernels=[3])
    check(lambda x, y: (x - y) ** 3 + 1.0, x, y, kernels=[1, 1])


THREADS = """
import hashlib, numpy as np, plugrad as pg
pg.set_backend("cpu")
x = pg.asarray(np.sin(np.arange(700 * 516, dtype="float32")).reshape(700, 516))
def f(x):
    y = pg.softmax(x * 3.0) + x
    z = pg.layer_norm(y, axis=-1) ** 2
    return y, pg.sum(y, axis=0), pg.sum(y), pg.mean(z, axis=1)
j = pg.jit(f)
j(x), j(x), j(x)
text = b"".join(y.numpy().tobytes() for y in j(x))
assert text == b"".join(y.numpy().tobytes() for y in f(x))
print(hashlib.sha256(text).hexdigest(), [len(r.steps) for r in j.explain(x).regions])
"""


def test_bits_do_not_depend_on_the_number_of_threads():
    plugins = {"PLUGRAD_PLUGINS": "cpu"}
    found = {output(THREADS, PLUGRAD_CPU_THREADS=n, **plugins) for n in "128"}
    assert len(found) == 1
    assert found.pop().endswith(" [8]\n")


def test_the_table_names_existing_kernels():
    from plugrad_cpu.kernels import KERNELS

    assert {*CALLS} <= {*KERNELS}
