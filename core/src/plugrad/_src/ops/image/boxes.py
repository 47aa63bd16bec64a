"""Non-maximum suppression of boxes. The ops are in the namespace ``image``.

Kernels: ``NonMaxSuppressionV3 V4 V5``. They have no decompositions: the selection of
each box depends on those selected before it, so a decomposition would run thousands of
small kernels. A backend without these kernels falls back to its host.
"""

from __future__ import annotations

import math
from typing import Any, Unpack

from plugrad._src.engine.dispatch import run, run_many
from plugrad._src.ops.array import gather, slicing
from plugrad._src.ops.basis import _convert
from plugrad._src.ops.basis._convert import Shaped
from plugrad._src.registry.contract import Kernel, Spec, gradients
from plugrad._src.tensor.arguments import flag, integer, misfit, real
from plugrad._src.tensor.dtypes import INT32
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike

_BOX_INPUTS = (
    "boxes: floating, scores: floating; max_output_size: size, iou_threshold: float, "
    "score_threshold: float"
)


def _check(op: str, boxes: Shaped, scores: Shaped, iou: float, score: float) -> None:
    """Raise unless boxes and scores fit each other, and the thresholds are in range."""
    if len(scores.shape) != 1 or boxes.shape != (*scores.shape, 4):
        raise misfit(op, "boxes and scores must be (n, 4) and (n,)", boxes, scores)
    if not 0 <= iou <= 1:
        raise ValueError(f"{op}: iou_threshold {iou} must be in [0, 1]")
    if math.isnan(score):
        raise ValueError(f"{op}: score_threshold {score} must be a number")


def _checked_sigma(op: str, sigma: float) -> float:
    if not sigma >= 0:
        raise ValueError(f"{op}: soft_nms_sigma must not be negative, got {sigma}")
    return sigma


def _check_v3(boxes: Spec, scores: Spec, **how: float) -> None:
    op = "image.non_max_suppression"
    _check(op, boxes, scores, how["iou_threshold"], how["score_threshold"])


def _padded_specs(
    boxes: Spec, scores: Spec, *, max_output_size: int, **how: float
) -> tuple[Spec, Spec]:
    _check_v3(boxes, scores, **how)
    return Spec((max_output_size,), INT32), Spec((), INT32)


def _check_v5(
    boxes: Spec, scores: Spec, *, soft_nms_sigma: float, **how: float
) -> None:
    _check_v3(boxes, scores, **how)
    _checked_sigma("image.non_max_suppression_with_score", soft_nms_sigma)


NON_MAX_SUPPRESSION_V3 = Kernel(
    f"NonMaxSuppressionV3({_BOX_INPUTS}) -> indices",
    out=_check_v3,
    op="image.non_max_suppression",
    doc="""The indices of at most ``max_output_size`` boxes, int32, by descending score.

    Candidates are the boxes with a score above ``score_threshold``; NaN is not above
    it. The candidate with the highest score is selected; of equal scores, the first.
    All boxes whose overlap with it (intersection over union) is at least
    ``iou_threshold`` are dropped, and the selection is repeated. A box without area, or
    with NaN, has the overlap 0. Corners and areas are computed in float64.""",
)
NON_MAX_SUPPRESSION_V4 = Kernel(
    f"NonMaxSuppressionV4({_BOX_INPUTS}) -> indices, count",
    out=_padded_specs,
    op="image.non_max_suppression_padded",
    doc="""The indices of ``NonMaxSuppressionV3``, padded with zeros to
    ``max_output_size``, and their number without the padding.""",
)
NON_MAX_SUPPRESSION_V5 = Kernel(
    f"NonMaxSuppressionV5({_BOX_INPUTS}, soft_nms_sigma: float) "
    "-> indices, selected_scores",
    out=_check_v5,
    op="image.non_max_suppression_with_score",
    doc="""The indices of ``NonMaxSuppressionV3``, and the scores of these boxes.

    If ``soft_nms_sigma`` is not 0, each selected box multiplies the scores of the
    others by ``exp(-iou² / (2·sigma))``, in float64. Boxes whose new score is not above
    ``score_threshold`` are dropped. New scores decide which box is selected next, and
    are returned.""",
)


def non_max_suppression(
    boxes: TensorLike,
    scores: TensorLike,
    /,
    max_output_size: int,
    *,
    iou_threshold: float = 0.5,
    score_threshold: float = -math.inf,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the indices of boxes with high scores that do not overlap much.

    The box with the highest score is selected (the first one if scores are equal), and
    all boxes that overlap it by ``iou_threshold`` or more are dropped. This is repeated
    with the remaining boxes.

    Args:
        boxes: ``[n, 4]``, rows of (y1, x1, y2, x2): any two opposite corners of each
            box.
        scores: ``[n]``, real numbers.
        max_output_size: The largest number of boxes to select.
        iou_threshold: The overlap at which a box is dropped, from 0 to 1: the
            intersection of two boxes divided by their union. A box without area, or
            with NaN, overlaps nothing.
        score_threshold: Boxes are ignored unless their score is above this number. NaN
            is never above it.

    Returns:
        int32 indices, at most ``max_output_size`` of them, by descending score.

    Raises:
        ValueError: Shapes do not fit, ``max_output_size`` is negative, or a threshold
            is out of range.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> boxes = [[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.8], [0.0, 5.0, 2.0, 7.0]]
        >>> pg.image.non_max_suppression(boxes, [0.8, 0.9, 0.7], 3)
        Tensor([1, 2], dtype=int32, backend='cpu')

    Source:
        The semantics are those of ``tf.image.nonMaxSuppression`` in TensorFlow.js.

    """
    if unknown:
        raise unexpected(non_max_suppression, unknown)
    op = "image.non_max_suppression"
    given = _checked_arguments(
        op, boxes, scores, max_output_size, iou_threshold, score_threshold
    )
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
    **unknown: Unpack[Nothing],
) -> tuple[Tensor, Tensor]:
    """Return the indices of the boxes to keep, and their scores.

    With ``soft_nms_sigma``, each selected box multiplies the scores of the others by
    ``exp(-iou² / (2·sigma))``, where iou is their overlap. Boxes that overlap it by
    ``iou_threshold`` or more are still dropped. The scores have a gradient only if
    ``soft_nms_sigma`` is 0.

    Args:
        boxes: ``[n, 4]``, as in ``non_max_suppression``.
        scores: ``[n]``, real numbers.
        max_output_size: The largest number of boxes to select.
        iou_threshold: The overlap at which a box is dropped, from 0 to 1.
        score_threshold: Boxes are ignored unless their score, which may have been
            lowered, is above this number.
        soft_nms_sigma: The width of the decay, 0 or more; 0 does not lower scores.

    Returns:
        int32 indices of the selected boxes, and their scores, which may have been
        lowered.

    Raises:
        ValueError: Shapes do not fit, ``max_output_size`` or ``soft_nms_sigma`` is
            negative, or a threshold is out of range.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> boxes = [[0.0, 0.0, 2.0, 2.0], [0.0, 1.0, 2.0, 3.0]]
        >>> pg.image.non_max_suppression_with_score(
        ...     boxes, [0.9, 0.8], 2, soft_nms_sigma=0.5
        ... )[1]
        Tensor([0.9   , 0.7159], dtype=float32, backend='cpu')

    Source:
        N. Bodla, B. Singh, R. Chellappa and L. S. Davis, "Soft-NMS: Improving Object
        Detection With One Line of Code", 2017.

    """
    if unknown:
        raise unexpected(non_max_suppression_with_score, unknown)
    op = "image.non_max_suppression_with_score"
    given = _checked_arguments(
        op, boxes, scores, max_output_size, iou_threshold, score_threshold
    )
    sigma = _checked_sigma(op, float(real(op, "soft_nms_sigma", soft_nms_sigma)))
    boxes, scores, attrs = given
    if not sigma:  # the scores do not change, and have a gradient
        indices = run(NON_MAX_SUPPRESSION_V3, boxes, scores, **attrs)
        return indices, run(gather.GATHER_V2, scores, indices, axis=0, batch_dims=0)
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
    **unknown: Unpack[Nothing],
) -> tuple[Tensor, Tensor]:
    """Return the indices of the boxes to keep, and their number.

    Args:
        boxes: ``[n, 4]``, as in ``non_max_suppression``.
        scores: ``[n]``, real numbers.
        max_output_size: The largest number of boxes to select.
        iou_threshold: The overlap at which a box is dropped, from 0 to 1.
        score_threshold: Boxes are ignored unless their score is above this number.
        pad_to_max_output_size: Whether to append zeros to the indices, so that their
            shape is always ``[max_output_size]``.

    Returns:
        int32 indices, and their number without padding, as an int32 scalar.

    Raises:
        ValueError: Shapes do not fit, ``max_output_size`` is negative, or a threshold
            is out of range.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> boxes = [[0.0, 0.0, 2.0, 2.0], [0.0, 5.0, 2.0, 7.0]]
        >>> indices, count = pg.image.non_max_suppression_padded(
        ...     boxes, [0.8, 0.9], 4, pad_to_max_output_size=True
        ... )
        >>> indices.tolist(), count._item()
        ([1, 0, 0, 0], 2)

    Source:
        The semantics are those of ``tf.image.nonMaxSuppressionPadded`` in
        TensorFlow.js.

    """
    if unknown:
        raise unexpected(non_max_suppression_padded, unknown)
    op = "image.non_max_suppression_padded"
    given = _checked_arguments(
        op, boxes, scores, max_output_size, iou_threshold, score_threshold
    )
    indices, count = run_many(NON_MAX_SUPPRESSION_V4, *given[:2], **given[2])
    if not flag(op, "pad_to_max_output_size", pad_to_max_output_size):
        indices = slicing.along(indices, 0, 0, int(count._item()))
    return indices, count


def _checked_arguments(
    op: str, boxes: TensorLike, scores: TensorLike, size: int, iou: float, score: float
) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """Convert and check the arguments; return boxes, scores and attributes."""
    boxes, scores = (_convert.floating(op, x, "f") for x in (boxes, scores))
    size = integer(op, "max_output_size", size, 0)
    iou = float(real(op, "iou_threshold", iou))
    score = float(real(op, "score_threshold", score))
    _check(op, boxes, scores, iou, score)
    attrs = {"max_output_size": size, "iou_threshold": iou, "score_threshold": score}
    return boxes, scores, attrs


gradients(NON_MAX_SUPPRESSION_V3, boxes=None, scores=None)
gradients(NON_MAX_SUPPRESSION_V4, boxes=None, scores=None)
