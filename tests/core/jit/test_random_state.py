"""Random programs with changing state give the same results under ``jit``.

``--programs=100000`` runs that many programs on each backend, with ``-k "cpu and jit"``
only on cpu. If results differ, the program is shrunk and printed with its events.
"""

import plugrad as pg
import pytest

from .side_by_side import compared, report
from .stateful import random_program

PARTS = 4
OUR_BACKENDS = ("cpu", "wasm", "opencl")
WRAPPERS = {"jit": pg.jit}
if hasattr(pg, "StaleReplay"):
    WRAPPERS["check"] = lambda f: pg.jit(f, check=True)


@pytest.fixture(params=[name for name in OUR_BACKENDS if name in pg.backends()])
def on(request):
    """Run on a backend."""
    with pg.use_backend(request.param):
        yield request.param


@pytest.fixture
def programs(request, on):
    """Return the number of programs in one part of the tests."""
    chosen = request.config.getoption("--programs")
    usual = 1600 if request.config.getoption("--all") else 64
    return (chosen or (usual if on == "cpu" else usual // 4)) // PARTS


@pytest.mark.filterwarnings("ignore:jit. ")
@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("part", range(PARTS))
def test_programs(part, wrapper, programs, on):
    calls = replayed = 0
    for i in range(programs):
        number = 1_000_000 * part + i
        program = random_program(number)
        outcome = compared(program, WRAPPERS[wrapper], number)
        assert not outcome.difference, report(program, WRAPPERS[wrapper], number)
        calls += outcome.calls
        replayed += outcome.replayed
    print(f"{programs} programs on {on}, {calls} calls, {replayed} replayed")
    if wrapper == "jit" and programs >= 16:  # a few programs might all run eagerly
        assert replayed >= calls / 5
