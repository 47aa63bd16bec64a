"""The nodes and graphs of a model: ``reader`` creates them, ``passes`` rewrite them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from plugrad.importing import ValueInfo, printable

from .registry import Op

__all__ = ["Graph", "Node", "count_uses", "move_params_to_host", "producers"]

Array = np.ndarray[Any, Any]


@dataclass
class Node:
    """An op with the names of its inputs and outputs; "" stands for an omitted one."""

    row: Op
    version: int
    name: str
    inputs: list[str]
    outputs: list[str]
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def op(self) -> str:
        """The name of the op, with its domain if it is not an ONNX op."""
        domain = self.row.domain
        return f"{domain}.{self.row.name}" if domain else self.row.name

    @property
    def subgraphs(self) -> list[Graph]:
        """The graphs among the attributes."""
        return [value for value in self.attrs.values() if isinstance(value, Graph)]

    def __str__(self) -> str:
        """Return text such as "y = Conv(x, w)"."""
        inputs = ", ".join(name or "None" for name in self.inputs)
        outputs = ", ".join(filter(None, self.outputs))
        return printable(f"{outputs} = {self.op}({inputs})")


@dataclass
class Graph:
    """The nodes of a model or of a branch, in topological order.

    Attributes:
        constants: Arrays by name, including integer arrays that serve as shapes.
        params: Floating-point weights by name.
        ranks: The known ranks of values, by name.

    """

    name: str
    inputs: list[ValueInfo] = field(default_factory=list)
    outputs: list[ValueInfo] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    params: dict[str, Array] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)

    def free_names(self) -> list[str]:
        """Return the names that the graph uses but does not define."""
        defined = {info.name for info in self.inputs} | {*self.constants, *self.params}
        free: dict[str, None] = {}
        for node in self.nodes:
            inner = (name for graph in node.subgraphs for name in graph.free_names())
            for name in itertools.chain(node.inputs, inner):
                if name and name not in defined:
                    free[name] = None
            defined.update(node.outputs)
        output_names = (info.name for info in self.outputs)
        free |= {name: None for name in output_names if name not in defined}
        return list(free)

    def all_nodes(self) -> Iterator[Node]:
        """Yield the nodes of the graph and of all branches."""
        for node in self.nodes:
            yield node
            for graph in node.subgraphs:
                yield from graph.all_nodes()

    def inner(self) -> Iterator[Graph]:
        """Yield the graphs of all branches, nested ones included."""
        for node in self.all_nodes():
            yield from node.subgraphs

    def __str__(self) -> str:
        """Return one line for each input, node and output."""
        rows = [f"input {info}" for info in self.inputs]
        rows += [f"  {node}" for node in self.nodes]
        rows += [f"output {info}" for info in self.outputs]
        return "\n".join([f"graph {printable(self.name)}", *rows])


def move_params_to_host(graphs: Sequence[Graph]) -> None:
    """Turn parameters that only the host reads, such as scales, into constants."""
    read_on_host = set[str]()
    used = set[str]()
    for graph in graphs:
        used |= {info.name for info in graph.outputs}
        for node in graph.nodes:
            for i, name in enumerate(node.inputs):
                (read_on_host if i in node.row.reads else used).add(name)
    for graph in graphs:
        for name in [name for name in graph.params if name in read_on_host - used]:
            graph.constants[name] = graph.params.pop(name)


def count_uses(graph: Graph) -> Counter[str]:
    """Count the uses of each value by nodes, in branches and as an output."""
    counts: Counter[str] = Counter(info.name for info in graph.outputs)
    for node in graph.nodes:
        counts.update(node.inputs)
        for inner in node.subgraphs:
            counts.update(inner.free_names())
    return counts


def producers(graph: Graph) -> dict[str, Node]:
    """Return the node that computes each value."""
    return {name: node for node in graph.nodes for name in node.outputs}
