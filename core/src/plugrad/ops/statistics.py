"""Mean, variance and the like, composed of reductions. No kernels.

``axis`` is an int, several, or None for all; ``keepdims`` leaves size 1.
"""

from __future__ import annotations

from plugrad.engine.dispatch import run
from plugrad.engine.tape import alias
from plugrad.geometry import axes
from plugrad.tensor.arguments import Axis, flag, real
from plugrad.tensor.dtypes import DType
from plugrad.tensor.tensor import Tensor, TensorLike

from . import _convert, compare, creation, reduce, shape, unary

__all__ = ["logsumexp", "moments", "std", "var"]


def _moments(
    op: str, x: TensorLike, axis: Axis, correction: float, keepdims: bool
) -> tuple[Tensor, Tensor, DType]:
    """Return mean (axes kept) and variance, both wide, and the dtype to narrow to."""
    x = _convert.floating(op, x, "f")
    axis = axes(op, axis, len(x.shape))
    wide, keepdims = reduce.widened(x), flag(op, "keepdims", keepdims)
    middle = run(reduce.MEAN, wide, axis=axis, keepdims=True)
    total = run(reduce.SUM, unary.square(wide - middle), axis=axis, keepdims=keepdims)
    freedom = max(reduce.count(x, axis) - real(op, "correction", correction), 0)
    return middle, total / freedom, x.dtype


def var(
    x: TensorLike,
    /,
    *,
    axis: Axis = None,
    correction: float = 0.0,
    keepdims: bool = False,
) -> Tensor:
    """Return the variance over ``axis``, ``Σ (x - mean)² / (n - correction)``.

    ``correction=1`` gives the unbiased estimate. Integers give float32; NaN or inf
    where ``n`` is not larger than ``correction``.
    """
    _, variance, dtype = _moments("var", x, axis, correction, keepdims)
    return creation.cast(variance, dtype)


def std(
    x: TensorLike,
    /,
    *,
    axis: Axis = None,
    correction: float = 0.0,
    keepdims: bool = False,
) -> Tensor:
    """Return the standard deviation over ``axis``, ``√var(x)``.

    Arguments are those of ``var``. Where all elements are equal its gradient is 0.
    """
    _, variance, dtype = _moments("std", x, axis, correction, keepdims)
    return creation.cast(reduce.root(variance), dtype)


def moments(
    x: TensorLike, /, *, axis: Axis = None, keepdims: bool = False
) -> tuple[Tensor, Tensor]:
    """Return mean and variance (``correction=0``) over ``axis``, as ``mean, var``."""
    middle, variance, dtype = _moments("moments", x, axis, 0.0, keepdims)
    middle = run(shape.RESHAPE, middle, shape=variance.shape)
    return creation.cast(middle, dtype), creation.cast(variance, dtype)


def logsumexp(x: TensorLike, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return ``log Σ exp(x)`` over ``axis``, without overflow; -inf for nothing.

    Integers give float32.
    """
    x = _convert.floating("logsumexp", x, "f")
    axis = axes("logsumexp", axis, len(x.shape))
    wide, keepdims = reduce.widened(x), flag("logsumexp", "keepdims", keepdims)
    if not reduce.count(x, axis):
        return unary.log(run(reduce.SUM, x, axis=axis, keepdims=keepdims))
    top = run(reduce.MAX, wide, axis=axis, keepdims=True)
    top = alias(top)  # a constant to all tapes
    top = compare.where(unary.isfinite(top), top, 0.0)
    total = run(reduce.SUM, unary.exp(wide - top), axis=axis, keepdims=keepdims)
    y = unary.log(total) + run(shape.RESHAPE, top, shape=total.shape)
    return creation.cast(y, x.dtype)
