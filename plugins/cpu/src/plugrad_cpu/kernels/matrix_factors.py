"""Matrix factorizations: NumPy's LAPACK functions."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array
from .matrix import finite, lapack

NO_CONVERGENCE = "one for which the iteration does not converge"


def _lower_only(call: Any) -> Any:
    """Return a kernel that reads only the lower triangle, even in the NaN check."""
    return lambda x: call(np.tril(x))


def _with_complex_results(function: Any) -> Any:
    """Make all results complex: NumPy's are real if all eigenvalues are."""

    def widened(x: Array) -> Any:
        found = function(x)
        dtype = np.result_type(x.dtype, np.complex64)
        if isinstance(found, tuple):
            return tuple(y.astype(dtype) for y in found)
        return found.astype(dtype)

    return widened


def _cholesky(x: Array) -> Array:
    return lapack("cholesky", "not positive definite", np.linalg.cholesky, x)


kernels = KernelTable(
    Cholesky=_lower_only(_cholesky),
    Eig=partial(finite, "eig", NO_CONVERGENCE, _with_complex_results(np.linalg.eig)),
    Eigvals=partial(
        finite, "eigvals", NO_CONVERGENCE, _with_complex_results(np.linalg.eigvals)
    ),
    Eigh=_lower_only(partial(finite, "eigh", NO_CONVERGENCE, np.linalg.eigh)),
    Eigvalsh=_lower_only(
        partial(finite, "eigvalsh", NO_CONVERGENCE, np.linalg.eigvalsh)
    ),
    Svdvals=partial(finite, "svdvals", NO_CONVERGENCE, np.linalg.svdvals),
)


@kernels("Qr")
def qr(x: Array, *, mode: Any) -> Any:
    """Factorize; keep ``r`` triangular even if ``x`` is not finite."""
    q, r = finite("qr", NO_CONVERGENCE, partial(np.linalg.qr, mode=mode), x)
    return q, np.triu(r)


@kernels("Svd")
def svd(x: Array, *, full_matrices: bool) -> Any:
    """Return singular values and vectors: all vectors, or one per singular value."""
    function = partial(np.linalg.svd, full_matrices=full_matrices)
    return finite("svd", NO_CONVERGENCE, function, x)
