"""New tensors, and tensors in other shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import plugrad as pg
from plugrad import Tensor

from keras_plugrad.src.keras_names import config, result_type, standardize_dtype

from ..core.variables import convert_to_tensor, dtype_of, with_own_dtype

INTEGERS = (int, np.integer)

# --- new tensors -----------------------------------------------------------------


def _dtype(dtype: Any) -> str:
    return str(standardize_dtype(dtype or config.floatx()))


def array(x: Any, dtype: Any = None) -> Tensor:
    """Return ``x`` as a tensor."""
    return convert_to_tensor(x, dtype=dtype)


def copy(x: Any) -> Tensor:
    """Return a tensor with the same values and a memory of its own."""
    return pg.asarray(convert_to_tensor(x), copy=True)


def zeros(shape: Any, dtype: Any = None) -> Tensor:
    """Return zeros."""
    return pg.zeros(shape, dtype=_dtype(dtype))


def ones(shape: Any, dtype: Any = None) -> Tensor:
    """Return ones."""
    return pg.ones(shape, dtype=_dtype(dtype))


def empty(shape: Any, dtype: Any = None) -> Tensor:
    """Return zeros: plugrad has no memory without values."""
    return zeros(shape, dtype)


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Tensor:
    """Return a tensor that contains one value, or a value that is broadcast."""
    value = convert_to_tensor(fill_value, dtype=_dtype(dtype))
    return pg.broadcast_to(value, shape)


def zeros_like(x: Any, dtype: Any = None) -> Tensor:
    """Return zeros of the shape of ``x``."""
    x = convert_to_tensor(x)
    return pg.zeros(x.shape, dtype=x.dtype if dtype is None else _dtype(dtype))


def ones_like(x: Any, dtype: Any = None) -> Tensor:
    """Return ones of the shape of ``x``."""
    x = convert_to_tensor(x)
    return pg.ones(x.shape, dtype=x.dtype if dtype is None else _dtype(dtype))


def empty_like(x: Any, dtype: Any = None) -> Tensor:
    """Return zeros of the shape of ``x``."""
    return zeros_like(x, dtype)


def full_like(x: Any, fill_value: Any, dtype: Any = None) -> Tensor:
    """Return a tensor of the shape of ``x`` that contains one value."""
    x = convert_to_tensor(x)
    return full(x.shape, fill_value, x.dtype if dtype is None else dtype)


def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Tensor:
    """Return ones on a diagonal, and zeros elsewhere."""
    return pg.eye(int(N), None if M is None else int(M), k=int(k), dtype=_dtype(dtype))


def identity(n: int, dtype: Any = None) -> Tensor:
    """Return an identity matrix."""
    return eye(n, dtype=dtype)


def arange(start: Any, stop: Any = None, step: Any = None, dtype: Any = None) -> Tensor:
    """Return evenly spaced numbers, without ``stop``."""
    step = 1 if step is None else step
    if dtype is None:
        ends = [with_own_dtype(x) for x in (start, stop, step) if x is not None]
        dtype = result_type(*[dtype_of(x) for x in ends])
    if stop is None:
        start, stop = 0, start
    numbers = [x.item() if isinstance(x, Tensor) else x for x in (start, stop, step)]
    first, last, width = numbers
    dtype = standardize_dtype(dtype)
    if dtype == "bool":
        return pg.astype(pg.arange(first, last, width, dtype="int32"), "bool")
    return pg.arange(first, last, width, dtype=dtype)


# --- other shapes ----------------------------------------------------------------


def ndim(x: Any) -> int:
    """Return the number of axes."""
    return len(convert_to_tensor(x).shape)


def size(x: Any) -> int:
    """Return the number of elements."""
    return convert_to_tensor(x).size


def reshape(x: Any, newshape: Any) -> Tensor:
    """Return the elements in another shape."""
    x = convert_to_tensor(x)
    shape = (newshape,) if isinstance(newshape, INTEGERS) else newshape
    return pg.reshape(x, tuple([int(n) for n in shape]))


def transpose(x: Any, axes: Any = None) -> Tensor:
    """Return ``x`` with its axes in another order; reversed by default."""
    x = convert_to_tensor(x)
    order = range(len(x.shape))[::-1] if axes is None else axes
    return pg.permute_dims(x, tuple(order))


def squeeze(x: Any, axis: Any = None) -> Tensor:
    """Return ``x`` without axes of size 1."""
    x = convert_to_tensor(x)
    if axis is None:
        axis = tuple([i for i, n in enumerate(x.shape) if n == 1])
    return pg.squeeze(x, axis=tuple(axis) if isinstance(axis, list) else axis)


def expand_dims(x: Any, axis: Any) -> Tensor:
    """Return ``x`` with new axes at these places of the result."""
    x = convert_to_tensor(x)
    axis = int(axis) if isinstance(axis, INTEGERS) else tuple(axis)
    return pg.expand_dims(x, axis=axis)


def broadcast_to(x: Any, shape: Any) -> Tensor:
    """Return ``x`` broadcast to a shape."""
    return pg.broadcast_to(convert_to_tensor(x), shape)


def flip(x: Any, axis: Any = None) -> Tensor:
    """Return ``x`` with the elements along axes in reverse order."""
    x = convert_to_tensor(x)
    return pg.flip(x, axis=tuple(axis) if isinstance(axis, list) else axis)
