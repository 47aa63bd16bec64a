"""Long random use of plugrad: results are right, and memory is freed.

``pytest tests/soak --soak-seconds=300`` runs longer; ``--soak-seed=7`` repeats a run
that has failed.
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


def memory_in_use():
    """Return the numbers of tensors and bytes by backend, without constants.

    Backends that earlier tests removed are left out: their tensors may be freed later.
    """
    gc.collect()
    found = {}
    for name, now in pg.memory().backends.items():
        if name.endswith(" (removed)"):
            continue
        constants = constants_of(registry.opened.get(name))
        size = sum(x._home.runtime.arrays.nbytes(x._data) for x in constants)
        found[name] = now.tensors - len(constants), now.bytes - size
    return found


def constants_of(backend):
    """Return the constants that a backend has uploaded, also for ``vmap``."""
    found = {}
    while backend is not None:
        for x in backend.scalars.values():
            while x._home.depth:
                x = x._data.tensor
            found[id(x)] = x  # one number may be a constant of several levels
        backend = backend.batches
    return list(found.values())


def resident_bytes():
    """Return the resident memory of the process; 0 on systems other than Linux."""
    statm = Path("/proc/self/statm")
    pages = int(statm.read_text().split()[1]) if statm.exists() else 0
    return pages * mmap.PAGESIZE


def check_growth(sizes):
    """Check that the process stops growing after the first half of the rounds."""
    if len(sizes) >= 50:
        settled = len(sizes) // 2
        growth = max(sizes[settled:]) - max(sizes[:settled])
        print(f"{max(sizes[:settled]):,} bytes resident, {growth:,} more in the end")
        assert growth < 16 << 20


@pytest.fixture
def backends():
    """Return the installed backends, and two toys, one of which lacks kernels."""
    options = {"host": "cpu", "host_kernels": ["ArgMax", "Unique", "Sign"]}
    lacks = ["Softmax", "Conv2D", "Relu", "ArgMax", "Unique", "Sign"]
    with toy(), toy("other", without=lacks, **options):
        yield pg.backends()


def test_soak(seconds, backends, request):
    first = request.config.getoption("--soak-seed")
    play(0, backends)  # creates everything that is created only once
    before = memory_in_use()
    end = time.monotonic() + seconds
    sizes = []
    for seed in itertools.count(first):
        play(seed, backends)
        assert memory_in_use() == before, f"memory after --soak-seed={seed}"
        assert current().observers == open_backends.watchers == ()
        sizes.append(resident_bytes())
        if time.monotonic() > end:
            break
    request.node.user_properties.append(("rounds", len(sizes)))
    print(f"{len(sizes)} rounds from seed {first} on {', '.join(backends)}")
    check_growth(sizes)


# The number of different programs that run on a backend with slow compilation. PoCL
# keeps 1 to 80 kB for each kernel that it has compiled, and pyopencl some text.
PROGRAMS = {"opencl": 40}
MAX_RECORDED_TENSORS = 64 * 40  # jit keeps 64 recordings and their captured tensors


def test_soak_of_jit(seconds, backend, request):
    """Functions are recorded, replayed and dropped, and their memory is freed."""
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
            now = memory_in_use()
            assert before in (None, now), f"memory after --soak-seed={seed}"
            before = now
            sizes = [*sizes, resident_bytes()]
        if time.monotonic() > end:
            break
    pg.random.seed()
    print(f"{count} programs from seed {first} on {backend}")
    check_growth(sizes)


@pytest.mark.filterwarnings("ignore:jit. ")
def test_soak_of_state(seconds, backend, request):
    """Programs whose state changes under jit give right results and free memory."""
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
            now = memory_in_use()
            assert before in (None, now), f"memory after --soak-seed={seed}"
            before = now
            sizes = [*sizes, resident_bytes()]
        if time.monotonic() > end:
            break
    print(f"{count} programs with state from seed {first} on {backend}")
    check_growth(sizes)


@pytest.mark.filterwarnings("ignore:jit. ")
def test_soak_of_a_notebook(seconds, backend, request):
    """One function is called repeatedly while its state changes."""
    seed = request.config.getoption("--soak-seed")
    rng = random.Random(seed)
    log = []
    sizes = []
    replayed = 0
    before = memory_in_use()
    end = time.monotonic() + seconds
    code = compiled(notebook.SOURCE, "<notebook>")
    eager = Instance(code, lambda f: f)
    jitted = Instance(code, pg.jit)
    for count in itertools.count(1):
        event = notebook.cell(rng) if rng.random() < 0.2 else f"CALL(tensor({count}))"
        log = [*log[-40:], event]
        wanted = eager.run_event(event, count)
        found, ran = jitted.run_event(event, count)
        assert found == wanted[0], f"--soak-seed={seed}\n" + "\n".join(log)
        replayed += not ran
        if count % 100 == 0:
            assert eager.state() == jitted.state(), "\n".join(log)
            sizes.append(resident_bytes())
            recorded = memory_in_use()[backend][0] - before.get(backend, (0, 0))[0]
            assert recorded < MAX_RECORDED_TENSORS
        if time.monotonic() > end:
            break
    print(f"{count} cells from seed {seed} on {backend}, {replayed} calls replayed")
    assert replayed > count / 10
    check_growth(sizes)
    del eager, jitted
    assert memory_in_use() == before


@pytest.mark.parametrize("style", ["variables", "functions", "tidy"])
def test_ten_thousand_steps_do_not_grow_memory(style, backend, request):
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
        if style == "functions":
            value, found = pg.value_and_grad(lambda p: loss(**p))(params)
            params = {k: params[k] - 0.5 * found[k] for k in params}
            return value
        value, found = pg.variable_grads(lambda: loss(w, b))
        for v, dv in found.items():
            v.assign(v.value - 0.5 * dv)
        return value

    run = (lambda: pg.tidy(step)) if style == "tidy" else step
    losses = [run().item() for _ in range(20)]
    before = memory_in_use()
    size = resident_bytes()
    gc.disable()  # so that reference cycles are noticed
    try:
        losses += [run().item() for _ in range(steps - 20)]
        after = {name: (m.tensors, m.bytes) for name, m in pg.memory().backends.items()}
    finally:
        gc.enable()
    assert memory_in_use() == before
    assert resident_bytes() < size + (32 << 20)  # kernels keep no memory either
    constants = constants_of(registry.opened[backend])
    assert after[backend][0] - len(constants) == before[backend][0]  # even without gc
    assert losses[-1] < losses[0] / 100
