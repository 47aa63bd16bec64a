"""Softmax and normalization."""

from __future__ import annotations

import functools
import math
from typing import Any

from plugrad.plugin import KernelTable

from .. import source
from ..arrays import ClArray, DType, empty
from ..elementwise import elementwise
from ..moves import around
from ..runtime import Device, Launch
from .binary import kernels as binary
from .shape import transpose

kernels = KernelTable()


@functools.cache
def _program(device: Device, dtype: DType, name: str, **flags: bool) -> Launch:
    """Return a kernel of rows."""
    return source.kernel(
        device,
        name,
        width=source.width(dtype),
        rows=source.template("rows", type=source.C[dtype]),
        integer=source.SIGNED[dtype.itemsize],
        functions=source.mathematics(dtype),
        **flags,
    )


def _by_rows(launch: Launch, work: int, x: ClArray, n: int, *more: Any) -> ClArray:
    """Launch a kernel of rows of ``n``; ``work`` is how much an element makes."""
    y = empty(x.device, x.shape, x.dtype)
    if y.size:
        rows, each = y.size // n, max(1, source.BLOCK_ELEMENTS // n)
        gpu = x.device.style == "gpu"
        items = rows * source.GROUP_ITEMS["gpu"] if gpu else -(-rows // each)
        launch(y.size * work, items, x.buffer, y.buffer, rows, n, each, *more)
    return y


def _softmax(x: ClArray, axis: int, log: bool) -> ClArray:
    """Bring the axis to the end; it is not empty."""
    _, n, _ = around(x, axis)
    last = len(x.shape) - 1
    if axis != last:
        axes = [*range(last + 1)]
        axes[axis], axes[last] = last, axis
        y = _softmax(transpose(x, axes=tuple(axes)), last, log)
        return transpose(y, axes=tuple(axes))
    launch = _program(x.device, x.dtype, "softmax", LOG=log)
    return _by_rows(launch, 4, x, n)


@kernels("Softmax")
def softmax(logits: ClArray, *, axis: int) -> ClArray:
    """Shift by the maximum first, so that exp never overflows."""
    return _softmax(logits, axis, False)


@kernels("LogSoftmax")
def log_softmax(logits: ClArray, *, axis: int) -> ClArray:
    """Shift by the maximum first, so that exp never overflows."""
    return _softmax(logits, axis, True)


def _back(dy: ClArray, y: ClArray, log: bool) -> ClArray:
    """Return the gradient of softmax or its logarithm, along the last axis."""
    launch = _program(y.device, y.dtype, "softmax_grad", LOG=log)
    return _by_rows(launch, 2, y, y.shape[-1], dy.buffer)


kernels["plugrad_opencl.SoftmaxGrad"] = lambda dy, y: _back(dy, y, False)
kernels["plugrad_opencl.LogSoftmaxGrad"] = lambda dy, y: _back(dy, y, True)


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
    """Compute one factor per channel, then normalize all elements."""
    factor: ClArray = _factor(variance, epsilon=epsilon)
    if scale is not None:
        factor = binary["Multiply"](factor, scale)
    more = () if offset is None else (offset,)
    y: ClArray = (_moved if more else _scaled)(x, mean, factor, *more)
    return y


@kernels("LayerNorm")
def layer_norm(
    x: ClArray,
    scale: ClArray | None,
    offset: ClArray | None,
    *,
    axis: tuple[int, ...],
    epsilon: float,
) -> Any:
    """Normalize the last axes as rows; scale and offset have the shape of a row."""
    first = axis[0] if axis else len(x.shape)
    n, last = math.prod(x.shape[first:]), first - len(x.shape)
    if x.dtype.kind != "f" or math.prod([x.shape[i] for i in axis]) != n:
        return NotImplemented
    given = [t for t in (scale, offset) if t is not None]
    if any([t.size != n or math.prod(t.shape[last:]) != n for t in given]):
        return NotImplemented
    flags = {"SCALE": scale is not None, "OFFSET": offset is not None}
    launch = _program(x.device, x.dtype, "layer_norm", **flags)
    buffers = [(x if t is None else t).buffer for t in (scale, offset)]
    return _by_rows(launch, 1, x, n, *buffers, epsilon)
