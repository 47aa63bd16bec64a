"""Valid calls of kernels that read and write at multi-dimensional indices."""

from .. import call, floats, ints

INDICES = ints(4, 2)

CALLS = {
    "GatherNd": call(floats(2, 3, 5), INDICES),
    "ScatterNd": call(INDICES, floats(4, 5), shape=(2, 3, 5)),
    "TensorScatterExtremum": call(floats(2, 3, 5), INDICES, floats(4, 5), largest=True),
    "TensorScatterUpdate": call(floats(2, 3, 5), INDICES, floats(4, 5)),
}
