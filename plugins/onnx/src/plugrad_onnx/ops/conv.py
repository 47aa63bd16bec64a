"""Convolutions and transposed convolutions with one, two or three spatial axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import plugrad as pg

from ..dtypes import is_floating
from ..registry import Value, op
from .linear import activated, activation_attrs
from .windows import WINDOW, Ints, Window, extent, to_channels_first, to_channels_last


def filter_of(w: Value, *, group: int = 1) -> Value:
    """Return a filter in the layout of plugrad kernels; a 1D filter becomes 2D."""
    w = pg.expand_dims(w, 2) if w.ndim == 3 else w
    y = pg.permute_dims(w, (*range(2, w.ndim), 1, 0))
    if w.ndim == 4 and group > 1 and w.shape[1] == 1 and w.shape[0] % group == 0:
        return pg.reshape(y, (*y.shape[:2], group, w.shape[0] // group))  # depthwise
    return y


def window_options_2d(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a 1D window for an image with one row."""
    extended = {key: (1, *options[key]) for key in ("strides", "dilations")}
    return options | extended | {"pad": ((0, 0), *options["pad"])}


@op("Filter", domain="plugrad")
def contiguous_filter(w: Value, *, group: int = 1) -> Value:
    """Return a contiguous filter; a pass inserts this op, which runs once."""
    return pg.asarray(filter_of(w, group=group), copy=True)


@op("Conv")
def conv(
    x: Value,
    w: Value,
    b: Value = None,
    *,
    window: Window = WINDOW,
    group: int = 1,
    channels_last: int = 0,
    activation: str = "linear",
    slope: float = 0.2,
) -> Value:
    n = x.ndim - 2
    if not channels_last:
        x = to_channels_last(x)
        w = filter_of(w, group=group)
    options = window.arguments(x, w.shape[-2 - n : -2])
    if n == 1:
        x = pg.expand_dims(x, 1)
        options = window_options_2d(options)
    if n < 3 and group > 1 and group == x.shape[-1]:
        options |= activation_attrs(activation, slope)
        y = pg.fused.depthwise_conv2d(x, w, b, **options)
    elif n < 3 and is_floating(x.dtype):
        options |= activation_attrs(activation, slope)
        y = pg.fused.conv2d(x, w, b, groups=group, **options)
    else:
        y = (pg.conv2d, pg.conv3d)[n == 3](x, w, groups=group, **options)
        y = activated(y if b is None else y + b, activation, slope)
    y = pg.squeeze(y, 1) if n == 1 else y
    return y if channels_last else to_channels_first(y)


@op("ConvTranspose")
def conv_transpose(
    x: Value,
    w: Value,
    b: Value = None,
    *,
    window: Window = WINDOW,
    group: int = 1,
    output_padding: Ints = (),
    output_shape: Ints = (),
    channels_last: int = 0,
) -> Value:
    n = w.ndim - 2
    pads = window.pads
    x = x if channels_last else to_channels_last(x)
    w = pg.permute_dims(w, (*range(2, w.ndim), 1, 0))
    steps = window.strides or (1,) * n
    gaps = window.dilations or (1,) * n
    extra = output_padding or (0,) * n
    sizes, pad = [], []
    for i, size in enumerate(x.shape[1:-1]):
        full = steps[i] * (size - 1) + extra[i] + extent(w.shape[i], gaps[i])
        if output_shape or window.auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            wanted = output_shape[i - n] if output_shape else size * steps[i]
            total = max(full - wanted, 0)
            half = total // 2
            upper = window.auto_pad == "SAME_UPPER"
            margins = (half, total - half) if upper else (total - half, half)
            sizes.append(wanted)
        else:
            margins = (pads[i], pads[i + n]) if pads else (0, 0)
            sizes.append(full - sum(margins))
        pad.append(margins)
    y = _transposed_conv(x, w, sizes, steps, pad, gaps, group)
    y = y if b is None else y + b
    return y if channels_last else to_channels_first(y)


def _transposed_conv(
    x: Value, w: Value, sizes: list[int], steps: Ints, pad: Any, gaps: Ints, group: int
) -> Value:
    """Run a transposed convolution; elements that no window reaches are 0."""
    functions = pg.conv1d_transpose, pg.conv2d_transpose, pg.conv3d_transpose
    function: Any = functions[len(sizes) - 1]
    reached, fill = [], []
    for i, size in enumerate(sizes):
        span = (
            (x.shape[i + 1] - 1) * steps[i] + extent(w.shape[i], gaps[i]) - sum(pad[i])
        )
        unreached = max(size - span - steps[i] + 1, 0)
        reached.append(size - unreached)
        fill.append((0, unreached))
    shape = (x.shape[0], *reached, w.shape[-2] * group)
    y = function(x, w, shape, strides=steps, pad=pad, dilations=gaps, groups=group)
    return pg.pad(y, [(0, 0), *fill, (0, 0)]) if any(f[1] for f in fill) else y


@op("Col2Im", reads=(1, 2))
def col2im(
    x: Value,
    image_shape: Value,
    block_shape: Value,
    *,
    dilations: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Value:
    """Sum overlapping blocks into an image."""
    image = image_shape.tolist()
    block = block_shape.tolist()
    n = len(image)
    steps = strides or (1,) * n
    gaps = dilations or (1,) * n
    margins = pads or (0,) * 2 * n
    padded = [image[i] + margins[i] + margins[i + n] for i in range(n)]
    counts = [(padded[i] - extent(block[i], gaps[i])) // steps[i] + 1 for i in range(n)]
    inside = np.indices(block).reshape(n, -1, 1) * np.reshape(gaps, (n, 1, 1))
    starts = np.indices(counts).reshape(n, 1, -1) * np.reshape(steps, (n, 1, 1))
    flat = np.ravel_multi_index(tuple(inside + starts), padded)
    batch = x.shape[0]
    rows = x.shape[1] // int(np.prod(block))
    values = pg.reshape(x, (batch * rows, flat.size))
    segments = pg.asarray(flat.reshape(-1))
    total = int(np.prod(padded))
    y = pg.unsorted_segment_sum(pg.permute_dims(values, (1, 0)), segments, total)
    y = pg.reshape(pg.permute_dims(y, (1, 0)), (batch, rows, *padded))
    inner = tuple(slice(margins[i], margins[i] + image[i]) for i in range(n))
    return y[(slice(None), slice(None), *inner)]
