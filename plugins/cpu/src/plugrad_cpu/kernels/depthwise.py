"""Depthwise convolutions: in C, and of other dtypes by kernel position.

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
from ._windows import core, empty, flat, padded, seen, widened
from .linalg import NOTHING, End

kernels = KernelTable()
SINGLE = in_c("depthwise_single")
ALL = in_c("depthwise")
FILTER = in_c("depthwise_filter")
MAX_LINES = 32  # of the input per row of windows, as in depthwise.c


@kernels("DepthwiseConv2dNative")
@widened
def conv(x: Array, filter: Array, *, geometry: Windows) -> Array:
    """``nptc, tcm -> npcm``."""
    if (z := _in_c(x, filter, geometry, False)) is not None:
        return z
    seeing = padded(_repeated(x, geometry), geometry)
    y = np.zeros(geometry.out_shape, x.dtype)
    for row, position in zip(_rows(filter), geometry.kernel_positions, strict=True):
        y += seeing[seen(geometry, position)] * row
    return y


@kernels("DepthwiseConv2dNativeBackpropInput")
@widened
def backprop_input(dy: Array, filter: Array, *, geometry: Windows) -> Array:
    """``npcm, tcm -> nptc``, each kernel position added where its windows read."""
    if (z := _in_c(dy, filter, geometry, True)) is not None:
        return z
    *shape, c = geometry.in_shape
    k = dy.shape[-1]
    dx = empty((*shape, k), geometry, dy.dtype)
    dx.fill(0)
    for row, position in zip(_rows(filter), geometry.kernel_positions, strict=True):
        dx[seen(geometry, position)] += dy * row
    dx = dx[core(geometry)]
    return dx if k == c else dx.reshape(*shape, c, k // c).sum(-1, dx.dtype)


@kernels("DepthwiseConv2dNativeBackpropFilter")
@widened
def backprop_filter(x: Array, dy: Array, *, geometry: Windows) -> Array:
    """``nptc, npcm -> tcm``."""
    k, c = dy.shape[-1], geometry.in_shape[-1]
    shape = (*geometry.window, c, k // max(c, 1))
    if x.dtype in FILTER and x.size and dy.size:
        how = described(geometry)
        both = contiguous(x, dy)
        if how is not None and both is not None:
            z = np.empty(shape, x.dtype)
            FILTER[x.dtype](how, *both, z)
            return z
    seeing = padded(_repeated(x, geometry), geometry)
    dfilter = np.empty(shape, dy.dtype)
    for row, position in zip(_rows(dfilter), geometry.kernel_positions, strict=True):
        np.einsum("pc,pc->c", flat(seeing[seen(geometry, position)]), flat(dy), out=row)
    return dfilter


def convolved(x: Array, filter: Array, windows: Windows, end: End) -> Array | None:
    """Return ``activation(conv + bias)`` in C; None if there is none for this."""
    return _in_c(x, filter, windows, False, end) if is_quick(x.dtype, windows) else None


def is_quick(dtype: np.dtype, windows: Windows) -> bool:
    """Tell whether each channel has one result, and a window few enough lines."""
    lines = math.prod(windows.window[:-1])
    c = windows.in_shape[-1]
    return 4 <= c == windows.out_shape[-1] and lines <= MAX_LINES and dtype in SINGLE


def _in_c(
    a: Array, filter: Array, windows: Windows, back: bool, end: End = NOTHING
) -> Array | None:
    """Run in C: the convolution, or what carries cotangents to its input."""
    if a.dtype not in ALL:
        return None
    shape = windows.in_shape if back else windows.out_shape
    given = contiguous(a, filter)
    how = described(windows, back)
    whole = math.prod(shape) and a.size and filter.size
    if how is None or given is None or not whole:
        return None
    y = np.empty(shape, a.dtype)
    if is_quick(a.dtype, windows):
        SINGLE[a.dtype](how, *given, y, *end)
    else:
        ALL[a.dtype](how, *given, y, back)
    return y


def _rows(filter: Array) -> Array:
    """Return the filter of each position: [t, cm]."""
    return filter.reshape(math.prod(filter.shape[:-2]), math.prod(filter.shape[-2:]))


def _repeated(x: Array, windows: Windows) -> Array:
    """Return ``x`` with every channel as often as it has results."""
    multiplier = windows.out_shape[-1] // x.shape[-1]
    return x if multiplier == 1 else np.repeat(x, multiplier, -1)
