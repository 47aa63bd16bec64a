"""Builds a program from a graph model.

The name of a value is ``(node, output number)``; that of a constant is its node's name.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plugrad as pg
from plugrad.importing import (
    ModelError,
    ValueInfo,
    in_order,
    inputs_text,
    printable,
)

from .files import Array, size_of
from .ops.table import Op, find
from .program import OUTPUT_BYTES, Name, TfjsProgram, TfjsStep, dependencies
from .settings import inputs_of, settings_of
from .topology import require

__all__ = ["read_graph"]

DTYPES = {"DT_FLOAT": "float32", "DT_HALF": "float32", "DT_DOUBLE": "float32"}
DTYPES |= dict.fromkeys(("DT_INT8", "DT_UINT8", "DT_INT32", "DT_INT64"), "int32")
DTYPES |= {"DT_BOOL": "bool", "DT_COMPLEX64": "complex64"}
NUMBERS = {"DT_FLOAT": 1, "DT_DOUBLE": 2, "DT_INT32": 3, "DT_UINT8": 4, "DT_INT8": 6}
NUMBERS |= {"DT_COMPLEX64": 8, "DT_INT64": 9, "DT_BOOL": 10, "DT_HALF": 19}
DTYPES |= {str(number): DTYPES[name] for name, number in NUMBERS.items()}
INPUTS = ("Placeholder", "PlaceholderWithDefault")


def read_graph(
    model: Mapping[str, Any], weights: Mapping[str, Array], budget: pg.Budget
) -> TfjsProgram:
    """Return the program of a graph model; ModelError lists every problem."""
    return Reader(model, weights, budget).read()


class Reader:
    """Collects the steps and the problems of a graph."""

    def __init__(
        self, model: Mapping[str, Any], weights: Mapping[str, Array], budget: pg.Budget
    ) -> None:
        self.budget = budget
        rows = require(model["modelTopology"], "node", list, "modelTopology")
        self.nodes: dict[str, Mapping[str, Any]] = {}
        self.problems: list[str] = []
        for row in rows:
            budget.count()
            name = require(row, "name", str, "a node")
            require(row, "op", str, f"node {name!r}")
            if name in self.nodes:
                self.problems.append(f"node {name!r} is defined twice")
            self.nodes[name] = row
        metadata = model.get("userDefinedMetadata")
        signature = metadata.get("signature") if isinstance(metadata, Mapping) else None
        signature = signature or model.get("signature")
        self.signature = signature if isinstance(signature, Mapping) else {}
        self.weights = weights

    def inputs_of(self, name: str) -> list[tuple[str, int]]:
        """Return the input values of a node, without control dependencies."""
        refs = self.nodes[name].get("input", [])
        if not isinstance(refs, list) or not all(isinstance(x, str) for x in refs):
            raise ModelError([f"node {name!r}: input must be a list of names"])
        return [self.ref(x, f"node {name!r}") for x in refs if not x.startswith("^")]

    def ref(self, text: Any, where: str) -> tuple[str, int]:
        """Return the node and the output number to which a name refers."""
        name, _, suffix = str(text).partition(":")
        number = suffix.rpartition(":")[2] or "0"
        if name not in self.nodes or not number.isdecimal() or len(number) > 4:
            raise ModelError([f"{where}: {text!r} is not an output of a node"])
        return name, int(number)

    def read(self) -> TfjsProgram:
        """Return the program."""
        outputs = self.outputs()
        order = self.order(outputs)
        refs = [r for name in order for r in self.inputs_of(str(name))]
        counts: dict[str, int] = {}
        for name, number in [*refs, *outputs]:
            counts[name] = max(counts.get(name, 0), number + 1)
        infos = self.inputs()
        sources = {source for _, source in infos}
        steps: list[TfjsStep] = []
        on_host = set[Name]()
        frozen = set[Name]()
        off_host: set[Name] = {name for name, _ in outputs}
        for name in map(str, order):
            if self.nodes[name]["op"] == "Const":
                if name not in self.weights:
                    self.problems.append(f"node {name!r}: it is not in the manifest")
            elif name not in sources and (made := self.step(name, counts[name])):
                step, row = made
                steps.append(step)
                reads = {n % max(len(step.inputs), 1) for n in row.reads}
                for i, value in enumerate(step.inputs):
                    (on_host if i in reads else off_host).add(value)
                frozen |= {step.inputs[i] for i in row.frozen if i < len(step.inputs)}
        if self.problems:
            raise ModelError(self.problems)
        params = {
            name: x
            for name, x in self.weights.items()
            if x.dtype.kind in "fc" and not (name in on_host and name not in off_host)
        }
        constants = {name: x for name, x in self.weights.items() if name not in params}
        pairs = [(info, (source, 0)) for info, source in infos]
        output_names = [self.value(ref) for ref in outputs]
        # Scalars, such as an epsilon, are not trained.
        frozen |= {name for name, x in params.items() if x.ndim == 0}
        names = frozenset(str(name) for name in frozen if name in params)
        return TfjsProgram(pairs, output_names, steps, params, constants, names)

    def order(self, outputs: Sequence[tuple[str, int]]) -> list[Name]:
        """Return the nodes on which the outputs depend, in topological order."""
        needs = lambda name: [ref[0] for ref in self.inputs_of(name)]
        roots = [name for name, _ in outputs] if self.entries("outputs") else self.nodes
        needed = dependencies(roots, needs)
        order, cycle = in_order({n: needed[n] for n in self.nodes if n in needed})
        if cycle:
            names = " -> ".join(cycle)
            raise ModelError([f"nodes in a cycle: {names}"])
        if not outputs:
            raise ModelError(["the graph has no outputs"])
        return order

    def value(self, ref: tuple[str, int]) -> Name:
        """Return the name of a value; for a constant, the name of its node."""
        return ref[0] if self.nodes[ref[0]]["op"] == "Const" else ref

    def outputs(self) -> list[tuple[str, int]]:
        """Return the outputs of the signature, or else those that no node reads."""
        entries = self.entries("outputs")
        if entries:
            return [
                self.ref(one.get("name"), f"output {key!r}") for key, one in entries
            ]
        used = {ref[0] for name in self.nodes for ref in self.inputs_of(name)}
        return [(name, 0) for name in self.nodes if name not in used]

    def inputs(self) -> list[tuple[ValueInfo, str]]:
        """Return the inputs, each with the name of its node."""
        entries = self.entries("inputs")
        if entries:
            return [
                (
                    self.info(key, one.get("dtype"), one.get("tensorShape")),
                    self.ref(one.get("name"), f"input {key!r}")[0],
                )
                for key, one in entries
            ]
        infos = []
        for name, node in self.nodes.items():
            if node["op"] in INPUTS:
                attrs = self.attrs(node)
                dtype = _entry(attrs.get("dtype"), "type")
                shape = _entry(attrs.get("shape"), "shape")
                infos.append((self.info(name, dtype, shape), name))
        return infos

    def entries(self, key: str) -> list[tuple[str, Mapping[str, Any]]]:
        """Return the inputs or the outputs of the signature."""
        entries = self.signature.get(key)
        rows = entries.items() if isinstance(entries, Mapping) else []
        return [(name, require({name: x}, name, dict, key)) for name, x in rows]

    def attrs(self, node: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the attributes of a node as they are in the file."""
        attrs = node.get("attr")
        return attrs if isinstance(attrs, Mapping) else {}

    def info(self, name: str, dtype: Any, shape: Any) -> ValueInfo:
        """Return the name, dtype and shape of an input."""
        if str(dtype) not in DTYPES:
            self.problems.append(
                f"input {name!r}: the dtype {dtype!r} is not supported"
            )
        known = np.dtype(DTYPES.get(str(dtype), "float32"))
        return ValueInfo(name, known, _shape(shape))

    def step(self, name: str, outputs: int) -> tuple[TfjsStep, Op] | None:
        """Return the step of a node, or record its problems."""
        node = self.nodes[name]
        label = f"node {name!r}, op {node['op']}"
        row = find(node["op"])
        if row is None:
            problem = (
                "the signature does not list this input"
                if node["op"] in INPUTS
                else ("this op is not supported")
            )
            self.problems.append(f"{label}: {problem}")
            return None
        # Attributes that the op does not know are ignored, as in TensorFlow.js.
        attrs = {key: _decode(value) for key, value in self.attrs(node).items()}
        inner = getattr(row.function, "__wrapped__", row.function)
        settings, problems = settings_of(inner, attrs, lambda key: True)
        inputs = self.inputs_of(name)
        least, most = inputs_of(inner)
        if not least <= len(inputs) <= most:
            problems.append(f"takes {inputs_text(least, most)}, got {len(inputs)}")
        if problems:
            self.problems += [f"{label}: {problem}" for problem in problems]
            return None
        values = tuple(self.value(ref) for ref in inputs)
        self.budget.allocate(OUTPUT_BYTES * outputs)
        output_names = tuple((name, i) for i in range(outputs))
        return TfjsStep(
            node["op"],
            label,
            row.function,
            values,
            output_names,
            settings=settings,
            scope=printable(name),
        ), row


def _entry(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else None


def _shape(proto: Any) -> tuple[int | None, ...] | None:
    """Return a shape, with None for each unknown size."""
    if not isinstance(proto, Mapping) or proto.get("unknownRank"):
        return None
    rows = proto.get("dim")
    return tuple(_known_size(row) for row in (rows if isinstance(rows, list) else []))


def _known_size(row: Any) -> int | None:
    """Return a size; None if it is unknown, which the file writes as -1."""
    try:
        return size_of(_entry(row, "size"))
    except ValueError:
        return None


def _decode(value: Any) -> Any:
    """Return the value of an attribute: a number, text, a dtype or a tuple."""
    if not isinstance(value, Mapping) or len(value) != 1:
        return value
    ((kind, x),) = value.items()
    if kind == "list" and isinstance(x, Mapping):
        rows = [(key, row) for key, row in x.items() if isinstance(row, list) and row]
        return tuple(_decode({key: one}) for key, row in rows for one in row)
    if kind == "i":
        return int(x) if isinstance(x, int | str) and _is_number(str(x)) else x
    if kind == "s":
        return _text(x)
    if kind == "type":
        return DTYPES.get(str(x), str(x))
    return _shape(x) if kind == "shape" else x


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and len(text) < 20


def _text(value: Any) -> str:
    """Decode text from base64 or from a list of bytes."""
    try:
        raw = bytes(value) if isinstance(value, list) else base64.b64decode(value)
        return raw.decode()
    except (ValueError, TypeError):
        return str(value)
