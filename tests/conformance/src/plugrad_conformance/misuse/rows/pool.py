"""Valid calls of pooling."""

import math

import numpy as np

from .. import call, floats

_2D = {"filter_size": (2, 3), "strides": (1, 2), "pad": 1}
_3D = {"filter_size": (2, 1, 3), "strides": (2, 1, 1), "pad": "same"}
_X2 = (2, 5, 6, 3)
_Y2 = (2, 6, 3, 3)
_X3 = (2, 3, 4, 5, 6)
_Y3 = (2, 2, 4, 5, 6)
# Inputs in which the last element of each window is its maximum, and these maxima. The
# result is undefined if the maxima are not those of the input.
_ASCENDING = {
    shape: np.arange(math.prod(shape), dtype="f").reshape(shape) for shape in (_X2, _X3)
}
_MAX2 = _ASCENDING[_X2][:, [0, 1, 2, 3, 4, 4]][:, :, [1, 3, 5]]
_MAX3 = _ASCENDING[_X3][:, [1, 2]][:, :, :, [1, 2, 3, 4, 4]]
_UNDEFINED = {"undefined": "^(?!input 0)"}

CALLS = {
    "AvgPool": call(floats(*_X2), **_2D),
    "AvgPool3D": call(floats(*_X3), **_3D),
    "AvgPoolGrad": call(floats(*_Y2), floats(*_X2), **_2D),
    "AvgPool3DGrad": call(floats(*_Y3), None, **_3D, in_shape=_X3),
    "MaxPool": call(floats(*_X2), **_2D),
    "MaxPool3D": call(floats(*_X3), **_3D),
    "MaxPoolGrad": call(floats(*_Y2), _ASCENDING[_X2], _MAX2, **_2D, **_UNDEFINED),
    "MaxPool3DGrad": call(floats(*_Y3), _ASCENDING[_X3], _MAX3, **_3D, **_UNDEFINED),
    "MaxPoolWithArgmax": call(floats(*_X2), **_2D, include_batch_in_index=True),
}
