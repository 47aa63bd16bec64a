"""How the golden cases reach the ops of ``sparse`` and ``ragged``."""

import plugrad as pg


def ragged_gather(paramsNestedSplits, paramsDenseValues, indices, outputRaggedRank):
    outer, inner = pg.sparse.ragged_gather(
        paramsNestedSplits, paramsDenseValues, indices
    )
    assert len(outer) == outputRaggedRank
    return [*outer, inner]


def to_dense(indices, values, shape, default=None):
    return pg.sparse.to_dense(indices, values, shape, default_value=default)


def ragged_tensor_to_tensor(
    shape, values, defaultValue, rowPartitionTensors, rowPartitionTypes
):
    return pg.sparse.ragged_tensor_to_tensor(
        shape, values, defaultValue, rowPartitionTensors, rowPartitionTypes
    )


KERNELS = {
    "RaggedGather": ragged_gather,
    "RaggedRange": lambda starts, limits, deltas: pg.sparse.ragged_range(
        starts, limits, deltas
    ),
    "RaggedTensorToTensor": ragged_tensor_to_tensor,
    "SparseFillEmptyRows": lambda indices, values, denseShape, defaultValue: (
        pg.sparse.fill_empty_rows(indices, values, denseShape, defaultValue)
    ),
    "SparseReshape": lambda inputIndices, inputShape, newShape: pg.sparse.reshape(
        inputIndices, inputShape, newShape
    ),
    "SparseSegmentMean": lambda data, indices, segmentIds: pg.sparse.segment_mean(
        data, indices, segmentIds
    ),
    "SparseSegmentSum": lambda data, indices, segmentIds: pg.sparse.segment_sum(
        data, indices, segmentIds
    ),
    "SparseToDense": lambda sparseIndices, sparseValues, defaultValue, outputShape: (
        to_dense(sparseIndices, sparseValues, outputShape, defaultValue)
    ),
}

OPS = {
    "raggedGather": ragged_gather,
    "raggedRange": pg.sparse.ragged_range,
    "raggedTensorToTensor": pg.sparse.ragged_tensor_to_tensor,
    "sparseFillEmptyRows": pg.sparse.fill_empty_rows,
    "sparseReshape": pg.sparse.reshape,
    "sparseSegmentMean": pg.sparse.segment_mean,
    "sparseSegmentSum": pg.sparse.segment_sum,
    "sparseToDense": to_dense,
}
