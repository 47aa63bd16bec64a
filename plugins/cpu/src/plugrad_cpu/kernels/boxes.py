"""Which boxes to keep: in float64, so that what is compared is not rounded."""

import math
from collections.abc import Callable

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array

kernels = KernelTable()


@kernels("NonMaxSuppressionV3")
def non_max_suppression(boxes: Array, scores: Array, **attrs: float) -> Array:
    """Return the indices only."""
    return _hard(boxes, scores, **attrs)


@kernels("NonMaxSuppressionV4")
def non_max_suppression_padded(
    boxes: Array, scores: Array, **attrs: float
) -> tuple[Array, Array]:
    """Return the indices with zeros behind, and how many there are."""
    found = _hard(boxes, scores, **attrs)
    indices = np.zeros(int(attrs["max_output_size"]), np.int32)
    indices[: len(found)] = found
    return indices, np.asarray(len(found), np.int32)


@kernels("NonMaxSuppressionV5")
def non_max_suppression_with_score(
    boxes: Array, scores: Array, *, soft_nms_sigma: float, **attrs: float
) -> tuple[Array, Array]:
    """Return the indices, and the scores that they had in the end."""
    if soft_nms_sigma:
        return _soft(boxes, scores, soft_nms_sigma, **attrs)
    indices = _hard(boxes, scores, **attrs)
    return indices, scores[indices]


def _hard(boxes: Array, scores: Array, **attrs: float) -> Array:
    """Go through the boxes by falling score, dropping what each one suppresses."""
    order = np.argsort(-scores, kind="stable")
    order = order[scores[order] > attrs["score_threshold"]]
    overlap = _overlaps(boxes[order])
    left = np.ones(len(order), bool)
    found = 0
    for i in range(len(order)):
        if found == attrs["max_output_size"]:
            left[i:] = False
            break
        if left[i]:
            found += 1
            rest = slice(i + 1, None)
            left[rest] &= ~(overlap(i, rest) >= attrs["iou_threshold"])
    return order[left].astype(np.int32)


def _soft(
    boxes: Array, scores: Array, sigma: float, **attrs: float
) -> tuple[Array, Array]:
    """Take the best box again and again, lowering the scores of all others."""
    overlap = _overlaps(boxes)
    now = scores.astype(np.float64)
    found: list[int] = []
    kept: list[float] = []
    now[~(now > attrs["score_threshold"])] = -math.inf
    while len(found) < min(attrs["max_output_size"], len(now)):
        best = int(now.argmax())
        if now[best] == -math.inf:
            break
        found.append(best)
        kept.append(now[best])
        iou = overlap(best, slice(None))
        now *= np.exp(iou**2 * (-0.5 / sigma))
        now[
            (iou >= attrs["iou_threshold"]) | ~(now > attrs["score_threshold"])
        ] = -math.inf
        now[best] = -math.inf
    return np.array(found, np.int32), np.array(kept, scores.dtype)


def _overlaps(boxes: Array) -> Callable[[int, slice], Array]:
    """Return a function of a box and others: what each shares of the union, or 0."""
    corners = boxes.astype(np.float64).reshape(-1, 2, 2)
    low, high = (np.ascontiguousarray(f(1).T) for f in (corners.min, corners.max))
    area = (high - low).prod(0)

    def overlap(box: int, others: slice) -> Array:
        sides = np.minimum(high[:, box, None], high[:, others])
        sides -= np.maximum(low[:, box, None], low[:, others])
        y, x = np.maximum(sides, 0, out=sides)
        shared = y * x
        whole = area[box] + area[others] - shared
        return np.where(whole > 0, shared / whole, 0)

    return overlap
