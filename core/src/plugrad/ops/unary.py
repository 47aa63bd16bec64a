"""Element-wise ops of one argument. Kernels: ``Exp Neg Relu Sqrt Square``.

Each stanza tells the whole story of one op: contract, op, decomposition, gradient.
"""

from __future__ import annotations

from plugrad._kernel import Kernel, decomposition, gradients, same
from plugrad._tensor import Tensor, TensorLike

from . import _convert

EXP = Kernel("Exp", "x", out=same, op="exp")


def exp(x: TensorLike, /) -> Tensor:
    """Return ``e`` to the power of each element."""
    return _convert.floating_unary(EXP, x)


gradients(EXP, x=lambda dy, y: dy * y)


NEG = Kernel("Neg", "x", out=same, op="negative")


def negative(x: TensorLike, /) -> Tensor:
    """Return each element with its sign flipped, ``-x``."""
    return _convert.unary(NEG, x)


gradients(NEG, x=lambda dy: -dy)


TANH = Kernel("Tanh", "x", out=same, op="tanh")


def tanh(x: TensorLike, /) -> Tensor:
    """Return the hyperbolic tangent of each element, ``(e^x - e^-x)/(e^x + e^-x)``."""
    return _convert.floating_unary(TANH, x)


gradients(TANH, x=lambda dy, y: dy * (1 - y * y))


SQRT = Kernel("Sqrt", "x", out=same, op="sqrt")


def sqrt(x: TensorLike, /) -> Tensor:
    """Return the square root of each element, ``√x``; NaN where x < 0."""
    return _convert.floating_unary(SQRT, x)


gradients(SQRT, x=lambda dy, y: dy / (y * 2))


SQUARE = Kernel("Square", "x", out=same, op="square")


def square(x: TensorLike, /) -> Tensor:
    """Return the square of each element, ``x²``."""
    return _convert.unary(SQUARE, x)


@decomposition(SQUARE)
def _(x: Tensor) -> Tensor:
    return x * x


gradients(SQUARE, x=lambda dy, x: dy * x * 2)
