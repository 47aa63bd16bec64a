"""Attention for few queries, and rotary embeddings: only for float32, in C."""

from __future__ import annotations

from typing import Any

import numpy as np
from plugrad.geometry import broadcast_strides, repeated_rows
from plugrad.plugin import KernelTable

from ..arrays import Array
from ..native import FLOAT32_SUFFIX, MAX_ELEMENTS, contiguous
from ..native import kernels as in_c

kernels = KernelTable()
ATTEND = in_c("attention", FLOAT32_SUFFIX)
ROTATE = in_c("rotary_embedding", FLOAT32_SUFFIX)
MAX_SIZE = 256  # maximum size of a head, as in attention.c
# The largest number of queries per group for which C is as fast as separate products.
# If C can skip keys, it is always faster.
MAX_ROWS = 16


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
    """Read each key and value once for four queries, without storing the scores."""
    batch, heads, queries, size = q.shape
    groups, keys, width = v.shape[1:]
    function = ATTEND.get(q.dtype)
    rows = heads // max(groups, 1) * queries
    leaves_out = causal or length is not None
    fits = function and max(size, width) <= MAX_SIZE
    fits = fits and (rows <= MAX_ROWS or leaves_out)
    given = contiguous(q, k, v, mask_rows(mask, keys), length) if fits else None
    y = np.empty((batch, heads, queries, width), q.dtype)
    if not function or given is None or y.size >= MAX_ELEMENTS:
        return NotImplemented
    if y.size:
        sizes = (batch, heads, groups, queries, keys, size, width, causal)
        count = 0 if length is None else length.size
        numbers = np.array([*sizes, count, *mask_numbers(given[3])], np.int32)
        function(*given, y, numbers, scale)
    return y


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
    kernels.update(Attention=attention, RotaryEmbedding=rotary_embedding)
