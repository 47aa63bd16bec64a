"""Writing rows by index: the same every time, whatever the order of work."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from plugrad.plugin import KernelTable

from .. import source
from ..arrays import ClArray, DType, empty
from ..products import table
from ..runtime import Device, Launch
from .creation import filled

kernels = KernelTable()

INT32 = np.dtype(np.int32)


def _run(
    device: Device, size: int, integer: DType, name: str, n: int, width: int, *args: Any
) -> None:
    """Launch: on a CPU an item has a block of ``n`` rows."""
    cpu, items = device.style == "cpu", source.share(device, width)
    launch = _program(device, name, size, integer, items)
    launch(n * width, -(-n // items) if cpu else launch.items(n * width), *args)


@functools.cache
def _program(
    device: Device, name: str, size: int, integer: DType, items: int
) -> Launch:
    raw, c = source.RAW[size], source.C[integer]
    return source.kernel(device, "scatter", name, ITEMS=items, type=raw, integer=c)


@kernels("TensorScatterUpdate")
def tensor_scatter_update(x: ClArray, indices: ClArray, updates: ClArray) -> Any:
    """Find the last update of each place; IndexError comes at the next wait."""
    device, depth = x.device, indices.shape[-1]
    lead, width = x.shape[:depth], math.prod(x.shape[depth:])
    count, places = math.prod(indices.shape[:-1]), math.prod(lead)
    if not updates.size:
        return x
    what = f"tensor_scatter_update: {{}} is out of range for axes of sizes {lead}"
    if not places:
        raise IndexError(what.format("every index"))
    if max(count, places) >= 2**31:
        return NotImplemented
    winner = filled(device, (places,), 0, INT32)
    y = empty(device, x.shape, x.dtype)
    flag, check = device.check(what)
    run = functools.partial(_run, device, x.dtype.itemsize, indices.dtype)
    sizes = table(device, lead or (1,))
    buffers = (indices.buffer, winner.buffer, sizes.buffer, flag)
    run("number", count, 1, *buffers, check, count, depth)
    arrays = (x, updates, winner, y)
    run("settle", places, width, *[a.buffer for a in arrays], places, width)
    return y
