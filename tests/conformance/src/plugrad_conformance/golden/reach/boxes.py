"""How the golden cases reach the ops of ``boxes``."""

import math

import plugrad as pg


def suppression(op):
    """Map a golden case to an op of non-maximum suppression."""

    def row(
        boxes,
        scores,
        maxOutputSize,
        iouThreshold=0.5,
        scoreThreshold=-math.inf,
        **more,
    ):
        given = {"iou_threshold": iouThreshold, "score_threshold": scoreThreshold}
        return op(boxes, scores, maxOutputSize, **given, **more)

    return row


HARD = suppression(pg.image.non_max_suppression)
PADDED = suppression(pg.image.non_max_suppression_padded)
SOFT = suppression(pg.image.non_max_suppression_with_score)

KERNELS = {
    "NonMaxSuppressionV3": HARD,
    "NonMaxSuppressionV4": lambda padToMaxOutputSize=False, **given: PADDED(
        **given, pad_to_max_output_size=padToMaxOutputSize
    ),
    "NonMaxSuppressionV5": lambda softNmsSigma=0.0, **given: SOFT(
        **given, soft_nms_sigma=softNmsSigma
    ),
}

OPS = {"nonMaxSuppression": HARD}
