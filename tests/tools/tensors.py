"""Tensors of every dtype and layout, for tests of copies and interchange."""

import numpy as np
import plugrad as pg
from plugrad._src.tensor import dtypes

DTYPES = [name for name in dtypes.DTYPES if name != "string"]
LAYOUTS = {
    "0-d": lambda x: x[1, 2],
    "1-d": lambda x: x[0],
    "C": lambda x: x,
    "Fortran": lambda x: pg.permute_dims(x, (1, 0)),
    "reversed": lambda x: pg.flip(x),
    "every other": lambda x: x[:, ::2],
    "broadcast": lambda x: pg.broadcast_to(x[:1], (3, 4)),
    "empty": lambda x: x[:0],
}


def matrix(dtype):
    return pg.asarray((np.arange(12).reshape(3, 4) % 7).astype(dtype))


def address(x):
    return np.asarray(x.numpy()).ctypes.data
