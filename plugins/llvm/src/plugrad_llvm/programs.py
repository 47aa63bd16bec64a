"""Writes the program of a region: a loop over all elements, or over rows.

A program over rows alternates between element-wise steps, which form one loop over the
elements of the row, and row kernels, which read and write whole rows. Values that a
later loop reads are in memory: in the row of an output, or in a buffer of the function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

from llvmlite import ir  # type: ignore[import-untyped]
from plugrad.geometry import broadcast_strides, collapse_axes
from plugrad.plugin import Graph, Step

from .code import (
    ELEMENTS,
    INDEX,
    POINTER,
    SIZES,
    VOID,
    Module,
    Vector,
    in_memory,
    index,
)
from .graphs import values
from .kernels import ELEMENTWISE, KINDS
from .loops import Loop, for_each, write_loop
from .rows import ROWS

MAX_BUFFER_BYTES = 1 << 18  # the buffers are on the stack
# Registers per value in an iteration of a loop. The operations on one register depend
# on each other; with several registers, the processor interleaves several such chains.
INTERLEAVED_REGISTERS = 4


@dataclass
class Plan:
    """The inputs and outputs of a region, and the order of its loops.

    Attributes:
        graph: The region.
        shape: The shape over which the region iterates.
        inputs: The inputs of the region, then the constants that are arrays.
        numbers: The constants that are single numbers.
        outputs: The values that the code writes into arrays.
        phases: The element-wise steps of each loop over a row, and the row kernels
            after the loop.
        stored: The values that have a buffer.
        axes: The axes of the loops: the size and the strides of all arrays.

    """

    graph: Graph
    shape: tuple[int, ...]
    inputs: list[int]
    numbers: dict[int, float]
    outputs: list[int]
    phases: list[tuple[list[Step], list[Step]]] = field(default_factory=list)
    stored: list[int] = field(default_factory=list)
    axes: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        level: dict[int, int] = {}
        for step in self.graph.steps:
            phase = max([level.get(x, 0) for x in values(step)], default=0)
            row = step.kernel.name in ROWS
            level |= dict.fromkeys(step.outputs, phase + row)
            while len(self.phases) <= phase:
                self.phases.append(([], []))
            self.phases[phase][row].append(step)
        self.stored = self._stored(level)
        self.axes = self._axes()

    def _stored(self, level: dict[int, int]) -> list[int]:
        """Return the values that need a buffer: a later loop reads them."""
        found: dict[int, None] = {}
        for step in self.graph.steps:
            row = step.kernel.name in ROWS
            found |= dict.fromkeys(step.outputs if row else ())
            reads = max([level.get(x, 0) for x in values(step)], default=0)
            for x in values(step):
                computed = x not in self.inputs and x not in self.numbers
                if computed and (row or level[x] < reads):
                    found[x] = None
        return [x for x in found if x not in self.outputs]

    def _axes(self) -> tuple[tuple[int, ...], ...]:
        rank = len(self.shape)
        shapes = self.graph.specs
        arrays = [*self.inputs, *self.outputs]
        strides = [broadcast_strides(shapes[v].shape, rank) for v in arrays]
        if not self.rows:
            return collapse_axes(self.shape, *strides)
        outer = collapse_axes(self.shape[:-1], *[s[:-1] for s in strides])
        return (*outer, (self.shape[-1], *[s[-1] for s in strides]))

    @property
    def rows(self) -> bool:
        """Whether there are row kernels."""
        return any(rows for _, rows in self.phases)

    @property
    def inner(self) -> int:
        """The number of elements of a row."""
        return self.axes[-1][0]

    def lanes(self, register: int) -> int:
        """Return the elements per iteration, given the elements per register."""
        wide = INTERLEAVED_REGISTERS * register
        long = self.inner % wide == 0 or self.inner >= 8 * wide
        return wide if long else min(register, self.inner)

    @property
    def items(self) -> int:
        """The number of elements or rows over which ``run`` iterates."""
        return prod(n for n, *_ in self.axes[:-1]) if len(self.axes) > 1 else self.inner


class Writer:
    """Writes the function ``run``, which computes a region, in LLVM IR."""

    def __init__(self, module: Module, plan: Plan) -> None:
        self.plan, self.module = plan, module
        parameters = {"arrays": POINTER, "begin": INDEX, "end": INDEX}
        lanes = plan.lanes(module.lanes)
        self.code = module.define("run", VOID, parameters, lanes)
        self.memory: dict[int, ir.Value] = {}  # the address of a value's row
        self.same: dict[int, Vector] = {}  # values that are constant in a row

    def write(self) -> None:
        """Write the body of the function, which the module already declares."""
        plan, builder = self.plan, self.code.builder
        arrays, begin, end = self.code.arguments
        pointers = []
        for k in range(len(plan.inputs) + len(plan.outputs)):
            address = self.code.at_pointer(arrays, index(k))
            pointers.append(builder.load(address, typ=POINTER))
        for value in plan.stored:
            element = ELEMENTS[in_memory(self.kind(value))]
            self.memory[value] = self.code.allocate(ir.ArrayType(element, plan.inner))
        if len(plan.axes) == 1:
            self.enter(pointers)
            whole = plan.inner % self.code.lanes == 0
            body = self.body(plan.phases[0][0])
            write_loop(self.code, begin, end, body, whole)
        else:
            self.write_rows(pointers, begin, end)
        builder.ret_void()

    def kind(self, value: int) -> str:
        """Return the kind of a value."""
        return KINDS[self.plan.graph.specs[value].dtype]

    def write_rows(
        self, pointers: Sequence[ir.Value], begin: ir.Value, end: ir.Value
    ) -> None:
        """Write a loop over the rows from ``begin`` to ``end``."""
        code, builder = self.code, self.code.builder
        loop = Loop(code, begin)
        [row] = loop.values
        self.enter(self.row_pointers(pointers, row))
        for steps, rows in self.plan.phases:
            if steps:
                for_each(code, self.plan.inner, self.body(steps))
            for step in rows:
                self.row(step)
        following = builder.add(row, index(1))
        loop.repeat(builder.icmp_signed("<", following, end), following)

    def row_pointers(
        self, pointers: Sequence[ir.Value], row: ir.Value
    ) -> list[ir.Value]:
        """Return the address of a row of each array."""
        code, addresses = self.code, []
        outer = self.plan.axes[:-1]
        indices, rest = [], row
        for n, *_ in reversed(outer[1:]):
            indices.append(code.builder.urem(rest, index(n)))
            rest = code.builder.udiv(rest, index(n))
        indices = [*reversed([*indices, rest])]
        arrays = [*self.plan.inputs, *self.plan.outputs]
        for k, (pointer, value) in enumerate(zip(pointers, arrays, strict=True)):
            address = pointer
            for i, (_, *strides) in zip(indices, outer, strict=True):
                if strides[k]:
                    offset = code.builder.mul(i, index(strides[k]))
                    address = code.at(address, self.kind(value), offset)
            addresses.append(address)
        return addresses

    def enter(self, pointers: Sequence[ir.Value]) -> None:
        """Begin a row: load the values that are constant in it."""
        arrays = [*self.plan.inputs, *self.plan.outputs]
        for value, pointer, stride in zip(
            arrays, pointers, self.plan.axes[-1][1:], strict=True
        ):
            self.memory[value] = pointer
            if not stride and value in self.plan.inputs:
                self.same[value] = self.code.load_one(pointer, self.kind(value))

    def body(self, steps: Sequence[Step]) -> Callable[[ir.Value], None]:
        """Return a function that writes the steps of a loop at an index."""
        plan, code = self.plan, self.code
        inside = {y for step in steps for y in step.outputs}
        written = [y for y in (*plan.stored, *plan.outputs) if y in inside]

        def write(i: ir.Value) -> None:
            local: dict[int, Vector] = {}
            for step in steps:
                local[step.outputs[0]] = self.step(step, i, local)
            for y in written:
                code.store(code.at(self.memory[y], self.kind(y), i), local[y])

        return write

    def step(self, step: Step, i: ir.Value, local: dict[int, Vector]) -> Vector:
        """Write an element-wise step."""
        xs: list[Vector | float] = [self.read(x, i, local) for x in values(step)]
        if step.kernel.name == "Pow":  # the exponent is 1, 2 or 3: write products
            xs[1] = self.plan.numbers[values(step)[1]]
        return ELEMENTWISE[step.kernel.name].write(*xs, **step.attrs)

    def read(self, value: int, i: ir.Value, local: dict[int, Vector]) -> Vector:
        """Return the elements of a value at an index."""
        if value in local:
            return local[value]
        kind = self.kind(value)
        if value in self.plan.numbers:
            found = self.code.constant(self.plan.numbers[value], kind)
        elif value in self.same:
            return self.same[value]
        else:
            found = self.code.load(self.code.at(self.memory[value], kind, i), kind)
        local[value] = found
        return found

    def row(self, step: Step) -> None:
        """Write a row kernel."""
        given = [None if x is None else self.memory[x] for x in step.inputs]
        to = self.memory[step.outputs[0]]
        ROWS[step.kernel.name](self.code, given, to, self.plan.inner, step.attrs)


def buffer_bytes(plan: Plan) -> int:
    """Return the size of all buffers in bytes."""
    kinds = [KINDS[plan.graph.specs[v].dtype] for v in plan.stored]
    return sum(plan.inner * SIZES[in_memory(kind)] for kind in kinds)
