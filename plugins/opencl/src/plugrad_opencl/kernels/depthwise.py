"""Depthwise convolutions: each channel by itself, in vectors of channels.

If a channel has several results, it is repeated, so that each copy has one.
"""

from __future__ import annotations

from plugrad.geometry import Windows
from plugrad.plugin import KernelTable

from ..arrays import ClArray, filled
from ..products import Finish
from ..reductions import along
from ..windows import Body, backward, filter_gradient, forward
from .shape import broadcast_to

kernels = KernelTable()

_BODY = Body(
    "T total = (T)(0);",
    "total = product(value, LOAD(f + (long)position * channels + c), total);",
    "*(__global T *)(y + to) = finish(total, alpha);",
    "total = product(value, LOAD(f + (long)position * channels + c), total);",
    "(T)(0)",
)
_BIAS = _BODY._replace(start="T total = LOAD(bias + c);", zero="LOAD(bias + c)")


@kernels("DepthwiseConv2dNative")
def conv(
    x: ClArray, filter: ClArray, *, geometry: Windows, finish: Finish | None = None
) -> ClArray:
    """Add ``x[c] f[c, m]`` to ``y[m]`` for each kernel position."""
    body = _BIAS if finish is not None and finish.bias is not None else _BODY
    return forward(body, _repeated(x, geometry), filter, geometry, finish=finish)[0]


@kernels("DepthwiseConv2dNativeBackpropInput")
def backprop_input(dy: ClArray, filter: ClArray, *, geometry: Windows) -> ClArray:
    """Add ``dy[m] f[c, m]`` to ``dx[c]`` for each kernel position."""
    dx = backward(_BODY, dy, filter, None, geometry)
    c, k = geometry.in_shape[-1], dy.shape[-1]
    if c == k:
        return dx
    parts = dx.view((*geometry.in_shape, k // c))
    return along("Sum", parts, (len(geometry.in_shape),), False)


@kernels("DepthwiseConv2dNativeBackpropFilter")
def backprop_filter(x: ClArray, dy: ClArray, *, geometry: Windows) -> ClArray:
    """Add ``x[c] dy[m]`` to ``df[c, m]`` for each kernel position."""
    c, k = geometry.in_shape[-1], dy.shape[-1]
    shape = (*geometry.window, c, k // c)
    if not dy.size or not x.size:
        return filled(x.device, shape, 0, x.dtype)
    df = filter_gradient(_repeated(x, geometry), dy, geometry)
    total: ClArray = along("Sum", df, (0,), False)
    return total.view(shape)


def _repeated(x: ClArray, windows: Windows) -> ClArray:
    """Return ``x`` with each channel repeated once for each of its results."""
    c, k = x.shape[-1], windows.out_shape[-1]
    if c == k:
        return x
    y = broadcast_to(x.view((*x.shape, 1)), shape=(*x.shape, k // c))
    return y.view((*x.shape[:-1], k))
