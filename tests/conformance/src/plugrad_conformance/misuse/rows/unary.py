"""Valid calls of element-wise kernels of one argument, with complex numbers."""

from .. import call, complexes

CALLS = {
    "Round": call(complexes(2, 3)),
    "Sign": call(complexes(2, 3)),
}
