"""How the golden cases reach the ops of ``linalg``."""

import math

import plugrad as pg


def matmul(a, b, transposeA=False, transposeB=False):
    """Map both the kernel and the op, which take the same arguments."""
    return pg.matmul(a, b, transpose_a=transposeA, transpose_b=transposeB)


def norm(x, ord="euclidean", axis=None, keepDims=False):
    """Map ``norm``: two axes select a matrix norm, any other number a vector norm."""
    if isinstance(axis, list) and len(axis) == 2:
        matrix = "fro" if ord in ("euclidean", "fro") else ord
        return pg.linalg.matrix_norm(x, keepdims=keepDims, ord=matrix)
    vector = 2 if ord in ("euclidean", "fro") else {"inf": math.inf}.get(ord, ord)
    return pg.linalg.vector_norm(x, axis=axis, keepdims=keepDims, ord=vector)


KERNELS = {"BatchMatMul": matmul}

OPS = {
    "dot": pg.matmul,
    "matMul": matmul,
    "norm": norm,
}
