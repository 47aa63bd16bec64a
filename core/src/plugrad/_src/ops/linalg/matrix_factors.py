"""Matrix decompositions and their applications; public in ``linalg``.

Kernels: ``Cholesky Eigh Eigvalsh Pinv Qr Svd Svdvals``. ``Cholesky Eigh Qr Svd`` use
LAPACK and have no decomposition into ops: a backend without these kernels falls back to
its host.

Eigenvalues and singular values have gradients, even where some are equal. The vectors
that belong to equal values do not, because any rotation of them is also valid: their
gradient is inf or NaN. The vectors of a complex matrix have an arbitrary phase; a
function that is to be differentiated must not depend on it.

Contents: Cholesky and QR; eigenvalues; singular values; rank, pseudo-inverse and least
squares.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from plugrad._src.engine.context import current, tapes
from plugrad._src.engine.dispatch import run, run_many
from plugrad._src.engine.tape import tapes_tracking
from plugrad._src.ops.array import grids, slicing
from plugrad._src.ops.basis import _convert, compare, creation, logic, shape
from plugrad._src.registry.contract import Kernel, Spec, decomposition, gradients
from plugrad._src.tensor.arguments import choice, finite, flag, misfit
from plugrad._src.tensor.dtypes import dtype_kind
from plugrad._src.tensor.tensor import Tensor, TensorLike

from . import matrix, products

if TYPE_CHECKING:
    from ._results import EighResult, QRResult, SVDResult


def _skew(x: Tensor) -> Tensor:
    return x - matrix.adjoint(x)


def unused(*dys: Tensor) -> bool:
    """Return whether all cotangents are constant zeros, as for unused outputs."""
    level = current().level
    if level is not None and any(level.unwrap(dy)[1] for dy in dys):
        return False  # under vmap, each example has its own cotangents
    tracked = tapes_tracking(tapes(), dys)[1]
    return not tracked and not any(dy._values().any() for dy in dys)


def _hermitian(x: Tensor) -> Tensor:
    """Return the Hermitian matrix with the lower triangle of ``x``."""
    low = matrix.band(x, -1, 0)
    both = low + matrix.adjoint(low)
    return both - matrix.band(both, 0, 0) * 0.5


def _split_first(x: Tensor, axis: int, size: int) -> tuple[Tensor, list[Tensor]]:
    """Return the first ``size`` rows or columns, and a list with the rest, if any."""
    if x.shape[axis] == size:
        return x, []
    rest = slicing.along(x, axis, size, x.shape[axis] - size)
    return slicing.along(x, axis, 0, size), [rest]


def _check_unused(
    op: str, what: str, k: int, hint: str, dys: list[Tensor], *xs: Any
) -> None:
    """Raise if ``dys``, the cotangents of vectors after the first ``k``, are not 0.

    ``what`` names these vectors in the message, which shows the shapes of ``xs``.
    """
    if not unused(*dys):
        rule = f"{what} beyond the first {k} are arbitrary and have no derivative"
        raise misfit(op, f"{rule}; use {hint}", *xs)


# --- Cholesky and QR -------------------------------------------------------------

CHOLESKY = Kernel(
    f"Cholesky(x: {matrix.LAPACK})",
    out=partial(matrix.check_matrices, "cholesky"),
    checks="x",
    op="linalg.cholesky",
    doc="""The lower triangular ``y`` with ``y·yᴴ = x`` and a positive diagonal.

    Only the lower triangle of ``x`` is read. A matrix that is not positive definite
    raises a ValueError.""",
)


def cholesky(x: TensorLike, /, *, upper: bool = False) -> Tensor:
    """Return the lower triangular ``l`` with ``l·lᴴ = x``, or ``lᴴ`` if ``upper``.

    ``x`` is treated as Hermitian: only its lower triangle is read, and the gradient is
    Hermitian. The diagonal of the result is positive.

    Args:
        x: ``[..., n, n]``.
        upper: Whether to return the upper triangular factor.

    Returns:
        A tensor of the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        ValueError: A matrix is not positive definite, or not square.
        TypeError: ``x`` is float16 or contains strings.

    Example:
        >>> pg.linalg.cholesky([[4.0, 2.0], [2.0, 5.0]])
        Tensor([[2., 0.],
                [1., 2.]], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    y = run(CHOLESKY, matrix.matrices("cholesky", x))
    return matrix.adjoint(y) if flag("cholesky", "upper", upper) else y


def _cholesky_gradient(dy: Tensor, y: Tensor) -> Tensor:
    """Return ``l⁻ᴴ·s·l⁻¹ / 2``, where ``s`` mirrors the lower triangle of ``lᴴ·dl``."""
    right = matrix.adjoint(y)
    half = _hermitian(matrix.adjoint_times(y, dy)) * 0.5
    left = run(matrix.TRIANGULAR_SOLVE, right, half, upper=True)
    return run(matrix.TRIANGULAR_SOLVE, right, matrix.adjoint(left), upper=True)


gradients(CHOLESKY, x=_cholesky_gradient)


def _qr_specs(x: Spec, *, mode: str) -> tuple[Spec, Spec]:
    *batch, m, n = matrix.check_matrices("qr", x, square=False).shape
    k = m if mode == "complete" else min(m, n)
    return Spec((*batch, m, k), x.dtype), Spec((*batch, k, n), x.dtype)


QR = Kernel(
    f"Qr(x: {matrix.LAPACK}; mode: 'reduced' | 'complete') -> q, r",
    out=_qr_specs,
    op="linalg.qr",
    doc="""``q`` and ``r`` with ``q·r = x``; the columns of ``q`` are orthonormal, and
    ``r`` is upper triangular.

    For ``x`` of shape ``[..., m, n]`` they are ``[..., m, k]`` and ``[..., k, n]``,
    where ``k = min(m, n)``, or ``k = m`` in mode "complete". The sign of a column is
    free. A matrix with NaN or an infinity gives NaN.""",
)


def qr(
    x: TensorLike, /, *, mode: Literal["reduced", "complete"] = "reduced"
) -> QRResult:
    """Return the QR decomposition ``q·r = x`` of each matrix.

    The columns of ``q`` are orthonormal, and ``r`` is upper triangular. Each column of
    ``q`` may have any sign or phase. There is a gradient if the first ``min(m, n)``
    columns of ``x`` are independent; the columns that mode "complete" adds have none. A
    matrix with NaN or an infinity gives NaN.

    Args:
        x: ``[..., m, n]``.
        mode: "reduced" or "complete".

    Returns:
        A named tuple of ``Q``, ``[..., m, k]``, and ``R``, ``[..., k, n]``, of the
        dtype of ``x``; float32 for integers and bool. ``k`` is ``min(m, n)``, or m in
        mode "complete".

    Raises:
        ValueError: ``x`` has fewer than two axes, or ``mode`` is unknown.
        TypeError: ``x`` is float16 or contains strings.

    Example:
        >>> q, r = pg.linalg.qr([[3.0, 1.0], [4.0, 2.0]])
        >>> pg.matmul(q, r)
        Tensor([[3., 1.],
                [4., 2.]], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    choice("qr", "mode", mode, "reduced", "complete")
    from ._results import QRResult

    return QRResult(*run_many(QR, matrix.matrices("qr", x, square=False), mode=mode))


def _qr_gradient(dq: Tensor, dr: Tensor, x: Tensor, q: Tensor, r: Tensor) -> Tensor:
    m, n = x.shape[-2:]
    last = len(x.shape) - 1
    if q.shape[-1] > n:
        (dq, spare), (q, _) = (_split_first(t, last, n) for t in (dq, q))
        (dr, _), (r, _) = (_split_first(t, last - 1, n) for t in (dr, r))
        _check_unused("qr", "columns of Q", n, "mode='reduced'", spare, (m, m))
    if m >= n:
        return _tall_gradient(dq, dr, q, r)
    # The last n - m columns of r are qᴴ times those of x.
    rest = slicing.along(x, last, m, n - m)
    (dr, ds), (r, _) = (shape.split(t, [m, n - m], axis=-1) for t in (dr, r))
    first = _tall_gradient(dq + matrix.times_adjoint(rest, ds), dr, q, r)
    return shape.concat([first, matrix.product(q, ds)], axis=-1)


def _tall_gradient(dq: Tensor, dr: Tensor, q: Tensor, r: Tensor) -> Tensor:
    dq = dq + matrix.product(
        q, _hermitian(matrix.times_adjoint(r, dr) - matrix.adjoint_times(dq, q))
    )
    dx = run(matrix.TRIANGULAR_SOLVE, r, matrix.adjoint(dq), upper=True)
    return matrix.adjoint(dx)


gradients(QR, x=_qr_gradient)


def gram_schmidt(xs: TensorLike | Sequence[TensorLike], /) -> Tensor | list[Tensor]:
    """Return orthonormal vectors that span the same spaces as the given vectors.

    The first ``i`` results span the same space as the first ``i`` given vectors. Each
    result is the component of its vector that is orthogonal to all preceding vectors,
    scaled to length 1. The vectors must be independent.

    Args:
        xs: ``[..., m, n]`` with the vectors as rows, or a list of vectors. There must
            be at most as many vectors as each of them has elements.

    Returns:
        A tensor of the shape of ``xs``, or a list of vectors if ``xs`` is a list. The
        dtype is kept; integers and bool become float32.

    Raises:
        ValueError: There are more vectors than elements in each, or the shapes are
            incompatible.
        TypeError: ``xs`` is float16 or contains strings.

    Example:
        >>> pg.linalg.gram_schmidt(pg.asarray([[2.0, 0.0], [3.0, 5.0]]))
        Tensor([[1., 0.],
                [0., 1.]], dtype=float32, backend='cpu')

    Source:
        The semantics are those of ``tf.linalg.gramSchmidt`` in TensorFlow.js.

    """
    several = isinstance(xs, list | tuple)
    given: Any = shape.stack(xs) if isinstance(xs, list | tuple) else xs
    x = matrix.matrices("gram_schmidt", given, square=False)
    m, n = x.shape[-2:]
    if m > n:
        rule = f"{m} vectors of {n} elements are not independent; give at most {n}"
        raise misfit("gram_schmidt", rule, x)
    q, r = run_many(QR, products.matrix_transpose(x), mode="reduced")
    y = products.matrix_transpose(q * matrix.row(products.diagonal(r).sign()))
    return list(shape.unstack(y)) if several else y


# --- eigenvalues -----------------------------------------------------------------


def _values_spec(x: Spec) -> Spec:
    *batch, m, n = x.shape
    return Spec((*batch, min(m, n)), matrix.magnitude_dtype(x.dtype))


EIGH = Kernel(
    f"Eigh(x: {matrix.LAPACK}) -> w, v",
    out=lambda x: (_values_spec(matrix.check_matrices("eigh", x)), x),
    checks="x",
    op="linalg.eigh",
    doc="""The eigenvalues ``w`` of Hermitian matrices, real and ascending, and
    orthonormal eigenvectors as the columns of ``v``: ``x·v = v·diag(w)``.

    Only the lower triangle of ``x`` is read. A vector may have any sign or phase, and
    the vectors of equal values are arbitrary. A matrix with NaN or an infinity in its
    lower triangle gives NaN.""",
)


def eigh(x: TensorLike, /) -> EighResult:
    """Return the eigenvalues ``w`` and eigenvectors ``v`` of Hermitian matrices.

    ``x·v = v·diag(w)``. ``x`` is treated as Hermitian: only its lower triangle is read,
    and the gradient is Hermitian. An eigenvector may have any sign or phase; those of
    equal eigenvalues are not unique and have no gradient. A matrix with NaN or an
    infinity in its lower triangle gives NaN.

    Args:
        x: ``[..., n, n]``.

    Returns:
        A named tuple of ``eigenvalues``, ``[..., n]``, real and ascending, and
        ``eigenvectors``, ``[..., n, n]``, orthonormal columns of the dtype of ``x``;
        float32 for integers and bool.

    Raises:
        ValueError: The matrices are not square.
        TypeError: ``x`` is float16 or contains strings.

    Example:
        >>> w, v = pg.linalg.eigh([[2.0, 1.0], [1.0, 2.0]])
        >>> w
        Tensor([1., 3.], dtype=float32, backend='cpu')
        >>> pg.abs(v)
        Tensor([[0.7071, 0.7071],
                [0.7071, 0.7071]], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    from ._results import EighResult

    return EighResult(*run_many(EIGH, matrix.matrices("eigh", x)))


def _eigh_gradient(dw: Tensor, dv: Tensor, w: Tensor, v: Tensor) -> Tensor:
    dx = matrix.times_adjoint(v * matrix.row(dw), v)
    if unused(dv):
        return dx
    gaps = matrix.row(w) - matrix.column(w) + grids.eye(w.shape[-1], dtype=w.dtype)
    inner = _skew(matrix.adjoint_times(v, dv)) / (gaps * 2)
    return dx + matrix.times_adjoint(matrix.product(v, inner), v)


gradients(EIGH, x=_eigh_gradient)


EIGVALSH = Kernel(
    f"Eigvalsh(x: {matrix.LAPACK})",
    out=lambda x: _values_spec(matrix.check_matrices("eigvalsh", x)),
    checks="x",
    op="linalg.eigvalsh",
    doc="""The eigenvalues of Hermitian matrices, real and ascending.

    Only the lower triangle of ``x`` is read. A matrix with NaN or an infinity in
    that triangle gives NaN.""",
)


def eigvalsh(x: TensorLike, /) -> Tensor:
    """Return the eigenvalues of Hermitian matrices, real and ascending.

    Only the lower triangle of ``x`` is read. The gradient is also correct where
    eigenvalues are equal. A matrix with NaN or an infinity in that triangle gives NaN.

    Args:
        x: ``[..., n, n]``.

    Returns:
        A real tensor ``[..., n]``; float32 for integers and bool.

    Raises:
        ValueError: The matrices are not square.
        TypeError: ``x`` is float16 or contains strings.

    Example:
        >>> pg.linalg.eigvalsh([[2.0, 1.0], [1.0, 2.0]])
        Tensor([1., 3.], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    return run(EIGVALSH, matrix.matrices("eigvalsh", x))


# No gradient: the decomposition computes the vectors that it needs.
decomposition(EIGVALSH, lambda x: run_many(EIGH, x)[0])


# --- singular values -------------------------------------------------------------


def _svd_specs(x: Spec, *, full_matrices: bool) -> tuple[Spec, Spec, Spec]:
    *batch, m, n = matrix.check_matrices("svd", x, square=False).shape
    k = min(m, n)
    rows, columns = (m, n) if full_matrices else (k, k)
    u = Spec((*batch, m, rows), x.dtype)
    vh = Spec((*batch, columns, n), x.dtype)
    return u, _values_spec(x), vh


SVD = Kernel(
    f"Svd(x: {matrix.LAPACK}; full_matrices: bool) -> u, s, vh",
    out=_svd_specs,
    checks="x",
    op="linalg.svd",
    doc="""``u``, ``s`` and ``vh`` with ``u·diag(s)·vh = x``; ``s`` is real and
    descending, and the columns of ``u`` and the rows of ``vh`` are orthonormal.

    For ``x`` of shape ``[..., m, n]`` and ``k = min(m, n)``, they are ``[..., m, k]``,
    ``[..., k]`` and ``[..., k, n]``; ``full_matrices`` makes ``u`` and ``vh`` square. A
    pair of vectors may have any sign or phase. A matrix with NaN or an infinity gives
    NaN.""",
)


def svd(x: TensorLike, /, *, full_matrices: bool = True) -> SVDResult:
    """Return the singular value decomposition ``u·diag(s)·vh = x`` of each matrix.

    The columns of ``u`` and the rows of ``vh`` are orthonormal; each pair of singular
    vectors may have any sign or phase. The vectors that ``full_matrices`` adds are
    arbitrary and have no gradient; nor do the vectors of equal singular values. A
    matrix with NaN or an infinity gives NaN.

    Args:
        x: ``[..., m, n]``.
        full_matrices: Whether ``u`` and ``vh`` are square.

    Returns:
        A named tuple with ``k = min(m, n)``: ``U``, ``[..., m, k]``; ``S``,
        ``[..., k]``, real and descending; ``Vh``, ``[..., k, n]``. With
        ``full_matrices``, ``U`` is ``[..., m, m]`` and ``Vh`` is ``[..., n, n]``. ``U``
        and ``Vh`` have the dtype of ``x``; float32 for integers and bool.

    Raises:
        ValueError: ``x`` has fewer than two axes.
        TypeError: ``x`` is float16 or contains strings.

    Example:
        >>> u, s, vh = pg.linalg.svd([[3.0, 0.0], [0.0, -2.0]])
        >>> s
        Tensor([3., 2.], dtype=float32, backend='cpu')
        >>> pg.matmul(u * s, vh)
        Tensor([[ 3.,  0.],
                [ 0., -2.]], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    x = matrix.matrices("svd", x, square=False)
    full_matrices = flag("svd", "full_matrices", full_matrices)
    from ._results import SVDResult

    return SVDResult(*run_many(SVD, x, full_matrices=full_matrices))


def _svd_gradient(
    du: Tensor, ds: Tensor, dvh: Tensor, u: Tensor, s: Tensor, vh: Tensor
) -> Tensor:
    rank = len(u.shape)
    k = s.shape[-1]
    du, spare = _split_first(du, rank - 1, k)
    dvh, more = _split_first(dvh, rank - 2, k)
    _check_unused(
        "svd", "vectors of U and Vh", k, "full_matrices=False", spare + more, u, vh
    )
    u = _split_first(u, rank - 1, k)[0]
    vh = _split_first(vh, rank - 2, k)[0]
    dx = matrix.product(u * matrix.row(ds), vh)
    if unused(du, dvh):
        return dx
    across = matrix.row(s)
    down = matrix.column(s)
    one = grids.eye(k, dtype=s.dtype)
    left = _skew(matrix.adjoint_times(u, du))
    right = _skew(matrix.times_adjoint(vh, dvh))
    inner = (left * across + down * right) / ((across - down) * (across + down) + one)
    if dtype_kind(u.dtype) == "c":
        inner = inner + matrix.band(left, 0, 0) / (across * 2)
    outer = matrix.product(u, inner)
    if u.shape[-2] > k and not unused(du):  # otherwise 0/0 where s is 0
        rest = du / across
        outer = outer + (rest - matrix.product(u, matrix.adjoint_times(u, rest)))
    dx = dx + matrix.product(outer, vh)
    if vh.shape[-1] > k and not unused(dvh):
        rest = dvh / down
        rest = rest - matrix.product(matrix.times_adjoint(rest, vh), vh)
        dx = dx + matrix.product(u, rest)
    return dx


gradients(SVD, x=_svd_gradient)


SVDVALS = Kernel(
    f"Svdvals(x: {matrix.LAPACK})",
    out=lambda x: _values_spec(matrix.check_matrices("svdvals", x, square=False)),
    checks="x",
    op="linalg.svdvals",
    doc="""The singular values of each matrix, real and descending.

    A matrix with NaN or an infinity gives NaN.""",
)


def svdvals(x: TensorLike, /) -> Tensor:
    """Return the singular values of each matrix, real and descending.

    The gradient is also correct where singular values are equal. A matrix with NaN or
    an infinity gives NaN.

    Args:
        x: ``[..., m, n]``.

    Returns:
        A real tensor ``[..., min(m, n)]``; float32 for integers and bool.

    Raises:
        ValueError: ``x`` has fewer than two axes.
        TypeError: ``x`` is float16 or contains strings.

    Example:
        >>> pg.linalg.svdvals([[3.0, 0.0], [0.0, -2.0]])
        Tensor([3., 2.], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    return run(SVDVALS, matrix.matrices("svdvals", x, square=False))


# No gradient: the decomposition computes the vectors that it needs.
decomposition(SVDVALS, lambda x: run_many(SVD, x, full_matrices=False)[1])


# --- rank, pseudo-inverse, least squares -----------------------------------------


def _largest(s: Tensor) -> Tensor:
    """Return the first singular value of each matrix, if there is one."""
    return slicing.along(s, len(s.shape) - 1, 0, min(s.shape[-1], 1))


def _tolerance(op: str, x: Tensor, rtol: Any) -> Tensor:
    """Return ``rtol`` as a tensor; the default is ``max(m, n) · eps``."""
    dtype = matrix.magnitude_dtype(x.dtype)
    if rtol is None:
        rtol = max(x.shape[-2:]) * float(np.finfo(dtype).eps)
    if isinstance(rtol, _convert.SCALARS):
        if not np.iscomplexobj(rtol):  # a complex number raises an error below
            rtol = finite(op, "rtol", rtol, least=0)
        return _convert.scalar(op, rtol, dtype)
    rtol = creation.cast(_convert.real(op, rtol), dtype)
    return _convert.check_broadcast(op, "rtol", rtol, x.shape[:-2])


def matrix_rank(x: TensorLike, /, *, rtol: float | TensorLike | None = None) -> Tensor:
    """Return the number of singular values above ``rtol`` times the largest one.

    A matrix with NaN or an infinity has rank 0.

    Args:
        x: ``[..., m, n]``.
        rtol: A number, or a tensor that broadcasts to ``[...]``; by default
            ``max(m, n)`` times the machine epsilon of the dtype.

    Returns:
        An int32 tensor ``[...]``.

    Raises:
        ValueError: ``x`` has fewer than two axes, or ``rtol`` does not broadcast or is
            a negative number.
        TypeError: ``x`` is float16 or contains strings.

    Example:
        >>> pg.linalg.matrix_rank([[1.0, 2.0], [2.0, 4.0]]).item()
        1

    Source:
        The array API standard.

    """
    x = matrix.matrices("matrix_rank", x, square=False)
    s = run(SVDVALS, x)
    limit = matrix.column(_tolerance("matrix_rank", x, rtol)) * _largest(s)
    return logic.count_nonzero(s > limit, axis=-1)


def _pinv_spec(x: Spec, rtol: Spec) -> Spec:
    *batch, m, n = matrix.check_matrices("pinv", x, square=False).shape
    wanted = matrix.magnitude_dtype(x.dtype)
    if rtol.dtype is not wanted:
        raise TypeError(f"pinv: rtol must be {wanted} for {x.dtype}, got {rtol.dtype}")
    _convert.check_broadcast("pinv", "rtol", rtol, tuple(batch))
    return Spec((*batch, n, m), x.dtype)


PINV = Kernel(
    f"Pinv(x: {matrix.LAPACK}, rtol: float32 | float64)",
    out=_pinv_spec,
    op="linalg.pinv",
    doc="""``v·diag(1 / s)·uᴴ``, with the singular values ``s`` above ``rtol · max(s)``.

    For the other singular values, 0 takes the place of ``1 / s``. ``rtol`` broadcasts
    to the batch axes; if it is NaN, there are no values above it. A matrix with NaN or
    an infinity gives NaN.""",
)


def pinv(x: TensorLike, /, *, rtol: float | TensorLike | None = None) -> Tensor:
    """Return the pseudo-inverse ``v·diag(1/s)·uᴴ`` of each matrix.

    Singular values ``s`` that are at most ``rtol`` times the largest one are ignored.
    The gradient assumes that the rank is constant. A matrix with NaN or an infinity
    gives NaN.

    Args:
        x: ``[..., m, n]``.
        rtol: A number, or a tensor that broadcasts to ``[...]``; by default
            ``max(m, n)`` times the machine epsilon of the dtype.

    Returns:
        A tensor ``[..., n, m]`` of the dtype of ``x``; float32 for integers and bool.

    Raises:
        ValueError: ``x`` has fewer than two axes, or ``rtol`` does not broadcast or is
            a negative number.
        TypeError: ``x`` is float16 or contains strings.

    Example:
        >>> pg.linalg.pinv([[2.0, 0.0], [0.0, 0.0]])
        Tensor([[0.5, 0. ],
                [0. , 0. ]], dtype=float32, backend='cpu')

    Source:
        The array API standard. G. H. Golub and V. Pereyra, "The Differentiation of
        Pseudo-Inverses and Nonlinear Least Squares Problems Whose Variables Separate",
        1973.

    """
    x = matrix.matrices("pinv", x, square=False)
    return run(PINV, x, _tolerance("pinv", x, rtol))


@decomposition(PINV)
def _(x: Tensor, rtol: Tensor) -> Tensor:
    u, s, vh = run_many(SVD, x, full_matrices=False)
    large = s > matrix.column(rtol) * _largest(s)
    scale = compare.where(large, 1 / compare.where(large, s, 1), 0)
    return matrix.adjoint(matrix.product(u * matrix.row(scale), vh))


def _pinv_gradient(dy: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Compute the gradient from ``x`` and ``y`` alone (Golub and Pereyra, 1973)."""
    product = matrix.product
    turned = matrix.adjoint(dy)
    adjoint_times, times_adjoint = matrix.adjoint_times, matrix.times_adjoint
    left = times_adjoint(product(turned, y), y)
    right = adjoint_times(y, product(y, turned))
    left = left - product(x, product(y, left))
    right = right - product(product(right, y), x)
    return left + right - adjoint_times(y, times_adjoint(dy, y))


gradients(PINV, x=_pinv_gradient, rtol=None)


def lstsq(
    a: TensorLike, b: TensorLike, /, *, rtol: float | TensorLike | None = None
) -> Tensor:
    """Return the least-squares solution ``y``, which minimizes ``|a·y - b|``.

    If there are several solutions, it is the shortest one, ``pinv(a) @ b``. A matrix
    ``a`` with NaN or an infinity gives NaN.

    Args:
        a: ``[..., m, n]``.
        b: ``[m]``, or ``[..., m, k]`` whose leading axes broadcast with those of ``a``.
        rtol: The tolerance, as in ``pinv``.

    Returns:
        A tensor ``[..., n]`` for a vector ``b``, else ``[..., n, k]``, of the promoted
        dtype; float32 for integers and bool.

    Raises:
        ValueError: The shapes are incompatible.
        TypeError: An argument is float16 or contains strings.

    Example:
        >>> pg.linalg.lstsq([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], [1.0, 3.0, 5.0])
        Tensor([1., 2.], dtype=float32, backend='cpu')

    """
    a, b = matrix.sides("lstsq", a, b, square=False)
    return products.matmul(run(PINV, a, _tolerance("lstsq", a, rtol)), b)
