"""How a graph runs: steps in a straight line over a list of values.

What depends on parameters and constants alone is computed once in a ``Session``, before
the steps that depend on the inputs. Arrays of NumPy are on the host: shapes and what is
computed of them. A step gets tensors, but for the inputs that it reads on the host.

Map: ``Program`` and its ``Step``; ``Session``; ``Branch``, which a control op calls.
"""

from __future__ import annotations

import functools
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plugrad as pg
from plugrad.importing import last_uses

from .graph import Graph, Node
from .registry import Value

__all__ = ["Branch", "Program", "Session", "apart"]

Array = np.ndarray[Any, Any]
NONE = 0  # the place of an input that is left out


@dataclass(slots=True)
class Step:
    """A node that is ready to run.

    Attributes:
        function: Takes tensors, and arrays at the places that it reads.
        host: Takes arrays of NumPy; None if there is no such function.
        inputs: Places of the values.
        tensors: Which inputs must be tensors.
        reads: Which inputs must be arrays.
        drops: Places of the values that no later step uses.

    """

    node: Node
    function: Callable[..., Value]
    host: Callable[..., Value] | None
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    tensors: tuple[int, ...]
    reads: tuple[int, ...]
    drops: tuple[int, ...] = ()
    takes_session: bool = False


class Known:
    """What the constants and parameters are called, with those of outer graphs.

    Attributes:
        once: What passes know to be computed of them alone.

    """

    def __init__(self, graph: Graph, outer: Known | None = None) -> None:
        self.once: set[str] = set()
        above = (outer.constants, outer.params) if outer else (ChainMap(), ChainMap())
        self.constants: ChainMap[str, Array] = above[0].new_child({**graph.constants})
        self.params: ChainMap[str, Array] = above[1].new_child({**graph.params})

    def __contains__(self, name: str) -> bool:
        return name in self.constants or name in self.params or name in self.once

    def follow(self, graph: Graph) -> None:
        """Add what the nodes of a graph compute once."""
        for node in graph.nodes:
            if self.fixes(node):
                self.once.update(filter(None, node.outputs))

    def fixes(self, node: Node) -> bool:
        """Return whether a node depends on what is known alone."""
        free = all(not name or name in self for name in node.inputs)
        return free and not node.row.random and not node.subgraphs


class Program:
    """A graph as steps; ``captures`` are the values of outer graphs that it uses."""

    def __init__(
        self, graph: Graph, captures: Sequence[str] = (), outer: Known | None = None
    ) -> None:
        self.graph = graph
        self.known = Known(graph, outer)
        self.places = {"": NONE}
        names = [info.name for info in graph.inputs]
        self.inputs = tuple(self.place(name) for name in [*names, *captures])
        self.constants: dict[int, Array] = {}
        self.params: dict[int, str] = {}
        fixed: set[str] = set()
        before, after = [], []
        for node in graph.nodes:
            step = self.step(node)
            free = all(not n or n in self.known or n in fixed for n in node.inputs)
            if free and not node.row.random and not node.subgraphs:
                fixed.update(node.outputs)
                before.append(step)
            else:
                after.append(step)
        self.outputs = tuple(self.use(info.name) for info in graph.outputs)
        kept = {place for step in after for place in step.inputs} | {*self.outputs}
        kept |= {NONE, *self.constants, *self.params}
        self.before = _with_drops(before, kept)
        fixed_places = {self.places[name] for name in fixed}
        kept = ({*kept, *fixed_places} - _made_by(after)) | {*self.outputs}
        self.after = _with_drops(after, kept)

    def place(self, name: str) -> int:
        """Return the place of a value, a new one if it has none."""
        return self.places.setdefault(name, len(self.places))

    def use(self, name: str) -> int:
        """Return the place of a value that is used."""
        place = self.place(name)
        if name in self.known.params:
            self.params[place] = name
        elif name in self.known.constants:
            self.constants[place] = self.known.constants[name]
        return place

    def step(self, node: Node) -> Step:
        """Return a node with its attributes bound, and with places for its values."""
        row, attrs = node.row, dict(node.attrs)
        inputs = list(node.inputs)
        captures = list(
            dict.fromkeys(
                name
                for graph in node.subgraphs
                for name in graph.free_names()
                if name not in self.known
            )
        )
        for name, value in attrs.items():
            if isinstance(value, Graph):
                attrs[name] = Branch(Program(value, captures, self.known))
        attrs = row.arguments(attrs, node)

        def bind(f: Any) -> Any:
            return functools.partial(f, **attrs) if f and attrs else f

        positions = range(len(inputs))
        read = tuple(i for i in positions if i in row.reads)
        moved = (i for i in positions if i not in row.reads and i not in row.either)
        return Step(
            node,
            bind(row.function),
            bind(row.host),
            tuple(self.use(name) for name in [*inputs, *captures]),
            tuple(self.place(name) if name else -1 for name in node.outputs),
            () if node.subgraphs else tuple(moved),
            read,
            takes_session=row.takes_session,
        )

    def run(self, session: Session, args: Sequence[Value]) -> list[Value]:
        """Return the outputs for inputs, and for what is captured after them."""
        values = list(session.start(self))
        for place, value in zip(self.inputs, args, strict=True):
            values[place] = value
        session.run(self.after, values, self)
        return [values[place] for place in self.outputs]

    def steps(self) -> list[Step]:
        """Return all steps."""
        return [*self.before, *self.after]


def _made_by(steps: Sequence[Step]) -> set[int]:
    return {place for step in steps for place in step.outputs}


def _with_drops(steps: Sequence[Step], kept: set[int]) -> list[Step]:
    """Let each step drop what no later one uses, and is not ``kept``."""
    rows = [[*s.inputs, *(p for p in s.outputs if p >= 0)] for s in steps]
    for step, drops in zip(steps, last_uses(rows, kept), strict=True):
        step.drops = drops
    return list(steps)


@dataclass(frozen=True)
class Branch:
    """A graph among the attributes of ``If``, ``Loop`` or ``Scan``."""

    program: Program

    @property
    def count(self) -> int:
        """The number of inputs of its own."""
        return len(self.program.graph.inputs)

    def __call__(self, session: Session, *args: Value) -> list[Value]:
        """Return the outputs for its inputs and what it captures."""
        return self.program.run(session, args)


class Session:
    """The values of parameters, and what was computed of them and of constants.

    Args:
        params: Tensors by name.
        backend: Where the session lasts for all calls of a model; None: for one call,
            which may be differentiated in the parameters.

    Attributes:
        tensors: Those that last.

    """

    def __init__(
        self, params: Mapping[str, pg.Tensor], backend: str | None = None
    ) -> None:
        self.params, self.backend = params, backend
        self.tensors: list[pg.Tensor] = []
        self.values: dict[Program, list[Value]] = {}
        self.others: dict[tuple[Program, int, bool], Value] = {}

    def start(self, program: Program) -> list[Value]:
        """Return the values with which a program begins."""
        values = self.values.get(program)
        if values is None:
            values = [None] * len(program.places)
            for place, value in program.constants.items():
                values[place] = value
            for place, name in program.params.items():
                values[place] = self.params[name]
            self.compute(lambda: self.run(program.before, values, program))
            self.values[program] = values
            self.tensors += [x for x in values if isinstance(x, pg.Tensor)]
        return values

    def compute(self, f: Callable[[], Value]) -> Value:
        """Return ``f()``; what lasts is computed outside of all scopes around."""
        return f() if self.backend is None else apart(f, self.backend)

    def run(self, steps: Sequence[Step], values: list[Value], program: Program) -> None:
        """Run steps one after the other."""
        for step in steps:
            args = [values[place] for place in step.inputs]
            if step.host is not None and all(
                type(x) is np.ndarray or x is None for x in args
            ):
                result = step.host(*args)
            else:
                for i in step.tensors:
                    if type(args[i]) is np.ndarray and args[i].dtype != object:
                        args[i] = self.moved(program, step.inputs[i], args[i], False)
                for i in step.reads:
                    if isinstance(args[i], pg.Tensor):
                        args[i] = self.moved(program, step.inputs[i], args[i], True)
                more = (self,) if step.takes_session else ()
                result = step.function(*more, *args)
            if type(result) is not tuple:
                result = (result,)
            for place, value in zip(step.outputs, result, strict=False):
                if place >= 0:
                    values[place] = (
                        np.asarray(value) if isinstance(value, np.generic) else value
                    )
            for place in step.drops:
                values[place] = None

    def moved(self, program: Program, place: int, value: Value, read: bool) -> Value:
        """Return a tensor as an array, or an array as a tensor."""
        key = (program, place, read)
        if key in self.others:
            return self.others[key]
        move = (lambda: value.numpy()) if read else (lambda: pg.asarray(value))
        if place not in program.constants and place not in program.params:
            return move()
        self.others[key] = found = self.compute(move)
        self.tensors += [] if read else [found]
        return found


def apart(f: Callable[[], Value], backend: str) -> Value:
    """Return ``f()``, run on a backend, outside of all scopes of the caller."""
    with pg.outside(), pg.use_backend(backend), np.errstate(all="ignore"):
        return f()
