"""Eigenvalues of general matrices, public in ``linalg``. Kernels: ``Eig Eigvals``.

``Eig`` uses LAPACK and has no decomposition into ops: a backend without the kernel
falls back to its host. The eigenvalues of Hermitian matrices are in ``matrix_factors``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad._src.engine.dispatch import require_dtype, run, run_many
from plugrad._src.ops.array import grids
from plugrad._src.ops.basis import complexes
from plugrad._src.registry.contract import Kernel, Spec, decomposition, gradients
from plugrad._src.tensor.dtypes import dtype_kind
from plugrad._src.tensor.tensor import Tensor, TensorLike

from . import matrix, products
from .matrix_factors import unused

if TYPE_CHECKING:
    from ._results import EigResult


def _eigenvalues_spec(op: str, x: Spec) -> Spec:
    dtype = require_dtype(op, complexes.COMPLEX_DTYPES.get(x.dtype, x.dtype))
    return Spec(matrix.check_matrices(op, x).shape[:-1], dtype)


def _eig_specs(x: Spec) -> tuple[Spec, Spec]:
    w = _eigenvalues_spec("eig", x)
    return w, Spec(x.shape, w.dtype)


def _matrices(op: str, x: TensorLike) -> Tensor:
    """Return ``x`` as matrices; raise if the backend lacks their complex dtype."""
    x = matrix.matrices(op, x)
    require_dtype(op, complexes.COMPLEX_DTYPES.get(x.dtype, x.dtype))
    return x


EIG = Kernel(
    f"Eig(x: {matrix.LAPACK}) -> w, v",
    out=_eig_specs,
    checks="x",
    op="linalg.eig",
    doc="""The eigenvalues ``w`` of square matrices, and the eigenvectors of length 1 as
    the columns of ``v``: ``x·v = v·diag(w)``.

    Both are complex: complex64 for float32 and complex128 for float64. The order of the
    eigenvalues is free, and an eigenvector may have any phase. A matrix with NaN or an
    infinity gives NaN.""",
)


def eig(x: TensorLike, /) -> EigResult:
    """Return the eigenvalues ``w`` and eigenvectors ``v`` of square matrices.

    ``x·v = v·diag(w)``. Both are complex, even for real matrices. The eigenvalues may
    be in any order, and each eigenvector may have any phase; a function that depends on
    the phase has no gradient. There is also no gradient for the eigenvectors of equal
    eigenvalues, or for a matrix without a basis of eigenvectors. Use ``eigh`` for
    Hermitian matrices.

    Args:
        x: ``[..., n, n]``.

    Returns:
        A named tuple of ``eigenvalues``, ``[..., n]``, and ``eigenvectors``,
        ``[..., n, n]``, whose columns have length 1. They are complex128 if ``x`` is
        float64 or complex128, complex64 otherwise. A matrix with NaN or an infinity
        gives NaN.

    Raises:
        ValueError: The matrices are not square.
        TypeError: ``x`` is float16 or contains strings, or the backend lacks the
            complex dtype.

    Example:
        >>> w, v = pg.linalg.eig([[0.0, -1.0], [1.0, 0.0]])
        >>> w
        Tensor([0.+1.j, 0.-1.j], dtype=complex64, backend='cpu')
        >>> pg.abs(v)
        Tensor([[0.7071, 0.7071],
                [0.7071, 0.7071]], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    from ._results import EigResult

    return EigResult(*run_many(EIG, _matrices("eig", x)))


def _eig_gradient(dw: Tensor, dv: Tensor, x: Tensor, w: Tensor, v: Tensor) -> Tensor:
    """Return ``v⁻ᴴ·(diag(dw) + p / e)·vᴴ``, or its real part if ``x`` is real.

    ``p`` is ``vᴴ·dv`` without the component that would change the lengths of the
    eigenvectors, and the elements of ``e`` are the conjugates of ``w[j] - w[i]``.
    """
    unit = grids.eye(w.shape[-1], dtype=w.dtype)
    inner = matrix.row(dw) * unit
    if not unused(dv):
        turns = matrix.adjoint_times(v, dv)
        lengths = complexes.real(products.diagonal(turns))
        turns = turns - matrix.adjoint_times(v, v * matrix.row(lengths))
        gaps = complexes.conjugate(matrix.row(w) - matrix.column(w))
        inner = inner + turns * (1 - unit) / (gaps + unit)
    dx = run(matrix.SOLVE, matrix.adjoint(v), matrix.times_adjoint(inner, v))
    return dx if dtype_kind(x.dtype) == "c" else complexes.real(dx)


gradients(EIG, x=_eig_gradient)


EIGVALS = Kernel(
    f"Eigvals(x: {matrix.LAPACK})",
    out=lambda x: _eigenvalues_spec("eigvals", x),
    checks="x",
    op="linalg.eigvals",
    doc="""The eigenvalues of square matrices, in any order.

    They are complex: complex64 for float32 and complex128 for float64. A matrix with
    NaN or an infinity gives NaN.""",
)


def eigvals(x: TensorLike, /) -> Tensor:
    """Return the complex eigenvalues of square matrices.

    They may be in any order. A matrix without a basis of eigenvectors has no gradient.
    Use ``eigvalsh`` for Hermitian matrices.

    Args:
        x: ``[..., n, n]``.

    Returns:
        A tensor ``[..., n]``: complex128 if ``x`` is float64 or complex128, complex64
        otherwise. A matrix with NaN or an infinity gives NaN.

    Raises:
        ValueError: The matrices are not square.
        TypeError: ``x`` is float16 or contains strings, or the backend lacks the
            complex dtype.

    Example:
        >>> pg.linalg.eigvals([[2.0, -1.0], [1.0, 2.0]])
        Tensor([2.+1.j, 2.-1.j], dtype=complex64, backend='cpu')

    Source:
        The array API standard.

    """
    return run(EIGVALS, _matrices("eigvals", x))


# No gradient: the decomposition computes the eigenvectors that a gradient needs.
decomposition(EIGVALS, lambda x: run_many(EIG, x)[0])
