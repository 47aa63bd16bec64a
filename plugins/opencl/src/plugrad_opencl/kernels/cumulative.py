"""Cumulative sums and products, in double precision if the device supports it."""

from __future__ import annotations

import functools

from plugrad.plugin import KernelTable

from .. import source
from ..arrays import ClArray, DType, empty
from ..elementwise import Function
from ..moves import around
from ..runtime import Device, Launch

STRIP_LINES = 64  # neighboring lines per item on a CPU

kernels = KernelTable()


@functools.cache
def _program(device: Device, dtype: DType, product: bool) -> Launch:
    narrow = source.C[dtype]
    complex_ = dtype.kind == "c"
    wide = narrow.replace("float", "double") if device.double else narrow
    join, start = "a + b", "0"
    if product:
        complex_join = "(W)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x)"
        join = complex_join if complex_ else "a * b"
        start = "(W)(1, 0)" if complex_ else "1"
    strip = STRIP_LINES if device.style == "cpu" else 1
    return source.kernel(
        device,
        "scan",
        STRIP=strip,
        type=narrow,
        wide=wide,
        join=join,
        start=start,
        widened=f"convert_{wide}",
        narrowed=f"convert_{narrow}",
    )


def _cumulative(product: bool) -> Function:
    def kernel(x: ClArray, *, axis: int, exclusive: bool, reverse: bool) -> ClArray:
        a, n, m = around(x, axis)
        y = empty(x.device, x.shape, x.dtype)
        if x.size:
            launch = _program(x.device, x.dtype, product)
            items = a * -(-m // STRIP_LINES)
            if x.device.style == "gpu":
                items = launch.items(a * m)
            sizes = (n, m, a * m, exclusive, reverse)
            launch(x.size * 4, items, x.buffer, y.buffer, *sizes)
        return y

    kernel.__qualname__ = kernel.__name__ = "Cumprod" if product else "Cumsum"
    return kernel


kernels["Cumsum"] = _cumulative(False)
kernels["Cumprod"] = _cumulative(True)
