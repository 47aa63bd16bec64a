"""Hours of use in a few seconds: nothing is wrong, nothing is left, nothing grows.

``pytest tests/soak --soak-seconds=300`` plays longer; ``--soak-seed=7`` plays again
what has failed.
"""

import gc
import itertools
import mmap
import time
from pathlib import Path

import numpy as np
import plugrad as pg
import pytest
from plugrad.engine.context import current
from plugrad.registry import backend as open_backends
from plugrad.registry.registry import registry
from plugrad_conformance.toy import toy

from tests.core.jit.test_random_programs import history, instructions
from tests.soak.players import play


def held():
    """Return the tensors and bytes by backend, without the constants that they keep."""
    gc.collect()
    found = {}
    for name, now in pg.memory().backends.items():
        constants = registry.opened[name].scalars if name in registry.opened else {}
        size = sum(x.size * x.dtype.itemsize for x in constants.values())
        found[name] = now.tensors - len(constants), now.bytes - size
    return found


def resident():
    """Return the bytes of the process that are in memory; only Linux tells them."""
    statm = Path("/proc/self/statm")
    pages = int(statm.read_text().split()[1]) if statm.exists() else 0
    return pages * mmap.PAGESIZE


@pytest.fixture
def seconds(request):
    chosen = request.config.getoption("--soak-seconds")
    if chosen is not None:
        return chosen
    return 5.0 if request.config.getoption("--all") else 1.0


@pytest.fixture
def backends():
    """Give all installed ones, and two that move, decompose and ask their host."""
    more = {"host": "cpu", "host_kernels": ["ArgMax", "Unique", "Sign"]}
    lacks = ["Softmax", "Conv2D", "Relu", "ArgMax", "Unique", "Sign"]
    with toy(), toy("other", without=lacks, **more):
        yield pg.backends()


def test_soak(seconds, backends, request, record_property):
    first = request.config.getoption("--soak-seed")
    play(0, backends)  # whatever is made once is there
    before, end = held(), time.monotonic() + seconds
    sizes = []
    for seed in itertools.count(first):
        play(seed, backends)
        assert held() == before, f"memory after --soak-seed={seed}"
        assert current().observers == open_backends.watchers == ()
        sizes.append(resident())
        if time.monotonic() > end:
            break
    record_property("rounds", len(sizes))
    print(f"{len(sizes)} rounds from seed {first} on {', '.join(backends)}")
    if len(sizes) >= 50:  # the allocator needs some rounds to settle
        settled = len(sizes) // 2
        growth = max(sizes[settled:]) - max(sizes[:settled])
        print(f"{max(sizes[:settled]):,} bytes resident, {growth:,} more in the end")
        assert growth < 16 << 20


# Where a kernel takes long to compile, a few programs are played again and again. PoCL
# keeps 1 to 80 kB of each kernel that it has compiled, and pyopencl some text.
PROGRAMS = {"opencl": 40}


def test_soak_of_jit(seconds, backend, request):
    """Functions are recorded, replayed and dropped; nothing of them stays."""
    first = request.config.getoption("--soak-seed")
    end, sizes, before = time.monotonic() + seconds, [], None
    for count in itertools.count(1):
        seed = first + (count - 1) % PROGRAMS.get(backend, 1 << 60)
        program = instructions(np.random.default_rng(seed))
        eager, _ = history(program, seed, lambda f: f)
        assert history(program, seed, pg.jit)[0] == eager, f"--soak-seed={seed}"
        if count % 20 == 0:
            now = held()
            assert before in (None, now), f"memory after --soak-seed={seed}"
            before, sizes = now, [*sizes, resident()]
        if time.monotonic() > end:
            break
    pg.random.seed()
    print(f"{count} programs from seed {first} on {backend}")
    if len(sizes) >= 50:  # the allocator needs some rounds to settle
        settled = len(sizes) // 2
        growth = max(sizes[settled:]) - max(sizes[:settled])
        print(f"{max(sizes[:settled]):,} bytes resident, {growth:,} more in the end")
        assert growth < 16 << 20


@pytest.mark.parametrize("way", ["variables", "functions", "tidy"])
def test_ten_thousand_steps_hold_memory_flat(way, backend, request):
    steps = 10_000 if request.config.getoption("--all") else 500
    rng = np.random.default_rng(0)
    x = pg.asarray(rng.normal(size=(16, 4)).astype(np.float32))
    y = pg.tanh(x @ pg.asarray(rng.normal(size=(4, 2)).astype(np.float32)))
    w, b = pg.Variable(np.zeros((4, 2), np.float32)), pg.Variable(pg.zeros((2,)))
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
    before, size = held(), resident()
    gc.disable()  # a cycle would show
    try:
        losses += [run().item() for _ in range(steps - 20)]
        after = {name: (m.tensors, m.bytes) for name, m in pg.memory().backends.items()}
    finally:
        gc.enable()
    assert held() == before
    assert resident() < size + (32 << 20)  # kernels hold nothing, either
    constants = registry.opened[backend].scalars
    assert after[backend][0] - len(constants) == before[backend][0]  # without gc, too
    assert losses[-1] < losses[0] / 100
