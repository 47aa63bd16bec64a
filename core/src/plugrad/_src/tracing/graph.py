"""Graphs: the runs of a recorded call, in order, in the form that compilers receive.

Values are numbered. Each is an input, a constant, or an output of exactly one step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from plugrad._src.registry.contract import Kernel, Spec
from plugrad._src.tensor.dtypes import named
from plugrad._src.tensor.tensor import Native

# Steps without a kernel function of a backend: moves, and draws on the host.
MOVE = Kernel("plugrad.Move(x; source)", doc="``x``, moved from another backend.")
DRAW = Kernel("plugrad.Draw(key?; draw, source)", effect=True, doc="Random numbers.")

# The contract that observers see in place of the kernels of a region.
REGION = Kernel(
    "plugrad.Region(*xs; region, kernels, by, saved) -> *ys",
    op="jit",
    doc="The outputs of kernels that a compiler has turned into one function.",
)


class Step(NamedTuple):
    """One run of a kernel.

    Attributes:
        kernel: Its contract.
        backend: The name of the backend that runs it and holds its outputs.
        inputs: The numbers of its inputs; None for an omitted optional input.
        attrs: Its attributes.
        outputs: The numbers of its outputs.
        precision: The precision of float32 products, if the function sets one that
            differs from the precision of the call; else None. See
            ``plugrad.precision``.
        scope: The names of those ``plugrad.name_scope`` blocks of the function that
            were around the run, joined by ``/``.

    Example:
        >>> graph = pg.jit(lambda x: pg.sum(x, axis=1)).explain(pg.ones((2, 3))).graph
        >>> graph.steps[0].kernel.name, graph.steps[0].attrs["axis"]
        ('Sum', (1,))

    """

    kernel: Kernel
    backend: str
    inputs: tuple[int | None, ...]
    attrs: Mapping[str, Any]
    outputs: tuple[int, ...]
    precision: str | None = None
    scope: str = ""


class Graph(NamedTuple):
    """The steps that compute ``outputs`` from ``inputs`` and ``constants``.

    Attributes:
        inputs: The numbers of the inputs: arguments and variables.
        constants: The native arrays of the constants by number.
        steps: The steps, in the order in which they ran.
        outputs: The numbers of the outputs: results, and the final values of variables.
        specs: The shape and dtype of each value by number.

    Example:
        >>> graph = pg.jit(lambda x: pg.tanh(x) * x).explain(pg.ones((2, 3))).graph
        >>> [(step.kernel.name, step.inputs, step.outputs) for step in graph.steps]
        [('Tanh', (0,), (1,)), ('Multiply', (1, 0), (2,))]
        >>> graph.inputs, graph.outputs, graph.specs[2].shape
        ((0,), (2,), (2, 3))

    """

    inputs: tuple[int, ...]
    constants: Mapping[int, Native]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    specs: Mapping[int, Spec]

    def _describe(self, value: int) -> str:
        """Return a value with its dtype and shape: ``%3 float32[2, 4]``."""
        spec = self.specs[value]
        return f"%{value} {named(spec.dtype)}{[*spec.shape]}"

    def _row(self, step: Step) -> dict[str, Any]:
        """Return the fields of a step as text."""
        return {
            "kernel": step.kernel.name,
            "backend": step.backend,
            "inputs": ["None" if x is None else f"%{x}" for x in step.inputs],
            "attrs": {n: f"{value!r:.60}" for n, value in step.attrs.items()},
            "outputs": [self._describe(y) for y in step.outputs],
            "precision": step.precision,
            "scope": step.scope,
        }

    def _lines(self, by: Callable[[Step], str] | None = None) -> list[str]:
        """Return a line for each step, with the text that ``by`` returns for it."""
        lines = [f"inputs {', '.join(map(self._describe, self.inputs)) or 'none'}"]
        lines += [f"{self._describe(value)} = constant" for value in self.constants]
        for step in self.steps:
            row = self._row(step)
            given = [*row["inputs"], *[f"{n}={v}" for n, v in row["attrs"].items()]]
            call = f"{step.kernel.name}({', '.join(given)}) on {step.backend}"
            more = f", precision {step.precision}" if step.precision else ""
            more += f", in {step.scope}" if step.scope else ""
            more += f", {by(step)}" if by else ""
            lines.append(f"{', '.join(row['outputs'])} = {call}{more}")
        return [*lines, f"return {', '.join(f'%{value}' for value in self.outputs)}"]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _nodes_and_edges(self) -> tuple[dict[str, str], list[tuple[str, str, int]]]:
        """Return the nodes of a drawing with their texts, and its edges with values."""
        nodes = dict[str, str]()
        edges = list[tuple[str, str, int]]()
        made = {}
        for value in (*self.inputs, *self.constants):
            kind = "constant" if value in self.constants else "input"
            made[value] = f"v{value}"
            nodes[made[value]] = f"{kind} {self._describe(value)}"
        for n, step in enumerate(self.steps):
            made |= dict.fromkeys(step.outputs, f"s{n}")
            nodes[f"s{n}"] = f"{step.kernel.name}\n{step.backend}"
            edges += [(made[x], f"s{n}", x) for x in step.inputs if x is not None]
        for n, value in enumerate(self.outputs):
            nodes[f"o{n}"] = "output"
            edges.append((made[value], f"o{n}", value))
        return nodes, edges

    def to_dot(self) -> str:
        """Return the graph in the DOT language of Graphviz: ``dot -Tsvg`` draws it."""
        nodes, edges = self._nodes_and_edges()
        lines = ["digraph {", "  node [shape=box];"]
        for node, text in nodes.items():
            label = text.replace("\n", "\\n")
            shape = "" if node[0] == "s" else ", shape=ellipse"
            lines.append(f'  {node} [label="{label}"{shape}];')
        for source, target, value in edges:
            lines.append(f'  {source} -> {target} [label="{self._describe(value)}"];')
        return "\n".join([*lines, "}"])

    def to_svg(self) -> str:
        """Return a drawing as SVG: each step is below the steps whose values it reads.

        Example:
            >>> graph = pg.jit(lambda x: pg.tanh(x) * x).explain(pg.ones(3)).graph
            >>> graph.to_svg()[:4], graph.to_svg().count("<rect")
            ('<svg', 4)

        """
        from html import escape  # the import takes a millisecond

        nodes, edges = self._nodes_and_edges()
        level = dict.fromkeys(nodes, 0)
        rows = dict[int, list[str]]()
        for source, target, _ in edges:  # in the order of the steps
            level[target] = max(level[target], level[source] + 1)
        for node in nodes:
            rows.setdefault(level[node], []).append(node)
        corners = {
            n: (x * 190 + 10, y * 80 + 10)
            for y, r in rows.items()
            for x, n in enumerate(r)
        }
        width, height = (max(place[i] for place in corners.values()) for i in (0, 1))
        size = f'width="{width + 190}" height="{height + 60}"'
        lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-size="11">']
        for source, target, value in edges:
            (a, b), (c, d) = corners[source], corners[target]
            line = f'x1="{a + 85}" y1="{b + 36}" x2="{c + 85}" y2="{d}" stroke="#888"'
            title = f"<title>{escape(self._describe(value))}</title>"
            lines.append(f"<line {line}>{title}</line>")
        for node, (x, y) in corners.items():
            radius = 4 if node[0] == "s" else 18
            box = f'x="{x}" y="{y}" width="170" height="36" rx="{radius}"'
            lines.append(f'<rect {box} fill="#eef" stroke="#446"/>')
            for n, text in enumerate(nodes[node].split("\n")):
                place = f'x="{x + 85}" y="{y + 15 + 14 * n}" text-anchor="middle"'
                lines.append(f"<text {place}>{escape(text)}</text>")
        return "\n".join([*lines, "</svg>"])
