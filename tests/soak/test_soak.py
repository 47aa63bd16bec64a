"""Hours of use in a few seconds: nothing is wrong, nothing is left, nothing grows.

``pytest tests/soak --soak-seconds=300`` plays longer; ``--soak-seed=7`` plays again
what has failed.
"""

import gc
import itertools
import mmap
import random
import time
from pathlib import Path

import numpy as np
import plugrad as pg
import pytest
from plugrad._src.engine.context import current
from plugrad._src.registry import backend as open_backends
from plugrad._src.registry.registry import registry
from plugrad_conformance.toy import toy

from tests.core.jit.side_by_side import Instance, compared, compiled, report
from tests.core.jit.stateful import random_program
from tests.core.jit.test_random_programs import history, instructions
from tests.soak import notebook
from tests.soak.players import play


def held():
    """Return the tensors and bytes by backend, without the constants that they keep."""
    gc.collect()
    found = {}
    for name, now in pg.memory().backends.items():
        constants = constants_of(registry.opened.get(name))
        size = sum(x.size * x.dtype.itemsize for x in constants)
        found[name] = now.tensors - len(constants), now.bytes - size
    return found


def constants_of(backend):
    """Return the numbers that a backend has uploaded, and those of ``vmap`` over it."""
    found = {}
    while backend is not None:
        for x in backend.scalars.values():
            while x._home.depth:
                x = x._data.tensor
            found[id(x)] = x  # one number may be a constant of several levels
        backend = backend.batches
    return list(found.values())


def resident():
    """Return the bytes of the process that are in memory; only Linux tells them."""
    statm = Path("/proc/self/statm")
    pages = int(statm.read_text().split()[1]) if statm.exists() else 0
    return pages * mmap.PAGESIZE


def settle(sizes):
    """Check that the process does not grow; the allocator needs some rounds."""
    if len(sizes) >= 50:
        settled = len(sizes) // 2
        growth = max(sizes[settled:]) - max(sizes[:settled])
        print(f"{max(sizes[:settled]):,} bytes resident, {growth:,} more in the end")
        assert growth < 16 << 20


@pytest.fixture
def backends():
    """Give all installed ones, and two that move, decompose and ask their host."""
    more = {"host": "cpu", "host_kernels": ["ArgMax", "Unique", "Sign"]}
    lacks = ["Softmax", "Conv2D", "Relu", "ArgMax", "Unique", "Sign"]
    with toy(), toy("other", without=lacks, **more):
        yield pg.backends()


def test_soak(seconds, backends, request):
    first = request.config.getoption("--soak-seed")
    play(0, backends)  # whatever is made once is there
    before = held()
    end = time.monotonic() + seconds
    sizes = []
    for seed in itertools.count(first):
        play(seed, backends)
        assert held() == before, f"memory after --soak-seed={seed}"
        assert current().observers == open_backends.watchers == ()
        sizes.append(resident())
        if time.monotonic() > end:
            break
    request.node.user_properties.append(("rounds", len(sizes)))
    print(f"{len(sizes)} rounds from seed {first} on {', '.join(backends)}")
    settle(sizes)


# Where a kernel takes long to compile, a few programs are played again and again. PoCL
# keeps 1 to 80 kB of each kernel that it has compiled, and pyopencl some text.
PROGRAMS = {"opencl": 40}
TENSORS_OF_A_FUNCTION = 64 * 40  # jit keeps 64 recordings with what they captured


def test_soak_of_jit(seconds, backend, request):
    """Functions are recorded, replayed and dropped; nothing of them stays."""
    first = request.config.getoption("--soak-seed")
    end = time.monotonic() + seconds
    sizes = []
    before = None
    for count in itertools.count(1):
        seed = first + (count - 1) % PROGRAMS.get(backend, 1 << 60)
        program = instructions(np.random.default_rng(seed))
        eager, _ = history(program, seed, lambda f: f)
        assert history(program, seed, pg.jit)[0] == eager, f"--soak-seed={seed}"
        if count % 20 == 0:
            now = held()
            assert before in (None, now), f"memory after --soak-seed={seed}"
            before = now
            sizes = [*sizes, resident()]
        if time.monotonic() > end:
            break
    pg.random.seed()
    print(f"{count} programs from seed {first} on {backend}")
    settle(sizes)


@pytest.mark.filterwarnings("ignore:jit. ")
def test_soak_of_state(seconds, backend, request):
    """Programs whose state changes under jit are right, and leave nothing."""
    first = request.config.getoption("--soak-seed")
    end = time.monotonic() + seconds
    sizes = []
    before = None
    for count in itertools.count(1):
        seed = first + (count - 1) % PROGRAMS.get(backend, 1 << 60)
        program = random_program(seed)
        outcome = compared(program, pg.jit, seed)
        assert not outcome.difference, report(program, pg.jit, seed)
        if count % 20 == 0:
            now = held()
            assert before in (None, now), f"memory after --soak-seed={seed}"
            before = now
            sizes = [*sizes, resident()]
        if time.monotonic() > end:
            break
    print(f"{count} programs with state from seed {first} on {backend}")
    settle(sizes)


@pytest.mark.filterwarnings("ignore:jit. ")
def test_soak_of_a_notebook(seconds, backend, request):
    """One function lives on while what it reads is changed and defined anew."""
    seed = request.config.getoption("--soak-seed")
    rng = random.Random(seed)
    log = []
    sizes = []
    replayed = 0
    before = held()
    end = time.monotonic() + seconds
    code = compiled(notebook.SOURCE, "<notebook>")
    eager = Instance(code, lambda f: f)
    jitted = Instance(code, pg.jit)
    for count in itertools.count(1):
        event = notebook.cell(rng) if rng.random() < 0.2 else f"CALL(tensor({count}))"
        log = [*log[-40:], event]
        wanted = eager.happen(event, count)
        found, ran = jitted.happen(event, count)
        assert found == wanted[0], f"--soak-seed={seed}\n" + "\n".join(log)
        replayed += not ran
        if count % 100 == 0:
            assert eager.state() == jitted.state(), "\n".join(log)
            sizes.append(resident())
            kept = held()[backend][0] - before.get(backend, (0, 0))[0]
            assert kept < TENSORS_OF_A_FUNCTION
        if time.monotonic() > end:
            break
    print(f"{count} cells from seed {seed} on {backend}, {replayed} calls replayed")
    assert replayed > count / 10
    settle(sizes)
    del eager, jitted
    assert held() == before


@pytest.mark.parametrize("way", ["variables", "functions", "tidy"])
def test_ten_thousand_steps_hold_memory_flat(way, backend, request):
    steps = 10_000 if request.config.getoption("--all") else 500
    rng = np.random.default_rng(0)
    x = pg.asarray(rng.normal(size=(16, 4)).astype(np.float32))
    y = pg.tanh(x @ pg.asarray(rng.normal(size=(4, 2)).astype(np.float32)))
    w = pg.Variable(np.zeros((4, 2), np.float32))
    b = pg.Variable(pg.zeros((2,)))
    params = {"w": w.value, "b": b.value}

    def loss(w, b):
        return pg.mean(pg.square(pg.tanh(x @ w + b) - y))

    def step():
        nonlocal params
        if way == "functions":
            value, found = pg.value_and_grad(lambda p: loss(**p))(params)
            params = {k: params[k] - 0.5 * found[k] for k in params}
            return value
        value, found = pg.variable_grads(lambda: loss(w, b))
        for v, dv in found.items():
            v.assign(v.value - 0.5 * dv)
        return value

    run = (lambda: pg.tidy(step)) if way == "tidy" else step
    losses = [run().item() for _ in range(20)]
    before = held()
    size = resident()
    gc.disable()  # a cycle would show
    try:
        losses += [run().item() for _ in range(steps - 20)]
        after = {name: (m.tensors, m.bytes) for name, m in pg.memory().backends.items()}
    finally:
        gc.enable()
    assert held() == before
    assert resident() < size + (32 << 20)  # kernels hold nothing, either
    constants = constants_of(registry.opened[backend])
    assert after[backend][0] - len(constants) == before[backend][0]  # without gc, too
    assert losses[-1] < losses[0] / 100
