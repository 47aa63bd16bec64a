"""The kernel registry: look up a kernel function, put one on top, remove it."""

from typing import Any

import numpy as np
import plugrad as pg

Array = np.ndarray[Any, np.dtype[Any]]


def relu(x: Array) -> Array:
    """Return ``max(x, 0)``."""
    return np.maximum(x, 0, dtype=x.dtype)


before = pg.get_kernel("Relu", "cpu")
print(before and before.__module__.partition(".")[0])  # plugrad_cpu

pg.register_kernel("Relu", "cpu", relu)  # a new layer
print(pg.get_kernel("Relu", "cpu") is relu)  # True

pg.unregister_kernel("Relu", "cpu")  # the layer below is in force again
print(pg.get_kernel("Relu", "cpu") is before)  # True
