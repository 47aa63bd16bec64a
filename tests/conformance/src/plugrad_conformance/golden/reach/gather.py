"""How the golden cases reach the ops of ``gather`` and ``scatter``."""

import plugrad as pg

KERNELS = {
    "GatherNd": lambda params, indices: pg.gather_nd(params, indices),
    "GatherV2": lambda x, indices, axis=0, batchDims=0: pg.gather(
        x, indices, axis=axis, batch_dims=batchDims
    ),
    "OneHot": lambda indices, depth, onValue, offValue, dtype: pg.one_hot(
        indices, depth, on_value=onValue, off_value=offValue, dtype=dtype
    ),
    "ScatterNd": lambda indices, updates, shape: pg.scatter_nd(indices, updates, shape),
    "TensorScatterUpdate": lambda tensor, indices, updates: pg.tensor_scatter_update(
        tensor, indices, updates
    ),
    "UnsortedSegmentSum": lambda x, segmentIds, numSegments: pg.unsorted_segment_sum(
        x, segmentIds, numSegments
    ),
}

OPS = {
    "gather": lambda x, indices, axis=0, batch_dims=0: pg.gather(
        x, indices, axis=axis, batch_dims=batch_dims
    ),
    "gatherND": pg.gather_nd,
    "oneHot": pg.one_hot,
    "scatterND": pg.scatter_nd,
    "tensorScatterUpdate": pg.tensor_scatter_update,
}
