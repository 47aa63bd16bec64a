"""Valid calls of kernels for sparse and ragged tensors."""

import numpy as np

from .. import Array, call, floats, ints


def int32s(*numbers: int) -> Array:
    """Return an int32 vector."""
    return np.array(numbers, np.int32)


INDICES = np.stack([ints(4, below=3), ints(4, below=2)], axis=1)
ROWS = int32s(5, 0, 3, 3)
SEGMENT_IDS = int32s(0, 1, 1, 3)
DEFAULT = np.array(0.5, np.float32)
PARTITION_TYPES = ("FIRST_DIM_SIZE", "VALUE_ROWIDS", "ROW_SPLITS")

CALLS = {
    "SparseToDense": call(INDICES, floats(4), DEFAULT, shape=(3, 2)),
    "SparseReshape": call(INDICES, int32s(3, 2), int32s(2, -1, 1)),
    "SparseFillEmptyRows": call(INDICES, floats(4), int32s(5, 2), DEFAULT),
    **{
        name: call(floats(6, 2, 3), ROWS, SEGMENT_IDS, num_segments=5)
        for name in ("SparseSegmentSum", "SparseSegmentMean")
    },
    "RaggedGather": call(int32s(0, 2, 3), int32s(0, 2, 2, 5), floats(5, 2), ints(2, 3)),
    "RaggedRange": call(floats(3), 2 + floats(3), np.array(0.5, np.float32)),
    "RaggedTensorToTensor": call(
        int32s(3, -1, 2, 2),
        floats(5, 2),
        DEFAULT,
        np.array([2], np.int32)[0],
        int32s(0, 0, 1),
        int32s(0, 2, 2, 5),
        row_partition_types=PARTITION_TYPES,
    ),
}
