"""How the golden cases reach the ops of ``matrix_factors``.

TensorFlow.js has no kernels for them.
"""

import plugrad as pg


def qr(x, fullMatrices=False):
    """Map the flag for full matrices to plugrad's argument ``mode``."""
    return pg.linalg.qr(x, mode="complete" if fullMatrices else "reduced")


KERNELS = {}

OPS = {"qr": qr}
