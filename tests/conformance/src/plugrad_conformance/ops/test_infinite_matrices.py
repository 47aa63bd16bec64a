"""Matrices with infinities, in a separate process because LAPACK may never return."""

from ..backend.processes import program
from ..check import require_dtypes


def test_a_matrix_with_an_infinity_gives_nan_and_does_not_hang(backend):
    """For some of these matrices, LAPACK's singular value decomposition never ends."""
    require_dtypes(backend, "complex64")
    program(
        backend,
        """
        import numpy as np
        linalg = pg.linalg
        all_nan = [
            lambda x: linalg.svd(x).U, lambda x: linalg.svd(x).S,
            lambda x: linalg.svd(x).Vh, linalg.svdvals, linalg.pinv, linalg.cond,
            lambda x: linalg.cond(x, ord=-2), lambda x: linalg.qr(x).Q,
            lambda x: linalg.matrix_norm(x, ord=2), lambda x: linalg.eigvalsh(x),
            lambda x: linalg.matrix_norm(x, ord=-2), linalg.eigvals,
            lambda x: linalg.matrix_norm(x, ord="nuc"), lambda x: linalg.eig(x)[1],
            lambda x: linalg.eigh(x).eigenvectors,
            lambda x: linalg.lstsq(x, np.ones((3, 2), np.float32)),
        ]
        for strange in np.inf, -np.inf, np.nan, complex(0, np.inf), complex(np.inf, 1):
            for place in (0, 0), (1, 1), (2, 0):
                x = np.arange(9).reshape(3, 3) + np.eye(3)
                x = x.astype("complex64" if isinstance(strange, complex) else "float32")
                x[place] = strange
                for i, f in enumerate(all_nan):
                    assert np.isnan(f(x).numpy()).all(), (i, strange, place)
                r = linalg.qr(x).R.numpy()
                assert np.isnan(r[np.triu_indices(3)]).all()
                assert (r[np.tril_indices(3, -1)] == 0).all()
                assert linalg.matrix_rank(x).item() == 0
        """,
        timeout=60,
    )
