"""Resolves the names of a file and sorts nodes topologically."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator

import plugrad as pg
from onnx import NodeProto
from plugrad.importing import in_order

__all__ = ["Scope", "sorted_nodes"]


class Scope:
    """Maps the names in a graph of a file to names in the model.

    Names in inlined functions get a prefix.
    """

    def __init__(
        self, budget: pg.Budget, prefix: str = "", outer: Scope | None = None
    ) -> None:
        self.budget, self.prefix = budget, prefix
        above: ChainMap[str, str] = ChainMap() if outer is None else outer.names
        self.names: ChainMap[str, str] = above.new_child()

    def define(self, name: str) -> str:
        """Define a name of the file and return its name in the model."""
        if name:
            self.budget.allocate(len(self.prefix) + len(name) if self.prefix else 0)
            self.names[name] = self.prefix + name
        return self.names.get(name, "")


def sorted_nodes(
    nodes: Iterable[NodeProto], scope: Scope, problems: list[str]
) -> list[NodeProto]:
    """Return the nodes in topological order: each follows the nodes it depends on.

    Missing inputs and cycles are added to ``problems``.
    """
    rows = list(nodes)
    producer: dict[str, int] = {}
    for i, node in enumerate(rows):
        for name in filter(None, node.output):
            if name in producer or (name in scope.names and not scope.prefix):
                problems.append(f"value {name!r} is defined twice")
            producer.setdefault(name, i)
    needs: dict[int, list[int]] = {}
    for i, node in enumerate(rows):
        used = [name for name in dict.fromkeys(_used(node)) if name]
        needs[i] = [producer[name] for name in used if name in producer]
        problems += [
            f"node {node.name or node.op_type!r}: its input {name!r} is not defined"
            for name in used
            if name not in producer and name not in scope.names and name in node.input
        ]
    order, cycle = in_order(needs)
    if cycle:
        names = [rows[i].name or rows[i].op_type for i in cycle]
        problems.append(f"nodes in a cycle: {' -> '.join(names)}")
        for i in needs.keys() - {*order}:
            for name in rows[i].output:
                scope.define(name)  # so that later nodes are not reported as well
    return [rows[i] for i in order]


def _used(node: NodeProto) -> Iterator[str]:
    """Yield the names that a node and its branches use."""
    yield from node.input
    for attribute in node.attribute:
        for graph in [attribute.g, *attribute.graphs]:
            inner = {name: None for one in graph.node for name in _used(one)}
            inner |= {info.name: None for info in graph.output}
            defined = {name for one in graph.node for name in one.output}
            defined |= {info.name for info in graph.input}
            defined |= {one.name for one in graph.initializer}
            defined |= {one.values.name for one in graph.sparse_initializer}
            yield from (name for name in inner if name not in defined)
