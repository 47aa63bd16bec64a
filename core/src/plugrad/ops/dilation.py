"""Grey-scale dilation. Kernels: ``Dilation2D``, and a gradient for each input.

The largest of the sums ``x + filter`` in each window. As in pooling, padding is no
element and NaN is never the largest; a window of nothing else has -inf, or the least
integer. Gradients go to the first tap, row by row, whose *exact* sum is largest: sums
that differ may be rounded to one number, and then their rounding errors decide. That
tap changes in steps, so that the kernels of the gradients, which are linear in ``dy``,
have no derivative in ``x`` and ``filter``.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from plugrad import geometry
from plugrad._dtypes import INT32
from plugrad._engine import run
from plugrad._kernel import Kernel, Spec, decomposition, gradients
from plugrad._tensor import Tensor, TensorLike
from plugrad.geometry import Padding, Shape, Sizes, Windows

from . import (
    _convert,
    _windows,
    binary,
    compare,
    conv,
    creation,
    pool,
    reduce,
    shape,
    slicing,
)

# --- contracts -------------------------------------------------------------------


def _over(op: str, x: Shape, filter: Shape, **given: Any) -> Windows:
    """Return the windows of ``filter`` (window, channels) over ``x``."""
    geometry.rank(op, "the input", x, 2)
    if len(filter) != 3 or filter[-1] != x[-1]:
        raise ValueError(
            f"{op}: filter must have shape (height, width, {x[-1]}), with the channels "
            f"of the input, got {filter} for {x}"
        )
    return geometry.windows(op, x, filter[:-1], **given)


def _of(x: Spec, filter: Spec, **given: Any) -> dict[str, Any]:
    """Turn attributes of a user, such as strides and pad, into the contract's."""
    told = _windows.options(given)
    return {"geometry": _over("run_kernel", x.shape, filter.shape, **told), **given}


def _back(x: Spec, filter: Spec, dy: Spec, **given: Any) -> dict[str, Any]:
    return conv.checked(dy, _of(x, filter, places=dy.shape[1:-1], **given))


DILATION2D = Kernel(
    "Dilation2D(x, filter; geometry)",
    normalize=_of,
    out=lambda x, filter, geometry: Spec(geometry.out_shape, x.dtype),
    op="dilation2d",
)

DILATION2D_INPUT = Kernel(
    "Dilation2DBackpropInput(x, filter, dy; geometry) -> dx",
    normalize=_back,
    out=lambda x, filter, dy, geometry: Spec(x.shape, dy.dtype),
)

DILATION2D_FILTER = Kernel(
    "Dilation2DBackpropFilter(x, filter, dy; geometry) -> dfilter",
    normalize=_back,
    out=lambda x, filter, dy, geometry: Spec(filter.shape, dy.dtype),
)


# --- op --------------------------------------------------------------------------


def dilation2d(
    x: TensorLike,
    filter: TensorLike,
    /,
    *,
    strides: Sizes = 1,
    pad: Padding = "valid",
    dilations: Sizes = 1,
    data_format: str = "NHWC",
) -> Tensor:
    """Return the largest sum of ``x`` and ``filter`` in each window.

    ``y[n, p, q, c] = max (x[n, s·p + d·h - top, s·q + d·w - left, c] + filter[h, w,
    c])`` over h, w, with stride s and dilation d, where x has an element and no sum is
    NaN; a window of nothing else has -inf, or the least integer. Integers wrap.

    Args:
        x: ``[batch, height, width, channels]``, or without the batch.
        filter: ``[height, width, channels]``; zeros make it a ``max_pool``.
        strides: Steps between neighbouring windows, one for both axes or one each.
        pad: As in ``conv2d``, "same", "valid", a number or pairs.
        dilations: Steps between neighbouring taps of one window.
        data_format: "NHWC"; "NCHW" is for x and the result, not the filter.

    Returns:
        ``[batch, out_height, out_width, channels]``, in the format of x.

    Raises:
        ValueError: Shapes or attributes do not fit each other.
        TypeError: Elements without order, complex or bool.

    """
    op = "dilation2d"
    x, filter = _convert.together(op, x, filter)
    x, back = _windows.channels_last(op, pool._ordered(op, x), 2, data_format)
    windows = _over(
        op, x.shape, filter.shape, strides=strides, pad=pad, dilations=dilations
    )
    return back(run(DILATION2D, x, filter, geometry=windows))


# --- decompositions --------------------------------------------------------------


def _pairs(x: Tensor, filter: Tensor, windows: Windows) -> list[tuple[Tensor, Tensor]]:
    """Return what each tap adds: ``[batch, *places, channels]`` and ``[1, channels]``.

    Around ``x`` is NaN, where there is one.
    """
    count = len(windows.taps)
    rows = shape.reshape(filter, (count, x.shape[-1]))
    seen = _windows.taps(x, windows, math.nan if x.dtype.kind == "f" else 0)
    return [(seen[i], slicing.along(rows, 0, i, 1)) for i in range(count)]


def _kept(i: int, condition: Tensor | None, x: Tensor, windows: Windows) -> Any:
    """Return where tap ``i`` counts: on elements of ``x``, and as ``condition`` says.

    None stands for everywhere. NaN tells what padding is, among floating numbers.
    """
    if x.dtype.kind == "f" or not any(map(any, windows.padding)):
        return condition
    inside = _convert.asarray(pool._inside(windows, i))
    return inside if condition is None else compare.logical_and(condition, inside)


@decomposition(DILATION2D)
def _(x: Tensor, filter: Tensor, *, geometry: Windows) -> Tensor:
    sums = []
    for i, (a, b) in enumerate(_pairs(x, filter, geometry)):
        y = binary.add(a, b)
        counts = compare.equal(y, y) if x.dtype.kind == "f" else None
        counts = _kept(i, counts, x, geometry)
        least = pool._least(x.dtype)
        sums.append(y if counts is None else compare.where(counts, y, least))
    return functools.reduce(binary.maximum, sums)


def _winners(x: Tensor, filter: Tensor, windows: Windows) -> Tensor:
    """Return which tap of each window is the first to have the largest sum.

    Counted from 1; 0 where none has, in windows of NaN and padding alone.
    """
    y = run(DILATION2D, x, filter, geometry=windows)
    found = creation.zeros(y.shape, dtype=INT32)
    exact = x.dtype.kind != "f"
    most = None if exact else creation.full(y.shape, -math.inf, dtype=y.dtype)
    pairs = _pairs(x, filter, windows)
    for i in reversed(range(len(pairs))):
        a, b = pairs[i]
        total = binary.add(a, b)
        hit = _kept(i, compare.equal(total, y), x, windows)
        if most is not None:
            error = _error(a, b, total)
            less = compare.less(error, most)
            hit = compare.logical_and(hit, compare.logical_not(less))
            most = compare.where(hit, error, most)
        found = compare.where(hit, i + 1, found)
    return found


def _error(a: Tensor, b: Tensor, total: Tensor) -> Tensor:
    """Return what rounding took from ``a + b`` (Knuth); NaN where it is infinite."""
    part = binary.subtract(total, a)
    lost = binary.subtract(a, binary.subtract(total, part))
    return binary.add(lost, binary.subtract(b, part))


@decomposition(DILATION2D_INPUT)
def _(x: Tensor, filter: Tensor, dy: Tensor, *, geometry: Windows) -> Tensor:
    return _windows.to_winners(dy, _winners(x, filter, geometry), geometry)


@decomposition(DILATION2D_FILTER)
def _(x: Tensor, filter: Tensor, dy: Tensor, *, geometry: Windows) -> Tensor:
    winners = _winners(x, filter, geometry)
    taps = range(1, len(geometry.taps) + 1)
    mine = [_windows.mine(winners, i, dy) for i in taps]
    rows = [run(reduce.SUM, part, axis=(0, 1, 2), keepdims=False) for part in mine]
    return shape.reshape(shape.stack(rows), filter.shape)


# --- gradients -------------------------------------------------------------------


def _seen(ddx: Tensor, x: Tensor, filter: Tensor, geometry: Windows) -> Tensor:
    return _windows.of_winners(ddx, _winners(x, filter, geometry), geometry)


def _added(ddf: Tensor, x: Tensor, filter: Tensor, geometry: Windows) -> Tensor:
    """Return, for each window, what ``ddf`` has at the tap of the largest sum."""
    winners = _winners(x, filter, geometry)
    rows = shape.unstack(shape.reshape(ddf, (len(geometry.taps), ddf.shape[-1])))
    parts = [_windows.mine(winners, i, row) for i, row in enumerate(rows, 1)]
    return functools.reduce(binary.add, parts)


gradients(
    DILATION2D,
    x=lambda dy, x, filter, geometry: run(
        DILATION2D_INPUT, x, filter, dy, geometry=geometry
    ),
    filter=lambda dy, x, filter, geometry: run(
        DILATION2D_FILTER, x, filter, dy, geometry=geometry
    ),
)
gradients(DILATION2D_INPUT, x=None, filter=None, dy=_seen)
gradients(DILATION2D_FILTER, x=None, filter=None, dy=_added)
