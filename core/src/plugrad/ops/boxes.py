"""Which of many boxes to keep. The ops are in the namespace ``image``.

Kernels: ``NonMaxSuppressionV3 V4 V5``. None has a decomposition: each box depends on
those taken before, which would be thousands of small kernels, so that the loop runs on
the host where a backend has none.
"""

from __future__ import annotations

import math
from typing import Any

from plugrad.engine.dispatch import run, run_many
from plugrad.registry.contract import Kernel, Spec, gradients
from plugrad.tensor.arguments import flag, integer, misfit, real
from plugrad.tensor.dtypes import INT32
from plugrad.tensor.tensor import Tensor, TensorLike

from . import _convert, gather, slicing
from ._convert import Shaped

_GIVEN = (
    "boxes: floating, scores: floating; max_output_size: size, iou_threshold: float, "
    "score_threshold: float"
)


def _check(op: str, boxes: Shaped, scores: Shaped, iou: float, score: float) -> None:
    """Raise unless boxes, scores and thresholds fit each other."""
    if len(scores.shape) != 1 or boxes.shape != (*scores.shape, 4):
        raise misfit(op, "boxes and scores must be (n, 4) and (n,)", boxes, scores)
    if not 0 <= iou <= 1:
        raise ValueError(f"{op}: iou_threshold {iou} must be in [0, 1]")
    if math.isnan(score):
        raise ValueError(f"{op}: score_threshold {score} must be a number")


def _deviation(op: str, sigma: float) -> float:
    if not sigma >= 0:
        raise ValueError(f"{op}: soft_nms_sigma must not be negative, got {sigma}")
    return sigma


def _chosen(boxes: Spec, scores: Spec, **how: float) -> None:
    op = "image.non_max_suppression"
    _check(op, boxes, scores, how["iou_threshold"], how["score_threshold"])


def _padded(
    boxes: Spec, scores: Spec, *, max_output_size: int, **how: float
) -> tuple[Spec, Spec]:
    _chosen(boxes, scores, **how)
    return Spec((max_output_size,), INT32), Spec((), INT32)


def _scored(boxes: Spec, scores: Spec, *, soft_nms_sigma: float, **how: float) -> None:
    _chosen(boxes, scores, **how)
    _deviation("image.non_max_suppression_with_score", soft_nms_sigma)


NON_MAX_SUPPRESSION_V3 = Kernel(
    f"NonMaxSuppressionV3({_GIVEN}) -> indices",
    out=_chosen,
    op="image.non_max_suppression",
    doc="""The indices of at most ``max_output_size`` boxes, int32, by falling score.

    Candidates have a score above ``score_threshold``, which NaN is not. The best is
    taken, of ties the first; all that share ``iou_threshold`` or more of the union with
    it are dropped; and so on. A box without area, or with NaN, shares 0. Corners and
    areas are float64.""",
)
NON_MAX_SUPPRESSION_V4 = Kernel(
    f"NonMaxSuppressionV4({_GIVEN}) -> indices, count",
    out=_padded,
    op="image.non_max_suppression_padded",
    doc="""The indices of ``NonMaxSuppressionV3``, zeros behind, and their number.""",
)
NON_MAX_SUPPRESSION_V5 = Kernel(
    f"NonMaxSuppressionV5({_GIVEN}, soft_nms_sigma: float) -> indices, selected_scores",
    out=_scored,
    op="image.non_max_suppression_with_score",
    doc="""The indices of ``NonMaxSuppressionV3``, and the scores of these boxes.

    If sigma is not 0, each box taken multiplies the scores of the others by
    ``exp(-iou² / (2·sigma))``, in float64. Those no longer above ``score_threshold``
    are dropped, and the best is the one with the largest new score, which is
    returned.""",
)


def non_max_suppression(
    boxes: TensorLike,
    scores: TensorLike,
    /,
    max_output_size: int,
    *,
    iou_threshold: float = 0.5,
    score_threshold: float = -math.inf,
) -> Tensor:
    """Return which boxes to keep: the best, and no other that overlaps it much.

    The box with the highest score is taken (of equal ones the first), those that share
    too much with it are dropped, and so on with the rest.

    Args:
        boxes: ``[n, 4]``, rows of (y1, x1, y2, x2), any two opposite corners.
        scores: ``[n]``; real, as the boxes are.
        max_output_size: How many boxes to take at most.
        iou_threshold: From which part of the union of two boxes on, 0 to 1, they share
            too much. A box without area shares nothing.
        score_threshold: Up to which score boxes are left out, this one included; so is
            NaN always.

    Returns:
        int32 indices, in the order of falling scores.

    Raises:
        ValueError: Shapes do not fit, ``max_output_size`` is negative, or a threshold
            is out of range.
        TypeError: Complex numbers.

    """
    op = "image.non_max_suppression"
    given = _rated(op, boxes, scores, max_output_size, iou_threshold, score_threshold)
    return run(NON_MAX_SUPPRESSION_V3, *given[:2], **given[2])


def non_max_suppression_with_score(
    boxes: TensorLike,
    scores: TensorLike,
    /,
    max_output_size: int,
    *,
    iou_threshold: float = 0.5,
    score_threshold: float = -math.inf,
    soft_nms_sigma: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Return ``non_max_suppression`` and the scores of the boxes taken.

    With ``soft_nms_sigma`` each box taken lowers the scores of the others by the factor
    ``exp(-iou² / (2·sigma))`` of what they share (Bodla et al. 2017, Soft-NMS); those
    from ``iou_threshold`` on are dropped all the same. The scores have a gradient where
    sigma is 0. A negative one is a ValueError.
    """
    op = "image.non_max_suppression_with_score"
    given = _rated(op, boxes, scores, max_output_size, iou_threshold, score_threshold)
    sigma = _deviation(op, float(real(op, "soft_nms_sigma", soft_nms_sigma)))
    boxes, scores, attrs = given
    if not sigma:  # taken as they are, and differentiated so
        indices = run(NON_MAX_SUPPRESSION_V3, boxes, scores, **attrs)
        return indices, gather.gather(scores, indices)
    attrs |= {"soft_nms_sigma": sigma}
    indices, kept = run_many(NON_MAX_SUPPRESSION_V5, boxes, scores, **attrs)
    return indices, kept


def non_max_suppression_padded(
    boxes: TensorLike,
    scores: TensorLike,
    /,
    max_output_size: int,
    *,
    iou_threshold: float = 0.5,
    score_threshold: float = -math.inf,
    pad_to_max_output_size: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return ``non_max_suppression`` and how many boxes these are, int32.

    With ``pad_to_max_output_size`` indices are followed by zeros, so that the shape,
    ``[max_output_size]``, does not depend on the boxes.
    """
    op = "image.non_max_suppression_padded"
    given = _rated(op, boxes, scores, max_output_size, iou_threshold, score_threshold)
    indices, count = run_many(NON_MAX_SUPPRESSION_V4, *given[:2], **given[2])
    if not flag(op, "pad_to_max_output_size", pad_to_max_output_size):
        indices = slicing.along(indices, 0, 0, int(count.item()))
    return indices, count


def _rated(
    op: str, boxes: TensorLike, scores: TensorLike, size: int, iou: float, score: float
) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """Return boxes, scores and attributes that fit each other."""
    boxes, scores = (_convert.floating(op, x, "f") for x in (boxes, scores))
    size = integer(op, "max_output_size", size, 0)
    iou = float(real(op, "iou_threshold", iou))
    score = float(real(op, "score_threshold", score))
    _check(op, boxes, scores, iou, score)
    attrs = {"max_output_size": size, "iou_threshold": iou, "score_threshold": score}
    return boxes, scores, attrs


gradients(NON_MAX_SUPPRESSION_V3, boxes=None, scores=None)
gradients(NON_MAX_SUPPRESSION_V4, boxes=None, scores=None)
