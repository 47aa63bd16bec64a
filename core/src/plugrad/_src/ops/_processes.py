"""Tensors and variables in other processes: pickle and fork.

Tensors are pickled when they are sent to another process. A pickle contains the values
as a NumPy array and the name of the backend; it contains no tape history and no cached
copies. The reduce functions are registered with ``copyreg``, because the class
``Tensor`` itself has no access to backends. Pickles refer to the functions
``plugrad._restored`` and ``plugrad._restored_variable`` by name.
"""

from __future__ import annotations

import copyreg
import os
import pickle
import warnings
from typing import Any

import numpy as np

from plugrad._src.engine.context import Scope
from plugrad._src.engine.tape import alias
from plugrad._src.registry.backend import BackendUnavailable
from plugrad._src.registry.deprecation import outside
from plugrad._src.registry.registry import registry
from plugrad._src.tensor.tensor import Tensor

from .basis._convert import tensor_of
from .basis.variable import Variable


def _restored(values: object, backend: object) -> Tensor:
    """Return an unpickled tensor, on its own backend or else on the active one.

    If its backend is not installed here, the tensor moves to the active one silently;
    if the backend is installed but cannot be opened, it moves with a warning.
    """
    if not isinstance(values, np.ndarray) or not isinstance(backend, str):
        raise pickle.UnpicklingError(
            "a pickled Tensor must contain an array and a backend name, got "
            f"{type(values).__name__} and {type(backend).__name__}"
        )
    if backend in registry.backends():
        try:
            home = registry.open(backend)
        except BackendUnavailable as error:
            text = f"a tensor in a pickle moves to the active backend: {error}"
            warnings.warn(text, stacklevel=outside())
        else:
            with Scope(backend=home):
                return tensor_of(values, copy=False)
    return tensor_of(values, copy=False)


def _restored_variable(value: Tensor, trainable: bool, name: str) -> Variable:
    """Return a variable restored from a pickle or a copy, with its own tensor."""
    return Variable(alias(value), trainable=trainable, name=name)


def _reduce_tensor(x: Tensor) -> tuple[Any, ...]:
    return _restored, (x._values(), x.backend)


def _reduce_variable(variable: Variable) -> tuple[Any, ...]:
    value = variable._value  # reading ``value`` would notify tapes
    return _restored_variable, (value, variable.trainable, variable.name)


copyreg.pickle(Tensor, _reduce_tensor)
copyreg.pickle(Variable, _reduce_variable)

# No other thread may hold the registry lock while the process forks: that thread does
# not exist in the child, which would wait for the lock forever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=registry.lock.acquire,
        after_in_parent=registry.lock.release,
        after_in_child=registry.lock.release,
    )
