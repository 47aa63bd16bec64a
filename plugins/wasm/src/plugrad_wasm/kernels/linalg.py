"""Matrix products."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from plugrad.geometry import broadcast
from plugrad.plugin import KernelTable, takes_bfloat16

from ..arrays import BFLOAT16, Shape, WasmArray, describe, empty, writable
from ..launch import FLOAT32, INT32, Exports, cast, wider
from ..runtime import Machine
from .shape import transpose

kernels = KernelTable()
_exports = Exports("matmul", bits=True)
NOTHING: tuple[float, ...] = (0, 0, 0, 0.0)  # no bias, no slopes, no activation
FEW_ROWS = 4  # for more rows, a product in float32 is faster
PACKED_MAX_WORDS = 1 << 19  # 4-byte words of the rows that are packed together


@kernels("BatchMatMul")
@takes_bfloat16
def batch_matmul(
    a: WasmArray, b: WasmArray, *, transpose_a: bool, transpose_b: bool
) -> Any:
    """Multiply; C reads transposes by strides, and broadcast matrices several times."""
    if a.dtype is BFLOAT16:
        y = mixed_matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
        return y if y is NotImplemented else cast(y, dtype=BFLOAT16)
    return product(a, b, transpose_a, transpose_b, NOTHING)


@kernels("MixedMatMul")
@takes_bfloat16
def mixed_matmul(
    a: WasmArray, b: WasmArray, *, transpose_a: bool, transpose_b: bool
) -> Any:
    """Multiply a few rows by a bfloat16 matrix, which is read once, as it is."""
    inputs, outputs = b.shape[-2:][:: -1 if transpose_b else 1]
    rows = a.size // max(inputs, 1)
    if transpose_a or len(b.shape) != 2 or not 0 < rows <= FEW_ROWS:
        return NotImplemented
    machine = a.machine
    x = cast(a, dtype=FLOAT32)
    y = empty(machine, (*a.shape[:-1], outputs), FLOAT32)
    if y.size:
        pointers = x.pointer, b.pointer, y.pointer
        machine.callers["product_bf16"](*pointers, rows, outputs, inputs, transpose_b)
    return y


def product(
    a: WasmArray,
    b: WasmArray,
    transpose_a: bool,
    transpose_b: bool,
    end: tuple[float, ...],
) -> Any:
    """Return ``activation(a b + bias)``; an epilogue ``end`` requires float32."""
    export, machine = _exports[a.dtype], a.machine
    if export is None or b.dtype is not a.dtype:
        return wider(
            lambda a, b: product(a, b, transpose_a, transpose_b, end), None, (a, b)
        )
    plan = machine.cached[_plan](a.shape, b.shape, transpose_a, transpose_b)
    shape, m, n, k, batches, offsets = plan
    y = empty(machine, shape, a.dtype)
    if not (batches and m and n):
        return y
    if k == 0:
        writable(y)[...] = 0
        return y if end is NOTHING else NotImplemented
    at = 0 if offsets is None else offsets.pointer
    how = (m, n, k, transpose_a, transpose_b, batches, at)
    epilogue = end if a.dtype is FLOAT32 else ()
    machine.callers[export](a.pointer, b.pointer, y.pointer, *how, *epilogue)
    return y


def _plan(
    machine: Machine, a: Shape, b: Shape, turn_a: bool, turn_b: bool
) -> tuple[Shape, int, int, int, int, WasmArray | None]:
    """Return the result's shape, m, n, k, the number of batches and their offsets."""
    m, k = a[-2:][::-1] if turn_a else a[-2:]
    n = b[-2] if turn_b else b[-1]
    batch = broadcast("matmul", a[:-2], b[:-2])
    shape = (*batch, m, n)
    if prod(b[:-2]) == 1 and not turn_a:  # one product, of all rows of the batch
        return shape, m * prod(batch), n, k, 1, None
    if a[:-2] == b[:-2]:
        return shape, m, n, k, prod(batch), None
    begins = [*_offsets(a, batch), *_offsets(b, batch)]
    return shape, m, n, k, prod(batch), describe(machine, tuple(begins))


def _offsets(shape: Shape, batch: Shape) -> list[int]:
    """Return the offsets of the matrices of ``batch`` in an array of ``shape``."""
    numbers = np.arange(prod(shape[:-2])).reshape(shape[:-2])
    return np.broadcast_to(numbers * prod(shape[-2:]), batch).ravel().tolist()


def packing_sizes(rows: int, columns: int, k: int) -> tuple[int, int]:
    """Return an int8 product's workspace size in words, and how many rows it packs.

    The workspace contains the epilogue of the columns and the packed rows: see
    integer.c.
    """
    words = -(-k // 4)
    rows = min(rows, max(64, PACKED_MAX_WORDS // max(words, 1)))
    return 2 * (-(-columns // 32) * 32 + rows * words), rows


@kernels("MatMulInteger")
def matmul_integer(
    a: WasmArray, b: WasmArray, *, transpose_a: bool, transpose_b: bool
) -> Any:
    """Multiply two matrices; the workspace also contains the packed ``b``."""
    if len(a.shape) != 2 or len(b.shape) != 2 or not (a.size and b.size):
        return NotImplemented
    a = transpose(a, axes=(1, 0)) if transpose_a else a
    m, k = a.shape
    n = b.shape[1 - transpose_b]
    machine = a.machine
    wide = -(-n // 32) * 32
    size, rows = packing_sizes(m, n, k)
    size += wide * (1 + -(-k // 4))
    y = empty(machine, (m, n), INT32)
    memory = empty(machine, (size,), INT32)
    pointers = [x.pointer for x in (a, b, y, memory)]
    how = (m, n, k, a.dtype == np.int8, transpose_b, rows)
    machine.callers["matmul_integer_i8"](*pointers, *how)
    return y
