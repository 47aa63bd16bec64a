"""Run a program with state twice, eager and jitted, and compare after each event.

Map: ``Instance``, a program that was set up; ``shown``, its state; ``compared``, which
returns an ``Outcome``; ``shrunk`` and ``report`` of a program that differs.
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

PLAIN = (type(None), bool, int, float, complex, str)
NAME = "random_program"
GIVEN = {*NAMES, *vars(types.ModuleType(NAME)), "CALL", "__builtins__"}
GIVEN.add("__warningregistry__")


def compiled(text, file):
    """Return the code of a text, which tracebacks show."""
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    return compile(text, file, "exec", dont_inherit=True)


@functools.lru_cache(4096)
def event_code(text):
    """Return the code of an event."""
    return compile(text, "<event>", "eval" if is_call(text) else "exec")


def is_call(event):
    return event.startswith("CALL(")


class Instance:
    """A program that was set up.

    Its ``CALL`` is what ``wrap`` makes of its ``F``.
    """

    def __init__(self, code, wrap):
        self.module = types.ModuleType(NAME)
        self.space = vars(self.module)
        self.space |= NAMES
        exec(code, self.space)
        self.space["CALL"] = wrap(self.space["F"])

    def happen(self, event, seed):
        """Let an event happen; return what is compared, and whether it ran ``f``."""
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
        """Return all that the program can see, by name."""
        seen = {}
        names = [name for name in self.space if name not in GIVEN]
        return {name: shown(self.space[name], seen) for name in names}


def shown(x, seen):
    """Return a value as text: all that is in it, without addresses."""
    kind = type(x)
    if kind in PLAIN:
        return repr(x)
    if kind is pg.Tensor or kind is pg.Variable:
        return f"{kind.__name__} {x.dtype}{x.numpy().tolist()}"
    if kind is np.ndarray and not x.dtype.hasobject:
        return f"array {x.dtype}{x.tolist()}"
    if id(x) in seen:
        return f"#{seen[id(x)][0]}"
    seen[id(x)] = len(seen), x  # which keeps the object, and so its id
    parts = ", ".join([f"{name}={shown(y, seen)}" for name, y in inside(x)])
    name = x.__qualname__ if kind in (type, types.FunctionType) else kind.__name__
    return f"{name}({parts})"


def inside(x):
    """Return what is in an object, with names."""
    kind = type(x)
    if kind is types.FunctionType:
        return inside_function(x) if x.__module__ == NAME else ()
    if isinstance(x, type):
        fields = vars(x).items() if x.__module__ == NAME else ()
        return [field for field in fields if field[0] not in UNSEEN]
    found = [*getattr(x, "__dict__", {}).items()]
    if kind.__module__ == NAME:
        slots = getattr(kind, "__slots__", ())
        found += [(name, getattr(x, name, "nothing")) for name in slots]
        found.append(("class", kind))
    for classes, parts in PARTS:
        if isinstance(x, classes):
            found += parts(x)
    return found


def inside_function(x):
    """Return what a function of the program has; both instances share its code."""
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


UNSEEN = ("__module__", "__dict__", "__weakref__", "__doc__", "__qualname__")
UNSEEN += ("__dataclass_fields__", "__dataclass_params__", "__match_args__")
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
    """What came of a program.

    Attributes:
        difference: The event after which the two differ, and in what; or empty.
        calls: How many calls returned something.
        replayed: How many of these did not run the function.

    """

    difference: str
    calls: int
    replayed: int


def compared(program, wrap, number=0):
    """Run a program eagerly and as ``wrap`` has it; return the ``Outcome``."""
    return copy_context().run(_compared, program, wrap, number)  # and its variables go


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
            wanted, _ = eager.happen(event, at)
            found, ran = other.happen(event, at)
            if found != wanted:
                how = "ran" if ran else "replayed"
                text = f"{event} ({how})\n  eager: {wanted}\n  found: {found}"
                return Outcome(text, calls, replayed)
            failed = isinstance(wanted, str)
            if not is_call(event):
                continue  # its effect is seen after the next call
            if failed and assigns:
                break  # an eager call leaves what it has assigned, a replay does not
            if changed := differing(eager.state(), other.state()):
                return Outcome(f"state after {event}: {changed}", calls, replayed)
            calls += not failed
            replayed += not ran
    finally:
        del sys.modules[NAME], linecache.cache[file]
        for instance in (eager, other):  # no collector sees cycles of object arrays
            instance.space.clear()
        pg.random.seed()
    return Outcome("", calls, replayed)


def differing(wanted, found):
    """Return the names that differ in two states, with what they are."""
    names = [n for n in {**wanted, **found} if wanted.get(n) != found.get(n)]
    return "".join(
        f"\n  {n}, eager: {wanted.get(n)}\n  {n}, found: {found.get(n)}" for n in names
    )


def shrunk(program, wrap):
    """Return the program without parts and events that make no difference."""

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
    """Return the text of a program that differs, made smaller, with its events."""
    program = shrunk(program, wrap)
    difference = compared(program, wrap, number).difference
    events = "\n".join(program.events)
    text = f"{program.source()}\n# what happens:\n{events}\n# differs: {difference}"
    return f"program {number}\n{text}"
