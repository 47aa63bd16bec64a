"""Losses that ``pg.losses`` lacks. The labels come first, as in ``pg.losses``.

A loss is the mean over all elements or, with ``weights``, the weighted sum divided by
the number of non-zero weights. If the weights are the mask of a padded batch, this is
the mean over the examples.
"""

from __future__ import annotations

import math
from typing import Any

import plugrad as pg

__all__ = [
    "focal_loss",
    "gaussian_nll",
    "kl_divergence",
    "log_cosh",
    "poisson_nll",
    "quantile_loss",
    "triplet_margin",
]

TensorLike = Any


def _mean(losses: pg.Tensor, weights: TensorLike | None) -> pg.Tensor:
    """Return the weighted sum, divided by the number of non-zero weights."""
    if weights is None:
        return pg.mean(losses)
    weights = pg.astype(pg.asarray(weights), losses.dtype)
    return pg.losses.compute_weighted_loss(losses, weights)


def kl_divergence(
    labels: TensorLike, logits: TensorLike, /, *, weights: TensorLike | None = None
) -> pg.Tensor:
    """Return ``Σ labels · (log labels - log softmax(logits))`` along the last axis.

    Example:
        >>> pt.losses.kl_divergence([[0.5, 0.5]], [[0.0, 0.0]]).item()
        0.0

    Source:
        ``torch.nn.functional.kl_div``, but with probabilities and logits.

    """
    p = pg.asarray(labels)
    x = pg.asarray(logits)
    inside = pg.where(p > 0, p, pg.ones_like(p))
    logs = pg.log(inside) - pg.log_softmax(x)
    return _mean(pg.sum(p * logs, axis=-1), weights)


def poisson_nll(
    labels: TensorLike,
    log_rates: TensorLike,
    /,
    *,
    weights: TensorLike | None = None,
) -> pg.Tensor:
    """Return ``exp(log_rates) - labels · log_rates``, for counts.

    Example:
        >>> pt.losses.poisson_nll([2.0], [0.0]).item()
        1.0

    Source:
        ``torch.nn.functional.poisson_nll_loss``.

    """
    x = pg.asarray(log_rates)
    return _mean(pg.exp(x) - pg.asarray(labels) * x, weights)


def gaussian_nll(
    labels: TensorLike,
    means: TensorLike,
    variances: TensorLike,
    /,
    *,
    eps: float = 1e-6,
    weights: TensorLike | None = None,
) -> pg.Tensor:
    """Return ``(log v + (labels - means)² / v) / 2``; ``v = max(variances, eps)``.

    Example:
        >>> pt.losses.gaussian_nll([2.0], [0.0], [1.0]).item()
        2.0

    Source:
        ``torch.nn.functional.gaussian_nll_loss``.

    """
    v = pg.maximum(pg.asarray(variances), eps)
    error = pg.asarray(labels) - pg.asarray(means)
    return _mean(0.5 * (pg.log(v) + error * error / v), weights)


def log_cosh(
    labels: TensorLike, predictions: TensorLike, /, *, weights: TensorLike | None = None
) -> pg.Tensor:
    """Return ``log cosh e``: about ``e²/2`` if ``e`` is small, else ``|e| - log 2``.

    Example:
        >>> pt.losses.log_cosh([0.0], [1.0])
        Tensor(0.433781, dtype=float32, backend='cpu')

    """
    e = pg.asarray(predictions) - pg.asarray(labels)
    return _mean(e + pg.softplus(-2.0 * e) - math.log(2), weights)


def quantile_loss(
    labels: TensorLike,
    predictions: TensorLike,
    /,
    quantile: float = 0.5,
    *,
    weights: TensorLike | None = None,
) -> pg.Tensor:
    """Return ``max(q · e, (q - 1) · e)``, where ``e = labels - predictions``.

    Example:
        >>> pt.losses.quantile_loss([2.0], [0.0], 0.75).item()
        1.5

    """
    e = pg.asarray(labels) - pg.asarray(predictions)
    return _mean(pg.maximum(quantile * e, (quantile - 1.0) * e), weights)


def focal_loss(
    labels: TensorLike,
    logits: TensorLike,
    /,
    gamma: float = 2.0,
    *,
    alpha: float | None = None,
    weights: TensorLike | None = None,
) -> pg.Tensor:
    """Return ``-(1 - p)^gamma · log p``, where ``p`` is the probability of the label.

    Args:
        labels: 0 or 1.
        logits: The logits of label 1.
        gamma: How strongly well-classified examples are down-weighted.
        alpha: The weight of label 1; the weight of label 0 is ``1 - alpha``.
        weights: The weight of each element.

    Returns:
        A scalar.

    Example:
        >>> pt.losses.focal_loss([1.0], [0.0])
        Tensor(0.173287, dtype=float32, backend='cpu')

    Source:
        T.-Y. Lin et al., "Focal loss for dense object detection", ICCV 2017.

    """
    y = pg.asarray(labels)
    x = pg.asarray(logits)
    signed = (2.0 * y - 1.0) * x  # log p = -softplus(-signed)
    loss = pg.softplus(-signed) * pg.exp(-gamma * pg.softplus(signed))
    if alpha is not None:
        loss = loss * (alpha * y + (1.0 - alpha) * (1.0 - y))
    return _mean(loss, weights)


def triplet_margin(
    anchors: TensorLike,
    positives: TensorLike,
    negatives: TensorLike,
    /,
    margin: float = 1.0,
    *,
    weights: TensorLike | None = None,
) -> pg.Tensor:
    """Return ``max(0, |a - p| - |a - n| + margin)``, with norms along the last axis.

    Example:
        >>> pt.losses.triplet_margin([[0.0]], [[1.0]], [[3.0]], margin=4.0)
        Tensor(2., dtype=float32, backend='cpu')

    Source:
        ``torch.nn.functional.triplet_margin_loss``.

    """
    a = pg.asarray(anchors)

    def distance(x: TensorLike) -> pg.Tensor:
        return pg.linalg.vector_norm(a - pg.asarray(x) + 1e-6, axis=-1)

    return _mean(pg.relu(distance(positives) - distance(negatives) + margin), weights)
