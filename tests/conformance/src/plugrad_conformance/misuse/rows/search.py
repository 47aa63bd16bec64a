"""Valid calls of kernels that find elements."""

import numpy as np

from .. import call, floats, ints

ROWS = np.repeat(floats(2, 1), 5, axis=1)  # ascending, like all its variants

CALLS = {
    "LowerBound": call(ROWS, floats(2, 3)),
    "SearchSorted": call(ROWS, floats(2, 3), side="left"),
    "Unique": call(ints(2, 5, below=3), axis=1, sorted=True),
    "UpperBound": call(ROWS, floats(2, 3)),
}
