"""Reads the structure of a GGUF file: its metadata, and the location of each tensor.

The file is memory-mapped, and it is not trusted. Every length is compared with the size
of the file, and charged to the budget, before memory is allocated for it.
"""

from __future__ import annotations

import math
import mmap
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import gguf
import numpy as np
import plugrad as pg
from plugrad.importing import ModelError

__all__ = ["Array", "GgufFile", "TensorInfo", "read"]

Array: TypeAlias = np.ndarray[Any, Any]

VERSIONS = (2, 3)
MAX_AXES = 4  # per tensor, as in ggml
MAX_ALIGNMENT = 2**16  # bytes
MAX_AXIS_SIZE = 2**48
OBJECT_BYTES = 128  # memory of a metadata entry or a string, without its characters
MIN_ENTRY_BYTES = 13  # the shortest metadata entry in a file: empty name, type, uint8
MIN_TENSOR_BYTES = 24  # the shortest description of a tensor in a file
NUMBERS = {  # dtypes by GGUF type number
    0: "<u1",
    1: "<i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    7: "|b1",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
TEXT, ARRAY = 8, 9


@dataclass(frozen=True)
class TensorInfo:
    """A tensor in a file.

    Attributes:
        kind: How its elements are stored.
        shape: The size of each axis; the last one is contiguous.
        data: The bytes, mapped from the file: ``uint8``, with one row of bytes for each
            row of the tensor.

    """

    kind: gguf.GGMLQuantizationType
    shape: tuple[int, ...]
    data: Array


@dataclass(frozen=True)
class GgufFile:
    """The content of a GGUF file: metadata and tensors by name."""

    metadata: Mapping[str, Any]
    tensors: Mapping[str, TensorInfo]
    pages: mmap.mmap

    def release(self) -> None:
        """Let the system reclaim the memory of the file; reads reload it from disk."""
        if hasattr(self.pages, "madvise"):  # not on Windows
            self.pages.madvise(mmap.MADV_DONTNEED)


def read(path: str | os.PathLike[str], budget: pg.Budget) -> GgufFile:
    """Return the metadata and the mapped tensors of a file.

    Args:
        path: The file.
        budget: A budget that has been started.

    Raises:
        OSError: The file cannot be opened.
        ModelError: The file is not a GGUF file, or is damaged.
        BudgetError: The file describes more than the budget allows.

    """
    with budget.open(path) as file:
        if os.fstat(file.fileno()).st_size == 0:  # which mmap refuses
            raise ModelError(["the file is empty"])
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    cursor = _Cursor(data, budget)
    try:
        tensor_count, entry_count = _read_header(cursor)
        metadata = _read_metadata(cursor, entry_count)
        tensors = _read_tensors(cursor, tensor_count, metadata)
        return GgufFile(metadata, tensors, data)
    except pg.BudgetError:
        raise
    except DamagedError as error:
        raise ModelError([f"byte {cursor.position}: {error}"]) from None


class DamagedError(ValueError):
    """The file is damaged at the current position."""


class _Cursor:
    """A position in the file, which moves forward as values are read."""

    def __init__(self, data: mmap.mmap, budget: pg.Budget) -> None:
        self.bytes = np.frombuffer(data, np.uint8)
        self.budget = budget
        self.position = 0
        self._data = data

    def skip(self, nbytes: int) -> int:
        """Skip some bytes, which must exist, and return the position of the first."""
        begin = self.position
        if nbytes > len(self._data) - begin:
            raise DamagedError(
                f"{nbytes} bytes should follow, but the file ends after "
                f"{len(self._data) - begin}; is the download complete?"
            )
        self.position = begin + nbytes
        return begin

    def raw(self, nbytes: int) -> bytes:
        """Return the next bytes."""
        begin = self.skip(nbytes)
        return self._data[begin : begin + nbytes]

    def uint32(self) -> int:
        """Return the next 4 bytes as an integer."""
        return int.from_bytes(self.raw(4), "little")

    def uint64(self) -> int:
        """Return the next 8 bytes as an integer."""
        return int.from_bytes(self.raw(8), "little")

    def text(self) -> str:
        """Return the next string."""
        size = self.uint64()
        begin = self.skip(size)
        self.budget.allocate(OBJECT_BYTES + size)
        try:
            return self._data[begin : begin + size].decode()
        except UnicodeDecodeError as error:
            raise DamagedError(f"a string is not UTF-8: {error.reason}") from None

    def texts(self, count: int) -> list[str]:
        """Return the next strings, fast enough for a vocabulary of 100,000."""
        self.check_count(count, 8, "strings")
        self.budget.allocate(OBJECT_BYTES * count)
        data, at = self._data, self.position
        found: list[bytes] = []
        unpack, limit = struct.Struct("<Q").unpack_from, len(self._data)
        for _ in range(count):
            begin = at + 8
            if begin > limit or (end := begin + unpack(data, at)[0]) > limit:
                raise DamagedError(f"string {len(found)} of {count} is not complete")
            found.append(data[begin:end])
            at = end
        self.budget.allocate(at - self.position)
        self.budget.tick()
        self.position = at
        try:
            return [text.decode() for text in found]
        except UnicodeDecodeError as error:
            raise DamagedError(f"a string is not UTF-8: {error.reason}") from None

    def check_count(self, count: int, nbytes: int, what: str) -> None:
        """Raise unless ``count`` items of at least ``nbytes`` bytes can follow."""
        left = len(self._data) - self.position
        if count * nbytes > left:
            raise DamagedError(
                f"{count} {what} should follow, but only {left} bytes are left"
            )


def _read_header(cursor: _Cursor) -> tuple[int, int]:
    """Return the numbers of tensors and of metadata entries."""
    magic = bytes(cursor.bytes[:4])
    if magic != b"GGUF":
        raise ModelError([f"it begins with {magic!r}; a GGUF file begins with b'GGUF'"])
    cursor.skip(4)
    version = cursor.uint32()
    if version not in VERSIONS:
        if version % 2**16 == 0:
            raise ModelError(
                ["it is for big-endian machines; get or convert a little-endian one"]
            )
        raise ModelError(
            [f"its GGUF version is {version}; 2 and 3 are supported: convert it again"]
        )
    tensor_count, entry_count = cursor.uint64(), cursor.uint64()
    cursor.check_count(tensor_count, MIN_TENSOR_BYTES, "tensors")
    cursor.check_count(entry_count, MIN_ENTRY_BYTES, "metadata entries")
    cursor.budget.check_nodes(tensor_count + entry_count)
    return tensor_count, entry_count


# --- metadata --------------------------------------------------------------------


def _read_metadata(cursor: _Cursor, count: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for _ in range(count):
        cursor.budget.count()
        cursor.budget.allocate(OBJECT_BYTES)
        name = cursor.text()
        if name in metadata:
            raise DamagedError(f"metadata {name!r} occurs twice")
        metadata[name] = _read_value(cursor, cursor.uint32())
    return metadata


def _read_value(cursor: _Cursor, kind: int) -> Any:
    """Return a number, a string, an array of numbers or a list."""
    if kind == TEXT:
        return cursor.text()
    if kind == ARRAY:
        return _read_array(cursor)
    if kind not in NUMBERS:
        raise DamagedError(f"metadata of the unknown type {kind}")
    dtype = np.dtype(NUMBERS[kind])
    return np.frombuffer(cursor.raw(dtype.itemsize), dtype)[0].item()


def _read_array(cursor: _Cursor) -> Any:
    kind, count = cursor.uint32(), cursor.uint64()
    if kind == TEXT:
        return cursor.texts(count)
    if kind == ARRAY:
        cursor.check_count(count, 12, "arrays")
        cursor.budget.count(count)
        cursor.budget.allocate(OBJECT_BYTES * count)
        with cursor.budget.nested():
            return [_read_array(cursor) for _ in range(count)]
    if kind not in NUMBERS:
        raise DamagedError(f"an array of the unknown type {kind}")
    dtype = np.dtype(NUMBERS[kind])
    begin = cursor.skip(count * dtype.itemsize)
    return cursor.bytes[begin : cursor.position].view(dtype)


# --- tensors ---------------------------------------------------------------------


def _read_tensors(
    cursor: _Cursor, count: int, metadata: Mapping[str, Any]
) -> dict[str, TensorInfo]:
    """Return the tensors; a ``ModelError`` lists all invalid ones."""
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or not 0 < alignment <= MAX_ALIGNMENT:
        raise ModelError([f"general.alignment is {alignment!r}, which is not valid"])
    rows = []
    for _ in range(count):
        cursor.budget.count()
        cursor.budget.allocate(2 * OBJECT_BYTES)
        name = cursor.text()
        axes = cursor.uint32()
        if axes > MAX_AXES:
            raise DamagedError(
                f"tensor {name!r} has {axes} axes; the limit is {MAX_AXES}"
            )
        shape = tuple(cursor.uint64() for _ in range(axes))[::-1]
        rows.append((name, shape, cursor.uint32(), cursor.uint64()))
    begin = -(-cursor.position // alignment) * alignment
    tensors: dict[str, TensorInfo] = {}
    problems: list[str] = []
    end = 0
    for name, shape, kind, offset in sorted(rows, key=lambda row: row[-1]):
        try:
            if name in tensors:
                raise ValueError("it occurs twice")
            if offset % alignment:
                raise ValueError(
                    f"its offset {offset} is not a multiple of {alignment}"
                )
            if offset < end:
                raise ValueError(f"its offset {offset} is in another tensor")
            tensors[name] = _locate(cursor.bytes, shape, kind, begin + offset)
            end = offset + tensors[name].data.size
        except ValueError as error:
            problems.append(f"tensor {name!r}: {error}")
    if problems:
        raise ModelError(problems)
    return tensors


def _locate(data: Array, shape: tuple[int, ...], kind: int, begin: int) -> TensorInfo:
    """Return a tensor whose bytes begin at ``begin``, after checking its size."""
    if not all(0 < n <= MAX_AXIS_SIZE for n in shape):
        raise ValueError(f"its shape {shape} is not valid")
    try:
        stored = gguf.GGMLQuantizationType(kind)
    except ValueError:
        raise ValueError(
            f"its type has the number {kind}, which the package gguf does not know; "
            "update gguf, or quantize the model in another way, such as Q4_K_M"
        ) from None
    block, nbytes = gguf.GGML_QUANT_SIZES[stored]
    size = shape[-1] if shape else 1
    if size % block:
        raise ValueError(f"{stored.name} stores rows in blocks of {block}, not {size}")
    row = size // block * nbytes
    rows = math.prod(shape[:-1])
    end = begin + rows * row
    if end > data.size:
        raise ValueError(
            f"it should end at byte {end}, but the file has {data.size}; is the "
            "download complete?"
        )
    return TensorInfo(stored, shape, data[begin:end].reshape(rows, row))
