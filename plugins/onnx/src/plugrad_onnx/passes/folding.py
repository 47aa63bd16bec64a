"""Fold batch norms, factors and addends that follow a convolution into its weights.

The parameters of the model do not change: nodes that run once compute the new weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import plugrad as pg

from ..graph import Graph, Node, count_uses, producers
from ..program import KnownValues
from ..registry import Value, op, pass_op

__all__ = ["fold_into_convolutions"]


def fold_into_convolutions(
    graph: Graph, known: KnownValues, changes: Counter[str]
) -> None:
    """Fold nodes that multiply or add per channel."""
    known.add_known(graph)
    _fold_batch_norms(graph, known, changes)
    _fold_affine(graph, known, changes)


# --- batch norms -----------------------------------------------------------------


@op("FoldedFilter", domain="plugrad")
def _folded_filter(w: Value, scale: Value, variance: Value, *, epsilon: float) -> Value:
    factor = scale * pg.rsqrt(variance + epsilon)
    return w * pg.reshape(factor, (-1, *[1] * (w.ndim - 1)))


@op("FoldedBias", domain="plugrad")
def _folded_bias(
    scale: Value,
    offset: Value,
    mean: Value,
    variance: Value,
    bias: Value = None,
    *,
    epsilon: float,
) -> Value:
    factor = scale * pg.rsqrt(variance + epsilon)
    return offset - (mean if bias is None else mean - bias) * factor


def _fold_batch_norms(graph: Graph, known: KnownValues, changes: Counter[str]) -> None:
    """Fold a batch norm into the filter and bias of the convolution before it."""
    used = count_uses(graph)
    producer = producers(graph)
    nodes: list[Node | None] = []
    places: dict[str, int] = {}
    for node in graph.nodes:
        conv = producer.get(node.inputs[0]) if node.inputs else None
        if not (
            node.op == "BatchNormalization"
            and not node.attrs.get("training_mode")
            and conv is not None
            and conv.op == "Conv"
            and used[conv.outputs[0]] == 1
            and all(name in known for name in (*node.inputs[1:], *conv.inputs[1:]))
        ):
            places |= dict.fromkeys(node.outputs, len(nodes))
            nodes.append(node)
            continue
        changes["batch norms folded"] += 1
        scale, offset, mean, variance = node.inputs[1:5]
        attrs = {"epsilon": node.attrs.get("epsilon", 1e-5)}
        y = node.outputs[0]
        w = f"{y}/filter"
        b = f"{y}/bias"
        known.once |= {w, b}
        inputs = [conv.inputs[1], scale, variance]
        parts = [Node(pass_op("FoldedFilter"), 1, node.name, inputs, [w], attrs)]
        inputs = [scale, offset, mean, variance, *conv.inputs[2:3]]
        parts.append(Node(pass_op("FoldedBias"), 1, node.name, inputs, [b], attrs))
        nodes[places[conv.outputs[0]]] = None
        folded = replace(conv, inputs=[conv.inputs[0], w, b], outputs=[y])
        nodes += [*parts, folded]
    graph.nodes[:] = [node for node in nodes if node is not None]


@op("Channels", domain="plugrad")
def _channels(x: Value, like: Value) -> Value:
    """Reshape to a vector with one number per channel of the filter ``like``."""
    return pg.broadcast_to(pg.reshape(x, (-1,)), like.shape[:1])


@op("ScaledFilter", domain="plugrad")
def _scaled_filter(w: Value, factor: Value) -> Value:
    return w * pg.reshape(factor, (-1, *[1] * (w.ndim - 1)))


def _fold_affine(graph: Graph, known: KnownValues, changes: Counter[str]) -> None:
    """Fold a per-channel factor or addend into the convolution before it."""
    used = count_uses(graph)
    producer = producers(graph)
    ranks = graph.ranks
    rows = [[node] for node in graph.nodes]  # the nodes that replace each node
    places = {name: i for i, node in enumerate(graph.nodes) for name in node.outputs}
    for i, node in enumerate(graph.nodes):
        if node.op not in ("Mul", "Add"):
            continue
        for name, other in zip(node.inputs, node.inputs[::-1], strict=True):
            row = rows[places[name]] if name in places else []
            conv = row[-1] if row else None
            if (
                conv is None
                or conv.op != "Conv"
                or used[name] != 1
                or not all(name in known for name in conv.inputs[1:])
                or not _by_channel(other, ranks.get(name, 0), producer, known, ranks)
            ):
                continue
            changes["factors and sums of channels folded"] += 1
            row.pop()
            # The convolution moves here, after the node that computes ``other``.
            rows[i] = _affine(node, conv, other, known)
            break
    graph.nodes[:] = [node for row in rows for node in row]


def _by_channel(
    name: str,
    rank: int,
    producer: Mapping[str, Node],
    known: KnownValues,
    ranks: Mapping[str, int],
) -> bool:
    """Return whether a known value is a scalar or has one number per channel."""
    value = known.constants.get(name, known.params.get(name))
    if value is not None:
        shape = (*[1] * (rank - value.ndim), *value.shape)
        return len(shape) == rank > 2 and bool(value.size == shape[1])
    maker = producer.get(name)
    if maker is None or name not in known or rank < 3:
        return False
    given = known.constants.get(maker.inputs[1]) if maker.inputs[1:] else None
    numbers = maker.attrs.get("axes", () if given is None else given.tolist())
    if maker.op == "Reshape":
        vector = known.params.get(maker.inputs[0])
        sizes = () if vector is None else (-1, vector.size)
        return any([*numbers] == [1, n, *[1] * (rank - 2)] for n in sizes)
    is_vector = ranks.get(maker.inputs[0]) == 1
    return maker.op == "Unsqueeze" and is_vector and [*numbers] == [*range(1, rank - 1)]


def _affine(node: Node, conv: Node, other: str, known: KnownValues) -> list[Node]:
    """Return the folded convolution and the nodes that compute its weights."""
    y = node.outputs[0]
    parts = list[Node]()
    w, b = [*conv.inputs[1:], ""][:2]

    def add(name: str, inputs: list[str], output: str) -> str:
        row = pass_op(name, "" if name in ("Add", "Mul") else "plugrad")
        parts.append(Node(row, 13, node.name, inputs, [output]))
        known.once.add(output)
        return output

    vector = add("Channels", [other, w], f"{y}/channels")
    if node.op == "Mul":
        w = add("ScaledFilter", [w, vector], f"{y}/filter")
        b = add("Mul", [b, vector], f"{y}/bias") if b else ""
    else:
        b = add("Add", [b, vector], f"{y}/bias") if b else vector
    inputs = [conv.inputs[0], w, *([b] if b else [])]
    return [*parts, replace(conv, inputs=inputs, outputs=[y])]
