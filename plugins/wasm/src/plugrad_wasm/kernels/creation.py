"""Kernels that make tensors, and Cast."""

from math import prod
from typing import Any

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import (
    DType,
    Shape,
    WasmArray,
    WasmArrays,
    check_axes,
    empty,
    upload,
)
from ..launch import FLOAT64, INT64, cast, on_host
from ..runtime import machine

kernels = KernelTable()
_strings = on_host("Cast")


@kernels("Cast")
def cast_(x: WasmArray, *, dtype: DType) -> WasmArray:
    """Integers wrap; strings are the host's."""
    y = cast(x, dtype=dtype)
    return _strings(x, dtype=dtype) if y is NotImplemented else y


@kernels("Identity")
def identity(x: WasmArray) -> WasmArray:
    """Share the memory: nobody writes to it."""
    return x


_FILL = {size: machine.kernel(f"fill_{size}") for size in (1, 2, 4, 8, 16)}


def filled(shape: Shape, value: Any, dtype: DType) -> Any:
    """Return ``value`` everywhere, from one element that is uploaded."""
    check_axes(shape)
    y = empty(shape, dtype)
    element = upload(np.asarray(value).astype(dtype))
    _FILL[dtype.itemsize](element.pointer, y.pointer, prod(shape))
    return y


@kernels("Fill")
def fill(arrays: WasmArrays, *, shape: Shape, value: Any, dtype: DType) -> Any:
    """Strings are cpu's."""
    if dtype.hasobject:
        return on_host("Fill")(None, shape=shape, value=value, dtype=dtype)
    return filled(shape, value, dtype)


@kernels("ZerosLike")
def zeros_like(x: WasmArray) -> Any:
    """Of strings, the decomposition's."""
    return NotImplemented if x.dtype.hasobject else filled(x.shape, 0, x.dtype)


@kernels("OnesLike")
def ones_like(x: WasmArray) -> Any:
    """Of strings, the decomposition's."""
    return NotImplemented if x.dtype.hasobject else filled(x.shape, 1, x.dtype)


_whole, _floating = machine.kernel("range_i64"), machine.kernel("range_f64")


@kernels("Range")
def range_(
    arrays: WasmArrays, *, start: float, step: float, size: int, dtype: DType
) -> WasmArray:
    """Whole numbers wrap, others go by float64."""
    if isinstance(start, int) and isinstance(step, int) and dtype.kind in "iu":
        y = empty((size,), INT64)
        wrapped = [(n + 2**63) % 2**64 - 2**63 for n in (start, step)]
        _whole(y.pointer, size, *wrapped)
    else:
        y = empty((size,), FLOAT64)
        _floating(y.pointer, size, start, step)
    return cast(y, dtype=dtype)
