"""The positions of the windows of convolutions and pooling.

Public in ``plugrad.geometry``, which makes them.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

from . import window_numbers

Shape = tuple[int, ...]
Pair = tuple[int, int]


class Phase(NamedTuple):
    """Elements of an input axis that are read by the same kernel positions.

    Neighboring elements are one stride of the windows apart. See ``Windows.phases``.

    Attributes:
        start: The index of the first of these elements.
        size: The number of elements.
        readers: For each kernel position that reads the first element, in rising order,
            the position and the index of the window. The index may lie outside of the
            output. Element ``i`` of the phase is read by the windows ``i`` positions
            later.

    """

    start: int
    size: int
    readers: tuple[Pair, ...]


@dataclass(frozen=True)
class Windows:
    """The positions of the windows of a convolution or pooling op, along each axis.

    Shapes are channels last: batch, spatial axes, channels. Everything else has one
    entry per spatial axis. A window has ``window`` elements, ``dilations`` apart, and
    the next window begins ``strides`` later.

    Attributes:
        padding: How far the first window begins before the input, and how far the last
            one reaches past its end. No window sees padding beyond that.
        groups: The number of groups into which the channels are split, each with its
            own filters.

    """

    in_shape: Shape
    out_shape: Shape
    window: Shape
    strides: Shape
    dilations: Shape
    padding: tuple[Pair, ...]
    groups: int = 1

    def __post_init__(self) -> None:
        """Raise unless all windows lie in the padded input: kernels rely on it."""
        axes = len(self.in_shape) - 2
        each = (self.window, self.strides, self.dilations)
        for numbers in (self.in_shape, self.out_shape, *each, *self.padding):
            if not all(type(n) is int and 0 <= n < 2**59 for n in numbers):
                raise TypeError(
                    f"Windows: all sizes in {self} must be integers from 0 to below "
                    "2**59"
                )
        fits = (
            len(self.out_shape) == axes + 2
            and all(len(one) == axes and min(one, default=1) > 0 for one in each)
            and len(self.padding) == axes
            and all(len(ends) == 2 for ends in self.padding)
            and self.in_shape[0] == self.out_shape[0]
            and type(self.groups) is int
            and self.groups > 0
            and not self.in_shape[-1] % self.groups
            and not self.out_shape[-1] % self.groups
        )
        for i in range(axes if fits else 0):
            span = sum(self.padding[i]) + self.in_shape[i + 1]
            count = self.out_shape[i + 1]
            end = (count - 1) * self.strides[i] + self.extents[i]
            fits = fits and (count == 0 or end <= span)
            if max(span, self.extents[i], self.strides[i]) >= 2**31:
                raise ValueError(
                    f"Windows: {self} must span less than 2**31 elements of each "
                    "axis, padding included, because kernels index with 32-bit "
                    "integers"
                )
        if not fits:
            raise ValueError(
                f"Windows: {self}: shapes, padding and groups must agree, and all "
                "windows must lie in the padded input"
            )

    @property
    def filter_shape(self) -> Shape:
        """The filter's shape: window, input channels of a group, output channels."""
        return (*self.window, self.in_shape[-1] // self.groups, self.out_shape[-1])

    @property
    def depthwise(self) -> bool:
        """Whether each channel is a group of its own and there are several channels."""
        return self.groups == self.in_shape[-1] > 1

    @functools.cached_property
    def extents(self) -> Shape:
        """How many elements a window spans, gaps included."""
        sizes = zip(self.window, self.dilations, strict=True)
        return tuple([(k - 1) * d + 1 for k, d in sizes])

    @functools.cached_property
    def kernel_positions(self) -> tuple[Shape, ...]:
        """Positions of the first window's elements in the padded input, row by row."""
        offsets = map(range, (0,) * len(self.window), self.extents, self.dilations)
        return tuple(itertools.product(*offsets))

    @functools.cached_property
    def inside(self) -> tuple[tuple[Shape, ...], ...]:
        """For each axis and window, which of its elements lie in the input: 0 or 1."""
        found = []
        for i, n in enumerate(self.in_shape[1:-1]):
            s = self.strides[i]
            d = self.dilations[i]
            before = self.padding[i][0]
            begins = range(-before, self.out_shape[i + 1] * s - before, s)
            offsets = range(0, self.extents[i], d)
            rows = [tuple([int(0 <= b + a < n) for a in offsets]) for b in begins]
            found.append(tuple(rows))
        return tuple(found)

    @functools.cached_property
    def transposed(self) -> Windows:
        """The windows of stride 1 that carry cotangents back.

        They read a tensor of shape ``in_shape`` that is zero except for the cotangents:
        ``strides`` apart, the first one at ``extents - 1 - padding``. Window ``i``
        covers the cotangents of all windows that read element ``i`` of the input.
        """
        spatial = self.in_shape[1:-1]
        reach = (n + e - 1 for n, e in zip(spatial, self.extents, strict=True))
        return replace(
            self,
            in_shape=(self.in_shape[0], *reach, self.out_shape[-1]),
            out_shape=self.in_shape,
            strides=(1,) * len(spatial),
            padding=((0, 0),) * len(spatial),
        )

    @functools.cached_property
    def phases(self) -> tuple[tuple[Phase, ...], ...]:
        """The phases of each spatial axis; a gradient is one convolution per phase.

        The transposed windows of stride ``s`` fall into ``s`` phases. Kernel position
        ``k`` of window ``w`` reads the element ``w * s + k * dilation - padding``.
        """
        found = []
        for i, n in enumerate(self.in_shape[1:-1]):
            s = self.strides[i]
            d = self.dilations[i]
            before = self.padding[i][0]
            axis = []
            for start in range(min(s, n)):
                origins = [start + before - k * d for k in range(self.window[i])]
                readers = [(k, at // s) for k, at in enumerate(origins) if at % s == 0]
                axis.append(Phase(start, -(-(n - start) // s), tuple(readers)))
            found.append(tuple(axis))
        return tuple(found)

    @functools.cached_property
    def group(self) -> Windows:
        """The same windows over the channels of one group."""
        *x, c = self.in_shape
        *y, k = self.out_shape
        g = self.groups
        return replace(self, in_shape=(*x, c // g), out_shape=(*y, k // g), groups=1)

    def numbers(self, *, back: bool = False) -> tuple[int, ...]:
        """Return the windows as numbers, for kernels in C.

        Along an axis, window p reads with kernel position t at ``p step + first + t
        gap`` and writes at ``p stride + start``. When cotangents are carried back
        through windows of stride s, the elements ``start, start + s, ...`` of an axis
        are read by the same kernel positions: they form a phase.

        Args:
            back: Whether the kernel computes the gradient, from the output to the
                input.

        Returns:
            The batch, the channels read and written, the groups; the window of three
            axes; the number of phases; and for each phase and each of three axes: the
            size that is read, the number of windows, step, first, the number of kernel
            positions, gap, the index of the first kernel position, the increment of
            this index, the size that is written, start and stride.

        """
        return window_numbers.numbers(self, back)

    def with_leading_axis(self) -> Self:
        """Return the same windows with one more spatial axis, of size 1, in front."""
        return replace(
            self,
            in_shape=(self.in_shape[0], 1, *self.in_shape[1:]),
            out_shape=(self.out_shape[0], 1, *self.out_shape[1:]),
            window=(1, *self.window),
            strides=(1, *self.strides),
            dilations=(1, *self.dilations),
            padding=((0, 0), *self.padding),
        )


Phase.__module__ = Windows.__module__ = "plugrad.geometry"
