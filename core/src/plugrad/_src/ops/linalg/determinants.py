"""Determinants, public in ``linalg``. Kernels: ``Cofactor Det Slogdet``.

``Slogdet`` uses LAPACK and has no decomposition. The derivatives of ``Det`` are also
correct for singular matrices, because they use the singular values that
``matrix_factors`` computes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad._src.engine.dispatch import run, run_many
from plugrad._src.ops.array import grids, slicing
from plugrad._src.ops.basis import compare, complexes, creation, shape
from plugrad._src.registry.contract import Kernel, Spec, decomposition, gradients
from plugrad._src.tensor.dtypes import dtype_kind
from plugrad._src.tensor.tensor import Tensor, TensorLike

from . import matrix_factors, products
from .matrix import (
    INVERSE,
    LAPACK,
    adjoint,
    adjoint_times,
    check_matrices,
    column,
    magnitude_dtype,
    matrices,
    product,
    row,
    times_adjoint,
)

if TYPE_CHECKING:
    from ._results import SlogdetResult


def _determinant_spec(op: str, x: Spec) -> Spec:
    return Spec(check_matrices(op, x).shape[:-2], x.dtype)


DET = Kernel(
    f"Det(x: {LAPACK})",
    out=lambda x: _determinant_spec("det", x),
    op="linalg.det",
    doc="""The determinant of each matrix, by LU with partial pivoting.

    An empty matrix gives 1, and a matrix with NaN gives NaN.""",
)


def det(x: TensorLike, /) -> Tensor:
    """Return the determinant of each matrix.

    It is computed by LU decomposition with partial pivoting. The first and second
    derivatives are also correct for singular matrices. The third derivative is correct
    if all singular values differ, and NaN otherwise. The determinant of an empty matrix
    is 1. A matrix with NaN gives NaN.

    Args:
        x: ``[..., n, n]``; integers become float32.

    Returns:
        A tensor ``[...]`` with the dtype of ``x``; float32 for integers and bool.

    Raises:
        ValueError: The matrices are not square.
        TypeError: ``x`` is float16 or contains strings.

    Example:
        >>> pg.linalg.det([[3.0, 1.0], [4.0, 2.0]]).item()
        2.0

    Source:
        The array API standard.

    """
    return run(DET, matrices("det", x))


@decomposition(DET)
def _(x: Tensor) -> Tensor:
    sign, size = run_many(SLOGDET, x)
    return sign * size.exp()


gradients(
    DET, x=lambda dy, x: column(column(dy)) * complexes.conjugate(run(COFACTOR, x))
)


COFACTOR: Kernel = Kernel(
    f"Cofactor(x: {LAPACK})",
    out=lambda x: check_matrices("det", x),
    op="linalg.det",
    doc="""``y[..., i, j] = ∂det(x) / ∂x[..., i, j]``, even for singular matrices.""",
)


@decomposition(COFACTOR)
def _(x: Tensor) -> Tensor:
    """Return ``∂det(x) / ∂x``; the cofactors of a product are products of cofactors."""
    u, s, vh, sign = _svd_with_sign(x)
    return sign * complexes.conjugate(product(u * row(_products_of_others(s)), vh))


def _svd_with_sign(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the singular value decomposition, and ``det(u) · det(vh)``."""
    u, s, vh = matrix_factors.svd(x, full_matrices=False)
    sign = run_many(SLOGDET, u)[0] * run_many(SLOGDET, vh)[0]
    return u, s, vh, column(column(sign))


def _products_of_others(x: Tensor) -> Tensor:
    """Return, for each element of the last axis, the product of all others.

    There are no divisions. The elements of two halves are paired; the result for an
    element is its partner times the product of all other pairs.
    """
    n = x.shape[-1]
    if n < 2:
        return creation.ones_like(x)
    last = [(0, 0)] * (len(x.shape) - 1)
    even = slicing.pad(x, [*last, (0, n % 2)], constant_values=1)
    a, b = shape.split(even, 2, axis=-1)
    rest = _products_of_others(a * b)
    return slicing.along(shape.concat([rest * b, rest * a], axis=-1), len(last), 0, n)


def _cofactor_gradient(dy: Tensor, x: Tensor) -> Tensor:
    """Transform ``x`` to diagonal form, where second derivatives are also products.

    Let ``q[i, j]`` be the product of all ``s`` except ``s[i]`` and ``s[j]``. The
    derivative of the cofactor (i, j) with respect to the element (j, i) is
    ``-q[i, j]``; that of the cofactor (i, i) with respect to (j, j) is ``q[i, j]``.
    """
    u, s, vh, sign = _svd_with_sign(x)
    main = grids.eye(s.shape[-1], dtype=bool)
    q = compare.where(main, 0, _products_of_others(compare.where(main, 1, row(s))))
    turned = complexes.conjugate(sign) * times_adjoint(
        adjoint_times(complexes.conjugate(u), dy), complexes.conjugate(vh)
    )
    along = (q * column(products.diagonal(turned))).sum(axis=-2)
    across = -products.matrix_transpose(q * turned)
    return product(product(u, compare.where(main, row(along), across)), vh)


gradients(COFACTOR, x=_cofactor_gradient)


def _slogdet_specs(x: Spec) -> tuple[Spec, Spec]:
    y = _determinant_spec("slogdet", x)
    return y, y._replace(dtype=magnitude_dtype(x.dtype))


SLOGDET = Kernel(
    f"Slogdet(x: {LAPACK}) -> sign, logabsdet",
    out=_slogdet_specs,
    op="linalg.slogdet",
    doc="""``det / |det|`` and ``log |det|`` of each matrix.

    They are computed by LU decomposition with partial pivoting. A singular matrix gives
    0 and -inf, an empty one 1 and 0.""",
)


def slogdet(x: TensorLike, /) -> SlogdetResult:
    """Return ``det / |det|`` and ``log |det|`` of each matrix.

    The logarithm is finite even if the determinant would overflow or underflow. A
    singular matrix gives 0 and -inf; differentiating there raises an error. An empty
    matrix gives 1 and 0.

    Args:
        x: ``[..., n, n]``; integers become float32.

    Returns:
        A named tuple of ``sign``, ``[...]`` with the dtype of ``x``, and the real
        ``logabsdet``, ``[...]``; float32 for integers and bool.

    Raises:
        ValueError: The matrices are not square.
        TypeError: ``x`` is float16 or contains strings.

    Example:
        >>> sign, logabsdet = pg.linalg.slogdet([[0.0, 2.0], [1.0, 0.0]])
        >>> sign.item(), logabsdet.exp().item()
        (-1.0, 2.0)

    Source:
        The array API standard.

    """
    from ._results import SlogdetResult

    return SlogdetResult(*run_many(SLOGDET, matrices("slogdet", x)))


def _slogdet_gradient(dsign: Tensor, dsize: Tensor, x: Tensor, sign: Tensor) -> Tensor:
    """Return the gradient; the sign of a real determinant is constant."""
    if dtype_kind(sign.dtype) == "c":
        turn = complexes.conjugate(dsign) * sign
        dsize = dsize + (complexes.conjugate(turn) - turn) / 2
    return column(column(dsize)) * adjoint(run(INVERSE, x))


gradients(SLOGDET, x=_slogdet_gradient)
