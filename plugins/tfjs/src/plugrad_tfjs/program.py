"""Runs a model as steps in topological order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plugrad.importing import ValueInfo, last_uses, printable
from plugrad.plugin import run_in_scope

from .files import Array

__all__ = ["OUTPUT_BYTES", "TfjsProgram", "TfjsStep", "dependencies"]

OUTPUT_BYTES = 200  # memory of the name of a step output
Name = Any  # the hashable name of a value: a string for a weight, else a tuple


@dataclass(frozen=True)
class TfjsStep:
    """A call of the function of a layer or an op.

    Attributes:
        op: The name of the layer's class, or of the op.
        label: The description of the step in messages.
        function: A function of the inputs, by position, and the weights and settings,
            by name.
        inputs: The names of the input values.
        outputs: The names of the output values.
        weights: For each weight parameter of the function, the name of its weight.
        settings: The settings in the file, by parameter of the function.
        scope: The printable name of the layer or node, for ``plugrad.name_scope``.

    """

    op: str
    label: str
    function: Callable[..., Any]
    inputs: tuple[Name, ...]
    outputs: tuple[Name, ...]
    weights: Mapping[str, Name] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    scope: str = ""

    def run(self, values: dict[Name, Any]) -> None:
        """Run the function and add the outputs to the values."""
        inputs = [values[name] for name in self.inputs]
        weights = {key: values[name] for key, name in self.weights.items()}
        try:
            results = run_in_scope(
                self.scope or self.op,
                self.function,
                *inputs,
                **weights,
                **self.settings,
            )
        except Exception as error:
            error.add_note(printable(f"The error is in {self.label} of the model."))
            raise
        if not isinstance(results, list | tuple):
            results = (results,)
        if len(results) < len(self.outputs):
            raise ValueError(
                f"model: {printable(self.label)} has {len(results)} outputs, but "
                f"output {len(self.outputs) - 1} is used"
            )
        values.update(zip(self.outputs, results, strict=False))


@dataclass
class TfjsProgram:
    """The steps and the weights of a model.

    Attributes:
        inputs: The inputs of the model, each with the name of its value.
        outputs: The names of the values that the model returns.
        params: The floating-point weights.
        constants: The other weights, which stay on the host.
        frozen: The names of the weights that training does not change.

    """

    inputs: Sequence[tuple[ValueInfo, Name]]
    outputs: Sequence[Name]
    steps: Sequence[TfjsStep]
    params: Mapping[str, Array]
    constants: Mapping[str, Array]
    frozen: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """For each step, find the values that no later step uses."""
        rows = [(*s.inputs, *s.outputs, *s.weights.values()) for s in self.steps]
        self._last_used = last_uses(rows, self.outputs)

    def run(self, params: Mapping[str, Any], inputs: Sequence[Any]) -> list[Any]:
        """Return the outputs for parameters and inputs."""
        values: dict[Name, Any] = {**self.constants, **params}
        values |= {name: x for (_, name), x in zip(self.inputs, inputs, strict=True)}
        for step, unused in zip(self.steps, self._last_used, strict=True):
            step.run(values)
            for name in unused:
                values.pop(name, None)
        return [values[name] for name in self.outputs]


def dependencies(
    wanted: Iterable[Name], needs: Callable[[Name], Iterable[Name]]
) -> dict[Name, list[Name]]:
    """Return the direct dependencies of the wanted names and of all dependencies."""
    found: dict[Name, list[Name]] = {}
    pending = [*wanted][::-1]
    while pending:
        name = pending.pop()
        if name not in found:
            found[name] = [*needs(name)]
            pending += found[name][::-1]
    return found
