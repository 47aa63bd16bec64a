"""Reductions: adjacent axes are reduced together, the last axes first."""

from __future__ import annotations

import functools
from math import prod
from typing import Any

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import DType, Shape, WasmArray, empty, upload
from ..launch import BOOL, INT32, INT64, Exports, Kernel, binary, cast, wider
from ..runtime import Machine
from .complexes import HALF, parts
from .creation import filled

kernels = KernelTable()

PIECE_ELEMENTS = 32768  # elements that a piece reduces
PIECE_COLUMNS = 128  # columns of a piece, as in reduce.c

Step = tuple[Shape, int, int, int, int, float]  # shape; outer, n, inner, chunk; divisor


@functools.lru_cache(maxsize=4096)
def _plan(
    shape: Shape, axis: Shape, keepdims: bool, mean: bool
) -> tuple[Shape, tuple[Step, ...]]:
    """Return the shape of the result, and the C calls; the last divides a mean."""
    kept = [1 if i in axis else n for i, n in enumerate(shape)]
    result = tuple(
        kept if keepdims else [n for i, n in enumerate(shape) if i not in axis]
    )
    steps: list[Step] = []
    if prod(shape):
        groups: list[list[int]] = []  # sizes; whether they are reduced
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
                chunk = PIECE_ELEMENTS // min(inner, PIECE_COLUMNS)
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


def _sign(machine: Machine, dtype: DType) -> WasmArray:
    native: WasmArray = upload(machine, np.array(np.iinfo(dtype).min, dtype))
    return native


def signed(x: WasmArray) -> WasmArray:
    """Map unsigned integers to signed integers, preserving their order."""
    dtype = SIGNED[x.dtype]
    same = x.viewed_as(dtype, x.shape)
    y: WasmArray = _flip(same, x.machine.cached[_sign](dtype))
    return y


def unsigned(x: WasmArray, dtype: DType) -> WasmArray:
    """Map signed integers back to unsigned ones: the inverse of ``signed``."""
    y: WasmArray = _flip(x, x.machine.cached[_sign](x.dtype))
    return y.viewed_as(dtype, y.shape)


def fold(
    name: str, default: float, *, bits: bool = False, mean: bool = False
) -> Kernel:
    """Return the kernel of a reduction; ``default`` is the result for no elements."""
    exports = Exports(name, bits)

    def kernel(x: WasmArray, *, axis: Shape, keepdims: bool) -> Any:
        export, machine = exports[x.dtype], x.machine
        if export is None:
            return other(x, axis, keepdims)
        shape, steps = _plan(x.shape, axis, keepdims, mean)
        if not steps:
            return x.view(shape) if x.size else filled(machine, shape, default, x.dtype)
        for of_y, *arguments in steps:
            y = empty(machine, of_y, x.dtype)
            machine.callers[export](x.pointer, y.pointer, *arguments)
            x = y
        return x

    def other(x: WasmArray, axis: Shape, keepdims: bool) -> Any:
        if x.dtype in HALF and name == "sum":  # sum both parts separately
            y: WasmArray = kernel(parts(x), axis=axis, keepdims=keepdims)
            return y.viewed_as(x.dtype, y.shape[:-1])
        if x.dtype in SIGNED:
            return unsigned(kernel(signed(x), axis=axis, keepdims=keepdims), x.dtype)
        again = functools.partial(kernel, axis=axis, keepdims=keepdims)
        return wider(again, None, (x,))

    return kernel


def logical(name: str, default: bool) -> Kernel:
    """Return a logical reduction; other dtypes are cast to bool."""
    truth = fold(name, default)
    return lambda x, *, axis, keepdims: truth(
        cast(x, dtype=BOOL), axis=axis, keepdims=keepdims
    )


kernels["Sum"] = fold("sum", 0, bits=True)
kernels["Mean"] = fold("sum", float("nan"), mean=True)
kernels["Prod"] = fold("prod", 1, bits=True)
kernels["Max"] = fold("max_of", 0)  # the core rejects empty reductions
kernels["Min"] = fold("min_of", 0)
kernels["Any"] = logical("max_of", False)
kernels["All"] = logical("min_of", True)


def arg(name: str) -> Kernel:
    """Return the kernel that finds the first maximum or minimum along an axis."""
    exports = Exports(name)

    def kernel(x: WasmArray, *, axis: int) -> Any:
        export, machine = exports[x.dtype], x.machine
        if export is None and x.dtype in SIGNED:
            return kernel(signed(x), axis=axis)
        if export is None:
            return wider(lambda x: kernel(x, axis=axis), INT32, (x,))
        shape = x.shape
        lead = shape[:axis]
        rest = shape[axis + 1 :]
        y = empty(machine, (*lead, *rest), INT32)
        if prod(y.shape):
            machine.callers[export](
                x.pointer, y.pointer, prod(lead), shape[axis], prod(rest)
            )
        return y

    return kernel


kernels["ArgMax"] = arg("argmax")
kernels["ArgMin"] = arg("argmin")
