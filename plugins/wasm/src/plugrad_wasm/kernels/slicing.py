"""Slices and padding."""

from typing import Any

from plugrad.geometry import contiguous_strides
from plugrad.plugin import KernelTable, takes_bfloat16

from ..arrays import Shape, WasmArray
from ..launch import put, take
from .creation import filled

kernels = KernelTable()

Pairs = tuple[tuple[int, int], ...]


@kernels("Slice")
@takes_bfloat16
def slice_(x: WasmArray, *, begin: Shape, size: Shape) -> WasmArray:
    """Return a view if only the first axis is cut, else a copy."""
    steps = contiguous_strides(x.shape)
    first = sum([b * s for b, s in zip(begin, steps, strict=True)])
    if size[1:] == x.shape[1:]:
        return x.view(size, first)
    return take(x, size, steps, first)


@kernels("StridedSlice")
@takes_bfloat16
def strided_slice(x: WasmArray, *, begin: Shape, size: Shape, strides: Shape) -> Any:
    """Copy by strides; slices with strides of 1 are left to ``slice_``."""
    if all([s == 1 for s in strides]):
        return slice_(x, begin=begin, size=size)
    steps = contiguous_strides(x.shape)
    first = sum([b * s for b, s in zip(begin, steps, strict=True)])
    jumps = [k * s for k, s in zip(strides, steps, strict=True)]
    return take(x, size, jumps, first)


@kernels("PadV2")
@takes_bfloat16
def pad(x: WasmArray, *, paddings: Pairs, constant_values: complex) -> WasmArray:
    """Fill with the constant, and write ``x`` into the middle."""
    sizes = zip(x.shape, paddings, strict=True)
    shape = tuple([before + n + after for n, (before, after) in sizes])
    y = filled(x.machine, shape, constant_values, x.dtype)
    steps = contiguous_strides(shape)
    first = sum([b * s for (b, _), s in zip(paddings, steps, strict=True)])
    put(x, y, steps, first)
    return y
