"""Compare recorded runs with the forms of a whole.

Map: ``matches``, which compares from the last part backwards; the inputs of a part;
constants.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from plugrad._src.tensor.tensor import Tensor

from .context import Scope
from .forms import ABSENT, CONSTANT, OPERAND, Find, Form, Made, Source

# The order of the two inputs of these kernels does not matter.
COMMUTATIVE = frozenset({"Add", "Maximum", "Minimum", "Multiply", "SquaredDifference"})
TOLERANCE = 1e-6  # relative: constants are rounded to the dtype of the operands


class Match(NamedTuple):
    """The tensors and runs that were found for the operands and parts of a form."""

    operands: dict[int, Tensor]
    runs: dict[int, Made]
    constants: dict[int, Tensor]


def matches(form: Form, last: Made, find: Find) -> Iterator[Match]:
    """Yield each way in which a run and those before it are the parts of a form."""
    yield from _part(form, len(form.parts) - 1, last, find, Match({}, {}, {}))


def _part(
    form: Form, number: int, run: Made, find: Find, found: Match
) -> Iterator[Match]:
    """Yield the ways in which ``run`` is a part of the form."""
    part = form.parts[number]
    if number in found.runs:
        if found.runs[number] is run:
            yield found
        return
    if run.kernel.name != part.kernel or len(run.inputs) != len(part.inputs):
        return
    found = found._replace(runs={**found.runs, number: run})
    yield from _inputs(form, part.inputs, run.inputs, find, found)
    if part.kernel in COMMUTATIVE:
        yield from _inputs(form, part.inputs, run.inputs[::-1], find, found)


def _inputs(
    form: Form,
    sources: tuple[Source, ...],
    inputs: tuple[Tensor | None, ...],
    find: Find,
    found: Match,
) -> Iterator[Match]:
    """Yield the ways in which tensors come from these sources."""
    if not sources:
        yield found
        return
    for one in _input(form, sources[0], inputs[0], find, found):
        yield from _inputs(form, sources[1:], inputs[1:], find, one)


def _input(
    form: Form, source: Source, x: Tensor | None, find: Find, found: Match
) -> Iterator[Match]:
    """Yield the ways in which a tensor comes from this source."""
    number = source.number
    if x is None or source.kind == ABSENT:
        if x is None and source.kind == ABSENT:
            yield found
    elif source.kind == OPERAND:
        if number not in found.operands:
            yield found._replace(operands={**found.operands, number: x})
        elif _is_same(found.operands[number], x):
            yield found
    elif source.kind == CONSTANT:
        if x._tape_id is None and x.size == 1 and _equals(x, form.constants[number]):
            yield found._replace(constants={**found.constants, number: x})
    elif x._tape_id is not None:
        run = find(x._tape_id)
        if run is not None and run.outputs[source.output]._tape_id is x._tape_id:
            yield from _part(form, number, run, find, found)


def _is_same(x: Tensor, y: Tensor) -> bool:
    return x is y or (x._tape_id is not None and x._tape_id is y._tape_id)


def _equals(x: Tensor, constant: float | None) -> bool:
    """Return whether a tensor with one element equals a constant, up to rounding."""
    if constant is None:
        return True
    if x._home.depth:
        return False  # its value differs between the examples of vmap
    with Scope(tapes=(), observers=()):
        value = x.item()
    if not isinstance(value, bool | int | float):
        return False
    return abs(value - constant) <= TOLERANCE * max(abs(constant), abs(value))
