"""Depthwise convolutions: in C, or on NumPy one kernel position at a time.

In shapes, letters stand for axes: ``n`` batch, ``p`` output positions, ``c`` input
channels, ``m`` outputs per channel, ``t`` kernel positions.
"""

import math

import numpy as np
from plugrad.geometry import Windows
from plugrad.plugin import KernelTable

from ..arrays import Array
from ..native import contiguous, describe_windows
from ..native import kernels as in_c
from ._windows import (
    as_matrix,
    core_index,
    empty_padded,
    in_blas_dtype,
    padded,
    window_index,
)
from .linalg import NOTHING, End

kernels = KernelTable()
SINGLE = in_c("depthwise_single")
ALL = in_c("depthwise")
FILTER = in_c("depthwise_filter")
MAX_LINES = 32  # input lines per row of windows, as in depthwise.c


@kernels("DepthwiseConv2dNative")
@in_blas_dtype
def conv(x: Array, filter: Array, *, geometry: Windows) -> Array:
    """Compute the result, ``nptc, tcm -> npcm`` in the notation of einsum."""
    if (z := _in_c(x, filter, geometry, False)) is not None:
        return z
    padded_x = padded(_repeated(x, geometry), geometry)
    y = np.zeros(geometry.out_shape, x.dtype)
    for row, position in zip(_rows(filter), geometry.kernel_positions, strict=True):
        y += padded_x[window_index(geometry, position)] * row
    return y


@kernels("DepthwiseConv2dNativeBackpropInput")
@in_blas_dtype
def backprop_input(dy: Array, filter: Array, *, geometry: Windows) -> Array:
    """Compute the input gradient, ``npcm, tcm -> nptc``.

    For each kernel position, add ``dy`` times the filter to the elements that windows
    read there.
    """
    if (z := _in_c(dy, filter, geometry, True)) is not None:
        return z
    *shape, c = geometry.in_shape
    k = dy.shape[-1]
    dx = empty_padded((*shape, k), geometry, dy.dtype)
    dx.fill(0)
    for row, position in zip(_rows(filter), geometry.kernel_positions, strict=True):
        dx[window_index(geometry, position)] += dy * row
    dx = dx[core_index(geometry)]
    return dx if k == c else dx.reshape(*shape, c, k // c).sum(-1, dx.dtype)


@kernels("DepthwiseConv2dNativeBackpropFilter")
@in_blas_dtype
def backprop_filter(x: Array, dy: Array, *, geometry: Windows) -> Array:
    """Compute the filter gradient, ``nptc, npcm -> tcm``."""
    k, c = dy.shape[-1], geometry.in_shape[-1]
    shape = (*geometry.window, c, k // max(c, 1))
    if x.dtype in FILTER and x.size and dy.size:
        how = describe_windows(geometry)
        both = contiguous(x, dy)
        if how is not None and both is not None:
            z = np.empty(shape, x.dtype)
            FILTER[x.dtype](how, *both, z)
            return z
    padded_x = padded(_repeated(x, geometry), geometry)
    dfilter = np.empty(shape, dy.dtype)
    for row, position in zip(_rows(dfilter), geometry.kernel_positions, strict=True):
        np.einsum(
            "pc,pc->c",
            as_matrix(padded_x[window_index(geometry, position)]),
            as_matrix(dy),
            out=row,
        )
    return dfilter


def convolved(x: Array, filter: Array, windows: Windows, end: End) -> Array | None:
    """Return ``activation(conv + bias)``, computed in C; None if C cannot do it."""
    return _in_c(x, filter, windows, False, end) if is_quick(x.dtype, windows) else None


def is_quick(dtype: np.dtype, windows: Windows) -> bool:
    """Return whether depthwise_single of depthwise.c supports these windows."""
    lines = math.prod(windows.window[:-1])
    c = windows.in_shape[-1]
    return 4 <= c == windows.out_shape[-1] and lines <= MAX_LINES and dtype in SINGLE


def _in_c(
    a: Array, filter: Array, windows: Windows, back: bool, end: End = NOTHING
) -> Array | None:
    """Return the convolution or (``back``) its input gradient, computed in C."""
    if a.dtype not in ALL:
        return None
    shape = windows.in_shape if back else windows.out_shape
    given = contiguous(a, filter)
    how = describe_windows(windows, back)
    not_empty = math.prod(shape) and a.size and filter.size
    if how is None or given is None or not not_empty:
        return None
    y = np.empty(shape, a.dtype)
    if is_quick(a.dtype, windows):
        SINGLE[a.dtype](how, *given, y, *end)
    else:
        ALL[a.dtype](how, *given, y, back)
    return y


def _rows(filter: Array) -> Array:
    """Return the filter as rows, one per kernel position: [t, cm]."""
    return filter.reshape(math.prod(filter.shape[:-2]), math.prod(filter.shape[-2:]))


def _repeated(x: Array, windows: Windows) -> Array:
    """Return ``x`` with every channel repeated once per output of the channel."""
    multiplier = windows.out_shape[-1] // x.shape[-1]
    return x if multiplier == 1 else np.repeat(x, multiplier, -1)
