"""Runs a graph as a sequence of steps over a list of values.

Values that depend only on parameters and constants are computed once in a ``Session``,
before the steps that depend on the inputs. Shapes, and values computed from them, are
NumPy arrays on the host. A step gets tensors, except for the inputs that it reads on
the host.

Contents: ``OnnxProgram`` and ``OnnxStep``; ``Session``; ``Branch``, called by control
ops.
"""

from __future__ import annotations

import functools
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plugrad as pg
from plugrad.importing import last_uses, printable
from plugrad.plugin import run_in_scope

from .graph import Graph, Node
from .registry import Value

__all__ = ["Branch", "OnnxProgram", "Session", "run_outside_scopes"]

Array = np.ndarray[Any, Any]
OMITTED = 0  # the slot of an omitted input


@dataclass(slots=True)
class OnnxStep:
    """A node that is ready to run.

    Attributes:
        function: The function for tensors; its inputs in ``reads`` are NumPy arrays.
        host: The function for NumPy arrays; None if there is no such function.
        inputs: Slots of the input values.
        tensors: Positions of the inputs that must be tensors.
        reads: Positions of the inputs that must be NumPy arrays.
        drops: Slots of the values that no later step uses.
        scope: The name for ``plugrad.name_scope``: that of the node or, if it has none,
            of its first output.

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
    scope: str = ""


class KnownValues:
    """The constants and parameters by name, including those of outer graphs.

    Attributes:
        once: Names of the values that are computed from constants and parameters alone.

    """

    def __init__(self, graph: Graph, outer: KnownValues | None = None) -> None:
        self.once: set[str] = set()
        above = (outer.constants, outer.params) if outer else (ChainMap(), ChainMap())
        self.constants: ChainMap[str, Array] = above[0].new_child({**graph.constants})
        self.params: ChainMap[str, Array] = above[1].new_child({**graph.params})

    def __contains__(self, name: str) -> bool:
        return name in self.constants or name in self.params or name in self.once

    def add_known(self, graph: Graph) -> None:
        """Add the values that the nodes of a graph compute once."""
        for node in graph.nodes:
            if self.is_known(node):
                self.once.update(filter(None, node.outputs))

    def is_known(self, node: Node) -> bool:
        """Return whether a node depends only on known values."""
        free = all(not name or name in self for name in node.inputs)
        return free and not node.row.random and not node.subgraphs


class OnnxProgram:
    """A graph as steps; ``captures`` names the values it uses from outer graphs."""

    def __init__(
        self,
        graph: Graph,
        captures: Sequence[str] = (),
        outer: KnownValues | None = None,
    ) -> None:
        self.graph = graph
        self.known = KnownValues(graph, outer)
        self.places = {"": OMITTED}
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
        kept |= {OMITTED, *self.constants, *self.params}
        self.before = _with_drops(before, kept)
        fixed_places = {self.places[name] for name in fixed}
        kept = ({*kept, *fixed_places} - _output_places(after)) | {*self.outputs}
        self.after = _with_drops(after, kept)

    def place(self, name: str) -> int:
        """Return the slot of a value; assign a new one if it has none."""
        return self.places.setdefault(name, len(self.places))

    def use(self, name: str) -> int:
        """Return the slot of a value, and register a parameter or a constant."""
        place = self.place(name)
        if name in self.known.params:
            self.params[place] = name
        elif name in self.known.constants:
            self.constants[place] = self.known.constants[name]
        return place

    def step(self, node: Node) -> OnnxStep:
        """Return a step: the node with its attributes bound and slots assigned."""
        row = node.row
        attrs = dict(node.attrs)
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
                attrs[name] = Branch(OnnxProgram(value, captures, self.known))
        attrs = row.arguments(attrs, node)

        def bind(f: Any) -> Any:
            return functools.partial(f, **attrs) if f and attrs else f

        positions = range(len(inputs))
        read = tuple(i for i in positions if i in row.reads)
        moved = (i for i in positions if i not in row.reads and i not in row.either)
        return OnnxStep(
            node,
            bind(row.function),
            bind(row.host),
            tuple(self.use(name) for name in [*inputs, *captures]),
            tuple(self.place(name) if name else -1 for name in node.outputs),
            () if node.subgraphs else tuple(moved),
            read,
            takes_session=row.takes_session,
            scope=printable(node.name or next(filter(None, node.outputs), node.op)),
        )

    def run(self, session: Session, args: Sequence[Value]) -> list[Value]:
        """Return the outputs; ``args`` are the inputs, then the captured values."""
        values = list(session.start(self))
        for place, value in zip(self.inputs, args, strict=True):
            values[place] = value
        session.run(self.after, values, self)
        return [values[place] for place in self.outputs]

    def steps(self) -> list[OnnxStep]:
        """Return the steps that run once, then those that run in each call."""
        return [*self.before, *self.after]


def _output_places(steps: Sequence[OnnxStep]) -> set[int]:
    return {place for step in steps for place in step.outputs}


def _with_drops(steps: Sequence[OnnxStep], kept: set[int]) -> list[OnnxStep]:
    """Let each step drop the values that no later step uses, except ``kept``."""
    rows = [[*s.inputs, *(p for p in s.outputs if p >= 0)] for s in steps]
    for step, drops in zip(steps, last_uses(rows, kept), strict=True):
        step.drops = drops
    return list(steps)


@dataclass(frozen=True)
class Branch:
    """A graph among the attributes of ``If``, ``Loop`` or ``Scan``."""

    program: OnnxProgram

    @property
    def count(self) -> int:
        """The number of inputs, without captured values."""
        return len(self.program.graph.inputs)

    def __call__(self, session: Session, *args: Value) -> list[Value]:
        """Return the outputs for the inputs followed by the captured values."""
        return self.program.run(session, args)


class Session:
    """The values of parameters, and the values computed from them and from constants.

    Args:
        params: Tensors by name.
        backend: The backend of a session that is shared by all calls of a model; None:
            a session for one call, which is differentiable in the parameters.

    Attributes:
        tensors: The tensors that the session keeps between calls.

    """

    def __init__(
        self, params: Mapping[str, pg.Tensor], backend: str | None = None
    ) -> None:
        self.params, self.backend = params, backend
        self.tensors: list[pg.Tensor] = []
        self.values: dict[OnnxProgram, list[Value]] = {}
        self.converted: dict[tuple[OnnxProgram, int, bool], Value] = {}

    def start(self, program: OnnxProgram) -> list[Value]:
        """Return the initial values of a program."""
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
        """Return ``f()``, run outside the caller's scopes if the session is shared."""
        return f() if self.backend is None else run_outside_scopes(f, self.backend)

    def run(
        self, steps: Sequence[OnnxStep], values: list[Value], program: OnnxProgram
    ) -> None:
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
                        args[i] = self.convert(program, step.inputs[i], args[i], False)
                for i in step.reads:
                    if isinstance(args[i], pg.Tensor):
                        args[i] = self.convert(program, step.inputs[i], args[i], True)
                leading = (self,) if step.takes_session else ()
                result = run_in_scope(step.scope, step.function, *leading, *args)
            if type(result) is not tuple:
                result = (result,)
            for place, value in zip(step.outputs, result, strict=False):
                if place >= 0:
                    values[place] = (
                        np.asarray(value) if isinstance(value, np.generic) else value
                    )
            for place in step.drops:
                values[place] = None

    def convert(
        self, program: OnnxProgram, place: int, value: Value, read: bool
    ) -> Value:
        """Return a tensor as an array (``read``) or an array as a tensor.

        Constants and parameters are converted only once.
        """
        key = (program, place, read)
        if key in self.converted:
            return self.converted[key]
        convert_value = (lambda: value.numpy()) if read else (lambda: pg.asarray(value))
        if place not in program.constants and place not in program.params:
            return convert_value()
        self.converted[key] = converted = self.compute(convert_value)
        self.tensors += [] if read else [converted]
        return converted


def run_outside_scopes(f: Callable[[], Value], backend: str) -> Value:
    """Return ``f()``, run on a backend and outside all scopes of the caller."""
    with pg.outside(), pg.use_backend(backend), np.errstate(all="ignore"):
        return f()
