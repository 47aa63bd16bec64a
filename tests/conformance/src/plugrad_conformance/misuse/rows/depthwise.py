"""Valid calls of depthwise convolutions."""

from .. import call, floats
from .conv import _OPEN

_GIVEN = {"strides": (1, 2), "pad": 1, **_OPEN}

CALLS = {
    "DepthwiseConv2dNative": call(floats(2, 5, 6, 3), floats(2, 3, 3, 4), **_GIVEN),
    "DepthwiseConv2dNativeBackpropInput": call(
        floats(2, 6, 3, 12), floats(2, 3, 3, 4), **_GIVEN, in_shape=(2, 5, 6, 3)
    ),
    "DepthwiseConv2dNativeBackpropFilter": call(
        floats(2, 5, 6, 3), floats(2, 6, 3, 12), **_GIVEN, filter_shape=(2, 3, 3, 4)
    ),
}
