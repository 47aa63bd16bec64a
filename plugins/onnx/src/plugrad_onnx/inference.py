"""What is known of a model before it is read: the types of values, and its size.

ONNX' shape inference does not get the weights, and no model whose functions call
themselves or become more nodes than there may be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TypeProto

from .proto import ModelError

__all__ = ["check_calls", "check_text", "types_of"]

SMALL = 64  # elements that a shape can have


def types_of(model: ModelProto) -> Mapping[str, TypeProto]:
    """Return the types of the values of the main graph, as far as they are found."""
    light = ModelProto()
    light.ir_version = model.ir_version
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    graph, source = light.graph, model.graph
    graph.name = source.name
    graph.node.extend(source.node)
    graph.input.extend(source.input)
    graph.output.extend(source.output)
    graph.value_info.extend(source.value_info)
    named = {info.name for info in source.input}
    for tensor in source.initializer:
        external = tensor.data_location == onnx.TensorProto.EXTERNAL
        size = len(tensor.raw_data) or 8 * sum(tensor.dims)
        if not external and size <= 8 * SMALL:
            graph.initializer.append(tensor)
        elif tensor.name not in named:
            graph.input.append(
                onnx.helper.make_tensor_value_info(
                    tensor.name, tensor.data_type, list(tensor.dims)
                )
            )
    try:
        # Not data_prop=True, which makes what a small sparse tensor stands for.
        light = onnx.shape_inference.infer_shapes(light)
    except Exception:  # of any type; the reader says what is wrong
        light = ModelProto(graph=graph)
    return _collected(light.graph, source)


def _collected(graph: GraphProto, source: GraphProto) -> dict[str, TypeProto]:
    infos = [*graph.value_info, *graph.input, *graph.output]
    found = {info.name: info.type for info in infos}
    for tensor in source.initializer:
        found[tensor.name] = onnx.helper.make_tensor_type_proto(
            tensor.data_type, list(tensor.dims)
        )
    return found


def check_text(message: Any) -> None:
    """Raise if a name is not UTF-8: protobuf gives bytes then, or an error."""
    for field, value in message.ListFields():
        if field.type not in (field.TYPE_MESSAGE, field.TYPE_STRING):
            continue
        single = isinstance(value, str | bytes) or hasattr(value, "ListFields")
        for one in [value] if single else value:
            if isinstance(one, bytes):
                raise ModelError([f"the name {one!r} is not UTF-8"])
            if not isinstance(one, str):
                check_text(one)


def check_calls(model: ModelProto, most: int) -> None:
    """Raise if functions call themselves, or a model has more than ``most`` nodes."""
    functions = {(f.domain, f.name): f for f in model.functions}
    sizes: dict[tuple[str, str], int] = {}

    def size(nodes: Iterable[NodeProto], path: tuple[tuple[str, str], ...]) -> int:
        total = 0
        for node in _all_nodes(nodes):
            key = (node.domain, node.op_type)
            if key in path:
                names = " -> ".join(f"{d}.{n}" for d, n in (*path, key))
                raise ModelError([f"a function calls itself: {names}"])
            if key in functions and key not in sizes:
                sizes[key] = size(functions[key].node, (*path, key))
            total += sizes.get(key, 1)
        return total

    count = size(model.graph.node, ())
    if count > most:
        raise ModelError(
            [f"{count} nodes with functions written out, of {most} at most"]
        )


def _all_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in [attribute.g, *attribute.graphs]:
                yield from _all_nodes(graph.node)
