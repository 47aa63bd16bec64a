"""Reductions, and ops that are mostly one. Kernels: ``Max Mean Softmax Sum``."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence

from plugrad import geometry
from plugrad._engine import run
from plugrad._kernel import Kernel, Spec, decomposition, gradients, reduced, same
from plugrad._tensor import Tensor, TensorLike

from . import _convert, creation, shape, unary

Axis = int | Sequence[int] | None

SUM = Kernel("Sum", "x", attrs="axis keepdims", out=reduced)


def sum(x: TensorLike, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the sum over ``axis`` (default: all); ``keepdims`` leaves size 1."""
    x = _convert.asarray(x)
    axis = geometry.axes("sum", axis, len(x.shape))
    return run(SUM, x, axis=axis, keepdims=keepdims)


def _spread(dy: Tensor, x: Spec, axis: tuple[int, ...]) -> Tensor:
    """Repeat ``dy`` along the axes that a reduction of ``x`` has removed."""
    kept = reduced(x, axis=axis, keepdims=True)
    return shape.broadcast_to(shape.reshape(dy, kept.shape), x.shape)


gradients(SUM, x=lambda dy, x_spec, axis: _spread(dy, x_spec, axis))


def sum_to(x: Tensor, shape_: tuple[int, ...], /) -> Tensor:
    """Sum ``x`` down to a shape: the transpose of broadcasting."""
    if x.shape == shape_:
        return x
    lead = len(x.shape) - len(shape_)
    ones = [i for i, n in enumerate(shape_, lead) if n == 1 and x.shape[i] != 1]
    return shape.reshape(sum(x, axis=(*range(lead), *ones)), shape_)


MAX = Kernel("Max", "x", attrs="axis keepdims", out=reduced)


def max(x: TensorLike, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the maximum over ``axis`` (default: all)."""
    x = _convert.asarray(x)
    axis = geometry.axes("max", axis, len(x.shape))
    if 0 in [x.shape[i] for i in axis]:
        raise ValueError(f"max: shape {x.shape} has nothing along axis {axis}")
    return run(MAX, x, axis=axis, keepdims=keepdims)


def _max_gradient(
    dy: Tensor, x: Tensor, y: Tensor, axis: tuple[int, ...], x_spec: Spec
) -> Tensor:
    """Share ``dy`` equally among the elements that attain the maximum."""
    hit = creation.astype(x == _spread(y, x_spec, axis), dy.dtype)
    return _spread(dy, x_spec, axis) * hit / sum(hit, axis=axis, keepdims=True)


gradients(MAX, x=_max_gradient)


MEAN = Kernel("Mean", "x", attrs="axis keepdims", out=reduced)


def mean(x: TensorLike, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the mean over ``axis`` (default: all); integers give float32."""
    x = _convert.floating("mean", x)
    axis = geometry.axes("mean", axis, len(x.shape))
    return run(MEAN, x, axis=axis, keepdims=keepdims)


@decomposition(MEAN)  # and no gradient: it is that of the parts
def _(x: Tensor, *, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    count = math.prod(x.shape[i] for i in axis)
    return sum(x, axis=axis, keepdims=keepdims) / builtins.max(count, 1)


SOFTMAX = Kernel("Softmax", "logits", attrs="axis", out=same)


def softmax(logits: TensorLike, /, *, axis: int = -1) -> Tensor:
    """Return ``exp(logits) / Σ exp(logits)`` along ``axis``."""
    logits = _convert.floating("softmax", logits)
    (axis,) = geometry.axes("softmax", axis, len(logits.shape))
    return run(SOFTMAX, logits, axis=axis)


@decomposition(SOFTMAX)
def _(logits: Tensor, *, axis: int) -> Tensor:
    e = unary.exp(logits - max(logits, axis=axis, keepdims=True))
    return e / sum(e, axis=axis, keepdims=True)


gradients(
    SOFTMAX,
    logits=lambda dy, y, axis: (dy - sum(dy * y, axis=axis, keepdims=True)) * y,
)
