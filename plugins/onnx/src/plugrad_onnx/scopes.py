"""Names of a file, and nodes in an order in which they can run."""

from __future__ import annotations

import heapq
from collections import ChainMap
from collections.abc import Iterable, Iterator

import plugrad as pg
from onnx import NodeProto

__all__ = ["Scope", "in_order"]


class Scope:
    """What the names of a graph of a file are called in the model.

    Those of functions that are written out get a prefix.
    """

    def __init__(
        self, budget: pg.Budget, prefix: str = "", outer: Scope | None = None
    ) -> None:
        self.budget, self.prefix = budget, prefix
        above: ChainMap[str, str] = ChainMap() if outer is None else outer.names
        self.names: ChainMap[str, str] = above.new_child()

    def define(self, name: str) -> str:
        """Return what a name of the file is called from now on."""
        if name:
            self.budget.allocate(len(self.prefix) + len(name) if self.prefix else 0)
            self.names[name] = self.prefix + name
        return self.names.get(name, "")


def in_order(
    nodes: Iterable[NodeProto], scope: Scope, problems: list[str]
) -> list[NodeProto]:
    """Return nodes so that each comes after those whose outputs it uses.

    Those that cannot run, as an input is missing or part of a cycle, are problems.
    """
    rows = list(nodes)
    made: dict[str, int] = {}
    for i, node in enumerate(rows):
        for name in filter(None, node.output):
            if name in made or (name in scope.names and not scope.prefix):
                problems.append(f"value {name!r} is defined twice")
            made.setdefault(name, i)
    users: dict[int, list[int]] = {}
    waits = [0] * len(rows)
    for i, node in enumerate(rows):
        for name in {*_used(node)} - {""}:
            if name in made:
                waits[i] += 1
                users.setdefault(made[name], []).append(i)
            elif name not in scope.names and name in node.input:
                problems.append(
                    f"node {node.name or node.op_type!r}: its input {name!r} is not "
                    "defined"
                )
    ready = [i for i, count in enumerate(waits) if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        i = heapq.heappop(ready)
        order.append(rows[i])
        for user in users.get(i, ()):
            waits[user] -= 1
            if not waits[user]:
                heapq.heappush(ready, user)
    stuck = [rows[i] for i, count in enumerate(waits) if count]
    if stuck:
        names = [node.name or node.op_type for node in stuck]
        problems.append(f"nodes that wait for each other: {names[:10]}")
        for name in [name for node in stuck for name in node.output]:
            scope.define(name)  # so that only they are named
    return order


def _used(node: NodeProto) -> Iterator[str]:
    """Yield the names that a node uses, also those that its branches use."""
    yield from node.input
    for attribute in node.attribute:
        for graph in [attribute.g, *attribute.graphs]:
            inner = {name for one in graph.node for name in _used(one)}
            inner |= {info.name for info in graph.output}
            inner -= {name for one in graph.node for name in one.output}
            inner -= {info.name for info in graph.input}
            inner -= {one.name for one in graph.initializer}
            yield from inner - {one.values.name for one in graph.sparse_initializer}
