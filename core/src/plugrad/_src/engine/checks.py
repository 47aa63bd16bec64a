"""Checks of runs that no op has checked: those by ``run_kernel`` and by plugins."""

from __future__ import annotations

from typing import Any

from plugrad._src.registry.canonical import canonical
from plugrad._src.registry.contract import Kernel
from plugrad._src.tensor.tensor import Tensor

from . import dispatch
from .tape import specs


def checked(
    kernel: Kernel, inputs: tuple[Tensor | None, ...], attrs: dict[str, Any]
) -> dict[str, Any]:
    """Return the canonical attributes of a run that no op has checked."""
    found = _checked_once(kernel, inputs, attrs)
    if kernel.kinds.get("dtype") == "dtype":
        dispatch.require_dtype(kernel.name, found["dtype"])
    return found


def _checked_once(
    kernel: Kernel, inputs: tuple[Tensor | None, ...], attrs: dict[str, Any]
) -> dict[str, Any]:
    """Check a run, whatever the backend, and return its canonical attributes.

    A kernel remembers the specs and attributes that passed, so a loop pays for the
    checks once.
    """
    key: Any = None
    try:
        kinds = [None if x is None else (type(x), x.shape, x.dtype) for x in inputs]
        key = (*kinds, *attrs.items(), *map(type, attrs.values()))
        return kernel._calls[key]
    except KeyError:
        pass  # such a run has not been checked yet
    except (TypeError, AttributeError):
        key = None  # an attribute is a list, or the code below raises an error
    for name, value in kernel.bind(inputs).items():
        for x in value if name == kernel.variadic else (value,):
            if not (isinstance(x, Tensor) or (x is None and name in kernel.optional)):
                raise TypeError(
                    f"{kernel.name}: {name!r} must be a Tensor, got "
                    f"{type(x).__name__}; use asarray"
                )
    found = canonical(kernel, specs(inputs), attrs)
    if key is not None:
        if len(kernel._calls) >= 1024:
            kernel._calls = {}
        kernel._calls[key] = found
    return found
