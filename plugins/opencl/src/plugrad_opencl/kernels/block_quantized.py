"""Products with weights of 4 or 8 bits, for float32; other dtypes are decomposed."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from plugrad.plugin import KernelTable

from .. import source
from ..arrays import ClArray, empty
from ..runtime import Device, Launch

kernels = KernelTable()
FLOAT32 = np.dtype(np.float32)
MAX_ROWS = 4  # for more rows, a product with unpacked weights is faster
VECTOR = 16  # bytes of codes to read at once
GROUP_ITEMS = 32  # items that share an output on a GPU
OUTPUTS_OF_AN_ITEM = 64  # outputs per item on a CPU


@functools.cache
def _program(
    device: Device, name: str, group: int, items: int, **values: Any
) -> Launch:
    return source.kernel(device, "blocks", name, group, ITEMS=items, **values)


def _encoding(
    codes: ClArray, scale: ClArray, offset: ClArray | None, bits: int
) -> dict[str, Any]:
    """Return the template's macros, which describe the weights."""
    count = codes.shape[-1] * (2 if bits == 4 else 1)
    block = count // scale.shape[-1]
    code = source.C[codes.dtype]
    return {"BITS": bits, "CODES": block, "OFFSET": offset is not None, "code": code}


@kernels("DequantizeBlocks")
def dequantize_blocks(
    codes: ClArray, scale: ClArray, offset: ClArray | None, *, bits: int
) -> Any:
    """Unpack all weights."""
    if scale.dtype != FLOAT32:
        return NotImplemented
    device = codes.device
    inputs = codes.shape[-1] * (2 if bits == 4 else 1)
    y = empty(device, (*codes.shape[:-1], inputs), FLOAT32)
    if y.size:
        items = source.share(device, 1)
        how = _encoding(codes, scale, offset, bits) | {"ROUNDED": 0, "M": 1}
        launch = _program(device, "unpack", 0, items, **how)
        buffers = [
            t.buffer for t in (codes, scale, scale if offset is None else offset, y)
        ]
        _launch(launch, device, codes.size, items, *buffers, codes.size)
    return y


@kernels("BlockQuantizedMatMul")
def block_matmul(
    x: ClArray,
    codes: ClArray,
    scale: ClArray,
    offset: ClArray | None,
    *,
    bits: int,
    rounded: bool,
) -> Any:
    """Multiply a few rows by the codes; for more rows, unpack the weights first."""
    outputs, blocks = scale.shape
    inputs = x.shape[-1]
    rows = math.prod(x.shape[:-1])
    how = _encoding(codes, scale, offset, bits) | {"ROUNDED": rounded, "M": rows}
    chunk = how["CODES"] // 2 if bits == 4 else how["CODES"]
    if x.dtype != FLOAT32 or not 0 < rows <= MAX_ROWS or chunk % VECTOR:
        return NotImplemented
    device = x.device
    prepared = empty(device, x.shape, FLOAT32)
    sums = empty(device, (rows, blocks), FLOAT32)
    y = empty(device, (*x.shape[:-1], outputs), FLOAT32)
    if not y.size:
        return y
    count = rows * blocks
    launch = _program(device, "prepare", 0, 1, **how)
    _launch(launch, device, count, 1, x.buffer, prepared.buffer, sums.buffer, count)
    more = scale if offset is None else offset
    arrays = (prepared, sums, codes, scale, more, y)
    buffers = [t.buffer for t in arrays]
    if device.style == "cpu":
        items = OUTPUTS_OF_AN_ITEM
        launch = _program(device, "multiply", 0, items, **how)
        work = rows * outputs * inputs
        launch(work, -(-outputs // items), *buffers, outputs, inputs)
    else:
        launch = _program(device, "multiply", GROUP_ITEMS, 1, **how)
        size = outputs * GROUP_ITEMS
        launch(size, launch.items(size), *buffers, outputs, inputs)
    return y


def _launch(launch: Launch, device: Device, n: int, items: int, *given: Any) -> None:
    """Launch a kernel for ``n`` elements; on a CPU a work item computes ``items``."""
    on_cpu = device.style == "cpu"
    launch(n, -(-n // items) if on_cpu else launch.items(n), *given)
