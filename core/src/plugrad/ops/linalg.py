"""What is public as ``plugrad.linalg``; powers, norms and conditions. No kernels.

``products``, ``matrix``, ``matrix_factors`` and ``determinants`` define the rest of it.

Map: what is public here; powers; norms; the condition.
"""

from __future__ import annotations

import math
from typing import Literal

from plugrad import geometry
from plugrad.engine.dispatch import run
from plugrad.engine.tape import alias
from plugrad.geometry import Shape
from plugrad.tensor.arguments import Axis, flag, integer, real
from plugrad.tensor.tensor import Tensor, TensorLike

from . import (
    _convert,
    compare,
    creation,
    matrix,
    matrix_factors,
    products,
    reduce,
    shape,
    unary,
)
from .determinants import det, slogdet
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
from .products import cross, diagonal, kron, outer, trace

__all__ = ["band_part", "cholesky", "cond", "cross", "det", "diagonal", "eigh"]
__all__ += ["eigvalsh", "gram_schmidt", "inv", "kron", "lstsq", "matrix_norm"]
__all__ += ["matrix_power", "matrix_rank", "outer", "pinv", "qr", "slogdet", "solve"]
__all__ += ["svd", "svdvals", "trace", "triangular_solve", "vector_norm"]

# Public at the top level, and known by these names too, as in the array API standard.
matmul, matrix_transpose = products.matmul, products.matrix_transpose
tensordot, vecdot = products.tensordot, products.vecdot

# --- powers ----------------------------------------------------------------------


def matrix_power(x: TensorLike, n: int, /) -> Tensor:
    """Return the product of ``n`` times the matrix ``x``; of its inverse if ``n < 0``.

    Integers stay integers where ``n`` is not negative, and wrap; bool gives int32.
    ``n = 0`` gives ones on the diagonal.
    """
    x, n = products.as_matrices("matrix_power", x), integer("matrix_power", "n", n)
    x, _ = products.factors("matrix_power", x, x)
    if n < 0 or x.shape[-1] != x.shape[-2]:  # which is refused
        x, n = run(matrix.INVERSE, matrix.matrices("matrix_power", x)), -n
    if n == 0:
        return matrix.one(x)
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
) -> Tensor:
    """Return ``(Σ |x|^ord)^(1/ord)`` over ``axis``, without overflow on the way.

    ``ord`` may be inf (the largest ``|x|``), -inf (the smallest) and 0 (how many are
    not 0, as a floating number); NaN is a ValueError, and so is the smallest of none.
    The result is real. Where all elements are 0 the gradient is 0.
    """
    x, ord = _convert.floating("vector_norm", x), real("vector_norm", "ord", ord)
    if ord != ord:
        raise ValueError("vector_norm: ord must be a number or infinite, got nan")
    keepdims = flag("vector_norm", "keepdims", keepdims)
    axes = geometry.axes("vector_norm", axis, len(x.shape))
    wide = reduce.widened(x)
    sizes = unary.abs(wide)
    if ord == 0:
        y = reduce.count_nonzero(wide, axis=axes, keepdims=keepdims)
    elif ord == -math.inf:
        y = reduce.min(sizes, axis=axes, keepdims=keepdims)
    elif ord == 1 or not math.prod([x.shape[i] for i in axes]):
        y = run(reduce.SUM, sizes, axis=axes, keepdims=keepdims)
    elif ord == math.inf:
        y = run(reduce.MAX, sizes, axis=axes, keepdims=keepdims)
    else:
        y = _p_norm(wide, sizes, axes, keepdims, ord)
    return creation.cast(y, matrix.magnitude(x.dtype))


def _p_norm(x: Tensor, sizes: Tensor, axes: Shape, keep: bool, ord: float) -> Tensor:
    """Divide by the largest first; it is a constant, as the norm is homogeneous."""
    top = alias(run(reduce.MAX, sizes, axis=axes, keepdims=True))
    top = compare.where((top > 0) & unary.isfinite(top), top, 1.0)
    # a power of x and not of |x| where it is the same: its second derivative at 0 is
    parts = (x if ord % 2 == 0 and x.dtype.kind == "f" else sizes) / top
    if ord == 2:
        y = reduce.root(run(reduce.SUM, unary.square(parts), axis=axes, keepdims=keep))
    else:
        powers = _power(parts, ord) if ord < 1 else parts**ord
        y = _power(run(reduce.SUM, powers, axis=axes, keepdims=keep), 1 / ord)
    return y * run(shape.RESHAPE, top, shape=y.shape)


def _power(x: Tensor, n: float) -> Tensor:
    """Return ``x^n``, whose derivative at 0 is 0: that of a norm in its tip."""
    zero = compare.equal(x, 0)
    y = compare.where(zero, 1.0, x) ** n
    return compare.where(zero, 0.0 if n > 0 else math.inf, y)


Order = float | Literal["fro", "nuc"]


def matrix_norm(
    x: TensorLike, /, *, keepdims: bool = False, ord: Order = "fro"
) -> Tensor:
    """Return the norm of each matrix (the last two axes).

    ``"fro"`` is ``√Σ |x|²``, 1 the largest sum of a column and -1 the smallest, inf and
    -inf the same of rows; 2 is the largest singular value, -2 the smallest, and
    ``"nuc"`` their sum. The result is real. An unknown ``ord`` is a ValueError, as is
    the largest or smallest of none; float16 is refused where singular values are asked.
    """
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
    y, keep = pick(parts, axis=-1), flag("matrix_norm", "keepdims", keepdims)
    return matrix.column(matrix.column(y)) if keep else y


# --- the condition ---------------------------------------------------------------


def cond(x: TensorLike, /, *, ord: Order = 2) -> Tensor:
    """Return the condition of each matrix: its norm times that of its inverse.

    ``ord`` is one of ``matrix_norm``. With 2, the largest singular value divided by the
    smallest, and -2, its inverse, matrices may be singular and not square: with 2 that
    gives inf, or some 1 / epsilon and more where rounding leaves one. With any other a
    singular matrix is a ValueError.
    """
    ord = ord if isinstance(ord, str) else real("cond", "ord", ord)
    if ord not in (2, -2):
        x = matrix.matrices("cond", x)
        return matrix_norm(x, ord=ord) * matrix_norm(inv(x), ord=ord)
    s = run(matrix_factors.SVDVALS, matrix.matrices("cond", x, square=False))
    if not s.shape[-1]:
        raise ValueError("cond: an empty matrix has no singular values")
    first, last = s[..., 0], s[..., -1]
    if ord == -2:
        return last / first
    return compare.where(compare.equal(last, 0), float("inf"), first / last)
