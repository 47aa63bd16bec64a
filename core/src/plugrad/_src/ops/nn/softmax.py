"""``softmax`` and its logarithm. Kernels: ``LogSoftmax Softmax``."""

from __future__ import annotations

from typing import Unpack

from plugrad._src.engine.dispatch import run
from plugrad._src.ops.basis import _convert, compare, creation, reduce, shape, unary
from plugrad._src.registry.contract import Kernel, Spec, decomposition, gradients
from plugrad._src.tensor.arguments import Axis
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import Shape, axes

__all__ = ["log_softmax", "softmax"]


def _softmax_spec(logits: Spec, *, axis: int) -> Spec:
    reduce.check_not_empty("softmax", logits, (axis,))
    return logits


SOFTMAX = Kernel(
    "Softmax(logits: floating; axis: axis)",
    out=_softmax_spec,
    op="softmax",
    doc="""``exp(logits - m) / Σ exp(logits - m)`` along ``axis``, where m is the
    maximum along it, so that nothing overflows. The axis is not empty.

    If a row along the axis has NaN or inf, or only -inf, all its results are NaN.
    float16 is computed in float32.""",
)


def softmax(
    logits: TensorLike, /, axis: Axis = -1, **unknown: Unpack[Nothing]
) -> Tensor:
    """Return ``exp(logits) / Σ exp(logits)`` along ``axis``, without overflow.

    The results are from 0 to 1 and add up to 1. If a row along the axis contains NaN or
    inf, or only -inf, all its results are NaN.

    Args:
        logits: A tensor of real numbers.
        axis: The axes along which the results add up to 1: an int, a sequence of ints,
            or None for all.

    Returns:
        A tensor of the shape and dtype of ``logits``; float32 for integers and bool.

    Raises:
        TypeError: ``logits`` are complex, or contain strings.
        ValueError: An axis is out of range.

    Example:
        >>> pg.softmax([1.0, 2.0, 3.0])
        Tensor([0.09  , 0.2447, 0.6652], dtype=float32, backend='cpu')
        >>> pg.softmax([[1.0, 1.0], [1.0, 1.0]], axis=(0, 1))
        Tensor([[0.25, 0.25],
                [0.25, 0.25]], dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(softmax, unknown)
    logits = _convert.floating("softmax", logits, "f")
    along = axes("softmax", axis, len(logits.shape))
    if 0 in logits.shape:
        return creation.identity(logits)
    if len(along) != 1:
        return _over_axes(SOFTMAX, logits, along)
    return run(SOFTMAX, logits, axis=along[0])


@decomposition(SOFTMAX)
def _(logits: Tensor, *, axis: int) -> Tensor:
    x = reduce.widened(logits)
    e = unary.exp(x - reduce.max(x, axis=axis, keepdims=True))
    y = e / run(reduce.SUM, e, axis=(axis,), keepdims=True)
    return creation.cast(y, logits.dtype)


def _balance_gradient(dx: Tensor, dominant: Tensor, axis: int) -> Tensor:
    """Replace the ``dominant`` element with the negated sum of the others.

    The gradient of a softmax adds up to 0 along the axis, and suffers from cancellation
    where the softmax is close to 1. ``dominant`` is True where the softmax is clearly
    above 1/2, which holds for at most one element, regardless of rounding.
    """
    rest = compare.where(dominant, 0, dx)
    return compare.where(
        dominant, -run(reduce.SUM, rest, axis=(axis,), keepdims=True), dx
    )


def softmax_gradient(dy: Tensor, y: Tensor, axis: int) -> Tensor:
    """Return ``dy · y - y · Σ dy · y``, corrected by ``_balance_gradient``."""
    wide = reduce.widened(y)
    part = reduce.widened(dy) * wide
    dx = part - wide * run(reduce.SUM, part, axis=(axis,), keepdims=True)
    return creation.cast(_balance_gradient(dx, wide > 0.6, axis), dy.dtype)


gradients(SOFTMAX, logits=softmax_gradient)


LOG_SOFTMAX = Kernel(
    "LogSoftmax(logits: floating; axis: axis)",
    out=_softmax_spec,
    op="log_softmax",
    doc="""``logits - m - log Σ exp(logits - m)`` along ``axis``, where m is the maximum
    along it. NaN, empty axes and float16 are treated as in ``Softmax``.""",
)


def log_softmax(
    logits: TensorLike, /, axis: Axis = -1, **unknown: Unpack[Nothing]
) -> Tensor:
    """Return ``logits - log Σ exp(logits)`` along ``axis``: the log of ``softmax``.

    It is more accurate than ``log(softmax(logits))``, which is -inf where ``softmax``
    underflows. NaN is treated as in ``softmax``.

    Args:
        logits: A tensor of real numbers.
        axis: The axes along which ``softmax`` adds up to 1: an int, a sequence of ints,
            or None for all.

    Returns:
        A tensor of the shape and dtype of ``logits``; float32 for integers and bool.

    Raises:
        TypeError: ``logits`` are complex, or contain strings.
        ValueError: An axis is out of range.

    Example:
        >>> pg.log_softmax([1.0, 2.0, 3.0])
        Tensor([-2.4076, -1.4076, -0.4076], dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(log_softmax, unknown)
    logits = _convert.floating("log_softmax", logits, "f")
    along = axes("log_softmax", axis, len(logits.shape))
    if 0 in logits.shape:
        return creation.identity(logits)
    if len(along) != 1:
        return _over_axes(LOG_SOFTMAX, logits, along)
    return run(LOG_SOFTMAX, logits, axis=along[0])


@decomposition(LOG_SOFTMAX)
def _(logits: Tensor, *, axis: int) -> Tensor:
    x = reduce.widened(logits)
    x = x - reduce.max(x, axis=axis, keepdims=True)
    total = run(reduce.SUM, unary.exp(x), axis=(axis,), keepdims=True)
    return creation.cast(x - unary.log(total), logits.dtype)


def log_softmax_gradient(dy: Tensor, y: Tensor, axis: int) -> Tensor:
    """Return ``dy - e^y · Σ dy``, corrected by ``_balance_gradient``."""
    wide = reduce.widened(dy)
    total = run(reduce.SUM, wide, axis=(axis,), keepdims=True)
    dx = wide - unary.exp(reduce.widened(y)) * total
    return creation.cast(_balance_gradient(dx, y > -0.5, axis), dy.dtype)


gradients(LOG_SOFTMAX, logits=log_softmax_gradient)


def _over_axes(kernel: Kernel, x: Tensor, along: Shape) -> Tensor:
    """Run a kernel over several axes, which are sorted, as if they were one."""
    kept = [i for i in range(len(x.shape)) if i not in along]
    order = (*kept, *along)
    moved = run(shape.TRANSPOSE, x, axes=order)
    flat = (*moved.shape[: len(kept)], reduce.count(x, along))
    y = run(kernel, run(shape.RESHAPE, moved, shape=flat), axis=len(kept))
    return shape._permute_back(run(shape.RESHAPE, y, shape=moved.shape), order)
