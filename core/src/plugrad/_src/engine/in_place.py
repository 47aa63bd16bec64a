"""Kernels that write into the memory of their first input, if nothing else uses it.

A backend attaches such a function to a kernel function with ``plugin.in_place``. The
engine calls it where the first input is not needed afterwards: for ``x[key] = value``,
and for values that a ``jit`` replay does not read again. It must also know that nothing
else can see the memory. CPython counts the references to an object, so the engine
compares this count with that of an array to which there is only one reference.

Contents: ``is_alone``; ``run_in_place``; ``writing``, for replays.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any
from weakref import getweakrefcount

from plugrad._src.registry.contract import Kernel
from plugrad._src.tensor.tensor import Native, Tensor

from .context import PROCESS, current
from .dispatch import native as native_on
from .dispatch import run
from .halves import can_be_widened, is_widened

# Without reference counts, any array may be referenced elsewhere.
references: Callable[[object], int] = getattr(sys, "getrefcount", lambda x: sys.maxsize)


class _View:
    """A stand-in for an array that refers to another one, as views do."""

    __slots__ = ("__weakref__", "base")

    def __init__(self, base: object = None) -> None:
        self.base = base


def _counts(held: list[Any]) -> tuple[int, int]:
    """Return the number of references to the array in a list, and to its base.

    Some of them come from this function; how many depends on the version of Python.
    """
    array = held[0]
    base = getattr(array, "base", None)
    return references(array), references(base)


# The counts for an array that only the list holds, with a base that only it holds.
ALONE, BASE_ALONE = _counts([_View(_View())])


def is_alone(held: list[Native], others: int = 0) -> bool:
    """Return whether only ``held`` and ``others`` more objects refer to its array.

    ``held`` is a list that contains the array. Weak references count: caches use them
    to find values that belong to an array. A view must be the only view of its base,
    and nothing else may refer to the base.
    """
    count, base_count = _counts(held)
    if count - others != ALONE or getweakrefcount(held[0]):
        return False
    base = getattr(held[0], "base", None)
    if base is None:
        return True
    is_root = getattr(base, "base", None) is None
    return is_root and base_count == BASE_ALONE and not getweakrefcount(base)


def run_in_place(kernel: Kernel, x: Tensor, *inputs: Tensor) -> Tensor:
    """Run a kernel on the backend of ``x``; it may write into the memory of ``x``.

    The caller must assign the result to ``x``, whose old value may be overwritten.
    """
    context = current()
    backend: Any = x._home
    update = backend.in_place.get(kernel.name)
    is_plain = context.quiet and (context.backend or PROCESS.backend) is backend
    if update is None or not is_plain:
        return run(kernel, x, *inputs)
    if can_be_widened(kernel, (x, *inputs), {}) and is_widened(kernel, backend):
        return run(kernel, x, *inputs)
    natives = [native_on(y, backend) for y in inputs]
    held = [x._data]
    if is_alone(held, others=1):
        result = update(held[0], *natives)
        if result is not NotImplemented:
            return Tensor(result, backend)
    return run(kernel, x, *inputs)


def writing(
    update: Callable[..., Any], function: Callable[..., Any], others: int
) -> Callable[..., Any]:
    """Return a function for replays that runs a kernel, in place if possible.

    Args:
        update: The function that writes into its first input.
        function: The kernel function.
        others: The number of tensors that may hold the array in addition to the list.

    Returns:
        A function of a list that contains the first input, and of the other inputs.

    """

    def run_one(held: list[Native], *inputs: Native, **attrs: Any) -> Any:
        if is_alone(held, others):
            result = update(held[0], *inputs, **attrs)
            if result is not NotImplemented:
                return result
        return function(held[0], *inputs, **attrs)

    return run_one
