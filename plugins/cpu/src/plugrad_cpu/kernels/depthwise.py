"""Depthwise convolutions, tap by tap, in parts of the batch that fit the cache.

The inner loop of NumPy should be long, so that the filter of a tap is repeated along
the last axis of places, and places that are apart in memory are read into a room.
Letters: n batch, p places of windows, c channels in, m channels out of each, t taps.
"""

import numpy as np
from plugrad.geometry import Windows
from plugrad.plugin import KernelTable

from ..arrays import Array
from ._windows import add, batches, core, empty, flat, padded, read, seen, widened

kernels = KernelTable()


@kernels("DepthwiseConv2dNative")
@widened
def conv(x: Array, filter: Array, *, geometry: Windows) -> Array:
    """``nptc, tcm -> npcm``."""
    rows = _rows(filter, geometry)
    y = np.empty(geometry.out_shape, x.dtype)
    for part in batches(y):
        seeing, into = padded(_repeated(x[part], geometry), geometry), y[part]
        product = np.empty_like(into)
        for i, tap in enumerate(geometry.kernel_positions):
            row, some = rows[i], read(seeing, seen(geometry, tap), product)
            np.multiply(some, row, out=product if i else into)
            if i:
                np.add(into, product, out=into)
    return y


@kernels("DepthwiseConv2dNativeBackpropInput")
@widened
def backprop_input(dy: Array, filter: Array, *, geometry: Windows) -> Array:
    """``npcm, tcm -> nptc``, each tap added where its windows read."""
    rows = _rows(filter, geometry)
    *shape, c = geometry.in_shape
    k = dy.shape[-1]
    dx = empty((*shape, k), geometry, dy.dtype)
    dx.fill(0)
    for part in batches(dy):
        given, onto = dy[part], dx[part]
        product, room = np.empty((2, *given.shape), dy.dtype)
        for row, tap in zip(rows, geometry.kernel_positions, strict=True):
            np.multiply(given, row, out=product)
            add(onto, seen(geometry, tap), product, room)
    dx = dx[core(geometry)]
    return dx if k == c else dx.reshape(*shape, c, k // c).sum(-1, dx.dtype)


@kernels("DepthwiseConv2dNativeBackpropFilter")
@widened
def backprop_filter(x: Array, dy: Array, *, geometry: Windows) -> Array:
    """``nptc, npcm -> tcm``; BLAS does the sums."""
    k = dy.shape[-1]
    dfilter = np.zeros((len(geometry.kernel_positions), k), dy.dtype)
    for part in batches(dy):
        seeing, given = padded(_repeated(x[part], geometry), geometry), dy[part]
        product = np.empty(given.shape, dy.dtype)
        matrix = flat(product)
        ones = np.ones(len(matrix), dy.dtype)
        for row, tap in zip(dfilter, geometry.kernel_positions, strict=True):
            some = read(seeing, seen(geometry, tap), product)
            np.multiply(some, given, out=product)
            row += ones @ matrix
    c = geometry.in_shape[-1]
    return dfilter.reshape(*geometry.window, c, k // c)


def _rows(filter: Array, windows: Windows) -> Array:
    """Return the filter of each tap, ``[t, q, cm]``, repeated along the last places."""
    rows = filter.reshape(len(windows.kernel_positions), 1, windows.out_shape[-1])
    return np.repeat(rows, windows.out_shape[-2], 1)


def _repeated(x: Array, windows: Windows) -> Array:
    """Return ``x`` with every channel as often as it has results."""
    multiplier = windows.out_shape[-1] // x.shape[-1]
    return x if multiplier == 1 else np.repeat(x, multiplier, -1)
