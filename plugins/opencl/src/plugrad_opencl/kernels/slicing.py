"""Parts of arrays, and padding."""

from __future__ import annotations

import functools
import math

import numpy as np
from plugrad.geometry import contiguous_strides
from plugrad.plugin import KernelTable, takes_bfloat16

from .. import source
from ..arrays import ClArray, DType, Shape, empty, filled
from ..moves import move, put
from ..products import table
from ..runtime import Device, Launch

kernels = KernelTable()

Pairs = tuple[tuple[int, int], ...]


@kernels("Slice")
@takes_bfloat16
def slice_(x: ClArray, *, begin: Shape, size: Shape) -> ClArray:
    """Copy from ``begin`` on."""
    order = contiguous_strides(x.shape)
    start = sum(b * s for b, s in zip(begin, order, strict=True))
    return move(x, tuple(size), order, start)


@kernels("StridedSlice")
@takes_bfloat16
def strided_slice(x: ClArray, *, begin: Shape, size: Shape, strides: Shape) -> ClArray:
    """Copy from ``begin`` on, in steps of ``strides``."""
    order = contiguous_strides(x.shape)
    start = sum(b * s for b, s in zip(begin, order, strict=True))
    longer = [s * k for s, k in zip(order, strides, strict=True)]
    return move(x, tuple(size), longer, start)


@functools.cache
def _padder(device: Device, dtype: DType, items: int) -> Launch:
    size = dtype.itemsize
    values = {"ITEMS": items, "type": source.RAW[size]}
    return source.kernel(device, "pad", width=32 // size, **values)


@kernels("PadV2")
@takes_bfloat16
def pad(x: ClArray, *, paddings: Pairs, constant_values: complex) -> ClArray:
    """Pad row by row. The last padded axis and the axes after it form the rows."""
    if any(n < 0 for pair in paddings for n in pair):
        raise ValueError(f"opencl: paddings {paddings} must not be negative")
    sizes = zip(x.shape, paddings, strict=True)
    shape = tuple([before + n + after for n, (before, after) in sizes])
    if not x.size:
        return filled(x.device, shape, constant_values, x.dtype)
    y = empty(x.device, shape, x.dtype)
    end = max([i for i, pair in enumerate(paddings) if any(pair)], default=0)
    inner = math.prod(x.shape[end + 1 :])
    before = [pair[0] for pair in paddings]
    axes = [*zip(shape, before, x.shape, strict=True)][:end]
    wide = math.prod(shape[end:]) if shape else 1
    rows = y.size // wide
    cpu = x.device.style == "cpu"
    items = source.share(x.device, wide)
    launch = _padder(x.device, x.dtype, items)
    value = np.full((), constant_values, x.dtype).view(f"u{x.dtype.itemsize}").item()
    global_size = -(-rows // items) if cpu else launch.items(y.size)
    flat = table(x.device, tuple([n for axis in axes for n in axis]) or (0,))
    m, left = (x.shape[end] * inner, before[end] * inner) if shape else (1, 0)
    numbers = (len(axes), rows, wide, m, left, value)
    launch(y.size, global_size, x.buffer, y.buffer, flat.buffer, *numbers)
    return y


@kernels("MirrorPad")
def mirror_pad(x: ClArray, *, paddings: Pairs, mode: str) -> ClArray:
    """Copy to the middle of the result, then mirror each axis at both ends."""
    y = pad(x, paddings=paddings, constant_values=0)
    skip = int(mode == "reflect")
    order = contiguous_strides(y.shape)
    for axis, (before, after) in enumerate(paddings):
        end = before + x.shape[axis]
        step = order[axis]
        back = [-s if i == axis else s for i, s in enumerate(order)]
        for n, to, at in ((before, 0, before * 2 + skip), (after, end, end - skip)):
            part = (*y.shape[:axis], n, *y.shape[axis + 1 :])
            put(y, y, part, back, order, (at - 1) * step, to * step)
    return y
