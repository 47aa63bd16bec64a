"""Define, run and judge patterns: functions with changes of the state that they read.

A pattern is a factory. It makes fresh state and returns a function of one tensor and
changes of that state. A run consists of phases of three calls each, and a change comes
before each phase except the first. A pattern runs eagerly, under ``jit`` and under
``jit(check=True)``, each time with fresh state; the results are compared bit by bit.
"""

import contextlib
import inspect
import itertools
import sys
import textwrap
import types
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import plugrad as pg

from ..helpers import floats, look

CALLS = 3
NAMES = itertools.count()
PATTERNS = {}  # jit must notice these changes, or freeze the state and ``check`` raises
UNREAD = {}  # these changes must not cause another recording


class Pattern(NamedTuple):
    """A function and changes of what it reads.

    Attributes:
        kind: The heading in the table of counts.
        name: The name of the factory, with spaces.
        make: Returns the function and its changes.
        make_argument: Returns the argument for a phase and the index of a call in it.
        max_retraces: The allowed number of retraces; None: any number.

    """

    kind: str
    name: str
    make: Callable
    make_argument: Callable
    max_retraces: int | None = None


class Found(NamedTuple):
    """The outcome of a pattern, and the first call that differs from eager mode."""

    outcome: str
    detail: str = ""


def vector(phase, call):
    return floats(3, scale=1.0 + call)


def pattern(kind, make_argument=vector):
    """Register a factory in ``PATTERNS`` under its own name."""

    def register(make):
        name = make.__name__.replace("_", " ")
        assert name not in PATTERNS, name
        PATTERNS[name] = Pattern(kind, name, make, make_argument)
        return make

    return register


def unread(max_retraces=0, make_argument=vector):
    """Register a factory in ``UNREAD``, with the allowed number of retraces."""

    def register(make):
        name = make.__name__.replace("_", " ")
        assert name not in UNREAD, name
        UNREAD[name] = Pattern("not read", name, make, make_argument, max_retraces)
        return make

    return register


# --- helpers for factories -------------------------------------------------------


def sets_attr(holder, name, value):
    """Return a change that assigns an attribute."""
    return lambda: setattr(holder, name, value)


def sets_item(holder, key, value):
    """Return a change that assigns an item."""
    return lambda: holder.__setitem__(key, value)


def no_change():
    """Change nothing before the next phase."""


def module(source, name=None, file=None):
    """Return a new module with this source, for the use of one pattern."""
    new = types.ModuleType(name or f"pattern_{next(NAMES)}")
    new.__file__ = str(file or Path(__file__).with_name(f"{new.__name__}.py"))
    new.pg = pg
    exec(compile(textwrap.dedent(source), new.__file__, "exec"), vars(new))
    return new


def importable(undo, source, name=None):
    """Return a new module that can be imported until the pattern ends."""
    new = module(source, name)
    sys.modules[new.__name__] = new
    undo(sys.modules.pop, new.__name__, None)
    return new


def patched(undo, holder, name, value):
    """Return a function that changes a shared attribute; ``undo`` restores it."""
    undo(setattr, holder, name, getattr(holder, name))
    return sets_attr(holder, name, value)


# --- running patterns ------------------------------------------------------------


def outcome(f, x):
    """Return the results or the error of a call, for comparisons."""
    try:
        return look(f(x))
    except pg.StaleReplay:
        return "stale"
    except Exception as error:
        return type(error).__name__, str(error)


@contextlib.contextmanager
def set_up(case):
    """Yield the function and the changes of a pattern; undo them afterwards."""
    with contextlib.ExitStack() as stack:
        parameters = inspect.signature(case.make).parameters
        f, *changes = case.make(*[stack.callback for _ in parameters])
        yield f, changes


def calls(case, wrap, explain=False):
    """Return the outcomes of all calls by phase, and the explanation if asked for."""
    with set_up(case) as (f, changes):
        wrapped = wrap(f)
        phases = []
        for phase, change in enumerate((no_change, *changes)):
            change()
            inputs = [case.make_argument(phase, call) for call in range(CALLS)]
            phases.append([outcome(wrapped, x) for x in inputs])
        return (phases, wrapped.explain(inputs[-1])) if explain else phases


def eager(case):
    return calls(case, lambda f: f)


def differing_calls(phases, expected):
    """Return the calls that differ as pairs (phase, call)."""
    return [
        (p, c)
        for p in range(len(expected))
        for c in range(CALLS)
        if phases[p][c] != expected[p][c]
    ]


def observe(case):
    """Return the outcome of a pattern, and the first call that differs.

    - right: all calls equal those in eager mode, and ``check`` finds nothing
    - alarm: all calls equal those in eager mode, but ``check`` raises
    - frozen: a call differs, and ``check`` raises in that call or before
    - error: the first call that differs raises
    - silent: a call differs, and ``check`` has not raised up to that call
    """
    expected = eager(case)
    found = calls(case, pg.jit)
    checked = calls(case, lambda f: pg.jit(f, check=True))
    wrong = differing_calls(found, expected)
    alarms = [
        at
        for at in differing_calls(checked, expected)
        if outcome_at(checked, at) == "stale"
    ]
    if not wrong:
        if differing_calls(checked, expected):
            at = differing_calls(checked, expected)[0]
            return Found("alarm", f"{at}: {outcome_at(checked, at)}")
        return Found("right")
    at = wrong[0]
    detail = f"{at}: {outcome_at(found, at)}, eager: {outcome_at(expected, at)}"
    if alarms and alarms[0] <= at:
        return Found("frozen", detail)
    is_error = isinstance(outcome_at(found, at)[0], str) and not is_result(found, at)
    if is_error and is_result(expected, at):
        return Found("error", detail)
    return Found("silent", detail)


def outcome_at(phases, at):
    return phases[at[0]][at[1]]


def is_result(phases, at):
    """Return whether an outcome is a result of ``look``, which ends with a list."""
    return isinstance(outcome_at(phases, at)[-1], list)


def explained(case):
    """Return whether all calls equal those in eager mode, and the last explanation."""
    found, why = calls(case, pg.jit, explain=True)
    return found == eager(case), why
