"""Reductions of the slices that have the same segment id."""

from __future__ import annotations

from typing import Any

import plugrad as pg
from plugrad import Tensor

from ..core.variables import convert_to_tensor


def segment_sum(
    data: Any, segment_ids: Any, num_segments: int | None = None, sorted: bool = False
) -> Tensor:
    """Return the sums of the segments; 0 for a segment without elements."""
    x, ids, count = _segments(data, segment_ids, num_segments)
    return pg.astype(pg.unsorted_segment_sum(x, ids, count), x.dtype)


def segment_max(
    data: Any, segment_ids: Any, num_segments: int | None = None, sorted: bool = False
) -> Tensor:
    """Return the maxima of the segments; the least number for one without elements.

    For floating dtypes that is -inf.
    """
    return pg.unsorted_segment_max(*_segments(data, segment_ids, num_segments))


def segment_min(
    data: Any, segment_ids: Any, num_segments: int | None = None, sorted: bool = False
) -> Tensor:
    """Return the minima of the segments; the largest number for one without elements.

    For floating dtypes that is infinity.
    """
    return pg.unsorted_segment_min(*_segments(data, segment_ids, num_segments))


def segment_prod(
    data: Any, segment_ids: Any, num_segments: int | None = None, sorted: bool = False
) -> Tensor:
    """Return the products of the segments; 1 for a segment without elements."""
    x, ids, count = _segments(data, segment_ids, num_segments)
    return pg.astype(pg.unsorted_segment_prod(x, ids, count), x.dtype)


def _segments(
    data: Any, segment_ids: Any, num_segments: int | None
) -> tuple[Tensor, Tensor, int]:
    """Return the arguments as tensors, and the number of segments.

    If the number is not given, the ids are read: it is the largest of them plus one.
    """
    x = convert_to_tensor(data)
    ids = pg.astype(convert_to_tensor(segment_ids), "int32")
    if num_segments is not None:
        return x, ids, int(num_segments)
    return x, ids, int(pg.max(ids)) + 1 if ids.shape[0] else 0
