"""Shape rules that more than one room needs, as pure functions of shapes.

An op works a rule out once and hands the result to the kernel as an attribute, so no
backend ever recomputes (or disagrees about) an output shape.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

Padding = Literal["same", "valid"]
Pair = tuple[int, int]


@dataclass(frozen=True)
class Conv2DGeometry:
    """Where each window of a 2-D convolution lies (NHWC)."""

    in_shape: tuple[int, int, int, int]
    filter_shape: tuple[int, int, int, int]
    out_shape: tuple[int, int, int, int]
    strides: Pair
    dilations: Pair
    padding: tuple[Pair, Pair]

    @classmethod
    def of(
        cls,
        x: tuple[int, ...],
        filter: tuple[int, ...],
        strides: int | Pair,
        pad: Padding,
        dilations: int | Pair,
    ) -> Self:
        """Work out the geometry, or say which argument does not fit."""
        strides, dilations = _pair(strides), _pair(dilations)
        if len(x) != 4 or len(filter) != 4:
            raise ValueError(
                f"conv2d: x and filter must have rank 4, got shapes {x} and {filter}"
            )
        if x[3] != filter[2]:
            raise ValueError(
                f"conv2d: x has {x[3]} channels but filter expects {filter[2]} "
                f"(shapes {x} and {filter})"
            )
        if pad not in ("same", "valid"):
            raise ValueError(f"conv2d: pad must be 'same' or 'valid', got {pad!r}")
        sizes, pads = [], []
        for axis in (0, 1):
            extent = (filter[axis] - 1) * dilations[axis] + 1
            size, before, after = _window(x[1 + axis], extent, strides[axis], pad)
            sizes.append(size)
            pads.append((before, after))
        return cls(
            in_shape=(x[0], x[1], x[2], x[3]),
            filter_shape=(filter[0], filter[1], filter[2], filter[3]),
            out_shape=(x[0], sizes[0], sizes[1], filter[3]),
            strides=strides,
            dilations=dilations,
            padding=(pads[0], pads[1]),
        )


def _pair(value: int | Pair) -> Pair:
    return (value, value) if isinstance(value, int) else value


def _window(size: int, extent: int, stride: int, pad: Padding) -> tuple[int, int, int]:
    """Return (output size, padding before, padding after) along one axis."""
    if pad == "valid":
        return max((size - extent) // stride + 1, 0), 0, 0
    out = -(-size // stride)
    total = max((out - 1) * stride + extent - size, 0)
    return out, total // 2, total - total // 2


def axes(op: str, axis: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Return ``axis`` as sorted, non-negative axes; None means all."""
    if axis is None:
        return tuple(range(rank))
    given = (axis,) if isinstance(axis, int) else tuple(axis)
    for one in given:
        if not -rank <= one < rank:
            raise ValueError(f"{op}: axis {one} is out of range for rank {rank}")
    found = tuple(sorted({one % rank for one in given}))
    if len(found) < len(given):
        raise ValueError(f"{op}: axis {axis} names one axis twice")
    return found


def reshaped(old: tuple[int, ...], new: Sequence[int]) -> tuple[int, ...]:
    """Return ``new`` with its -1, if any, worked out."""
    size, known = math.prod(old), math.prod(n for n in new if n != -1)
    free = [i for i, n in enumerate(new) if n == -1]
    fits = len(free) == 1 and known and size % known == 0 if free else known == size
    if not fits:
        raise ValueError(f"reshape: shape {old} has {size} elements, {tuple(new)} not")
    return tuple(size // known if n == -1 else n for n in new)


def broadcast(op: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape to which all ``shapes`` broadcast, as NumPy does.

    Raises:
        ValueError: There is none.

    """
    rank = max(map(len, shapes), default=0)
    found = [1] * rank
    for shape in shapes:
        for axis, n in enumerate(shape, rank - len(shape)):
            if n != 1 and found[axis] != n:
                if found[axis] != 1:
                    listed = " and ".join(map(str, shapes))
                    raise ValueError(
                        f"{op}: shapes {listed} do not broadcast; sizes must be equal "
                        "or 1, aligned at the last axis"
                    )
                found[axis] = n
    return tuple(found)
