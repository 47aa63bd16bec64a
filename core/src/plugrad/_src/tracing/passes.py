"""Passes: reduce the recorded steps to the necessary ones, with bitwise equal results.

Contents: ``Draft``, the graph that passes change; ``merge``, for identities and common
subexpressions; ``constants``; ``dead_steps``.
"""

from __future__ import annotations

from contextlib import suppress
from math import prod
from typing import Any

import numpy as np

from plugrad._src.registry.backend import OpenBackend
from plugrad._src.registry.contract import Spec
from plugrad._src.tensor.tensor import Native

from .graph import Graph, Step

# Maximum size in bytes of a result that becomes a constant. For a larger one, the
# memory costs more than the saved time is worth.
MAX_FOLDED_BYTES = 1 << 16
MAX_MERGED_BYTES = 256  # maximum size of a constant that is compared by value


class Draft:
    """An unfinished graph.

    Attributes:
        inputs: The numbers of the inputs.
        steps: The steps, in the order in which they ran.
        outputs: The numbers of the outputs.
        specs: The shape and dtype of each value.
        natives: The native array of each value; None if it is not known.
        homes: The backend of each value.
        dynamic: The values that depend on an input or on an effect.

    """

    def __init__(self) -> None:
        self.inputs: list[int] = []
        self.steps: list[Step] = []
        self.outputs: list[int] = []
        self.specs: list[Spec] = []
        self.natives: list[Native] = []
        self.homes: list[OpenBackend] = []
        self.dynamic: set[int] = set()

    def add(self, native: Native, spec: Spec, home: OpenBackend) -> int:
        """Add a value, and return its index."""
        self.specs.append(spec)
        self.natives.append(native)
        self.homes.append(home)
        return len(self.specs) - 1

    def copy(self) -> Draft:
        """Return a copy that passes can change without changing this draft."""
        made = Draft()
        made.inputs = [*self.inputs]
        made.outputs = [*self.outputs]
        made.steps = [*self.steps]
        made.specs = [*self.specs]
        made.natives = [*self.natives]
        made.homes = [*self.homes]
        made.dynamic = {*self.dynamic}
        return made

    def finished(self) -> Graph:
        """Run all passes and return the graph."""
        merge(self)
        constants(self)
        dead_steps(self)
        made = {y for step in self.steps for y in step.outputs}.union(self.inputs)
        read = {x for step in self.steps for x in step.inputs if x is not None}
        return Graph(
            tuple(self.inputs),
            {v: self.natives[v] for v in sorted(read.union(self.outputs) - made)},
            tuple(self.steps),
            tuple(self.outputs),
            {v: self.specs[v] for v in sorted(read.union(self.outputs, made))},
        )


def merge(draft: Draft) -> None:
    """Drop steps that return their input, or the same values as another step."""
    same = _equal_constants(draft)
    first: dict[Any, Step] = {}
    transpositions: dict[int | None, Step] = {}  # by their outputs
    kept = []
    for step in draft.steps:
        inputs = tuple([x if x is None else same.get(x, x) for x in step.inputs])
        step = _join_transpositions(step._replace(inputs=inputs), transpositions)
        equal: Any = step.inputs if _returns_input(draft, step) else step.outputs
        if equal is step.outputs and not step.kernel.effect:
            with suppress(TypeError):  # a list among the attributes
                equal = first.setdefault(_key(step), step).outputs
        if equal is step.outputs:
            kept.append(step)
        same |= dict(zip(step.outputs, equal, strict=True))
    draft.steps = kept
    draft.outputs = [same.get(value, value) for value in draft.outputs]


def _equal_constants(draft: Draft) -> dict[int, int]:
    """Return, for each small constant, the first constant with the same bits.

    Ops make constants from Python numbers and shapes, anew each time. Once equal
    constants are one value, the steps that compute the same from them are equal.
    """
    made = {y for step in draft.steps for y in step.outputs}.union(draft.inputs)
    read = {x for step in draft.steps for x in step.inputs if x is not None}
    same = dict[int, int]()
    first = dict[Any, int]()
    for x in sorted(read - made):
        native, spec, home = draft.natives[x], draft.specs[x], draft.homes[x]
        if native is None or spec.dtype.hasobject or home.depth:
            continue
        if prod(spec.shape) * spec.dtype.itemsize <= MAX_MERGED_BYTES:
            bits = np.asarray(home.runtime.arrays.download(native)).tobytes()
            same[x] = first.setdefault((home, *spec, bits), x)
    return same


def _join_transpositions(step: Step, transpositions: dict[int | None, Step]) -> Step:
    """Merge a transposition of a transposition into one.

    Two reshapes are not merged, because one of them may copy. If a backend has strides,
    the memory layout determines the order in which a later sum adds its terms.
    """
    if step.kernel.name != "Transpose":
        return step
    if before := transpositions.get(step.inputs[0]):
        axes = tuple([before.attrs["axes"][i] for i in step.attrs["axes"]])
        step = step._replace(inputs=before.inputs, attrs={"axes": axes})
    transpositions[step.outputs[0]] = step
    return step


def _returns_input(draft: Draft, step: Step) -> bool:
    if step.kernel.name == "Transpose":
        return bool(step.attrs["axes"] == tuple(range(len(step.attrs["axes"]))))
    if step.kernel.name not in ("Cast", "Reshape", "BroadcastTo"):
        return False
    (x,), (y,) = step.inputs, step.outputs
    return x is not None and draft.specs[x] == draft.specs[y]


def _key(step: Step) -> Any:
    """Return a key: steps with equal keys compute the same values."""
    # ``repr`` distinguishes 1 from 1.0 and 0.0 from -0.0; equality distinguishes values
    # that ``repr`` abbreviates.
    attrs = [(name, value, repr(value)) for name, value in step.attrs.items()]
    return step.kernel, step.backend, step.precision, step.inputs, *attrs


def constants(draft: Draft) -> None:
    """Turn small results that depend on no input into constants; drop their steps."""

    def is_small(y: int) -> bool:
        native, arrays = draft.natives[y], draft.homes[y].runtime.arrays
        return native is not None and arrays.nbytes(native) <= MAX_FOLDED_BYTES

    def is_kept(ys: tuple[int, ...]) -> bool:
        return draft.dynamic.isdisjoint(ys) and all(map(is_small, ys))

    draft.steps = [step for step in draft.steps if not is_kept(step.outputs)]


def dead_steps(draft: Draft) -> None:
    """Drop steps whose outputs are unused, unless they have effects or may raise."""
    used: set[int | None] = {*draft.outputs}
    kept = []
    for step in reversed(draft.steps):
        is_needed = step.kernel.effect or not used.isdisjoint(step.outputs)
        if is_needed or _may_raise(draft, step):
            kept.append(step)
            used.update(step.inputs)
    draft.steps = kept[::-1]


def _may_raise(draft: Draft, step: Step) -> bool:
    """Return whether a kernel checks values that differ between calls."""
    bound = step.kernel.bind(step.inputs)
    checked = [bound[name] for name in step.kernel.checks]
    values = [
        x for given in checked for x in (given if isinstance(given, tuple) else [given])
    ]
    return not draft.dynamic.isdisjoint(values)
