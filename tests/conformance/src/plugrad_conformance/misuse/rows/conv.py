"""Valid calls of convolutions."""

from .. import call, floats

# Infinity times padding may be 0 or NaN.
_UNDEFINED = {"undefined": "values (inf|nan)"}
_2D = {"strides": (1, 2), "pad": "same", **_UNDEFINED}
_3D = {
    **_UNDEFINED,
    "strides": 1,
    "pad": [(1, 0), (0, 0), (0, 1)],
    "dilations": (1, 2, 1),
}

CALLS = {
    "Conv2D": call(floats(2, 5, 6, 3), floats(2, 3, 3, 4), **_2D),
    "Conv2DBackpropInput": call(
        floats(2, 5, 3, 4), floats(2, 3, 3, 4), **_2D, in_shape=(2, 5, 6, 3)
    ),
    "Conv2DBackpropFilter": call(
        floats(2, 5, 6, 3), floats(2, 5, 3, 4), **_2D, filter_shape=(2, 3, 3, 4)
    ),
    "Conv3D": call(floats(2, 3, 4, 5, 4), floats(2, 2, 3, 2, 6), **_3D, groups=2),
    "Conv3DBackpropInputV2": call(
        floats(2, 3, 2, 4, 6),
        floats(2, 2, 3, 2, 6),
        **_3D,
        groups=2,
        in_shape=(2, 3, 4, 5, 4),
    ),
    "Conv3DBackpropFilterV2": call(
        floats(2, 3, 4, 5, 4),
        floats(2, 3, 2, 4, 6),
        **_3D,
        groups=2,
        filter_shape=(2, 2, 3, 2, 6),
    ),
}
