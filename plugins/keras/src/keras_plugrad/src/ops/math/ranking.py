"""The largest elements."""

from __future__ import annotations

from typing import Any

import plugrad as pg
from plugrad import Tensor

from ..core.variables import convert_to_tensor


def top_k(
    x: Any, k: int, sorted: bool = True, is_stable: bool = True
) -> tuple[Tensor, Tensor]:
    """Return the ``k`` largest elements along the last axis, and their indices.

    The first of several equal elements is taken, whether ``is_stable`` or not.
    """
    values, indices = pg.top_k(convert_to_tensor(x), int(k), sorted=bool(sorted))
    return values, indices


def in_top_k(targets: Any, predictions: Any, k: int) -> Tensor:
    """Return whether fewer than ``k`` classes have a larger score than the target.

    The result is False if the score of the target is not finite, or if the target is
    not a class.
    """
    scores = convert_to_tensor(predictions)
    classes = scores.shape[-1]
    labels = pg.astype(convert_to_tensor(targets), "int32")
    is_class = (labels >= 0) & (labels < classes)
    at = pg.expand_dims(pg.where(is_class, labels, 0), axis=-1)
    score = pg.take_along_axis(scores, at, axis=-1)
    larger = pg.sum(pg.astype(scores > score, "int32"), axis=-1)
    is_finite = pg.isfinite(pg.squeeze(score, axis=-1))
    return is_class & is_finite & (larger < int(k))
