"""The source pixels of resized and rotated images.

Public in ``plugrad.geometry``.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

Shape = tuple[int, ...]
Table = np.ndarray[Any, Any]


def _image_shape(shape: Shape) -> Shape:
    """Check and return a shape of images whose indices fit into int32."""
    if type(shape) is not tuple or [*map(type, shape)] != [int] * 4:
        raise TypeError(f"geometry: {shape!r} must be a tuple of 4 integers")
    if min(shape) < 0 or max(shape) >= 2**31:
        raise ValueError(
            f"geometry: sizes of shape {shape} must be from 0 to {2**31 - 1}"
        )
    return shape


@dataclass(frozen=True)
class Resizing:
    """For each pixel of a resized image, its position between the source pixels.

    Shapes are batch, height, width, channels. There is a table for the rows and one for
    the columns. Positions are kept as fractions of integers, so none of them is
    rounded.
    """

    in_shape: Shape
    out_shape: Shape
    align_corners: bool
    half_pixel_centers: bool

    def __post_init__(self) -> None:
        """Raise unless each image has pixels to read; kernels rely on this."""
        (n, *size, c), (m, *new, k) = map(_image_shape, (self.in_shape, self.out_shape))
        flags = (self.align_corners, self.half_pixel_centers)
        if not all(type(flag) is bool for flag in flags):
            raise TypeError(f"Resizing: the flags of {self} must be bool")
        if (n, c) != (m, k) or not all(size + new) or all(flags):
            raise ValueError(
                f"Resizing: {self} must keep the batch and channel sizes, have at "
                "least one pixel per image, and set at most one flag"
            )

    @functools.cached_property
    def _places(self) -> list[tuple[int, Table, int]]:
        """Per axis: the old size, and positions as numerators and a denominator."""
        found = []
        for n, m in zip(self.in_shape[1:3], self.out_shape[1:3], strict=True):
            p = np.arange(m) * n
            d = m
            if self.align_corners and m > 1:
                p = np.arange(m) * (n - 1)
                d = m - 1
            elif self.half_pixel_centers:
                p = np.arange(n - m, 2 * m * n + n - m, 2 * n)
                d = 2 * m
            found.append((n, p, d))
        return found

    @functools.cached_property
    def nearest(self) -> list[Table]:
        """The nearest source pixels (int32) or, without a flag, the preceding ones."""
        up = int(self.align_corners or self.half_pixel_centers)
        return [
            np.minimum((2 * p + d * up) // (2 * d), n - 1).astype(np.int32)
            for n, p, d in self._places
        ]

    @functools.cached_property
    def linear(self) -> list[tuple[Table, Table, Table]]:
        """The pixels before and after (int32), and the latter's weight (float64)."""
        found = []
        for n, p, d in self._places:
            low = np.maximum(p // d, 0)
            high = np.minimum(-(-p // d), n - 1)
            # For a position on a pixel, half of this pixel is added twice. A weight of
            # 0 would turn an infinite pixel into NaN.
            share = np.where(low == high, 0.5, (p - low * d) / d)
            found.append((low.astype(np.int32), high.astype(np.int32), share))
        return found

    def terms(self, *, linear: bool, back: bool) -> list[tuple[Table, Table, Table]]:
        """Return the weighted sums that make up each row and each column of a result.

        Args:
            linear: Whether pixels are interpolated; if not, the nearest one is used.
            back: Whether the result is the gradient, from new images to old ones.

        Returns:
            Three arrays for the rows, and three for the columns: the index of the first
            term of each row or column, followed by the total number of terms (int32);
            the row or column that each term reads (int32); and the weight of each term
            (float64).

        """
        tables = self.linear if linear else [(t, t, 0.0 * t) for t in self.nearest]
        shape = self.in_shape if back else self.out_shape
        found = []
        for size, (low, high, share) in zip(shape[1:3], tables, strict=True):
            two = np.flatnonzero(low < high)
            to = np.concatenate([np.arange(len(low)), two])
            read = np.concatenate([low, high[two]])
            weights = np.concatenate([np.where(low < high, 1 - share, 1), share[two]])
            to, read = (read, to) if back else (to, read)
            order = np.argsort(to, kind="stable")
            starts = np.searchsorted(to[order], np.arange(size + 1)).astype(np.int32)
            found.append((starts, read[order].astype(np.int32), weights[order]))
        return found


@dataclass(frozen=True)
class Rotation:
    """The source pixel of each pixel of a rotated image; ``center`` is (x, y)."""

    height: int
    width: int
    radians: float
    center: tuple[float, float]

    def __post_init__(self) -> None:
        """Raise unless the sizes are valid, and the angle and center finite floats."""
        _image_shape((0, self.height, self.width, 0))
        numbers = (self.radians, *(self.center if type(self.center) is tuple else ()))
        if [type(v) is float and math.isfinite(v) for v in numbers] != [True] * 3:
            raise ValueError(
                f"Rotation: the angle and the center (x, y) of {self} must be finite "
                "floats"
            )

    @functools.cached_property
    def table(self) -> Table:
        """The index of each source pixel, row by row; -1 for one outside (int32)."""
        h = self.height
        w = self.width
        right, down = self.center
        sin = math.sin(self.radians)
        cos = math.cos(self.radians)
        x = np.arange(w) - right
        y = np.arange(h)[:, None] - down
        column = np.floor(x * cos - y * sin + right + 0.5)
        row = np.floor(x * sin + y * cos + down + 0.5)
        inside = (row >= 0) & (row < h) & (column >= 0) & (column < w)
        return np.where(inside, row * w + column, -1).astype(np.int32).ravel()


Resizing.__module__ = Rotation.__module__ = "plugrad.geometry"
