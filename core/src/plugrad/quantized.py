"""Products and convolutions in int8 and uint8, and products with 4- or 8-bit weights.

``conv2d``, ``depthwise_conv2d`` and ``matmul`` sum exactly in int32, add a bias, and
round back to int8 or uint8. ``block_matmul`` multiplies floating numbers by weights of
4 or 8 bits with a scale for each block.
"""

from ._src.ops.nn.block_quantized import (
    block_matmul,
    dequantize_blocks,
    quantize_blocks,
)
from ._src.ops.nn.quantized import (
    conv2d,
    depthwise_conv2d,
    matmul,
)
from ._src.public import publish

__all__ = [
    "block_matmul",
    "conv2d",
    "depthwise_conv2d",
    "dequantize_blocks",
    "matmul",
    "quantize_blocks",
]

publish(globals())
