"""Runs with bfloat16 on kernels that do not take it: which, and in which dtypes.

A backend marks the functions that take bfloat16 arrays with ``plugin.takes_bfloat16``.
The engine runs all others in float32 and rounds their results, so every kernel of every
backend that can store bfloat16 and convert it also computes with it.
"""

from __future__ import annotations

from typing import Any

from plugrad._src.registry.backend import OpenBackend
from plugrad._src.registry.contract import Kernel
from plugrad._src.tensor.dtypes import BFLOAT16, FLOAT32, DType

from .tape import specs

BIT_LEVEL = "Bitcast", "Cast"  # float32 cannot stand for bfloat16 in these kernels


def has_bfloat16(inputs: tuple[Any, ...], attrs: dict[str, Any]) -> bool:
    """Return whether an input is bfloat16, or an attribute is this dtype."""
    # Every run comes here, and a loop takes half as long as any().
    for x in inputs:
        if x is not None and x.dtype is BFLOAT16:
            return True
    for value in attrs.values():  # noqa: SIM110
        if value is BFLOAT16:
            return True
    return False


def can_be_widened(
    kernel: Kernel, inputs: tuple[Any, ...], attrs: dict[str, Any]
) -> bool:
    """Return whether a run has bfloat16 for which float32 can stand."""
    return kernel.name not in BIT_LEVEL and has_bfloat16(inputs, attrs)


def is_widened(kernel: Kernel, backend: OpenBackend) -> bool:
    """Return whether a kernel of a backend gets no bfloat16 arrays.

    The functions of a batching backend run other kernels, which may not take them.
    """
    return backend.depth > 0 or kernel.name not in backend.takes_bfloat16


def wide_attributes(attrs: dict[str, Any]) -> dict[str, Any]:
    """Return attributes with float32 in place of bfloat16."""
    return {k: FLOAT32 if v is BFLOAT16 else v for k, v in attrs.items()}


def dtypes_of_outputs(
    kernel: Kernel, inputs: tuple[Any, ...], attrs: dict[str, Any]
) -> list[DType] | None:
    """Return the dtypes of the outputs; None if the contract does not tell them."""
    found: Any = kernel.out and kernel.out(*specs(inputs), **attrs)
    if not found:
        return None
    return [one.dtype for one in ((found,) if kernel.single else found)]
