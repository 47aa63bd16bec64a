"""Right calls of convolutions of bytes."""

import numpy as np

from .. import call, floats, ints

BYTES = ints(2, 5, 6, 4, below=9).astype(np.uint8)
ZERO = np.array(3, np.uint8)
# Weights [2, 3, 4, 4] as `pack` packs them. All columns have one sum, and keep it where
# a test turns the elements of the last axis.
COLUMN = ints(24, below=9)
WEIGHTS = np.zeros((24, 16), np.int8)
WEIGHTS[:, :4] = np.stack([np.roll(COLUMN, i) for i in range(4)], 1)
PANELS = WEIGHTS.reshape(6, 4, 1, 16).transpose(2, 0, 3, 1)


def _end(columns):
    bias = ints(columns, below=9).astype(np.int32)
    return ZERO, bias, floats(columns), ZERO


CALLS = {
    "QuantizedConv2D": call(
        BYTES,
        PANELS,
        WEIGHTS[:, :4].sum(0, dtype=np.int32),
        *_end(4),
        window=(2, 3),
        strides=(1, 2),
        pad="same",
        dilations=1,
        dim_rounding_mode=None,
        groups=1,
        undefined="input [12]: values",  # the sums are not those of the panels
    ),
    "QuantizedDepthwiseConv2D": call(
        BYTES,
        ints(2, 3, 4, 1, below=9).astype(np.int8),
        *_end(4),
        strides=(1, 2),
        pad="same",
        dilations=1,
        dim_rounding_mode=None,
    ),
}
