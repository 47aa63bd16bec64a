"""How the golden cases reach the ops of ``norm``."""

import plugrad as pg


def batch_norm(x, mean, variance, offset=None, scale=None, varianceEpsilon=1e-3):
    """Map both the op and the kernel, whose arguments differ only in their order."""
    return pg.batch_norm(x, mean, variance, offset, scale, epsilon=varianceEpsilon)


def local_response_normalization(x, depthRadius=5, bias=1, alpha=1, beta=0.5):
    """Map both the kernel and the op, which take the same arguments."""
    attrs = {"bias": bias, "alpha": alpha, "beta": beta}
    return pg.local_response_normalization(x, depth_radius=depthRadius, **attrs)


def lrn_grad(x, y, dy, depthRadius, bias, alpha, beta):
    """Run the gradient kernel by name, because no op runs it."""
    attrs = {"depth_radius": depthRadius, "bias": bias, "alpha": alpha, "beta": beta}
    return pg.run_kernel("LRNGrad", [x, y, dy], attrs)


KERNELS = {
    "FusedBatchNorm": batch_norm,
    "LRN": local_response_normalization,
    "LRNGrad": lrn_grad,
    "Softmax": lambda logits, dim: pg.softmax(logits, axis=dim),
}

OPS = {
    "batchNorm": batch_norm,
    "batchNorm2d": batch_norm,
    "localResponseNormalization": local_response_normalization,
    "logSoftmax": lambda logits, axis=-1: pg.log_softmax(logits, axis=axis),
    "softmax": lambda logits, dim=-1: pg.softmax(logits, axis=dim),
}
