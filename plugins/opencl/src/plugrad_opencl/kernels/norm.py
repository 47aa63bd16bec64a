"""Softmax and normalization."""

from __future__ import annotations

import functools

import numpy as np
from plugrad.plugin import KernelTable

from .. import source
from ..arrays import ClArray, DType, empty
from ..elementwise import elementwise
from ..products import width
from ..runtime import Device, Launch
from .binary import kernels as binary
from .shape import transpose

kernels = KernelTable()


@functools.cache
def _program(device: Device, dtype: DType, log: bool) -> Launch:
    text = f"#define LOG {int(log)}\n#define DOUBLE {int(dtype.itemsize == 8)}\n"
    text += source.prelude(device.style, width(dtype))
    text += source.template(
        "softmax",
        type=source.C[dtype],
        integer=source.SIGNED[dtype.itemsize],
        functions=source.text("math"),
    )
    scalars = [None, None, *[np.int64] * 3]
    return device.kernel(text, "softmax", scalars, group=source.GROUP[device.style])


def _softmax(x: ClArray, axis: int, log: bool) -> ClArray:
    """Bring the axis to the end; it is not empty."""
    last = len(x.shape) - 1
    if axis != last:
        axes = [*range(last + 1)]
        axes[axis], axes[last] = last, axis
        y = _softmax(transpose(x, axes=tuple(axes)), last, log)
        return transpose(y, axes=tuple(axes))
    y = empty(x.device, x.shape, x.dtype)
    if y.size:
        n = x.shape[-1]
        rows, each = y.size // n, max(1, source.BLOCK // n)
        launch = _program(x.device, x.dtype, log)
        items = -(-rows // each)
        if x.device.style == "gpu":
            items = rows * source.GROUP["gpu"]
        launch(y.size * 4, items, x.buffer, y.buffer, rows, n, each)
    return y


@kernels("Softmax")
def softmax(logits: ClArray, *, axis: int) -> ClArray:
    """Shift by the maximum first, so that exp never overflows."""
    return _softmax(logits, axis, False)


@kernels("LogSoftmax")
def log_softmax(logits: ClArray, *, axis: int) -> ClArray:
    """Shift by the maximum first, so that exp never overflows."""
    return _softmax(logits, axis, True)


_factor = elementwise(
    "factor", "variance", attrs="epsilon", f="(S)1 / sqrt(variance + epsilon_)"
)
_scaled = elementwise("FusedBatchNorm", "x mean factor", f="(x - mean) * factor")
_moved = elementwise(
    "FusedBatchNorm", "x mean factor offset", f="(x - mean) * factor + offset"
)


@kernels("FusedBatchNorm")
def fused_batch_norm(
    x: ClArray,
    mean: ClArray,
    variance: ClArray,
    scale: ClArray | None,
    offset: ClArray | None,
    *,
    epsilon: float,
) -> ClArray:
    """One factor a channel, and then all at once."""
    factor: ClArray = _factor(variance, epsilon=epsilon)
    if scale is not None:
        factor = binary["Multiply"](factor, scale)
    more = () if offset is None else (offset,)
    y: ClArray = (_moved if more else _scaled)(x, mean, factor, *more)
    return y
