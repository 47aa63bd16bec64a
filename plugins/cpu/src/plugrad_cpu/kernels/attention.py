"""Attention, its gradient, and rotary embeddings: only for float32, in C."""

from __future__ import annotations

from typing import Any

import numpy as np
from plugrad.geometry import broadcast_strides, repeated_rows
from plugrad.plugin import KernelTable

from .. import native
from ..arrays import Array
from ..native import FLOAT32_SUFFIX, MAX_ELEMENTS, contiguous
from ..native import kernels as in_c

kernels = KernelTable()
ATTEND = in_c("attention", FLOAT32_SUFFIX)
ATTEND_BLOCKS = in_c("attention_blocks", FLOAT32_SUFFIX)
GRADIENT = in_c("attention_gradient", FLOAT32_SUFFIX)
ROTATE = in_c("rotary_embedding", FLOAT32_SUFFIX)
MAX_SIZE = 256  # maximum size of a head, as in attention.c
# The largest number of queries per group for which reading each key once for four
# queries is faster than products of blocks.
MAX_ROWS = 16
# The scores of a block, for each thread, and its numbers of rows.
BLOCK_BYTES, MIN_ROWS, ROWS = 1 << 19, 16, 64
SLOTS = min(native.threads(), 64) if ATTEND else 0  # at most 64 threads run kernels


def attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None,
    length: Array | None,
    *,
    scale: float,
    causal: bool,
) -> Any:
    """Compute a few queries, or a block of queries, without storing all scores."""
    if (found := _arguments(q, k, v, mask, length, causal)) is None:
        return NotImplemented
    given, sizes = found
    heads, queries = q.shape[1:3]
    groups, _, width = v.shape[1:]
    y = np.empty((*q.shape[:3], width), q.dtype)
    rows = heads // max(groups, 1) * queries
    if not y.size:
        return y
    if rows <= MAX_ROWS and max(q.shape[3], width) <= MAX_SIZE:
        ATTEND[q.dtype](*given, y, np.array(sizes, np.int32), scale)
    elif k.size:
        numbers, memory = _blocks(sizes, 1)
        ATTEND_BLOCKS[q.dtype](*given, y, memory, numbers, scale)
    else:
        return NotImplemented
    return y


def attention_gradient(
    dy: Array,
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None,
    length: Array | None,
    *,
    scale: float,
    causal: bool,
) -> Any:
    """Compute one block of queries after the other, without storing all scores."""
    found = _arguments(q, k, v, mask, length, causal)
    cotangent = contiguous(dy)
    if found is None or cotangent is None or not (dy.size and k.size):
        return NotImplemented
    given, sizes = found
    gradients = [np.empty(x.shape, x.dtype) for x in (q, k, v)]
    numbers, memory = _blocks(sizes, 2)
    GRADIENT[q.dtype](*cotangent, *given, *gradients, memory, numbers, scale)
    return gradients


def _arguments(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None,
    length: Array | None,
    causal: bool,
) -> Any:
    """Return contiguous arrays and the AttentionSizes; None if C cannot compute it."""
    batch, heads, queries, size = q.shape
    groups, keys, width = v.shape[1:]
    if q.dtype not in ATTEND or batch * heads * queries * width >= MAX_ELEMENTS:
        return None
    given = contiguous(q, k, v, mask_rows(mask, keys), length)
    if given is None:
        return None
    sizes = (batch, heads, groups, queries, keys, size, width, causal)
    count = 0 if length is None else length.size
    return given, (*sizes, count, *mask_numbers(given[3]))


def _blocks(sizes: tuple[int, ...], arrays: int) -> tuple[Array, Array]:
    """Return the argument ``numbers`` of C, and memory for this many arrays of scores.

    Each thread has memory for the scores and the queries of a block.
    """
    queries, keys, size = sizes[3:6]
    stride = -(-keys // 16) * 16
    rows = min(queries, ROWS, max(MIN_ROWS, BLOCK_BYTES // 4 // stride))
    numbers = np.array([*sizes, rows, SLOTS], np.int32)
    return numbers, np.empty(SLOTS * rows * (arrays * stride + size), np.float32)


def mask_rows(mask: Array | None, keys: int) -> Array | None:
    """Return a bool or float32 mask whose last axis has the size ``keys``."""
    if mask is None:
        return None
    mask = mask if mask.dtype == bool else mask.astype(np.float32, copy=False)
    return np.broadcast_to(mask, (*mask.shape[:3], keys))


def mask_numbers(mask: Array | None) -> tuple[int, ...]:
    """Return the kind of a contiguous mask, and its strides, for C."""
    if mask is None:
        return (0, 0, 0, 0)
    kind = 1 if mask.dtype == bool else 2
    return (kind, *broadcast_strides(mask.shape, 4)[:3])


def rotary_embedding(x: Array, cos: Array, sin: Array, *, interleaved: bool) -> Any:
    """Rotate in one pass; angles may repeat along adjacent axes."""
    function = ROTATE.get(x.dtype)
    sizes = repeated_rows(x.shape[:-1], cos.shape[:-1])
    given = contiguous(x, cos, sin) if function and sizes else None
    if not function or given is None or sizes is None:
        return NotImplemented
    y = np.empty(x.shape, x.dtype)
    if y.size:
        function(*given, y, *sizes, x.shape[-1], cos.shape[-1], interleaved)
    return y


if ATTEND:
    kernels.update(
        Attention=attention,
        AttentionGrad=attention_gradient,
        RotaryEmbedding=rotary_embedding,
    )
