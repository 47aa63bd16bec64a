"""Products and convolutions with a bias and an activation, in one kernel each."""

from ._src.ops.nn.fused import (
    __doc__ as __doc__,
)
from ._src.ops.nn.fused import (
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
