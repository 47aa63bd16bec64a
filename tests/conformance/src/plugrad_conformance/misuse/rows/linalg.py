"""Valid calls of kernels for matrices and their factors, and of Fourier transforms."""

import numpy as np
import plugrad as pg

from .. import call, complexes, floats, ints

ONE = np.array(1, np.int32)
SQUARES = floats(2, 3, 3) + 2 * np.eye(3, dtype=np.float32)
HERMITIAN = SQUARES + SQUARES.swapaxes(1, 2)

CALLS = {
    "BatchMatMul": call(
        floats(5, 4, 2), floats(5, 3, 4), transpose_a=True, transpose_b=True
    ),
    "MatMulInteger": call(
        ints(4, 2, below=9).astype(np.int8),
        ints(3, 4, below=9).astype(np.int8),
        transpose_a=True,
        transpose_b=True,
    ),
    "MixedMatMul": call(
        floats(2, 4),
        floats(3, 4).astype(pg.bfloat16),
        transpose_a=False,
        transpose_b=True,
    ),
    "Diag": call(ints(3, 2, below=6)),
    "MatrixBandPart": call(floats(2, 3, 4), ONE, ONE),
    **{name: call(SQUARES) for name in ("Cofactor", "Det", "Inverse", "Slogdet")},
    **{name: call(SQUARES) for name in ("Eig", "Eigvals")},
    **{name: call(HERMITIAN) for name in ("Cholesky", "Eigh", "Eigvalsh")},
    **{name: call(SQUARES) for name in ("Lu", "MatrixExp")},
    "Solve": call(SQUARES, floats(2, 3, 4)),
    "TriangularSolve": call(SQUARES, floats(2, 3, 4), upper=False),
    "Qr": call(floats(2, 4, 3), mode="complete"),
    "Svd": call(floats(2, 4, 3), full_matrices=True),
    "Svdvals": call(floats(2, 4, 3)),
    "Pinv": call(floats(2, 4, 3), np.full(2, 1e-6, np.float32)),
    "FFT": call(complexes(2, 3, 6)),
    "IFFT": call(complexes(2, 3, 5)),
}
