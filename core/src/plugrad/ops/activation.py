"""Activation functions. Kernels: ``Relu``."""

from __future__ import annotations

from plugrad._kernel import Kernel, gradients, same
from plugrad._tensor import Tensor, TensorLike

from . import _convert, creation

RELU = Kernel("Relu", "x", out=same, op="relu")


def relu(x: TensorLike, /) -> Tensor:
    """Return ``max(x, 0)``, element by element."""
    return _convert.unary(RELU, _convert.real("relu", x))


gradients(RELU, x=lambda dy, y: dy * creation.astype(y > 0, dy.dtype))
