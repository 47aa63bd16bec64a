"""The bytes of a ``plugrad_call`` (include/plugrad_kernel.h).

Contents: ``numbers``, for an attribute; ``layout``, for a call.
"""

from __future__ import annotations

import dataclasses
import functools
import struct
from math import prod
from typing import Any, NamedTuple

import numpy as np
from plugrad.plugin import Spec

from .launch import NUMBERS

VERSION = 1  # PLUGRAD_VERSION


def numbers(kernel: str, name: str, value: Any) -> tuple[bytes, bytes | None]:
    """Return an attribute as doubles, or as text if it is a str.

    Raises:
        TypeError: The attribute is neither numbers nor text, or contains an integer
            that float64 cannot represent.

    """
    if isinstance(value, str):
        return b"", value.encode() + b"\0"
    flat: list[float] = []

    def add(part: Any) -> None:
        if isinstance(part, bool | int | float | np.number | np.bool):
            if float(part) != part and part == part:
                raise TypeError(
                    f"{kernel}: {name}={value!r}: {part} is not exact in float64"
                )
            flat.append(float(part))
        elif isinstance(part, np.dtype):
            flat.append(NUMBERS[part])
        elif isinstance(part, tuple | list):
            for each in part:
                add(each)
        elif dataclasses.is_dataclass(part) and not isinstance(part, type):
            for field in dataclasses.fields(part):
                add(getattr(part, field.name))
        elif part is not None:
            raise TypeError(
                f"{kernel}: {name}={value!r}: a WebAssembly kernel takes numbers, "
                f"dtypes, tuples of these, or one str"
            )

    add(value)
    return struct.pack(f"<{len(flat)}d", *flat), None


class Layout(NamedTuple):
    """The bytes of the structures, and the address of each tensor's elements."""

    head: bytes
    addresses: tuple[int, ...]
    zeros: int  # address at which the outputs begin
    end: int


@functools.lru_cache(maxsize=1024)
def layout(
    begin: int,
    inputs: tuple[Spec | None, ...],
    outputs: tuple[Spec, ...],
    values: tuple[tuple[bytes, bytes | None], ...],
) -> Layout:
    """Return the bytes of a ``plugrad_call`` at the address ``begin``."""
    tensors = [*inputs, *outputs]
    first_attr = 28 + 20 * len(tensors)
    head = bytearray(first_attr + 12 * len(values))

    def append(data: bytes, unit: int) -> int:
        head.extend(bytes(-len(head) % unit))
        head.extend(data)
        return begin + len(head) - len(data)

    for i, (doubles, text) in enumerate(values):
        at = append(doubles, 8)
        count = len(doubles) // 8
        words = (at, count, 0 if text is None else append(text, 1))
        struct.pack_into("<3I", head, first_attr + 12 * i, *words)
    shapes = [
        append(struct.pack(f"<{len(t.shape)}I", *t.shape), 4) if t else 0
        for t in tensors
    ]
    at = zeros = _aligned(begin + len(head))
    addresses = []
    for i, (tensor, shape) in enumerate(zip(tensors, shapes, strict=True)):
        if i == len(inputs):
            zeros = at
        addresses.append(at)
        if tensor is None:
            continue
        size = prod(tensor.shape)
        record = (at, shape, len(tensor.shape), size, NUMBERS[tensor.dtype])
        struct.pack_into("<5I", head, 28 + 20 * i, *record)
        at = _aligned(at + size * tensor.dtype.itemsize)
    counts = (VERSION, len(inputs), len(outputs), len(values))
    pointers = (28, 28 + 20 * len(inputs), first_attr)
    struct.pack_into("<7I", head, 0, *counts, *[begin + p for p in pointers])
    return Layout(bytes(head), tuple(addresses), zeros if outputs else at, at)


def _aligned(address: int) -> int:
    return -(-address // 16) * 16
