"""Random programs whose state changes between calls: eager and jitted are the same.

``--programs=100000`` runs as many on each backend, and ``-k "cpu and jit"`` on one of
them. A program that differs is printed with what happens to it, made smaller.
"""

import plugrad as pg
import pytest

from .side_by_side import compared, report
from .stateful import random_program

PARTS = 4
OURS = ("cpu", "wasm", "opencl")
WAYS = {"jit": pg.jit}
if hasattr(pg, "StaleReplay"):
    WAYS["check"] = lambda f: pg.jit(f, check=True)


@pytest.fixture(params=[name for name in OURS if name in pg.backends()])
def on(request):
    """Run on a backend."""
    with pg.use_backend(request.param):
        yield request.param


@pytest.fixture
def programs(request, on):
    """Return how many programs one part of the tests runs."""
    chosen = request.config.getoption("--programs")
    usual = 1600 if request.config.getoption("--all") else 64
    return (chosen or (usual if on == "cpu" else usual // 4)) // PARTS


@pytest.mark.filterwarnings("ignore:jit. ")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("part", range(PARTS))
def test_programs(part, way, programs, on):
    calls = replayed = 0
    for i in range(programs):
        number = 1_000_000 * part + i
        program = random_program(number)
        outcome = compared(program, WAYS[way], number)
        assert not outcome.difference, report(program, WAYS[way], number)
        calls += outcome.calls
        replayed += outcome.replayed
    print(f"{programs} programs on {on}, {calls} calls, of which {replayed} replayed")
    if way == "jit" and programs >= 16:  # a few programs may all be unlucky
        assert replayed >= calls / 5
