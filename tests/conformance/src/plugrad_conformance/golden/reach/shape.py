"""How the golden cases reach the ops of ``shape`` and ``blocks``."""

import plugrad as pg

KERNELS = {
    "BatchToSpaceND": lambda x, blockShape, crops: pg.batch_to_space_nd(
        x, blockShape, crops
    ),
    "BroadcastArgs": lambda s0, s1: pg.broadcast_args(s0, s1),
    "Concat": lambda xs, axis: pg.concat(xs, axis=axis),
    "DepthToSpace": lambda x, blockSize, dataFormat: pg.depth_to_space(
        x, blockSize, data_format=dataFormat
    ),
    "ExpandDims": lambda input, dim: pg.expand_dims(input, axis=dim),
    "Pack": lambda xs, axis: pg.stack(xs, axis=axis),
    "Reshape": lambda x, shape: pg.reshape(x, shape),
    "Reverse": lambda x, dims=None: pg.flip(x, axis=dims),
    "SpaceToBatchND": lambda x, blockShape, paddings: pg.space_to_batch_nd(
        x, blockShape, paddings
    ),
    "SplitV": lambda x, numOrSizeSplits, axis: pg.split(x, numOrSizeSplits, axis=axis),
    "Tile": lambda x, reps: pg.tile(x, reps),
    "Transpose": lambda x, perm: pg.permute_dims(x, perm),
    "Unpack": lambda value, axis: pg.unstack(value, axis=axis),
}

OPS = {
    "batchToSpaceND": pg.batch_to_space_nd,
    "broadcastArgs": pg.broadcast_args,
    "broadcastTo": pg.broadcast_to,
    "concat": lambda xs, axis=0: pg.concat(xs, axis=axis),
    "concat3d": lambda xs, axis: pg.concat(xs, axis=axis),
    "ensureShape": pg.ensure_shape,
    "expandDims": lambda x, axis=0: pg.expand_dims(x, axis=axis),
    "reshape": pg.reshape,
    "reverse2d": lambda x, axis=None: pg.flip(x, axis=axis),
    "reverse3d": lambda x, axis=None: pg.flip(x, axis=axis),
    "reverse4d": lambda x, axis=None: pg.flip(x, axis=axis),
    "spaceToBatchND": pg.space_to_batch_nd,
    "split": lambda x, sizes, axis=0: pg.split(x, sizes, axis=axis),
    "squeeze": pg.squeeze,
    "stack": lambda xs, axis=0: pg.stack(xs, axis=axis),
    "tile": pg.tile,
    "transpose": pg.permute_dims,
    "unstack": lambda x, axis=0: pg.unstack(x, axis=axis),
}
