"""Valid calls of depthwise convolutions."""

from .. import call, floats
from .conv import _UNDEFINED

_OPTIONS = {"strides": (1, 2), "pad": 1, **_UNDEFINED}

CALLS = {
    "DepthwiseConv2dNative": call(floats(2, 5, 6, 3), floats(2, 3, 3, 4), **_OPTIONS),
    "DepthwiseConv2dNativeBackpropInput": call(
        floats(2, 6, 3, 12), floats(2, 3, 3, 4), **_OPTIONS, in_shape=(2, 5, 6, 3)
    ),
    "DepthwiseConv2dNativeBackpropFilter": call(
        floats(2, 5, 6, 3), floats(2, 6, 3, 12), **_OPTIONS, filter_shape=(2, 3, 3, 4)
    ),
}
