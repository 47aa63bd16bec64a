"""Losses, public as ``plugrad.losses``: compositions of other ops. No kernels.

All take labels first, then predictions or logits of the same shape, then weights that
broadcast to the losses. ``reduction`` determines what is returned:

- ``"none"``: the weighted losses;
- ``"sum"``: their sum;
- ``"mean"``: their sum divided by the sum of the weights;
- ``"sum_by_nonzero_weights"`` (the default): their sum divided by the number of losses
  whose weight is not 0.

A division by 0 gives 0. Integers become float32. Complex arguments raise a TypeError;
incompatible shapes and unknown reductions raise a ValueError.
"""

from __future__ import annotations

import math
from typing import Any, Literal, Unpack, get_args

from plugrad._src.engine.dispatch import run
from plugrad._src.ops.array import gather
from plugrad._src.ops.basis import (
    _convert,
    binary,
    compare,
    creation,
    reduce,
    shape,
    unary,
)
from plugrad._src.ops.custom import custom_grad
from plugrad._src.ops.elementwise import special
from plugrad._src.tensor.arguments import choice, finite, flag, misfit, positive
from plugrad._src.tensor.dtypes import dtype_kind
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike

from . import activation, softmax
from .alignments import negative_log_probability

__all__ = [
    "absolute_difference",
    "compute_weighted_loss",
    "cosine_distance",
    "ctc_loss",
    "hinge_loss",
    "huber_loss",
    "kl_divergence",
    "log_loss",
    "mean_squared_error",
    "negative_log_likelihood",
    "sigmoid_cross_entropy",
    "softmax_cross_entropy",
    "sparse_softmax_cross_entropy",
]

Weights = TensorLike | None
Reduction = Literal["none", "sum", "mean", "sum_by_nonzero_weights"]
DEFAULT: Reduction = "sum_by_nonzero_weights"
REDUCTIONS = get_args(Reduction)


def _floats_of_equal_shape(
    op: str, labels: TensorLike, given: TensorLike
) -> tuple[Tensor, Tensor]:
    """Convert labels and predictions to one floating dtype; shapes must be equal."""
    a, b = [
        _convert.floating(op, x, "f") for x in _convert.promote_all(op, labels, given)
    ]
    if a.shape != b.shape:
        raise misfit(op, "labels and predictions must have the same shape", a, b)
    return a, b


def compute_weighted_loss(
    losses: TensorLike,
    /,
    weights: Weights = None,
    *,
    reduction: Reduction = DEFAULT,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``losses · weights``, reduced to one number.

    A division by 0 gives 0.

    Args:
        losses: A tensor of real numbers.
        weights: A tensor that broadcasts to the losses; None means 1.
        reduction: "none" returns the weighted losses; "sum" their sum; "mean" their sum
            divided by the sum of the weights; "sum_by_nonzero_weights" their sum
            divided by the number of losses whose weight is not 0.

    Returns:
        A scalar tensor; with the reduction "none", a tensor of the shape of ``losses``.
        The dtype is the promoted dtype; float32 for integers and bool.

    Raises:
        ValueError: The weights do not broadcast to the losses, or the reduction is
            unknown.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> pg.losses.compute_weighted_loss([1.0, 2.0, 6.0], [1.0, 1.0, 0.0]).item()
        1.5

    Source:
        The semantics are those of ``tf.losses.computeWeightedLoss`` in TensorFlow.js.

    """
    if unknown:
        raise unexpected(compute_weighted_loss, unknown)
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
    dtype = losses.dtype
    weights = reduce.widened(weights)
    y = reduce.sum(losses * weights)
    if reduction != "sum":
        if reduction == "sum_by_nonzero_weights":
            weights = creation.cast(compare.not_equal(weights, 0), weights.dtype)
        # Broadcasting repeats each weight this many times.
        repeats = losses.size / max(weights.size, 1)
        y = binary.divide_no_nan(y, reduce.sum(weights) * repeats)
    return creation.cast(y, dtype)


def absolute_difference(
    labels: TensorLike,
    predictions: TensorLike,
    /,
    weights: Weights = None,
    *,
    reduction: Reduction = DEFAULT,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``|labels - predictions|``, weighted and reduced.

    Args:
        labels: A tensor of real numbers.
        predictions: A tensor of the same shape.
        weights: A tensor that broadcasts to the losses; None means 1.
        reduction: "none" returns the weighted losses; "sum" their sum; "mean" their sum
            divided by the sum of the weights; "sum_by_nonzero_weights" their sum
            divided by the number of losses whose weight is not 0.

    Returns:
        A scalar tensor; with the reduction "none", a tensor of the shape of ``labels``.
        The dtype is the promoted dtype; float32 for integers and bool.

    Raises:
        ValueError: The shapes are incompatible, or the reduction is unknown.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> pg.losses.absolute_difference([1.0, 2.0], [1.5, 4.0]).item()
        1.25

    Source:
        The semantics are those of ``tf.losses.absoluteDifference`` in TensorFlow.js.

    """
    if unknown:
        raise unexpected(absolute_difference, unknown)
    a, b = _floats_of_equal_shape("absolute_difference", labels, predictions)
    return _weighted("absolute_difference", abs(a - b), weights, reduction)


def mean_squared_error(
    labels: TensorLike,
    predictions: TensorLike,
    /,
    weights: Weights = None,
    *,
    reduction: Reduction = DEFAULT,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``(labels - predictions)²``, weighted and reduced.

    Args:
        labels: A tensor of real numbers.
        predictions: A tensor of the same shape.
        weights: A tensor that broadcasts to the losses; None means 1.
        reduction: "none" returns the weighted losses; "sum" their sum; "mean" their sum
            divided by the sum of the weights; "sum_by_nonzero_weights" their sum
            divided by the number of losses whose weight is not 0.

    Returns:
        A scalar tensor; with the reduction "none", a tensor of the shape of ``labels``.
        The dtype is the promoted dtype; float32 for integers and bool.

    Raises:
        ValueError: The shapes are incompatible, or the reduction is unknown.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> pg.losses.mean_squared_error([1.0, 2.0], [1.0, 4.0]).item()
        2.0

    Source:
        The semantics are those of ``tf.losses.meanSquaredError`` in TensorFlow.js.

    """
    if unknown:
        raise unexpected(mean_squared_error, unknown)
    a, b = _floats_of_equal_shape("mean_squared_error", labels, predictions)
    losses = binary.squared_difference(a, b)
    return _weighted("mean_squared_error", losses, weights, reduction)


def huber_loss(
    labels: TensorLike,
    predictions: TensorLike,
    /,
    weights: Weights = None,
    *,
    delta: float = 1.0,
    reduction: Reduction = DEFAULT,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``e²/2`` where ``|e| ≤ delta``, else ``delta · (|e| - delta/2)``.

    ``e`` is ``labels - predictions``. Both formulas have the same value and derivative
    at ``|e| = delta``. The losses are weighted and reduced.

    Args:
        labels: A tensor of real numbers.
        predictions: A tensor of the same shape.
        weights: A tensor that broadcasts to the losses; None means 1.
        delta: The error above which the loss is linear; a positive number.
        reduction: "none" returns the weighted losses; "sum" their sum; "mean" their sum
            divided by the sum of the weights; "sum_by_nonzero_weights" their sum
            divided by the number of losses whose weight is not 0.

    Returns:
        A scalar tensor; with the reduction "none", a tensor of the shape of ``labels``.
        The dtype is the promoted dtype; float32 for integers and bool.

    Raises:
        ValueError: The shapes are incompatible, ``delta`` is not positive and finite,
            or the reduction is unknown.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> pg.losses.huber_loss([0.0, 0.0], [1.0, 3.0], reduction="none")
        Tensor([0.5, 2.5], dtype=float32, backend='cpu')

    Source:
        The semantics are those of ``tf.losses.huberLoss`` in TensorFlow.js. P. J.
        Huber, "Robust Estimation of a Location Parameter", 1964.

    """
    if unknown:
        raise unexpected(huber_loss, unknown)
    a, b = _floats_of_equal_shape("huber_loss", labels, predictions)
    error = a - b
    delta = positive("huber_loss", "delta", delta)
    size = abs(error)
    near = size <= delta
    inside = compare.where(near, error, 0.0)  # inf² outside would make the gradient NaN
    losses = compare.where(near, 0.5 * inside * inside, delta * (size - 0.5 * delta))
    return _weighted("huber_loss", losses, weights, reduction)


def hinge_loss(
    labels: TensorLike,
    predictions: TensorLike,
    /,
    weights: Weights = None,
    *,
    reduction: Reduction = DEFAULT,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``max(0, 1 - (2 labels - 1) · predictions)``, weighted and reduced.

    Args:
        labels: A tensor of zeros and ones.
        predictions: A tensor of the same shape.
        weights: A tensor that broadcasts to the losses; None means 1.
        reduction: "none" returns the weighted losses; "sum" their sum; "mean" their sum
            divided by the sum of the weights; "sum_by_nonzero_weights" their sum
            divided by the number of losses whose weight is not 0.

    Returns:
        A scalar tensor; with the reduction "none", a tensor of the shape of ``labels``.
        The dtype is the promoted dtype; float32 for integers and bool.

    Raises:
        ValueError: The shapes are incompatible, or the reduction is unknown.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> pg.losses.hinge_loss([1.0, 0.0], [0.5, -2.0], reduction="none")
        Tensor([0.5, 0. ], dtype=float32, backend='cpu')

    Source:
        The semantics are those of ``tf.losses.hingeLoss`` in TensorFlow.js.

    """
    if unknown:
        raise unexpected(hinge_loss, unknown)
    a, b = _floats_of_equal_shape("hinge_loss", labels, predictions)
    losses = activation.relu(1 - (2 * a - 1) * b)
    return _weighted("hinge_loss", losses, weights, reduction)


def log_loss(
    labels: TensorLike,
    predictions: TensorLike,
    /,
    weights: Weights = None,
    *,
    epsilon: float = 1e-7,
    reduction: Reduction = DEFAULT,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the cross entropy of labels and probabilities, weighted and reduced.

    It is ``-labels · log(p + epsilon) - (1 - labels) · log(1 - p + epsilon)``. For
    logits use ``sigmoid_cross_entropy``.

    Args:
        labels: A tensor of numbers from 0 to 1.
        predictions: The probabilities p, a tensor of the same shape.
        weights: A tensor that broadcasts to the losses; None means 1.
        epsilon: A small non-negative number that keeps the logarithms finite.
        reduction: "none" returns the weighted losses; "sum" their sum; "mean" their sum
            divided by the sum of the weights; "sum_by_nonzero_weights" their sum
            divided by the number of losses whose weight is not 0.

    Returns:
        A scalar tensor; with the reduction "none", a tensor of the shape of ``labels``.
        The dtype is the promoted dtype; float32 for integers and bool.

    Raises:
        ValueError: The shapes are incompatible, ``epsilon`` is negative, or the
            reduction is unknown.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> pg.losses.log_loss([1.0, 0.0], [0.5, 0.5]).item()
        0.6931

    Source:
        The semantics are those of ``tf.losses.logLoss`` in TensorFlow.js.

    """
    if unknown:
        raise unexpected(log_loss, unknown)
    a, p = _floats_of_equal_shape("log_loss", labels, predictions)
    epsilon = finite("log_loss", "epsilon", epsilon, least=0)
    losses = -a * (p + epsilon).log() - (1 - a) * (1 - p + epsilon).log()
    return _weighted("log_loss", losses, weights, reduction)


def cosine_distance(
    labels: TensorLike,
    predictions: TensorLike,
    /,
    weights: Weights = None,
    *,
    axis: int,
    reduction: Reduction = DEFAULT,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``1 - Σ labels · predictions`` along an axis, weighted and reduced.

    It is the cosine distance if both have unit length along the axis.

    Args:
        labels: A tensor of real numbers.
        predictions: A tensor of the same shape.
        weights: A tensor that broadcasts to the losses; None means 1.
        axis: The axis to sum over; it is kept, with size 1.
        reduction: "none" returns the weighted losses; "sum" their sum; "mean" their sum
            divided by the sum of the weights; "sum_by_nonzero_weights" their sum
            divided by the number of losses whose weight is not 0.

    Returns:
        A scalar tensor; with the reduction "none", a tensor of the shape of ``labels``
        but with size 1 along ``axis``. The dtype is the promoted dtype; float32 for
        integers and bool.

    Raises:
        ValueError: The shapes are incompatible, or the reduction is unknown.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> pg.losses.cosine_distance([[1.0, 0.0]], [[0.6, 0.8]], axis=1).item()
        0.4

    Source:
        The semantics are those of ``tf.losses.cosineDistance`` in TensorFlow.js.

    """
    if unknown:
        raise unexpected(cosine_distance, unknown)
    a, b = _floats_of_equal_shape("cosine_distance", labels, predictions)
    axis = reduce.one_axis("cosine_distance", axis, len(a.shape))
    losses = 1 - reduce.sum(a * b, axis=axis, keepdims=True)
    return _weighted("cosine_distance", losses, weights, reduction)


def _smoothed(op: str, labels: Tensor, smoothing: float, classes: int) -> Tensor:
    """Return ``(1 - smoothing)·labels + smoothing / classes``."""
    share = finite(op, "label_smoothing", smoothing, least=0, most=1)
    return labels * (1 - share) + share / classes if share else labels


def sigmoid_cross_entropy(
    labels: TensorLike,
    logits: TensorLike,
    /,
    weights: Weights = None,
    *,
    label_smoothing: float = 0.0,
    reduction: Reduction = DEFAULT,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the cross entropy of labels and ``σ(logits)``, weighted and reduced.

    It is ``-labels · log σ(logits) - (1 - labels) · log σ(-logits)``, one loss for each
    element, where σ is ``sigmoid``. Use it for classes that are not mutually exclusive.
    Intermediate results do not overflow.

    Args:
        labels: A tensor of numbers from 0 to 1.
        logits: A tensor of the same shape.
        weights: A tensor that broadcasts to the losses; None means 1.
        label_smoothing: A number s from 0 to 1; the labels become
            ``(1 - s)·labels + s/2``.
        reduction: "none" returns the weighted losses; "sum" their sum; "mean" their sum
            divided by the sum of the weights; "sum_by_nonzero_weights" their sum
            divided by the number of losses whose weight is not 0.

    Returns:
        A scalar tensor; with the reduction "none", a tensor of the shape of ``labels``.
        The dtype is the promoted dtype; float32 for integers and bool.

    Raises:
        ValueError: The shapes are incompatible, the reduction is unknown, or
            ``label_smoothing`` is out of range.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> pg.losses.sigmoid_cross_entropy([1.0, 0.0], [0.0, 0.0]).item()
        0.6931

    Source:
        The semantics are those of ``tf.losses.sigmoidCrossEntropy`` in TensorFlow.js.

    """
    if unknown:
        raise unexpected(sigmoid_cross_entropy, unknown)
    a, x = _floats_of_equal_shape("sigmoid_cross_entropy", labels, logits)
    a = _smoothed("sigmoid_cross_entropy", a, label_smoothing, 2)
    # Both terms are positive: no cancellation, and the gradient at 0 is correct.
    losses = a * activation.softplus(-x) + (1 - a) * activation.softplus(x)
    return _weighted("sigmoid_cross_entropy", losses, weights, reduction)


def softmax_cross_entropy(
    labels: TensorLike,
    logits: TensorLike,
    /,
    weights: Weights = None,
    *,
    label_smoothing: float = 0.0,
    reduction: Reduction = DEFAULT,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``-Σ labels · log softmax(logits)`` along the last axis, reduced.

    It gives one loss for each row. Use it for mutually exclusive classes. A class with
    logit -inf and label 0 contributes nothing. The losses are weighted and reduced.

    Args:
        labels: ``[..., classes]``, one-hot vectors or probabilities.
        logits: A tensor of the same shape.
        weights: A tensor that broadcasts to the losses; None means 1.
        label_smoothing: A number s from 0 to 1; the labels become
            ``(1 - s)·labels + s/classes``.
        reduction: "none" returns the weighted losses; "sum" their sum; "mean" their sum
            divided by the sum of the weights; "sum_by_nonzero_weights" their sum
            divided by the number of losses whose weight is not 0.

    Returns:
        A scalar tensor; with the reduction "none", a tensor ``[...]``. The dtype is the
        promoted dtype; float32 for integers and bool.

    Raises:
        ValueError: The shapes are incompatible, the reduction is unknown, there are no
            classes, or ``label_smoothing`` is out of range.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> labels, logits = [[0.0, 1.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]
        >>> pg.losses.softmax_cross_entropy(labels, logits, reduction="none")
        Tensor([0.3133, 1.3133], dtype=float32, backend='cpu')

    Source:
        The semantics are those of ``tf.losses.softmaxCrossEntropy`` in TensorFlow.js.

    """
    if unknown:
        raise unexpected(softmax_cross_entropy, unknown)
    a, x = _floats_of_equal_shape("softmax_cross_entropy", labels, logits)
    if not x.shape or not x.shape[-1]:
        raise ValueError(f"softmax_cross_entropy: shape {x.shape} has no classes")
    a = _smoothed("softmax_cross_entropy", a, label_smoothing, x.shape[-1])
    losses = _cross_entropy(a, x, a._tape_id is None)
    return _weighted("softmax_cross_entropy", losses, weights, reduction)


@custom_grad
def _cross_entropy(labels: Tensor, logits: Tensor, fixed: bool) -> Any:
    """Return the loss of each row; ``fixed`` labels are not differentiated.

    The derivative with respect to the logits, ``softmax(logits) · Σ labels - labels``,
    is written by hand. It keeps one array of the size of the logits; the gradients of
    the separate ops would keep four and run twice as many kernels.
    """
    logs = softmax.log_softmax(logits)
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
    /,
    weights: Weights = None,
    *,
    reduction: Reduction = DEFAULT,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``-log softmax(logits)[label]`` along the last axis, reduced.

    It gives one loss for each row. Use it for mutually exclusive classes. The losses
    are weighted and reduced.

    Args:
        labels: Integers ``[...]``, the class of each row.
        logits: ``[..., classes]``.
        weights: A tensor that broadcasts to the losses; None means 1.
        reduction: "none" returns the weighted losses; "sum" their sum; "mean" their sum
            divided by the sum of the weights; "sum_by_nonzero_weights" their sum
            divided by the number of losses whose weight is not 0.

    Returns:
        A scalar tensor; with the reduction "none", a tensor ``[...]``. The dtype is the
        promoted dtype; float32 for integers and bool.

    Raises:
        ValueError: The shapes are incompatible, or the reduction is unknown.
        TypeError: The labels are not integers, or another argument is complex or
            contains strings.
        IndexError: A label is not a valid class index.

    Example:
        >>> logits = [[0.0, 1.0], [0.0, 1.0]]
        >>> pg.losses.sparse_softmax_cross_entropy([1, 0], logits, reduction="none")
        Tensor([0.3133, 1.3133], dtype=float32, backend='cpu')

    Source:
        The semantics are those of ``tf.nn.sparse_softmax_cross_entropy_with_logits`` in
        TensorFlow, with weights.

    """
    if unknown:
        raise unexpected(sparse_softmax_cross_entropy, unknown)
    op = "sparse_softmax_cross_entropy"
    classes, x = _classes(op, labels, logits, "logits")
    return _weighted(
        op, _negated_at_classes(softmax.log_softmax(x), classes), weights, reduction
    )


def _classes(
    op: str, labels: TensorLike, given: TensorLike, name: str
) -> tuple[Tensor, Tensor]:
    """Return class indices, one for each row, and the rows."""
    classes = _convert.asarray(labels)
    x = _convert.floating(op, given, "f")
    if dtype_kind(classes.dtype) not in "iu":
        raise TypeError(f"{op}: labels must be integers, got {classes.dtype}")
    if not x.shape or classes.shape != x.shape[:-1]:
        raise misfit(op, f"there must be one label for each row of {name}", classes, x)
    return classes, x


def _negated_at_classes(logs: Tensor, classes: Tensor) -> Tensor:
    """Return the negated element of each row at the index of its class."""
    axis = len(classes.shape)
    return -run(gather.GATHER_V2, logs, classes, axis=axis, batch_dims=axis)


def negative_log_likelihood(
    labels: TensorLike,
    log_probabilities: TensorLike,
    /,
    weights: Weights = None,
    *,
    reduction: Reduction = DEFAULT,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``-log_probabilities[label]`` along the last axis, weighted and reduced.

    It gives one loss for each row. Applied to the result of ``log_softmax``, it equals
    ``sparse_softmax_cross_entropy``.

    Args:
        labels: Integers ``[...]``, the class of each row.
        log_probabilities: ``[..., classes]``.
        weights: A tensor that broadcasts to the losses; None means 1.
        reduction: "none" returns the weighted losses; "sum" their sum; "mean" their sum
            divided by the sum of the weights; "sum_by_nonzero_weights" their sum
            divided by the number of losses whose weight is not 0.

    Returns:
        A scalar tensor; with the reduction "none", a tensor ``[...]``. The dtype is the
        promoted dtype; float32 for integers and bool.

    Raises:
        ValueError: The shapes are incompatible, or the reduction is unknown.
        TypeError: The labels are not integers, or another argument is complex or
            contains strings.
        IndexError: A label is not a valid class index.

    Example:
        >>> logs = pg.log([[0.25, 0.75], [0.5, 0.5]])
        >>> pg.losses.negative_log_likelihood([1, 0], logs, reduction="none")
        Tensor([0.2877, 0.6931], dtype=float32, backend='cpu')

    Source:
        ``torch.nn.functional.nll_loss``, where classes are on axis 1 and have weights.

    """
    if unknown:
        raise unexpected(negative_log_likelihood, unknown)
    op = "negative_log_likelihood"
    classes, x = _classes(op, labels, log_probabilities, "log_probabilities")
    return _weighted(op, _negated_at_classes(x, classes), weights, reduction)


def kl_divergence(
    labels: TensorLike,
    log_predictions: TensorLike,
    /,
    weights: Weights = None,
    *,
    log_labels: bool = False,
    reduction: Reduction = DEFAULT,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``labels · (log(labels) - log_predictions)``, weighted and reduced.

    These are the terms of the Kullback-Leibler divergence of distributions, one for
    each element. A label of 0 contributes 0, even if the prediction is 0.

    Args:
        labels: Probabilities, or their logarithms if ``log_labels`` is True.
        log_predictions: Logarithms of probabilities, a tensor of the same shape.
        weights: A tensor that broadcasts to the losses; None means 1.
        log_labels: Whether the labels are logarithms.
        reduction: "none" returns the weighted losses; "sum" their sum; "mean" their sum
            divided by the sum of the weights; "sum_by_nonzero_weights" their sum
            divided by the number of losses whose weight is not 0.

    Returns:
        A scalar tensor; with the reduction "none", a tensor of the shape of ``labels``.
        The dtype is the promoted dtype; float32 for integers and bool.

    Raises:
        ValueError: The shapes are incompatible, or the reduction is unknown.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> logs = pg.log([0.5, 0.5])
        >>> pg.losses.kl_divergence([0.25, 0.75], logs, reduction="sum").item()
        0.1308

    Source:
        ``torch.nn.functional.kl_div``, where the labels come second.

    """
    if unknown:
        raise unexpected(kl_divergence, unknown)
    op = "kl_divergence"
    a, x = _floats_of_equal_shape(op, labels, log_predictions)
    if flag(op, "log_labels", log_labels):
        never = compare.equal(a, -math.inf)
        apart = compare.where(never, 0, a) - compare.where(never, 0, x)
        losses = compare.where(never, 0, unary.exp(a) * apart)
    else:
        never = compare.logical_and(compare.equal(a, 0), compare.equal(x, -math.inf))
        losses = special.xlogy(a, a) - a * compare.where(never, 0, x)
    return _weighted(op, losses, weights, reduction)


def ctc_loss(
    labels: TensorLike,
    logits: TensorLike,
    /,
    weights: Weights = None,
    *,
    label_lengths: TensorLike | None = None,
    logit_lengths: TensorLike | None = None,
    blank: int = 0,
    zero_infinity: bool = False,
    reduction: Reduction = DEFAULT,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the connectionist temporal classification (CTC) loss of each sequence.

    It is the negative logarithm of the probability of the labels, summed over all
    alignments. An alignment selects a class in each step, with the probabilities
    ``softmax(logits)``; it yields the labels if they remain after merging repeated
    classes and removing blanks. If there are too few steps, the loss is inf and its
    gradient is 0. The loss is computed from logarithms, in float32 or a wider dtype.

    Args:
        labels: Integers ``[batch, labels]``, none of them ``blank``.
        logits: ``[batch, steps, classes]``; logarithms of probabilities are valid
            logits.
        weights: A tensor that broadcasts to the losses; None means 1.
        label_lengths: The number of labels of each sequence, integers ``[batch]``; by
            default all labels count. Labels after these are ignored.
        logit_lengths: The number of steps of each sequence, integers ``[batch]``; by
            default all steps count.
        blank: The class that stands for no label.
        zero_infinity: Whether to return 0 instead of inf.
        reduction: "none" returns the weighted losses; "sum" their sum; "mean" their sum
            divided by the sum of the weights; "sum_by_nonzero_weights" their sum
            divided by the number of losses whose weight is not 0.

    Returns:
        A scalar tensor; with the reduction "none", a tensor ``[batch]``. The dtype is
        that of the logits; float32 for integers and bool.

    Raises:
        ValueError: The shapes are incompatible, ``blank`` is not a class, the reduction
            is unknown, or a length that is known on the host is out of range.
        TypeError: The labels or lengths are not integers, or another argument is
            complex or contains strings.
        IndexError: A label is not a valid class index.

    Example:
        >>> logits = pg.zeros((1, 3, 2))
        >>> pg.losses.ctc_loss([[1]], logits).item()  # 6 of 8 sequences yield the label
        0.2877

    Source:
        A. Graves et al., "Connectionist Temporal Classification: Labelling Unsegmented
        Sequence Data with Recurrent Neural Networks", 2006.
        ``torch.nn.functional.ctc_loss``, where steps come before the batch.

    """
    if unknown:
        raise unexpected(ctc_loss, unknown)
    op = "ctc_loss"
    losses = negative_log_probability(
        labels, logits, label_lengths, logit_lengths, blank
    )
    if flag(op, "zero_infinity", zero_infinity):
        losses = compare.where(compare.equal(losses, math.inf), 0, losses)
    return _weighted(op, losses, weights, reduction)
