"""Infers types and checks function calls before a model is read.

ONNX shape inference runs on the model without its weights. Before that, the reader has
checked that no function calls itself and that inlining stays within the limit on nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

import onnx
import plugrad as pg
from onnx import GraphProto, ModelProto, NodeProto, TypeProto
from plugrad.importing import ModelError, in_order

__all__ = ["check_calls", "check_text", "infer_types"]

MAX_SHAPE_ELEMENTS = 64  # an integer vector of at most this length may be a shape
Key = tuple[str, str]  # domain and name of an op


def infer_types(model: ModelProto) -> Mapping[str, TypeProto]:
    """Return the declared and inferred types of the values in the main graph."""
    stripped = ModelProto()
    stripped.ir_version = model.ir_version
    stripped.opset_import.extend(model.opset_import)
    stripped.functions.extend(model.functions)
    graph, source = stripped.graph, model.graph
    graph.name = source.name
    graph.node.extend(source.node)
    graph.input.extend(source.input)
    graph.output.extend(source.output)
    graph.value_info.extend(source.value_info)
    named = {info.name for info in source.input}
    for tensor in source.initializer:
        if _has_shape_data(tensor):
            graph.initializer.append(tensor)
        elif tensor.name not in named:
            graph.input.append(
                onnx.helper.make_tensor_value_info(
                    tensor.name, tensor.data_type, list(tensor.dims)
                )
            )
    known = {tensor.name for tensor in graph.initializer}
    for nodes in (graph.node, *(f.node for f in stripped.functions)):
        _hide_unknown_shapes(nodes, known)
    try:
        # Not data_prop=True, which would expand small sparse tensors to dense ones.
        stripped = onnx.shape_inference.infer_shapes(stripped)
    except Exception:  # of any type; the reader reports the problems of the model
        stripped = ModelProto(graph=graph)
    return _value_types(stripped.graph, source)


def _has_shape_data(tensor: onnx.TensorProto) -> bool:
    """Return whether a tensor is a scalar, or may be a shape and has all its data."""
    if tensor.data_location == onnx.TensorProto.EXTERNAL or len(tensor.dims) > 1:
        return False
    count = len(tensor.raw_data) // 8 or len(tensor.int64_data)
    is_shape = (
        tensor.data_type == onnx.TensorProto.INT64 and count <= MAX_SHAPE_ELEMENTS
    )
    return not tensor.dims or (is_shape and math.prod(tensor.dims) == count)


def _hide_unknown_shapes(nodes: Iterable[NodeProto], known: Set[str]) -> None:
    """Hide the shape inputs of ``Expand`` whose values are not known.

    ONNX would allocate one axis for each element that the shape is declared to have.
    """
    known = known | {
        node.output[0]
        for node in nodes
        if node.op_type == "Constant"
        and len(node.output) == 1
        and any(a.name == "value" and _has_shape_data(a.t) for a in node.attribute)
    }
    for node in nodes:
        if node.op_type == "Expand" and {*node.input[1:2]} - known:
            node.input[1] = ""
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                _hide_unknown_shapes(graph.node, known)


def _value_types(graph: GraphProto, source: GraphProto) -> dict[str, TypeProto]:
    infos = [*graph.value_info, *graph.input, *graph.output]
    found = {info.name: info.type for info in infos}
    for tensor in source.initializer:
        found[tensor.name] = onnx.helper.make_tensor_type_proto(
            tensor.data_type, list(tensor.dims)
        )
    return found


def check_text(message: Any) -> None:
    """Raise if a name is not UTF-8; protobuf returns such a name as bytes or raises."""
    for field, value in message.ListFields():
        if field.type not in (field.TYPE_MESSAGE, field.TYPE_STRING):
            continue
        single = isinstance(value, str | bytes) or hasattr(value, "ListFields")
        for one in [value] if single else value:
            if isinstance(one, bytes):
                raise ModelError([f"the name {one!r} is not UTF-8"])
            if not isinstance(one, str):
                check_text(one)


def check_calls(model: ModelProto, budget: pg.Budget) -> None:
    """Raise if functions are recursive, or exceed the limits on nodes or depth."""
    functions = {(f.domain, f.name): f for f in model.functions if f.name}
    main: Key = ("", "")  # no op has this name
    calls = {main: [*_levels(model.graph.node, budget)]}
    pending = [main]
    while pending:
        for key, _ in calls[pending.pop()]:
            if key in functions and key not in calls:
                calls[key] = [*_levels(functions[key].node, budget)]
                pending.append(key)
    called = {
        k: [key for key, _ in rows if key in functions] for k, rows in calls.items()
    }
    order, cycle = in_order(called)
    if cycle:
        names = " -> ".join(f"{domain}.{name}" for domain, name in reversed(cycle))
        raise ModelError([f"a function calls itself: {names}"])
    sizes: dict[Key, int] = {}
    depths: dict[Key, int] = {}
    for one in order:
        budget.tick()
        sizes[one] = sum(1 + sizes.get(key, 0) for key, _ in calls[one])
        depths[one] = max((n + depths.get(k, -1) + 1 for k, n in calls[one]), default=0)
    budget.check_depth(depths[main])
    budget.check_nodes(sizes[main])


def _levels(nodes: Iterable[NodeProto], budget: pg.Budget) -> Iterator[tuple[Key, int]]:
    """Yield the op of each node and the number of branches that enclose it."""
    stack = [(iter(nodes), 0)]
    while stack:
        rows, level = stack[-1]
        node = next(rows, None)
        if node is None:
            stack.pop()
            continue
        budget.tick()
        yield (node.domain, node.op_type), level
        graphs = [g for a in node.attribute for g in (a.g, *a.graphs) if len(g.node)]
        stack += [(iter(graph.node), level + 1) for graph in graphs]
