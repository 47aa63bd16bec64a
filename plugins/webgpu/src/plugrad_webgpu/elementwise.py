"""The writer of element-wise kernels: for single kernels, regions and their reductions.

A thread computes four neighboring elements, whose expressions are a function ``each``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from plugrad.geometry import broadcast_strides, collapse_axes

from . import expressions
from .arrays import DTYPES, Shape
from .plans import Plan, Planner, Slot, Use
from .source import VALUE, XYZW, Number, loaded, offsets, stored


class Inputs:
    """Code that reads four neighboring elements of a shape from each input.

    Attributes:
        uses: The buffers, x0, x1 and so on.
        params: The sizes and strides that the code reads.

    """

    def __init__(self, shape: Shape, slots: Sequence[Slot]) -> None:
        self.shape = shape
        self.slots = slots
        self.uses: dict[str, Use] = {}
        self.params: dict[str, Number] = {}
        self._sizes: list[str] = []
        self._steps: dict[str, list[str]] = {}
        self._reads: list[str] = []
        general = []
        for j, slot in enumerate(slots):
            if slot.size == 1:
                self._read(j, "scalar", "[0]")
            elif slot.size == math.prod(shape):
                self._read(j, "vector", "[at4]")
            else:
                general.append(j)
        if general:
            self._broadcast(general)

    def _read(self, j: int, how: str, place: str) -> None:
        kind = self.slots[j].kind
        self.uses[f"x{j}"] = Use(self.slots[j], 4 if how == "vector" else 1)
        text = loaded(kind, f"x{j}{place}", 4 if how == "vector" else 1)
        text = text if how == "vector" else f"vec4<{VALUE[kind]}>({text})"
        self._reads.append(f"let v{j} = {text};")

    def _broadcast(self, general: Sequence[int]) -> None:
        """Add the inputs that repeat along some of the axes."""
        rank = len(self.shape)
        strides = [broadcast_strides(self.slots[j].shape, rank) for j in general]
        axes = collapse_axes(self.shape, *strides)
        whole = axes[-1][0] % 4 == 0  # then four elements are in one row
        self._sizes = [f"p.n{a}" for a in range(len(axes))]
        for a, (size, *_) in enumerate(axes):
            last = whole and a == len(axes) - 1
            self.params[f"n{a}"] = size // 4 if last else size
        for i, j in enumerate(general):
            self._general(j, [axis[i + 1] for axis in axes], whole)
        if not whole:
            self._one_by_one(general)

    def _general(self, j: int, steps: list[int], whole: bool) -> None:
        vector = whole and steps[-1] == 1 and all(s % 4 == 0 for s in steps[:-1])
        if vector:
            steps = [*[s // 4 for s in steps[:-1]], 1]
        elif whole:
            steps = [*steps[:-1], 4 * steps[-1]]
        self._steps[f"o{j}"] = [f"p.s{j}_{a}" if s else "" for a, s in enumerate(steps)]
        self.params |= {f"s{j}_{a}": s for a, s in enumerate(steps) if s}
        if vector or (whole and not steps[-1]):
            self._read(j, "vector" if vector else "scalar", f"[o{j}]")
        elif whole:
            near = [f"x{j}[o{j} + {k}u * {steps[-1] // 4}u]" for k in range(4)]
            self._components(j, near)

    def _components(self, j: int, texts: Sequence[str]) -> None:
        kind = self.slots[j].kind
        self.uses[f"x{j}"] = Use(self.slots[j])
        values = ", ".join([loaded(kind, text) for text in texts])
        self._reads.append(f"let v{j} = vec4<{VALUE[kind]}>({values});")

    def _one_by_one(self, general: Sequence[int]) -> None:
        """Compute the offsets of each of the four elements."""
        self._each = [f"o{j}" for j in general]
        for j in general:
            self._components(j, [f"x{j}[o{j}[{k}]]" for k in range(4)])

    def code(self) -> str:
        """Return code that reads ``v0``, ``v1`` and so on at the vector ``at4``."""
        lines = []
        if self._steps and hasattr(self, "_each"):
            last = f"{math.prod(self.shape) - 1}u"
            lines += [f"var {name}: array<u32, 4>;" for name in self._each]
            for k in range(4):
                steps = {f"{name}[{k}]": s for name, s in self._steps.items()}
                index = f"min(4u * at4 + {k}u, {last})"
                lines.append(offsets(self._sizes, index, steps))
        elif self._steps:
            lines += [f"var {name} = 0u;" for name in self._steps]
            lines.append(offsets(self._sizes, "at4", self._steps))
        return "\n".join([*lines, *self._reads])


class Each:
    """The function ``each``: the values of one element from those of the inputs."""

    def __init__(self, kinds: str) -> None:
        """Begin with the kinds of the inputs, whose values are a0, a1 and so on."""
        self.kinds = kinds
        self.params: dict[str, Number] = {}
        self._lines: list[str] = []
        self._outputs: list[tuple[str, str]] = []

    def add(
        self, name: str, found: expressions.Expression, args: list[str], hidden: bool
    ) -> None:
        """Add a variable with the value of an expression."""
        numbers = []
        for value in found.numbers:
            number = f"c{len(self.params)}"
            self.params[number] = value
            numbers.append(
                f"(p.{number} != 0u)" if found.kind == "b" else f"p.{number}"
            )
        text = expressions.filled(found, args, numbers)
        text = f"opq_({text})" if hidden and found.kind in "fh" else text
        self._lines.append(f"let {name}: {VALUE[found.kind]} = {text};")

    def output(self, name: str, kind: str) -> None:
        """Add an output with the value of a variable."""
        self._outputs.append((name, kind))

    def declaration(self) -> str:
        """Return the function, and the structure of its results."""
        fields = [f"y{i}: {VALUE[kind]}" for i, (_, kind) in enumerate(self._outputs)]
        takes = [f"a{j}: {VALUE[kind]}" for j, kind in enumerate(self.kinds)]
        names = ", ".join([name for name, _ in self._outputs])
        return "\n".join(
            [
                f"struct Each {{ {', '.join(fields)} }}",
                f"fn each({', '.join(takes)}) -> Each {{",
                *self._lines,
                f"return Each({names}); }}",
            ]
        )

    def calls(self) -> str:
        """Return code that calls it for four elements, as e0 to e3."""
        lines = []
        for k in range(4):
            args = [f"v{j}.{XYZW[k]}" for j in range(len(self.kinds))]
            lines.append(f"let e{k} = each({', '.join(args)});")
        return "\n".join(lines)

    def result(self, i: int) -> str:
        """Return the four values of an output."""
        values = ", ".join([f"e{k}.y{i}" for k in range(4)])
        return f"vec4<{VALUE[self._outputs[i][1]]}>({values})"

    def stores(self, buffers: Sequence[tuple[int, str]]) -> str:
        """Return code that writes outputs to buffers at the vector ``at4``."""
        lines = []
        for i, name in buffers:
            value = stored(self._outputs[i][1], self.result(i), 4)
            lines.append(f"{name}[at4] = {value};")
        return "\n".join(lines)


def launch(
    plan: Plan, name: str, shape: Shape, xs: Sequence[Slot], each: Each, kinds: str
) -> list[Slot]:
    """Record ``each`` for all elements; return its outputs, which have these kinds."""
    inputs = Inputs(shape, xs)
    ys = [plan.new(shape, DTYPES[kind]) for kind in kinds]
    uses = inputs.uses | {f"y{i}": Use(y, 4, write=True) for i, y in enumerate(ys)}
    buffers = [(i, f"y{i}") for i in range(len(ys))]
    body = "\n".join(
        ["let at4 = id;", inputs.code(), each.calls(), each.stores(buffers)]
    )
    params = inputs.params | each.params
    items = -(-math.prod(shape) // 4)
    plan.run(name, uses, params, body, items, more=each.declaration())
    return ys


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """Return the shape to which shapes broadcast; the op has checked them."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    return tuple(
        [next((n for n in sizes if n != 1), 1) for sizes in zip(*padded, strict=True)]
    )


def elementwise(name: str) -> Planner:
    """Return the planner of an element-wise kernel."""

    def plan_one(plan: Plan, *xs: Slot, **attrs: Any) -> Slot | None:
        kinds = "".join([x.kind for x in xs])
        found = expressions.find(name, kinds, attrs)
        if found is None:
            return None
        each = Each(kinds)
        each.add("y", found, [f"a{j}" for j in range(len(xs))], hidden=False)
        each.output("y", found.kind)
        shape = broadcast([x.shape for x in xs])
        return launch(plan, name, shape, xs, each, found.kind)[0]

    return plan_one
