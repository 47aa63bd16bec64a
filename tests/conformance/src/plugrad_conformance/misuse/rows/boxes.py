"""Valid calls of kernels that choose boxes and classes."""

import numpy as np

from .. import call, floats

BOXES = np.concatenate([floats(5, 2), 1 + floats(5, 2)], axis=1)
LIMITS = {"max_output_size": 3, "iou_threshold": 0.9, "score_threshold": 0.2}

CALLS = {
    "NonMaxSuppressionV3": call(BOXES, floats(5), **LIMITS),
    "NonMaxSuppressionV4": call(BOXES, floats(5), **LIMITS),
    "NonMaxSuppressionV5": call(BOXES, floats(5), **LIMITS, soft_nms_sigma=0.5),
    "Multinomial": call(floats(2, 3), floats(4, 2, 3), normalized=False),
}
