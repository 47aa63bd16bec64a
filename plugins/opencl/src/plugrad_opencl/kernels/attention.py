"""Float32 attention in one pass, and rotary embeddings; other cases are decomposed."""

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
# The largest number of elements of a key or a value. On a GPU, tiles of them are in
# local memory; every device has at least 32 KiB.
MAX_SIZES = {"cpu": 256, "gpu": 128}
# Queries that share keys. On a CPU, separate products are faster for more; on a GPU,
# for fewer, because one work group reads all keys.
MAX_ROWS = 64
MIN_ROWS = 16
TILE_ROWS, TILE_KEYS, TILE_ITEMS = 16, 32, 64  # of a work group on a GPU


@functools.cache
def _program(device: Device, name: str, items: int, mask: str, **flags: int) -> Launch:
    functions = source.mathematics(FLOAT32) if flags["ATTENTION"] else ""
    how = {"ITEMS": items, "functions": functions, "mask": mask} | flags
    width = source.width(FLOAT32)
    return source.kernel(device, "attention", name, width=width, **how)


@functools.cache
def _tiles(device: Device, mask: str, **flags: int) -> Launch:
    how: dict[str, Any] = {"functions": source.mathematics(FLOAT32), "mask": mask}
    how |= {"ROWS": TILE_ROWS, "KEYS": TILE_KEYS} | flags
    name = "attend_tiles"
    return source.kernel(device, "attention_tiles", name, TILE_ITEMS, **how)


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
    device, rows = q.device, heads // max(groups, 1) * queries
    if not _fits(device, rows, size, width) or q.dtype != FLOAT32:
        return NotImplemented
    y = empty(device, (batch, heads, queries, width), FLOAT32)
    if not y.size:
        return y
    masked = _mask_of(mask, keys)
    if masked is None:
        return NotImplemented
    given, kind, strides = masked
    shown = q if given is None else given
    lengths = 0 if length is None else 1 if length.size == 1 else 2
    flags = {"SIZE": size, "VALUE": width, "CAUSAL": causal}
    flags |= {"MASK": kind, "LENGTHS": lengths}
    arrays = (q, k, v, shown, q if length is None else length, y)
    buffers = [t.buffer for t in arrays]
    numbers = (heads, groups, queries, keys, *strides)
    count = batch * heads * queries
    work, mask_type = count * keys * (size + width), source.C[shown.dtype]
    if device.style == "cpu":
        launch = _program(device, "attend", 1, mask_type, ATTENTION=1, **flags)
        launch(work, count, *buffers, *numbers, count, scale)
    else:
        launch = _tiles(device, mask_type, **flags)
        blocks = batch * groups * -(-rows // TILE_ROWS)
        launch(work, blocks * TILE_ITEMS, *buffers, *numbers, scale)
    return y


def _fits(device: Device, rows: int, size: int, width: int) -> bool:
    """Return whether a kernel for the device computes attention of these sizes."""
    enough = rows <= MAX_ROWS if device.style == "cpu" else rows >= MIN_ROWS
    return (
        enough and 0 < min(size, width) <= max(size, width) <= MAX_SIZES[device.style]
    )


def _mask_of(
    mask: ClArray | None, keys: int
) -> tuple[ClArray | None, int, Shape] | None:
    """Return a mask with all keys, its kind (0: none, 1: bool, 2: float32) and strides.

    Return None for masks of other dtypes.
    """
    if mask is None:
        return None, 0, (0, 0, 0)
    kind = 1 if mask.dtype.kind == "b" else 2
    if kind == 2 and mask.dtype != FLOAT32:
        return None
    if mask.shape[3] != keys:
        mask = broadcast_to(mask, shape=(*mask.shape[:3], keys))
    return mask, kind, broadcast_strides(mask.shape, 4)[:3]


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
