"""Variables, and conversion between arrays, tensors and dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import plugrad as pg
from plugrad import Tensor

from keras_plugrad.src.keras_names import (
    KerasTensor,
    KerasVariable,
    config,
    result_type,
    standardize_dtype,
    tree,
)

PYTHON_NUMBERS = (bool, int, float, complex)


class Variable(KerasVariable):  # type: ignore[misc]
    """A variable of Keras whose value is a tensor of plugrad."""

    def _initialize(self, value: Any) -> None:
        self._value = convert_to_tensor(value, dtype=self._dtype)

    def _direct_assign(self, value: Tensor) -> None:
        self._value = value

    def _convert_to_tensor(self, value: Any, dtype: Any = None) -> Tensor:
        return convert_to_tensor(value, dtype=dtype)

    def __plugrad_tensor__(self) -> Tensor:
        """Return the current value; ops of plugrad call this method."""
        value: Tensor = self.value
        return value

    def __array__(
        self, dtype: Any = None, copy: bool | None = None
    ) -> np.ndarray[Any, Any]:
        """Return the current value as a NumPy array."""
        return np.array(convert_to_numpy(self.value), dtype=dtype, copy=copy)


def convert_to_tensor(
    x: Any, dtype: Any = None, sparse: bool | None = None, ragged: bool | None = None
) -> Tensor:
    """Return ``x`` as a tensor of plugrad, on the active backend.

    Python numbers, and lists of them, get Keras' default dtypes; arrays keep theirs.

    Raises:
        ValueError: A sparse or ragged tensor is wanted, or ``x`` is symbolic.

    """
    if sparse or ragged:
        kind = "sparse" if sparse else "ragged"
        raise ValueError(f"{kind}=True: keras-plugrad has no {kind} tensors")
    if isinstance(x, KerasTensor):
        raise ValueError(f"a symbolic tensor has no values: {x}")
    if isinstance(x, KerasVariable):
        x = x.value
    if dtype is None:
        if type(x) is Tensor:
            return x
        dtype = _default_dtype(x)
    else:
        dtype = standardize_dtype(dtype)
    if isinstance(x, Tensor):
        return x if x.dtype.name == dtype else pg.astype(x, dtype)
    if isinstance(x, list | tuple) and not _has_tensors(x):
        x = np.asarray(x)  # so that NumPy, like Keras, truncates floats for integers
    if isinstance(x, float | np.generic | np.ndarray) and dtype is not None:
        return pg.astype(pg.asarray(np.asarray(x)), dtype)
    return pg.asarray(x, dtype=dtype)


def _default_dtype(x: Any) -> str | None:
    """Return the dtype that Keras gives to Python numbers; None for all else."""
    if isinstance(x, bool):
        return "bool"
    if isinstance(x, int):
        return "int32"
    if isinstance(x, float):
        return str(config.floatx())
    if not isinstance(x, list | tuple):
        return None
    leaves = tree.flatten(x)
    kinds = [getattr(leaf, "dtype", type(leaf)) for leaf in leaves]
    if not kinds:
        return str(config.floatx())
    if any(kind in (str, bytes) for kind in kinds):
        return None
    return str(result_type(*kinds))


def _has_tensors(x: list[Any] | tuple[Any, ...]) -> bool:
    return any(isinstance(leaf, Tensor | KerasVariable) for leaf in tree.flatten(x))


def convert_to_numpy(x: Any) -> Any:
    """Return the values as a NumPy array."""
    if isinstance(x, KerasVariable):
        x = x.value
    if isinstance(x, Tensor):
        return np.array(x.numpy())  # which may be written to
    if isinstance(x, list | tuple):
        return np.array([convert_to_numpy(part) for part in x])
    return np.array(x)


def is_tensor(x: object) -> bool:
    """Return whether ``x`` is a tensor of plugrad."""
    return isinstance(x, Tensor)


def shape(x: Any) -> tuple[int, ...]:
    """Return the sizes of the axes."""
    return tuple(x.shape)


def cast(x: Any, dtype: Any) -> Tensor:
    """Return ``x`` converted to a dtype."""
    return convert_to_tensor(convert_to_tensor(x), dtype=dtype)


def random_seed_dtype() -> str:
    """Return the dtype of the state of seed generators."""
    return "uint32"


def with_own_dtype(x: Any) -> Any:
    """Return a tensor, or the number unchanged, so that Keras' promotion sees its type.

    Keras promotes Python numbers by their type, as ``result_type`` does.
    """
    return x if isinstance(x, PYTHON_NUMBERS) else convert_to_tensor(x)


def dtype_of(x: Any) -> Any:
    """Return what ``result_type`` takes: the dtype of a tensor, or a Python type."""
    return type(x) if isinstance(x, PYTHON_NUMBERS) else x.dtype.name


def promoted(*xs: Any, to: tuple[Any, ...] = ()) -> list[Tensor]:
    """Return tensors of the dtype to which Keras promotes these arguments.

    Args:
        xs: Tensors, arrays or numbers.
        to: Further dtypes that take part, such as ``float`` for a quotient.

    """
    given = [with_own_dtype(x) for x in xs]
    dtype = result_type(*[dtype_of(x) for x in given], *to)
    return [convert_to_tensor(x, dtype=dtype) for x in given]


def floating(x: Any) -> Tensor:
    """Return ``x`` as a floating or complex tensor, converted as Keras does."""
    x = convert_to_tensor(x)
    kind = standardize_dtype(x.dtype)
    if "float" in kind or "complex" in kind:
        return x
    dtype = config.floatx() if kind == "int64" else result_type(kind, float)
    return pg.astype(x, dtype)
