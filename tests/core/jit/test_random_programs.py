"""Random programs give the same bits in eager mode and under ``jit``.

A program is data: a list of instructions on a list of tensors. It also reads and
assigns variables, draws random numbers, overrides gradients, and may raise an error.
"""

import numpy as np
import plugrad as pg
import pytest

from .compiling import Compiler, compiling
from .helpers import look

PARTS = 4
CALLS = 4
MAX_OPENCL_PROGRAMS = 50  # in a part: PoCL compiles each region for about a second
SHAPES = [(3,), (2, 3), (), (3, 3)]
UNARY_OPS = [pg.exp, pg.tanh, pg.negative, pg.square, pg.sigmoid, pg.abs, pg.sign]
UNARY_OPS += [pg.relu, pg.cos, lambda x: x > 0, lambda x: x.T if x.ndim > 1 else x]
UNARY_OPS += [lambda x: pg.softmax(x) if x.ndim else x, pg.identity, pg.isfinite]
BINARY_OPS = [pg.add, pg.multiply, pg.subtract, pg.maximum, pg.atan2, pg.pow]
BINARY_OPS += [lambda x, y: pg.where(x > y, x, y), pg.less]
SHAPE_OPS = [
    pg.sum,
    lambda x: pg.reshape(x, (-1,)),
    lambda x: pg.tile(pg.reshape(x, (-1,)), (2,)),
]
SHAPE_OPS += [
    lambda x: x[..., :2] if x.ndim else x,
    lambda x: pg.max(x, axis=-1) if x.ndim else x,
]
SHAPE_OPS += [lambda x: pg.sort(x) if x.ndim else x]


def instructions(rng):
    """Return a random program, as nested tuples of numbers."""
    kinds = ["unary", "binary", "shape", "number", "grad", "vmap", "read", "assign"]
    kinds += ["draw", "drop", "item", "override", "raise"]
    odds = np.array([6, 6, 3, 3, 2, 1, 2, 2, 1, 1, 1, 1, 0.2])
    chosen = rng.choice(kinds, size=rng.integers(3, 25), p=odds / odds.sum())
    return tuple((str(kind), *map(int, rng.integers(0, 1000, 3))) for kind in chosen)


def as_floating(x):
    """Return a tensor, converted to float32 if its dtype is not floating."""
    return x if x.dtype.kind == "f" else pg.astype(x, "float32")


def gradient(f, x):
    return pg.grad(lambda x: pg.sum(f(x) * x))(as_floating(x))


def step(kind, a, b, c, values, variables):
    """Run one instruction; return a new value."""
    x = values[a % len(values)]
    y = values[b % len(values)]
    v = variables[a % len(variables)]
    smooth = UNARY_OPS[c % 7]
    if kind == "unary":
        return UNARY_OPS[c % len(UNARY_OPS)](x if c % 2 else as_floating(x))
    if kind == "binary":
        fits = x.shape == y.shape or not x.ndim or not y.ndim
        return BINARY_OPS[c % len(BINARY_OPS)](
            as_floating(x), as_floating(y) if fits else 0.5
        )
    if kind == "shape":
        return SHAPE_OPS[c % len(SHAPE_OPS)](as_floating(x))
    if kind == "number":
        return as_floating(x) * (c / 500) - b % 3
    if kind == "grad":
        return gradient(smooth, x)
    if kind == "vmap":
        return pg.vmap(smooth)(as_floating(x)) if x.ndim and x.shape[0] else x
    if kind == "read":
        return v * 2
    if kind == "assign":
        v.assign(as_floating(pg.sum(as_floating(x))) * 0.5 + v * 0.25)
        return v.value
    if kind == "draw":
        return pg.random.normal(x.shape) + as_floating(x)
    if kind == "item":
        copy = as_floating(x) + 0
        if copy.ndim and copy.shape[0]:
            copy[0] = b / 100
        return copy
    if kind == "override":
        with pg.override_gradient(pg.tanh, x=tripled):
            return gradient(pg.tanh, x)
    if kind == "raise":
        raise RuntimeError(f"instruction {a}")
    return pg.zeros(3)  # drop


def tripled(dy):
    return dy * 3


def interpreted(program, variables):
    """Return a function of tensors that runs a program."""

    def f(*args):
        values = list(args)
        for kind, a, b, c in program:
            values.append(step(kind, a, b, c, values, variables))
        return {"last": values[-1], "some": (values[len(values) // 2], values[::3])}

    return f


def history(program, seed, wrap):
    """Return results and variables after each call, and the function that is called."""
    rng = np.random.default_rng(seed)
    variables = [pg.Variable(0.5), pg.Variable(-1.5)]
    call = wrap(interpreted(program, variables))
    pg.random.seed(seed)
    found = []
    for _ in range(CALLS):
        args = [pg.asarray(rng.normal(size=s).astype("float32")) for s in SHAPES]
        if rng.integers(4) == 0:
            args[1] = args[3]  # another shape, and the same array twice
        try:
            found.append(look(call(*args)))
        except RuntimeError as error:
            found.append(str(error))
        found += [look(v.value) for v in variables]
    return found, call


OUR_BACKENDS = ("cpu", "wasm", "opencl")
BACKENDS = {f"of {name}": name for name in OUR_BACKENDS if name in pg.backends()}


@pytest.fixture(params=["none", *BACKENDS, "all", "random"])
def compiler(request):
    """Run on a backend without a compiler and on some with one; yield which."""
    rng = np.random.default_rng(0)
    compilers = {
        "none": lambda graph: None,
        "all": Compiler(),
        "random": Compiler(lambda _: rng.random() < 0.5, lambda: rng.random() < 0.2),
    }
    if request.param in BACKENDS:
        with pg.use_backend(BACKENDS[request.param]):
            yield request.param
        return
    with compiling(compilers[request.param]) as found:
        yield request.param
        assert getattr(found, "ran", 1)


@pytest.fixture
def programs(request):
    """Return the number of programs in one part of the tests."""
    chosen = request.config.getoption("--programs")
    return (chosen or (1600 if request.config.getoption("--all") else 32)) // PARTS


@pytest.mark.parametrize("part", range(PARTS))
def test_programs(part, compiler, programs):
    replayed = 0
    if compiler == "of opencl":
        programs = min(programs, MAX_OPENCL_PROGRAMS)
    for i in range(programs):
        seed = 100_000 * part + i
        program = instructions(np.random.default_rng(seed))
        eager, _ = history(program, seed, lambda f: f)
        found, jitted = history(program, seed, pg.jit)
        assert found == eager, f"seed {seed}: {program}"
        replayed += any(entry.graph for entry in jitted._entries)
    pg.random.seed()
    assert replayed > programs // 2
