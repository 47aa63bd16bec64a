"""Valid calls of int8 convolutions and matrix products."""

import numpy as np

from .. import call, floats, ints

BYTES = ints(2, 5, 6, 4, below=9).astype(np.uint8)
ZERO = np.array(3, np.uint8)


def _epilogue(columns):
    bias = ints(columns, below=9).astype(np.int32)
    return ZERO, bias, floats(columns), ZERO


CALLS = {
    "BlockQuantizedMatMul": call(
        floats(2, 64),
        ints(3, 32, below=251).astype(np.uint8),
        floats(3, 2),
        floats(3, 2),
        bits=4,
        rounded=False,
        undefined=r"values inf",  # a backend may add codes before it scales them
    ),
    "DequantizeBlocks": call(
        ints(2, 3, 6, below=251).astype(np.uint8),
        floats(2, 3, 2),
        floats(2, 3, 2),
        bits=8,
    ),
    "QuantizedConv2D": call(
        BYTES,
        ints(2, 3, 4, 4, below=9).astype(np.int8),
        *_epilogue(4),
        strides=(1, 2),
        pad="same",
        dilations=1,
        dim_rounding_mode=None,
        groups=1,
    ),
    "QuantizedMatMul": call(BYTES, ints(4, 3, below=9).astype(np.int8), *_epilogue(3)),
    "QuantizedDepthwiseConv2D": call(
        BYTES,
        ints(2, 3, 4, 1, below=9).astype(np.int8),
        *_epilogue(4),
        strides=(1, 2),
        pad="same",
        dilations=1,
        dim_rounding_mode=None,
    ),
}
