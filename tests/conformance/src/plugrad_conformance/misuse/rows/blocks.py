"""Valid calls of kernels that move spatial blocks to the channels or the batch."""

from .. import call, floats

CALLS = {
    "BatchToSpaceND": call(
        floats(12, 2, 3, 4), block_shape=(2, 3), crops=((0, 1), (2, 0))
    ),
    "DepthToSpace": call(floats(2, 3, 4, 8), block_size=2, data_format="NHWC"),
    "SpaceToBatchND": call(
        floats(2, 3, 5, 4), block_shape=(2, 3), paddings=((0, 1), (1, 0))
    ),
}
