"""Native arrays: ``numpy.ndarray``, or a NumPy scalar if a function returns one."""

from __future__ import annotations

import contextvars
import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from . import pool

Array = np.ndarray[Any, Any]
DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"]
DTYPES += [
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
DTYPES += ["string"]


def boxed(y: Any) -> Array:
    """Return an array, even for a single string, which NumPy returns as bytes."""
    return np.array(y, object) if type(y) is bytes else y


class NumpyArrays:
    """Moves values to and from NumPy without copying; downloads are read-only views."""

    def upload(self, values: Array) -> Array:
        """Return the array itself."""
        return values

    def download(self, native: Array) -> Array:
        """Return a read-only view."""
        view = np.asarray(native).view()
        view.flags.writeable = False
        return view

    def to_dlpack(self, native: Array) -> Array:
        """Return the array itself: other libraries read its memory in place."""
        return np.asarray(native)

    def from_dlpack(self, x: Any) -> Any:
        """Return an array that shares the memory of ``x``, if it is on the host."""
        if tuple(x.__dlpack_device__()) != (1, 0):
            return NotImplemented
        return np.from_dlpack(x)

    def nbytes(self, native: Array) -> int:
        """Return the size in bytes; strings count as their pointers plus texts."""
        texts = native.flat if native.dtype.hasobject else ()
        return native.nbytes + sum(map(len, texts))

    def kept(self) -> int:
        """Return the number of bytes that the pool caches but no array uses."""
        return pool.kept()


def _context() -> contextvars.Context:
    """Return a context in which NumPy does not warn and allocates from the pool.

    Floating-point exceptions never warn on any backend. Entering ``np.errstate`` for
    every kernel costs 0.9 us; running in a prepared context costs 0.1 us.
    """
    context = contextvars.Context()
    context.run(np.seterr, all="ignore")
    context.run(pool.enter)
    return context


class _Local(threading.local):
    """The context of each thread, for installations without the C module."""

    def __init__(self) -> None:
        self.context = _context()


_local = _Local()


def kernel_context(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function`` without floating-point warnings.

    A function from this package or NumPy runs in the prepared context. Any other
    function stays in the context of its caller, because it and the ops that it runs may
    read context variables.
    """
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    home = getattr(inner, "__module__", None) or "numpy"
    nested = functools.partial(_in_caller_context, function)
    if home.partition(".")[0] not in (__package__, "numpy"):
        wrapped: Any = nested
    elif pool.native:
        wrapped = pool.native.kernel_context(function, nested, _context)
    else:
        wrapped = functools.partial(_in_context, function)
    return functools.wraps(function)(wrapped)


def _in_context(function: Callable[..., Any], *arrays: Any, **attrs: Any) -> Any:
    """Return the result of ``function`` in the context of the thread.

    A context cannot be entered twice. Nested calls come from a user's kernel that runs
    ops, or from a finalizer that runs ops while a kernel allocates.
    """
    try:
        return _local.context.run(function, *arrays, **attrs)
    except RuntimeError as error:
        if not str(error).startswith("cannot enter context"):
            raise
        return _in_caller_context(function, *arrays, **attrs)


def _in_caller_context(function: Callable[..., Any], *arrays: Any, **attrs: Any) -> Any:
    """Return the result of ``function`` in the context of the caller."""
    with np.errstate(all="ignore"):
        return function(*arrays, **attrs)
