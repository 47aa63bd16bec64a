"""Weights that stay packed: blocks of codes of 4 or 8 bits, with a scale for each.

In the types Q4_0, Q4_1 and Q8_0, a block of 32 codes begins with its scale, followed by
its smallest weight if the type has one. 32 codes of 4 bits are stored in 16 bytes: the
low halves are the first 16 codes, the high halves the others. plugrad expects
consecutive codes in the same byte, the first one in the low half.

In the other types, codes and scales are spread over a block in several ways, but each
weight is ``scale * code + offset`` as well. So both are measured: the package gguf
unpacks copies of the blocks in which all codes are the least and the greatest.

Contents: ``PackedWeight``; the types that are packed; measuring.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import gguf
import numpy as np
import plugrad as pg
from plugrad.plugin import runtime

from .reader import Array, TensorInfo

__all__ = ["PackedWeight", "can_pack", "is_packed_type", "packed_bytes"]

Kind = gguf.GGMLQuantizationType
BLOCK = 32
# For each type, the number of float16 values before the codes, the bits of a code, and
# the code that stands for 0.
ENCODINGS = {Kind.Q4_0: (1, 4, 8), Kind.Q4_1: (2, 4, 0), Kind.Q8_0: (1, 8, 0)}


@dataclass(frozen=True)
class Layout:
    """How a block of a type is stored that is packed after measuring.

    Attributes:
        bits: The size of a code in the file.
        codes: The bytes of a block that contain codes, and nothing else.
        group: The number of weights that share a scale and an offset.

    """

    bits: int
    codes: slice
    group: int


MEASURED = {
    Kind.Q5_0: Layout(5, slice(2, 22), 32),
    Kind.Q5_1: Layout(5, slice(4, 24), 32),
    Kind.Q2_K: Layout(2, slice(16, 80), 16),
    Kind.Q3_K: Layout(3, slice(96), 16),
    Kind.Q4_K: Layout(4, slice(16, 144), 32),
    Kind.Q5_K: Layout(5, slice(16, 176), 32),
    Kind.Q6_K: Layout(6, slice(192), 16),
}
CHUNK_ELEMENTS = 2**20  # measured at once; temporary arrays are a few times as large


@dataclass(frozen=True)
class PackedWeight:
    """A matrix ``[outputs, inputs]`` in blocks of codes.

    Attributes:
        codes: The codes, as ``plugrad.quantized.block_matmul`` reads them.
        scale: A factor for each block.
        offset: An addend for each block; None: no addend.
        bits: The size of a code in bits.
        rounded: Whether inputs of products are rounded to 8 bits.

    """

    codes: pg.Tensor
    scale: pg.Tensor
    offset: pg.Tensor | None
    bits: int
    rounded: bool = False

    @classmethod
    def from_file(cls, info: TensorInfo, *, rounded: bool = False) -> PackedWeight:
        """Return a matrix of a file on the active backend."""
        if info.kind in MEASURED:
            parts, bits = _measured(info)
            flat, scales, offsets = map(pg.asarray, parts)
            return cls(flat, scales, offsets, bits, rounded)
        count, bits, zero = ENCODINGS[info.kind]
        outputs, inputs = info.shape
        blocks = info.data.reshape(outputs, inputs // BLOCK, -1)
        numbers = np.ascontiguousarray(blocks[..., : 2 * count]).view("<f2")
        scale = numbers[..., 0].astype(np.float32)
        codes = np.ascontiguousarray(blocks[..., 2 * count :])
        codes = codes.view(np.int8) if bits == 8 else _interleaved_codes(codes)
        offset = None
        if count == 2:
            offset = pg.asarray(numbers[..., 1].astype(np.float32))
        elif zero:
            offset = pg.asarray(-zero * scale)
        flat = pg.asarray(codes.reshape(outputs, -1))
        return cls(flat, pg.asarray(scale), offset, bits, rounded)

    def product(self, x: pg.Tensor) -> pg.Tensor:
        """Return ``x @ w.T``, ``[..., outputs]``, for ``x`` of ``[..., inputs]``."""
        parts = (self.codes, self.scale, self.offset)
        return pg.quantized.block_matmul(
            x, *parts, bits=self.bits, rounded=self.rounded
        )

    def rows(self, codes: pg.Tensor) -> pg.Tensor:
        """Return the rows with the given indices, ``[*codes.shape, inputs]``."""
        some, scale = (pg.take(t, codes, axis=0) for t in (self.codes, self.scale))
        offset = None if self.offset is None else pg.take(self.offset, codes, axis=0)
        return pg.quantized.dequantize_blocks(some, scale, offset, bits=self.bits)


def _interleaved_codes(codes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return bytes of two consecutive codes, the first one in the low half."""
    both = np.concatenate([codes & 15, codes >> 4], axis=-1)
    return both[..., ::2] | both[..., 1::2] << 4


def can_pack(info: TensorInfo) -> bool:
    """Return whether a tensor of a file can stay packed on the active backend."""
    has_bytes = {"int8", "uint8"} <= {*runtime(pg.get_backend()).dtypes}
    return has_bytes and is_packed_type(info)


def is_packed_type(info: TensorInfo) -> bool:
    """Return whether a tensor of a file can stay packed on backends with bytes."""
    return len(info.shape) == 2 and (info.kind in ENCODINGS or info.kind in MEASURED)


def packed_bytes(info: TensorInfo) -> int:
    """Return the memory of a packed tensor in bytes."""
    elements = math.prod(info.shape)
    if info.kind in MEASURED:
        layout = MEASURED[info.kind]
        return elements * _stored_bits(layout) // 8 + 8 * elements // layout.group
    count, bits, zero = ENCODINGS[info.kind]
    numbers = 2 if count == 2 or zero else 1
    return elements * bits // 8 + 4 * numbers * elements // BLOCK


# --- measuring -------------------------------------------------------------------


def _stored_bits(layout: Layout) -> int:
    """Return the bits per code in memory; blocks of 16 are multiplied as bytes."""
    return 4 if layout.bits == 4 and layout.group == BLOCK else 8


def _measured(info: TensorInfo) -> tuple[tuple[Array, Array, Array], int]:
    """Return codes, scales and offsets of a matrix, and the bits of its codes."""
    layout = MEASURED[info.kind]
    bits = _stored_bits(layout)
    outputs, inputs = info.shape
    codes = np.empty((outputs, inputs * bits // 8), np.uint8)
    scale = np.empty((outputs, inputs // layout.group), np.float32)
    offset = np.empty_like(scale)
    step = max(1, CHUNK_ELEMENTS // max(1, inputs))
    with np.errstate(all="ignore"):  # scales in a damaged file may be inf or nan
        for i in range(0, outputs, step):
            rows = slice(i, i + step)
            found, scale[rows], offset[rows] = _measured_rows(info, layout, rows)
            codes[rows] = found if bits == 8 else found[:, ::2] | found[:, 1::2] << 4
    return (codes, scale, offset), bits


def _measured_rows(
    info: TensorInfo, layout: Layout, rows: slice
) -> tuple[Array, Array, Array]:
    """Return codes, scales and offsets of some rows."""
    data = info.data[rows]
    size = gguf.GGML_QUANT_SIZES[info.kind][1]
    greatest = (1 << layout.bits) - 1
    weights = gguf.dequantize(data, info.kind).reshape(len(data), -1, layout.group)
    ends = []
    for code_bits in (0x00, 0xFF):
        blocks = data.reshape(-1, size).copy()
        blocks[:, layout.codes] = code_bits
        same = gguf.dequantize(blocks.reshape(data.shape), info.kind)
        ends.append(same.reshape(weights.shape)[..., 0])
    offset = ends[0]
    scale = (ends[1] - offset) / greatest
    codes = np.rint((weights - offset[..., None]) / scale[..., None])
    codes = np.where(np.isfinite(codes), codes, 0).clip(0, greatest)
    return codes.astype(np.uint8).reshape(len(data), -1), scale, offset
