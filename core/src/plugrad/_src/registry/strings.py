"""Strings on backends whose kernels only compute with numbers.

``with_strings`` is public.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .contract import Kernel
from .hooks import Arrays
from .registry import registry

Function = Callable[..., Any]


def with_strings(
    kernels: Mapping[str, Function], arrays: Arrays, *, host: str
) -> dict[str, Function]:
    """Return kernel functions that leave strings to a host.

    Native arrays of strings are NumPy object arrays: ``arrays.upload`` and
    ``arrays.download`` return them unchanged. If an input contains strings, or the
    result of a kernel without inputs does, the kernel function of the host runs.

    Args:
        kernels: The kernel functions of a backend; they compute with numbers only.
        arrays: The ``Arrays`` of that backend.
        host: A backend whose native arrays are NumPy arrays, such as ``"cpu"``.

    Returns:
        A table for ``Runtime(kernels=...)``. Kernels that do not admit strings are
        unchanged.

    Example:
        >>> from plugrad.plugin import runtime, with_strings
        >>> cpu = runtime("cpu")
        >>> plain = {name: cpu.kernels[name] for name in ("Add", "Concat")}
        >>> table = with_strings(plain, cpu.arrays, host="cpu")
        >>> [name for name in table if table[name] is not plain[name]]
        ['Concat']

    """
    found = dict(kernels)
    for name, function in kernels.items():
        if _admits_strings(registry.contracts[name]):
            found[name] = _leaving_strings(name, function, arrays, host)
    return found


def _admits_strings(kernel: Kernel) -> bool:
    """Return whether an input can be strings, or the result if there is no input."""
    kinds = [kernel.kinds[name] for name in kernel.inputs]
    admitted = any("string" in kind or not kind for kind in kinds)
    return admitted or (not kinds and "dtype" in kernel.attrs)


def _leaving_strings(
    name: str, function: Function, arrays: Arrays, host: str
) -> Function:
    """Return a kernel function that runs the host's kernel function for strings."""

    @functools.wraps(function)
    def kernel(*xs: Any, **attrs: Any) -> Any:
        strings = np.ndarray in map(type, xs)
        if not strings and (xs[0] is not arrays or not attrs["dtype"].hasobject):
            return function(*xs, **attrs)
        given = [x if x is None or x is arrays else arrays.download(x) for x in xs]
        ys = registry.open(host).runtime.kernels[name](*given, **attrs)
        if isinstance(ys, tuple | list):
            return tuple([arrays.upload(y) for y in ys])
        return arrays.upload(np.asarray(ys))

    return kernel
