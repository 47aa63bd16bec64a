"""Estimates the memory of a file before protobuf parses it.

An empty message takes two bytes in a file, but protobuf allocates about 200 bytes for
it. This module reads only the lengths of fields and charges each message to a budget.
"""

from __future__ import annotations

import functools
from typing import Any

import onnx
import plugrad as pg

__all__ = ["charge"]

MESSAGE_BYTES = 200  # memory of the largest empty message, a node
STRING_BYTES = 16
NUMBER_BYTES = 8
BATCH_BYTES = 2**20  # charges are collected up to this size
# wire types: how a field is encoded
VARINT = 0
FIXED64 = 1
BYTES = 2
FIXED32 = 5


def charge(data: bytes, budget: pg.Budget) -> None:
    """Charge the messages of an ONNX model to a budget; stop where it is malformed."""
    stack: list[tuple[int, int, Any]] = [(0, len(data), onnx.ModelProto.DESCRIPTOR)]
    while stack:
        offset, end, kind = stack.pop()
        budget.tick()
        types = _types(kind)
        nbytes = 0
        while offset < end:
            if nbytes > BATCH_BYTES:
                budget.tick()
                budget.allocate(nbytes)
                nbytes = 0
            tag, offset = _varint(data, offset, end)
            wire = tag & 7
            if wire == BYTES:
                size, offset = _varint(data, offset, end)
                inner = types.get(tag >> 3)
                nbytes += STRING_BYTES if inner is None else MESSAGE_BYTES
                if inner is not None and 0 < size <= end - offset:
                    stack.append((offset, offset + size, inner))
                offset += size
            elif wire == VARINT:
                nbytes += NUMBER_BYTES
                _, offset = _varint(data, offset, end)
            elif wire in (FIXED32, FIXED64):
                nbytes += NUMBER_BYTES
                offset += 4 if wire == FIXED32 else 8
            else:
                return  # a group, or malformed: protobuf reports what is wrong
        budget.allocate(nbytes)


@functools.cache
def _types(kind: Any) -> dict[int, Any]:
    """Return the message type of each message field, by field number."""
    rows = {one.number: one.message_type for one in kind.fields}
    return {number: one for number, one in rows.items() if one is not None}


def _varint(data: bytes, offset: int, end: int) -> tuple[int, int]:
    """Return an integer and the offset after it; ``end`` if the integer is cut off."""
    value = shift = 0
    while offset < end:
        byte = data[offset]
        offset += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, offset
        shift += 7
        if shift > 63:
            break
    return value, end
