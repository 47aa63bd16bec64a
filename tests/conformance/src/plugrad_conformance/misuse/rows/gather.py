"""Valid calls of kernels that read and add up slices by index."""

from .. import call, floats, ints

CALLS = {
    "GatherV2": call(floats(2, 3, 4), ints(2, 5, below=3), axis=1, batch_dims=1),
    "OneHot": call(
        ints(2, 3, below=5),
        depth=4,
        on_value=2.5,
        off_value=-1,
        axis=1,
        dtype="float32",
    ),
    "Take": call(floats(2, 3, 4), ints(2, 5, below=3), axis=1, batch_dims=1),
    "UnsortedSegmentSum": call(floats(5, 2), ints(5, below=3), num_segments=3),
}
