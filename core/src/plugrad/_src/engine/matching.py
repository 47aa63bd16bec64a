"""Compare recorded runs with the forms of a whole.

Contents: ``matches``, which compares from the last part backwards and tries both orders
of the inputs of commutative kernels; the inputs of a part; constants.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from plugrad._src.tensor.tensor import Tensor

from .context import Scope
from .forms import ABSENT, CONSTANT, OPERAND, PART, Find, Form, Made, Source

# The order of the two inputs of these kernels does not matter.
COMMUTATIVE = frozenset({"Add", "Maximum", "Minimum", "Multiply", "SquaredDifference"})
Inputs = tuple[Tensor | None, ...]
TOLERANCE = 1e-6  # relative: constants are rounded to the dtype of the operands


class Match(NamedTuple):
    """The tensors and runs that were found for the operands and parts of a form."""

    operands: dict[int, Tensor]
    runs: dict[int, Made]
    constants: dict[int, Tensor]


def matches(form: Form, last: Made, find: Find) -> Iterator[Match]:
    """Iterate over the ways in which a run and those before it make up a form.

    Args:
        form: The form.
        last: A run of the kernel of its last part.
        find: Returns the run that computed a value.

    """
    number = len(form.parts) - 1
    return _search(form, find, Match({}, {number: last}, {}), [number])


def _search(
    form: Form, find: Find, found: Match, waiting: list[int]
) -> Iterator[Match]:
    """Yield all matches of the inputs of the waiting parts.

    Args:
        form: The form.
        find: Returns the run that computed a value.
        found: The operands, runs and constants found so far; it is modified.
        waiting: The parts whose runs were found, but whose inputs have not yet been
            compared. The last one is next.

    """
    parts, runs = form.parts, found.runs
    while waiting:
        number = waiting.pop()
        kernel, sources = parts[number]
        inputs = runs[number].inputs
        if len(inputs) != len(sources):
            return
        if kernel in COMMUTATIVE:
            turned = inputs[::-1]
            if not _have_kernels(sources, inputs, find):
                inputs = turned
            elif _have_kernels(sources, turned, find):  # either order may match
                copy = Match({**found.operands}, {**runs}, {**found.constants})
                others = _fit(form, sources, inputs, find, copy)
                if others is not None:
                    yield from _search(form, find, copy, waiting + others)
                inputs = turned
        others = _fit(form, sources, inputs, find, found)
        if others is None:
            return
        waiting += others
    yield found


def _have_kernels(sources: tuple[Source, ...], inputs: Inputs, find: Find) -> bool:
    """Return whether runs of the right kernels computed the inputs.

    This takes less time than ``_fit`` and excludes most orders.
    """
    for (kind, _, _, kernel), x in zip(sources, inputs, strict=True):
        if kind == PART:
            run = None if x is None or x._tape_id is None else find(x._tape_id)
            if run is None or run.kernel.name != kernel:
                return False
    return True


def _fit(
    form: Form, sources: tuple[Source, ...], inputs: Inputs, find: Find, found: Match
) -> list[int] | None:
    """Note the operands, constants and runs from which the inputs of a part come.

    Returns:
        The parts whose runs are new, in reverse order; None if the inputs do not
        come from these sources.

    """
    others: list[int] = []
    operands, runs, constants = found
    for (kind, number, output, kernel), x in zip(sources, inputs, strict=True):
        if x is None or kind == ABSENT:
            if x is not None or kind != ABSENT:
                return None
        elif kind == PART:
            run = None if x._tape_id is None else find(x._tape_id)
            if run is None or run.kernel.name != kernel:
                return None
            if run.outputs[output]._tape_id is not x._tape_id:
                return None
            if number not in runs:
                runs[number] = run
                others.insert(0, number)
            elif runs[number] is not run:
                return None
        elif kind == OPERAND:
            if not _is_same(operands.setdefault(number, x), x):
                return None
        elif kind == CONSTANT:
            if x._tape_id is not None or x.size != 1:
                return None
            if not _equals(x, form.constants[number]):
                return None
            constants[number] = x
    return others


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
