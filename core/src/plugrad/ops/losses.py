"""Losses, public as ``plugrad.losses``: compositions of other ops; no kernels.

All take labels first, then predictions or logits of the same shape, then weights that
broadcast to the losses. ``reduction`` says what becomes of the weighted losses:

- ``"none"``: they are returned as they are;
- ``"sum"``: their sum;
- ``"mean"``: their sum divided by that of the weights;
- ``"sum_by_nonzero_weights"`` (the default): their sum divided by the number of losses
  whose weight is not 0.

Where there is nothing to divide by the result is 0. Integers become float32. All three
are real (TypeError); shapes or a reduction that do not fit are a ValueError.
"""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

from plugrad.engine.dispatch import run
from plugrad.tensor.arguments import choice, misfit, real
from plugrad.tensor.tensor import Tensor, TensorLike

from . import (
    _convert,
    activation,
    binary,
    compare,
    creation,
    gather,
    norm,
    reduce,
    shape,
    unary,
)
from .custom import custom_grad

__all__ = [
    "absolute_difference",
    "compute_weighted_loss",
    "cosine_distance",
    "hinge_loss",
    "huber_loss",
    "log_loss",
    "mean_squared_error",
    "sigmoid_cross_entropy",
    "softmax_cross_entropy",
    "sparse_softmax_cross_entropy",
]

Weights = TensorLike | None
Reduction = Literal["none", "sum", "mean", "sum_by_nonzero_weights"]
DEFAULT: Reduction = "sum_by_nonzero_weights"
REDUCTIONS = get_args(Reduction)


def _alike(op: str, labels: TensorLike, given: TensorLike) -> tuple[Tensor, Tensor]:
    """Return labels and predictions in one floating dtype; shapes must be equal."""
    a, b = [
        _convert.floating(op, x, "f") for x in _convert.promote_all(op, labels, given)
    ]
    if a.shape != b.shape:
        raise misfit(op, "labels and predictions must have the same shape", a, b)
    return a, b


def compute_weighted_loss(
    losses: TensorLike, weights: Weights = None, /, *, reduction: Reduction = DEFAULT
) -> Tensor:
    """Return ``losses · weights``, reduced as the module says.

    Raises:
        ValueError: The weights do not broadcast to the losses, or the reduction is
            unknown.
        TypeError: Complex numbers or strings.

    """
    return _weighted("compute_weighted_loss", losses, weights, reduction)


def _weighted(
    op: str, losses: TensorLike, weights: Weights, reduction: Reduction
) -> Tensor:
    losses = _convert.floating(op, losses, "f")
    choice(op, "reduction", reduction, *REDUCTIONS)
    if weights is None:
        if reduction == "none":
            return losses
        total = reduction == "sum" or not losses.size
        return reduce.sum(losses) if total else reduce.mean(losses)
    xs = _convert.promote_all(op, losses, weights)
    losses, weights = [_convert.floating(op, x, "f") for x in xs]
    _convert.check_broadcast(op, "weights", weights, losses.shape)
    if reduction == "none":
        return losses * weights
    dtype, weights = losses.dtype, reduce.widened(weights)
    y = reduce.sum(losses * weights)
    if reduction != "sum":
        if reduction == "sum_by_nonzero_weights":
            weights = creation.cast(compare.not_equal(weights, 0), weights.dtype)
        repeats = losses.size / max(weights.size, 1)  # of each weight, by broadcasting
        y = binary.divide_no_nan(y, reduce.sum(weights) * repeats)
    return creation.cast(y, dtype)


def absolute_difference(
    labels: TensorLike,
    predictions: TensorLike,
    weights: Weights = None,
    /,
    *,
    reduction: Reduction = DEFAULT,
) -> Tensor:
    """Return ``|labels - predictions|``, weighted and reduced."""
    a, b = _alike("absolute_difference", labels, predictions)
    return _weighted("absolute_difference", abs(a - b), weights, reduction)


def mean_squared_error(
    labels: TensorLike,
    predictions: TensorLike,
    weights: Weights = None,
    /,
    *,
    reduction: Reduction = DEFAULT,
) -> Tensor:
    """Return ``(labels - predictions)²``, weighted and reduced."""
    a, b = _alike("mean_squared_error", labels, predictions)
    losses = binary.squared_difference(a, b)
    return _weighted("mean_squared_error", losses, weights, reduction)


def huber_loss(
    labels: TensorLike,
    predictions: TensorLike,
    weights: Weights = None,
    /,
    *,
    delta: float = 1.0,
    reduction: Reduction = DEFAULT,
) -> Tensor:
    """Return ``e²/2`` where the error ``|e|`` is at most ``delta``, else linear in it.

    That is ``delta · (|e| - delta/2)``, which continues the parabola smoothly.
    ``delta`` is positive. The losses are weighted and reduced.
    """
    a, b = _alike("huber_loss", labels, predictions)
    error, delta = a - b, real("huber_loss", "delta", delta)
    size = abs(error)
    near = size <= delta
    inside = compare.where(near, error, 0.0)  # a square of inf outside would be NaN
    losses = compare.where(near, 0.5 * inside * inside, delta * (size - 0.5 * delta))
    return _weighted("huber_loss", losses, weights, reduction)


def hinge_loss(
    labels: TensorLike,
    predictions: TensorLike,
    weights: Weights = None,
    /,
    *,
    reduction: Reduction = DEFAULT,
) -> Tensor:
    """Return ``max(0, 1 - (2 labels - 1) · predictions)`` for labels 0 or 1.

    The losses are weighted and reduced.
    """
    a, b = _alike("hinge_loss", labels, predictions)
    losses = activation.relu(1 - (2 * a - 1) * b)
    return _weighted("hinge_loss", losses, weights, reduction)


def log_loss(
    labels: TensorLike,
    predictions: TensorLike,
    weights: Weights = None,
    /,
    *,
    epsilon: float = 1e-7,
    reduction: Reduction = DEFAULT,
) -> Tensor:
    """Return ``-labels · log(p + epsilon) - (1 - labels) · log(1 - p + epsilon)``.

    The predictions ``p`` are probabilities; for logits see ``sigmoid_cross_entropy``.
    The losses are weighted and reduced.
    """
    a, p = _alike("log_loss", labels, predictions)
    epsilon = real("log_loss", "epsilon", epsilon)
    losses = -a * (p + epsilon).log() - (1 - a) * (1 - p + epsilon).log()
    return _weighted("log_loss", losses, weights, reduction)


def cosine_distance(
    labels: TensorLike,
    predictions: TensorLike,
    weights: Weights = None,
    /,
    *,
    axis: int,
    reduction: Reduction = DEFAULT,
) -> Tensor:
    """Return ``1 - Σ labels · predictions`` along ``axis``, which keeps size 1.

    Both must be of unit length along ``axis`` already. The losses are weighted and
    reduced.
    """
    a, b = _alike("cosine_distance", labels, predictions)
    axis = reduce.one_axis("cosine_distance", axis, len(a.shape))
    losses = 1 - reduce.sum(a * b, axis=axis, keepdims=True)
    return _weighted("cosine_distance", losses, weights, reduction)


def _smoothed(op: str, labels: Tensor, smoothing: float, classes: int) -> Tensor:
    """Return labels of which all classes have an equal share of ``smoothing``."""
    share = real(op, "label_smoothing", smoothing)
    if not 0 <= share <= 1:
        raise ValueError(f"{op}: label_smoothing must be from 0 to 1, got {share}")
    return labels * (1 - share) + share / classes if share else labels


def sigmoid_cross_entropy(
    labels: TensorLike,
    logits: TensorLike,
    weights: Weights = None,
    /,
    *,
    label_smoothing: float = 0.0,
    reduction: Reduction = DEFAULT,
) -> Tensor:
    """Return ``-labels · log σ(logits) - (1 - labels) · log σ(-logits)``.

    One loss an element, weighted and reduced, for classes that do not exclude each
    other; σ is ``sigmoid``. Smoothing by s, 0 to 1, makes ``(1 - s)·labels + s/2`` of
    the labels.
    """
    a, x = _alike("sigmoid_cross_entropy", labels, logits)
    a = _smoothed("sigmoid_cross_entropy", a, label_smoothing, 2)
    # both terms are positive: nothing cancels, and the gradient is right at 0 too
    losses = a * activation.softplus(-x) + (1 - a) * activation.softplus(x)
    return _weighted("sigmoid_cross_entropy", losses, weights, reduction)


def softmax_cross_entropy(
    labels: TensorLike,
    logits: TensorLike,
    weights: Weights = None,
    /,
    *,
    label_smoothing: float = 0.0,
    reduction: Reduction = DEFAULT,
) -> Tensor:
    """Return ``-Σ labels · log softmax(logits)`` along the last axis.

    One loss a row, weighted and reduced, for classes that exclude each other: labels
    are one-hot or probabilities. A class with logit -inf and label 0 contributes
    nothing. Smoothing by s, 0 to 1, makes ``(1 - s)·labels + s/classes`` of the labels.
    """
    a, x = _alike("softmax_cross_entropy", labels, logits)
    if not x.shape or not x.shape[-1]:
        raise ValueError(f"softmax_cross_entropy: shape {x.shape} holds no classes")
    a = _smoothed("softmax_cross_entropy", a, label_smoothing, x.shape[-1])
    losses = _cross_entropy(a, x, a._tape_id is None)
    return _weighted("softmax_cross_entropy", losses, weights, reduction)


@custom_grad
def _cross_entropy(labels: Tensor, logits: Tensor, fixed: bool) -> Any:
    """Return the losses of rows; ``fixed`` labels are not differentiated.

    The derivative in the logits, ``softmax(logits) · Σ labels - labels``, is written by
    hand: it needs one array of the size of the logits, where the gradients of the parts
    keep four and run twice as many kernels.
    """
    logs = norm.log_softmax(logits)
    is_minus_infinity = compare.equal(logs, -math.inf)
    never = compare.logical_and(compare.equal(labels, 0), is_minus_infinity)
    finite = compare.where(never, 0.0, logs)

    def grad_func(dy: Tensor) -> tuple[Tensor | None, Tensor]:
        dy = run(shape.RESHAPE, dy, shape=(*dy.shape, 1))
        total = run(reduce.SUM, labels, axis=last, keepdims=True)
        dlogits = dy * (unary.exp(logs) * total - labels)
        return None if fixed else -dy * finite, dlogits

    last = (len(logits.shape) - 1,)
    return -run(reduce.SUM, labels * finite, axis=last, keepdims=False), grad_func


def sparse_softmax_cross_entropy(
    labels: TensorLike,
    logits: TensorLike,
    weights: Weights = None,
    /,
    *,
    reduction: Reduction = DEFAULT,
) -> Tensor:
    """Return ``-log softmax(logits)[label]`` along the last axis.

    Args:
        labels: Integers, ``[...]``: the class of each row.
        logits: ``[..., classes]``.
        weights: As many as labels, or fewer that broadcast.
        reduction: See the module.

    Raises:
        TypeError: The labels are not integers.
        ValueError: The shapes do not fit.
        IndexError: A label is no class.

    """
    op = "sparse_softmax_cross_entropy"
    classes, x = _convert.asarray(labels), _convert.floating(op, logits, "f")
    if classes.dtype.kind not in "iu":
        raise TypeError(f"{op}: labels must be integers, got {classes.dtype}")
    if not x.shape or classes.shape != x.shape[:-1]:
        raise misfit(op, "there must be one label a row of logits", classes, x)
    rows = norm.log_softmax(x).reshape((classes.size, x.shape[-1]))
    places = classes.reshape((classes.size, 1))
    found = gather.gather(rows, places, axis=1, batch_dims=1)
    return _weighted(op, -found.reshape(classes.shape), weights, reduction)
