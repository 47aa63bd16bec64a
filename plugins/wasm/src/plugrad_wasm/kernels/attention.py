"""Attention and rotary embeddings for float32; other dtypes are decomposed."""

from __future__ import annotations

from typing import Any

from plugrad.geometry import broadcast_strides, repeated_rows
from plugrad.plugin import KernelTable

from ..arrays import Shape, WasmArray, describe, empty
from ..launch import FLOAT32, cast
from .shape import broadcast_to

kernels = KernelTable()
MAX_SIZE = 256  # maximum size of a head, as in attention.c


@kernels("Attention")
def attention(
    q: WasmArray,
    k: WasmArray,
    v: WasmArray,
    mask: WasmArray | None,
    length: WasmArray | None,
    *,
    scale: float,
    causal: bool,
) -> Any:
    """Read each key and value once for four queries, without storing the scores."""
    batch, heads, queries, size = q.shape
    groups, keys, width = v.shape[1:]
    machine = q.machine
    if q.dtype is not FLOAT32 or max(size, width) > MAX_SIZE:
        return NotImplemented
    y = empty(machine, (batch, heads, queries, width), FLOAT32)
    if not y.size:
        return y
    kind = 0
    strides: Shape = (0, 0, 0)
    if mask is not None:
        kind = 1 if mask.dtype.kind == "b" else 2
        if kind == 2 and mask.dtype is not FLOAT32:
            mask = cast(mask, dtype=FLOAT32)
        if mask.shape[3] != keys:
            mask = broadcast_to(mask, shape=(*mask.shape[:3], keys))
        strides = broadcast_strides(mask.shape, 4)[:3]
    count = 0 if length is None else length.size
    sizes = (batch, heads, groups, queries, keys, size, width, int(causal))
    numbers = machine.cached[describe]((*sizes, count, kind, *strides))
    given = [0 if x is None else x.pointer for x in (q, k, v, mask, length, y, numbers)]
    machine.callers["attention_f32"](*given, scale)
    return y


@kernels("RotaryEmbedding")
def rotary_embedding(
    x: WasmArray, cos: WasmArray, sin: WasmArray, *, interleaved: bool
) -> Any:
    """Rotate in one pass; angles may repeat along adjacent axes."""
    sizes = repeated_rows(x.shape[:-1], cos.shape[:-1])
    if x.dtype is not FLOAT32 or sizes is None:
        return NotImplemented
    y = empty(x.machine, x.shape, FLOAT32)
    if y.size:
        pointers = [t.pointer for t in (x, cos, sin, y)]
        how = (x.shape[-1], cos.shape[-1], int(interleaved))
        x.machine.callers["rotary_embedding_f32"](*pointers, *sizes, *how)
    return y
