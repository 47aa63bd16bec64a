"""Float32 attention on CPUs, and rotary embeddings; other cases are decomposed."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from plugrad.geometry import broadcast_strides, repeated_rows
from plugrad.plugin import KernelTable

from .. import source
from ..arrays import ClArray, Shape, empty
from ..runtime import Device, Launch
from .shape import broadcast_to

kernels = KernelTable()
FLOAT32 = np.dtype(np.float32)
MAX_SIZE = 256  # elements of a key or a value
MAX_ROWS = 64  # queries that share keys; for more, separate products are faster


@functools.cache
def _program(device: Device, name: str, items: int, mask: str, **flags: int) -> Launch:
    functions = source.mathematics(FLOAT32) if flags["ATTENTION"] else ""
    how = {"ITEMS": items, "functions": functions, "mask": mask} | flags
    width = source.width(FLOAT32)
    return source.kernel(device, "attention", name, width=width, **how)


@kernels("Attention")
def attention(
    q: ClArray,
    k: ClArray,
    v: ClArray,
    mask: ClArray | None,
    length: ClArray | None,
    *,
    scale: float,
    causal: bool,
) -> Any:
    """Compute each query in one pass over the keys, without storing the scores."""
    batch, heads, queries, size = q.shape
    groups, keys, width = v.shape[1:]
    device = q.device
    rows = heads // max(groups, 1) * queries
    fits = device.style == "cpu" and max(size, width) <= MAX_SIZE and rows <= MAX_ROWS
    if not fits or q.dtype != FLOAT32 or not min(size, width):
        return NotImplemented
    y = empty(device, (batch, heads, queries, width), FLOAT32)
    if not y.size:
        return y
    given, kind = q, 0
    strides: Shape = (0, 0, 0)
    if mask is not None:
        kind = 1 if mask.dtype.kind == "b" else 2
        if kind == 2 and mask.dtype != FLOAT32:
            return NotImplemented
        given = mask
        if mask.shape[3] != keys:
            given = broadcast_to(mask, shape=(*mask.shape[:3], keys))
        strides = broadcast_strides(given.shape, 4)[:3]
    lengths = 0 if length is None else 1 if length.size == 1 else 2
    flags = {"SIZE": size, "VALUE": width, "CAUSAL": causal, "LENGTHS": lengths}
    flags |= {"MASK": kind, "ATTENTION": 1}
    launch = _program(device, "attend", 1, source.C[given.dtype], **flags)
    arrays = (q, k, v, given, q if length is None else length, y)
    count = batch * heads * queries
    numbers = (heads, groups, queries, keys, *strides, count, scale)
    work = count * keys * (size + width)
    launch(work, count, *[t.buffer for t in arrays], *numbers)
    return y


@kernels("RotaryEmbedding")
def rotary_embedding(
    x: ClArray, cos: ClArray, sin: ClArray, *, interleaved: bool
) -> Any:
    """Rotate in one pass; angles may repeat along neighboring axes."""
    sizes = repeated_rows(x.shape[:-1], cos.shape[:-1])
    size, half = x.shape[-1], cos.shape[-1]
    if x.dtype != FLOAT32 or sizes is None or not half:
        return NotImplemented
    device = x.device
    y = empty(device, x.shape, FLOAT32)
    if y.size:
        items = source.share(device, size)
        flags = {"SIZE": size, "HALF": half, "INTERLEAVED": interleaved, "ATTENTION": 0}
        launch = _program(device, "rotate_rows", items, "float", **flags)
        count = y.size // size
        steps = -(-count // items) if device.style == "cpu" else count * (size - half)
        total = steps if device.style == "cpu" else launch.items(steps)
        buffers = [t.buffer for t in (x, cos, sin, y)]
        launch(y.size, total, *buffers, count, *sizes[1:])
    return y
