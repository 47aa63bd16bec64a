"""Products with 4-bit or 8-bit weights: in C for float32, otherwise decomposed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array
from ..native import FLOAT32_SUFFIX, MAX_ELEMENTS, contiguous
from ..native import kernels as in_c
from .linalg import batch_matmul

kernels = KernelTable()
MULTIPLY = in_c("block_matmul", FLOAT32_SUFFIX)
UNPACK = in_c("dequantize_blocks", FLOAT32_SUFFIX)
LANES = 16  # a multiple of the vector length of every processor
MAX_BLOCK = 256  # codes per block, as in block_quantized.c
MAX_ROWS = 4  # for more rows, a product with unpacked weights is faster
PANEL_ELEMENTS = 1 << 18  # weights to unpack at once


def kind_of(codes: Array, bits: int) -> int:
    """Return the number that stands for an encoding in C."""
    return 0 if bits == 4 else 1 if codes.dtype == np.uint8 else 2


def dequantize_blocks(
    codes: Array, scale: Array, offset: Array | None, *, bits: int
) -> Any:
    """Unpack all weights."""
    function = UNPACK.get(scale.dtype)
    given = contiguous(codes, scale, offset) if function else None
    inputs = codes.shape[-1] * (2 if bits == 4 else 1)
    y = np.empty((*codes.shape[:-1], inputs), scale.dtype)
    if not function or given is None or y.size >= MAX_ELEMENTS:
        return NotImplemented
    if y.size:
        block = inputs // scale.shape[-1]
        function(*given, y, y.size // inputs, inputs, block, kind_of(codes, bits))
    return y


def block_matmul(
    x: Array,
    codes: Array,
    scale: Array,
    offset: Array | None,
    *,
    bits: int,
    rounded: bool,
) -> Any:
    """Multiply a few rows by the codes, or many rows by panels of unpacked weights."""
    function = MULTIPLY.get(x.dtype)
    outputs, blocks = scale.shape
    inputs = x.shape[-1]
    block = inputs // blocks
    rows = x.size // max(inputs, 1)
    fits = block <= MAX_BLOCK and (block // 2 if bits == 4 else block) % LANES == 0
    given = contiguous(x, codes, scale, offset) if function and fits else None
    if not function or given is None:
        return NotImplemented
    if rows > MAX_ROWS:
        return NotImplemented if rounded else _by_panels(given, bits)
    y = np.empty((*x.shape[:-1], outputs), x.dtype)
    if y.size:
        work = np.empty(rows * (inputs + 2 * blocks), x.dtype)
        how = (block, kind_of(codes, bits), rounded)
        function(*given, work, y, rows, outputs, inputs, *how)
    return y


def _by_panels(given: Sequence[Any], bits: int) -> Array:
    """Unpack as many rows of weights as fit into a cache, and multiply by them."""
    x, codes, scale, offset = given
    outputs, inputs = len(scale), x.shape[-1]
    rows = x.reshape(-1, inputs)
    y = np.empty((len(rows), outputs), x.dtype)
    step = max(1, PANEL_ELEMENTS // inputs)
    for first in range(0, outputs, step):
        some = slice(first, first + step)
        parts = codes[some], scale[some], None if offset is None else offset[some]
        w = dequantize_blocks(*parts, bits=bits)
        y[:, some] = batch_matmul(rows, w, transpose_a=False, transpose_b=True)
    return y.reshape(*x.shape[:-1], outputs)


if MULTIPLY:
    kernels.update(
        BlockQuantizedMatMul=block_matmul, DequantizeBlocks=dequantize_blocks
    )
