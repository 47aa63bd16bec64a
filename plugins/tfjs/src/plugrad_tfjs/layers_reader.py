"""Builds a program from a layers model."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
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
from .layers.table import find, names
from .program import OUTPUT_BYTES, Name, TfjsProgram, TfjsStep, dependencies
from .settings import inputs_of, settings_of
from .topology import MODELS, Container, Spec, require

__all__ = ["read_layers"]

IGNORED_SUFFIXES = ("_initializer", "_regularizer", "_constraint")
# Settings that do not change the result at inference, or that follow from the weights.
IGNORED = {"name", "dtype", "trainable", "batch_input_shape", "batch_shape", "seed"}
IGNORED |= {"rate", "stddev", "noise_shape", "implementation", "unroll", "dropout"}
IGNORED |= {"recurrent_dropout", "unit_forget_bias", "momentum", "sparse", "ragged"}
IGNORED |= {"input_length", "rank", "fused", "batch_size", "input_shape", "l1", "l2"}
MERGES: dict[str, Callable[[Any, Any], Any]] = {
    "concat": lambda a, b: pg.concat([a, b], axis=-1),
    "sum": pg.add,
    "ave": lambda a, b: (a + b) * 0.5,
    "mul": pg.multiply,
}


def _is_ignored(key: str) -> bool:
    return key in IGNORED or key.endswith(IGNORED_SUFFIXES)


def read_layers(
    model: Mapping[str, Any], weights: Mapping[str, Array], budget: pg.Budget
) -> TfjsProgram:
    """Return the program of a layers model; ModelError lists every problem."""
    topology = require(model, "modelTopology", dict, "model.json")
    topology = topology.get("model_config", topology)
    kind = require(topology, "class_name", str, "the topology")
    if kind not in MODELS:
        raise ModelError(
            [f"the topology is of class {kind!r}; use one of {', '.join(MODELS)}"]
        )
    top = Container(kind, topology.get("config"), "the model", budget)
    return Reader(top, weights).read()


class Reader:
    """Collects the steps and the problems of a model."""

    def __init__(self, top: Container, weights: Mapping[str, Array]) -> None:
        self.top, self.weights = top, weights
        self.problems: list[str] = []
        self.steps: list[TfjsStep] = []
        self.masks: dict[Name, Name] = {}
        self.owners: dict[str, object] = {}  # the layer of each weight
        self.frozen: set[str] = set()
        self.cell_free_names = {}  # full weight names by name without cell
        for name in weights:
            parts = name.split("/")
            self.cell_free_names["/".join([*parts[:-2], parts[-1]])] = name

    def read(self) -> TfjsProgram:
        """Return the program."""
        inputs = [self.input(self.top.specs[name]) for name in self.top.inputs]
        names: list[Name] = [((), info.name, 0, 0) for info in inputs]
        outputs = self.model(self.top, (), names, True)
        unused = [name for name in self.weights if name not in self.owners]
        if unused and not self.problems:
            self.problems.append(
                f"the weights {unused[:20]} do not belong to any layer"
            )
        if self.problems:
            raise ModelError(self.problems)
        floats = {k: v for k, v in self.weights.items() if v.dtype.kind in "fc"}
        others = {k: v for k, v in self.weights.items() if k not in floats}
        pairs = [*zip(inputs, names, strict=True)]
        frozen = frozenset(self.frozen)
        return TfjsProgram(pairs, outputs, self.steps, floats, others, frozen)

    def input(self, spec: Spec) -> ValueInfo:
        """Return the name, dtype and shape of an input."""
        sizes = spec.config.get("batch_input_shape", spec.config.get("batch_shape"))
        dtype = spec.config.get("dtype", "float32")
        shape = None
        if isinstance(sizes, list):
            try:
                shape = tuple(None if n is None else size_of(n) for n in sizes)
            except ValueError as error:
                self.problems.append(f"input {spec.name!r}: {error}")
        if dtype not in ("float32", "int32", "bool", "complex64"):
            self.problems.append(
                f"input {spec.name!r}: the dtype {dtype!r} is not supported"
            )
            dtype = "float32"
        return ValueInfo(spec.name, np.dtype(dtype), shape)

    def model(
        self, box: Container, prefix: Any, inputs: Sequence[Name], trained: bool
    ) -> list[Name]:
        """Add the steps of a nested model; return the names of its outputs."""
        count = len(box.inputs)
        if len(inputs) != count:
            self.problems.append(
                f"{box.where}: takes {inputs_text(count, count)}, got {len(inputs)}"
            )
            return [*inputs][:1] * len(box.outputs)
        values_of_inputs = dict(zip(box.inputs, inputs, strict=True))
        order = _order(box)
        values: dict[Any, list[Name]] = {}
        counts = box.output_counts
        box.budget.count(1 + len(order) + len(box.outputs))
        for key in order:
            name, number = key
            spec = box.specs[name]
            if spec.kind == "InputLayer" and not spec.calls:
                if name not in values_of_inputs:
                    raise ModelError([f"{box.where}: {name!r} is not among its inputs"])
                values[key] = [values_of_inputs[name]]
                continue
            inputs_of_call = [
                self.output(values, ref) for ref in spec.calls[number].inputs
            ]
            count = counts.get(key, 1)
            box.budget.allocate(OUTPUT_BYTES * count)
            outputs = [(prefix, name, number, i) for i in range(count)]
            values[key] = self.call(spec, inputs_of_call, outputs, trained)
        return [self.output(values, ref) for ref in box.outputs]

    def output(self, values: Mapping[Any, Sequence[Name]], ref: Any) -> Name:
        """Return the name of an output of a call."""
        names = values[ref[:2]]
        if ref[2] >= len(names):
            raise ModelError([f"layer {ref[0]!r}: it has no output {ref[2]}"])
        return names[ref[2]]

    def call(
        self, spec: Spec, inputs: Sequence[Name], outputs: list[Any], trained: bool
    ) -> list[Name]:
        """Add the steps of a layer call; return the names of its outputs."""
        trained = trained and spec.config.get("trainable", True) is not False
        if spec.inner is not None:
            return self.model(spec.inner, outputs[0][:3], inputs, trained)
        if spec.kind == "Bidirectional":
            self.bidirectional(spec, inputs, outputs, trained)
        elif spec.kind == "TimeDistributed":
            self.time_distributed(spec, inputs, outputs, trained)
        else:
            self.add(spec, spec.name, inputs, outputs, trained)
        return outputs

    def add(
        self,
        spec: Spec,
        path: str,
        inputs: Sequence[Name],
        outputs: Sequence[Any],
        trained: bool,
        **settings_override: Any,
    ) -> Mapping[str, Any]:
        """Add the step of a layer whose weight names begin with ``path``."""
        label = f"layer {spec.name!r} ({spec.kind})"
        row = find(spec.kind)
        if row is None:
            known = ", ".join([*names(), "Bidirectional", "TimeDistributed", *MODELS])
            self.problems.append(
                f"{label}: this layer is not supported; supported are {known}"
            )
            return {}
        config = {**spec.config, **settings_override}
        settings, problems = settings_of(row.function, config, _is_ignored)
        least, most = inputs_of(row.function)
        if not least <= len(inputs) <= most or not inputs:
            problems.append(f"takes {inputs_text(least, most)}, got {len(inputs)}")
        if problems:
            self.problems += [f"{label}: {problem}" for problem in problems]
            return settings
        weights = self.find_weights(row.shapes(settings), path, spec, label, trained)
        self.mask(row.masks, spec.kind, settings, label, inputs, outputs, weights)
        step = TfjsStep(
            spec.kind,
            label,
            row.function,
            (*inputs,),
            (*outputs,),
            weights,
            settings,
            printable(path),
        )
        self.steps.append(step)
        return settings

    def find_weights(
        self,
        shapes: Mapping[str, Any],
        path: str,
        spec: Spec,
        label: str,
        trained: bool,
    ) -> dict[str, Name]:
        """Check the weights of a layer and return their names."""
        names: dict[str, Name] = {}
        for parameter, shape in shapes.items():
            name = f"{path}/{parameter}"
            name = (
                name if name in self.weights else self.cell_free_names.get(name, name)
            )
            if name not in self.weights:
                self.problems.append(
                    f"{label}: its weight {name!r} is not in the manifest"
                )
                continue
            shape_given = self.weights[name].shape
            if self.owners.setdefault(name, spec) is not spec:
                self.problems.append(
                    f"{label}: the weight {name!r} also belongs to another layer"
                )
            if shape is not None and not _fits(shape_given, shape):
                wanted = ", ".join("?" if n is None else str(n) for n in shape)
                self.problems.append(
                    f"{label}: the weight {name!r} has the shape {shape_given}, "
                    f"not ({wanted})"
                )
            if not trained or parameter.startswith("moving_"):
                self.frozen.add(name)
            names[parameter] = name
        return names

    def mask(
        self,
        rule: str,
        kind: str,
        settings: Mapping[str, Any],
        label: str,
        inputs: Sequence[Name],
        outputs: Sequence[Any],
        weights: dict[str, Name],
    ) -> None:
        """Pass on, ignore or refuse the masks of the inputs, or create a mask."""
        masked = [self.masks[name] for name in inputs if name in self.masks]
        if kind == "Masking" or settings.get("mask_zero"):
            make_mask = functools.partial(_mask, settings.get("mask_value"))
            name = ("mask", *outputs[0])
            self.steps.append(
                TfjsStep(
                    "Mask", f"the mask of {label}", make_mask, (inputs[0],), (name,)
                )
            )
            self.masks[outputs[0]] = name
        elif masked and rule == "refuses":
            self.problems.append(
                f"{label}: its input has a mask of time steps, which is not supported"
            )
        elif masked and rule == "keeps":
            self.masks[outputs[0]] = masked[0]
        elif masked and rule == "takes":
            weights["mask"] = masked[0]
            if settings["return_sequences"]:
                self.masks[outputs[0]] = masked[0]

    def inner(self, spec: Spec) -> Spec:
        """Return the layer inside a wrapper layer."""
        label = f"layer {spec.name!r} ({spec.kind})"
        layer = require(spec.config, "layer", dict, label)
        kind = require(layer, "class_name", str, label)
        config = require(layer, "config", dict, label)
        return Spec(f"{spec.name}/{config.get('name')}", kind, config)

    def bidirectional(
        self, spec: Spec, inputs: Sequence[Name], outputs: list[Any], trained: bool
    ) -> None:
        """Add a layer in both directions and the op that merges them."""
        layer = self.inner(spec)
        label = f"layer {spec.name!r} (Bidirectional)"
        mode = str(spec.config.get("merge_mode"))
        if layer.kind not in ("LSTM", "GRU", "SimpleRNN") or mode not in MERGES:
            self.problems.append(
                f"{label}: {layer.kind} with merge_mode {mode!r} is not supported"
            )
            return
        if len(inputs) != 1 or len(outputs) != 1 or layer.config.get("return_state"):
            self.problems.append(
                f"{label}: initial and returned states are not supported"
            )
            return
        merged_inputs: list[Name] = []
        backwards = layer.config.get("go_backwards") is True
        for direction, go_backwards in (
            ("forward", backwards),
            ("backward", not backwards),
        ):
            path = f"{spec.name}/{direction}_{layer.config.get('name')}"
            end = (*outputs[0], direction)
            more = {"go_backwards": go_backwards}
            self.add(layer, path, inputs, [end], trained, **more)
            merged_inputs.append(end)
        merge = MERGES[mode]
        sequences = layer.config.get("return_sequences") is True

        def join(a: Any, b: Any) -> Any:
            return merge(a, pg.flip(b, axis=1) if sequences else b)

        self.steps.append(
            TfjsStep("Bidirectional", label, join, (*merged_inputs,), (*outputs,))
        )
        if sequences and inputs[0] in self.masks:
            self.masks[outputs[0]] = self.masks[inputs[0]]

    def time_distributed(
        self, spec: Spec, inputs: Sequence[Name], outputs: list[Any], trained: bool
    ) -> None:
        """Add a layer that runs on all time steps at once, as one larger batch."""
        layer = self.inner(spec)
        flat, result = ((*outputs[0], n) for n in ("in", "out"))
        label = f"layer {spec.name!r} (TimeDistributed)"
        if len(inputs) != 1 or len(outputs) != 1 or layer.kind in MODELS:
            self.problems.append(f"{label}: {layer.kind} inside it is not supported")
            return
        fold = lambda x: pg.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:]))
        unfold = lambda y, x: pg.reshape(y, (*x.shape[:2], *y.shape[1:]))
        self.steps.append(TfjsStep("TimeDistributed", label, fold, (*inputs,), (flat,)))
        self.add(layer, spec.name, [flat], [result], trained)
        unfold_inputs = (result, inputs[0])
        self.steps.append(
            TfjsStep("TimeDistributed", label, unfold, unfold_inputs, (*outputs,))
        )
        if inputs[0] in self.masks:
            self.masks[outputs[0]] = self.masks[inputs[0]]


def _order(box: Container) -> list[tuple[str, int]]:
    """Return the calls on which the outputs depend, in topological order."""
    needed = dependencies([ref[:2] for ref in box.outputs], box.needs)
    positions = {name: i for i, name in enumerate(box.specs)}
    calls = sorted(needed, key=lambda call: (positions[call[0]], call[1]))
    order, cycle = in_order({call: needed[call] for call in calls})
    if cycle:
        names = " -> ".join(name for name, _ in cycle)
        raise ModelError([f"{box.where}: layers in a cycle: {names}"])
    return order


def _mask(value: float | None, x: Any) -> Any:
    """Return a mask of the valid steps.

    An index is valid if it is not 0. A vector is valid if any element differs from
    ``value``.
    """
    if value is None:
        return pg.not_equal(x, 0)
    return pg.any(pg.not_equal(x, value), axis=-1)


def _fits(shape: Sequence[int], expected: Sequence[int | None]) -> bool:
    pairs = zip(shape, expected, strict=False)
    return len(shape) == len(expected) and all(n is None or n == m for m, n in pairs)
