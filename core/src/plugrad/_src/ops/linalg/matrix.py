"""Diagonal and band matrices, and systems of equations; public in ``linalg``.

Kernels: ``Diag Inverse MatrixBandPart Solve TriangularSolve``. Of these, ``Solve`` uses
LAPACK and has no decomposition: a backend without the kernel falls back to its host.
The same holds for ``Cholesky Eigh Qr Svd`` of ``matrix_factors`` and ``Slogdet`` of
``determinants``.

These ops accept stacks of real or complex matrices, which occupy the last two axes.
Integers become float32, and float16 raises an error. A matrix with NaN gives NaN. If an
op rejects singular matrices, its error says which matrix is singular. ``ᴴ`` is the
conjugate transpose.

Contents: helpers for all matrix modules; diagonals and bands; systems of equations.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from plugrad import geometry
from plugrad._src.engine.dispatch import run
from plugrad._src.ops.array import grids, slicing
from plugrad._src.ops.basis import _convert, compare, complexes, shape
from plugrad._src.registry.contract import Kernel, Spec, decomposition, gradients
from plugrad._src.tensor.arguments import flag, misfit
from plugrad._src.tensor.dtypes import BFLOAT16, DTYPES, INT32, DType
from plugrad._src.tensor.tensor import Tensor, TensorLike

from . import products

__all__ = ["diag"]

# --- helpers for all matrix modules ----------------------------------------------

LAPACK = "float32 | float64 | complex64 | complex128"


def matrices(op: str, x: TensorLike, *, square: bool = True) -> Tensor:
    """Return ``x`` as floating matrices of a dtype that LAPACK supports."""
    x = _convert.floating(op, x)
    if x.dtype in (DTYPES["float16"], BFLOAT16):
        raise TypeError(f"{op}: is not defined for {x.dtype}; cast with astype")
    return check_matrices(op, x, square=square)


def check_matrices(
    op: str, x: _convert.Shaped, *, square: bool = True
) -> _convert.Shaped:
    """Return ``x`` if it is a stack of (square) matrices; raise an error otherwise."""
    if len(x.shape) < 2 or (square and x.shape[-1] != x.shape[-2]):
        kind = "square matrices, [..., n, n]" if square else "matrices, [..., m, n]"
        raise misfit(op, f"takes {kind}; reshape or slice", x)
    return x


def magnitude_dtype(dtype: DType) -> DType:
    """Return the dtype of the absolute values of numbers with dtype ``dtype``."""
    return complexes.REAL_DTYPES.get(dtype, dtype)


def product(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a·b``."""
    return run(products.BATCH_MATMUL, a, b, transpose_a=False, transpose_b=False)


def adjoint_times(a: Tensor, b: Tensor) -> Tensor:
    """Return ``aᴴ·b``."""
    a = complexes.conjugate(a)
    return run(products.BATCH_MATMUL, a, b, transpose_a=True, transpose_b=False)


def times_adjoint(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a·bᴴ``."""
    b = complexes.conjugate(b)
    return run(products.BATCH_MATMUL, a, b, transpose_a=False, transpose_b=True)


def adjoint(x: Tensor) -> Tensor:
    """Return ``xᴴ``."""
    return complexes.conjugate(products.matrix_transpose(x))


def row(x: Tensor) -> Tensor:
    """Return vectors as rows, which scale the columns of a matrix."""
    return run(shape.RESHAPE, x, shape=(*x.shape[:-1], 1, *x.shape[-1:]))


def column(x: Tensor) -> Tensor:
    """Return vectors as columns, which scale the rows of a matrix."""
    return run(shape.RESHAPE, x, shape=(*x.shape, 1))


# --- diagonals and bands ---------------------------------------------------------

DIAG = Kernel(
    "Diag(x: bool | number)",
    out=lambda x: Spec(x.shape * 2, x.dtype),
    op="diag",
    doc="""``y[i, i] = x[i]``, and 0 elsewhere; ``i`` has one index for each axis of
    ``x``.""",
)


def diag(x: TensorLike, /) -> Tensor:
    """Return a tensor with ``x`` on its diagonal and zeros elsewhere.

    ``y[i, i] = x[i]``, where ``i`` stands for an index along each axis of ``x``.
    ``linalg.diagonal`` is the inverse for vectors.

    Args:
        x: A tensor of numbers or bool.

    Returns:
        A tensor of the shape ``x.shape + x.shape`` and the dtype of ``x``.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.diag([1, 2])
        Tensor([[1, 0],
                [0, 2]], dtype=int32, backend='cpu')

    Source:
        The semantics are those of ``tf.diag`` in TensorFlow.js.

    """
    return run(DIAG, _convert.numbers("diag", x))


@decomposition(DIAG)  # also used for the gradient
def _(x: Tensor) -> Tensor:
    n = x.size
    y = run(shape.RESHAPE, x, shape=(n, 1))
    y = run(slicing.PAD_V2, y, paddings=((0, 0), (0, n)), constant_values=0)
    y = run(shape.RESHAPE, y, shape=(n * (n + 1),))  # x[i] is at i·(n + 1)
    return run(shape.RESHAPE, slicing.along(y, 0, 0, n * n), shape=x.shape * 2)


def _band_spec(input: Spec, num_lower: Spec, num_upper: Spec) -> Spec:
    if num_lower.shape or num_upper.shape:
        rule = "num_lower and num_upper must be one number each"
        raise misfit("band_part", rule, num_lower, num_upper)
    return check_matrices("band_part", input, square=False)


MATRIX_BAND_PART = Kernel(
    "MatrixBandPart(input: bool | number, num_lower: int32 | int64, "
    "num_upper: int32 | int64)",
    out=_band_spec,
    op="linalg.band_part",
    doc="""``input[..., i, j]`` where ``-num_upper <= i - j <= num_lower``, else 0.

    A negative number means no limit. Outside the band, even NaN and infinities become
    0.""",
)


def band_part(
    x: TensorLike, num_lower: int | TensorLike, num_upper: int | TensorLike, /
) -> Tensor:
    """Return ``x`` with zeros outside a band of each matrix.

    The band is the main diagonal, ``num_lower`` diagonals below it and ``num_upper``
    above it. Outside the band, even NaN and infinities become 0.

    Args:
        x: ``[..., m, n]`` of numbers or bool.
        num_lower: The number of diagonals below the main one; -1 for all.
        num_upper: The number of diagonals above the main one; -1 for all.

    Returns:
        A tensor with the shape and dtype of ``x``.

    Raises:
        ValueError: A number exceeds the size of the matrix, or ``x`` has fewer than two
            axes.
        TypeError: ``x`` contains strings, or a number is not an integer.

    Example:
        >>> pg.linalg.band_part([[1, 2, 3], [4, 5, 6], [7, 8, 9]], 1, 0)
        Tensor([[1, 0, 0],
                [4, 5, 0],
                [0, 8, 9]], dtype=int32, backend='cpu')

    Source:
        The semantics are those of ``tf.linalg.bandPart`` in TensorFlow.js.

    """
    x = check_matrices("band_part", _convert.numbers("band_part", x), square=False)
    lower = _diagonal_count("num_lower", num_lower, x, -2)
    return run(
        MATRIX_BAND_PART, x, lower, _diagonal_count("num_upper", num_upper, x, -1)
    )


def _diagonal_count(name: str, given: int | TensorLike, x: Tensor, axis: int) -> Tensor:
    """Return a number of diagonals as a tensor; check it if it is on the host."""
    known = _convert.on_host("band_part", name, given)
    count = _convert.integer_tensor("band_part", name, given)
    if count.shape or (known is not None and known > x.shape[axis]):
        rule = f"must be one number, at most {x.shape[axis]}; -1 means all"
        raise misfit("band_part", f"{name} {given!r} {rule}", x)
    return count


@decomposition(MATRIX_BAND_PART)
def _(input: Tensor, num_lower: Tensor, num_upper: Tensor) -> Tensor:
    rows, columns = (np.arange(n, dtype=np.int32) for n in input.shape[-2:])
    below = _convert.tensor_of(rows[:, None] - columns, copy=False)
    low = compare.logical_or(num_lower < 0, below <= num_lower)
    high = compare.logical_or(num_upper < 0, -below <= num_upper)
    return compare.where(compare.logical_and(low, high), input, False)


def _band_gradient(dy: Tensor, num_lower: Tensor, num_upper: Tensor) -> Tensor:
    return run(MATRIX_BAND_PART, dy, num_lower, num_upper)


gradients(MATRIX_BAND_PART, input=_band_gradient, num_lower=None, num_upper=None)


def band(x: Tensor, lower: int, upper: int) -> Tensor:
    """Return ``band_part`` without checking the numbers."""
    counts = [_convert.scalar("band_part", n, INT32) for n in (lower, upper)]
    return run(MATRIX_BAND_PART, x, *counts)


# --- systems of equations --------------------------------------------------------


def _solve_spec(op: str, a: Spec, b: Spec, **_: bool) -> Spec:
    batch = _batch_axes(op, check_matrices(op, a), b)
    if len(b.shape) < 2:
        raise misfit(op, "the kernel needs b as [..., n, k]; reshape a vector", b)
    return Spec((*batch, *b.shape[-2:]), b.dtype)


def _batch_axes(op: str, a: Tensor | Spec, b: Tensor | Spec) -> geometry.Shape:
    """Return the broadcast batch axes; raise unless the row counts are equal."""
    if not b.shape or b.shape[-2:][0] != a.shape[-2]:
        raise misfit(op, "b must be [m] or [..., m, k], with the m rows of a", b, a)
    return geometry.broadcast(op, a.shape[:-2], b.shape[:-2])


SOLVE = Kernel(
    f"Solve(a: {LAPACK}, b: a)",
    out=partial(_solve_spec, "solve"),
    broadcasts=True,
    checks="a",
    op="linalg.solve",
    doc="""``y`` with ``a·y = b``, by LU decomposition with partial pivoting.

    The leading axes broadcast. If a finite matrix has a pivot of 0, it is singular, and
    a ValueError is raised.""",
)


def solve(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return the solution ``y`` of ``a·y = b`` for each matrix.

    It is computed by LU decomposition with partial pivoting.

    Args:
        a: ``[..., n, n]``.
        b: ``[n]``, or ``[..., n, k]`` whose leading axes broadcast with those of ``a``.

    Returns:
        A tensor ``[..., n]`` for a vector ``b``, else ``[..., n, k]``, of the promoted
        dtype; float32 for integers and bool.

    Raises:
        ValueError: A matrix is singular, or shapes do not fit.
        TypeError: An argument is float16 or contains strings.

    Example:
        >>> pg.linalg.solve([[2.0, 0.0], [0.0, 4.0]], [2.0, 2.0])
        Tensor([1. , 0.5], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    return _run_solver(SOLVE, *sides("solve", a, b))


def sides(
    op: str, a: TensorLike, b: TensorLike, *, square: bool = True
) -> tuple[Tensor, Tensor]:
    """Return both sides of ``a·y = b`` in one dtype; a vector ``b`` stays a vector."""
    a, b = _convert.promote_all(op, a, b)
    a = matrices(op, a, square=square)
    b = _convert.floating(op, b)
    _batch_axes(op, a, b)
    return a, b


def _run_solver(kernel: Kernel, a: Tensor, b: Tensor, **attrs: bool) -> Tensor:
    if len(b.shape) > 1:
        return run(kernel, a, b, **attrs)
    y = run(kernel, a, column(b), **attrs)
    return run(shape.RESHAPE, y, shape=y.shape[:-1])


gradients(
    SOLVE,
    a=lambda dy, a, y: -times_adjoint(run(SOLVE, adjoint(a), dy), y),
    b=lambda dy, a: run(SOLVE, adjoint(a), dy),
)


TRIANGULAR_SOLVE = Kernel(
    f"TriangularSolve(a: {LAPACK}, b: a; upper: bool)",
    out=partial(_solve_spec, "triangular_solve"),
    broadcasts=True,
    checks="a",
    op="linalg.triangular_solve",
    doc="""``y`` with ``a·y = b`` for one triangle of ``a``; the other one is not read.

    The leading axes broadcast. A 0 on the diagonal of a finite matrix raises a
    ValueError.""",
)


def triangular_solve(a: TensorLike, b: TensorLike, /, *, upper: bool = False) -> Tensor:
    """Return the solution ``y`` of ``a·y = b`` for each triangular matrix.

    Only one triangle of ``a`` is read, the lower or the upper.

    Args:
        a: ``[..., n, n]``.
        b: ``[n]``, or ``[..., n, k]`` whose leading axes broadcast with those of ``a``.
        upper: Whether ``a`` is upper triangular.

    Returns:
        A tensor ``[..., n]`` for a vector ``b``, else ``[..., n, k]``, of the promoted
        dtype; float32 for integers and bool.

    Raises:
        ValueError: There is a zero on the diagonal of ``a``, or shapes do not fit.
        TypeError: An argument is float16 or contains strings.

    Example:
        >>> pg.linalg.triangular_solve([[2.0, 0.0], [1.0, 4.0]], [2.0, 9.0])
        Tensor([1., 2.], dtype=float32, backend='cpu')

    """
    upper = flag("triangular_solve", "upper", upper)
    return _run_solver(TRIANGULAR_SOLVE, *sides("triangular_solve", a, b), upper=upper)


@decomposition(TRIANGULAR_SOLVE)
def _(a: Tensor, b: Tensor, *, upper: bool) -> Tensor:
    """Flip lower triangles: an upper triangle is its own LU decomposition."""
    a = _triangle(a, upper)
    if upper:
        return run(SOLVE, a, b)
    y = run(SOLVE, shape.flip(a, axis=(-2, -1)), shape.flip(b, axis=-2))
    return shape.flip(y, axis=-2)


def _triangle(x: Tensor, upper: bool) -> Tensor:
    return band(x, 0, -1) if upper else band(x, -1, 0)


def _solve_adjoint(dy: Tensor, a: Tensor, upper: bool) -> Tensor:
    return run(TRIANGULAR_SOLVE, adjoint(a), dy, upper=not upper)


gradients(
    TRIANGULAR_SOLVE,
    a=lambda dy, a, y, upper: _triangle(
        -times_adjoint(_solve_adjoint(dy, a, upper), y), upper
    ),
    b=_solve_adjoint,
)


INVERSE = Kernel(
    f"Inverse(x: {LAPACK})",
    out=partial(check_matrices, "inv"),
    checks="x",
    op="linalg.inv",
    doc="""The inverse of each matrix, by LU decomposition with partial pivoting.

    If a finite matrix has a pivot of 0, it is singular, and a ValueError is raised.""",
)


def inv(x: TensorLike, /) -> Tensor:
    """Return the inverse of each matrix.

    It is computed by LU decomposition with partial pivoting. ``solve(a, b)`` is faster
    and more accurate than ``inv(a) @ b``.

    Args:
        x: ``[..., n, n]``.

    Returns:
        A tensor with the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        ValueError: A matrix is singular or not square.
        TypeError: ``x`` is float16 or contains strings.

    Example:
        >>> pg.linalg.inv([[2.0, 0.0], [0.0, 4.0]])
        Tensor([[0.5 , 0.  ],
                [0.  , 0.25]], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    return run(INVERSE, matrices("inv", x))


def identity_like(x: Tensor) -> Tensor:
    """Return an identity matrix for each matrix of ``x``."""
    return run(shape.BROADCAST_TO, grids.eye(x.shape[-1], dtype=x.dtype), shape=x.shape)


decomposition(INVERSE, lambda x: run(SOLVE, x, identity_like(x)))
gradients(INVERSE, x=lambda dy, y: -adjoint_times(y, times_adjoint(dy, y)))
