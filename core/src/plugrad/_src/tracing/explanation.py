"""``JitExplanation``: the kernels that run for a call under ``jit``, and why."""

from __future__ import annotations

from typing import Any, NamedTuple

from plugrad._src.registry.contract import origin
from plugrad._src.registry.registry import registry

from .graph import DRAW, MOVE, Graph, Step
from .regions import Region


class JitExplanation(NamedTuple):
    """The kernels that run for a call of a function under ``jit``.

    Attributes:
        name: The function.
        graph: The kernels that are replayed; None if the function runs eagerly.
        reason: Why it runs eagerly; empty if kernels are replayed.
        recorded: How many kernel runs were recorded, before the optimization passes.
        retraces: For each call that was recorded anew, the reason.
        regions: The parts of the graph that a compiler turned into one function each.
            ``graph`` contains the kernels, ``by`` names the compiler, and ``saved`` is
            the size in bytes of intermediate results that are not written to memory.
        confirmed: Whether two calls in a row did the same, as a replay requires.
        results: How many outputs of ``graph`` are tensors that the function returns.
            The others are the new values of Variables, and then of arguments whose
            items are assigned.

    """

    name: str
    graph: Graph | None
    reason: str
    recorded: int
    retraces: list[str]
    regions: tuple[Region, ...]
    confirmed: bool = True
    results: int = 0

    def _by(self, step: Step) -> str:
        """Describe the code that runs a step: a numbered region, or a function."""
        for n, region in enumerate(self.regions, 1):
            if step.outputs[0] in {s.outputs[0] for s in region.graph.steps}:
                return f"region {n}"
        return _implementation_place(step)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        g, found = self.graph, self.regions
        rows = [g._row(s) | {"by": self._by(s)} for s in g.steps] if g else []
        parts = [{"by": r.by, "kernels": len(r.steps), "saved": r.saved} for r in found]
        return self._asdict() | {"graph": rows, "regions": parts}

    def __repr__(self) -> str:
        steps = self.graph._lines(self._by) if self.graph is not None else []
        return "\n".join([self._title(), *[f"  {s}" for s in steps], *self._notes()])

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: a row per kernel, with the code that runs it."""
        from plugrad._src.tensor.html import table  # only where it is needed

        titles = ["kernel", "inputs", "outputs", "backend", "by"]
        steps = self.to_dict()["graph"]
        titles += ["scope"] if any(step["scope"] for step in steps) else []
        rows = []
        for step in steps:
            attrs = [f"{name}={value}" for name, value in step["attrs"].items()]
            values = step | {"inputs": ", ".join([*step["inputs"], *attrs])}
            values |= {"outputs": ", ".join(step["outputs"])}
            rows.append([values[title] for title in titles])
        notes = self._notes()
        return table(self._title(), titles, rows, text_columns=titles, notes=notes)

    def _title(self) -> str:
        if self.graph is None:
            return f"{self.name} runs as it is: {self.reason}"
        count = len(self.graph.steps)
        title = f"{self.name} replays {count} of {self.recorded} kernels"
        return title if self.confirmed else f"{title} once a second call does the same"

    def _notes(self) -> list[str]:
        """Describe the regions, and why calls were recorded anew."""
        lines = []
        for n, r in enumerate(self.regions, 1):
            count = len(r.steps)
            what = f"{count} kernel{'s' * (count > 1)}, compiled by {r.by}"
            saved = f"; {r.saved:,} bytes are not written to memory" if r.saved else ""
            lines.append(f"region {n}: {what}{saved}")
        return [*lines, *[f"recorded again: {why}" for why in self.retraces]]


def _implementation_place(step: Step) -> str:
    """Return the owner and the location of the code that runs a step."""
    if step.kernel in (MOVE, DRAW):
        return "plugrad"
    layer = registry.kernels[step.kernel.name, step.backend][0]
    return origin(layer.function, str(layer.owner))
