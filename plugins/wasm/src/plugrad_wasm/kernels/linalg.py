"""Matrix products."""

from __future__ import annotations

import functools
from math import prod
from typing import Any

import numpy as np
from plugrad.geometry import broadcast
from plugrad.plugin import KernelTable

from ..arrays import Shape, WasmArray, describe, empty, writable
from ..launch import FLOAT32, Calls, wider

kernels = KernelTable()
_calls = Calls("matmul", bits=True)
NOTHING = (0, 0, 0, 0.0)  # no bias, no slopes, no activation


@kernels("BatchMatMul")
def batch_matmul(
    a: WasmArray, b: WasmArray, *, transpose_a: bool, transpose_b: bool
) -> WasmArray:
    """Transposes are strides; what broadcasts is read again."""
    return product(a, b, transpose_a, transpose_b, NOTHING)


def product(
    a: WasmArray,
    b: WasmArray,
    transpose_a: bool,
    transpose_b: bool,
    end: tuple[float, ...],
) -> Any:
    """Return ``activation(a·b + bias)``; of float32, unless ``end`` is NOTHING."""
    call = _calls[a.dtype]
    if call is None or b.dtype is not a.dtype:
        return wider(
            lambda a, b: product(a, b, transpose_a, transpose_b, end), None, (a, b)
        )
    shape, m, n, k, batches, offsets = _plan(a.shape, b.shape, transpose_a, transpose_b)
    y = empty(shape, a.dtype)
    if not (batches and m and n):
        return y
    if k == 0:
        writable(y)[...] = 0
        return y if end is NOTHING else NotImplemented
    at = 0 if offsets is None else offsets.pointer
    how = (m, n, k, transpose_a, transpose_b, batches, at)
    more = end if a.dtype is FLOAT32 else ()
    call(a.pointer, b.pointer, y.pointer, *how, *more)
    return y


@functools.lru_cache(maxsize=4096)
def _plan(
    a: Shape, b: Shape, turn_a: bool, turn_b: bool
) -> tuple[Shape, int, int, int, int, WasmArray | None]:
    """Return the shape of the product, m, n, k, the batches and where they begin."""
    m, k = a[-2:][::-1] if turn_a else a[-2:]
    n = b[-2] if turn_b else b[-1]
    batch = broadcast("matmul", a[:-2], b[:-2])
    shape = (*batch, m, n)
    if prod(b[:-2]) == 1 and not turn_a:  # one product of a large matrix
        return shape, m * prod(batch), n, k, 1, None
    if a[:-2] == b[:-2]:
        return shape, m, n, k, prod(batch), None
    begins = [*_begins(a, batch), *_begins(b, batch)]
    return shape, m, n, k, prod(batch), describe(tuple(begins))


def _begins(shape: Shape, batch: Shape) -> list[int]:
    """Return where the matrices of ``batch`` begin in an array of ``shape``."""
    numbers = np.arange(prod(shape[:-2])).reshape(shape[:-2])
    return np.broadcast_to(numbers * prod(shape[-2:]), batch).ravel().tolist()
