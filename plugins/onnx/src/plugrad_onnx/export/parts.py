"""Replaces steps that have no ONNX op with the kernels that they are composed of."""

from __future__ import annotations

import itertools
from collections.abc import Collection

import plugrad as pg
from plugrad.plugin import Graph, Step, contracts

__all__ = ["expanded"]


def expanded(graph: Graph, names: Collection[str]) -> Graph:
    """Return an equivalent graph that uses the named kernels as far as possible.

    Other kernels are replaced by their decompositions. A step whose decomposition also
    needs other kernels stays unchanged.
    """
    return Expansion(graph, names).graph()


class Expansion:
    """Expands a graph, step by step.

    Attributes:
        steps: The steps of the expanded graph so far.
        constants, specs: The constants and specs of the graph and the decompositions.

    """

    def __init__(self, graph: Graph, names: Collection[str]) -> None:
        self._graph, self._names = graph, names
        self.steps: list[Step] = []
        self.constants = dict(graph.constants)
        self.specs = dict(graph.specs)
        self._numbers = itertools.count(max(graph.specs, default=0) + 1)

    def graph(self) -> Graph:
        """Return the expanded graph."""
        for step in self._graph.steps:
            self.add(step)
        return self._graph._replace(
            constants=self.constants, steps=tuple(self.steps), specs=self.specs
        )

    def add(self, step: Step) -> None:
        """Append a step, or the steps of its decomposition."""
        if step.kernel.name in self._names or step.kernel.decomposition is None:
            self.steps.append(step)
            return
        part = expanded(self.part(step), self._names)
        if any(inner.kernel.name not in self._names for inner in part.steps):
            self.steps.append(step)  # so that a message names this kernel
            return
        given = [x for x in step.inputs if x is not None]
        numbers = dict(zip(part.inputs, given, strict=True))
        made = {y for inner in part.steps for y in inner.outputs}
        copies = []
        for y, output in zip(part.outputs, step.outputs, strict=True):
            if y in made and y not in numbers:
                numbers[y] = output
            else:  # y is an input, a constant, or already another output
                copies.append((y, output))
        for value, spec in part.specs.items():
            if value not in numbers:
                numbers[value] = next(self._numbers)
            self.specs[numbers[value]] = spec
        for value, native in part.constants.items():
            self.constants[numbers[value]] = native
        for inner in part.steps:
            inputs = [None if x is None else numbers[x] for x in inner.inputs]
            outputs = tuple([numbers[y] for y in inner.outputs])
            self.steps.append(inner._replace(inputs=tuple(inputs), outputs=outputs))
        identity = contracts()["Identity"]
        for y, output in copies:
            self.steps.append(
                Step(identity, step.backend, (numbers[y],), {}, (output,))
            )

    def part(self, step: Step) -> Graph:
        """Return the graph of the decomposition of a step."""
        decompose = step.kernel.decomposition
        assert decompose is not None
        examples = [
            pg.zeros(self.specs[x].shape, dtype=self.specs[x].dtype)
            for x in step.inputs
            if x is not None
        ]

        def run(*given: pg.Tensor) -> object:
            rest = iter(given)
            inputs = [None if x is None else next(rest) for x in step.inputs]
            return decompose(*inputs, **step.attrs)

        explanation = pg.jit(run).explain(*examples)
        if explanation.graph is None:
            raise ValueError(
                f"save: {step.kernel.name} cannot be recorded: {explanation.reason}"
            )
        return explanation.graph
