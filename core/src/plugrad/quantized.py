"""Products and convolutions of int8 and uint8, summed in int32."""

from ._src.ops.nn.quantized import (
    __doc__ as __doc__,
)
from ._src.ops.nn.quantized import (
    conv2d,
    depthwise_conv2d,
    matmul,
)
from ._src.public import publish

__all__ = [
    "conv2d",
    "depthwise_conv2d",
    "matmul",
]

publish(globals())
