"""Shape inference: functions run on arrays that have a shape and a dtype only.

A backend of plugrad without values runs the ops: the output shapes of its kernels are
those that the contracts state. Ops whose results depend on values cannot run on it;
then the function runs on zeros. It runs twice if symbolic shapes have unknown sizes: a
size that differs between the two runs is unknown in the result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np
import plugrad as pg
from plugrad import Tensor, plugin

from keras_plugrad.src.keras_names import (
    KerasTensor,
    StatelessScope,
    SymbolicScope,
    standardize_dtype,
    tree,
)

BACKEND = "_keras_shapes"  # an internal backend
DTYPES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 "
    "float64 complex64 complex128 string"
)
SIZES = 83, 89  # in place of unknown sizes; unusual, so that no coincidence hides them


class NoValues(Exception):
    """The result of an op depends on values."""


class Shaped:
    """A native array without values."""

    __slots__ = ("__weakref__", "dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape = tuple(shape)
        self.dtype = dtype


class ShapedArrays:
    """Makes arrays without values."""

    def upload(self, values: np.ndarray[Any, Any]) -> Shaped:
        """Return an array with the shape and the dtype of ``values``."""
        return Shaped(values.shape, values.dtype)

    def download(self, native: Shaped) -> NoReturn:
        """Raise an error, because there are no values."""
        raise NoValues

    def nbytes(self, native: Shaped) -> int:
        """Return 0."""
        return 0


def _kernel(contract: plugin.Kernel) -> Callable[..., Any]:
    """Return a function that computes the shapes of the outputs by the contract."""
    rule: Any = contract.out
    is_single = len(contract.outputs) == 1 and not contract.outputs[0].startswith("*")

    def run(*xs: Any, **attrs: Any) -> Any:
        given = () if not contract.inputs else xs
        specs = [None if x is None else plugin.Spec(x.shape, x.dtype) for x in given]
        found = rule(*specs, **attrs)
        if not found:
            raise NoValues
        if isinstance(found, plugin.Spec):
            return Shaped(found.shape, found.dtype)
        arrays = tuple([Shaped(spec.shape, spec.dtype) for spec in found])
        return arrays[0] if is_single and len(arrays) == 1 else arrays

    return run


def _open() -> plugin.Runtime:
    kernels = {name: _kernel(k) for name, k in plugin.contracts().items()}
    return plugin.Runtime(
        arrays=ShapedArrays(), kernels=kernels, dtypes=tuple(DTYPES.split())
    )


@functools.cache
def _backend() -> str:
    """Register the backend without values, and return its name."""
    pg.register_backend(plugin.Backend(BACKEND, open=_open, priority=-100))
    return BACKEND


class Inputs(NamedTuple):
    """The arguments of a function."""

    args: tuple[Any, ...]
    options: dict[str, Any]


def compute_output_spec(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return what ``fn`` returns, with symbolic tensors in place of tensors."""
    given = Inputs(args, kwargs)
    results = [_run(fn, given, size) for size in _sizes(given)]
    return tree.map_structure(_symbol, results[0], results[-1])


def _sizes(given: Inputs) -> tuple[int, ...]:
    """Return the sizes that stand for unknown ones, one for each run that is needed."""
    leaves = tree.flatten((given.args, given.options))
    shapes = [x.shape for x in leaves if isinstance(x, KerasTensor)]
    return SIZES if any(None in shape for shape in shapes) else SIZES[:1]


def _run(fn: Callable[..., Any], given: Inputs, size: int) -> Any:
    """Call a function without values if it reads none, and on zeros if it does.

    Each call has its own scope, because a scope keeps what was assigned to variables.
    """
    try:
        with StatelessScope(), SymbolicScope(), pg.use_backend(_backend()):
            return _called(fn, given, size)
    except NoValues:
        with StatelessScope(), SymbolicScope():
            return _called(fn, given, size)


def _called(fn: Callable[..., Any], given: Inputs, size: int) -> Any:
    """Call a function on zeros in place of symbolic tensors."""

    def concrete(x: Any) -> Any:
        if not isinstance(x, KerasTensor):
            return x
        sizes = [size if n is None else n for n in x.shape]
        return pg.zeros(sizes, dtype=x.dtype)

    args = tree.map_structure(concrete, given.args)
    options = tree.map_structure(concrete, given.options)
    return fn(*args, **options)


def _symbol(first: Any, second: Any) -> Any:
    """Return a symbolic tensor; a size that differs between two results is unknown."""
    if not isinstance(first, Tensor):
        return first
    pairs = zip(first.shape, second.shape, strict=True)
    shape = [n if n == m else None for n, m in pairs]
    return KerasTensor(shape, standardize_dtype(first.dtype))
