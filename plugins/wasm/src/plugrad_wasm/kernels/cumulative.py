"""Cumulative sums and products."""

from __future__ import annotations

import functools
from math import prod
from typing import Any

from plugrad.plugin import KernelTable

from ..arrays import WasmArray, empty
from ..launch import Exports, Kernel, wider
from .complexes import HALF, parts

kernels = KernelTable()


def scan(name: str) -> Kernel:
    """Return the kernel of a cumulative function along an axis."""
    exports = Exports(name, bits=True)

    def kernel(x: WasmArray, *, axis: int, exclusive: bool, reverse: bool) -> Any:
        export, machine = exports[x.dtype], x.machine
        if export is None:
            again = functools.partial(
                kernel, axis=axis, exclusive=exclusive, reverse=reverse
            )
            return wider(again, None, (x,))
        shape = x.shape
        y = empty(machine, shape, x.dtype)
        if y.size:
            sizes = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
            machine.callers[export](x.pointer, y.pointer, *sizes, exclusive, reverse)
        return y

    return kernel


_sum = scan("cumsum")
kernels["Cumprod"] = scan("cumprod")


@kernels("Cumsum")
def cumsum(x: WasmArray, *, axis: int, exclusive: bool, reverse: bool) -> Any:
    """Sum; for complex numbers, sum both parts separately."""
    if x.dtype not in HALF:
        return _sum(x, axis=axis, exclusive=exclusive, reverse=reverse)
    y: WasmArray = _sum(parts(x), axis=axis, exclusive=exclusive, reverse=reverse)
    return y.viewed_as(x.dtype, x.shape)
