"""Valid calls of sparse and ragged tensors."""

import numpy as np

from .. import Array, call, floats, ints


def whole(*numbers: int) -> Array:
    """Return a vector of int32."""
    return np.array(numbers, np.int32)


PLACES = np.stack([ints(4, below=3), ints(4, below=2)], axis=1)
ROWS = whole(5, 0, 3, 3)
IDS = whole(0, 1, 1, 3)
DEFAULT = np.array(0.5, np.float32)
TYPES = ("FIRST_DIM_SIZE", "VALUE_ROWIDS", "ROW_SPLITS")

CALLS = {
    "SparseToDense": call(PLACES, floats(4), DEFAULT, shape=(3, 2)),
    "SparseReshape": call(PLACES, whole(3, 2), whole(2, -1, 1)),
    "SparseFillEmptyRows": call(PLACES, floats(4), whole(5, 2), DEFAULT),
    **{
        name: call(floats(6, 2, 3), ROWS, IDS, num_segments=5)
        for name in ("SparseSegmentSum", "SparseSegmentMean")
    },
    "RaggedGather": call(whole(0, 2, 3), whole(0, 2, 2, 5), floats(5, 2), ints(2, 3)),
    "RaggedRange": call(floats(3), 2 + floats(3), np.array(0.5, np.float32)),
    "RaggedTensorToTensor": call(
        whole(3, -1, 2, 2),
        floats(5, 2),
        DEFAULT,
        np.array([2], np.int32)[0],
        whole(0, 0, 1),
        whole(0, 2, 2, 5),
        row_partition_types=TYPES,
    ),
}
