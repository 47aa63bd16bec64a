"""Pooling over two and three axes, and its gradients."""

from __future__ import annotations

import functools
from math import prod
from typing import Any

import numpy as np
from plugrad.geometry import Windows
from plugrad.plugin import KernelTable

from ..arrays import WasmArray, empty
from ..launch import INT32, Exports, Kernel, wider
from ._windows import forward

kernels = KernelTable()
FLOAT16 = np.dtype("float16")


def _pool(name: str) -> Kernel:
    exports = Exports(name)

    def kernel(x: WasmArray, *, geometry: Windows) -> Any:
        export, machine = exports[x.dtype], x.machine
        if export is None:
            if x.dtype is not FLOAT16:  # max pooling pads with the minimum of the dtype
                return NotImplemented
            return wider(functools.partial(kernel, geometry=geometry), None, (x,))
        y = empty(machine, geometry.out_shape, x.dtype)
        if prod(y.shape):
            how = machine.cached[forward](geometry)
            machine.callers[export](how.pointer, x.pointer, y.pointer)
        return y

    return kernel


max_pool = _pool("max_pool")
avg_pool = _pool("avg_pool")
kernels |= {"MaxPool": max_pool, "MaxPool3D": max_pool}
kernels |= {"AvgPool": avg_pool, "AvgPool3D": avg_pool}
_max_grad = Exports("max_pool_grad")
_avg_grad = Exports("avg_pool_grad")
_argmax = Exports("pool_argmax")


def _backward(
    exports: Exports, geometry: Windows, dy: WasmArray, *xs: WasmArray
) -> Any:
    export, machine = exports[dy.dtype], dy.machine
    if export is None or any([x.dtype is not dy.dtype for x in xs]):
        return NotImplemented
    dx = empty(machine, geometry.in_shape, dy.dtype)
    if prod(dx.shape):
        how = machine.cached[forward](geometry)
        machine.callers[export](how.pointer, *[x.pointer for x in (dy, *xs, dx)])
    return dx


@kernels("MaxPool3DGrad")
@kernels("MaxPoolGrad")
def max_pool_grad(
    dy: WasmArray, x: WasmArray, y: WasmArray, *, geometry: Windows
) -> Any:
    """Add each cotangent to the first kernel position that has the maximum."""
    return _backward(_max_grad, geometry, dy, x, y)


@kernels("AvgPool3DGrad")
@kernels("AvgPoolGrad")
def avg_pool_grad(dy: WasmArray, x: WasmArray | None, *, geometry: Windows) -> Any:
    """Add an equal share of each cotangent to each kernel position."""
    return _backward(_avg_grad, geometry, dy)


@kernels("MaxPoolWithArgmax")
def max_pool_with_argmax(
    x: WasmArray, *, geometry: Windows, include_batch_in_index: bool
) -> Any:
    """Compute the maxima first, then their indices."""
    export, machine = _argmax[x.dtype], x.machine
    if export is None:
        return NotImplemented
    y = max_pool(x, geometry=geometry)
    indices = empty(machine, geometry.out_shape, INT32)
    if prod(y.shape):
        how = machine.cached[forward](geometry)
        pointers = (how.pointer, x.pointer, y.pointer, indices.pointer)
        machine.callers[export](*pointers, include_batch_in_index)
    return y, indices
