"""Further promises of docs/jit.md: recordings, checks, classes that declare state."""

import subprocess
import sys
import warnings

import numpy as np
import plugrad as pg
import pytest

from .helpers import floats, look, reason, runs

X = floats(3)
STATE = {"scale": 2.0}


@pytest.fixture(autouse=True)
def restore_state():
    yield
    STATE["scale"] = 2.0


# --- recording and confirming ----------------------------------------------------


def test_the_third_call_is_the_first_that_is_replayed():
    @pg.jit
    def f(x):
        runs()
        return x + 1

    before = runs()
    counts = []
    for _ in range(4):
        f(X)
        counts.append(runs() - before)
    assert counts == [2, 4, 5, 6]  # each runs() here counts as well


def test_explain_tells_whether_a_second_call_has_confirmed_the_first():
    f = pg.jit(lambda x: x * 2.0)
    assert not f.explain(X).confirmed
    f(X)
    assert f.explain(X).confirmed


def test_explain_runs_the_function_once_at_most():
    f = pg.jit(lambda x: (runs(), x)[1])
    before = runs()
    for _ in range(3):
        f.explain(X)
    assert runs() == before + 2


def test_one_warning_tells_what_differs():
    numbers = iter(range(100))
    f = pg.jit(lambda x: x * float(next(numbers)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = [f(pg.ones(())).item() for _ in range(60)]
    assert found == [float(n) for n in range(60)]
    (warning,) = caught
    assert warning.filename == __file__
    text = str(warning.message)
    assert "is not replayed: what it does changes from call to call: input 1 of" in text
    assert "pass it as an argument and return it, or hold it in a Variable" in text


def test_a_call_is_replayed_again_once_the_change_has_ended():
    step = [0]

    @pg.jit
    def f(x):
        runs()
        return x * float(min(step[0], 10))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for n in range(100):
            step[0] = n
            assert f(pg.ones(())).item() == min(n, 10)
    step[0] = 10
    for _ in range(40):
        f(pg.ones(()))
    before = runs()
    for _ in range(5):
        f(pg.ones(()))
    assert runs() == before + 1


def test_lazy_initialisation_costs_a_recording():
    class Model:
        table = None

        def __call__(self, x):
            if self.table is None:
                self.table = pg.arange(3) * 2.0
            return x * self.table

    model = Model()
    f = pg.jit(model)
    expected = look(Model()(X))
    assert [look(f(X)) for _ in range(5)] == [expected] * 5
    assert reason(f, X) == ""


# --- check -----------------------------------------------------------------------


def frozen(x):
    """Read state that jit does not compare: Python's recursion limit."""
    return x * float(sys.getrecursionlimit())


@pytest.fixture
def recursion_limit():
    before = sys.getrecursionlimit()
    yield before
    sys.setrecursionlimit(before)


def test_check_raises_with_the_kernel_the_values_and_the_line(recursion_limit):
    f = pg.jit(frozen, check=True)
    for _ in range(4):
        f(X)
    sys.setrecursionlimit(recursion_limit + 1)
    with pytest.raises(pg.StaleReplay) as caught:
        f(X)
    text = str(caught.value)
    assert "a replay of frozen would be stale: input 1 of Multiply was " in text
    assert f"{__file__}:{frozen.__code__.co_firstlineno + 2}: return x * float" in text
    assert issubclass(pg.StaleReplay, RuntimeError)


def test_debug_checks_replays(recursion_limit):
    f = pg.jit(frozen)
    for _ in range(3):
        f(X)
    sys.setrecursionlimit(recursion_limit + 1)
    with pg.debug(), pytest.raises(pg.StaleReplay):
        f(X)
    assert look(f(X)) == look(X * float(recursion_limit))  # the frozen value


def test_check_names_the_kernel_whose_replay_has_other_bits():
    calls = []

    def wrong(x):
        calls.append(x)
        return np.tanh(x) + (len(calls) > 3)

    pg.register_kernel("Tanh", "cpu", wrong)
    try:
        f = pg.jit(lambda x: pg.tanh(x) * 2.0, check=True)
        for _ in range(2):
            f(X)
        calls.clear()
        f(X)  # runs the kernel twice
        with pytest.raises(pg.StaleReplay, match=r"Tanh on cpu returns .* at \(0,\)"):
            f(X)
    finally:
        pg.unregister_kernel("Tanh", "cpu")


def test_draws_effects_and_assignments_happen_once():
    v = pg.Variable(0.0)

    def step(x):
        v.assign(v + 1.0)
        return x + pg.random.uniform((3,)) * v

    found = []
    for f in (step, pg.jit(step, check=True)):
        v.assign(0.0)
        pg.random.seed(3)
        found.append([look((f(X), v.value)) for _ in range(6)])
    pg.random.seed()
    assert found[0] == found[1]


@pytest.mark.parametrize("value", ["0", "false", "False", "off"])
def test_the_environment_switches_it_off(value):
    program = """
import warnings; warnings.simplefilter("error")
import plugrad as pg
calls = []
f = pg.jit(lambda x: (calls.append(1), x)[1])
for _ in range(4): f(pg.ones(1))
print(len(calls))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PLUGRAD_JIT": value, "PATH": "", **import_path_variable()},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "4"


def import_path_variable():
    """Return the import path for a process without our environment."""
    return {"PYTHONPATH": ":".join(filter(None, sys.path))}


# --- classes that declare their state --------------------------------------------


class Declared:
    def __init__(self, rate, other):
        self.rate, self.other = rate, other

    def __jit_state__(self):
        return (self.rate,)

    def __call__(self, x):
        return x * self.rate + self.other


def test_only_the_declared_state_is_compared():
    model = Declared(2.0, 1.0)
    f = pg.jit(model)
    for _ in range(3):
        assert look(f(X)) == look(X * 2.0 + 1.0)
    model.rate = 3.0
    for _ in range(3):
        assert look(f(X)) == look(X * 3.0 + 1.0)
    model.other = 5.0  # is not declared as state
    assert look(f(X)) == look(X * 3.0 + 1.0)
    checked = pg.jit(model, check=True)
    for _ in range(3):
        checked(X)
    model.other = 6.0
    with pytest.raises(pg.StaleReplay):
        checked(X)


def test_changes_of_tensors_in_the_state_are_noticed():
    model = Declared(pg.ones(3), 1.0)
    f = pg.jit(model)
    for n in range(6):
        assert look(f(X)) == look(model(X))
        model.rate = model.rate * float(n)
    model.rate[0] = 9.0
    assert look(f(X)) == look(model(X))


def test_the_declared_state_must_be_a_tuple():
    class Wrong:
        def __jit_state__(self):
            return [1]

        def __call__(self, x):
            return x

    with pytest.raises(TypeError, match="__jit_state__ of Wrong must return a tuple"):
        pg.jit(Wrong())(X)


def test_a_function_that_leads_to_too_many_values_stays_eager():
    table = {f"word {n}": float(n) for n in range(20_000)}
    f = pg.jit(lambda x: x * table["word 3"])
    with pytest.warns(RuntimeWarning, match=r"10,000 values; pass .* __jit_state__ in"):
        assert look(f(X)) == look(X * 3.0)
    for _ in range(3):
        assert look(f(X)) == look(X * 3.0)
    assert "'table' of <lambda> leads to more than 10,000 values" in reason(f, X)
