"""Weights that stay packed: blocks of 32 codes of 4 or 8 bits, as they are in the file.

In the file, a block begins with its scale, followed by its smallest weight if the type
has one. 32 codes of 4 bits are stored in 16 bytes: the low halves are the first 16
codes, the high halves the others. plugrad expects consecutive codes in the same byte,
the first one in the low half.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import gguf
import numpy as np
import plugrad as pg
from plugrad.plugin import runtime

from .reader import TensorInfo

__all__ = ["ENCODINGS", "PackedWeight", "can_pack", "packed_bytes"]

Kind = gguf.GGMLQuantizationType
BLOCK = 32
# For each type, the number of float16 values before the codes, the bits of a code, and
# the code that stands for 0.
ENCODINGS = {Kind.Q4_0: (1, 4, 8), Kind.Q4_1: (2, 4, 0), Kind.Q8_0: (1, 8, 0)}


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
    return has_bytes and len(info.shape) == 2 and info.kind in ENCODINGS


def packed_bytes(info: TensorInfo) -> int:
    """Return the memory of a packed tensor in bytes."""
    count, bits, zero = ENCODINGS[info.kind]
    elements = math.prod(info.shape)
    numbers = 2 if count == 2 or zero else 1
    return elements * bits // 8 + 4 * numbers * elements // BLOCK
