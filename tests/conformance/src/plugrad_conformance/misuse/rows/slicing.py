"""Valid calls of slices and of padding."""

from .. import call, floats

CALLS = {
    "MirrorPad": call(floats(3, 4), paddings=((1, 2), (0, 3)), mode="reflect"),
    "PadV2": call(floats(2, 3), paddings=((1, 2), (0, 3)), constant_values=0.5),
    "Slice": call(floats(3, 4, 5), begin=(1, 0, 2), size=(2, 4, 1)),
    "StridedSlice": call(
        floats(4, 5, 6), begin=(0, 4, 1), size=(4, 3, 2), strides=(1, -2, 3)
    ),
}
