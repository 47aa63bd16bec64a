"""Depthwise convolutions, by kernel position, in parts of the batch that fit the cache.

The inner loop of NumPy should be long, so that the filter of a kernel position is
repeated along the last output axis, and pixels that are apart in memory are copied to
a buffer.
Letters: n batch, p output positions, c channels in, m channels out of each,
t kernel positions.
"""

import math

import numpy as np
from plugrad.geometry import Windows
from plugrad.plugin import KernelTable

from ..arrays import Array
from ..native import contiguous, described
from ..native import kernels as in_c
from ._windows import add, batches, core, empty, flat, padded, read, seen, widened

kernels = KernelTable()
SINGLE, ALL = in_c("depthwise_single"), in_c("depthwise")
FILTER = in_c("depthwise_filter")
LINEAR = (None, None, 0, 0.0)  # no bias, and no activation
MOST_LINES = 32  # as in depthwise.c


@kernels("DepthwiseConv2dNative")
@widened
def conv(x: Array, filter: Array, *, geometry: Windows) -> Array:
    """``nptc, tcm -> npcm``."""
    if (z := _in_c(x, filter, geometry, False)) is not None:
        return z
    rows = _rows(filter, geometry)
    y = np.empty(geometry.out_shape, x.dtype)
    for part in batches(y):
        seeing, into = padded(_repeated(x[part], geometry), geometry), y[part]
        product = np.empty_like(into)
        for i, position in enumerate(geometry.kernel_positions):
            row, some = rows[i], read(seeing, seen(geometry, position), product)
            np.multiply(some, row, out=product if i else into)
            if i:
                np.add(into, product, out=into)
    return y


@kernels("DepthwiseConv2dNativeBackpropInput")
@widened
def backprop_input(dy: Array, filter: Array, *, geometry: Windows) -> Array:
    """``npcm, tcm -> nptc``, each kernel position added where its windows read."""
    if (z := _in_c(dy, filter, geometry, True)) is not None:
        return z
    rows = _rows(filter, geometry)
    *shape, c = geometry.in_shape
    k = dy.shape[-1]
    dx = empty((*shape, k), geometry, dy.dtype)
    dx.fill(0)
    for part in batches(dy):
        given, onto = dy[part], dx[part]
        product, buffer = np.empty((2, *given.shape), dy.dtype)
        for row, position in zip(rows, geometry.kernel_positions, strict=True):
            np.multiply(given, row, out=product)
            add(onto, seen(geometry, position), product, buffer)
    dx = dx[core(geometry)]
    return dx if k == c else dx.reshape(*shape, c, k // c).sum(-1, dx.dtype)


@kernels("DepthwiseConv2dNativeBackpropFilter")
@widened
def backprop_filter(x: Array, dy: Array, *, geometry: Windows) -> Array:
    """``nptc, npcm -> tcm``; BLAS does the sums."""
    k, c = dy.shape[-1], geometry.in_shape[-1]
    shape = (*geometry.window, c, k // max(c, 1))
    if x.dtype in FILTER and x.size and dy.size:
        how, both = described(geometry), contiguous(x, dy)
        if how is not None and both is not None:
            z = np.empty(shape, x.dtype)
            FILTER[x.dtype](how, *both, z)
            return z
    dfilter = np.zeros((len(geometry.kernel_positions), k), dy.dtype)
    for part in batches(dy):
        seeing, given = padded(_repeated(x[part], geometry), geometry), dy[part]
        product = np.empty(given.shape, dy.dtype)
        matrix = flat(product)
        ones = np.ones(len(matrix), dy.dtype)
        for row, position in zip(dfilter, geometry.kernel_positions, strict=True):
            some = read(seeing, seen(geometry, position), product)
            np.multiply(some, given, out=product)
            row += ones @ matrix
    return dfilter.reshape(shape)


def _in_c(a: Array, filter: Array, windows: Windows, back: bool) -> Array | None:
    """Run in C: the convolution, or what carries cotangents to its input."""
    if a.dtype not in ALL:
        return None
    shape = windows.in_shape if back else windows.out_shape
    given, how = contiguous(a, filter), described(windows, back)
    if (
        how is None
        or given is None
        or not (math.prod(shape) and a.size and filter.size)
    ):
        return None
    y = np.empty(shape, a.dtype)
    lines, c = math.prod(windows.window[:-1]), windows.in_shape[-1]
    quick = c == windows.out_shape[-1] and c >= 4 and lines <= MOST_LINES
    if quick and a.dtype in SINGLE:
        SINGLE[a.dtype](how, *given, y, *LINEAR)
    else:
        ALL[a.dtype](how, *given, y, back)
    return y


def _rows(filter: Array, windows: Windows) -> Array:
    """Return the filter of each position, repeated along the last axis: [t, q, cm]."""
    rows = filter.reshape(len(windows.kernel_positions), 1, windows.out_shape[-1])
    return np.repeat(rows, windows.out_shape[-2], 1)


def _repeated(x: Array, windows: Windows) -> Array:
    """Return ``x`` with every channel as often as it has results."""
    multiplier = windows.out_shape[-1] // x.shape[-1]
    return x if multiplier == 1 else np.repeat(x, multiplier, -1)
