"""Extremes and products of slices that have the same segment id. No kernels.

``unsorted_segment_sum``, which is a kernel, is in ``array.gather``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Unpack

from plugrad._src.engine.dispatch import run
from plugrad._src.ops.array import gather
from plugrad._src.ops.basis import _convert, binary, compare, creation, reduce, shape
from plugrad._src.tensor.arguments import integer, sizes
from plugrad._src.tensor.dtypes import BOOL, INT32, LIMITS, dtype_kind
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike

from . import scatter

__all__ = ["unsorted_segment_max", "unsorted_segment_min", "unsorted_segment_prod"]


def unsorted_segment_max(
    x: TensorLike,
    segment_ids: TensorLike,
    /,
    num_segments: int,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the maxima of the slices of ``x`` that have the same segment id.

    ``y[i] = max x[j]`` over j with ``segment_ids[j] = i``; NaN where an element is NaN.
    Slices whose id is negative or too large are ignored. A maximum of no slices is
    -inf, or the lowest number of an integer dtype. Elements that equal a finite maximum
    share the gradient equally; where it is NaN, the gradient is 0.

    Args:
        x: A tensor of real numbers or bool.
        segment_ids: Integers; their shape must match the leading axes of ``x``.
        num_segments: The number of maxima.

    Returns:
        A tensor ``[num_segments, ...]`` with the dtype of ``x``.

    Raises:
        TypeError: The ids are not integers, or ``x`` is complex or contains strings.
        ValueError: ``num_segments`` is negative, or the shapes do not fit.

    Example:
        >>> pg.unsorted_segment_max([1.0, 2.0, 3.0, 4.0], [0, 1, 0, 1], 2)
        Tensor([3., 4.], dtype=float32, backend='cpu')

    Source:
        The semantics are those of ``jax.ops.segment_max``.

    """
    if unknown:
        raise unexpected(unsorted_segment_max, unknown)
    op = "unsorted_segment_max"
    return _extremes(op, x, segment_ids, num_segments, largest=True)


def unsorted_segment_min(
    x: TensorLike,
    segment_ids: TensorLike,
    /,
    num_segments: int,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the minima of the slices of ``x`` that have the same segment id.

    ``y[i] = min x[j]`` over j with ``segment_ids[j] = i``; NaN where an element is NaN.
    Slices whose id is negative or too large are ignored. A minimum of no slices is inf,
    or the highest number of an integer dtype. Elements that equal a finite minimum
    share the gradient equally; where it is NaN, the gradient is 0.

    Args:
        x: A tensor of real numbers or bool.
        segment_ids: Integers; their shape must match the leading axes of ``x``.
        num_segments: The number of minima.

    Returns:
        A tensor ``[num_segments, ...]`` with the dtype of ``x``.

    Raises:
        TypeError: The ids are not integers, or ``x`` is complex or contains strings.
        ValueError: ``num_segments`` is negative, or the shapes do not fit.

    Example:
        >>> pg.unsorted_segment_min([1.0, 2.0, 3.0, 4.0], [0, 1, 0, 1], 2)
        Tensor([1., 2.], dtype=float32, backend='cpu')

    Source:
        The semantics are those of ``jax.ops.segment_min``.

    """
    if unknown:
        raise unexpected(unsorted_segment_min, unknown)
    op = "unsorted_segment_min"
    return _extremes(op, x, segment_ids, num_segments, largest=False)


def unsorted_segment_prod(
    x: TensorLike,
    segment_ids: TensorLike,
    /,
    num_segments: int,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the products of the slices of ``x`` that have the same segment id.

    ``y[i] = Π x[j]`` over j with ``segment_ids[j] = i``. Slices whose id is negative or
    too large are ignored; a product of no slices is 1. Integers wrap. The gradient does
    not divide, so it is also correct where elements are 0.

    Args:
        x: A tensor of numbers or bool.
        segment_ids: Integers; their shape must match the leading axes of ``x``.
        num_segments: The number of products.

    Returns:
        A tensor ``[num_segments, ...]`` with the dtype of ``x``; int32 for bool.

    Raises:
        TypeError: The ids are not integers, or ``x`` contains strings.
        ValueError: ``num_segments`` is negative, or the shapes do not fit.

    Example:
        >>> pg.unsorted_segment_prod([1.0, 2.0, 3.0, 4.0], [0, 2, 0, 2], 3)
        Tensor([3., 1., 8.], dtype=float32, backend='cpu')

    Source:
        The semantics are those of ``tf.math.unsorted_segment_prod`` in TensorFlow.

    """
    if unknown:
        raise unexpected(unsorted_segment_prod, unknown)
    op = "unsorted_segment_prod"
    x = _convert.numbers(op, x)
    x = creation.cast(x, INT32) if x.dtype is BOOL else x
    wide, rows, count = _rows(op, reduce.widened(x), segment_ids, num_segments)
    # An ignored inf would have the gradient 0 · inf.
    wide = compare.where(_aligned(rows, wide) < count, wide, 1)
    combine = lambda base: scatter._combine_updates(binary.multiply, base, rows, wide)
    return creation.cast(_combined(wide, count, 1, combine), x.dtype)


def _extremes(
    op: str, x: TensorLike, segment_ids: TensorLike, num_segments: int, *, largest: bool
) -> Tensor:
    """Return the maxima or minima of the segments."""
    x = _convert.real(op, x)
    if x.dtype is BOOL:
        parts = creation.cast(x, INT32), segment_ids, num_segments
        # Without slices, the result is the least or largest int32.
        return (_extremes(op, *parts, largest=largest) > 0).astype(BOOL)
    x, rows, count = _rows(op, x, segment_ids, num_segments)
    if dtype_kind(x.dtype) == "f":
        start: float = -math.inf if largest else math.inf
    else:
        start = LIMITS[x.dtype][0 if largest else 1]
    kernel = scatter.TENSOR_SCATTER_EXTREMUM
    combine = lambda base: run(kernel, base, rows, x, largest=largest)
    return _combined(x, count, start, combine)


def _rows(
    op: str, x: Tensor, segment_ids: TensorLike, num_segments: int
) -> tuple[Tensor, Tensor, int]:
    """Return slices ``[n, ...]``, their rows ``[n, 1]``, and the number of segments.

    Ids that are out of range get the row behind the last segment.
    """
    ids = _convert.integer_tensor(op, "segment_ids", segment_ids)
    count = integer(op, "num_segments", num_segments, 0)
    gather._check_ids(op, x, ids)
    rank = len(ids.shape)
    n, rest = math.prod(ids.shape), x.shape[rank:]
    sizes(op, (count + 1, *rest), "the result")
    if ids.dtype is not INT32 and ids.dtype is not _convert.INT64:
        ids = creation.cast(ids, INT32)
    inside = compare.logical_and(ids >= 0, ids < count)
    rows = run(shape.RESHAPE, compare.where(inside, ids, count), shape=(n, 1))
    return run(shape.RESHAPE, x, shape=(n, *rest)), rows, count


def _aligned(rows: Tensor, x: Tensor) -> Tensor:
    """Return one number for each slice, with a shape that broadcasts to the slices."""
    return run(shape.RESHAPE, rows, shape=(rows.size, *[1] * (len(x.shape) - 1)))


def _combined(
    x: Tensor, count: int, start: Any, combine: Callable[[Tensor], Tensor]
) -> Tensor:
    """Return ``start`` for each segment, combined with its slices."""
    base = creation.full((count + 1, *x.shape[1:]), start, dtype=x.dtype)
    return combine(base)[:count]
