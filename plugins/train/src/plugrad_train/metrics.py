"""Metrics and their means over batches.

A metric of a batch is a tensor; pass the mask of a padded batch as ``weights``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import plugrad as pg

from .data import Padded

__all__ = [
    "accuracy",
    "evaluate",
    "mean_absolute_error",
    "precision_recall_f1",
    "r2_score",
    "top_k_accuracy",
]

TensorLike = Any


def _mean(values: pg.Tensor, weights: TensorLike | None) -> pg.Tensor:
    """Return the mean of ``values``; ``weights`` has one weight per row."""
    if weights is None:
        return pg.mean(values)
    w = pg.astype(pg.asarray(weights), values.dtype)
    w = pg.reshape(w, (*w.shape, *(1,) * (values.ndim - w.ndim)))
    w = pg.broadcast_to(w, values.shape)
    return pg.sum(values * w) / pg.maximum(pg.sum(w), 1e-12)


def accuracy(
    labels: TensorLike, logits: TensorLike, /, *, weights: TensorLike | None = None
) -> pg.Tensor:
    """Return the fraction of rows whose largest logit is that of the label.

    Example:
        >>> pt.metrics.accuracy([0, 1], [[2.0, 1.0], [2.0, 1.0]]).item()
        0.5

    """
    hits = pg.equal(pg.argmax(pg.asarray(logits), axis=-1), pg.asarray(labels))
    return _mean(pg.astype(hits, pg.float32), weights)


def top_k_accuracy(
    labels: TensorLike,
    logits: TensorLike,
    /,
    k: int = 5,
    *,
    weights: TensorLike | None = None,
) -> pg.Tensor:
    """Return the fraction of rows whose label is among the ``k`` largest logits.

    Example:
        >>> pt.metrics.top_k_accuracy([0, 2], [[3.0, 2.0, 1.0]] * 2, k=2).item()
        0.5

    """
    _, largest = pg.top_k(pg.asarray(logits), k)
    hits = pg.any(pg.equal(largest, pg.asarray(labels)[..., None]), axis=-1)
    return _mean(pg.astype(hits, pg.float32), weights)


def mean_absolute_error(
    labels: TensorLike, predictions: TensorLike, /, *, weights: TensorLike | None = None
) -> pg.Tensor:
    """Return the mean of ``|labels - predictions|``.

    Example:
        >>> pt.metrics.mean_absolute_error([1.0, 2.0], [2.0, 4.0]).item()
        1.5

    """
    return _mean(pg.abs(pg.asarray(labels) - pg.asarray(predictions)), weights)


def r2_score(labels: TensorLike, predictions: TensorLike, /) -> pg.Tensor:
    """Return ``1 - Σ(labels - predictions)² / Σ(labels - mean)²``.

    Example:
        >>> pt.metrics.r2_score([1.0, 2.0, 3.0], [2.0, 2.0, 2.0]).item()
        0.0

    """
    y = pg.asarray(labels)
    residual = pg.sum(pg.square(y - pg.asarray(predictions)))
    return 1.0 - residual / pg.sum(pg.square(y - pg.mean(y)))


def precision_recall_f1(
    labels: TensorLike, classes: TensorLike, num_classes: int, /
) -> tuple[pg.Tensor, pg.Tensor, pg.Tensor]:
    """Return precision, recall and F1 of each class; 0 where undefined.

    Args:
        labels: The true classes, int32.
        classes: The predicted classes.
        num_classes: The number of classes.

    Returns:
        Three tensors of shape ``(num_classes,)``.

    Example:
        >>> precision, recall, f1 = pt.metrics.precision_recall_f1(
        ...     [0, 0, 1], [0, 1, 1], 2
        ... )
        >>> precision.tolist(), recall.tolist()
        ([1.0, 0.5], [0.5, 1.0])

    """
    counts = pg.confusion_matrix(pg.asarray(labels), pg.asarray(classes), num_classes)
    counts = pg.astype(counts, pg.float32)
    hits = pg.linalg.diagonal(counts)
    predicted = pg.sum(counts, axis=0)
    actual = pg.sum(counts, axis=1)

    def ratio(x: pg.Tensor, total: pg.Tensor) -> pg.Tensor:
        return pg.where(total > 0, x / pg.maximum(total, 1e-12), pg.zeros_like(x))

    f1 = ratio(2.0 * hits, predicted + actual)
    return ratio(hits, predicted), ratio(hits, actual), f1


def evaluate(
    metrics: Callable[[Any, Any], Mapping[str, pg.Tensor]],
    params: Any,
    batches: Iterable[Any],
    /,
) -> dict[str, float]:
    """Return the means of metrics over batches, weighted by the examples per batch.

    Args:
        metrics: A function ``metrics(params, batch)`` that returns means over the batch
            by name.
        params: The parameters.
        batches: The batches of one epoch. In a ``Padded`` batch, only the rows that its
            mask selects count.

    Returns:
        The means.

    Example:
        >>> batches = pt.Batches(np.asarray([1.0, 2.0, 6.0]), 2, last="pad")
        >>> def metrics(params, batch):
        ...     mask = pg.astype(batch.mask, pg.float32)
        ...     return {"mean": pg.sum(batch.data) / pg.sum(mask)}
        >>> pt.metrics.evaluate(metrics, None, batches)
        {'mean': 3.0}

    """
    totals: dict[str, float] = {}
    rows = 0
    for batch in batches:
        is_padded = isinstance(batch, Padded)
        count = int(batch.mask.sum()) if is_padded else len(pg.tree.leaves(batch)[0])
        means = metrics(params, pg.tree.map(pg.asarray, batch))
        for name, value in means.items():
            totals[name] = totals.get(name, 0.0) + count * float(value)
        rows += count
    if rows == 0:
        raise ValueError("evaluate: there are no batches; pass one epoch of them")
    return {name: total / rows for name, total in totals.items()}
