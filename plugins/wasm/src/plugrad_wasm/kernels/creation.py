"""Kernels that create tensors, and Cast."""

from math import prod
from typing import Any

import numpy as np
from plugrad.geometry import contiguous_strides
from plugrad.plugin import KernelTable, takes_bfloat16

from ..arrays import (
    DType,
    Shape,
    WasmArray,
    WasmArrays,
    check_axes,
    empty,
    upload,
)
from ..launch import FLOAT64, INT64, cast, take
from ..runtime import Machine

kernels = KernelTable()


kernels["Cast"] = takes_bfloat16(cast)


@kernels("Bitcast")
@takes_bfloat16
def bitcast(x: WasmArray, *, dtype: DType) -> WasmArray:
    """Return a view of the same bytes; copy if they are not aligned for ``dtype``."""
    if x.pointer % dtype.itemsize:
        x = take(x, x.shape, contiguous_strides(x.shape))
    old, new = x.dtype.itemsize, dtype.itemsize
    if old > new:
        return x.viewed_as(dtype, (*x.shape, old // new))
    return x.viewed_as(dtype, x.shape[:-1] if old < new else x.shape)


@kernels("Identity")
@takes_bfloat16
def identity(x: WasmArray) -> WasmArray:
    """Share the memory: kernels never write into inputs."""
    return x


_FILL = {size: f"fill_{size}" for size in (1, 2, 4, 8, 16)}


def filled(machine: Machine, shape: Shape, value: Any, dtype: DType) -> Any:
    """Return an array filled with ``value``, which is uploaded as one element."""
    check_axes(shape)
    y = empty(machine, shape, dtype)
    element = upload(machine, np.asarray(value).astype(dtype))
    machine.callers[_FILL[dtype.itemsize]](element.pointer, y.pointer, prod(shape))
    return y


@kernels("Fill")
@takes_bfloat16
def fill(arrays: WasmArrays, *, shape: Shape, value: Any, dtype: DType) -> Any:
    """Return an array filled with one value."""
    return filled(arrays.machine, shape, value, dtype)


@kernels("ZerosLike")
@takes_bfloat16
def zeros_like(x: WasmArray) -> Any:
    """Fill with a constant; the decomposition handles strings."""
    return (
        NotImplemented if x.dtype.hasobject else filled(x.machine, x.shape, 0, x.dtype)
    )


@kernels("OnesLike")
@takes_bfloat16
def ones_like(x: WasmArray) -> Any:
    """Fill with a constant; the decomposition handles strings."""
    return (
        NotImplemented if x.dtype.hasobject else filled(x.machine, x.shape, 1, x.dtype)
    )


@kernels("Range")
def range_(
    arrays: WasmArrays, *, start: float, step: float, size: int, dtype: DType
) -> WasmArray:
    """Compute integers modulo 2^64, and other numbers in float64."""
    machine = arrays.machine
    if isinstance(start, int) and isinstance(step, int) and dtype.kind in "iu":
        y = empty(machine, (size,), INT64)
        wrapped = [(n + 2**63) % 2**64 - 2**63 for n in (start, step)]
        machine.callers["range_i64"](y.pointer, size, *wrapped)
    else:
        y = empty(machine, (size,), FLOAT64)
        machine.callers["range_f64"](y.pointer, size, start, step)
    return cast(y, dtype=dtype)
