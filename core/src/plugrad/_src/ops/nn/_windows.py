"""Layouts and windows, shared by convolutions and pooling.

Contents: arguments of ops and kernels, and contract checks; ``FORMATS`` and
``channels_last``; ``window_values`` and ``insert_zeros``, which read and write windows;
``gather_winners`` and ``scatter_to_winners``, which read and write one position of each
window; ``columns``, ``grouped`` and ``ungrouped``, which arrange windows as matrices.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from plugrad._src.engine.dispatch import run
from plugrad._src.ops.array import slicing
from plugrad._src.ops.basis import _convert, binary, compare, creation, shape
from plugrad._src.registry.contract import Spec
from plugrad._src.tensor.arguments import choice, integer, misfit
from plugrad._src.tensor.dtypes import BOOL, INT32, DType, dtype_kind
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import Padding, Pair, Shape, Sizes, rank

if TYPE_CHECKING:
    from plugrad.geometry import Windows

Options = dict[str, Any]

# --- arguments and contracts -----------------------------------------------------

# The attributes of ops and of ``run_kernel`` that determine the windows.
OPTIONS = ("strides", "pad", "dilations", "dim_rounding_mode", "groups")


def window_options(
    strides: Sizes, pad: Padding, dilations: Sizes, mode: str | None, groups: int = 1
) -> Options:
    """Convert the arguments of an op to those of ``geometry.windows``."""
    options: Options = {"strides": strides, "pad": pad, "dilations": dilations}
    return options | {"dim_rounding_mode": mode, "groups": groups}


def to_contract(
    given: Options, rule: Callable[..., Windows], *shapes: Any, dy: Spec | None = None
) -> Options:
    """Convert the user's attributes, such as strides and pad, to the contract's.

    ``rule`` is the ``geometry`` function that computes the windows; ``shapes`` are its
    first arguments. The shape of ``dy`` determines the number of windows.
    """
    options = {name: given.pop(name) for name in OPTIONS if name in given}
    if "groups" in options:
        options["groups"] = integer("run_kernel", "groups", options["groups"], 1)
    sizes = {} if dy is None else {"output_sizes": dy.shape[1:-1]}
    windows = rule("run_kernel", *shapes, **options, **sizes)
    if options.get("groups", windows.groups) != windows.groups:
        wanted = f"must be {windows.groups}; leave it out"
        raise ValueError(f"run_kernel: groups {options['groups']} {wanted}")
    return {"geometry": windows, **given}


def check(
    windows: Windows, spatial: int, *rows: tuple[str, Spec | None, Shape]
) -> None:
    """Raise unless there are ``spatial`` axes and all tensors match the windows.

    Each of ``rows`` is a name, a spec (None for a missing input) and the required
    shape.
    """
    rank("geometry", "the input", windows.in_shape, spatial)
    for name, x, wanted in rows:
        if x is not None:
            check_shape("geometry", name, x.shape, wanted)


def check_channels(windows: Windows) -> None:
    """Raise unless each channel has its own windows, as in pooling."""
    c, k = windows.in_shape[-1], windows.out_shape[-1]
    if windows.groups != 1 or c != k:
        raise ValueError(
            f"geometry: there must be one group and as many output as input channels, "
            f"got {windows.groups} groups, {c} input and {k} output channels"
        )


# --- layouts ---------------------------------------------------------------------

FORMATS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}


def channels_last(
    op: str, x: Tensor, spatial: int, data_format: str
) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Return ``x`` with a batch axis and channels last, and the inverse conversion.

    The inverse converts a result to the layout of ``x``.
    """
    last, first = FORMATS[spatial]
    choice(op, "data_format", data_format, last, first)
    full = spatial + 2
    single = len(x.shape) == spatial + 1
    if data_format == last and len(x.shape) == full:
        return x, _unchanged
    if len(x.shape) != full and not single:
        raise misfit(op, f"x must have rank {full}, or {full - 1} without a batch", x)
    if single:
        x = shape.reshape(x, (1, *x.shape))
    if data_format == first:
        x = shape.permute_dims(x, (0, *range(2, full), 1))

    def restore_layout(y: Tensor) -> Tensor:
        if data_format == first:
            y = shape.permute_dims(y, (0, full - 1, *range(1, full - 1)))
        return shape.reshape(y, y.shape[1:]) if single else y

    return x, restore_layout


def _unchanged(y: Tensor) -> Tensor:
    return y


def numbers(op: str, *values: TensorLike) -> list[Tensor]:
    """Return tensors of the same dtype; bool becomes int32, as in ``matmul``."""
    xs = _convert.promote_all(op, *values)
    if dtype_kind(xs[0].dtype) in "fiuc":
        return xs
    xs = [_convert.numbers(op, x) for x in xs]
    return [creation.cast(x, INT32) if x.dtype is BOOL else x for x in xs]


def check_shape(op: str, what: str, got: Shape, wanted: Shape) -> None:
    """Raise unless a shape is the one the windows require."""
    if got != wanted:
        raise ValueError(f"{op}: {what} must have shape {wanted}, got {got}")


# --- reading and writing windows -------------------------------------------------


def padded(x: Tensor, padding: Sequence[Pair], value: float = 0) -> Tensor:
    """Return ``x`` padded with ``value`` along its spatial axes."""
    if not any(map(any, padding)):
        return x
    return slicing.pad(x, [(0, 0), *padding, (0, 0)], constant_values=value)


def window_values(x: Tensor, windows: Windows, value: float = 0) -> list[Tensor]:
    """Return, for each kernel position, the element at that position of every window.

    Each tensor has the shape ``[batch, *output_sizes, channels]``; ``x`` is padded with
    ``value``.
    """
    x = padded(x, windows.padding, value)
    size = (x.shape[0], *windows.out_shape[1:-1], x.shape[-1])
    strides = (1, *windows.strides, 1)
    return [
        strided_part(x, (0, *position, 0), size, strides)
        for position in windows.kernel_positions
    ]


def strided_part(x: Tensor, begin: Shape, size: Shape, strides: Shape) -> Tensor:
    """Return ``size`` elements of ``x``, beginning at ``begin``, ``strides`` apart."""
    if size == x.shape and min(strides) > 0:
        return x
    if 0 in size:  # an empty axis must begin at 0
        begin = tuple([b if n else 0 for b, n in zip(begin, size, strict=True)])
    return run(slicing.STRIDED_SLICE, x, begin=begin, size=size, strides=strides)


def insert_zeros(dy: Tensor, windows: Windows) -> Tensor:
    """Insert zeros into ``dy``, for the windows of ``windows.transposed``.

    Its elements end up ``strides`` apart, by means of a reshape, a pad and a reshape.
    """
    n, *counts, c = dy.shape
    if max(windows.strides) > 1:
        y = shape.reshape(dy, (n, *(m for place in counts for m in (place, 1)), c))
        gaps = [gap for s in windows.strides for gap in ((0, 0), (0, s - 1))]
        y = slicing.pad(y, [(0, 0), *gaps, (0, 0)])
        counts = [m * s for m, s in zip(counts, windows.strides, strict=True)]
        dy = shape.reshape(y, (n, *counts, c))
    begins = []
    sizes = []
    paddings = []
    for i, reach in enumerate(windows.transposed.in_shape[1:-1]):
        begin = windows.extents[i] - 1 - windows.padding[i][0]
        cut = min(max(-begin, 0), counts[i])
        before = min(max(begin, 0), reach)
        size = min(counts[i] - cut, reach - before)
        begins.append(cut)
        sizes.append(size)
        paddings.append((before, reach - before - size))
    dy = strided_part(dy, (0, *begins, 0), (n, *sizes, c), (1,) * len(dy.shape))
    return padded(dy, paddings)


# The winner of a window is a kernel position, counted from 1, or 0 if there is none.


def where_winner(winners: Tensor, position: int, value: Tensor) -> Tensor:
    """Return ``value`` where kernel position ``position`` is the winner, else 0."""
    return compare.where(compare.equal(winners, position), value, 0)


def gather_winners(x: Tensor, winners: Tensor, windows: Windows) -> Tensor:
    """Return the element of ``x`` at the winning position of each window."""
    values = enumerate(window_values(x, windows), 1)
    parts = [where_winner(winners, i, value) for i, value in values]
    return functools.reduce(binary.add, parts)


def scatter_to_winners(dy: Tensor, winners: Tensor, windows: Windows) -> Tensor:
    """Return the transpose of ``gather_winners``.

    Each element of the result is the sum of ``dy`` over the windows it wins.
    """
    transposed = windows.transposed
    pair = (dy, winners)
    dys, ids = (window_values(insert_zeros(x, windows), transposed) for x in pair)
    rows = zip(ids, range(len(dys), 0, -1), dys, strict=True)
    return functools.reduce(binary.add, [where_winner(*row) for row in rows])


# --- as matrices -----------------------------------------------------------------


def columns(x: Tensor, windows: Windows) -> Tensor:
    """Return a row for each window: ``[groups, windows, positions · channels]``."""
    y = shape.concat(window_values(x, windows), axis=-1)
    g = windows.groups
    k = len(windows.kernel_positions)
    count = math.prod(y.shape[:-1])
    c = x.shape[-1] // g
    if g > 1:
        y = shape.permute_dims(shape.reshape(y, (count, k, g, c)), (2, 0, 1, 3))
    return shape.reshape(y, (g, count, k * c))


def grouped(x: Tensor, groups: int) -> Tensor:
    """Reshape ``[..., channels]`` to ``[groups, rows, channels per group]``."""
    *lead, c = x.shape
    count = math.prod(lead)
    if groups > 1:
        x = shape.reshape(x, (count, groups, c // groups))
        x = shape.permute_dims(x, (1, 0, 2))
    return shape.reshape(x, (groups, count, c // groups))


def ungrouped(y: Tensor, shape_: Shape) -> Tensor:
    """Reshape ``[groups, rows, channels per group]`` to ``shape_``."""
    if y.shape[0] > 1:
        y = shape.permute_dims(y, (1, 0, 2))
    return shape.reshape(y, shape_)


def ordered(op: str, value: TensorLike) -> Tensor:
    """Return ``value`` as a tensor of real numbers; reject bool."""
    x = _convert.real(op, value)
    if dtype_kind(x.dtype) == "b":
        raise TypeError(f"{op}: bool has no order; cast to a number")
    return x


def lowest_number(dtype: DType) -> float:
    """Return the lowest number of a dtype: -inf, or the lowest integer."""
    return -math.inf if dtype_kind(dtype) == "f" else int(np.iinfo(dtype).min)


def padding_that_never_wins(dtype: DType) -> float:
    """Return a padding that equals no maximum: NaN; 0 for integers, which lack it."""
    return math.nan if dtype_kind(dtype) == "f" else 0
