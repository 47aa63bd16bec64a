"""Factors of matrices: LAPACK by NumPy."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array
from .matrix import lapack

ENDLESS = "one for which the iteration does not converge"


def _known(function: Any, x: Array) -> Any:
    """LAPACK takes NaN on the diagonal for some number, and finds eigenvalues."""
    if np.isnan(np.trace(x, axis1=-2, axis2=-1)).any():
        raise np.linalg.LinAlgError
    return function(x)


def _low(op: str, problem: str, function: Any) -> Any:
    """Return a kernel that looks at the lower triangle alone, for NaN too."""
    return lambda x: lapack(op, problem, function, np.tril(x))


def _complex(function: Any) -> Any:
    """Make all results complex: NumPy's are real where all eigenvalues are."""

    def widened(x: Array) -> Any:
        found, dtype = function(x), np.result_type(x.dtype, np.complex64)
        if isinstance(found, tuple):
            return tuple(y.astype(dtype) for y in found)
        return found.astype(dtype)

    return widened


kernels = KernelTable(
    Cholesky=_low("cholesky", "not positive definite", np.linalg.cholesky),
    Eig=partial(lapack, "eig", ENDLESS, _complex(np.linalg.eig)),
    Eigvals=partial(lapack, "eigvals", ENDLESS, _complex(np.linalg.eigvals)),
    Eigh=_low("eigh", ENDLESS, partial(_known, np.linalg.eigh)),
    Eigvalsh=_low("eigvalsh", ENDLESS, partial(_known, np.linalg.eigvalsh)),
    Qr=np.linalg.qr,
    Svdvals=partial(lapack, "svdvals", ENDLESS, np.linalg.svdvals),
)


@kernels("Svd")
def svd(x: Array, *, full_matrices: bool) -> Any:
    """Singular values with vectors: all that fit, or those that belong to a value."""
    function = partial(np.linalg.svd, full_matrices=full_matrices)
    return lapack("svd", ENDLESS, function, x)
