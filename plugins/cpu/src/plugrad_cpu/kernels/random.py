"""Sampling of classes: the largest noisy score wins."""

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array
from .reduce import argmax

kernels = KernelTable()


@kernels("Multinomial")
def multinomial(logits: Array, noise: Array, *, normalized: bool) -> Array:
    """Return the class with the largest score; noise: ``[samples, rows, classes]``."""
    if normalized:
        return argmax(logits * noise, axis=2).T
    top = logits.max(axis=1, keepdims=True)
    shifted = np.where(np.isfinite(top), logits - top, logits)
    return argmax(shifted + noise, axis=2).T
