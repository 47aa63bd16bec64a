"""Loops in LLVM IR: over elements, and with vectors as loop-carried values."""

from __future__ import annotations

from collections.abc import Callable

from .code import Code, Vector

Accumulate = Callable[[str, list[Vector]], list[Vector]]


def write_loop(
    code: Code, begin: str, end: str, body: Callable[[str], None], whole: bool
) -> None:
    """Write a loop over at least ``code.lanes`` elements.

    The last vector ends with the last element, and may overlap with the one before.

    Args:
        code: The function.
        begin: The first index.
        end: The index after the last one.
        body: Writes the code for a vector at an index.
        whole: Whether the number of elements is a multiple of the number of lanes.

    """
    if begin.isdigit() and end.isdigit() and int(end) - int(begin) == code.lanes:
        body(begin)
        return
    last = "" if whole else code.put(f"sub i64 {end}, {code.lanes}")
    label = code.name("loop")
    after = code.name("after")
    before = code.label
    code.goto(label)
    phi_line = len(code.lines)
    i = "%" + code.name("i")
    code.do("")
    body(i)
    following = code.put(f"add i64 {i}, {code.lanes}")
    more = code.put(f"icmp slt i64 {following}, {end}")
    if not whole:
        fits = code.put(f"icmp slt i64 {following}, {last}")
        following = code.put(f"select i1 {fits}, i64 {following}, i64 {last}")
    pairs = f"[ {begin}, %{before} ], [ {following}, %{code.label} ]"
    code.lines[phi_line] = f"{i} = phi i64 {pairs}"
    code.do(f"br i1 {more}, label %{label}, label %{after}")
    code.place(after)


def for_each(code: Code, n: int, body: Callable[[str], None]) -> None:
    """Write an element-wise loop over a row."""
    write_loop(code, "0", str(n), body, n % code.lanes == 0)


def for_each_in_place(code: Code, n: int, body: Callable[[str, int], None]) -> None:
    """Write a loop that visits each element once: ``body(i, lanes)``."""
    rest = n % code.lanes
    if n > rest:
        whole = lambda i: body(i, code.lanes)
        write_loop(code, "0", str(n - rest), whole, whole=True)
    if rest:
        body(str(n - rest), rest)


def accumulate(
    code: Code, end: int, step: int, start: list[Vector], body: Accumulate
) -> list[Vector]:
    """Write a loop that carries vectors: from 0 to ``end``, a multiple of ``step``."""
    if end <= step:
        return body("0", start) if end else start
    label = code.name("loop")
    after = code.name("after")
    before = code.label
    code.goto(label)
    phi = len(code.lines)
    i = "%" + code.name("i")
    carried = [Vector(code, "%" + code.name("c"), x.kind, x.lanes) for x in start]
    code.lines += [""] * (1 + len(start))
    updated = body(i, carried)
    following = code.put(f"add i64 {i}, {step}")
    more = code.put(f"icmp slt i64 {following}, {end}")
    code.do(f"br i1 {more}, label %{label}, label %{after}")

    def edge(first: str, then: str) -> str:
        return f"[ {first}, %{before} ], [ {then}, %{code.label} ]"

    code.lines[phi] = f"{i} = phi i64 {edge('0', following)}"
    for k, (x, first, then) in enumerate(zip(carried, start, updated, strict=True), 1):
        code.lines[phi + k] = f"{x.name} = phi {x.type} {edge(first.name, then.name)}"
    code.place(after)
    return updated
