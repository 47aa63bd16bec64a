"""Images as columns of patches, and channels as blocks of pixels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import plugrad as pg
from plugrad import Tensor

from keras_plugrad.src.keras_names import config

from ..core.variables import convert_to_tensor
from .layouts import numbers


class Windows(NamedTuple):
    """The windows along one axis."""

    size: int  # elements of a window
    number: int  # of windows
    padding: int  # zeros at each end
    places: np.ndarray[Any, Any]  # [size, count], in the padded axis


def unfold(
    input: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Tensor:
    """Return the patches of ``[batch, channels, height, width]`` as columns."""
    x = convert_to_tensor(input)
    batch, channels, *sizes = x.shape
    h, w = _windows("unfold", sizes, kernel_size, dilation, padding, stride)
    if h.padding or w.padding:
        x = pg.pad(x, [(0, 0), (0, 0), (h.padding,) * 2, (w.padding,) * 2])
    x = pg.take(x, pg.asarray(w.places), axis=3)
    x = pg.take(x, pg.asarray(h.places), axis=2)
    x = pg.permute_dims(x, (0, 1, 2, 4, 3, 5))
    return pg.reshape(x, (batch, channels * h.size * w.size, h.number * w.number))


def fold(
    x: Any,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Tensor:
    """Return the images whose pixels are sums of the patches; see ``unfold``."""
    x = convert_to_tensor(x)
    sizes = numbers("fold", "output_size", output_size, 2)
    h, w = _windows("fold", sizes, kernel_size, dilation, padding, stride)
    batch, rows, columns = x.shape
    if rows % (h.size * w.size) or columns != h.number * w.number:
        raise ValueError(
            f"fold: `x` must have the shape [batch, channels · {h.size} · {w.size}, "
            f"{h.number} · {w.number}]. Received: x.shape={x.shape}"
        )
    channels = rows // (h.size * w.size)
    x = pg.reshape(x, (batch, channels, h.size, w.size, h.number, w.number))
    x = pg.permute_dims(x, (2, 4, 0, 1, 3, 5))
    x = _added(x, h, sizes[0])
    x = pg.permute_dims(x, (3, 4, 1, 2, 0))
    return pg.permute_dims(_added(x, w, sizes[1]), (1, 2, 3, 0))


def depth_to_space(
    x: Any, block_size: int, data_format: str = "channels_last"
) -> Tensor:
    """Return images whose channels are moved into blocks of pixels.

    If the channels come last, those of one pixel of the result are adjacent in ``x``.
    If they come first, those of one block are, as in PyTorch's ``pixel_shuffle``.
    """
    x = convert_to_tensor(x)
    b = int(block_size)
    if config.standardize_data_format(data_format) == "channels_last":
        return pg.depth_to_space(x, b)
    batch, channels, height, width = x.shape
    if channels % b**2:
        raise ValueError(
            "depth_to_space: the number of channels must be a multiple of "
            f"block_size². Received: x.shape={x.shape}, block_size={b}"
        )
    y = pg.reshape(x, (batch, channels // b**2, b, b, height, width))
    y = pg.permute_dims(y, (0, 1, 4, 2, 5, 3))
    return pg.reshape(y, (batch, channels // b**2, height * b, width * b))


def space_to_depth(
    x: Any, block_size: int, data_format: str = "channels_last"
) -> Tensor:
    """Return images whose blocks become channels: the inverse of ``depth_to_space``."""
    x = convert_to_tensor(x)
    b = int(block_size)
    is_last = config.standardize_data_format(data_format) == "channels_last"
    height, width = x.shape[1:3] if is_last else x.shape[2:4]
    if height % b or width % b:
        raise ValueError(
            "space_to_depth: height and width must be multiples of block_size. "
            f"Received: x.shape={x.shape}, block_size={b}"
        )
    h, w = height // b, width // b
    if is_last:
        batch, channels = x.shape[0], x.shape[3]
        y = pg.reshape(x, (batch, h, b, w, b, channels))
        y = pg.permute_dims(y, (0, 1, 3, 2, 4, 5))
        return pg.reshape(y, (batch, h, w, b**2 * channels))
    batch, channels = x.shape[:2]
    y = pg.reshape(x, (batch, channels, h, b, w, b))
    y = pg.permute_dims(y, (0, 1, 3, 5, 2, 4))
    return pg.reshape(y, (batch, channels * b**2, h, w))


def _windows(
    op: str, sizes: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> list[Windows]:
    """Return the windows along height and width."""
    given = {
        "kernel_size": kernel_size,
        "dilation": dilation,
        "padding": padding,
        "stride": stride,
    }
    each = [numbers(op, name, value, 2) for name, value in given.items()]
    found = []
    for n, size, apart, added, step in zip(sizes, *each, strict=True):
        count = (n + 2 * added - apart * (size - 1) - 1) // step + 1
        if count < 1:
            raise ValueError(
                f"{op}: a window of {size} elements, {apart} apart, does not fit into "
                f"{n} elements with a padding of {added}; use a smaller kernel_size"
            )
        inside = np.arange(size, dtype=np.int32)[:, None] * np.int32(apart)
        places = inside + np.arange(count, dtype=np.int32) * np.int32(step)
        found.append(Windows(size, count, added, places))
    return found


def _added(x: Tensor, windows: Windows, size: int) -> Tensor:
    """Return the sums of elements with the same place, ``[size, ...]``.

    ``x`` is ``[window size, windows, ...]``.
    """
    rest = x.shape[2:]
    at = pg.asarray(windows.places.reshape(-1, 1))
    rows = pg.reshape(x, (at.shape[0], *rest))
    y = pg.scatter_nd(at, rows, (size + 2 * windows.padding, *rest))
    return y[windows.padding : windows.padding + size]
