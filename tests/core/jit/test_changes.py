"""Whatever a function reads may change: jit sees it, or ``check`` raises.

The patterns are in ``changes``; ``python -m tests.core.jit.changes`` prints a table.
"""

import time
from collections import Counter

import plugrad as pg
import pytest

from .changes import FROZEN, PATTERNS, UNREAD, eager, expected, explained, observe
from .changes.harness import Pattern, gives, nothing, vector
from .helpers import floats

pytestmark = [
    pytest.mark.filterwarnings("ignore:jit. .* has been recorded"),
    pytest.mark.filterwarnings("ignore:jit. .* is not replayed"),
]
BACKENDS = [name for name in ("cpu", "wasm", "opencl") if name in pg.backends()]


@pytest.fixture(params=BACKENDS)
def on(request):
    """Run on each backend."""
    with pg.use_backend(request.param):
        yield request.param


@pytest.mark.parametrize("name", PATTERNS)
def test_a_change_is_seen(name, on):
    found = observe(PATTERNS[name])
    assert found.outcome == expected(name), found.detail


@pytest.mark.parametrize("name", UNREAD)
def test_what_is_not_read_is_not_recorded_anew(name, on):
    is_right, why = explained(UNREAD[name])
    assert is_right
    assert why.reason == ""
    assert len(why.retraces) <= UNREAD[name].max_retraces


def test_no_pattern_is_silent(on):
    outcomes = {name: observe(of).outcome for name, of in PATTERNS.items()}
    counts = Counter(outcomes.values())
    assert counts["silent"] == 0, [n for n in outcomes if outcomes[n] == "silent"]
    assert counts["right"] + counts["frozen"] == len(PATTERNS)
    assert counts["frozen"] <= len(FROZEN)


def test_there_are_many_patterns():
    assert len(PATTERNS) >= 500
    assert FROZEN.keys() <= PATTERNS.keys()


def test_patterns_can_be_repeated(on):
    """What they have changed is undone, and what they draw is seeded."""
    patterns = [*PATTERNS.values(), *UNREAD.values()]
    assert [of.name for of in patterns if eager(of) != eager(of)] == []


def test_patterns_change_results():
    """Where they do not, results differ from call to call."""
    phases = {name: eager(of) for name, of in PATTERNS.items()}
    equal = [name for name in phases if all(p == phases[name][0] for p in phases[name])]
    assert {PATTERNS[name].kind for name in equal} <= {"state that f changes"}


def test_the_clock_is_read_in_each_call():
    start = time.perf_counter()
    jitted = pg.jit(lambda x: x * 0.0 + (time.perf_counter() - start))
    times = [jitted(floats(1)).item() for _ in range(9)]
    assert times == sorted(set(times))
    assert __file__ in jitted.explain(floats(1)).reason


# --- the harness -----------------------------------------------------------------


class Model:
    """What the patterns of these tests read."""

    rate = 2.0


def changing():
    m = Model()
    return lambda x: x * m.rate, gives(m, "rate", 3.0)


class Stale:
    """A function that is called eagerly in its first calls, and then goes wrong."""

    def __init__(self, f, calls, then):
        self.f = f
        self.left = calls
        self.then = then

    def __call__(self, x):
        self.left -= 1
        return self.f(x) if self.left >= 0 else self.then(x)


def raises(error):
    def then(x):
        raise error("no")

    return then


OUTCOMES = {
    "right": (99, raises(ValueError), 99),
    "alarm": (99, raises(ValueError), 4),
    "frozen": (3, lambda x: x, 3),
    "frozen before it differs": (4, lambda x: x, 3),
    "silent": (3, lambda x: x, 99),
    "silent, and check is late": (3, lambda x: x, 4),
    "error": (3, raises(ValueError), 99),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_the_harness_tells_outcomes(name, monkeypatch):
    calls, then, checked = OUTCOMES[name]

    def jit(f, check=False):
        stale = raises(pg.StaleReplay)
        return Stale(f, checked, stale) if check else Stale(f, calls, then)

    monkeypatch.setattr(pg, "jit", jit)
    found = observe(Pattern("harness", name, changing, vector))
    assert found.outcome == name.split()[0].strip(",")


def test_the_harness_undoes_what_a_pattern_has_changed():
    def make(undo):
        undo(setattr, Model, "rate", Model.rate)
        return changing()[0], gives(Model, "rate", 3.0), nothing

    of = Pattern("harness", "class attribute", make, vector)
    first = eager(of)
    assert first[0] != first[1] == first[2]
    assert eager(of) == first
    assert Model.rate == 2.0
