"""Valid calls of kernels that change shapes and move elements."""

import numpy as np

from .. import call, floats

CALLS = {
    "BroadcastArgs": call(np.array([2, 1, 4], np.int32), np.array([3, 1], np.int32)),
    "BroadcastTo": call(floats(3, 1), shape=(2, 3, 4)),
    "Concat": call(floats(2, 3, 4), floats(2, 5, 4), axis=1),
    "ExpandDims": call(floats(2, 3), axis=1),
    "Pack": call(floats(2, 3), floats(2, 3), axis=1),
    "Reshape": call(floats(2, 3, 4), shape=(4, 6)),
    "Reverse": call(floats(2, 3, 4), axis=(0, 2)),
    "SplitV": call(floats(2, 6, 4), sizes=(1, 2, 3), axis=1),
    "Tile": call(floats(2, 3), repetitions=(3, 2)),
    "Transpose": call(floats(2, 3, 4), axes=(2, 0, 1)),
    "Unpack": call(floats(2, 3, 4), axis=1),
}
