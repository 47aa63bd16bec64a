"""Linear algebra: decompositions, solutions of equations, and norms of matrices.

Matrices of float16 or bfloat16 are computed in float32, and the results rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import plugrad as pg
from plugrad import Tensor

from keras_plugrad.src.keras_names import canonicalize_axis, tree

from .core.variables import convert_to_tensor, floating

HALVES = ("float16", "bfloat16")
MATRIX_ORDERS = (None, "fro", "nuc", math.inf, -math.inf, 1, -1, 2, -2)


def _wide(x: Any) -> tuple[Tensor, str]:
    """Return ``x`` in a dtype that decompositions accept, and the result's dtype."""
    x = floating(x)
    dtype: str = x.dtype.name
    return (pg.astype(x, "float32") if dtype in HALVES else x), dtype


def _narrow(x: Tensor, dtype: str) -> Tensor:
    """Return a result of a computation in float32 in the dtype of its arguments."""
    return pg.astype(x, dtype) if dtype in HALVES else x


def _pair(a: Any, b: Any) -> tuple[Tensor, Tensor, str]:
    """Return two arguments in a dtype for decompositions, and the result's dtype."""
    a, b = floating(a), floating(b)
    dtype: str = pg.result_type(a, b).name
    return _wide(a)[0], _wide(b)[0], dtype


def _computed(op: Callable[..., Tensor], x: Any, **options: Any) -> Tensor:
    """Return the result of an op on one argument."""
    x, dtype = _wide(x)
    return _narrow(op(x, **options), dtype)


def cholesky(a: Any, upper: bool = False) -> Tensor:
    """Return the triangular factor of positive definite matrices."""
    return _computed(pg.linalg.cholesky, a, upper=bool(upper))


def cholesky_inverse(a: Any, upper: bool = False) -> Tensor:
    """Return the inverses of matrices whose triangular factors are given."""
    factor, dtype = _wide(a)
    identity = pg.eye(factor.shape[-1], dtype=factor.dtype)
    root = pg.linalg.triangular_solve(factor, identity, upper=bool(upper))
    adjoint = pg.conj(pg.matrix_transpose(root))
    y = pg.matmul(root, adjoint) if upper else pg.matmul(adjoint, root)
    return _narrow(y, dtype)


def det(a: Any) -> Tensor:
    """Return the determinants of matrices."""
    return _computed(pg.linalg.det, a)


def eig(x: Any) -> tuple[Tensor, Tensor]:
    """Return the complex eigenvalues and eigenvectors of square matrices."""
    w, v = pg.linalg.eig(_wide(x)[0])
    return w, v


def eigh(x: Any) -> tuple[Tensor, Tensor]:
    """Return the eigenvalues and eigenvectors of Hermitian matrices."""
    x, dtype = _wide(x)
    w, v = pg.linalg.eigh(x)
    return _narrow(w, dtype), _narrow(v, dtype)


def inv(a: Any) -> Tensor:
    """Return the inverses of matrices."""
    return _computed(pg.linalg.inv, a)


def lu_factor(x: Any) -> tuple[Tensor, Tensor]:
    """Return the two triangular factors of matrices in one, and the pivots.

    The upper triangle is the factor ``U``; below the diagonal is ``L``, whose diagonal
    consists of ones. Row ``i`` was swapped with row ``pivots[i]``, for ``i`` from 0.
    """
    x, dtype = _wide(x)
    p, lower, upper = pg.linalg.lu(x)
    rows, columns = x.shape[-2:]
    size = min(rows, columns)
    below = _padded(pg.tril(lower, k=-1), columns - size, axis=-1)
    above = _padded(pg.triu(upper), rows - size, axis=-2)
    return _narrow(below + above, dtype), _pivots(p, size)


def _padded(x: Tensor, count: int, axis: int) -> Tensor:
    """Return ``x`` with zeros added at the end of an axis."""
    margins = [(0, 0)] * len(x.shape)
    margins[axis] = (0, count)
    return pg.pad(x, margins) if count else x


def _pivots(p: Tensor, count: int) -> Tensor:
    """Return the swaps of rows of which a permutation matrix consists.

    ``p`` maps the swapped rows back. Each step finds the place of the row that belongs
    to place ``i``, and swaps the two.
    """
    rows = p.shape[-1]
    wanted = pg.astype(pg.argmax(pg.real(p), axis=-2), "int32")
    places = pg.arange(rows, dtype="int32")
    order = pg.broadcast_to(places, wanted.shape)
    pivots = []
    for i in range(count):
        row = wanted[..., i : i + 1]
        here = order[..., i : i + 1]
        is_wanted = order == row
        pivots.append(pg.sum(pg.where(is_wanted, places, 0), axis=-1))
        order = pg.where(is_wanted, here, pg.where(places == i, row, order))
    if not pivots:
        return pg.zeros((*p.shape[:-2], 0), dtype="int32")
    return pg.astype(pg.stack(pivots, axis=-1), "int32")


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return norms of vectors or matrices, as ``numpy.linalg.norm`` does."""
    x, dtype = _wide(x)
    keep = bool(keepdims)
    ndim = len(x.shape)
    if axis is None and (ord is None or (ndim == 2 and ord == "fro")):
        return _narrow(pg.linalg.vector_norm(x, keepdims=keep), dtype)
    axes = tuple(range(ndim)) if axis is None else axis
    given = axes if isinstance(axes, list | tuple) else (axes,)
    axes = [canonicalize_axis(int(one), ndim) for one in given]
    if len(axes) == 1:
        y = _vector_norm(x, ord, axes[0], keep)
    elif len(axes) == 2:
        y = _matrix_norm(x, ord, axes, keep)
    else:
        raise ValueError(
            "norm: vectors have one axis and matrices have two; pass `axis` or leave "
            f"out `ord`. Received: x.shape={x.shape}, axis={axis}, ord={ord}"
        )
    return _narrow(y, dtype)


def _vector_norm(x: Tensor, order: Any, axis: int, keepdims: bool) -> Tensor:
    """Return the norms of vectors along an axis."""
    if isinstance(order, str):
        raise ValueError(
            "norm: `ord` of vectors must be a number or None; for matrices, pass two "
            f"axes. Received: ord={order!r}, axis={axis}"
        )
    order = 2 if order is None else float(order)
    return pg.linalg.vector_norm(x, axis=axis, keepdims=keepdims, ord=order)


def _matrix_norm(x: Tensor, order: Any, axes: list[int], keepdims: bool) -> Tensor:
    """Return the norms of matrices in two axes."""
    if order not in MATRIX_ORDERS:
        raise ValueError(
            f"norm: `ord` of matrices must be one of {MATRIX_ORDERS}. "
            f"Received: ord={order!r}"
        )
    if axes[0] == axes[1]:
        raise ValueError(f"norm: the two axes must differ. Received: axis={axes}")
    if order in (None, "fro"):
        return pg.linalg.vector_norm(x, axis=axes, keepdims=keepdims)
    y = pg.linalg.matrix_norm(pg.moveaxis(x, axes, (-2, -1)), ord=order)
    return pg.expand_dims(y, axis=sorted(axes)) if keepdims else y


def qr(x: Any, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """Return factors of matrices: orthonormal columns, and an upper triangle."""
    if mode not in ("reduced", "complete"):
        raise ValueError(
            "`mode` argument value not supported. Expected one of {'reduced', "
            f"'complete'}}. Received: mode={mode}"
        )
    x, dtype = _wide(x)
    q, r = pg.linalg.qr(x, mode=mode)  # type: ignore[arg-type]  # checked above
    return _narrow(q, dtype), _narrow(r, dtype)


def solve(a: Any, b: Any) -> Tensor:
    """Return ``y`` with ``a @ y = b``; ``b`` has as many axes as ``a``, or one less."""
    return _solved(pg.linalg.solve, a, b)


def solve_triangular(a: Any, b: Any, lower: bool = False) -> Tensor:
    """Return ``y`` with ``a @ y = b`` for triangular matrices ``a``."""
    return _solved(pg.linalg.triangular_solve, a, b, upper=not lower)


def _solved(op: Callable[..., Tensor], a: Any, b: Any, **options: Any) -> Tensor:
    """Return the solutions, where ``b`` may consist of one vector for each matrix."""
    a, b, dtype = _pair(a, b)
    is_vector = len(b.shape) == len(a.shape) - 1
    y = op(a, pg.expand_dims(b, axis=-1) if is_vector else b, **options)
    return _narrow(pg.squeeze(y, axis=-1) if is_vector else y, dtype)


def svd(x: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """Return the singular value decomposition, or only the singular values."""
    x, dtype = _wide(x)
    if not compute_uv:
        return _narrow(pg.linalg.svdvals(x), dtype)
    parts = pg.linalg.svd(x, full_matrices=bool(full_matrices))
    return tuple([_narrow(part, dtype) for part in parts])


def lstsq(a: Any, b: Any, rcond: Any = None) -> Tensor:
    """Return the shortest ``y`` that minimizes the length of ``a @ y - b``."""
    a, b, dtype = _pair(a, b)
    return _narrow(pg.linalg.lstsq(a, b, rtol=rcond), dtype)


def matrix_rank(x: Any, tol: Any = None) -> Tensor:
    """Return the number of singular values that exceed ``tol``."""
    x, _ = _wide(x)
    if tol is None:
        return pg.linalg.matrix_rank(x)
    values = pg.linalg.svdvals(x)
    least = convert_to_tensor(tol, dtype=values.dtype)
    is_large = values > pg.expand_dims(least, axis=-1)
    return pg.sum(pg.astype(is_large, "int32"), axis=-1)


def matrix_power(a: Any, n: int) -> Tensor:
    """Return powers of square matrices; a negative exponent inverts them."""
    x = convert_to_tensor(a)
    if x.dtype.name not in HALVES:
        return pg.linalg.matrix_power(x, n)
    return _computed(lambda x: pg.linalg.matrix_power(x, n), x)


def pinv(x: Any, rcond: Any = None) -> Tensor:
    """Return the pseudo-inverses of matrices."""
    return _computed(pg.linalg.pinv, x, rtol=rcond)


def jvp(
    fun: Callable[..., Any], primals: Any, tangents: Any, has_aux: bool = False
) -> Any:
    """Return ``fun(*primals)`` and its derivative along ``tangents``.

    With ``has_aux``, ``fun`` returns its value and further results, which come third.
    """
    further: list[Any] = []

    def value(*args: Any) -> Any:
        y = fun(*args)
        if not has_aux:
            return y
        y, aux = y
        further.append(aux)
        return y

    xs = tree.map_structure(convert_to_tensor, list(primals))
    vs = tree.map_structure(convert_to_tensor, list(tangents))
    y, dy = pg.jvp(value, xs, vs)
    if not has_aux:
        return y, dy
    return y, dy, tree.map_structure(_detached, further[-1])


def _detached(x: Any) -> Any:
    """Return a result without the derivatives that were computed with it."""
    return pg.stop_gradient(x) if isinstance(x, Tensor) else x
