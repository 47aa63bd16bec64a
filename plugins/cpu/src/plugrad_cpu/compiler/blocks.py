"""Regions with row kernels and reductions: row programs of ``library/blocks.h``.

All steps run on one block of rows, then on the next block. Element-wise steps between
row kernels form region programs. Intermediate results are in scratch memory, which each
thread allocates once.

Contents: ``compiled``; ``unit_of``, the size of blocks; ``phases``, the order of steps;
``RegionProgram``, which writes the structures; results that Python completes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
from plugrad.plugin import Graph, Step

from ..kernels import KERNELS
from ..kernels.reduce import folded
from ..native import FLOAT32_SUFFIX
from ..native import kernels as in_c
from ..pool import native
from ..regions import MAX_SLOTS, SHORT_TILE, Slots, Tables
from .operands import bytes_of
from .rows import FOLDS, VIEW, Call, Count, call_of, divisor_of, values

MAX_ARGUMENTS = 16  # arguments of a kernel, as in entry.h
REGION = np.dtype(
    [
        *[("slot_count", "i4"), ("step_count", "i4"), ("tile", "i4")],
        *[("slots", "u8"), ("steps", "u8"), ("loops", "u8")],
    ],
    align=True,
)
VALUE = np.dtype([("place", "i4"), ("size", "i4"), ("divisor", "u4"), ("factor", "u4")])
STAGE = np.dtype(
    [
        *[("region", "u8"), ("values", "u8"), ("kernel", "u8")],
        *[("arguments", "i4", (MAX_ARGUMENTS, 2)), ("last", "f8")],
    ],
    align=True,
)
PROGRAM = np.dtype(
    [
        *[("value_count", "i4"), ("stage_count", "i4"), ("block", "u4")],
        *[("piece", "u4"), ("values", "u8"), ("stages", "u8")],
    ],
    align=True,
)
PART_OF, COUNT_OVER, NUMBER, LAST = range(4)
KINDS = "puud"  # the letters of these kinds in entry.h
SCRATCH_ELEMENTS = 1 << 17  # BLOCK_MEMORY of blocks.h
BLOCK_ELEMENTS = 1 << 12  # elements of a block of short rows
CACHE_LINE_ELEMENTS = 16  # float32 elements per cache line
PIECE_ELEMENTS = 1 << 16  # elements per parallel_for piece; fewer for many steps

Write = Callable[[Graph], tuple[Slots, Tables] | None]
Completion = Callable[[Any], Any]


def compiled(graph: Graph, write: Write) -> Callable[..., Any] | None:
    """Return the compiled function of a region; None if its kernels must run instead.

    Args:
        graph: The region.
        write: Returns the slots and the program tables of a graph of element-wise
            steps; None if there are too many values.

    """
    if any(s.outputs[0] in graph.outputs for s in graph.steps if s.kernel.name == VIEW):
        return None
    found = {step.outputs[0]: call_of(step, graph) for step in graph.steps}
    calls = {y: call for y, call in found.items() if call is not None}
    # Try shorter units if the longer ones do not fit in memory.
    for longest in (SCRATCH_ELEMENTS, BLOCK_ELEMENTS):
        unit, exact, late = unit_of(calls, longest)
        if function := _compiled(graph, calls, late, unit, exact, write):
            return function
    return None


def unit_of(
    calls: Mapping[int, Call], longest: int
) -> tuple[int, bool, dict[int, int]]:
    """Return the unit, whether a block must be exactly one unit, and the late steps.

    The number of elements of a block is a multiple of the unit. Late steps are
    reductions that need the data of other blocks, or a unit of more than ``longest``
    elements. They run after all other steps; they are returned as a mapping from their
    results to their inputs.
    """
    unit = 1
    exact = False
    late = dict[int, int]()
    for y, call in sorted(calls.items(), key=lambda item: item[1].reduces):
        larger = max(unit, call.unit)
        smaller = min(unit, call.unit)
        other = (exact and larger != unit) or (call.is_part and larger != call.unit)
        if call.reduces and (larger % smaller or other or call.unit > longest):
            [late[y]] = [x for x in call.inputs if x is not None]
        else:
            unit = larger
            exact = exact or call.is_part
    return unit, exact, late


def phases(
    graph: Graph, calls: Mapping[int, Call]
) -> list[tuple[list[Step], list[Step]]]:
    """Return the phases: element-wise steps, followed by calls of row kernels.

    A BroadcastTo step is repeated in each phase that reads its result.
    """
    found: list[tuple[list[Step], list[Step]]] = []
    views = {s.outputs[0]: s for s in graph.steps if s.kernel.name == VIEW}
    level: dict[int, int] = {}
    for step in graph.steps:
        [y] = step.outputs
        read = values(step)
        if y in views:
            continue
        phase = max([level.get(x, 0) for x in read], default=0)
        level[y] = phase + (y in calls)
        while len(found) <= phase:
            found.append(([], []))
        steps = found[phase][y in calls]
        steps += [views[x] for x in read if x in views and views[x] not in steps]
        steps.append(step)
    return found


def _compiled(
    graph: Graph, calls: Mapping[int, Call], late: Mapping[int, int], *how: Any
) -> Callable[..., Any] | None:
    """Return a function that runs a graph in C and its late steps in Python."""
    ends = {
        y: _completion(s, graph, calls.get(y), y in late)
        for s in graph.steps
        for y in s.outputs
    }
    sources = [late.get(y, y) for y in graph.outputs]
    steps = tuple([s for s in graph.steps if s.outputs[0] not in late])
    part = graph._replace(steps=steps, outputs=(*dict.fromkeys(sources),))
    function = _compile_in_c(part, calls, *how)
    if function is None or not any(ends[y] for y in graph.outputs):
        return function
    pairs = zip(graph.outputs, sources, strict=True)
    last = [(part.outputs.index(source), ends[y]) for y, source in pairs]
    return partial(_run_and_complete, function, last)


def _compile_in_c(
    graph: Graph, calls: Mapping[int, Call], unit: int, exact: bool, write: Write
) -> Callable[..., Any] | None:
    """Return a function that runs a graph in C; None if the graph is too large."""
    program = RegionProgram(graph, calls)
    for element_wise, rows in phases(graph, calls):
        if element_wise and not program.add_steps(element_wise, write):
            return None
        for step in rows:
            program.add_call(step)
    return program.function(unit, exact)


class RegionProgram:
    """A row program: writes the structures of blocks.h.

    Attributes:
        graph: The graph that it computes.
        calls: The calls of row kernels, by their results.
        index: The index of each value in ``values``.
        values: The size, ``divisor`` and ``factor`` of each value: see blocks.h. If the
            ``divisor`` is 0, the value is in the scratch memory of a thread.
        stages: The rows of the table of stages.
        kept: Arrays that the stages point to, kept alive.
        work: The number of steps; a row kernel counts as four.

    """

    def __init__(self, graph: Graph, calls: Mapping[int, Call]) -> None:
        self.graph, self.calls = graph, calls
        self.shape = max([graph.specs[v].shape for v in graph.specs], key=prod)
        self.index: dict[int, int] = {}
        self.values: list[tuple[int, int, int]] = []  # size, divisor, factor
        for v in (*graph.inputs, *graph.constants, *graph.outputs):
            if v in calls and calls[v].reduces:
                self._add(v, calls[v].unit, calls[v].results_per_unit)
            else:
                full = prod(graph.specs[v].shape) == prod(self.shape)
                self._add(v, 1, int(full))
        self.stages: list[Any] = []
        self.kept: list[Any] = []
        self.work = 0

    def _add(self, value: int, divisor: int, factor: int) -> None:
        self.index[value] = len(self.values)
        size = self.graph.specs[value].dtype.itemsize
        self.values.append((size, divisor, factor))

    def _place(self, value: int) -> int:
        """Return the index of a value; a new value gets scratch memory."""
        if value not in self.index:
            self._add(value, 0, 0)
        return self.index[value]

    def add_steps(self, steps: Sequence[Step], write: Write) -> bool:
        """Add element-wise steps; return false if there are too many."""
        graph, inside = self.graph, {s.outputs[0] for s in steps}
        read = dict.fromkeys([x for s in steps for x in values(s)])
        later = {x for s in graph.steps if s.outputs[0] not in inside for x in s.inputs}
        views = {s.outputs[0] for s in steps if s.kernel.name == VIEW}
        wanted = [
            y
            for s in steps
            for y in s.outputs
            if y not in views and (y in later or y in graph.outputs)
        ]
        constants = {x: graph.constants[x] for x in read if x in graph.constants}
        given = [x for x in read if x not in inside and x not in constants]
        written = write(Graph((*given,), constants, (*steps,), (*wanted,), graph.specs))
        if written is None:
            return False
        slots, arrays = written
        of = np.full(len(slots.rows), -1, np.int32)
        for v in (*given, *constants, *wanted):
            of[slots.of[v]] = self._place(v)
        sizes = [len(slots.rows), len(arrays[1]), slots.tile_size(SHORT_TILE)]
        region = np.array([(*sizes, *[a.ctypes.data for a in arrays])], REGION)
        self.kept += [*arrays, of, region]
        nothing = [(NUMBER, 0)] * MAX_ARGUMENTS
        self.stages.append((region.ctypes.data, of.ctypes.data, 0, nothing, 0.0))
        self.work += len(steps)
        return True

    def add_call(self, step: Step) -> None:
        """Add a call of a row kernel."""
        [y] = step.outputs
        call = self.calls[y]
        given = [
            (PART_OF, -1 if x is None else self._place(x)) for x in (*call.inputs, y)
        ]
        given += [
            (COUNT_OVER, n.over) if isinstance(n, Count) else (NUMBER, n)
            for n in call.numbers
        ]
        kernel = native.get(call.name)  # type: ignore[union-attr]
        given += [(LAST, 0)] * kernel.kinds.endswith("d")
        if (kinds := "".join([KINDS[kind] for kind, _ in given])) != kernel.kinds:
            raise TypeError(f"{kernel.prototype} cannot be called with {kinds}")
        given += [(NUMBER, 0)] * (MAX_ARGUMENTS - len(given))
        self.stages.append((0, 0, kernel.address, given, call.last))
        self.work += 4

    def function(self, unit: int, exact: bool) -> Callable[..., Any] | None:
        """Return the compiled function; None if its blocks need too much memory."""
        specs, count = self.graph.specs, prod(self.shape)
        held = sum(divisor == 0 for _, divisor, _ in self.values)
        times = (
            1
            if exact
            else min(BLOCK_ELEMENTS, SCRATCH_ELEMENTS // max(held, 1)) // unit
        )
        block = unit * max(times, 1)
        room = -(-block // CACHE_LINE_ELEMENTS) * CACHE_LINE_ELEMENTS
        if room * held > SCRATCH_ELEMENTS or len(self.values) > MAX_SLOTS:
            return None
        places = iter(range(0, held * room + 1, room))
        rows = [
            (-1, size, divisor, factor) if divisor else (next(places), size, 1, 0)
            for size, divisor, factor in self.values
        ]
        parts, stages = np.array(rows, VALUE), np.array(self.stages, STAGE)
        piece = max(4 * PIECE_ELEMENTS // (4 + self.work) // block, 1)
        ends = parts.ctypes.data, stages.ctypes.data
        program = np.array([(len(rows), len(stages), block, piece, *ends)], PROGRAM)
        constants = {
            self.index[x]: np.ascontiguousarray(constant)
            for x, constant in self.graph.constants.items()
        }
        return native.blocks(  # type: ignore[union-attr]
            program.tobytes(),
            (parts, stages, *self.kept),
            constants,
            [
                (self.index[x], specs[x].dtype.num, prod(specs[x].shape))
                for x in self.graph.inputs
            ],
            [
                (self.index[y], specs[y].dtype.num, bytes_of(self._shape(y)))
                for y in self.graph.outputs
            ],
            count,
        )

    def _shape(self, y: int) -> tuple[int, ...]:
        """Return the shape of the result that C computes."""
        return self.calls[y].shape if y in self.calls else self.graph.specs[y].shape


# --- results that Python completes -----------------------------------------------


def _completion(
    step: Step, graph: Graph, call: Call | None, late: bool
) -> Completion | None:
    """Return a function that completes a result from C; None if it is complete."""
    name = step.kernel.name
    if late:
        return partial(KERNELS[name], **step.attrs)
    if call is None or not call.rest:
        return None
    [y] = step.outputs
    [x] = values(step)
    kernel = in_c(FOLDS[name], FLOAT32_SUFFIX)[np.dtype("float32")]
    shape = graph.specs[y].shape
    divisor = divisor_of(step, graph.specs[x].shape)
    return lambda part: folded(kernel, part, shape, call.rest, divisor)


def _run_and_complete(
    function: Callable[..., Any], last: list[tuple[int, Completion | None]], *xs: Any
) -> Any:
    """Call a function and complete its results in Python."""
    made = function(*xs)
    if made is NotImplemented:
        return made
    parts = made if type(made) is tuple else (made,)
    ys = tuple([parts[k] if end is None else end(parts[k]) for k, end in last])
    return ys if len(ys) > 1 else ys[0]
