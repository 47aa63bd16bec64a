"""Random programs in plugrad-cpu's regions: eager and ``jit`` give the same bits.

The arrays are large enough for C reductions. Some programs are differentiated.
"""

import numpy as np
import plugrad as pg
import pytest

native = pytest.importorskip("plugrad_cpu.native", reason="needs plugrad-cpu")
if not native.LOADED:
    pytest.skip(f"no kernels in C: {native.LIBRARY}", allow_module_level=True)

PROGRAMS = 30
SHAPES = [(70, 33), (9, 300), (3, 40, 50), (2000,), (50_000,), (70_001,), (2, 3, 400)]
SHAPES += [(300, 7), (64, 1025), (200, 512), (5, 8200), (40, 3, 30)]
ELEMENT_WISE = [
    lambda x, y, row: x * y,
    lambda x, y, row: x + row,
    lambda x, y, row: pg.tanh(x),
    lambda x, y, row: pg.where(x > y, x, y),
    lambda x, y, row: (x - y) ** 2,
    lambda x, y, row: pg.broadcast_to(row, x.shape),
    lambda x, y, row: pg.softmax(x),
    lambda x, y, row: pg.log_softmax(x),
    lambda x, y, row: pg.layer_norm(x, axis=-1),
    lambda x, y, row: pg.layer_norm(x, row, row * 2.0, axis=-1),
]
REDUCTIONS = [pg.sum, pg.mean, pg.max, pg.min, pg.prod]


@pytest.fixture(autouse=True)
def on_cpu(own_compilers):
    """Run on cpu."""
    with pg.use_backend("cpu"):
        yield


def run(program, is_output, x, y, row):
    """Run a program; return some of its values and all its reductions."""
    values = [x, y]
    reduced = []
    last = x.ndim - 1
    axes = [None, -1, 0, (0, last), (*range(last),), (*range(1, last + 1),)]
    for op, a, b, c, keepdims in program:
        p = values[a % len(values)]
        q = values[b % len(values)]
        if op < len(ELEMENT_WISE):
            values.append(ELEMENT_WISE[op](p, q, row))
            continue
        axis = axes[c] if last else 0
        reduce = REDUCTIONS[op % len(REDUCTIONS)]
        reduced.append(reduce(p, axis=axis, keepdims=bool(keepdims)))
        if keepdims and c % 2:
            values.append(q - reduced[-1])
    outputs = [
        value for value, keep in zip(values[2:], is_output, strict=False) if keep
    ]
    return [*(outputs or values[-1:]), *reduced]


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_jit_and_eager_give_the_same_bits(seed):
    rng = np.random.default_rng(seed)
    shape = SHAPES[rng.integers(len(SHAPES))]
    floats = lambda *s: pg.asarray(rng.normal(size=s).astype("float32"))
    xs = floats(*shape), floats(*shape), floats(shape[-1])
    bounds = [len(ELEMENT_WISE) + len(REDUCTIONS), 99, 99, 6, 2]
    count = rng.integers(2, 14)
    program = rng.integers(0, bounds, (count, 5)).tolist()
    is_output = rng.random(14) < 0.5
    f = lambda *xs: run(program, is_output, *xs)
    if seed % 3 == 0:
        total = lambda *xs: sum(pg.sum(y * 0.5) for y in run(program, is_output, *xs))
        f = lambda x, y, row: pg.grad(lambda x: total(x, y, row))(x)
    jitted = pg.jit(f)
    expected = pg.tree.leaves(f(*xs))
    for _ in range(4):
        for found, y in zip(pg.tree.leaves(jitted(*xs)), expected, strict=True):
            assert (found.shape, found.dtype) == (y.shape, y.dtype)
            assert found.numpy().tobytes() == y.numpy().tobytes()
