"""Patterns as data: several runs that together make one op, such as ``silu``.

A form is one way to compose an op from kernels. While an override of a pattern is in
force, tapes keep the runs that may be parts of it. If the last part runs and the others
are found, its node becomes a node of the whole (see ``gradients``).

Contents: ``Form`` and its parts; ``Whole``, the target of an override; ``Made``, a run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from plugrad._src.registry.contract import Kernel
from plugrad._src.tensor.tensor import TapeId, Tensor

from .tape import Tape, state_lock

OPERAND, PART, CONSTANT, ABSENT = range(4)  # the kinds of inputs of a part
PARTS = "parts"  # an attribute of the kernel of a whole: how to run its parts


class Source(NamedTuple):
    """Where an input of a part comes from.

    ``number`` is the index of an operand, a part or a constant; for a part, ``output``
    is the index of one of its outputs, and ``kernel`` is the name of its kernel.
    """

    kind: int
    number: int = 0
    output: int = 0
    kernel: str = ""


class Part(NamedTuple):
    """One run of a form."""

    kernel: str
    inputs: tuple[Source, ...]


class Form(NamedTuple):
    """One way to compose an op from kernels; the last part computes the result.

    A constant is None if its value depends on shapes.
    """

    parts: tuple[Part, ...]
    constants: tuple[float | None, ...]

    @property
    def feeding(self) -> frozenset[str]:
        """The kernels of the parts whose results the last part reads."""
        return frozenset([s.kernel for s in self.parts[-1].inputs if s.kind == PART])


class Whole(NamedTuple):
    """Runs that an override treats as one run.

    Attributes:
        kernel: A kernel for the whole, which no registry contains. Its inputs are the
            operands; its attributes are ``parts``, and the attributes of the parts
            whose names occur only once.
        forms: The ways in which it may be composed, longest first.
        fits: A function that returns whether the pattern applies to the operands
            found; None means that it applies to all operands.

    """

    kernel: Kernel
    forms: tuple[Form, ...]
    fits: Callable[..., object] | None


class Made(NamedTuple):
    """The data of a recorded run that patterns are matched against.

    A call of a ``custom_grad`` function runs no kernel; for such a call, ``again`` is
    the function that computes its result.
    """

    kernel: Kernel
    inputs: tuple[Tensor | None, ...]
    attrs: dict[str, Any]
    outputs: tuple[Tensor, ...]
    scope: str
    again: Callable[..., Tensor] | None = None


Find = Callable[[TapeId], Made | None]  # returns the run that has this result


def note(tape: Tape, run: Made) -> None:
    """Let a tape keep a run, because later runs may complete a pattern."""
    made = getattr(tape, "made", None)
    if made is None:
        with state_lock:  # other threads may record on the same tape
            made = getattr(tape, "made", None)
            if made is None:
                tape.made = made = {}
    for y in run.outputs:
        if y._tape_id is not None:
            made[y._tape_id] = run


def kept_by_all(tapes: tuple[Tape, ...]) -> Find:
    """Return a function that finds a run that all of these tapes keep."""
    first, *others = [getattr(tape, "made", {}) for tape in tapes]
    if not others:
        return first.get

    def find(tape_id: TapeId) -> Made | None:
        is_kept = all(tape_id in made for made in others)
        return first.get(tape_id) if is_kept else None

    return find
