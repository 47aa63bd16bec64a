"""A model as nodes: what is read from a file, and what the passes rewrite."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from plugrad.importing import ValueInfo, printable

from .registry import Op

__all__ = ["Graph", "Node", "makers", "settle_params", "uses"]

Array = np.ndarray[Any, Any]


@dataclass
class Node:
    """A node: an op, with the names of its inputs and outputs ("" for none)."""

    row: Op
    version: int
    name: str
    inputs: list[str]
    outputs: list[str]
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def op(self) -> str:
        """The name of the op, with its domain."""
        domain = self.row.domain
        return f"{domain}.{self.row.name}" if domain else self.row.name

    @property
    def subgraphs(self) -> list[Graph]:
        """The graphs among the attributes."""
        return [value for value in self.attrs.values() if isinstance(value, Graph)]

    def __str__(self) -> str:
        """Return "y = Conv(x, w)"."""
        inputs = ", ".join(name or "None" for name in self.inputs)
        outputs = ", ".join(filter(None, self.outputs))
        return printable(f"{outputs} = {self.op}({inputs})")


@dataclass
class Graph:
    """The nodes of a model or of a branch, in an order in which they can run.

    Attributes:
        constants: Arrays by name, among them small integers that are shapes.
        params: Floating-point weights by name.
        ranks: The numbers of axes that are known.

    """

    name: str
    inputs: list[ValueInfo] = field(default_factory=list)
    outputs: list[ValueInfo] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    params: dict[str, Array] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)

    def free_names(self) -> list[str]:
        """Return what the graph uses and does not define, as branches do."""
        defined = {info.name for info in self.inputs} | {*self.constants, *self.params}
        free: dict[str, None] = {}
        for node in self.nodes:
            inner = (name for graph in node.subgraphs for name in graph.free_names())
            for name in itertools.chain(node.inputs, inner):
                if name and name not in defined:
                    free[name] = None
            defined.update(node.outputs)
        ends = (info.name for info in self.outputs)
        free |= {name: None for name in ends if name not in defined}
        return list(free)

    def all_nodes(self) -> Iterator[Node]:
        """Yield the nodes, with those of all branches."""
        for node in self.nodes:
            yield node
            for graph in node.subgraphs:
                yield from graph.all_nodes()

    def inner(self) -> Iterator[Graph]:
        """Yield the graphs of all branches."""
        for node in self.all_nodes():
            yield from node.subgraphs

    def __str__(self) -> str:
        """Return the inputs, the nodes and the outputs, a line each."""
        rows = [f"input {info}" for info in self.inputs]
        rows += [f"  {node}" for node in self.nodes]
        rows += [f"output {info}" for info in self.outputs]
        return "\n".join([f"graph {printable(self.name)}", *rows])


def settle_params(graphs: Sequence[Graph]) -> None:
    """Make constants of parameters that are only read on the host, as scales are."""
    read, used = set[str](), set[str]()
    for graph in graphs:
        used |= {info.name for info in graph.outputs}
        for node in graph.nodes:
            for i, name in enumerate(node.inputs):
                (read if i in node.row.reads else used).add(name)
    for graph in graphs:
        for name in [name for name in graph.params if name in read - used]:
            graph.constants[name] = graph.params.pop(name)


def uses(graph: Graph) -> Counter[str]:
    """Return how often each value is used: by nodes, in branches, as an output."""
    found: Counter[str] = Counter(info.name for info in graph.outputs)
    for node in graph.nodes:
        found.update(node.inputs)
        for inner in node.subgraphs:
            found.update(inner.free_names())
    return found


def makers(graph: Graph) -> dict[str, Node]:
    """Return which node computes each value."""
    return {name: node for node in graph.nodes for name in node.outputs}
