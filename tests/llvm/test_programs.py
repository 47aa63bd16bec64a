"""Random programs, and what surrounds their loops: layouts, constants, threads."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import plugrad as pg
import pytest
from plugrad_cpu import native as cpu
from plugrad_llvm import native, probes, regions

from .guarded import LENGTHS
from .helpers import bits, check, values

ROOT = Path(__file__).parents[2]
PROCESSOR = native.processor()
PROGRAMS = 60
UNARY = [pg.exp, pg.tanh, pg.negative, pg.square, pg.sigmoid, pg.abs, pg.relu, pg.log1p]
UNARY += [pg.floor, pg.sqrt, pg.reciprocal, pg.erf, pg.softplus, pg.sin, pg.sign]
UNARY += [
    lambda x: pg.clip(x, -1.0, 2.0),
    lambda x: pg.leaky_relu(x, alpha=0.1),
    pg.expm1,
]
UNARY += [lambda x: x**2, lambda x: x**3, lambda x: 3.5 - x, lambda x: x / 7.0]
UNARY += [lambda x: pg.astype(x > 0.5, "float32"), pg.softmax, pg.log_softmax]
UNARY += [pg.layer_norm, lambda x: pg.astype(pg.astype(x, "float64") + 0.1, "float32")]
BINARY = [pg.add, pg.multiply, pg.subtract, pg.divide, pg.squared_difference]
BINARY += [lambda x, y: pg.where(x > y, x, y * 2.0), lambda x, y: pg.where(x < 0, y, x)]
BINARY += [lambda x, y: pg.where((x >= y) | pg.isnan(y), 1.0, x)]
SHAPES = [(4, 6, 40), (40,), (6, 40), (4, 1, 40), (4, 6, 1), (1, 6, 1), (), (4, 1, 1)]


def program(rng):
    """Return a function that runs 3 to 20 random instructions on its arguments."""
    count = int(rng.integers(3, 21))
    code = rng.integers(0, 1000, (count, 3)).tolist()
    outputs = rng.integers(0, 1000, 3).tolist()

    def f(*xs):
        results = [*xs]
        for op, a, b in code:
            x = results[-1 - a % min(len(results), 5)]
            if op % 2 and x.ndim:
                y = UNARY[op // 2 % len(UNARY)](x)
            else:
                y = BINARY[op // 2 % len(BINARY)](x, results[b % len(results)])
            results.append(y)
        return [results[len(xs) + k % count] for k in outputs]

    return f


@pytest.mark.parametrize("seed", range(4))
def test_random_programs(seed):
    rng = np.random.default_rng(seed)
    compiled = 0
    for n in range(PROGRAMS // 4):
        chosen = [SHAPES[0], *[SHAPES[k] for k in rng.integers(0, len(SHAPES), 3)]]
        calls = [
            [
                values(int(np.prod(shape)), 100 * n + k).reshape(shape)
                if n % 3 == 0
                else rng.standard_normal(shape).astype("float32")
                for k, shape in enumerate(chosen)
            ]
            for _ in range(2)
        ]
        compiled += len(check(program(rng), *calls))
    assert compiled > PROGRAMS // 4


def squared(x):
    return pg.tanh(x * x) + x


def fortran(x):
    return np.asfortranarray(x)


# name: (change of an array of shape (6, 8), whether machine code accepts the result)
LAYOUTS = {
    "in order": (lambda x: x, True),
    "columns first": (fortran, False),
    "every second": (lambda x: x[:, ::2], False),
    "backwards": (lambda x: x[::-1], False),
    "read only": (lambda x: np.broadcast_to(x, x.shape), True),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name):
    """Layouts other than row-major are left to the kernels, which keep them."""
    make, accepted = LAYOUTS[name]
    x = pg.asarray(make(values(48, 1).reshape(6, 8)))
    jitted = pg.jit(squared)
    jitted(x), jitted(x), jitted(x)
    assert bits(jitted(x)) == bits(squared(x))
    (region,) = jitted.explain(x).regions
    result = region.function(make(values(48, 1).reshape(6, 8)))
    assert (result is not NotImplemented) == accepted


def test_scalars_of_numpy():
    """Some cpu kernels return NumPy scalars instead of arrays."""
    f = pg.jit(squared)
    x = pg.asarray(np.float32(0.5))
    f(x), f(x), f(x)
    (region,) = f.explain(x).regions
    found = region.function(np.float32(0.5))
    assert found.shape == ()
    assert found == squared(x).item()
    assert check(lambda x: squared(pg.sum(x)), [values(8, 3)])


class Subclass(np.ndarray):
    """A subclass of NumPy arrays."""


def test_subclasses():
    f = pg.jit(squared)
    x = pg.asarray(np.ones(4, "f4"))
    f(x), f(x), f(x)
    (region,) = f.explain(x).regions
    found = region.function(np.ones(4, "f4").view(Subclass))
    assert type(found) is np.ndarray
    assert found.tolist() == squared(x).tolist()


TABLE = pg.asarray(np.arange(20000, dtype="f4").reshape(100, 200) / 1e4)


def test_constants_and_views():
    row = pg.asarray(values(5, 2))
    assert check(lambda x: (x * row) * 2.0 + 1.0, [values(15, 4).reshape(3, 5)])
    assert check(lambda x: (x * TABLE) * 2.0 + TABLE, [values(200, 4)])
    assert check(lambda x: (TABLE * 2.0 + TABLE, x), [values(200, 4)])

    def views(x):
        wide = pg.broadcast_to(x, (3, 5))
        return wide, wide * 2.0 + 1.0, pg.exp(wide * wide)

    assert check(views, [values(5, 3)])
    fixed = lambda x: (pg.broadcast_to(TABLE, (2, 100, 200)), x)
    assert check(lambda x: (fixed(x)[0] * x * 2.0, *fixed(x)), [values(200, 3)])
    jitted = pg.jit(views)
    x = pg.asarray(values(5, 3))
    jitted(x), jitted(x), jitted(x)
    assert pg.sum(jitted(x)[0], axis=0).tolist() == pg.sum(views(x)[0], axis=0).tolist()


def test_other_dtypes_are_left_to_kernels():
    for dtype in ("int32", "float16", "complex64"):
        assert check(lambda x: (x + x) * x, [np.arange(20).astype(dtype)]) == []
    assert check(lambda x, y: x**y + 1.0, [values(9, 1), values(9, 2)]) == []
    zeros = [np.float32([[0.0, -0.0]]), np.float32([[-0.0], [0.0]])]
    assert check(lambda x, y: -pg.maximum(x, y), zeros) == []


def test_a_single_kernel_is_not_compiled():
    assert check(lambda x: pg.exp(x), [values(9)]) == []


@pytest.mark.skipif(os.name == "nt", reason="there is no mprotect")
def test_no_memory_past_an_array_is_accessed():
    command = [sys.executable, "-m", "tests.llvm.guarded"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 6 * len(LENGTHS)


# --- threads ---------------------------------------------------------------------


@pytest.fixture(params=[1, 2, 3, 7])
def several_threads(request, monkeypatch):
    """Run all regions on several cpu threads, in small pieces."""
    set_threads = cpu.native.get("set_threads")
    monkeypatch.setattr(regions, "THREADS_MIN_ELEMENTS", 1)
    monkeypatch.setattr(regions, "PIECE_ELEMENTS", 64)
    set_threads(request.param)
    yield request.param
    set_threads(cpu.threads())


@pytest.mark.parametrize("shape", [(1000,), (1024,), (7, 40), (300, 3)])
def test_threads_share_a_region(shape, monkeypatch):
    shares = []

    def machine_code(address, share, *described):
        shares.append(share)
        return real(address, share, *described)

    real = regions.machine_code
    monkeypatch.setattr(regions, "machine_code", machine_code)
    monkeypatch.setattr(regions, "THREADS_MIN_ELEMENTS", 1)
    monkeypatch.setattr(regions, "PIECE_ELEMENTS", 64)
    x = values(int(np.prod(shape)), 3).reshape(shape)
    y = np.broadcast_to(np.float32(2), shape[-1:]).copy()
    assert check(lambda x, y: pg.tanh(x * y) + x, [x, y])
    [(items, unit, units, grain)] = set(shares)
    assert units > grain >= 1
    assert unit * units <= items < unit * (units + 1)


def test_the_number_of_threads_changes_no_bit(several_threads):
    for shapes in [[(1000,)], [(37, 40), (40,)], [(5, 4, 6), (4, 1)]]:
        xs = [values(int(np.prod(s)), k).reshape(s) for k, s in enumerate(shapes)]
        assert check(lambda x, y=1.5: pg.tanh(x * y) + pg.sin(x), xs)
        assert check(lambda x, y=1.5: pg.softmax(x * y) - x, xs)


def test_a_function_in_user_threads():
    from concurrent.futures import ThreadPoolExecutor

    f = pg.jit(squared)
    x = pg.asarray(np.random.default_rng(0).standard_normal(1 << 18).astype("f4"))
    f(x), f(x), f(x)
    expected = bits(squared(x))

    def run(_):
        with pg.use_backend("cpu"):
            return bits(f(x)) == expected

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(40)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_has_its_own_threads(several_threads):
    f = pg.jit(squared)
    x = pg.asarray(values(1000, 1))
    f(x), f(x), f(x)
    expected = bits(squared(x))
    assert bits(f(x)) == expected
    child = os.fork()
    if not child:
        os._exit(0 if bits(f(x)) == expected else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert bits(f(x)) == expected


# --- other processors ------------------------------------------------------------


@pytest.fixture(params=[(4, True), (8, True), (4, False)], ids=str)
def narrower(request, monkeypatch):
    """Compile for a processor with narrower vectors, or without fused multiply-add."""
    lanes, fused = request.param
    other = native.processor()._replace(lanes=lanes, fused=fused)
    monkeypatch.setattr(native, "processor", lambda: other)
    caches = [probes.agrees, probes.rows_agree]
    for cached in caches:
        cached.cache_clear()
    yield other
    for cached in caches:
        cached.cache_clear()


def test_narrower_vectors(narrower):
    """Narrower vectors would sum in a different order, so cpu kernels run instead.

    Without AVX-512, one of these processors is that of the machine: its sums are
    compiled.
    """
    for f in UNARY:
        if narrower.fused or f not in (pg.softmax, pg.log_softmax):
            assert check(lambda x, f=f: f(-x), [values(700, 2)]) is not None
    rows = check(lambda x: pg.softmax(-x) * 2.0, [values(700, 3)])
    assert (rows == []) is (narrower != PROCESSOR)
    elementwise = check(lambda x: pg.tanh(-x) * 2.0, [values(700, 3)])
    assert elementwise or not narrower.fused
