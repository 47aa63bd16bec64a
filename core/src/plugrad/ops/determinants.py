"""Determinants; public in ``linalg``. Kernels: ``Cofactor Det Slogdet``.

``Slogdet`` is LAPACK's work and has no decomposition. Derivatives of ``Det`` are right
for singular matrices too, by way of singular values, which ``matrix_factors`` has.
"""

from __future__ import annotations

from typing import NamedTuple

from plugrad.engine.dispatch import run, run_many
from plugrad.registry.contract import Kernel, Spec, decomposition, gradients
from plugrad.tensor.tensor import Tensor, TensorLike

from . import (
    compare,
    complexes,
    creation,
    grids,
    matrix_factors,
    products,
    shape,
    slicing,
)
from .matrix import (
    INVERSE,
    LAPACK,
    adjoint,
    by,
    column,
    magnitude,
    matrices,
    of,
    product,
    row,
    stacked,
)


def _number(op: str, x: Spec) -> Spec:
    return Spec(stacked(op, x).shape[:-2], x.dtype)


DET = Kernel(
    f"Det(x: {LAPACK})",
    out=lambda x: _number("det", x),
    op="linalg.det",
    doc="""The determinant of each matrix, by LU with partial pivots; 1 of an empty one.

    A matrix with NaN gives NaN.""",
)


def det(x: TensorLike, /) -> Tensor:
    """Return the determinant of each matrix.

    The first and second derivatives are right for singular matrices too, the third for
    those whose singular values differ, and else NaN.
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
    out=lambda x: stacked("det", x),
    op="linalg.det",
    doc="""``y[..., i, j] = ∂det(x) / ∂x[..., i, j]``, of singular matrices too.""",
)


@decomposition(COFACTOR)
def _(x: Tensor) -> Tensor:
    """Return ``∂det(x) / ∂x``; cofactors of a product are the product of cofactors."""
    u, s, vh, sign = _turned(x)
    return sign * complexes.conjugate(product(u * row(_others(s)), vh))


def _turned(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the singular value decomposition, and the determinant of its rotations."""
    u, s, vh = matrix_factors.svd(x, full_matrices=False)
    sign = run_many(SLOGDET, u)[0] * run_many(SLOGDET, vh)[0]
    return u, s, vh, column(column(sign))


def _others(x: Tensor) -> Tensor:
    """Return, for each element of the last axis, the product of all others.

    Each half gets its pairs' others from the products of the pairs: no division.
    """
    n = x.shape[-1]
    if n < 2:
        return creation.ones_like(x)
    last = [(0, 0)] * (len(x.shape) - 1)
    even = slicing.pad(x, [*last, (0, n % 2)], constant_values=1)
    a, b = shape.split(even, 2, axis=-1)
    rest = _others(a * b)
    return slicing.along(shape.concat([rest * b, rest * a], axis=-1), len(last), 0, n)


def _cofactor_gradient(dy: Tensor, x: Tensor) -> Tensor:
    """Turn ``x`` into diagonal form, where second derivatives are products again.

    With ``q[i, j]`` the product of all ``s`` but two: that of the cofactor (i, j) in
    the element (j, i) is ``-q[i, j]``, that of (i, i) in (j, j) is ``q[i, j]``.
    """
    u, s, vh, sign = _turned(x)
    main = grids.eye(s.shape[-1], dtype=bool)
    q = compare.where(main, 0, _others(compare.where(main, 1, row(s))))
    turned = complexes.conjugate(sign) * by(
        of(complexes.conjugate(u), dy), complexes.conjugate(vh)
    )
    along = (q * column(products.diagonal(turned))).sum(axis=-2)
    across = -products.matrix_transpose(q * turned)
    return product(product(u, compare.where(main, row(along), across)), vh)


gradients(COFACTOR, x=_cofactor_gradient)


def _numbers(x: Spec) -> tuple[Spec, Spec]:
    y = _number("slogdet", x)
    return y, y._replace(dtype=magnitude(x.dtype))


SLOGDET = Kernel(
    f"Slogdet(x: {LAPACK}) -> sign, logabsdet",
    out=_numbers,
    op="linalg.slogdet",
    doc="""``det / |det|`` and ``log |det|`` of each matrix, by LU with partial pivots.

    Of a singular matrix they are 0 and -inf, of an empty one 1 and 0.""",
)


class SlogdetResult(NamedTuple):
    """What ``slogdet`` returns."""

    sign: Tensor
    logabsdet: Tensor


def slogdet(x: TensorLike, /) -> SlogdetResult:
    """Return ``det / |det|`` and ``log |det|``, which neither overflow nor vanish.

    Of a singular matrix they are 0 and -inf, and the derivative is an error.
    """
    return SlogdetResult(*run_many(SLOGDET, matrices("slogdet", x)))


def _slogdet_gradient(dsign: Tensor, dsize: Tensor, x: Tensor, sign: Tensor) -> Tensor:
    """Real signs do not change; a complex one turns with the imaginary part."""
    if sign.dtype.kind == "c":
        turn = complexes.conjugate(dsign) * sign
        dsize = dsize + (complexes.conjugate(turn) - turn) / 2
    return column(column(dsize)) * adjoint(run(INVERSE, x))


gradients(SLOGDET, x=_slogdet_gradient)
