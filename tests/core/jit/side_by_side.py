"""Run a program with state eagerly and jitted, and compare the two after each event.

Contents: ``Instance``, a program that was set up; ``shown``, the text of its state;
``compared``, which returns an ``Outcome``; ``shrunk`` and ``report`` for a program
whose runs differ.
"""

import functools
import linecache
import sys
import types
from collections import deque
from contextvars import ContextVar, copy_context
from typing import NamedTuple

import numpy as np
import plugrad as pg

from . import helpers
from .stateful import NAMES

PLAIN_TYPES = (type(None), bool, int, float, complex, str)
NAME = "random_program"
PREDEFINED_NAMES = {*NAMES, *vars(types.ModuleType(NAME)), "CALL", "__builtins__"}
PREDEFINED_NAMES.add("__warningregistry__")


def compiled(text, file):
    """Compile a text, and let tracebacks show its lines."""
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    return compile(text, file, "exec", dont_inherit=True)


@functools.lru_cache(4096)
def event_code(text):
    """Return the code of an event."""
    return compile(text, "<event>", "eval" if is_call(text) else "exec")


def is_call(event):
    return event.startswith("CALL(")


class Instance:
    """A program that was set up, whose ``CALL`` is ``wrap(F)``."""

    def __init__(self, code, wrap):
        self.module = types.ModuleType(NAME)
        self.space = vars(self.module)
        self.space |= NAMES
        exec(code, self.space)
        self.space["CALL"] = wrap(self.space["F"])

    def run_event(self, event, seed):
        """Run an event; return the values to compare, and whether ``f`` ran."""
        pg.random.seed(seed)
        before = helpers.runs()
        try:
            found = eval(event_code(event), self.space)
            ran = helpers.runs() > before + 1
            values = helpers.look(found) if is_call(event) else None
            pg.zeros(1).tolist()  # a device may report an error at a later read
        except Exception as error:
            return f"{type(error).__name__}: {error}", True
        return values, ran

    def state(self):
        """Return all state that the program can see, by name."""
        seen = {}
        names = [name for name in self.space if name not in PREDEFINED_NAMES]
        return {name: shown(self.space[name], seen) for name in names}


def shown(x, seen):
    """Return a value as text with all its parts, but without addresses."""
    kind = type(x)
    if kind in PLAIN_TYPES:
        return repr(x)
    if kind is pg.Tensor or kind is pg.Variable:
        return f"{kind.__name__} {x.dtype}{x.numpy().tolist()}"
    if kind is np.ndarray and not x.dtype.hasobject:
        return f"array {x.dtype}{x.tolist()}"
    if id(x) in seen:
        return f"#{seen[id(x)][0]}"
    seen[id(x)] = len(seen), x  # x keeps its id as long as it is referenced
    parts = ", ".join([f"{name}={shown(y, seen)}" for name, y in parts_of(x)])
    name = x.__qualname__ if kind in (type, types.FunctionType) else kind.__name__
    return f"{name}({parts})"


def parts_of(x):
    """Return the parts of an object with their names."""
    kind = type(x)
    if kind is types.FunctionType:
        return parts_of_function(x) if x.__module__ == NAME else ()
    if isinstance(x, type):
        fields = vars(x).items() if x.__module__ == NAME else ()
        return [field for field in fields if field[0] not in IGNORED_ATTRIBUTES]
    found = [*getattr(x, "__dict__", {}).items()]
    if kind.__module__ == NAME:
        slots = getattr(kind, "__slots__", ())
        found += [(name, getattr(x, name, "nothing")) for name in slots]
        found.append(("class", kind))
    for classes, parts in PARTS:
        if isinstance(x, classes):
            found += parts(x)
    return found


def parts_of_function(x):
    """Return the parts of a function of the program; both instances share its code."""
    found = [("code", id(x.__code__)), *vars(x).items()]
    found += [("defaults", x.__defaults__), ("more", x.__kwdefaults__)]
    for name, cell in zip(x.__code__.co_freevars, x.__closure__ or (), strict=True):
        found.append((name, contents(cell)))
    return found


def contents(cell):
    try:
        return cell.cell_contents
    except ValueError:
        return "empty"


def items(x):
    return [(repr(key), value) for key, value in x.items()]


IGNORED_ATTRIBUTES = (
    "__module__",
    "__dict__",
    "__weakref__",
    "__doc__",
    "__qualname__",
)
IGNORED_ATTRIBUTES += ("__dataclass_fields__", "__dataclass_params__", "__match_args__")
PARTS = [
    ((dict, types.MappingProxyType), items),
    ((list, tuple, deque, set, np.ndarray), enumerate),
    (functools.partial, lambda x: enumerate((x.func, x.args, x.keywords))),
    (ContextVar, lambda x: [("value", x.get())]),
    ((staticmethod, classmethod), lambda x: [("function", x.__func__)]),
    (types.MethodType, lambda x: [("function", x.__func__), ("self", x.__self__)]),
    (property, lambda x: enumerate((x.fget, x.fset))),
]


# --- comparing -------------------------------------------------------------------


class Outcome(NamedTuple):
    """The outcome of a comparison.

    Attributes:
        difference: The event after which the runs differ, and the difference; or empty.
        calls: The number of calls that returned without an error.
        replayed: The number of these calls that did not run the function.

    """

    difference: str
    calls: int
    replayed: int


def compared(program, wrap, number=0):
    """Run a program eagerly and with ``wrap(F)``; return the ``Outcome``."""
    # the copy discards the context variables that the program sets
    return copy_context().run(_compared, program, wrap, number)


def _compared(program, wrap, number):
    file = f"<random program {number}>"
    code = compiled(program.source(), file)
    eager = Instance(code, lambda f: f)
    other = Instance(code, wrap)
    assigns = ".assign(" in program.source()
    sys.modules[NAME] = other.module
    calls = replayed = 0
    try:
        for at, event in enumerate(program.events):
            wanted, _ = eager.run_event(event, at)
            found, ran = other.run_event(event, at)
            if found != wanted:
                run_or_replay = "ran" if ran else "replayed"
                text = f"{event} ({run_or_replay})\n  eager: {wanted}\n  found: {found}"
                return Outcome(text, calls, replayed)
            failed = isinstance(wanted, str)
            if not is_call(event):
                continue  # its effect shows after the next call
            if failed and assigns:
                break  # unlike a replay, a failed eager call may have assigned values
            if changed := differing(eager.state(), other.state()):
                return Outcome(f"state after {event}: {changed}", calls, replayed)
            calls += not failed
            replayed += not ran
    finally:
        del sys.modules[NAME], linecache.cache[file]
        for instance in (eager, other):  # object arrays hide cycles from the collector
            instance.space.clear()
        pg.random.seed()
    return Outcome("", calls, replayed)


def differing(wanted, found):
    """Return the names that differ between two states, with both values."""
    names = [n for n in {**wanted, **found} if wanted.get(n) != found.get(n)]
    return "".join(
        f"\n  {n}, eager: {wanted.get(n)}\n  {n}, found: {found.get(n)}" for n in names
    )


def shrunk(program, wrap):
    """Return the program without parts and events that the failure does not need."""

    def fails(smaller):
        try:
            return bool(compared(smaller, wrap).difference)
        except Exception:  # it cannot be set up
            return False

    for part in program.parts:
        rest = tuple(p for p in program.parts if p is not part)
        smaller = program._replace(parts=rest)
        program = smaller if fails(smaller) else program
    for at in reversed(range(len(program.events))):
        events = program.events[:at] + program.events[at + 1 :]
        smaller = program._replace(events=events)
        program = smaller if fails(smaller) else program
    return program


def report(program, wrap, number):
    """Return the shrunk text of a program that differs, with its events."""
    program = shrunk(program, wrap)
    difference = compared(program, wrap, number).difference
    events = "\n".join(program.events)
    text = f"{program.source()}\n# what happens:\n{events}\n# differs: {difference}"
    return f"program {number}\n{text}"
