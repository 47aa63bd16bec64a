"""Writes a graph recorded by ``jit`` as an ONNX model, using a table of kernels."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from plugrad.plugin import Graph, Spec, Step

__all__ = ["Writer"]

OPSET = 18
IR_VERSION = 9


class Writer:
    """Creates the nodes for the steps of a graph.

    Attributes:
        exports: For each kernel name, the function that writes its nodes.
        specs: Shape and dtype of each value, by its name in the model.
        arrays: Initializers by name.

    """

    def __init__(
        self,
        graph: Graph,
        exports: Mapping[str, Callable[..., Any]],
        inputs: Sequence[str] = (),
        outputs: Sequence[str] = (),
    ) -> None:
        self.graph, self.exports, self.count = graph, exports, itertools.count()
        self.nodes: list[onnx.NodeProto] = []
        self.arrays: dict[str, Any] = {}
        self.specs: dict[str, Spec] = {}
        # The input and the axes of each transpose, by output.
        self.transposes: dict[str, tuple[str, tuple[int, ...]]] = {}
        self.inputs = [*inputs] or [f"x{i}" for i in range(len(graph.inputs))]
        self.outputs = [*outputs] or [f"y{i}" for i in range(len(graph.outputs))]
        self.names: dict[int, str] = {}

    def model(self) -> onnx.ModelProto:
        """Return the model as a ``ModelProto``."""
        graph = self.graph
        missing = {s.kernel.name for s in graph.steps} - self.exports.keys()
        if missing:
            names = ", ".join(sorted(missing))
            raise ValueError(f"save: ONNX has no equivalent of the kernels {names}")
        for name, number in zip(self.inputs, graph.inputs, strict=True):
            self.define(number, name)
        for number, native in graph.constants.items():
            self.define(number, self.constant(np.asarray(native)))
        for step in graph.steps:
            self.step(step)
        self.name_outputs()
        self.drop_unused()
        inputs, outputs = (
            [_value_info(name, graph.specs[i]) for name, i in zip(*rows, strict=True)]
            for rows in ((self.inputs, graph.inputs), (self.outputs, graph.outputs))
        )
        used = {name for node in self.nodes for name in node.input}
        tensors = [
            numpy_helper.from_array(array, name)
            for name, array in self.arrays.items()
            if name in used
        ]
        graph_proto = helper.make_graph(self.nodes, "plugrad", inputs, outputs, tensors)
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(
            graph_proto, opset_imports=opsets, ir_version=IR_VERSION
        )

    def name_outputs(self) -> None:
        """Give the outputs their names; copy outputs that are inputs or constants."""
        producers = {name: node for node in self.nodes for name in node.output}
        renamed: dict[str, str] = {}
        for name, number in zip(self.outputs, self.graph.outputs, strict=True):
            value = self.names[number]
            if value in producers and value not in renamed:
                renamed[value] = name
            else:
                self.emit("Identity", renamed.get(value, value), output=name)
        for node in self.nodes:
            for rows in (node.input, node.output):
                rows[:] = [renamed.get(name, name) for name in rows]

    def drop_unused(self) -> None:
        """Remove unused nodes, such as transposes that cancel."""
        needed = {*self.outputs}
        kept = []
        for node in reversed(self.nodes):
            if needed.intersection(node.output):
                kept.append(node)
                needed.update(node.input)
        self.nodes = kept[::-1]

    def define(self, number: int, name: str) -> None:
        """Set the name of a value of the graph."""
        self.names[number] = name
        self.specs[name] = self.graph.specs[number]

    def step(self, step: Step) -> None:
        """Append the nodes for a step."""
        inputs = ["" if i is None else self.names[i] for i in step.inputs]
        specs = [self.graph.specs[i] for i in step.outputs]
        names = self.exports[step.kernel.name](self, inputs, dict(step.attrs), specs)
        names = [names] if isinstance(names, str) else names
        for number, name in zip(step.outputs, names, strict=True):
            self.names[number] = name
            self.specs[name] = self.graph.specs[number]  # replaces emit's guess

    # --- helpers for the table ---------------------------------------------------

    def constant(self, value: Any, dtype: Any = None) -> str:
        """Return the name of a new initializer."""
        name = f"c{next(self.count)}"
        array = np.asarray(value, dtype)
        self.arrays[name] = array
        self.specs[name] = Spec(array.shape, array.dtype)
        return name

    def ints(self, *values: int) -> str:
        """Return the name of a new int64 initializer, such as axes."""
        return self.constant(values, np.int64)

    def like(self, value: float, name: str) -> str:
        """Return the name of a new initializer in the dtype of another value."""
        return self.constant(value, self.specs[name].dtype)

    def emit(self, op: str, *inputs: str, output: str = "", **attrs: Any) -> str:
        """Append a node with one output and return the name of the output."""
        name = output or f"v{next(self.count)}"
        given_attrs = {key: value for key, value in attrs.items() if value is not None}
        self.nodes.append(helper.make_node(op, [*inputs], [name], **given_attrs))
        self.specs[name] = self.specs.get(inputs[0], Spec((), np.dtype("float32")))
        return name

    def transpose(self, x: str, axes: Sequence[int]) -> str:
        """Permute axes, and return the name of the result; transposes may cancel."""
        perm = tuple(axes)
        if perm == tuple(range(len(perm))):
            return x
        if x in self.arrays:
            return self.constant(np.ascontiguousarray(self.arrays[x].transpose(perm)))
        if x in self.transposes:
            source, inner_perm = self.transposes[x]
            perm = tuple(inner_perm[i] for i in perm)
            return self.transpose(source, perm)
        name = self.emit("Transpose", x, perm=perm)
        self.transposes[name] = (x, perm)
        return name

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        """Reshape a value, and return the name of the result."""
        return self.emit("Reshape", x, self.ints(*shape))


def _value_info(name: str, spec: Spec) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(spec.dtype)
    return helper.make_tensor_value_info(name, kind, spec.shape)
