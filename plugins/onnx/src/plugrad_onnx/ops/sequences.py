"""Sequences and optional values: a sequence is a list, a missing value is None."""

from __future__ import annotations

from typing import Any

import numpy as np
from plugrad.importing import namespace

from ..program import Branch, Session
from ..registry import Value, op
from .shape import ints, split_at


@op("SequenceConstruct")
def sequence_construct(*xs: Value) -> Value:
    return list(xs)


@op("SequenceEmpty")
def sequence_empty(*, dtype: int = 1) -> Value:
    return []


@op("SequenceAt", reads=(1,))
def sequence_at(xs: Value, position: Value) -> Value:
    return xs[int(position.item())]


@op("SequenceInsert", reads=(2,))
def sequence_insert(xs: Value, x: Value, position: Value = None) -> Value:
    i = len(xs) if position is None else int(position.item())
    if not -len(xs) <= i <= len(xs):
        raise IndexError(f"SequenceInsert: {i} is out of range for {len(xs)} elements")
    i = i + len(xs) if i < 0 else i
    return [*xs[:i], x, *xs[i:]]


@op("SequenceErase", reads=(1,))
def sequence_erase(xs: Value, position: Value = None) -> Value:
    i = (len(xs) - 1 if position is None else int(position.item())) % len(xs)
    return [*xs[:i], *xs[i + 1 :]]


@op("SequenceLength")
def sequence_length(xs: Value) -> Value:
    return np.array(len(xs), np.int64)


@op("SplitToSequence", reads=(1,), host=True)
def split_to_sequence(
    x: Value, sizes: Value = None, *, axis: int = 0, keepdims: int = 1
) -> Value:
    n = x.shape[axis]
    if sizes is None:
        parts = split_at(x, (1,) * n, axis)
        if not keepdims:
            return [namespace(x).squeeze(part, axis) for part in parts]
        return list(parts)
    if sizes.ndim:
        return list(split_at(x, ints(sizes), axis))
    size = int(sizes.item())
    whole, rest = divmod(n, size)
    split_sizes = [size] * whole
    if rest:
        split_sizes.append(rest)
    return list(split_at(x, split_sizes, axis))


@op("ConcatFromSequence")
def concat_from_sequence(xs: Value, *, axis: int, new_axis: int = 0) -> Value:
    xp = namespace(*xs)
    return xp.stack(xs, axis=axis) if new_axis else xp.concat(xs, axis=axis)


@op("SequenceMap")
def sequence_map(session: Session, *operands: Value, body: Branch) -> Value:
    given, captured = operands[: body.count], operands[body.count :]
    rows: list[Any] = []
    for i in range(len(given[0])):
        elements = [x[i] if isinstance(x, list) else x for x in given]
        rows.append(body(session, *elements, *captured))
    if not rows:
        return tuple([] for _ in body.program.outputs)
    return tuple([row[k] for row in rows] for k in range(len(rows[0])))


@op("Optional")
def optional(x: Value = None, *, type: Any = None) -> Value:
    return x


@op("OptionalHasElement")
def optional_has_element(x: Value = None) -> Value:
    return np.array(x is not None)


@op("OptionalGetElement")
def optional_get_element(x: Value) -> Value:
    if x is None:
        raise ValueError("OptionalGetElement: the optional has no value")
    return x
