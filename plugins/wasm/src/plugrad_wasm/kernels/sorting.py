"""Sorting."""

from __future__ import annotations

import functools
from math import prod
from typing import Any

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import WasmArray, empty
from ..launch import INT32, WIDER, Exports, cast, wider
from .reduce import SIGNED, signed, unsigned
from .shape import transpose

kernels = KernelTable()
_top_k = Exports("top_k")
_sort = Exports("sort")
PAIR = np.dtype(np.uint64)


@kernels("TopK")
def top_k(x: WasmArray, *, k: int, sorted: bool) -> Any:
    """Select the k largest; C sorts each key with its index, as one number."""
    dtype, n = x.dtype, x.shape[-1]
    if dtype in WIDER:
        values, indices = top_k(cast(x, dtype=WIDER[dtype]), k=k, sorted=sorted)
        return cast(values, dtype=dtype), indices
    if dtype in SIGNED:
        values, indices = top_k(signed(x), k=k, sorted=sorted)
        return unsigned(values, dtype), indices
    export, machine = _top_k[dtype], x.machine
    if export is None:
        return NotImplemented
    shape = (*x.shape[:-1], k)
    rows = prod(x.shape[:-1])
    values = empty(machine, shape, dtype)
    indices = empty(machine, shape, INT32)
    if rows * k:
        workspace = empty(machine, (min(rows, machine.threads), 2, n), PAIR)
        pointers = x.pointer, values.pointer, indices.pointer, workspace.pointer
        machine.callers[export](*pointers, rows, n, k, sorted, rows <= machine.threads)
    return values, indices


@kernels("Sort")
def sort(x: WasmArray, *, axis: int, descending: bool) -> Any:
    """Sort along an axis; 64-bit numbers are decomposed."""
    dtype = x.dtype
    shape = x.shape
    last = len(x.shape) - 1
    if dtype in SIGNED and dtype.itemsize == 4:
        return unsigned(sort(signed(x), axis=axis, descending=descending), dtype)
    export, machine = _sort[dtype], x.machine
    if export is None:
        again = functools.partial(sort, axis=axis, descending=descending)
        return wider(again, None, (x,))
    if axis != last:
        order = (*range(axis), *range(axis + 1, last + 1), axis)
        back = (*range(axis), last, *range(axis, last))
        y = sort(transpose(x, axes=order), axis=last, descending=descending)
        return transpose(y, axes=back)
    y = empty(machine, shape, dtype)
    if y.size:
        n = shape[-1]
        rows = prod(shape[:-1])
        workspace = empty(machine, (min(rows, machine.threads), 2, n), INT32)
        pointers = x.pointer, y.pointer, workspace.pointer
        machine.callers[export](*pointers, rows, n, descending, rows <= machine.threads)
    return y
