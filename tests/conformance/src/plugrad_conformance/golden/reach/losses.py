"""How the golden cases reach the ops of ``losses``."""

from plugrad import losses

REDUCTIONS = ["none", "mean", "sum", "sum_by_nonzero_weights"]  # the enum's order


def absolute_difference(labels, predictions, weights=None, reduction=3):
    return losses.absolute_difference(
        labels, predictions, weights, reduction=REDUCTIONS[reduction]
    )


def compute_weighted_loss(values, weights=None, reduction=3):
    return losses.compute_weighted_loss(
        values, weights, reduction=REDUCTIONS[reduction]
    )


def cosine_distance(labels, predictions, axis, weights=None, reduction=3):
    return losses.cosine_distance(
        labels, predictions, weights, axis=axis, reduction=REDUCTIONS[reduction]
    )


def hinge_loss(labels, predictions, weights=None, reduction=3):
    return losses.hinge_loss(
        labels, predictions, weights, reduction=REDUCTIONS[reduction]
    )


def huber_loss(labels, predictions, weights=None, delta=1.0, reduction=3):
    return losses.huber_loss(
        labels, predictions, weights, delta=delta, reduction=REDUCTIONS[reduction]
    )


def log_loss(labels, predictions, weights=None, epsilon=1e-7, reduction=3):
    return losses.log_loss(
        labels, predictions, weights, epsilon=epsilon, reduction=REDUCTIONS[reduction]
    )


def mean_squared_error(labels, predictions, weights=None, reduction=3):
    return losses.mean_squared_error(
        labels, predictions, weights, reduction=REDUCTIONS[reduction]
    )


def sigmoid_cross_entropy(labels, logits, weights=None, smoothing=0.0, reduction=3):
    return losses.sigmoid_cross_entropy(
        labels,
        logits,
        weights,
        label_smoothing=smoothing,
        reduction=REDUCTIONS[reduction],
    )


def softmax_cross_entropy(labels, logits, weights=None, smoothing=0.0, reduction=3):
    return losses.softmax_cross_entropy(
        labels,
        logits,
        weights,
        label_smoothing=smoothing,
        reduction=REDUCTIONS[reduction],
    )


KERNELS = {}

OPS = {
    "absoluteDifference": absolute_difference,
    "computeWeightedLoss": compute_weighted_loss,
    "cosineDistance": cosine_distance,
    "hingeLoss": hinge_loss,
    "huberLoss": huber_loss,
    "logLoss": log_loss,
    "meanSquaredError": mean_squared_error,
    "sigmoidCrossEntropy": sigmoid_cross_entropy,
    "softmaxCrossEntropy": softmax_cross_entropy,
}
