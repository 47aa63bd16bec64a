"""Write, run and judge patterns: functions, and changes of the state they read.

A pattern is a factory. It makes fresh state and returns a function of one tensor, and
changes of that state. Each phase is three calls; a change comes before each phase but
the first. The phases run eagerly, under ``jit`` and under ``jit(check=True)``, each
time on state of their own, and are compared to the bit.
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
PATTERNS = {}  # what jit must see, or must freeze with a sign
UNREAD = {}  # what must not be recorded anew


class Pattern(NamedTuple):
    """A function and changes of what it reads.

    Attributes:
        kind: The heading in the table of counts.
        name: A sentence.
        make: Returns the function and its changes.
        given: Returns the argument of a call, by the phase and the number in it.
        max_retraces: The highest number of retraces; None if any number will do.

    """

    kind: str
    name: str
    make: Callable
    given: Callable
    max_retraces: int | None = None


class Found(NamedTuple):
    """The outcome of a pattern: its class, and where it differs from eager."""

    outcome: str
    detail: str = ""


def vector(phase, call):
    return floats(3, scale=1.0 + call)


def pattern(kind, given=vector):
    """Enter a factory into ``PATTERNS``; its name is the name of the pattern."""

    def enter(make):
        name = make.__name__.replace("_", " ")
        assert name not in PATTERNS, name
        PATTERNS[name] = Pattern(kind, name, make, given)
        return make

    return enter


def unread(max_retraces=0, given=vector):
    """Enter a factory into ``UNREAD``, with the highest number of retraces."""

    def enter(make):
        name = make.__name__.replace("_", " ")
        assert name not in UNREAD, name
        UNREAD[name] = Pattern("not read", name, make, given, max_retraces)
        return make

    return enter


# --- what factories are written with ---------------------------------------------


def gives(holder, name, value):
    """Return a change: an attribute is assigned."""
    return lambda: setattr(holder, name, value)


def puts(holder, key, value):
    """Return a change: an item is assigned."""
    return lambda: holder.__setitem__(key, value)


def nothing():
    """Change nothing: there is one more phase."""


def module(source, name=None, file=None):
    """Return a new module, whose globals are those of a pattern alone."""
    made = types.ModuleType(name or f"pattern_{next(NAMES)}")
    made.__file__ = str(file or Path(__file__).with_name(f"{made.__name__}.py"))
    made.pg = pg
    exec(compile(textwrap.dedent(source), made.__file__, "exec"), vars(made))
    return made


def importable(undo, source, name=None):
    """Return a new module that ``import`` finds, until the pattern is over."""
    made = module(source, name)
    sys.modules[made.__name__] = made
    undo(sys.modules.pop, made.__name__, None)
    return made


def patched(undo, holder, name, value):
    """Return a change of an attribute that is not the pattern's own, and undo it."""
    undo(setattr, holder, name, getattr(holder, name))
    return gives(holder, name, value)


# --- how they run ----------------------------------------------------------------


def outcome(f, x):
    """Return what has to be equal: the results or the error."""
    try:
        return look(f(x))
    except pg.StaleReplay:
        return "stale"
    except Exception as error:
        return type(error).__name__, str(error)


@contextlib.contextmanager
def made(of):
    """Return the function and the changes of a pattern; undo what it has changed."""
    with contextlib.ExitStack() as stack:
        wanted = inspect.signature(of.make).parameters
        f, *changes = of.make(*[stack.callback for _ in wanted])
        yield f, changes


def calls(of, wrap, explain=False):
    """Return the outcomes of all calls, by phases; at choice what ``explain`` says."""
    with made(of) as (f, changes):
        wrapped = wrap(f)
        phases = []
        for phase, change in enumerate((nothing, *changes)):
            change()
            inputs = [of.given(phase, call) for call in range(CALLS)]
            phases.append([outcome(wrapped, x) for x in inputs])
        return (phases, wrapped.explain(inputs[-1])) if explain else phases


def eager(of):
    return calls(of, lambda f: f)


def differing(phases, expected):
    """Return the numbers of the calls that differ, by phase and call."""
    return [
        (p, c)
        for p in range(len(expected))
        for c in range(CALLS)
        if phases[p][c] != expected[p][c]
    ]


def observe(of):
    """Return the outcome of a pattern: its class, and the first call that differs.

    - right: all calls equal eager's, and ``check`` finds nothing
    - alarm: all calls equal eager's, but ``check`` raises
    - frozen: a call differs, and ``check`` raises there or before
    - error: the first call that differs raises
    - silent: a call differs, and ``check`` does not raise by then
    """
    expected = eager(of)
    found = calls(of, pg.jit)
    checked = calls(of, lambda f: pg.jit(f, check=True))
    wrong = differing(found, expected)
    alarms = [
        at for at in differing(checked, expected) if at_call(checked, at) == "stale"
    ]
    if not wrong:
        if differing(checked, expected):
            at = differing(checked, expected)[0]
            return Found("alarm", f"{at}: {at_call(checked, at)}")
        return Found("right")
    at = wrong[0]
    detail = f"{at}: {at_call(found, at)}, eager: {at_call(expected, at)}"
    if alarms and alarms[0] <= at:
        return Found("frozen", detail)
    is_error = isinstance(at_call(found, at)[0], str) and not is_result(found, at)
    if is_error and is_result(expected, at):
        return Found("error", detail)
    return Found("silent", detail)


def at_call(phases, at):
    return phases[at[0]][at[1]]


def is_result(phases, at):
    """Tell the result of ``look``, which ends with a list, from an error."""
    return isinstance(at_call(phases, at)[-1], list)


def explained(of):
    """Return whether all calls equal eager's, and what ``explain`` says at the end."""
    found, why = calls(of, pg.jit, explain=True)
    return found == eager(of), why
