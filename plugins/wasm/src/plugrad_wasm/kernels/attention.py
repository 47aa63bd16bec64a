"""Attention, its gradient, and rotary embeddings for float32; others are decomposed."""

from __future__ import annotations

from typing import Any

from plugrad.geometry import broadcast_strides, repeated_rows
from plugrad.plugin import KernelTable

from ..arrays import WasmArray, describe, empty
from ..launch import FLOAT32, cast
from .shape import broadcast_to

kernels = KernelTable()
MAX_SIZE = 256  # maximum size of a head, as in attention.c
# The largest number of queries per group for which reading each key once for four
# queries is faster than products of blocks.
MAX_ROWS = 16
# The rows of a block, and the bytes of the scores of all blocks computed at once.
ROWS, MEMORY = 64, 1 << 20


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
    """Compute a few queries, or blocks of queries, without storing all scores."""
    heads, queries, size = q.shape[1:]
    groups, _, width = v.shape[1:]
    machine = q.machine
    if q.dtype is not FLOAT32:
        return NotImplemented
    y = empty(machine, (*q.shape[:3], width), FLOAT32)
    if not y.size:
        return y
    mask, *given = _arguments(q, k, v, mask, length, causal)
    pointers = [0 if x is None else x.pointer for x in (q, k, v, mask, length)]
    if heads // groups * queries <= MAX_ROWS and max(size, width) <= MAX_SIZE:
        numbers = machine.cached[describe](tuple(given))
        machine.callers["attention_f32"](*pointers, y.pointer, numbers.pointer, scale)
    elif k.size:
        numbers, memory = _blocks(q, given, 1)
        last = y.pointer, memory.pointer, numbers.pointer
        machine.callers["attention_blocks_f32"](*pointers, *last, scale)
    else:
        return NotImplemented
    return y


@kernels("AttentionGrad")
def attention_gradient(
    dy: WasmArray,
    q: WasmArray,
    k: WasmArray,
    v: WasmArray,
    mask: WasmArray | None,
    length: WasmArray | None,
    *,
    scale: float,
    causal: bool,
) -> Any:
    """Compute blocks of queries one after the other, without storing all scores."""
    if q.dtype is not FLOAT32 or not dy.size or not k.size:
        return NotImplemented
    machine = q.machine
    mask, *given = _arguments(q, k, v, mask, length, causal)
    gradients = [empty(machine, x.shape, FLOAT32) for x in (q, k, v)]
    numbers, memory = _blocks(q, given, 2)
    arrays = (dy, q, k, v, mask, length, *gradients, memory, numbers)
    pointers = [0 if x is None else x.pointer for x in arrays]
    machine.callers["attention_gradient_f32"](*pointers, scale)
    return gradients


def _arguments(
    q: WasmArray,
    k: WasmArray,
    v: WasmArray,
    mask: WasmArray | None,
    length: WasmArray | None,
    causal: bool,
) -> tuple[Any, ...]:
    """Return the mask as C reads it, and the AttentionSizes."""
    groups, keys, width = v.shape[1:]
    batch, heads, queries, size = q.shape
    kind: tuple[int, ...] = (0, 0, 0, 0)
    if mask is not None:
        if mask.dtype.kind != "b" and mask.dtype is not FLOAT32:
            mask = cast(mask, dtype=FLOAT32)
        if mask.shape[3] != keys:
            mask = broadcast_to(mask, shape=(*mask.shape[:3], keys))
        is_bool = mask.dtype.kind == "b"
        kind = (1 if is_bool else 2, *broadcast_strides(mask.shape, 4)[:3])
    count = 0 if length is None else length.size
    sizes = (batch, heads, groups, queries, keys, size, width, int(causal))
    return mask, *sizes, count, *kind


def _blocks(q: WasmArray, sizes: list[int], arrays: int) -> tuple[WasmArray, WasmArray]:
    """Return the argument ``numbers`` of C, and memory for this many arrays of scores.

    As many groups of heads are computed at once as there is memory for.
    """
    batch, _, groups, queries, keys, size = sizes[:6]
    rows = min(queries, ROWS)
    stride = -(-keys // 16) * 16
    slots = max(1, min(batch * groups, MEMORY // 4 // (rows * stride)))
    numbers = q.machine.cached[describe]((*sizes, rows, slots))
    memory = (slots * rows * (arrays * stride + size),)
    return numbers, empty(q.machine, memory, FLOAT32)


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
