"""What ``load(optimize=True)`` does to a graph; no parameter is changed.

What a pass computes of parameters becomes nodes, which a session runs once: the filter
of a convolution into which a batch norm is folded still depends on the parameters of
both, and so gradients reach them.

Map: ``optimized``; constants; branches that are known; activations; shuffles; gates;
quantized weights.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import plugrad as pg

from ..dtypes import LIMIT
from ..graph import Graph, Node, makers, uses
from ..ops import shape
from ..program import Known
from ..registry import own
from .folding import fold_into_convolutions
from .layout import with_channels_last

__all__ = ["Report", "optimized"]


class Report:
    """What the passes did: how often each change was made, how much was folded.

    Attributes:
        budget: What the passes are charged to.

    """

    def __init__(self, budget: pg.Budget) -> None:
        self.changes: Counter[str] = Counter()
        self.folded = 0
        self.budget = budget

    def walk(self, graph: Graph) -> Iterator[Node]:
        """Yield the nodes of a graph, and check the time for each."""
        for node in graph.nodes:
            self.budget.tick()
            yield node


def optimized(graph: Graph, report: Report, outer: Known | None = None) -> None:
    """Rewrite a graph, and the graphs in it."""
    known = Known(graph, outer)
    graph.nodes[:] = report.walk(graph)
    _fold_constants(graph, known, report)
    for node in graph.nodes:
        for inner in node.subgraphs:
            optimized(inner, report, known)
    _inline_branches(graph, known, report)
    _drop_identities(graph, known)
    fold_into_convolutions(graph, known, report.changes)
    _fuse_activations(graph, known, report)
    _prepare_weights(graph, known, report)
    _order_gates(graph, known, report)
    _fuse_shuffles(graph, known, report)
    with_channels_last(graph, known, report.changes)
    _drop_unused(graph)


def _drop_unused(graph: Graph) -> None:
    """Remove nodes whose outputs are not used."""
    needed = {info.name for info in graph.outputs}
    kept = []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs) or node.subgraphs:
            kept.append(node)
            needed.update(node.inputs)
            needed |= {name for g in node.subgraphs for name in g.free_names()}
    graph.nodes[:] = reversed(kept)


# --- constants -------------------------------------------------------------------


def _fold_constants(graph: Graph, known: Known, report: Report) -> None:
    """Compute on the host what depends on constants alone."""
    kept = []
    token = shape.most_elements.set(LIMIT)
    for node in report.walk(graph):
        values = _evaluated(node, known) if report.folded < LIMIT else None
        nbytes = sum(value.nbytes for value in values or ())
        if values is None or not report.budget.affords(nbytes):
            kept.append(node)
            continue
        report.budget.allocate(nbytes)
        report.changes["constants folded"] += 1
        report.folded += sum(value.size for value in values)
        for name, value in zip(node.outputs, values, strict=False):
            graph.constants[name] = known.constants[name] = value
    shape.most_elements.reset(token)
    graph.nodes[:] = kept


def _evaluated(node: Node, known: Known) -> list[Any] | None:
    row = node.row
    if row.host is None or row.random or node.subgraphs or not any(node.inputs):
        return None
    if not all(not name or name in known.constants for name in node.inputs):
        return None
    args = [known.constants[name] if name else None for name in node.inputs]
    if math.prod(max(x.size, 1) for x in args if x is not None) > LIMIT:
        return None  # no result has more elements: they broadcast, or are gathered
    try:
        with np.errstate(all="ignore"):
            found = row.host(*args, **row.arguments(node.attrs, node))
    except (ArithmeticError, IndexError, TypeError, ValueError):
        return None  # it is an error when the node runs, if it does
    if isinstance(found, list):  # a sequence
        return None
    return [np.array(x) for x in (found if isinstance(found, tuple) else (found,))]


# --- branches that are known -----------------------------------------------------


def _inline_branches(graph: Graph, known: Known, report: Report) -> None:
    """Put the branch of an ``If`` in its place where the condition is a constant."""
    nodes = []
    for node in report.walk(graph):
        condition = known.constants.get(node.inputs[0]) if node.inputs else None
        if node.op != "If" or condition is None:
            nodes.append(node)
            continue
        report.changes["branches chosen"] += 1
        word = "then_branch" if condition.item() else "else_branch"
        branch: Graph = node.attrs[word]
        prefix = f"{node.outputs[0]}/{word}/"
        inner = {name for one in branch.nodes for name in one.outputs}
        inner |= {*branch.constants, *branch.params}
        names = {name: prefix + name for name in inner if name}
        _move_arrays(branch, graph, known, names)
        nodes += [_renamed(one, names) for one in branch.nodes]
        identity = own("Identity", "")
        for info, name in zip(branch.outputs, node.outputs, strict=False):
            source = names.get(info.name, info.name)
            nodes.append(Node(identity, 1, node.name, [source], [name]))
    graph.nodes[:] = nodes


def _move_arrays(
    branch: Graph, graph: Graph, known: Known, names: dict[str, str]
) -> None:
    """Move the arrays of a branch; parameters keep their names."""
    for name, value in branch.params.items():
        names[name] = name
        graph.params[name] = known.params[name] = value
    for name, value in branch.constants.items():
        graph.constants[names[name]] = known.constants[names[name]] = value


def _renamed(node: Node, names: dict[str, str]) -> Node:
    """Return a node, and what is in its branches, with other names."""
    attrs = {
        key: _renamed_graph(value, names) if isinstance(value, Graph) else value
        for key, value in node.attrs.items()
    }
    inputs, outputs = (
        [names.get(name, name) for name in rows] for rows in (node.inputs, node.outputs)
    )
    return replace(node, inputs=inputs, outputs=outputs, attrs=attrs)


def _renamed_graph(graph: Graph, names: dict[str, str]) -> Graph:
    nodes = [_renamed(node, names) for node in graph.nodes]
    ends = [replace(i, name=names.get(i.name, i.name)) for i in graph.outputs]
    return replace(graph, nodes=nodes, outputs=ends)


def _drop_identities(graph: Graph, known: Known) -> None:
    """Remove nodes that only rename, among them dropout that does not train."""
    ends = {info.name for info in graph.outputs}
    used, names, nodes = uses(graph), dict[str, str](), []
    for node in graph.nodes:
        node = _renamed(node, names) if names else node
        if _only_renames(node, known, used) and node.outputs[0] not in ends:
            names[node.outputs[0]] = node.inputs[0]
        else:
            nodes.append(node)
    graph.nodes[:] = nodes


def _only_renames(node: Node, known: Known, used: Mapping[str, Any]) -> bool:
    if node.op == "Identity":
        return True
    if node.op != "Dropout" or any(name in used for name in node.outputs[1:]):
        return False
    training = node.inputs[2] if len(node.inputs) > 2 else ""
    value = known.constants.get(training)
    return not training or (value is not None and not value.item())


# --- activations -----------------------------------------------------------------


def _activation(node: Node, known: Known) -> dict[str, Any] | None:
    """Return the attributes by which a kernel has a node's activation built in."""
    words = {"Relu": "relu", "Sigmoid": "sigmoid"}
    if node.op in words:
        return {"activation": words[node.op]}
    if node.op == "Elu" and node.attrs.get("alpha", 1.0) == 1:
        return {"activation": "elu"}
    if node.op == "LeakyRelu":
        return {"activation": "leaky_relu", "slope": node.attrs.get("alpha", 0.01)}
    if node.op != "Clip":
        return None
    if node.version < 11:
        ends = [node.attrs.get("min", -math.inf), node.attrs.get("max", math.inf)]
    else:
        arrays = [known.constants.get(name) for name in node.inputs[1:]]
        if len(arrays) != 2 or any(x is None for x in arrays):
            return None
        ends = [float(x.item()) for x in arrays if x is not None]
    return {"activation": "relu6"} if ends == [0.0, 6.0] else None


def _fuse_activations(graph: Graph, known: Known, report: Report) -> None:
    """Let the kernel of a product add the bias, and run the activation behind it."""
    used, nodes = uses(graph), list[Node | None](graph.nodes)
    places = {name: i for i, node in enumerate(graph.nodes) for name in node.outputs}
    for i, node in enumerate(report.walk(graph)):
        for side, name in enumerate(node.inputs[:2]):
            place = places.get(name)
            maker = None if place is None else nodes[place]
            if place is None or maker is None or used[name] != 1:
                continue
            fused = _with_bias(maker, node, side, known) or _with_activation(
                maker, node, side, known
            )
            if fused is not None:
                report.changes["biases and activations fused"] += 1
                nodes[place], nodes[i] = None, fused
                used.subtract([*maker.inputs, *node.inputs])
                used.update(fused.inputs)
                break
    graph.nodes[:] = [node for node in nodes if node is not None]


def _with_activation(maker: Node, node: Node, i: int, known: Known) -> Node | None:
    if maker.op not in ("Conv", "plugrad.Dense", "Gemm") or i:
        return None
    if maker.attrs.get("activation", "linear") != "linear":
        return None
    found = _activation(node, known)
    if found is None:
        return None
    return replace(maker, outputs=node.outputs, attrs={**maker.attrs, **found})


def _with_bias(maker: Node, node: Node, i: int, known: Known) -> Node | None:
    if maker.op != "MatMul" or node.op != "Add":
        return None
    bias = known.params.get(node.inputs[1 - i])
    weights = known.params.get(maker.inputs[1])
    if bias is None or weights is None or bias.ndim != 1 or weights.ndim != 2:
        return None
    if bias.shape[0] != weights.shape[1]:
        return None
    inputs = [*maker.inputs, node.inputs[1 - i]]
    return replace(maker, row=own("Dense"), inputs=inputs, outputs=node.outputs)


# --- shuffles of channels --------------------------------------------------------


def _fuse_shuffles(graph: Graph, known: Known, report: Report) -> None:
    """Let one node shuffle channels, which it can where these are last, too."""
    used, made = uses(graph), makers(graph)

    def before(node: Node, op: str) -> Node | None:
        maker, alone = made.get(node.inputs[0]), used[node.inputs[0]] == 1
        return maker if maker is not None and maker.op == op and alone else None

    for i, node in enumerate(graph.nodes):
        swap = before(node, "Transpose") if node.op == "Reshape" else None
        split = before(swap, "Reshape") if swap is not None else None
        if swap is None or split is None:
            continue
        arrays = [known.constants.get(one.inputs[1]) for one in (split, node)]
        wide, narrow = (shape.ints(x) if x is not None else () for x in arrays)
        zeros = split.attrs.get("allowzero") or node.attrs.get("allowzero")
        perm = tuple(swap.attrs.get("perm", ()))
        if (
            4 <= len(wide) == len(narrow) + 1
            and not zeros
            and perm == (0, 2, 1, *range(3, len(wide)))
        ):
            report.changes["shuffles of channels fused"] += 1
            attrs = {"wide": wide, "narrow": narrow}
            inputs, row = split.inputs[:1], own("Shuffle")
            graph.nodes[i] = replace(node, row=row, inputs=inputs, attrs=attrs)


# --- gates -----------------------------------------------------------------------


# The node that prepares weights, the inputs that it takes, how many values it has for a
# direction, and how many inputs the op has before these.
RECURRENT = {
    "LSTM": ("Gates", (1, 2, 3), 4, 8),
    "GRU": ("Gates", (1, 2, 3), 4, 6),
    "com.microsoft.DynamicQuantizeLSTM": ("QuantizedGates", (1, 2, 9, 11), 4, 12),
}


def _order_gates(graph: Graph, known: Known, report: Report) -> None:
    """Prepare the weights of LSTM and GRU once, in the order of plugrad's gates."""
    nodes = []
    for node in report.walk(graph):
        maker, places, each, count = RECURRENT.get(node.op, ("", (), 0, 0))
        inputs = [*node.inputs, *[""] * count][:count]
        weights = [inputs[i] for i in places]
        if maker and all(not name or name in known for name in weights):
            report.changes["gates put into order"] += 1
            ways = 2 if node.attrs.get("direction") == "bidirectional" else 1
            first = next(filter(None, node.outputs))
            gates = [f"{first}/gates{i}" for i in range(each * ways)]
            more = {"kind": node.op} if maker == "Gates" else {}
            nodes.append(Node(own(maker), 1, node.name, weights, gates, more))
            node = replace(node, inputs=[*inputs, *gates])
        nodes.append(node)
    graph.nodes[:] = nodes


# --- quantized weights -----------------------------------------------------------

# The inputs of quantized ops, by name, in their order.
QUANTIZED = {
    "ConvInteger": "x w x_zero w_zero",
    "MatMulInteger": "x w x_zero w_zero",
    "QLinearConv": "x x_scale x_zero w w_scale w_zero scale zero bias",
    "QLinearMatMul": "x x_scale x_zero w w_scale w_zero scale zero",
}


def _prepare_weights(graph: Graph, known: Known, report: Report) -> None:
    """Make weights int8 once, instead of in each call."""
    nodes = []
    for node in report.walk(graph):
        names = QUANTIZED.get(node.op, "").split()
        given = dict(zip(names, node.inputs, strict=False))
        constant = [known.constants.get(given.get(key, "")) for key in ("w", "w_zero")]
        if constant[0] is None or (given.get("w_zero") and constant[1] is None):
            nodes.append(node)
        else:
            nodes += _prepared(node, given, constant[0])
            report.changes["weights made int8"] += 1
    graph.nodes[:] = nodes


def _prepared(node: Node, given: Mapping[str, str], w: Any) -> list[Node]:
    """Return the nodes for one whose weights ``w`` are known."""
    y, matrix = node.outputs[0], node.op.endswith(("MatMul", "MatMulInteger"))
    if matrix and w.ndim != 2:
        return [node]
    made = [f"{y}/{name}" for name in ("weights", "rest")]
    attrs = {"matrix": 1} if matrix else {"group": node.attrs.get("group", 1)}
    inputs = [given["w"], given.get("w_zero", "")]
    nodes = [Node(own("Weights"), 1, node.name, inputs, made, attrs)]
    scale = ""
    if "scale" in given:
        inputs, scale = (
            [given[k] for k in ("x_scale", "w_scale", "scale")],
            f"{y}/scale",
        )
        nodes.append(Node(own("Factor"), 1, node.name, inputs, [scale]))
    inputs = [given["x"], *made, given.get("x_zero", "")]
    inputs += [] if matrix else [given.get("bias", "")]
    inputs += [scale, given.get("zero", "")]
    row = own("QuantizedMatMul" if matrix else "QuantizedConv")
    attrs = {} if matrix else {**node.attrs, "kernel_shape": tuple(w.shape[2:])}
    return [*nodes, replace(node, row=row, inputs=inputs, attrs=attrs)]
