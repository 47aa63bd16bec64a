"""The size of a file in memory, before protobuf makes messages of it.

A message without content takes two bytes in a file, and protobuf allocates some hundred
for it. Here the lengths of fields are read alone, and each message is charged.
"""

from __future__ import annotations

import functools
from typing import Any

import onnx
import plugrad as pg

__all__ = ["charge"]

MESSAGE_BYTES = 200  # of the largest message without content, a node
STRING_BYTES = 16
NUMBER_BYTES = 8
BATCH_BYTES = 2**20  # that are charged at once
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # how a field is encoded


def charge(data: bytes, budget: pg.Budget) -> None:
    """Charge the messages of an ONNX model to a budget; stop where it is malformed."""
    stack: list[tuple[int, int, Any]] = [(0, len(data), onnx.ModelProto.DESCRIPTOR)]
    while stack:
        at, end, kind = stack.pop()
        budget.tick()
        types, nbytes = _types(kind), 0
        while at < end:
            if nbytes > BATCH_BYTES:
                budget.tick()
                budget.allocate(nbytes)
                nbytes = 0
            tag, at = _varint(data, at, end)
            wire = tag & 7
            if wire == BYTES:
                size, at = _varint(data, at, end)
                inner = types.get(tag >> 3)
                nbytes += STRING_BYTES if inner is None else MESSAGE_BYTES
                if inner is not None and 0 < size <= end - at:
                    stack.append((at, at + size, inner))
                at += size
            elif wire == VARINT:
                nbytes += NUMBER_BYTES
                _, at = _varint(data, at, end)
            elif wire in (FIXED32, FIXED64):
                nbytes += NUMBER_BYTES
                at += 4 if wire == FIXED32 else 8
            else:
                return  # a group, or malformed: protobuf says what is wrong
        budget.allocate(nbytes)


@functools.cache
def _types(kind: Any) -> dict[int, Any]:
    """Return the types of the fields that are messages, by number."""
    rows = {one.number: one.message_type for one in kind.fields}
    return {number: one for number, one in rows.items() if one is not None}


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return an integer, and where it ends; past the end there are no more."""
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            break
    return value, end
