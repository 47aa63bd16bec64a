"""Valid calls of sorting kernels."""

from .. import call, floats

CALLS = {
    "Sort": call(floats(2, 5, 3), axis=1, descending=False),
    "TopK": call(floats(3, 5), k=2, sorted=True),
}
