"""Valid calls of element-wise kernels of one argument that take complex numbers."""

from .. import call, complexes

CALLS = {
    "Round": call(complexes(2, 3)),
    "Sign": call(complexes(2, 3)),
}
