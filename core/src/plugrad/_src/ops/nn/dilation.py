"""Grayscale dilation. Kernels: ``Dilation2D``, and a gradient for each input.

The result is the largest of the sums ``x + filter`` in each window. As in pooling,
padding does not count as an element, and NaN is ignored; a window that contains nothing
else gives -inf, or the lowest integer. The cotangent of a window flows to the first
position, in row-major order, whose *exact* sum is the largest: if different sums round
to the same number, their rounding errors decide. The position is piecewise constant, so
the gradient kernels, which are linear in ``dy``, have no derivative with respect to
``x`` and ``filter``.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, Unpack

from plugrad import geometry
from plugrad._src.engine.dispatch import run
from plugrad._src.ops.basis import _convert, binary, compare, creation, reduce, shape
from plugrad._src.registry.contract import Kernel, Spec, decomposition, gradients
from plugrad._src.tensor.arguments import misfit
from plugrad._src.tensor.dtypes import INT32, dtype_kind
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import Padding, Shape, Sizes

from . import _windows, conv, pool

if TYPE_CHECKING:
    from plugrad.geometry import Windows

__all__ = ["dilation2d"]

# --- contracts -------------------------------------------------------------------


def _dilation_windows(op: str, x: Shape, filter: Shape, **given: Any) -> Windows:
    """Return the windows over ``x`` of a filter ``[height, width, channels]``."""
    geometry.rank(op, "the input", x, 2)
    if len(filter) != 3 or filter[-1] != x[-1]:
        rule = f"filter must have shape (height, width, {x[-1]}), with channels of x"
        raise misfit(op, rule, filter, x)
    return geometry.windows(op, x, filter[:-1], **given)


def _check(x: Spec, filter: Spec, dy: Spec | None, windows: Windows) -> None:
    rows = ("x", x, windows.in_shape), ("dy", dy, windows.out_shape)
    of_filter = "filter", filter, (*windows.window, windows.in_shape[-1])
    _windows.check(windows, 2, *rows, of_filter)
    _windows.check_channels(windows)


def _dilation_spec(x: Spec, filter: Spec, *, geometry: Windows) -> Spec:
    _check(x, filter, None, geometry)
    return Spec(geometry.out_shape, x.dtype)


def _input_gradient_spec(x: Spec, filter: Spec, dy: Spec, *, geometry: Windows) -> Spec:
    _check(x, filter, dy, geometry)
    return x


def _filter_gradient_spec(
    x: Spec, filter: Spec, dy: Spec, *, geometry: Windows
) -> Spec:
    _check(x, filter, dy, geometry)
    return filter


DILATION2D = Kernel(
    "Dilation2D(x: integer | floating, filter: x; geometry: Windows)",
    canonicalize=functools.partial(conv.forward_attributes, _dilation_windows),
    out=_dilation_spec,
    op="dilation2d",
    doc="""``y[n, p, q, c] = max (x[n, i, j, c] + filter[h, w, c])`` over h and w, where
    ``i = s·p + d·h - top`` and ``j = s·q + d·w - left``, with strides s and dilations
    d.

    Padding and sums that are NaN are ignored; a window that contains nothing else gives
    -inf, or the least integer of the dtype. Integers wrap. For zeros of different signs
    the result may be either.""",
)

_gradient_attributes = functools.partial(conv.backward_attributes, _dilation_windows)

DILATION2D_INPUT = Kernel(
    "Dilation2DBackpropInput(x: integer | floating, filter: x, dy: x; "
    "geometry: Windows) -> dx",
    canonicalize=_gradient_attributes,
    out=_input_gradient_spec,
    doc="""The ``dy`` of each window is added to the element of ``x`` whose sum with
    ``filter`` is the largest; of equal sums, to the first in row-major order.

    Sums are compared exactly, without rounding. A window that contains only padding and
    NaN adds nothing.""",
)

DILATION2D_FILTER = Kernel(
    "Dilation2DBackpropFilter(x: integer | floating, filter: x, dy: x; "
    "geometry: Windows) -> dfilter",
    canonicalize=_gradient_attributes,
    out=_filter_gradient_spec,
    doc="""The ``dy`` of each window is added to the element of ``filter`` whose sum
    with ``x`` is the largest. Ties are resolved as by ``Dilation2DBackpropInput``.""",
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
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the largest sum of ``x`` and ``filter`` in each window.

    ``y[n, p, q, c] = max (x[n, i, j, c] + filter[h, w, c])`` over h and w, where
    ``i = s·p + d·h - top`` and ``j = s·q + d·w - left``, with stride s and dilation d.
    Padding and sums that are NaN are ignored; a window that contains nothing else gives
    -inf, or the lowest integer. Integers wrap.

    Args:
        x: ``[batch, height, width, channels]``, or without the batch; real numbers.
        filter: ``[height, width, channels]``; if it is all zeros, the op is
            ``max_pool``.
        strides: Steps between adjacent windows: one number for both axes or one for
            each.
        pad: "same", "valid", a number, or ``[(top, bottom), (left, right)]``, as in
            ``conv2d``.
        dilations: Steps between adjacent elements of one window.
        data_format: "NHWC" or "NCHW", for ``x`` and the result; the layout of the
            filter is fixed.

    Returns:
        A tensor ``[batch, out_height, out_width, channels]`` in the format of ``x``, of
        the promoted dtype.

    Raises:
        ValueError: The shapes or attributes are incompatible.
        TypeError: An argument is complex or contains strings, or both are bool.

    Example:
        >>> x = pg.reshape(pg.arange(9.0), (1, 3, 3, 1))
        >>> filter = [[[0.0], [10.0]], [[0.0], [0.0]]]
        >>> pg.dilation2d(x, filter)[0, :, :, 0]
        Tensor([[11., 12.],
                [14., 15.]], dtype=float32, backend='cpu')

    Source:
        The definition is that of ``tf.dilation2d`` in TensorFlow.js.

    """
    if unknown:
        raise unexpected(dilation2d, unknown)
    op = "dilation2d"
    given = _windows.window_options(strides, pad, dilations, None)
    x, filter = _convert.promote_all(op, x, filter)
    x, back = _windows.channels_last(op, _windows.ordered(op, x), 2, data_format)
    windows = _dilation_windows(op, x.shape, filter.shape, **given)
    return back(run(DILATION2D, x, filter, geometry=windows))


# --- decompositions --------------------------------------------------------------


def _pairs(x: Tensor, filter: Tensor, windows: Windows) -> list[tuple[Tensor, Tensor]]:
    """Return the two summands at each position of the windows.

    Those from ``x`` are ``[batch, *output_sizes, channels]``, and those from the filter
    are ``[channels]``. The padding of ``x`` is NaN if its dtype has NaN.
    """
    seen = _windows.window_values(x, windows, _windows.padding_that_never_wins(x.dtype))
    return list(zip(seen, _rows(filter, windows), strict=True))


def _rows(filter: Tensor, windows: Windows) -> tuple[Tensor, ...]:
    """Return the elements of ``filter`` at each position: ``[channels]``."""
    return shape.unstack(
        shape.reshape(filter, (len(windows.kernel_positions), filter.shape[-1]))
    )


@decomposition(DILATION2D)
def _(x: Tensor, filter: Tensor, *, geometry: Windows) -> Tensor:
    sums = []
    least = _windows.lowest_number(x.dtype)
    for position, (a, b) in enumerate(_pairs(x, filter, geometry)):
        y = a + b
        counts = pool.mask_padding(position, compare.equal(y, y), y, geometry)
        sums.append(compare.where(counts, y, least))
    return functools.reduce(binary.maximum, sums)


def _winners(x: Tensor, filter: Tensor, windows: Windows) -> Tensor:
    """Return, for each window, the first position with the largest sum.

    Positions are counted from 1; 0 marks windows with only NaN and padding.
    """
    y = run(DILATION2D, x, filter, geometry=windows)
    found = creation.zeros(y.shape, dtype=INT32)
    largest = creation.full_like(y, -math.inf) if dtype_kind(x.dtype) == "f" else None
    for position, (a, b) in reversed(list(enumerate(_pairs(x, filter, windows)))):
        total = a + b
        hit = pool.mask_padding(position, compare.equal(total, y), y, windows)
        if largest is not None:
            error = _rounding_error(a, b, total)
            hit = compare.logical_and(hit, compare.logical_not(error < largest))
            largest = compare.where(hit, error, largest)
        found = compare.where(hit, position + 1, found)
    return found


def _rounding_error(a: Tensor, b: Tensor, total: Tensor) -> Tensor:
    """Return the rounding error of ``a + b`` (Knuth); NaN where the sum is infinite."""
    part = total - a
    return (a - (total - part)) + (b - part)


@decomposition(DILATION2D_INPUT)
def _(x: Tensor, filter: Tensor, dy: Tensor, *, geometry: Windows) -> Tensor:
    return _windows.scatter_to_winners(dy, _winners(x, filter, geometry), geometry)


@decomposition(DILATION2D_FILTER)
def _(x: Tensor, filter: Tensor, dy: Tensor, *, geometry: Windows) -> Tensor:
    winners = _winners(x, filter, geometry)
    positions = range(1, len(geometry.kernel_positions) + 1)
    parts = [_windows.where_winner(winners, position, dy) for position in positions]
    rows = [run(reduce.SUM, part, axis=(0, 1, 2), keepdims=False) for part in parts]
    return shape.reshape(shape.stack(rows), filter.shape)


# --- gradients -------------------------------------------------------------------


def _gather_from_x(ddx: Tensor, x: Tensor, filter: Tensor, geometry: Windows) -> Tensor:
    return _windows.gather_winners(ddx, _winners(x, filter, geometry), geometry)


def _gather_from_filter(
    ddf: Tensor, x: Tensor, filter: Tensor, geometry: Windows
) -> Tensor:
    """Return the element of ``ddf`` at the position of each window's largest sum."""
    winners = _winners(x, filter, geometry)
    rows = _rows(ddf, geometry)
    parts = [
        _windows.where_winner(winners, position, row)
        for position, row in enumerate(rows, 1)
    ]
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
gradients(DILATION2D_INPUT, x=None, filter=None, dy=_gather_from_x)
gradients(DILATION2D_FILTER, x=None, filter=None, dy=_gather_from_filter)
