"""Element-wise ops of two arguments.

Kernels: ``Add Multiply RealDiv Sub``. All broadcast; the engine sums
cotangents back, so a gradient need not.
"""

from __future__ import annotations

from plugrad._kernel import Kernel, broadcasted, gradients
from plugrad._tensor import Tensor, TensorLike

from . import _convert

ADD = Kernel("Add", "a b", out=broadcasted, broadcasts=True, op="add")


def add(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return ``a + b``."""
    return _convert.elementwise(ADD, a, b)


gradients(ADD, a=lambda dy: dy, b=lambda dy: dy)


SUB = Kernel("Sub", "a b", out=broadcasted, broadcasts=True, op="subtract")


def subtract(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return ``a - b``."""
    return _convert.elementwise(SUB, a, b)


gradients(SUB, a=lambda dy: dy, b=lambda dy: -dy)


MULTIPLY = Kernel("Multiply", "a b", out=broadcasted, broadcasts=True, op="multiply")


def multiply(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return ``a · b``, element by element."""
    return _convert.elementwise(MULTIPLY, a, b)


gradients(MULTIPLY, a=lambda dy, b: dy * b, b=lambda dy, a: dy * a)


REAL_DIV = Kernel("RealDiv", "a b", out=broadcasted, broadcasts=True, op="divide")


def divide(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return ``a / b``; integers give float32. Division by zero gives ±inf or NaN."""
    if type(a) is Tensor and a.dtype.kind not in "fc":
        a = _convert.floating("divide", a)
    if type(b) is Tensor and b.dtype.kind not in "fc":
        b = _convert.floating("divide", b)
    elif type(a) is not Tensor and type(b) is not Tensor:
        a = _convert.floating("divide", a)
    return _convert.elementwise(REAL_DIV, a, b)


gradients(REAL_DIV, a=lambda dy, b: dy / b, b=lambda dy, b, y: -dy * y / b)
