"""Integers encoded as vectors of zeros and ones."""

from __future__ import annotations

from typing import Any

import plugrad as pg
from plugrad import Tensor

from keras_plugrad.src.keras_names import standardize_dtype

from ..core.variables import convert_to_tensor


def one_hot(
    x: Any, num_classes: int, axis: int = -1, dtype: Any = None, sparse: bool = False
) -> Tensor:
    """Return 1 at each index along a new axis; an index out of range gives zeros."""
    _check_is_dense(sparse)
    indices = convert_to_tensor(x)
    if not pg.isdtype(indices.dtype, "integral"):
        indices = pg.astype(indices, "int32")
    found = standardize_dtype(dtype)
    one, zero = (True, False) if found == "bool" else (1, 0)
    return pg.one_hot(
        indices,
        int(num_classes),
        on_value=one,
        off_value=zero,
        axis=axis,
        dtype=found,
    )


def multi_hot(
    x: Any, num_classes: int, axis: int = -1, dtype: Any = None, sparse: bool = False
) -> Tensor:
    """Return 1 at all indices of a sample."""
    _check_is_dense(sparse)
    indices = convert_to_tensor(x)
    rows = one_hot(indices, num_classes, axis=axis, dtype=dtype)
    reduced = 1 if len(indices.shape) > 1 else 0
    if rows.dtype.name == "bool":
        return pg.any(rows, axis=reduced)
    return pg.max(rows, axis=reduced)


def _check_is_dense(sparse: bool) -> None:
    if sparse:
        raise ValueError("sparse=True: keras-plugrad has no sparse tensors")
