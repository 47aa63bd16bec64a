"""Comparison and logic. Kernels: ``Equal Greater``."""

from __future__ import annotations

from plugrad._kernel import Kernel, compared
from plugrad._tensor import Tensor, TensorLike

from . import _convert

EQUAL = Kernel("Equal", "a b", out=compared, broadcasts=True, op="equal")


def equal(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return whether ``a = b``, element by element."""
    return _convert.elementwise(EQUAL, a, b)


GREATER = Kernel("Greater", "a b", out=compared, broadcasts=True, op="greater")


def greater(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return whether ``a > b``, element by element."""
    return _convert.elementwise(GREATER, a, b)
