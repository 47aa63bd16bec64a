"""What convolutions and pooling share: padding, and channels first or last.

Tensors of ONNX have their channels first; kernels of plugrad have them last. A pass
sets ``channels_last`` where a tensor is turned already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plugrad as pg

from ..registry import Value

Ints = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Window:
    """The attributes that convolutions and pooling share."""

    auto_pad: str = "NOTSET"
    ceil_mode: int = 0
    dilations: Ints = ()
    kernel_shape: Ints = ()
    pads: Ints = ()
    strides: Ints = ()

    def over(self, x: Value, window: Ints) -> tuple[Ints, Ints, Pads, Pads]:
        """Return strides, dilations and both paddings for channels-last input."""
        ones = (1,) * len(window)
        steps, gaps = self.strides or ones, self.dilations or ones
        sizes = x.shape[1:-1]
        return steps, gaps, *padding(sizes, window, steps, gaps, self)


WINDOW = Window()


def last(x: Value) -> Value:
    """Return a tensor with its channels last."""
    return pg.permute_dims(x, (0, *range(2, x.ndim), 1))


def first(x: Value) -> Value:
    """Return a tensor with its channels first."""
    return pg.permute_dims(x, (0, x.ndim - 1, *range(1, x.ndim - 1)))


def extent(window: int, dilation: int) -> int:
    """Return how many elements a window spans."""
    return (window - 1) * dilation + 1


def padding(
    sizes: Sequence[int],
    window: Ints,
    strides: Ints,
    dilations: Ints,
    rule: Window,
) -> tuple[Pads, Pads]:
    """Return how far windows reach over the ends, and how far the file pads.

    They differ where a last window that is cut off is taken in (``ceil``): one that
    begins in the padding behind is left out.
    """
    n, reach, given = len(sizes), [], []
    pads, auto_pad, ceil = rule.pads, rule.auto_pad, rule.ceil_mode
    for i in range(n):
        span, stride = extent(window[i], dilations[i]), strides[i]
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            count = -(-sizes[i] // stride)
            total = max((count - 1) * stride + span - sizes[i], 0)
            small, large = total // 2, total - total // 2
            ends = (small, large) if auto_pad == "SAME_UPPER" else (large, small)
            given.append(ends)
            reach.append(ends)
            continue
        before, after = (
            (pads[i], pads[i + n]) if pads and auto_pad == "NOTSET" else (0, 0)
        )
        given.append((before, after))
        free = sizes[i] + before + after - span
        count = (-(-free // stride) if ceil else free // stride) + 1
        if ceil and (count - 1) * stride >= sizes[i] + before:
            count -= 1
        behind = (count - 1) * stride + span - sizes[i] - before
        reach.append((before, max(behind, 0) if ceil else after))
    return tuple(reach), tuple(given)
