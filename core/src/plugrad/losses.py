"""Losses: differences between predictions and labels, weighted and reduced."""

from ._src.ops.nn.losses import (
    __doc__ as __doc__,
)
from ._src.ops.nn.losses import (
    absolute_difference,
    compute_weighted_loss,
    cosine_distance,
    ctc_loss,
    hinge_loss,
    huber_loss,
    kl_divergence,
    log_loss,
    mean_squared_error,
    negative_log_likelihood,
    sigmoid_cross_entropy,
    softmax_cross_entropy,
    sparse_softmax_cross_entropy,
)
from ._src.public import publish

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

publish(globals())
