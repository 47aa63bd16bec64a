"""Valid calls of grayscale dilation."""

from .. import call, floats

_OPTIONS = {"strides": (1, 2), "pad": 1}
_INPUTS = floats(2, 5, 6, 3), floats(2, 4, 3)

CALLS = {
    "Dilation2D": call(*_INPUTS, **_OPTIONS),
    "Dilation2DBackpropInput": call(*_INPUTS, floats(2, 6, 3, 3), **_OPTIONS),
    "Dilation2DBackpropFilter": call(*_INPUTS, floats(2, 6, 3, 3), **_OPTIONS),
}
