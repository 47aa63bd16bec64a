"""The namespace ``plugrad.linalg``; matrix powers, norms and condition numbers.

No kernels. ``products``, ``matrix``, ``matrix_factors``, ``matrix_functions``,
``eigenvalues`` and ``determinants`` define the other ops of the namespace.

Contents: the public names; powers; norms; the condition number.
"""

from __future__ import annotations

import math
from typing import Literal, Unpack

from plugrad import geometry
from plugrad._src.engine.dispatch import run
from plugrad._src.engine.tape import alias
from plugrad._src.ops.basis import (
    _convert,
    compare,
    creation,
    logic,
    reduce,
    shape,
    unary,
)
from plugrad._src.tensor.arguments import Axis, flag, integer, misfit, real
from plugrad._src.tensor.dtypes import dtype_kind, floating_info
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import Shape

from . import matrix, matrix_factors, products
from .determinants import det, slogdet
from .eigenvalues import eig, eigvals
from .matrix import band_part, inv, solve, triangular_solve
from .matrix_factors import (
    cholesky,
    eigh,
    eigvalsh,
    gram_schmidt,
    lstsq,
    matrix_rank,
    pinv,
    qr,
    svd,
    svdvals,
)
from .matrix_functions import lu, matrix_exp, multi_dot
from .products import cross, diagonal, kron, outer, trace

__all__ = ["band_part", "cholesky", "cond", "cross", "det", "diagonal", "eig"]
__all__ += ["eigh", "eigvals", "eigvalsh", "gram_schmidt", "inv", "kron", "lstsq"]
__all__ += ["lu", "matrix_exp", "multi_dot"]
__all__ += [
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
]
__all__ += ["svd", "svdvals", "trace", "triangular_solve", "vector_norm"]

# Public at the top level; the array API standard also requires them in linalg.
matmul, matrix_transpose = products.matmul, products.matrix_transpose
tensordot, vecdot = products.tensordot, products.vecdot

# --- powers ----------------------------------------------------------------------


def matrix_power(x: TensorLike, n: int, /) -> Tensor:
    """Return the ``n``-th power of each matrix; a negative ``n`` inverts the matrix.

    ``n = 0`` gives the identity matrix. Integers wrap.

    Args:
        x: ``[..., m, m]``.
        n: The exponent.

    Returns:
        A tensor with the shape and dtype of ``x``. bool becomes int32; integers become
        float32 if ``n`` is negative.

    Raises:
        ValueError: The matrices are not square, or one is singular and ``n`` is
            negative.
        TypeError: ``n`` is not an integer, ``x`` contains strings, or it is float16 and
            ``n`` is negative.

    Example:
        >>> pg.linalg.matrix_power([[1, 1], [1, 0]], 5)
        Tensor([[8, 5],
                [5, 3]], dtype=int32, backend='cpu')

    Source:
        The array API standard.

    """
    x = products.as_matrices("matrix_power", x)
    n = integer("matrix_power", "n", n)
    x, _ = products.factors("matrix_power", x, x)
    if n < 0 or x.shape[-1] != x.shape[-2]:  # matrices() raises if x is not square
        x = run(matrix.INVERSE, matrix.matrices("matrix_power", x))
        n = -n
    if n == 0:
        return matrix.identity_like(x)
    y = creation.identity(x)
    for bit in f"{n:b}"[1:]:
        y = matmul(y, y)
        y = matmul(y, x) if bit == "1" else y
    return y


# --- norms -----------------------------------------------------------------------


def vector_norm(
    x: TensorLike,
    /,
    *,
    axis: Axis = None,
    keepdims: bool = False,
    ord: float = 2,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the norm ``(Σ |x|^ord)^(1/ord)`` over one or more axes.

    Intermediate powers neither overflow nor underflow. The derivative is 0 where all
    elements are 0.

    Args:
        x: A tensor of numbers or bool.
        axis: The axes: an int, a sequence of ints, or None for all.
        keepdims: Whether to keep the reduced axes, with size 1.
        ord: The order. inf gives the largest ``|x|``, -inf the smallest, and 0 the
            number of elements that are not 0. The norm of no elements is 0, or inf for
            a negative order.

    Returns:
        A real tensor with the dtype of ``x``, or of its parts if it is complex; float32
        for integers and bool.

    Raises:
        ValueError: ``ord`` is NaN, ``ord`` is -inf and there are no elements, or an
            axis is out of range.
        TypeError: ``x`` contains strings, or ``ord`` is not a real number.

    Example:
        >>> pg.linalg.vector_norm([[3.0, 4.0], [6.0, 8.0]], axis=1)
        Tensor([ 5., 10.], dtype=float32, backend='cpu')
        >>> pg.linalg.vector_norm([3.0, -4.0], ord=1).item()
        7.0

    Source:
        The array API standard.

    """
    if unknown:
        raise unexpected(vector_norm, unknown)
    x = _convert.floating("vector_norm", x)
    ord = real("vector_norm", "ord", ord)
    if ord != ord:
        raise ValueError("vector_norm: ord must be a number or infinite, got nan")
    keepdims = flag("vector_norm", "keepdims", keepdims)
    axes = geometry.axes("vector_norm", axis, len(x.shape))
    wide = reduce.widened(x)
    largest = float(floating_info(wide.dtype).max)
    if abs(ord) > largest:
        ord = math.copysign(math.inf, ord)
    sizes = unary.abs(wide)
    if ord == 0:
        y = logic.count_nonzero(wide, axis=axes, keepdims=keepdims)
    elif ord == -math.inf:
        y = reduce.min(sizes, axis=axes, keepdims=keepdims)
    elif ord == 1 or not math.prod([x.shape[i] for i in axes]):
        y = run(reduce.SUM, sizes, axis=axes, keepdims=keepdims)
        y = y + math.inf if ord < 0 else y
    elif ord == math.inf:
        y = run(reduce.MAX, sizes, axis=axes, keepdims=keepdims)
    else:
        y = _p_norm(wide, sizes, axes, keepdims, ord)
    return creation.cast(y, matrix.magnitude_dtype(x.dtype))


def _p_norm(x: Tensor, sizes: Tensor, axes: Shape, keep: bool, ord: float) -> Tensor:
    """Return the norm, dividing by the largest element first to avoid overflow.

    The divisor is treated as a constant, because the norm is homogeneous.
    """
    top = alias(run(reduce.MAX, sizes, axis=axes, keepdims=True))
    top = compare.where((top > 0) & unary.isfinite(top), top, 1.0)
    # For even powers use x, not |x|: then the second derivative at 0 is correct.
    parts = (x if ord % 2 == 0 and dtype_kind(x.dtype) == "f" else sizes) / top
    if ord == 2:
        y = reduce.root(run(reduce.SUM, unary.square(parts), axis=axes, keepdims=keep))
    else:
        powers = _power(parts, ord) if ord < 1 else parts**ord
        largest = float(floating_info(parts.dtype).max)
        root = max(-largest, min(1 / ord, largest))
        y = _power(run(reduce.SUM, powers, axis=axes, keepdims=keep), root)
    return y * run(shape.RESHAPE, top, shape=y.shape)


def _power(x: Tensor, n: float) -> Tensor:
    """Return ``x^n``, with a derivative of 0 at 0 for the norm of zeros."""
    zero = compare.equal(x, 0)
    y = compare.where(zero, 1.0, x) ** n
    return compare.where(zero, 0.0 if n > 0 else math.inf, y)


Order = float | Literal["fro", "nuc"]


def matrix_norm(
    x: TensorLike,
    /,
    *,
    keepdims: bool = False,
    ord: Order = "fro",
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the norm of each matrix.

    Args:
        x: ``[..., m, n]``.
        keepdims: Whether to keep the last two axes, with size 1.
        ord: "fro" gives ``√Σ |x|²``. 1 gives the largest sum of ``|x|`` along a column,
            and -1 the smallest; inf and -inf are the same for rows. 2 gives the largest
            singular value, -2 the smallest, and "nuc" their sum. The norm of an empty
            matrix is 0.

    Returns:
        A real tensor ``[...]`` with the dtype of ``x``, or of its parts if it is
        complex; float32 for integers and bool.

    Raises:
        ValueError: ``ord`` is unknown, ``x`` has fewer than two axes, or there is no
            smallest value because a matrix is empty.
        TypeError: ``x`` contains strings, or is float16 and ``ord`` needs singular
            values.

    Example:
        >>> x = [[3.0, 0.0], [4.0, 0.0]]
        >>> pg.linalg.matrix_norm(x).item(), pg.linalg.matrix_norm(x, ord=1).item()
        (5.0, 7.0)

    Source:
        The array API standard.

    """
    if unknown:
        raise unexpected(matrix_norm, unknown)
    x = products.as_matrices("matrix_norm", _convert.floating("matrix_norm", x))
    ord = ord if isinstance(ord, str) else real("matrix_norm", "ord", ord)
    if ord == "fro":
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord in (2, -2, "nuc"):
        parts = svdvals(matrix.matrices("matrix_norm", x, square=False))
    elif ord in (1, -1, math.inf, -math.inf):
        parts = abs(x).sum(axis=-2 if abs(ord) == 1 else -1)
    else:
        raise ValueError(f"matrix_norm: ord {ord!r}: use 'fro', 'nuc', ±1, ±2 or ±inf")
    pick = Tensor.sum if ord == "nuc" else Tensor.max if ord > 0 else Tensor.min
    if not parts.shape[-1]:
        if pick is Tensor.min:
            rule = f"ord {ord}: an empty matrix has no smallest value"
            raise misfit("matrix_norm", rule, x)
        pick = Tensor.sum
    y = pick(parts, axis=-1)
    keep = flag("matrix_norm", "keepdims", keepdims)
    return matrix.column(matrix.column(y)) if keep else y


# --- the condition number --------------------------------------------------------


def cond(x: TensorLike, /, *, ord: Order = 2) -> Tensor:
    """Return the condition number of each matrix: its norm times that of its inverse.

    With ``ord=2`` it is the largest singular value divided by the smallest, and with -2
    the reciprocal of that. These two orders also accept singular and non-square
    matrices. The result for a singular matrix is inf with ``ord=2``, or at least about
    1 / epsilon if rounding leaves a small singular value.

    Args:
        x: ``[..., m, n]``; square unless ``ord`` is 2 or -2.
        ord: The norm, as in ``matrix_norm``.

    Returns:
        A real tensor ``[...]``.

    Raises:
        ValueError: A matrix is singular and ``ord`` is not 2 or -2, the matrices are
            empty, or ``ord`` is unknown.
        TypeError: ``x`` is float16 or contains strings.

    Example:
        >>> pg.linalg.cond([[4.0, 0.0], [0.0, 0.5]], ord=1).item()
        8.0

    Source:
        The semantics are those of ``numpy.linalg.cond``, except for singular matrices.

    """
    ord = ord if isinstance(ord, str) else real("cond", "ord", ord)
    x = matrix.matrices("cond", x, square=ord not in (2, -2))
    if not math.prod(x.shape[-2:]):
        raise misfit("cond", "an empty matrix has no condition number", x)
    if ord not in (2, -2):
        return matrix_norm(x, ord=ord) * matrix_norm(inv(x), ord=ord)
    s = run(matrix_factors.SVDVALS, x)
    first = s[..., 0]
    last = s[..., -1]
    if ord == -2:
        return last / first
    return compare.where(compare.equal(last, 0), float("inf"), first / last)
