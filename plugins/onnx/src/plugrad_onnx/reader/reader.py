"""Builds a graph from a model file and collects all problems.

Contents: ``Reader``; inlining of functions; checks of a node.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import plugrad as pg
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
)
from plugrad.importing import ModelError, ValueInfo, inputs_text

from .. import registry
from ..dtypes import (
    NARROW_FLOATS,
    SUB_BYTE_BOUNDS,
    domain_of,
    dtype_of,
    is_floating,
)
from ..graph import Graph, Node, move_params_to_host
from ..registry import Op
from .functions import default_attributes, with_attributes
from .inference import check_calls, check_text, infer_types
from .scopes import Scope, sorted_nodes
from .tensors import described, to_array, to_dense

__all__ = ["Reader"]

PREFIX_MAX_CHARS = 40  # length of the op name in the prefix of inlined names
ITEM_BYTES = 40  # memory of an integer in a tuple
MIN_OPSET = 6  # the oldest opset that can be read
# Ops that need the ONNX dtype of an input: its position, and the name under which the
# op gets it, if that is not "output_dtype".
ELEM_TYPES_OF = {"QuantizeLinear": 2, "CastLike": 1, "BitCast": 0}
ELEM_TYPES_OF |= {"GatherBlockQuantized": 0}
ELEM_TYPE_NAMES = {"CastLike": "to", "GatherBlockQuantized": "elem_type"}
Array = np.ndarray[Any, Any]


class Reader:
    """Builds the ``Graph`` of a model; a ``ModelError`` lists every problem."""

    def __init__(
        self, model: ModelProto, folder: Path | None, budget: pg.Budget
    ) -> None:
        self.model = model
        self.folder = folder
        self.budget = budget
        self.problems: list[str] = []
        self.count = itertools.count()
        self.functions = {(f.domain, f.name): f for f in model.functions if f.name}
        self.opsets = {domain_of(o.domain): o.version for o in model.opset_import}
        self.types: Mapping[str, onnx.TypeProto] = {}
        self.initialized: set[str] = set()

    def read(self) -> Graph:
        """Return the graph of the model."""
        newest = onnx.defs.onnx_opset_version()
        version = self.opsets.get("", MIN_OPSET)
        if not MIN_OPSET <= version <= newest:
            self.problems.append(
                f"ONNX opset {version} is not supported, only {MIN_OPSET} to {newest}; "
                "convert the model with onnx.version_converter"
            )
            raise ModelError(self.problems)
        check_text(self.model)
        check_calls(self.model, self.budget)
        self.types = infer_types(self.model)
        graph = self.graph(self.model.graph, Scope(self.budget), self.opsets)
        if not self.model.graph.output:
            self.problems.append("the graph has no outputs")
        if self.problems:
            raise ModelError(self.problems)
        move_params_to_host([graph, *graph.inner()])
        for name, kind in self.types.items():
            if kind.tensor_type.HasField("shape"):
                graph.ranks[name] = len(kind.tensor_type.shape.dim)
        return graph

    def graph(
        self, proto: GraphProto, outer: Scope, opsets: Mapping[str, int]
    ) -> Graph:
        """Return a graph of the file; ``outer`` is the enclosing scope."""
        scope = Scope(self.budget, outer.prefix, outer)
        graph = Graph(proto.name)
        self.initializers(proto, graph, scope)
        for info in proto.input:
            name = scope.define(info.name)
            if name not in graph.constants and name not in graph.params:
                graph.inputs.append(self.value(name, info.type))
        self.add_nodes(
            sorted_nodes(proto.node, scope, self.problems), graph, scope, opsets
        )
        for info in proto.output:
            if info.name not in scope.names:
                self.problems.append(f"output {info.name!r}: no node computes it")
            name = scope.names.get(info.name, info.name)
            graph.outputs.append(self.value(name, info.type))
        return graph

    def array(self, tensor: TensorProto | SparseTensorProto) -> Array:
        """Return the values of a tensor."""
        if isinstance(tensor, TensorProto):
            return to_array(tensor, self.folder, self.budget)
        return to_dense(tensor, self.folder, self.budget)

    def value(self, name: str, kind: onnx.TypeProto) -> ValueInfo:
        """Return the name, dtype and shape of an input or output."""
        try:
            return described(name, kind)
        except TypeError as error:
            self.problems.append(f"value {name!r}: {error}")
            return ValueInfo(name)

    def initializers(self, proto: GraphProto, graph: Graph, scope: Scope) -> None:
        """Read the parameters and constants of a graph."""
        rows: list[tuple[str, Any]] = [(one.name, one) for one in proto.initializer]
        rows += [(one.values.name, one) for one in proto.sparse_initializer]
        for name, tensor in rows:
            try:
                values = self.array(tensor)
            except (ModelError, pg.BudgetError):
                raise
            except (TypeError, ValueError, IndexError) as error:
                self.problems.append(f"initializer {name!r}: {error}")
                values = np.zeros(0, "float32")
            if not name:
                self.problems.append("an initializer has no name")
                continue
            self.add_array(name, values, graph, scope, param=is_floating(values.dtype))

    def add_array(
        self, name: str, values: Array, graph: Graph, scope: Scope, *, param: bool
    ) -> None:
        """Add a parameter or a constant to a graph."""
        scope.define(name)
        if scope.names[name] in self.initialized:  # by another branch
            scope.names[name] += f"_{next(self.count)}"
        self.initialized.add(scope.names[name])
        (graph.params if param else graph.constants)[scope.names[name]] = values

    def add_nodes(
        self,
        nodes: Iterable[NodeProto],
        graph: Graph,
        scope: Scope,
        opsets: Mapping[str, int],
    ) -> None:
        """Append nodes to a graph; functions are inlined."""
        for proto in nodes:
            self.budget.count()
            domain = domain_of(proto.domain)
            version = opsets.get(domain, self.opsets.get(domain, 1))
            label = f"node {proto.name or proto.op_type!r}, op {proto.op_type}"
            label += f" of {domain or 'ONNX'}, opset {version}"
            local = self.functions.get((proto.domain, proto.op_type))
            row = None if local else registry.find(domain, proto.op_type, version)
            if row is not None:
                self.append_node(row, version, proto, label, graph, scope, opsets)
                continue
            missing = _missing(domain, proto.op_type)
            try:
                body = local or self.schema_body(domain, proto, version, scope)
            except Exception as error:  # any type: C++ code reads the node
                body = None
                missing = f"ONNX cannot expand it: {error}"
            if body is None:
                self.problems.append(f"{label}: {missing}")
                for name in proto.output:
                    scope.define(name)
            else:
                with self.budget.nested():
                    self.inline_function(proto, body, label, graph, scope)

    def append_node(
        self,
        row: Op,
        version: int,
        proto: NodeProto,
        label: str,
        graph: Graph,
        scope: Scope,
        opsets: Mapping[str, int],
    ) -> None:
        """Append a node whose op is registered."""
        inputs = [scope.names.get(name, "") for name in proto.input]
        attrs = self.attributes(proto, label, scope, opsets)
        self.problems += node_problems(row, proto, version, attrs, label)
        if row.name == "Constant" and len(attrs) == len(proto.output) == 1:
            name = proto.output[0]
            values = np.zeros(0)
            try:
                values = constant(next(iter(attrs.values())))
            except (TypeError, OverflowError) as error:
                self.problems.append(f"{label}: {error}")
            if not name:
                return
            weights = is_floating(values.dtype) and values.size > 1
            self.add_array(name, values, graph, scope, param=weights)
            return
        self.set_elem_type(row, proto, scope, attrs)
        outputs = [scope.define(name) for name in proto.output]
        while inputs and not inputs[-1]:
            inputs.pop()
        graph.nodes.append(Node(row, version, proto.name, inputs, outputs, attrs))

    def attributes(
        self,
        proto: NodeProto,
        label: str,
        scope: Scope,
        opsets: Mapping[str, int],
    ) -> dict[str, Any]:
        """Return the attributes of a node by name."""
        found = {}
        for attribute in proto.attribute:
            try:
                found[attribute.name] = self.attribute(attribute, scope, opsets)
            except (ModelError, pg.BudgetError):
                raise
            except (TypeError, ValueError, IndexError) as error:
                self.problems.append(f"{label}, attribute {attribute.name}: {error}")
        return found

    def attribute(
        self, attribute: AttributeProto, scope: Scope, opsets: Mapping[str, int]
    ) -> Any:
        """Return an attribute as a Python value, an array or a graph."""
        kind = attribute.type
        if kind == AttributeProto.GRAPH:
            with self.budget.nested():
                return self.graph(attribute.g, scope, opsets)
        if kind == AttributeProto.TENSOR:
            return self.array(attribute.t)
        if kind == AttributeProto.SPARSE_TENSOR:
            return self.array(attribute.sparse_tensor)
        if kind == AttributeProto.TYPE_PROTO:
            return attribute.tp
        value = onnx.helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            self.budget.allocate(len(value))
            return value.decode("utf-8", "surrogateescape")
        if isinstance(value, float | int):
            return value
        self.budget.allocate(ITEM_BYTES * len(value))
        return tuple(
            one.decode("utf-8", "surrogateescape") if isinstance(one, bytes) else one
            for one in value
        )

    def set_elem_type(
        self, row: Op, proto: NodeProto, scope: Scope, attrs: dict[str, Any]
    ) -> None:
        """Set the ONNX dtype if the array dtype is ambiguous: int4 arrays are int8."""
        position = ELEM_TYPES_OF.get(row.name)
        if position is None or len(proto.input) <= position:
            return
        elem_type = self.types.get(
            scope.names.get(proto.input[position], ""), onnx.TypeProto()
        ).tensor_type.elem_type
        is_narrow = elem_type in SUB_BYTE_BOUNDS or elem_type in NARROW_FLOATS
        if is_narrow or row.name == "CastLike":
            name = ELEM_TYPE_NAMES.get(row.name, "output_dtype")
            attrs.setdefault(name, elem_type)

    # --- functions ---------------------------------------------------------------

    def schema_body(
        self, domain: str, proto: NodeProto, version: int, scope: Scope
    ) -> FunctionProto | None:
        """Return the body that the ONNX schema defines for an unregistered op."""
        if not onnx.defs.has(proto.op_type, version, domain):
            return None
        schema: Any = onnx.defs.get_schema(proto.op_type, version, domain)
        if schema.has_function:
            return schema.function_body
        if not schema.has_context_dependent_function:
            return None
        versions = [
            v for v in schema.context_dependent_function_opset_versions if v <= version
        ] or list(schema.context_dependent_function_opset_versions)
        names = [scope.names.get(name, "") for name in proto.input]
        kinds = [self.types.get(name, onnx.TypeProto()) for name in names]
        text = schema.get_context_dependent_function_with_opset_version(
            max(versions),
            proto.SerializeToString(),
            [kind.SerializeToString() for kind in kinds],
        )
        body = FunctionProto.FromString(text)
        return body if body.node else None

    def inline_function(
        self,
        proto: NodeProto,
        body: FunctionProto,
        label: str,
        graph: Graph,
        scope: Scope,
    ) -> None:
        """Append the nodes of a function instead of the node that calls it."""
        key = f"{body.domain}.{body.name}"
        if len(proto.input) > len(body.input) or len(proto.output) > len(body.output):
            self.problems.append(
                f"{label}: the function {key} has {len(body.input)} inputs and "
                f"{len(body.output)} outputs"
            )
            return
        prefix = f"{proto.op_type[:PREFIX_MAX_CHARS]}_{next(self.count)}/"
        inner = Scope(self.budget, scope.prefix + prefix)
        inner.names |= {
            name: scope.names.get(given, "")
            for name, given in zip(body.input, proto.input, strict=False)
        }
        given = dict(default_attributes(body, proto.op_type))
        given |= {one.name: one for one in body.attribute_proto}
        given |= {one.name: one for one in proto.attribute}
        nodes = [with_attributes(node, given, self.budget) for node in body.node]
        opsets = {domain_of(o.domain): o.version for o in body.opset_import}
        nodes = sorted_nodes(nodes, inner, self.problems)
        self.add_nodes(nodes, graph, inner, opsets)
        renamed = {}
        for name, formal in zip(proto.output, body.output, strict=False):
            if name:
                renamed[inner.names.get(formal, "")] = name
        row = registry.find("", "Identity", 1)
        assert row is not None
        for value, name in renamed.items():
            outputs = [scope.define(name)]
            graph.nodes.append(Node(row, 1, proto.name, [value], outputs))


def node_problems(
    row: Op, proto: NodeProto, version: int, attrs: Mapping[str, Any], label: str
) -> Iterator[str]:
    """Yield each mismatch between a node and the function or schema of its op."""
    count = len(proto.input)
    while count > row.max_inputs and not proto.input[count - 1]:  # omitted at the end
        count -= 1
    if not row.min_inputs <= count <= row.max_inputs:
        counts = inputs_text(row.min_inputs, row.max_inputs)
        yield f"{label}: takes {counts}, got {count}"
    unknown = sorted(attrs.keys() - row.attributes)
    if unknown:
        yield f"{label}: the attributes {', '.join(unknown)} are not supported"
    for module, install in row.requires.items():
        if find_spec(module) is None:
            yield f"{label}: needs the module {module}: pip install '{install}'"
    missing = sorted(row.required - attrs.keys() - {"node"})
    if missing:
        yield f"{label}: attribute {', '.join(missing)} is missing"
    for name in ("to", "dtype", "output_dtype", "output_datatype"):
        if attrs.get(name):
            try:
                dtype_of(attrs[name])
            except TypeError as error:
                yield f"{label}: {error}"
    if not onnx.defs.has(row.name, version, row.domain):
        return
    schema: Any = onnx.defs.get_schema(row.name, version, row.domain)
    if len(proto.output) > schema.max_output:
        counts = f"at most {schema.max_output} outputs, got {len(proto.output)}"
        yield f"{label}: has {counts}"
    for attribute in proto.attribute:
        wanted = schema.attributes.get(attribute.name)
        if wanted is not None and int(wanted.type.value) != attribute.type:
            kind = wanted.type.name
            yield f"{label}: attribute {attribute.name} must be of type {kind}"


def _missing(domain: str, name: str) -> str:
    versions = registry.since_versions(domain, name)
    if versions:
        return f"this op is supported only from these opset versions on: {versions}"
    return (
        "this op is not supported; register a function with plugrad_onnx.op("
        f"{name!r}, domain={domain!r})"
    )


def constant(value: Any) -> Array:
    """Return the value of a ``Constant`` node: a tensor, numbers or text."""
    if isinstance(value, np.ndarray):
        return value
    first = value[0] if isinstance(value, tuple) and value else value
    kinds = {float: "float32", int: "int64", str: "object", tuple: "float32"}
    if type(first) not in kinds:
        raise TypeError(
            "Constant: the value must be a tensor, numbers or text, got "
            f"{type(first).__name__}"
        )
    return np.array(value, kinds[type(first)])
