"""Mean, variance and related statistics, composed of reductions. No kernels.

``axis`` is an int, a sequence of ints, or None for all axes; ``keepdims`` keeps the
reduced axes, with size 1.
"""

from __future__ import annotations

import math
from typing import Any, Unpack

from plugrad._src.engine.dispatch import run
from plugrad._src.ops.basis import _convert, compare, creation, reduce, shape, unary
from plugrad._src.ops.custom import custom_grad
from plugrad._src.ops.nn import softmax
from plugrad._src.tensor.arguments import Axis, finite, flag
from plugrad._src.tensor.dtypes import DType
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import Shape, axes

__all__ = ["logsumexp", "moments", "std", "var"]


def _moments(
    op: str, x: TensorLike, axis: Axis, correction: float, keepdims: bool
) -> tuple[Tensor, Tensor, DType]:
    """Return the mean (axes kept), the variance, and the dtype of the result.

    Mean and variance of float16 are float32.
    """
    x = _convert.floating(op, x, "f")
    axis = axes(op, axis, len(x.shape))
    wide = reduce.widened(x)
    keepdims = flag(op, "keepdims", keepdims)
    middle = run(reduce.MEAN, wide, axis=axis, keepdims=True)
    total = run(reduce.SUM, unary.square(wide - middle), axis=axis, keepdims=keepdims)
    freedom = max(reduce.count(x, axis) - finite(op, "correction", correction), 0)
    return middle, total / freedom, x.dtype


def var(
    x: TensorLike,
    /,
    axis: Axis = None,
    *,
    correction: float = 0.0,
    keepdims: bool = False,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the variance over ``axis``, ``Σ (x - mean)² / (n - correction)``.

    The result is NaN or inf where ``n`` is not larger than ``correction``.

    Args:
        x: A tensor of real numbers.
        axis: The axes to reduce: an int, a sequence of ints, or None for all.
        correction: A number to subtract from the number of elements; 1 gives the
            unbiased estimate.
        keepdims: Whether to keep the reduced axes, with size 1.

    Returns:
        A tensor of the dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` is complex, or contains strings.
        ValueError: An axis is out of range, or ``correction`` is infinite or NaN.

    Example:
        >>> pg.var([1.0, 2.0, 3.0, 6.0])
        Tensor(3.5, dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(var, unknown)
    _, variance, dtype = _moments("var", x, axis, correction, keepdims)
    return creation.cast(variance, dtype)


def std(
    x: TensorLike,
    /,
    axis: Axis = None,
    *,
    correction: float = 0.0,
    keepdims: bool = False,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the standard deviation over ``axis``, ``√var(x)``.

    The derivative where all elements are equal is 0.

    Args:
        x: A tensor of real numbers.
        axis: The axes to reduce: an int, a sequence of ints, or None for all.
        correction: A number to subtract from the number of elements; 1 gives the root
            of the unbiased variance.
        keepdims: Whether to keep the reduced axes, with size 1.

    Returns:
        A tensor of the dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` is complex, or contains strings.
        ValueError: An axis is out of range, or ``correction`` is infinite or NaN.

    Example:
        >>> pg.std([[1.0, 3.0], [2.0, 6.0]], axis=1)
        Tensor([1., 2.], dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(std, unknown)
    _, variance, dtype = _moments("std", x, axis, correction, keepdims)
    return creation.cast(reduce.root(variance), dtype)


def moments(
    x: TensorLike,
    /,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    **unknown: Unpack[Nothing],
) -> tuple[Tensor, Tensor]:
    """Return mean and variance over ``axis``, as ``(mean, variance)``.

    The variance is that of ``var`` with ``correction=0``.

    Args:
        x: A tensor of real numbers.
        axis: The axes to reduce: an int, a sequence of ints, or None for all.
        keepdims: Whether to keep the reduced axes, with size 1.

    Returns:
        Two tensors of the dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` is complex, or contains strings.
        ValueError: An axis is out of range.

    Example:
        >>> mean, variance = pg.moments([1.0, 2.0, 3.0, 6.0])
        >>> mean.item(), variance.item()
        (3.0, 3.5)

    """
    if unknown:
        raise unexpected(moments, unknown)
    middle, variance, dtype = _moments("moments", x, axis, 0.0, keepdims)
    middle = run(shape.RESHAPE, middle, shape=variance.shape)
    return creation.cast(middle, dtype), creation.cast(variance, dtype)


def logsumexp(
    x: TensorLike,
    /,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``log Σ exp(x)`` over ``axis``, without overflow.

    The result is -inf where there are no elements. The gradient is ``softmax(x)``.
    Where the result is infinite, the elements that equal it share the gradient equally:
    if ``n`` elements are all -inf, each has the gradient 1/n. This is the limit for
    equal elements, and the gradient still adds up to 1. PyTorch and JAX return NaN
    there.

    Args:
        x: A tensor of real numbers.
        axis: The axes to reduce: an int, a sequence of ints, or None for all.
        keepdims: Whether to keep the reduced axes, with size 1.

    Returns:
        A tensor of the dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` is complex, or contains strings.
        ValueError: An axis is out of range.

    Example:
        >>> pg.logsumexp([1000.0, 1000.0])
        Tensor(1000.6932, dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(logsumexp, unknown)
    x = _convert.floating("logsumexp", x, "f")
    axis = axes("logsumexp", axis, len(x.shape))
    keepdims = flag("logsumexp", "keepdims", keepdims)
    if not reduce.count(x, axis):
        return unary.log(run(reduce.SUM, x, axis=axis, keepdims=keepdims))
    return _log_of_sum(x, axis, keepdims)


@custom_grad
def _log_of_sum(x: Tensor, axis: Shape, keepdims: bool) -> Any:
    """Return ``logsumexp``.

    The gradient is written by hand, because the gradient of the composed ops is NaN at
    infinities.
    """
    wide = reduce.widened(x)
    top = run(reduce.MAX, wide, axis=axis, keepdims=True)
    is_top = compare.equal(wide, top)
    # Infinity minus itself is NaN.
    shifted = compare.where(is_top, 0.0, wide - top)
    total = run(reduce.SUM, unary.exp(shifted), axis=axis, keepdims=keepdims)
    y = unary.log(total) + run(shape.RESHAPE, top, shape=total.shape)

    def grad_func(dy: Tensor) -> Tensor:
        share = compare.where(is_top, 0.0, -math.inf)
        logits = compare.where(unary.isinf(top), share, wide)
        slope = reduce._broadcast_back(reduce.widened(dy), x, axis, keepdims)
        dx = slope * softmax.softmax(logits, axis)
        return creation.cast(dx, x.dtype)

    return creation.cast(y, x.dtype), grad_func
