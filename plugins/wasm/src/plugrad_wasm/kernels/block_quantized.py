"""Products with 4-bit or 8-bit weights, for float32; other dtypes are decomposed."""

from __future__ import annotations

from typing import Any

from plugrad.plugin import KernelTable

from ..arrays import WasmArray, empty
from ..launch import FLOAT32

kernels = KernelTable()
CHUNK = 8  # the bytes of a block's codes must be a multiple of this
MAX_BLOCK = 256  # codes per block, as in block_quantized.c
MAX_ROWS = 4  # for more rows, a product with unpacked weights is faster


def kind_of(codes: WasmArray, bits: int) -> int:
    """Return the number that stands for an encoding in C."""
    return 0 if bits == 4 else 1 if codes.dtype.kind == "u" else 2


@kernels("DequantizeBlocks")
def dequantize_blocks(
    codes: WasmArray, scale: WasmArray, offset: WasmArray | None, *, bits: int
) -> Any:
    """Unpack all weights."""
    if scale.dtype is not FLOAT32:
        return NotImplemented
    inputs = codes.shape[-1] * (2 if bits == 4 else 1)
    y = empty(codes.machine, (*codes.shape[:-1], inputs), FLOAT32)
    if y.size:
        given = [0 if t is None else t.pointer for t in (codes, scale, offset, y)]
        sizes = (y.size // inputs, inputs, inputs // scale.shape[-1])
        callers = codes.machine.callers
        callers["dequantize_blocks_f32"](*given, *sizes, kind_of(codes, bits))
    return y


@kernels("BlockQuantizedMatMul")
def block_matmul(
    x: WasmArray,
    codes: WasmArray,
    scale: WasmArray,
    offset: WasmArray | None,
    *,
    bits: int,
    rounded: bool,
) -> Any:
    """Multiply a few rows by the codes; for more rows, unpack the weights first."""
    outputs, blocks = scale.shape
    inputs = x.shape[-1]
    block, rows = inputs // blocks, x.size // max(inputs, 1)
    fits = block <= MAX_BLOCK and (block // 2 if bits == 4 else block) % CHUNK == 0
    if x.dtype is not FLOAT32 or not fits or rows > MAX_ROWS:
        return NotImplemented
    machine = x.machine
    y = empty(machine, (*x.shape[:-1], outputs), FLOAT32)
    if y.size:
        work = empty(machine, (rows * (inputs + 2 * blocks),), FLOAT32)
        given = (x, codes, scale, offset, work, y)
        pointers = [0 if t is None else t.pointer for t in given]
        how = (rows, outputs, inputs, block, kind_of(codes, bits), int(rounded))
        machine.callers["block_matmul_f32"](*pointers, *how)
    return y
