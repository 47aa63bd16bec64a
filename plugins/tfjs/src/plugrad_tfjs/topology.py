"""Reads topologies: the layers of a model and of the models nested in it.

The name of a value is ``(prefix, layer, call, output)``. Keras counts the calls of a
model from 1, because it calls the model when it builds it. ``Container`` counts calls
from 0.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import plugrad as pg
from plugrad.importing import ModelError

__all__ = ["MODELS", "Call", "Container", "Ref", "Spec", "require"]

MODELS = ("Sequential", "Model", "Functional")
MAX_INDEX = 10_000  # limit of call and output numbers in references
Ref = tuple[str, int, int]  # layer, call, output


def require(config: Any, key: str, kind: type, where: str) -> Any:
    """Return an entry of the file; raise if it is missing or of the wrong kind."""
    value = config.get(key) if isinstance(config, Mapping) else None
    if not isinstance(value, kind):
        raise ModelError([f"{where}: {key} must be a {kind.__name__}, not {value!r}"])
    return value


@dataclass(frozen=True)
class Call:
    """A call of a layer: its input values."""

    inputs: tuple[Ref, ...]


@dataclass
class Spec:
    """A layer in the file."""

    name: str
    kind: str
    config: Mapping[str, Any]
    calls: list[Call] = field(default_factory=list)
    inner: Container | None = None


class Container:
    """A model in the file: its layers, inputs and outputs.

    Attributes:
        specs: The layers by name.
        inputs: The names of the input layers.
        outputs: The values that the model returns.

    """

    def __init__(self, kind: str, config: Any, where: str, budget: pg.Budget) -> None:
        self.budget = budget
        if kind == "Sequential" and isinstance(config, list):  # written by Keras 1
            config = {"layers": config}
        self.where = where
        self.specs: dict[str, Spec] = {}
        layers = require(config, "layers", list, where)
        for layer in layers:
            self._add(layer)
        if kind == "Sequential":
            self._chain()
        else:
            self._connect(config, layers)

    def _add(self, layer: Any) -> None:
        self.budget.count()
        kind = require(layer, "class_name", str, self.where)
        where = f"a layer {kind} of {self.where}"
        config = layer.get("config")
        if not (kind == "Sequential" and isinstance(config, list)):
            config = require(layer, "config", dict, where)
        name = layer.get("name")
        if name is None and isinstance(config, dict):
            name = config.get("name")
        if not isinstance(name, str) or name in self.specs:
            raise ModelError([f"{where}: {name!r} is not a name, or occurs twice"])
        spec = Spec(name, kind, config if isinstance(config, dict) else {})
        if kind in MODELS:
            with self.budget.nested():
                spec.inner = Container(kind, config, f"model {name!r}", self.budget)
        self.specs[name] = spec

    def _chain(self) -> None:
        """Connect each layer to the one before it."""
        names = [*self.specs]
        if not names:
            raise ModelError([f"{self.where}: it has no layers"])
        first = self.specs[names[0]]
        if first.kind != "InputLayer":
            source = Spec(f"{first.name}_input", "InputLayer", _first_config(first))
            self.specs = {source.name: source, **self.specs}
            names = [*self.specs]
        for before, name in itertools.pairwise(names):
            if self.specs[name].kind == "InputLayer":
                raise ModelError(
                    [f"{self.where}: the InputLayer {name!r} is not its first layer"]
                )
            self.specs[name].calls.append(Call(((before, 0, 0),)))
        self.inputs = [names[0]]
        self.outputs = [(names[-1], 0, 0)]

    def _connect(self, config: Any, layers: Sequence[Any]) -> None:
        """Read the inputs of each layer call, and the model's inputs and outputs."""
        for layer, spec in zip(layers, self.specs.values(), strict=True):
            for node in require(layer, "inbound_nodes", list, f"layer {spec.name!r}"):
                if not isinstance(node, list):
                    raise ModelError(
                        [
                            f"layer {spec.name!r}: its inbound_nodes have the format "
                            "of Keras 3; save the model with Keras 2 (tf_keras)"
                        ]
                    )
                refs = tuple(self._ref(one, f"layer {spec.name!r}") for one in node)
                spec.calls.append(Call(refs))
        refs_of_model = []
        for key in ("input_layers", "output_layers"):
            rows = require(config, key, list, self.where)
            rows = [rows] if rows and isinstance(rows[0], str) else rows
            refs_of_model.append(
                [self._ref(row, f"{key} of {self.where}") for row in rows]
            )
        self.inputs = [name for name, _, _ in refs_of_model[0]]
        self.outputs = refs_of_model[1]
        if not self.outputs:
            raise ModelError([f"{self.where}: it has no outputs"])
        for name in self.inputs:
            if self.specs[name].kind != "InputLayer":
                raise ModelError(
                    [f"{self.where}: the input {name!r} is not an InputLayer"]
                )
        if len({*self.inputs}) < len(self.inputs):
            raise ModelError([f"{self.where}: its inputs {self.inputs} repeat a name"])
        for spec in self.specs.values():
            if spec.kind == "InputLayer" and spec.calls:
                raise ModelError(
                    [f"{self.where}: the InputLayer {spec.name!r} has an input"]
                )

    def _ref(self, row: Any, where: str) -> Ref:
        """Return the reference in a row ``[layer, node, output, arguments]``."""
        numbers = row[1:3] if isinstance(row, list) else []
        fits = len(numbers) == 2 and all(
            type(n) is int and 0 <= n < MAX_INDEX for n in numbers
        )
        if not fits or not isinstance(row[0], str) or row[0] not in self.specs:
            raise ModelError([f"{where}: {row!r} is not an output of a layer"])
        arguments = row[3] if len(row) > 3 and isinstance(row[3], dict) else {}
        given = {key: x for key, x in arguments.items() if x not in (None, False, {})}
        if given:
            raise ModelError([f"{where}: the arguments {given} are not supported"])
        name, node, output = row[:3]
        return name, node - (self.specs[name].inner is not None), output

    def needs(self, key: Any) -> Iterable[tuple[str, int]]:
        """Return the calls that a call depends on; raise if the call does not exist."""
        name, number = key
        spec = self.specs[name]
        if spec.kind == "InputLayer" and number == 0:
            return []
        if not 0 <= number < len(spec.calls):
            raise ModelError([f"layer {name!r}: it has no call {number}"])
        return [ref[:2] for ref in spec.calls[number].inputs]

    @functools.cached_property
    def output_counts(self) -> dict[tuple[str, int], int]:
        """For each call, the number of outputs up to the last one that is used."""
        refs = [r for s in self.specs.values() for call in s.calls for r in call.inputs]
        counts: dict[tuple[str, int], int] = {}
        for name, number, output in [*refs, *self.outputs]:
            key = (name, number)
            counts[key] = max(counts.get(key, 1), output + 1)
        return counts


def _first_config(spec: Spec) -> Mapping[str, Any]:
    """Return the config that contains the input shape of a nested model."""
    while spec.inner is not None and spec.inner.inputs:
        spec = spec.inner.specs[spec.inner.inputs[0]]
    return spec.config
