"""Tensors to and from other libraries and processes: DLPack, pickle, fork.

The other half of DLPack is ``Tensor.__dlpack__``. A pickle, which is what goes from
process to process, holds the values as a NumPy array and the name of the backend, and
nothing else: no history on tapes, no replicas. ``copyreg`` carries it, because only
this layer knows how to put values on a backend by name.

Map: ``from_dlpack``; pickle of ``Tensor`` and ``Variable``; ``os.fork``.
"""

from __future__ import annotations

import copyreg
import os
import pickle
import warnings
from typing import Any

import numpy as np

from plugrad._control import backends, use_backend
from plugrad._dtypes import DType, canonical
from plugrad._engine import active
from plugrad._entries import BackendUnavailable
from plugrad._registry import registry
from plugrad._tensor import HOST, Tensor
from plugrad.ops._convert import asarray
from plugrad.ops.variable import Variable

# --- DLPack ----------------------------------------------------------------------


def from_dlpack(x: Any, /, *, copy: bool | None = None) -> Tensor:
    """Return the array of another library as a tensor on the active backend.

    Args:
        x: Anything with ``__dlpack__``: of NumPy, PyTorch, JAX, CuPy... A tensor or
            variable of plugrad is returned as it is, with its gradient.
        copy: None shares memory where the backend can (on cpu it does), and copies
            elsewhere. Whoever shares promises that nobody writes to it.
            True copies in any case, False never.

    Raises:
        TypeError: ``x`` has no ``__dlpack__``, or a dtype that plugrad lacks.
        BufferError: The memory is out of reach and ``copy`` is False, or the other
            library does not export it (PyTorch: detach it first).

    """
    if isinstance(x, Tensor | Variable):
        return asarray(x)
    if not hasattr(x, "__dlpack__") or not hasattr(x, "__dlpack_device__"):
        raise TypeError(
            f"from_dlpack: {type(x).__name__} has no __dlpack__; use asarray"
        )
    backend = active()
    take = None if copy else getattr(backend.runtime.arrays, "from_dlpack", None)
    try:
        native = NotImplemented if take is None else take(x)
        if native is NotImplemented:
            if copy is False:
                raise BufferError(
                    f"from_dlpack: backend {backend.name!r} cannot share memory of "
                    f"device {tuple(x.__dlpack_device__())} with {type(x).__name__}; "
                    "allow a copy"
                )
            host = _on_host(x)
            native = backend.upload(np.array(host, _known(host.dtype), copy=copy))
    except RuntimeError as error:  # NumPy's for what it has no dtype for
        raise TypeError(
            f"from_dlpack: {type(x).__name__} of dtype {getattr(x, 'dtype', '?')}: "
            f"{error}; cast it first"
        ) from error
    if _known(native.dtype) not in backend.dtypes:
        raise TypeError(
            f"from_dlpack: backend {backend.name!r} has no {native.dtype}; cast first"
        )
    return Tensor(native, backend)


def _on_host(x: Any) -> np.ndarray[Any, DType]:
    """Return an array of NumPy that shares the memory of ``x``, if it is the host's."""
    if tuple(x.__dlpack_device__()) == HOST:
        return np.from_dlpack(x)
    return np.from_dlpack(x, device="cpu")  # its library copies


def _known(dtype: DType) -> DType:
    try:
        return canonical(dtype)
    except TypeError as error:
        raise TypeError(f"from_dlpack: {error}; cast first") from None


# --- pickle ----------------------------------------------------------------------


def restored(values: object, backend: object) -> Tensor:
    """Return a tensor from a pickle: on its backend, or else on the active one.

    A backend that is not installed here gives way without a word, one that is and does
    not open with a warning. Nothing but values and a name comes from the pickle.
    """
    if not isinstance(values, np.ndarray) or not isinstance(backend, str):
        raise pickle.UnpicklingError(
            "a Tensor in a pickle is an array and the name of a backend, got "
            f"{type(values).__name__} and {type(backend).__name__}"
        )
    if backend in backends():
        try:
            with use_backend(backend):
                return asarray(values, copy=False)
        except BackendUnavailable as error:
            warnings.warn(f"a tensor in a pickle moves: {error}", stacklevel=2)
    return asarray(values, copy=False)


def restored_variable(value: Tensor, trainable: bool, name: str) -> Variable:
    """Return a variable from a pickle or a copy, with a tensor of its own."""
    return Variable(value._sibling(), trainable=trainable, name=name)


def _reduced(x: Tensor) -> tuple[Any, ...]:
    return restored, (x.numpy(), x.backend)


def _reduced_variable(variable: Variable) -> tuple[Any, ...]:
    value = variable._value  # reading ``value`` would tell the tapes
    return restored_variable, (value, variable.trainable, variable.name)


copyreg.pickle(Tensor, _reduced)
copyreg.pickle(Variable, _reduced_variable)


# --- fork ------------------------------------------------------------------------

# No other thread may be halfway through the registry when a process is forked: the
# child would wait for that thread, which it does not have.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=registry.lock.acquire,
        after_in_parent=registry.lock.release,
        after_in_child=registry.lock.release,
    )
