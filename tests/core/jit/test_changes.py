"""State that a function reads may change: jit notices it, or ``check`` raises.

The patterns are in ``changes``; ``python -m tests.core.jit.changes`` prints a table.
"""

import time
from collections import Counter

import plugrad as pg
import pytest

from .changes import FROZEN, PATTERNS, UNREAD, eager, expected, explained, observe
from .changes.harness import Pattern, no_change, sets_attr, vector
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
def test_a_change_is_noticed(name, on):
    found = observe(PATTERNS[name])
    assert found.outcome == expected(name), found.detail


@pytest.mark.parametrize("name", UNREAD)
def test_changes_of_unread_state_cause_no_recording(name, on):
    is_right, why = explained(UNREAD[name])
    assert is_right
    assert why.reason == ""
    assert len(why.retraces) <= UNREAD[name].max_retraces


def test_no_pattern_is_silent(on):
    outcomes = {name: observe(pattern).outcome for name, pattern in PATTERNS.items()}
    counts = Counter(outcomes.values())
    assert counts["silent"] == 0, [n for n in outcomes if outcomes[n] == "silent"]
    assert counts["right"] + counts["frozen"] == len(PATTERNS)
    assert counts["frozen"] <= len(FROZEN)


def test_there_are_many_patterns():
    assert len(PATTERNS) >= 500
    assert FROZEN.keys() <= PATTERNS.keys()


def test_patterns_can_be_repeated(on):
    """Patterns undo their changes and seed their random numbers."""
    patterns = [*PATTERNS.values(), *UNREAD.values()]
    differ = [pattern.name for pattern in patterns if eager(pattern) != eager(pattern)]
    assert differ == []


def test_patterns_change_results():
    """Only patterns whose function changes state itself may have equal phases."""
    phases = {name: eager(pattern) for name, pattern in PATTERNS.items()}
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
    """An object that the patterns of these tests read."""

    rate = 2.0


def changing():
    m = Model()
    return lambda x: x * m.rate, sets_attr(m, "rate", 3.0)


class Stale:
    """A function that is right in its first calls, and wrong in later ones."""

    def __init__(self, f, right_calls, wrong):
        self.f = f
        self.right_calls = right_calls
        self.wrong = wrong

    def __call__(self, x):
        self.right_calls -= 1
        return self.f(x) if self.right_calls >= 0 else self.wrong(x)


def raises(error):
    def function(x):
        raise error("no")

    return function


# outcome: (right calls, function of the wrong calls, calls until ``check`` raises)
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
def test_the_harness_recognizes_outcomes(name, monkeypatch):
    right_calls, wrong, calls_until_check_raises = OUTCOMES[name]

    def jit(f, check=False):
        stale = raises(pg.StaleReplay)
        if check:
            return Stale(f, calls_until_check_raises, stale)
        return Stale(f, right_calls, wrong)

    monkeypatch.setattr(pg, "jit", jit)
    found = observe(Pattern("harness", name, changing, vector))
    assert found.outcome == name.split()[0].strip(",")


def test_the_harness_undoes_the_changes_of_a_pattern():
    def make(undo):
        undo(setattr, Model, "rate", Model.rate)
        return changing()[0], sets_attr(Model, "rate", 3.0), no_change

    pattern = Pattern("harness", "class attribute", make, vector)
    first = eager(pattern)
    assert first[0] != first[1] == first[2]
    assert eager(pattern) == first
    assert Model.rate == 2.0
