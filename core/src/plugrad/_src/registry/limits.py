"""The maximum size of an array in bytes, which a backend may declare.

Some devices, such as those of WebGPU, limit the size of a buffer. The contract gives
the size of a result, so the error is raised before the kernel function allocates it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from plugrad._src.tensor.dtypes import named

from .contract import Kernel, Spec

Function = Callable[..., Any]


def check_nbytes(who: str, x: Any, backend: str, limit: int) -> None:
    """Raise a MemoryError if an array of the shape and dtype of ``x`` is too large."""
    nbytes = math.prod(x.shape) * x.dtype.itemsize
    if nbytes > limit:
        raise MemoryError(
            f"{who}: an array of shape {x.shape} and dtype {named(x.dtype)} takes "
            f"{nbytes:,} bytes, and backend {backend!r} holds at most {limit:,} in one "
            "array; use smaller tensors, or another backend"
        )


def limited(kernel: Kernel, function: Function, backend: str, limit: int) -> Function:
    """Return ``function``, guarded: it is not called if a result would be too large."""
    rule = kernel.out
    if rule is None:  # the size depends on values
        return function

    @functools.wraps(function)
    def checked(*natives: Any, **attrs: Any) -> Any:
        given = natives if kernel.inputs else ()  # without inputs, natives is (Arrays,)
        specs = [None if x is None else Spec(x.shape, x.dtype) for x in given]
        found = rule(*specs, **attrs)
        for y in [found] if isinstance(found, Spec) else found or ():
            check_nbytes(kernel.op or kernel.name, y, backend, limit)
        return function(*natives, **attrs)

    return checked
