"""Pooling of two and three axes, and its gradients."""

from __future__ import annotations

import functools
from math import prod
from typing import Any

import numpy as np
from plugrad.geometry import Windows
from plugrad.plugin import KernelTable

from ..arrays import WasmArray, empty
from ..launch import INT32, Calls, Kernel, wider
from ._windows import forward

kernels = KernelTable()
FLOAT16 = np.dtype("float16")


def _pool(name: str) -> Kernel:
    calls = Calls(name)

    def kernel(x: WasmArray, *, geometry: Windows) -> Any:
        call = calls[x.dtype]
        if call is None:
            if x.dtype is not FLOAT16:  # padding is the least integer of its dtype
                return NotImplemented
            return wider(functools.partial(kernel, geometry=geometry), None, (x,))
        y = empty(geometry.out_shape, x.dtype)
        if prod(y.shape):
            how = forward(geometry)
            call(how.pointer, x.pointer, y.pointer)
        return y

    return kernel


max_pool, avg_pool = _pool("max_pool"), _pool("avg_pool")
kernels |= {"MaxPool": max_pool, "MaxPool3D": max_pool}
kernels |= {"AvgPool": avg_pool, "AvgPool3D": avg_pool}
_max_grad, _avg_grad = Calls("max_pool_grad"), Calls("avg_pool_grad")
_argmax = Calls("pool_argmax")


def _back(calls: Calls, geometry: Windows, dy: WasmArray, *xs: WasmArray) -> Any:
    call = calls[dy.dtype]
    if call is None or any([x.dtype is not dy.dtype for x in xs]):
        return NotImplemented
    dx = empty(geometry.in_shape, dy.dtype)
    if prod(dx.shape):
        how = forward(geometry)
        call(how.pointer, *[x.pointer for x in (dy, *xs, dx)])
    return dx


@kernels("MaxPool3DGrad")
@kernels("MaxPoolGrad")
def max_pool_grad(
    dy: WasmArray, x: WasmArray, y: WasmArray, *, geometry: Windows
) -> Any:
    """Each cotangent goes to the first tap that has the maximum."""
    return _back(_max_grad, geometry, dy, x, y)


@kernels("AvgPool3DGrad")
@kernels("AvgPoolGrad")
def avg_pool_grad(dy: WasmArray, x: WasmArray | None, *, geometry: Windows) -> Any:
    """Each tap gets its share."""
    return _back(_avg_grad, geometry, dy)


@kernels("MaxPoolWithArgmax")
def max_pool_with_argmax(
    x: WasmArray, *, geometry: Windows, include_batch_in_index: bool
) -> Any:
    """The maxima first, and then where they are."""
    call = _argmax[x.dtype]
    if call is None:
        return NotImplemented
    y = max_pool(x, geometry=geometry)
    indices = empty(geometry.out_shape, INT32)
    if prod(y.shape):
        how = forward(geometry)
        pointers = (how.pointer, x.pointer, y.pointer, indices.pointer)
        call(*pointers, include_batch_in_index)
    return y, indices
