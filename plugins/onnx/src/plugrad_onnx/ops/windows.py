"""Window attributes and channel layouts, shared by convolutions and pooling.

ONNX tensors are channels-first; plugrad kernels expect channels-last. A pass sets
``channels_last`` where a tensor is already channels-last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import plugrad as pg

from ..registry import Value

Ints = tuple[int, ...]


@dataclass(frozen=True)
class Window:
    """The attributes shared by convolutions and pooling."""

    auto_pad: str = "NOTSET"
    ceil_mode: int = 0
    dilations: Ints = ()
    kernel_shape: Ints = ()
    pads: Ints = ()
    strides: Ints = ()

    def arguments(self, x: Value, window: Ints) -> dict[str, Any]:
        """Return the keyword arguments of plugrad ops for channels-last input."""
        n = len(window)
        steps = self.strides or (1,) * n
        gaps = self.dilations or (1,) * n
        options: dict[str, Any] = {"strides": steps, "dilations": gaps}
        if self.auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            extra_before = self.auto_pad == "SAME_LOWER"
            pad = []
            for i, size in enumerate(x.shape[1:-1]):
                count = -(-size // steps[i])
                span = (count - 1) * steps[i] + extent(window[i], gaps[i])
                total = max(span - size, 0)
                before = (total + extra_before) // 2
                pad.append((before, total - before))
            return options | {"pad": tuple(pad)}
        pads = self.pads if self.pads and self.auto_pad == "NOTSET" else (0,) * 2 * n
        options["pad"] = tuple(zip(pads[:n], pads[n:], strict=True))
        return options | {
            "dim_rounding_mode": "ceil_inside" if self.ceil_mode else None
        }


WINDOW = Window()


def to_channels_last(x: Value) -> Value:
    """Return a channels-first tensor as channels-last."""
    return pg.permute_dims(x, (0, *range(2, x.ndim), 1))


def to_channels_first(x: Value) -> Value:
    """Return a channels-last tensor as channels-first."""
    return pg.permute_dims(x, (0, x.ndim - 1, *range(1, x.ndim - 1)))


def extent(window: int, dilation: int) -> int:
    """Return the number of elements that a dilated window spans."""
    return (window - 1) * dilation + 1
