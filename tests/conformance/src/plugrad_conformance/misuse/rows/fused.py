"""Valid calls of fused kernels."""

from .. import call, floats
from .conv import _UNDEFINED

_OPTIONS = {"strides": (1, 2), "pad": "same", **_UNDEFINED}
_LEAKY = {"activation": "leaky_relu", "leaky_relu_alpha": 0.5}
_PRELU = {"activation": "prelu", "leaky_relu_alpha": 0.5}

CALLS = {
    "FusedConv2D": call(
        floats(2, 5, 6, 3), floats(2, 3, 3, 4), floats(4), None, **_OPTIONS, **_LEAKY
    ),
    "FusedDepthwiseConv2D": call(
        floats(2, 5, 6, 3),
        floats(2, 3, 3, 4),
        floats(12),
        floats(5, 3, 12),
        **_OPTIONS,
        **_PRELU,
    ),
    "_FusedMatMul": call(
        floats(2, 3, 4),
        floats(5, 4),
        floats(5),
        floats(3, 5),
        transpose_a=False,
        transpose_b=True,
        **_PRELU,
    ),
}
