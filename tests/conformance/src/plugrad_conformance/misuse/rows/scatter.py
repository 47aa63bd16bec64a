"""Valid calls of kernels that read and write at multi-dimensional indices."""

from .. import call, floats, ints

PLACES = ints(4, 2)

CALLS = {
    "GatherNd": call(floats(2, 3, 5), PLACES),
    "ScatterNd": call(PLACES, floats(4, 5), shape=(2, 3, 5)),
    "TensorScatterExtremum": call(floats(2, 3, 5), PLACES, floats(4, 5), largest=True),
    "TensorScatterUpdate": call(floats(2, 3, 5), PLACES, floats(4, 5)),
}
