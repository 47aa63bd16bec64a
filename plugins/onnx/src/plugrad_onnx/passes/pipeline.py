"""The passes of ``load(optimize=True)``; none of them changes a parameter.

Whatever a pass computes from parameters becomes nodes that a session runs once. For
example, a filter with a folded batch norm is computed from the original filter and the
parameters of the batch norm, so gradients reach them.

Contents: ``optimize_graph``; constants; known branches; activations; channel shuffles;
gates; quantized weights.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import plugrad as pg

from ..dtypes import MAX_EXPANDED_ELEMENTS
from ..graph import Graph, Node, count_uses, producers
from ..ops import shape
from ..ops.microsoft import stays_packed
from ..program import KnownValues
from ..registry import pass_op
from .folding import fold_into_convolutions
from .layout import with_channels_last
from .quantization import fuse_fake_quantization

__all__ = ["Report", "optimize_graph"]


class Report:
    """Counts the changes of the passes and the elements of folded constants.

    Attributes:
        budget: The budget to which the work of the passes is charged.

    """

    def __init__(self, budget: pg.Budget) -> None:
        self.changes: Counter[str] = Counter()
        self.folded = 0
        self.budget = budget

    def walk(self, graph: Graph) -> Iterator[Node]:
        """Yield the nodes of a graph; check the time limit at each one."""
        for node in graph.nodes:
            self.budget.tick()
            yield node


def optimize_graph(
    graph: Graph, report: Report, outer: KnownValues | None = None
) -> None:
    """Rewrite a graph and its subgraphs."""
    known = KnownValues(graph, outer)
    graph.nodes[:] = report.walk(graph)
    _fold_constants(graph, known, report)
    for node in graph.nodes:
        for inner in node.subgraphs:
            optimize_graph(inner, report, known)
    _inline_branches(graph, known, report)
    _drop_identities(graph, known)
    fuse_fake_quantization(graph, report.changes)
    fold_into_convolutions(graph, known, report.changes)
    _fuse_activations(graph, known, report)
    _prepare_weights(graph, known, report)
    _unpack_weights(graph, known, report)
    _order_gates(graph, known, report)
    _fuse_shuffles(graph, known, report)
    with_channels_last(graph, known, report.changes)
    _drop_unused(graph)


def _drop_unused(graph: Graph) -> None:
    """Remove nodes whose outputs are unused."""
    needed = {info.name for info in graph.outputs}
    kept = []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs) or node.subgraphs:
            kept.append(node)
            needed.update(node.inputs)
            needed |= {name for g in node.subgraphs for name in g.free_names()}
    graph.nodes[:] = reversed(kept)


# --- constants -------------------------------------------------------------------


def _fold_constants(graph: Graph, known: KnownValues, report: Report) -> None:
    """Compute the nodes that depend only on constants, with NumPy."""
    kept = []
    token = shape.max_elements.set(MAX_EXPANDED_ELEMENTS)
    for node in report.walk(graph):
        values = (
            _evaluated(node, known) if report.folded < MAX_EXPANDED_ELEMENTS else None
        )
        nbytes = sum(value.nbytes for value in values or ())
        if values is None or not report.budget.affords(nbytes):
            kept.append(node)
            continue
        report.budget.allocate(nbytes)
        report.changes["constants folded"] += 1
        report.folded += sum(value.size for value in values)
        for name, value in zip(node.outputs, values, strict=False):
            graph.constants[name] = known.constants[name] = value
    shape.max_elements.reset(token)
    graph.nodes[:] = kept


def _evaluated(node: Node, known: KnownValues) -> list[Any] | None:
    row = node.row
    if row.host is None or row.random or node.subgraphs or not any(node.inputs):
        return None
    if not all(not name or name in known.constants for name in node.inputs):
        return None
    args = [known.constants[name] if name else None for name in node.inputs]
    if math.prod(max(x.size, 1) for x in args if x is not None) > MAX_EXPANDED_ELEMENTS:
        return None  # the product bounds the output of a broadcast or a gather
    try:
        with np.errstate(all="ignore"):
            found = row.host(*args, **row.arguments(node.attrs, node))
    except (ArithmeticError, IndexError, TypeError, ValueError):
        return None  # the node raises the error when it runs, if it ever does
    if isinstance(found, list):  # a sequence
        return None
    return [np.array(x) for x in (found if isinstance(found, tuple) else (found,))]


# --- known branches --------------------------------------------------------------


def _inline_branches(graph: Graph, known: KnownValues, report: Report) -> None:
    """Replace each ``If`` whose condition is constant with the chosen branch."""
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
        identity = pass_op("Identity", "")
        for info, name in zip(branch.outputs, node.outputs, strict=False):
            source = names.get(info.name, info.name)
            nodes.append(Node(identity, 1, node.name, [source], [name]))
    graph.nodes[:] = nodes


def _move_arrays(
    branch: Graph, graph: Graph, known: KnownValues, names: dict[str, str]
) -> None:
    """Move the arrays of a branch to the graph; parameters keep their names."""
    for name, value in branch.params.items():
        names[name] = name
        graph.params[name] = known.params[name] = value
    for name, value in branch.constants.items():
        graph.constants[names[name]] = known.constants[names[name]] = value


def _renamed(node: Node, names: dict[str, str]) -> Node:
    """Return a copy of a node, branches included, with values renamed."""
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
    outputs = [replace(i, name=names.get(i.name, i.name)) for i in graph.outputs]
    return replace(graph, nodes=nodes, outputs=outputs)


def _drop_identities(graph: Graph, known: KnownValues) -> None:
    """Remove nodes that only rename a value, including inference-mode dropout."""
    output_names = {info.name for info in graph.outputs}
    used = count_uses(graph)
    names = dict[str, str]()
    nodes = []
    for node in graph.nodes:
        node = _renamed(node, names) if names else node
        if _only_renames(node, known, used) and node.outputs[0] not in output_names:
            names[node.outputs[0]] = node.inputs[0]
        else:
            nodes.append(node)
    graph.nodes[:] = nodes


def _only_renames(node: Node, known: KnownValues, used: Mapping[str, Any]) -> bool:
    if node.op == "Identity":
        return True
    if node.op != "Dropout" or any(name in used for name in node.outputs[1:]):
        return False
    training = node.inputs[2] if len(node.inputs) > 2 else ""
    value = known.constants.get(training)
    return not training or (value is not None and not value.item())


# --- activations -----------------------------------------------------------------


def _activation(node: Node, known: KnownValues) -> dict[str, Any] | None:
    """Return the fused-kernel attributes of an activation node, or None."""
    names = {"Relu": "relu", "Sigmoid": "sigmoid"}
    if node.op in names:
        return {"activation": names[node.op]}
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


def _fuse_activations(graph: Graph, known: KnownValues, report: Report) -> None:
    """Fuse biases and activations into the preceding product or convolution."""
    used = count_uses(graph)
    nodes = list[Node | None](graph.nodes)
    positions = {name: i for i, node in enumerate(graph.nodes) for name in node.outputs}
    for i, node in enumerate(report.walk(graph)):
        for i_input, name in enumerate(node.inputs[:2]):
            position = positions.get(name)
            maker = None if position is None else nodes[position]
            if position is None or maker is None or used[name] != 1:
                continue
            fused = _with_bias(maker, node, i_input, known) or _with_activation(
                maker, node, i_input, known
            )
            if fused is not None:
                report.changes["biases and activations fused"] += 1
                nodes[position], nodes[i] = None, fused
                used.subtract([*maker.inputs, *node.inputs])
                used.update(fused.inputs)
                break
    graph.nodes[:] = [node for node in nodes if node is not None]


def _with_activation(
    maker: Node, node: Node, i: int, known: KnownValues
) -> Node | None:
    if maker.op not in ("Conv", "plugrad.Dense", "Gemm") or i:
        return None
    if maker.attrs.get("activation", "linear") != "linear":
        return None
    found = _activation(node, known)
    if found is None:
        return None
    return replace(maker, outputs=node.outputs, attrs={**maker.attrs, **found})


def _with_bias(maker: Node, node: Node, i: int, known: KnownValues) -> Node | None:
    if maker.op != "MatMul" or node.op != "Add":
        return None
    bias = known.params.get(node.inputs[1 - i])
    weights = known.params.get(maker.inputs[1])
    if bias is None or weights is None or bias.ndim != 1 or weights.ndim != 2:
        return None
    if bias.shape[0] != weights.shape[1]:
        return None
    inputs = [*maker.inputs, node.inputs[1 - i]]
    return replace(maker, row=pass_op("Dense"), inputs=inputs, outputs=node.outputs)


# --- channel shuffles ------------------------------------------------------------


def _fuse_shuffles(graph: Graph, known: KnownValues, report: Report) -> None:
    """Fuse a channel shuffle into one node, which supports either layout."""
    used = count_uses(graph)
    producer = producers(graph)

    def before(node: Node, op: str) -> Node | None:
        maker = producer.get(node.inputs[0])
        alone = used[node.inputs[0]] == 1
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
            inputs = split.inputs[:1]
            row = pass_op("Shuffle")
            graph.nodes[i] = replace(node, row=row, inputs=inputs, attrs=attrs)


# --- gates -----------------------------------------------------------------------


# For each recurrent op: the op that prepares its weights, the positions of the weights
# among the inputs, the number of prepared arrays per direction, and the position of the
# first prepared array among the new inputs.
RECURRENT = {
    "LSTM": ("Gates", (1, 2, 3), 4, 8),
    "GRU": ("Gates", (1, 2, 3), 4, 6),
    "com.microsoft.DynamicQuantizeLSTM": ("QuantizedGates", (1, 2, 9, 11), 4, 12),
}


def _order_gates(graph: Graph, known: KnownValues, report: Report) -> None:
    """Reorder LSTM and GRU weights once into the gate order of plugrad."""
    nodes = []
    for node in report.walk(graph):
        maker, places, count_per_direction, count = RECURRENT.get(
            node.op, ("", (), 0, 0)
        )
        inputs = [*node.inputs, *[""] * count][:count]
        weights = [inputs[i] for i in places]
        if maker and all(not name or name in known for name in weights):
            report.changes["gates put into order"] += 1
            directions = 2 if node.attrs.get("direction") == "bidirectional" else 1
            first = next(filter(None, node.outputs))
            gates = [
                f"{first}/gates{i}" for i in range(count_per_direction * directions)
            ]
            attrs = {"kind": node.op} if maker == "Gates" else {}
            nodes.append(Node(pass_op(maker), 1, node.name, weights, gates, attrs))
            node = replace(node, inputs=[*inputs, *gates])
        nodes.append(node)
    graph.nodes[:] = nodes


# --- quantized weights -----------------------------------------------------------

# The input names of quantized ops, in order.
QUANTIZED = {
    "ConvInteger": "x w x_zero w_zero",
    "MatMulInteger": "x w x_zero w_zero",
    "QLinearConv": "x x_scale x_zero w w_scale w_zero scale zero bias",
    "QLinearMatMul": "x x_scale x_zero w w_scale w_zero scale zero",
}


def _prepare_weights(graph: Graph, known: KnownValues, report: Report) -> None:
    """Convert weights to int8 once instead of in each call."""
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


def _unpack_weights(graph: Graph, known: KnownValues, report: Report) -> None:
    """Prepare low-bit weights once; unpack those that cannot be used in packed form."""
    nodes = []
    for node in report.walk(graph):
        weights = [*node.inputs, *[""] * 4][1:5]
        is_product = node.op == "com.microsoft.MatMulNBits"
        if not is_product or any(name and name not in known for name in weights):
            nodes.append(node)
            continue
        nodes += _with_low_bit_weights(node, weights, report)
    graph.nodes[:] = nodes


def _with_low_bit_weights(node: Node, weights: list[str], report: Report) -> list[Node]:
    """Return the nodes that replace a ``MatMulNBits`` node."""
    y = node.outputs[0]
    keys = ("K", "N", "block_size", "bits")
    attrs = {"bits": 4} | {k: node.attrs[k] for k in keys if k in node.attrs}
    bias = node.inputs[5] if len(node.inputs) > 5 else ""
    bits = attrs["bits"]
    if not weights[3] and stays_packed(attrs["K"], attrs["block_size"], bits):
        parts = [f"{y}/{name}" for name in ("codes", "scales", "offsets")]
        row = pass_op("BlockWeights")
        first = Node(row, 1, node.name, weights[:3], parts, attrs)
        row, given = pass_op("BlockDense"), {"bits": bits}
        report.changes["weights kept packed"] += 1
    else:
        parts = [f"{y}/weights"]
        row = pass_op("UnpackedWeights")
        first = Node(row, 1, node.name, weights, parts, attrs)
        row, given = pass_op("Dense"), {}
        report.changes["weights unpacked"] += 1
    inputs = [node.inputs[0], *parts, bias]
    return [first, replace(node, row=row, inputs=inputs, attrs=given)]


def _prepared(node: Node, given: Mapping[str, str], w: Any) -> list[Node]:
    """Return the nodes that replace a node with constant weights ``w``."""
    y = node.outputs[0]
    matrix = node.op.endswith(("MatMul", "MatMulInteger"))
    if matrix and w.ndim != 2:
        return [node]
    prepared = [f"{y}/{name}" for name in ("weights", "rest")]
    attrs = {"matrix": 1} if matrix else {"group": node.attrs.get("group", 1)}
    inputs = [given["w"], given.get("w_zero", "")]
    nodes = [Node(pass_op("Weights"), 1, node.name, inputs, prepared, attrs)]
    scale = ""
    if "scale" in given:
        inputs = [given[k] for k in ("x_scale", "w_scale", "scale")]
        scale = f"{y}/scale"
        nodes.append(Node(pass_op("Factor"), 1, node.name, inputs, [scale]))
    inputs = [given["x"], *prepared, given.get("x_zero", "")]
    inputs += [] if matrix else [given.get("bias", "")]
    inputs += [scale, given.get("zero", "")]
    row = pass_op("QuantizedMatMul" if matrix else "QuantizedConv")
    attrs = {} if matrix else {**node.attrs, "kernel_shape": tuple(w.shape[2:])}
    return [*nodes, replace(node, row=row, inputs=inputs, attrs=attrs)]
