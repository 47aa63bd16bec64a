"""Non-maximum suppression of boxes, in float64 so that comparisons are accurate."""

import math
from collections.abc import Callable

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array

kernels = KernelTable()


@kernels("NonMaxSuppressionV3")
def non_max_suppression(boxes: Array, scores: Array, **attrs: float) -> Array:
    """Return only the indices of the selected boxes."""
    return _hard(boxes, scores, **attrs)


@kernels("NonMaxSuppressionV4")
def non_max_suppression_padded(
    boxes: Array, scores: Array, **attrs: float
) -> tuple[Array, Array]:
    """Return the indices, padded with zeros, and their number."""
    found = _hard(boxes, scores, **attrs)
    indices = np.zeros(int(attrs["max_output_size"]), np.int32)
    indices[: len(found)] = found
    return indices, np.asarray(len(found), np.int32)


@kernels("NonMaxSuppressionV5")
def non_max_suppression_with_score(
    boxes: Array, scores: Array, *, soft_nms_sigma: float, **attrs: float
) -> tuple[Array, Array]:
    """Return the indices, and the final scores of these boxes."""
    if soft_nms_sigma:
        return _soft(boxes, scores, soft_nms_sigma, **attrs)
    indices = _hard(boxes, scores, **attrs)
    return indices, scores[indices]


def _hard(boxes: Array, scores: Array, **attrs: float) -> Array:
    """Select boxes by descending score; each drops the boxes that overlap it."""
    order = np.argsort(-scores, kind="stable")
    order = order[scores[order] > attrs["score_threshold"]]
    iou_with = _iou_with(boxes[order])
    remaining = np.ones(len(order), bool)
    found = 0
    for i in range(len(order)):
        if found == attrs["max_output_size"]:
            remaining[i:] = False
            break
        if remaining[i]:
            found += 1
            rest = slice(i + 1, None)
            remaining[rest] &= ~(iou_with(i, rest) >= attrs["iou_threshold"])
    return order[remaining].astype(np.int32)


def _soft(
    boxes: Array, scores: Array, sigma: float, **attrs: float
) -> tuple[Array, Array]:
    """Select the best box repeatedly; each lowers the scores of the other boxes."""
    iou_with = _iou_with(boxes)
    current = scores.astype(np.float64)
    found: list[int] = []
    found_scores: list[float] = []
    current[~(current > attrs["score_threshold"])] = -math.inf
    while len(found) < min(attrs["max_output_size"], len(current)):
        best = int(current.argmax())
        if current[best] == -math.inf:
            break
        found.append(best)
        found_scores.append(current[best])
        iou = iou_with(best, slice(None))
        current *= np.exp(iou**2 * (-0.5 / sigma))
        current[
            (iou >= attrs["iou_threshold"]) | ~(current > attrs["score_threshold"])
        ] = -math.inf
        current[best] = -math.inf
    return np.array(found, np.int32), np.array(found_scores, scores.dtype)


def _iou_with(boxes: Array) -> Callable[[int, slice], Array]:
    """Return a function for the intersection over union of a box with others."""
    corners = boxes.astype(np.float64).reshape(-1, 2, 2)
    low, high = (np.ascontiguousarray(f(1).T) for f in (corners.min, corners.max))
    area = (high - low).prod(0)

    def iou_with(box: int, others: slice) -> Array:
        sides = np.minimum(high[:, box, None], high[:, others])
        sides -= np.maximum(low[:, box, None], low[:, others])
        y, x = np.maximum(sides, 0, out=sides)
        intersection = y * x
        union = area[box] + area[others] - intersection
        return np.where(union > 0, intersection / union, 0)

    return iou_with
