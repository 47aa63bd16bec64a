"""Softmax and normalization."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from plugrad.plugin import KernelTable

from .. import source
from ..arrays import ClArray, DType, Shape, empty
from ..elementwise import elementwise
from ..moves import around
from ..reductions import widest
from ..runtime import Device, Launch
from .binary import kernels as binary
from .shape import transpose

kernels = KernelTable()

# How many elements of a row a GPU work item may hold. The smallest choice with which a
# work group covers the row is used.
HELD_ELEMENTS = (8, 16)
SHORT_ROW_ELEMENTS = 128  # in rows up to this length, an item holds 4 elements
WIDE_HELD_MAX_BYTES = 64  # per item of a wide group, whose items have few registers
MIN_LANES = 4  # minimum number of items that share a row


class Layout(NamedTuple):
    """How a GPU kernel distributes rows over work items.

    Attributes:
        group: The number of items in a work group.
        lanes: The number of items that share a row.
        held: The number of elements that each of these holds; 0 if a row is too long.
        vector: The number of elements that an item reads at once.

    """

    group: int
    lanes: int
    held: int
    vector: int


@functools.lru_cache(4096)
def row_layout(device: Device, itemsize: int, n: int) -> Layout:
    """Return the layout for rows of ``n`` elements.

    Rows that 256 items cannot hold get a wide group. Rows that a wide group cannot hold
    are read again for each sum.
    """
    group = source.GROUP_ITEMS[device.style]
    if device.style == "cpu":
        return Layout(group, group, 0, 1)
    choices: tuple[int, ...] = HELD_ELEMENTS
    if n > group * max(choices):
        group = widest(device)
        choices = tuple([k for k in choices if k * itemsize <= WIDE_HELD_MAX_BYTES])
    held = 4 if n <= SHORT_ROW_ELEMENTS else 0
    held = held or next((k for k in choices if n <= group * k), 0)
    if not held:
        return Layout(group, group, 0, 1)
    lanes = 1 << (-(-n // held) - 1).bit_length()
    vector = 16 // itemsize
    return Layout(group, max(lanes, MIN_LANES), held, 1 if n % vector else vector)


@functools.cache
def _program(
    device: Device, dtype: DType, layout: Layout, name: str, **flags: bool
) -> Launch:
    """Return a row kernel."""
    library = "" if name.startswith("layer_norm") else source.mathematics(dtype)
    return row_kernel(device, dtype, layout, name, flags, library)


def row_kernel(
    device: Device,
    dtype: DType,
    layout: Layout,
    name: str,
    flags: Mapping[str, bool],
    functions: str,
    arguments: str = "",
    steps: str = "",
) -> Launch:
    """Return a row kernel, or the kernel of a region around a row kernel.

    Args:
        device: The device to run on.
        dtype: The dtype of the rows.
        layout: How rows are distributed over work items.
        name: The name of the row kernel.
        flags: Macros to define in C.
        functions: C functions that the kernel calls.
        arguments: The parameters of the kernel of a region.
        steps: The macros ``PROLOGUE`` and ``EPILOGUE`` of a region.

    """
    c = source.C[dtype]
    rows = source.template(
        "rows",
        type=c,
        vector=f"{c}{layout.vector}",
        integer=source.SIGNED[dtype.itemsize],
        functions=functions,
        steps=steps,
    )
    return source.kernel(
        device,
        "layer_norm" if name == "layer_norm_grad" else name,
        "rows_region" if steps else name,
        layout.group,
        width=source.width(dtype),
        LANES=layout.lanes,
        PER=layout.held,
        VEC=layout.vector,
        FUSED=bool(steps),
        rows=rows,
        arguments=arguments,
        **flags,
    )


def _run_rows(
    name: str, flags: dict[str, bool], work: int, x: ClArray, n: int, *more: Any
) -> ClArray:
    """Run a row kernel on rows of ``n`` elements; ``work`` is the work per element."""
    y = empty(x.device, x.shape, x.dtype)
    if y.size:
        rows = y.size // n
        per_item = max(1, source.BLOCK_ELEMENTS // n)
        layout = row_layout(x.device, x.dtype.itemsize, n)
        launch = _program(x.device, x.dtype, layout, name, **flags)
        in_group = layout.group // layout.lanes
        gpu = x.device.style == "gpu"
        items = -(-rows // in_group) * layout.group if gpu else -(-rows // per_item)
        launch(y.size * work, items, x.buffer, y.buffer, rows, n, per_item, *more)
    return y


def _softmax(x: ClArray, axis: int, log: bool) -> ClArray:
    """Compute softmax along a nonempty axis; transpose if it is not the last one."""
    _, n, _ = around(x, axis)
    last = len(x.shape) - 1
    if axis != last:
        axes = [*range(last + 1)]
        axes[axis], axes[last] = last, axis
        y = _softmax(transpose(x, axes=tuple(axes)), last, log)
        return transpose(y, axes=tuple(axes))
    return _run_rows("softmax", {"LOG": log}, 4, x, n)


@kernels("Softmax")
def softmax(logits: ClArray, *, axis: int) -> ClArray:
    """Shift by the maximum first, so that exp never overflows."""
    return _softmax(logits, axis, False)


@kernels("LogSoftmax")
def log_softmax(logits: ClArray, *, axis: int) -> ClArray:
    """Shift by the maximum first, so that exp never overflows."""
    return _softmax(logits, axis, True)


def _softmax_grad(dy: ClArray, y: ClArray, log: bool) -> ClArray:
    """Return the gradient of softmax or its logarithm, along the last axis."""
    return _run_rows("softmax_grad", {"LOG": log}, 2, y, y.shape[-1], dy.buffer)


kernels["plugrad_opencl.SoftmaxGrad"] = lambda dy, y: _softmax_grad(dy, y, False)
kernels["plugrad_opencl.LogSoftmaxGrad"] = lambda dy, y: _softmax_grad(dy, y, True)


_factor = elementwise(
    "factor", "variance", attrs="epsilon", f="(S)1 / sqrt(variance + epsilon_)"
)
_scaled = elementwise("FusedBatchNorm", "x mean factor", f="(x - mean) * factor")
_scaled_and_shifted = elementwise(
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
    y: ClArray = (_scaled_and_shifted if more else _scaled)(x, mean, factor, *more)
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
    n = row_size(x, axis, scale, offset)
    if n is None:
        return NotImplemented
    flags = {"SCALE": scale is not None, "OFFSET": offset is not None, "BACK": False}
    buffers = [(x if t is None else t).buffer for t in (scale, offset)]
    return _run_rows("layer_norm", flags, 1, x, n, *buffers, epsilon)


@kernels("RMSNorm")
def rms_norm(
    x: ClArray, scale: ClArray | None, *, axis: tuple[int, ...], epsilon: float
) -> Any:
    """Normalize the last axes as rows; the scale has the shape of a row."""
    n = row_size(x, axis, scale)
    if n is None:
        return NotImplemented
    flags = {"SCALE": scale is not None, "OFFSET": False, "BACK": False, "RMS": True}
    buffer = (x if scale is None else scale).buffer
    return _run_rows("layer_norm", flags, 1, x, n, buffer, x.buffer, epsilon)


@kernels("LayerNormGrad")
def layer_norm_grad(
    dy: ClArray,
    x: ClArray,
    scale: ClArray | None,
    *,
    axis: tuple[int, ...],
    epsilon: float,
) -> Any:
    """Compute mean and variance again; scale has the shape of a row."""
    n = row_size(x, axis, scale)
    if n is None:
        return NotImplemented
    flags = {"SCALE": scale is not None, "OFFSET": False, "BACK": True}
    buffers = dy.buffer, (x if scale is None else scale).buffer
    return _run_rows("layer_norm_grad", flags, 2, x, n, *buffers, epsilon)


class Typed(Protocol):
    """An object with a shape and a dtype: an array, or the spec of a value."""

    @property
    def shape(self) -> Shape:
        """The sizes of the axes."""

    @property
    def dtype(self) -> DType:
        """The NumPy dtype."""


def row_size(x: Typed, axis: tuple[int, ...], *others: Typed | None) -> int | None:
    """Return the number of elements of a row.

    None if ``axis`` does not consist of the last axes, or if one of the others does not
    have the shape of a row.
    """
    first = axis[0] if axis else len(x.shape)
    n = math.prod(x.shape[first:])
    last = first - len(x.shape)
    if x.dtype.kind != "f" or math.prod([x.shape[i] for i in axis]) != n:
        return None
    shapes = [t.shape for t in others if t is not None]
    if any([math.prod(s) != n or math.prod(s[last:]) != n for s in shapes]):
        return None
    return n
