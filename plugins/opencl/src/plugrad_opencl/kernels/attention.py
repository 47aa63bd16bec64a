"""Float32 attention in one pass, its gradient, and rotary embeddings.

Other cases are decomposed. The gradient has kernels for GPUs only.
"""

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
# The rows and keys of a tile of the gradient, by the largest size of a head. Twice as
# many tiles are in local memory as for attention itself.
GRADIENT_TILES = {64: (16, 32), 128: (8, 16)}
STATISTICS = 3  # numbers per row, as in attention_gradient.cl


@functools.cache
def _program(device: Device, name: str, items: int, mask: str, **flags: int) -> Launch:
    functions = source.mathematics(FLOAT32) if flags["ATTENTION"] else ""
    how = {"ITEMS": items, "functions": functions, "mask": mask} | flags
    width = source.width(FLOAT32)
    return source.kernel(device, "attention", name, width=width, **how)


@functools.cache
def _tiles(device: Device, file: str, name: str, mask: str, **flags: int) -> Launch:
    how: dict[str, Any] = {"functions": source.mathematics(FLOAT32), "mask": mask}
    how["parts"] = source.template("attention_parts", mask=mask)
    return source.kernel(device, file, name, TILE_ITEMS, **how, **flags)


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
    found = _arguments(q, k, v, mask, length, causal)
    if found is None:
        return NotImplemented
    shown, filled, numbers, flags = found
    buffers = [t.buffer for t in (q, k, v, shown, filled, y)]
    count = batch * heads * queries
    work, mask_type = count * keys * (size + width), source.C[shown.dtype]
    if device.style == "cpu":
        launch = _program(device, "attend", 1, mask_type, ATTENTION=1, **flags)
        launch(work, count, *buffers, *numbers, count, scale)
    else:
        flags |= {"ROWS": TILE_ROWS, "KEYS": TILE_KEYS}
        name = "attend_tiles"
        launch = _tiles(device, "attention_tiles", name, mask_type, **flags)
        blocks = batch * groups * -(-rows // TILE_ROWS)
        launch(work, blocks * TILE_ITEMS, *buffers, *numbers, scale)
    return y


@kernels("AttentionGrad")
def attention_gradient(
    dy: ClArray,
    q: ClArray,
    k: ClArray,
    v: ClArray,
    mask: ClArray | None,
    length: ClArray | None,
    *,
    scale: float,
    causal: bool,
) -> Any:
    """Compute scores three times, tile by tile, instead of storing them."""
    batch, heads, queries, size = q.shape
    groups, keys, width = v.shape[1:]
    device, rows = q.device, heads // max(groups, 1) * queries
    tile = next((t for n, t in GRADIENT_TILES.items() if max(size, width) <= n), None)
    found = _arguments(q, k, v, mask, length, causal)
    is_whole = rows >= MIN_ROWS and dy.size and k.size
    if tile is None or found is None or not is_whole or q.dtype != FLOAT32:
        return NotImplemented
    shown, filled, numbers, flags = found
    flags |= {"ROWS": tile[0], "KEYS": tile[1]}
    dq, dk, dv = (empty(device, x.shape, FLOAT32) for x in (q, k, v))
    statistics = empty(device, (*q.shape[:3], STATISTICS), FLOAT32)
    given = [t.buffer for t in (dy, q, k, v, shown, filled)]
    work = q.size // max(size, 1) * keys * (size + width)
    steps = {
        "attend_back_rows": (-(-rows // tile[0]), (dq, statistics)),
        "attend_back_keys": (-(-keys // tile[1]), (statistics, dk, dv)),
    }
    for name, (blocks, arrays) in steps.items():
        mask_type = source.C[shown.dtype]
        launch = _tiles(device, "attention_gradient", name, mask_type, **flags)
        buffers = [*given, *[t.buffer for t in arrays]]
        items = batch * groups * blocks * TILE_ITEMS
        launch(work, items, *buffers, *numbers, scale)
    return [dq, dk, dv]


def _arguments(
    q: ClArray,
    k: ClArray,
    v: ClArray,
    mask: ClArray | None,
    length: ClArray | None,
    causal: bool,
) -> tuple[ClArray, ClArray, tuple[int, ...], dict[str, int]] | None:
    """Return mask, length, numbers and flags of the kernels; None if they do not fit.

    Where there is no mask or length, ``q`` takes its place.
    """
    heads, queries, size = q.shape[1:]
    groups, keys, width = v.shape[1:]
    masked = _mask_of(mask, keys)
    if masked is None:
        return None
    given, kind, strides = masked
    lengths = 0 if length is None else 1 if length.size == 1 else 2
    flags: dict[str, int] = {"SIZE": size, "VALUE": width, "CAUSAL": causal}
    flags |= {"MASK": kind, "LENGTHS": lengths}
    numbers = (heads, groups, queries, keys, *strides)
    shown = q if given is None else given
    return shown, q if length is None else length, numbers, flags


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
