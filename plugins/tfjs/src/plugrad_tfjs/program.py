"""A model as steps, in an order in which they can run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plugrad.importing import ValueInfo, last_uses, printable

from .files import Array

__all__ = ["OUTPUT_BYTES", "Program", "Step", "needed"]

OUTPUT_BYTES = 200  # the name of an output of a step
Name = Any  # of a value, hashable: a weight has a string, all others have tuples


@dataclass(frozen=True)
class Step:
    """A call of a function that runs a layer or an op.

    Attributes:
        op: The name of the layer's class, or of the op.
        label: What messages call it.
        function: Takes the inputs by position, weights and settings by name.
        inputs: The names of the values that it takes.
        outputs: The names of those that it gives.
        weights: The name of the weight for each parameter that takes one.
        settings: What the file says of it, by parameter.

    """

    op: str
    label: str
    function: Callable[..., Any]
    inputs: tuple[Name, ...]
    outputs: tuple[Name, ...]
    weights: Mapping[str, Name] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def run(self, values: dict[Name, Any]) -> None:
        """Run the function; the outputs are added to the values."""
        inputs = [values[name] for name in self.inputs]
        weights = {key: values[name] for key, name in self.weights.items()}
        try:
            found = self.function(*inputs, **weights, **self.settings)
        except Exception as error:
            error.add_note(printable(f"This is {self.label} of the model."))
            raise
        if not isinstance(found, list | tuple):
            found = (found,)
        if len(found) < len(self.outputs):
            raise ValueError(
                f"model: {printable(self.label)} has {len(found)} outputs, and output "
                f"{len(self.outputs) - 1} is used"
            )
        values.update(zip(self.outputs, found, strict=False))


@dataclass
class Program:
    """The steps of a model, with its weights.

    Attributes:
        inputs: Those of the model, each with the name of its value.
        outputs: The names of the values that the model returns.
        params: The floating-point weights.
        constants: The other weights, which stay on the host.
        frozen: The names of those that training leaves alone.

    """

    inputs: Sequence[tuple[ValueInfo, Name]]
    outputs: Sequence[Name]
    steps: Sequence[Step]
    params: Mapping[str, Array]
    constants: Mapping[str, Array]
    frozen: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Find after which step a value is not needed any more."""
        rows = [(*s.inputs, *s.outputs, *s.weights.values()) for s in self.steps]
        self._done = last_uses(rows, self.outputs)

    def run(self, params: Mapping[str, Any], inputs: Sequence[Any]) -> list[Any]:
        """Return the outputs."""
        values: dict[Name, Any] = {**self.constants, **params}
        values |= {name: x for (_, name), x in zip(self.inputs, inputs, strict=True)}
        for step, done in zip(self.steps, self._done, strict=True):
            step.run(values)
            for name in done:
                values.pop(name, None)
        return [values[name] for name in self.outputs]


def needed(
    wanted: Iterable[Name], needs: Callable[[Name], Iterable[Name]]
) -> dict[Name, list[Name]]:
    """Return, for all that is wanted and all that this needs, what it needs itself."""
    found: dict[Name, list[Name]] = {}
    waiting = [*wanted][::-1]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = [*needs(name)]
            waiting += found[name][::-1]
    return found
