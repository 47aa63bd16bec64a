"""Reductions: axes that lie side by side go together, the last ones first."""

from __future__ import annotations

import functools
from math import prod
from typing import Any

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import DType, Shape, WasmArray, empty, upload
from ..launch import BOOL, INT32, INT64, Calls, Kernel, binary, cast, wider
from .complexes import HALF, parts
from .creation import filled

kernels = KernelTable()

PART = 32768  # elements that one piece reduces
LINE = 128  # columns of a piece, as in reduce.c

Step = tuple[Shape, int, int, int, int, float]  # of y; outer, n, inner; chunk; divisor


@functools.lru_cache(maxsize=4096)
def _plan(
    shape: Shape, axis: Shape, keepdims: bool, mean: bool
) -> tuple[Shape, tuple[Step, ...]]:
    """Return the shape of the result, and the calls; a mean divides at the end."""
    kept = [1 if i in axis else n for i, n in enumerate(shape)]
    result = tuple(
        kept if keepdims else [n for i, n in enumerate(shape) if i not in axis]
    )
    steps: list[Step] = []
    if prod(shape):
        groups: list[list[int]] = []  # sizes, and whether they are reduced
        for i, n in enumerate(shape):
            if n > 1 and groups and groups[-1][1] == (i in axis):
                groups[-1][0] *= n
            elif n > 1:
                groups.append([n, i in axis])
        inner = 1
        while groups:
            n, reduced = groups.pop()
            outer = prod([m for m, _ in groups])
            while reduced and n > 1:
                chunk = PART // min(inner, LINE)
                chunk = chunk if n > 2 * chunk else n
                left = -(-n // chunk)
                steps.append(((outer, left, inner), outer, n, inner, chunk, 1.0))
                n = left
            inner *= n
    if steps:
        count = prod([shape[i] for i in axis]) if mean else 1
        steps[-1] = (result, *steps[-1][1:-1], float(count))
    return result, tuple(steps)


_flip = binary("xor")
SIGNED = {np.dtype("uint32"): INT32, np.dtype("uint64"): INT64}


@functools.cache
def _sign(dtype: DType) -> WasmArray:
    native: WasmArray = upload(np.array(np.iinfo(dtype).min, dtype))
    return native


def signed(x: WasmArray) -> WasmArray:
    """Return signed integers in the order of the unsigned ones of ``x``."""
    dtype = SIGNED[x.dtype]
    same = WasmArray(x.shape, dtype, x.pointer, x.base or x)
    y: WasmArray = _flip(same, _sign(dtype))
    return y


def unsigned(x: WasmArray, dtype: DType) -> WasmArray:
    """Return what ``signed`` has made of unsigned integers to what it was."""
    y = _flip(x, _sign(x.dtype))
    return WasmArray(y.shape, dtype, y.pointer, y)


def fold(
    name: str, nothing: float, *, bits: bool = False, mean: bool = False
) -> Kernel:
    """Return the kernel that folds by ``name``; of nothing comes ``nothing``."""
    calls = Calls(name, bits)

    def kernel(x: WasmArray, *, axis: Shape, keepdims: bool) -> Any:
        call = calls[x.dtype]
        if call is None:
            return other(x, axis, keepdims)
        shape, steps = _plan(x.shape, axis, keepdims, mean)
        if not steps:
            return x.view(shape) if x.size else filled(shape, nothing, x.dtype)
        for of_y, *how in steps:
            y = empty(of_y, x.dtype)
            call(x.pointer, y.pointer, *how)
            x = y
        return x

    def other(x: WasmArray, axis: Shape, keepdims: bool) -> Any:
        if x.dtype in HALF and name == "sum":  # real and imaginary parts by themselves
            y = kernel(parts(x), axis=axis, keepdims=keepdims)
            return WasmArray(y.shape[:-1], x.dtype, y.pointer, y.base or y)
        if x.dtype in SIGNED:
            return unsigned(kernel(signed(x), axis=axis, keepdims=keepdims), x.dtype)
        again = functools.partial(kernel, axis=axis, keepdims=keepdims)
        return wider(again, None, (x,))

    return kernel


def logical(name: str, nothing: bool) -> Kernel:
    """Return a kernel on truth values, which all dtypes have."""
    truth = fold(name, nothing)
    return lambda x, *, axis, keepdims: truth(
        cast(x, dtype=BOOL), axis=axis, keepdims=keepdims
    )


kernels["Sum"] = fold("sum", 0, bits=True)
kernels["Mean"] = fold("sum", float("nan"), mean=True)
kernels["Prod"] = fold("prod", 1, bits=True)
kernels["Max"] = fold("max_of", 0)  # which nothing has not
kernels["Min"] = fold("min_of", 0)
kernels["Any"] = logical("max_of", False)
kernels["All"] = logical("min_of", True)


def place(name: str) -> Kernel:
    """Return the kernel that finds the first of the extreme ones along an axis."""
    calls = Calls(name)

    def kernel(x: WasmArray, *, axis: int) -> Any:
        call = calls[x.dtype]
        if call is None and x.dtype in SIGNED:
            return kernel(signed(x), axis=axis)
        if call is None:
            return wider(lambda x: kernel(x, axis=axis), INT32, (x,))
        shape = x.shape
        lead, rest = shape[:axis], shape[axis + 1 :]
        y = empty((*lead, *rest), INT32)
        if prod(y.shape):
            call(x.pointer, y.pointer, prod(lead), shape[axis], prod(rest))
        return y

    return kernel


kernels["ArgMax"] = place("argmax")
kernels["ArgMin"] = place("argmin")
