"""Random programs, as Python source, whose state changes between calls.

A program consists of parts: lines that set it up, lines of a function and changes of
its state. A run of a program is a list of events: changes and calls.

Contents: the names that programs use; ``Program``; ``Writer``, ``random_program``.
``side_by_side`` runs the programs.
"""

import dataclasses
import functools
import itertools
import operator
import random
import re
import types
from collections import ChainMap, OrderedDict, UserDict, defaultdict, deque, namedtuple
from contextvars import ContextVar
from typing import NamedTuple

import numpy as np
import plugrad as pg

from . import helpers
from .grammar import HOLDERS, VALUES, Entry
from .grammar_of_reading import READERS
from .grammar_of_running import HOSTS, RUNNERS, STATEFUL_PARTS

CALLS = 8
SMALL_NUMBERS = ("0.5", "1.5", "2", "-0.5", "True", "0.25")
SHAPES = ("3", "3", "3", "2, 3")
RETURN_EXPRESSIONS = ("y", "(y, [pg.sum(y)])", '{"y": y, "n": 2.0}', "[y, x]")

# --- the names that programs use -------------------------------------------------

# Definitions; the source of a program contains the ones that it uses.
DEFINITIONS = """
class Plain:
    pass

class Other(Plain):
    v = 0.125

class Slots:
    __slots__ = ("v", "w")

@dataclass
class Data:
    v: object = None
    other: float = 1.0

class Bag:
    def __init__(self, items):
        self.items = list(items)
    def __iter__(self):
        return iter(self.items)
    def __len__(self):
        return len(self.items)
    def __setitem__(self, at, value):
        self.items[at] = value

class Table(dict):
    pass

class Fetch:
    def __init__(self, found):
        self.found = found
    def __getitem__(self, key):
        return self.found

def identity(v):
    return v

def double(y):
    return y + y

def cell(v):
    return lambda: v

def other(x, flag=False, more=None):
    runs()
    return x - 0.5
"""
DEFINITIONS = [*re.split(r"\n\n", DEFINITIONS.strip())]


def array(seed, *shape):
    """Return numbers between -1 and 1 that depend only on the seed and the shape."""
    count = int(np.prod(shape or (3,)))
    values = np.sin(np.arange(count, dtype=np.float32) + np.float32(seed))
    return values.reshape(shape or (3,))


def tensor(seed, *shape):
    """Return the same numbers as ``array`` in a tensor."""
    return pg.asarray(array(seed, *shape))


def set_up(target, **values):
    """Set attributes of an object, and return it."""
    for name, value in values.items():
        setattr(target, name, value)
    return target


def context_variable(value):
    """Return a new context variable with this value."""
    variable = ContextVar("v")
    variable.set(value)
    return variable


NAMES = {
    "ChainMap": ChainMap,
    "MappingProxyType": types.MappingProxyType,
    "ModuleType": types.ModuleType,
    "OrderedDict": OrderedDict,
    "SimpleNamespace": types.SimpleNamespace,
    "UserDict": UserDict,
    "array": array,
    "attrgetter": operator.attrgetter,
    "cached_property": functools.cached_property,
    "context_variable": context_variable,
    "dataclass": dataclasses.dataclass,
    "defaultdict": defaultdict,
    "deque": deque,
    "eye": lambda scale: pg.asarray(np.eye(3, dtype=np.float32) * np.float32(scale)),
    "itertools": itertools,
    "namedtuple": namedtuple,
    "np": np,
    "partial": functools.partial,
    "pg": pg,
    "runs": helpers.runs,
    "set_up": set_up,
    "tensor": tensor,
    "tree_map": pg.tree.map,
    "wraps": functools.wraps,
}


# --- programs --------------------------------------------------------------------


class Program(NamedTuple):
    """A program and the events of its run.

    Attributes:
        host: The definition of the function, with ``$block`` in place of its lines.
        parts: The parts of the function.
        end: The expression that the function returns.
        events: Lines that change state; those that begin with ``CALL`` are calls.

    """

    host: Entry
    parts: tuple[Entry, ...]
    end: str
    events: tuple[str, ...]

    def source(self):
        """Return the text of the program."""
        block = ["runs()", "out, y = {}, x", "if flag:", "    y = -y"]
        block += ["if more:", '    y = y + more["w"] * more["scale"]']
        for part in self.parts:
            block += part.body
        block += [f"return (out, {self.end}) if out else {self.end}"]
        setup = [line for part in self.parts for line in part.setup]
        text = "\n".join([*setup, *placed(self.host.setup, block), ""])
        all_code = "\n".join([text, *self.events])
        for definition in reversed(DEFINITIONS):
            if re.search(rf"\b{name_of(definition)}\b", all_code):
                text = f"{definition}\n{text}"
                all_code = f"{definition}\n{all_code}"
        return text


def name_of(definition):
    """Return the name of the class or function that a text defines."""
    return re.search(r"(?:class|def) (\w+)", definition).group(1)


def placed(lines, block):
    """Return lines with a block in place of ``$block``, at the same indentation."""
    found = []
    for line in lines:
        if line.strip() == "$block":
            indent = line[: line.index("$")]
            found += [indent + inner for inner in block]
        else:
            found.append(line)
    return found


class Writer:
    """Writes parts at random."""

    def __init__(self, rng):
        self.rng, self.count = rng, itertools.count()

    def literal(self, kind):
        return self.rng.choice(VALUES[kind].literals)

    def filled(self, line, **values):
        """Replace the marks in a line; each ``$v`` gets another random value."""
        if "$" not in line:
            return line
        fill = lambda mark: self.drawn(mark.group(1), values)
        return re.sub(r"\$(block|[a-z])", fill, line)

    def drawn(self, mark, values):
        if mark == "s":
            return self.rng.choice(SMALL_NUMBERS)
        if mark == "i":
            return str(self.rng.randrange(20))
        value = values.get(mark, f"${mark}")
        return value() if callable(value) else value

    def entry(self, entry, **values):
        """Replace the marks in an entry."""
        parts = [[self.filled(line, **values) for line in part] for part in entry]
        return Entry(*map(tuple, parts))

    def place(self, kind):
        """Return a global that contains a value: set-up, expression and changes."""
        name = f"K{next(self.count)}"
        levels = self.rng.choices(HOLDERS, k=self.rng.choice((0, 1, 1, 2)))
        new = lambda: self.literal(kind)
        expression = name
        changes = []
        makers = [new]  # from the innermost value to the outermost holder
        for holder in reversed(levels):
            make = lambda h=holder, v=makers[-1]: self.filled(h.setup[0], v=v)
            makers.append(make)
        changes.append(f"{name} = {makers[-1]()}")
        for holder, inner in zip(levels, reversed(makers[:-1]), strict=True):
            fill = {"b": expression, "v": inner}
            changes += [self.filled(line, **fill) for line in holder.changes]
            expression = self.filled(holder.body[0], **fill)
        changes += [self.filled(x, e=expression) for x in VALUES[kind].changes]
        return [f"{name} = {makers[-1]()}"], expression, changes

    def reading(self):
        """Return a part that reads one value."""
        kind = self.rng.choice([*VALUES])
        setup, expression, changes = self.place(kind)
        values = {"v": lambda: self.literal(kind), "n": str(next(self.count))}
        if self.rng.random() < 0.5:
            reader = self.rng.choice(READERS)
            read = self.entry(reader, e=expression, **values)
            setup += read.setup
            expression = read.body[0]
            changes = [*changes, *read.changes]
        runner = self.rng.choice(RUNNERS) if self.rng.random() < 0.6 else RUNNERS[0]
        inner = "v" if any("$e" in line for line in runner.setup) else expression
        uses = VALUES[kind].uses
        if any("$block" in line for line in runner.setup):  # a nested function
            uses = [use for use in uses if "out" not in use]
        use = self.filled(self.rng.choice(uses), e=inner).splitlines()
        values["n"] = str(next(self.count))
        run = self.entry(runner, e=expression, **values)
        setup += placed(run.setup, use)
        changes += run.changes
        return Entry(tuple(setup), tuple(placed(run.body, use)), tuple(changes))

    def special(self):
        """Return a part made from one of ``STATEFUL_PARTS``."""
        entry = self.rng.choice(STATEFUL_PARTS)
        return self.entry(entry, n=str(next(self.count)))

    def call(self, usual_arguments):
        """Return a call, mostly with arguments like those of the other calls."""
        shape, more = usual_arguments
        if more and self.rng.random() < 0.1:
            more = more.replace("0.5", self.rng.choice(SMALL_NUMBERS))
        if self.rng.random() < 0.1:
            shape = self.rng.choice(SHAPES)
        flag = ", flag=True" if self.rng.random() < 0.1 else ""
        x = f"tensor({self.rng.randrange(100)}, {shape})"
        return f"CALL({x}{flag}{more})"

    def events(self, changes):
        """Return calls with changes between them."""
        more = self.rng.choice(("", "", ', more={"w": tensor(1), "scale": 0.5}'))
        usual_arguments = self.rng.choice(SHAPES), more
        found = [self.call(usual_arguments)]
        for _ in range(CALLS - 1):
            while changes and self.rng.random() < 0.2:
                change = self.rng.choice(changes)
                if change.startswith("del ") and self.rng.random() < 0.5:
                    change = self.rng.choice(changes)
                found.append(change)
            found.append(self.call(usual_arguments))
        return tuple(found)


def random_program(seed):
    """Return the program that a seed determines."""
    writer = Writer(random.Random(seed))
    parts = []
    for _ in range(writer.rng.choice((1, 2, 2, 3))):
        make = writer.special if writer.rng.random() < 0.2 else writer.reading
        parts.append(make())
    host = writer.entry(writer.rng.choice([HOSTS[0], *HOSTS]))
    changes = [line for part in parts * 3 + [host] for line in part.changes]
    end = writer.rng.choice(RETURN_EXPRESSIONS)
    return Program(host, tuple(parts), end, writer.events(changes))
