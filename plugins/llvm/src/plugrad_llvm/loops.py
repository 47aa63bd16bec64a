"""Loops in LLVM IR: over elements, and with vectors as loop-carried values."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir  # type: ignore[import-untyped]

from .code import Code, Vector, index

Accumulate = Callable[[ir.Value, list[Vector]], list[Vector]]


class Loop:
    """A loop with values that change in each iteration; it runs at least once.

    The instructions that are written between ``Loop(...)`` and ``repeat`` are its body.

    Attributes:
        values: The loop-carried values, as the body reads them.

    """

    def __init__(self, code: Code, *first: ir.Value) -> None:
        builder = self.builder = code.builder
        before = builder.block
        self.head = builder.append_basic_block("loop")
        builder.branch(self.head)
        builder.position_at_end(self.head)
        self.values = [builder.phi(x.type) for x in first]
        for value, x in zip(self.values, first, strict=True):
            value.add_incoming(x, before)

    def repeat(self, more: ir.Value, *following: ir.Value) -> None:
        """End the body: repeat it with the following values if the bit ``more`` is set.

        Code that is written next runs after the loop.
        """
        builder = self.builder
        for value, x in zip(self.values, following, strict=True):
            value.add_incoming(x, builder.block)
        after = builder.append_basic_block("after")
        builder.cbranch(more, self.head, after)
        builder.position_at_end(after)


def write_loop(
    code: Code,
    begin: ir.Value,
    end: ir.Value,
    body: Callable[[ir.Value], None],
    whole: bool,
) -> None:
    """Write a loop over at least ``code.lanes`` elements.

    The last vector ends with the last element, and may overlap the previous vector.

    Args:
        code: The function.
        begin: The first index.
        end: The index after the last one.
        body: Writes the code for a vector at an index.
        whole: Whether the number of elements is a multiple of the number of lanes.

    """
    builder = code.builder
    lanes = index(code.lanes)
    last = None if whole else builder.sub(end, lanes)
    loop = Loop(code, begin)
    [i] = loop.values
    body(i)
    following = builder.add(i, lanes)
    more = builder.icmp_signed("<", following, end)
    if last is not None:
        fits = builder.icmp_signed("<", following, last)
        following = builder.select(fits, following, last)
    loop.repeat(more, following)


def for_each(code: Code, n: int, body: Callable[[ir.Value], None]) -> None:
    """Write an element-wise loop over a row; a single vector needs no loop."""
    if n == code.lanes:
        body(index(0))
    else:
        write_loop(code, index(0), index(n), body, n % code.lanes == 0)


def for_each_in_place(
    code: Code, n: int, body: Callable[[ir.Value, int], None]
) -> None:
    """Write a loop that visits each element once: ``body(i, lanes)``."""
    rest = n % code.lanes
    if n > rest:
        for_each(code, n - rest, lambda i: body(i, code.lanes))
    if rest:
        body(index(n - rest), rest)


def accumulate(
    code: Code, end: int, step: int, start: list[Vector], body: Accumulate
) -> list[Vector]:
    """Write a loop that carries vectors: from 0 to ``end``, a multiple of ``step``."""
    if end <= step:
        return body(index(0), start) if end else start
    builder = code.builder
    loop = Loop(code, index(0), *[x.value for x in start])
    i, *values = loop.values
    carried = [
        Vector(code, value, x.kind, x.lanes)
        for value, x in zip(values, start, strict=True)
    ]
    updated = body(i, carried)
    following = builder.add(i, index(step))
    more = builder.icmp_signed("<", following, index(end))
    loop.repeat(more, following, *[x.value for x in updated])
    return updated
