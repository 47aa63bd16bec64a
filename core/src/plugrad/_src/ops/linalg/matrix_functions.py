"""The LU decomposition, chains of products, and the exponential of matrices.

Kernels: ``Lu MatrixExp``. They have no decomposition into ops: like the LAPACK kernels
of ``matrix_factors``, they run on the host if a backend does not implement them.

Contents: the LU decomposition; the exponential; chains of products.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from plugrad._src.engine.dispatch import run, run_many
from plugrad._src.ops.array import slicing
from plugrad._src.ops.basis import _convert, creation, shape
from plugrad._src.registry.contract import Kernel, Spec, gradients
from plugrad._src.tensor.arguments import misfit, several
from plugrad._src.tensor.dtypes import BOOL, INT32
from plugrad._src.tensor.tensor import Tensor, TensorLike

from . import matrix, products

if TYPE_CHECKING:
    from ._results import LUResult

# --- the LU decomposition --------------------------------------------------------


def _lu_specs(x: Spec) -> tuple[Spec, Spec, Spec]:
    *batch, m, n = matrix.check_matrices("lu", x, square=False).shape
    k = min(m, n)
    sizes = ((m, m), (m, k), (k, n))
    p, lower, upper = (Spec((*batch, *size), x.dtype) for size in sizes)
    return p, lower, upper


LU = Kernel(
    f"Lu(x: {matrix.LAPACK}) -> p, lower, upper",
    out=_lu_specs,
    op="linalg.lu",
    doc="""``p·lower·upper = x``: a permutation, a lower triangle with ones on the
    diagonal, and an upper triangle.

    For ``x`` of shape ``[..., m, n]`` and ``k = min(m, n)``, they are ``[..., m, m]``,
    ``[..., m, k]`` and ``[..., k, n]``. Each pivot is the largest element on or below
    the diagonal, by ``|Re| + |Im|``; of equal ones, the first. A column of zeros leaves
    zeros in the triangles; it is not an error.""",
)


def lu(x: TensorLike, /) -> LUResult:
    """Return the LU decomposition with partial pivoting, ``p·l·u = x``.

    ``p`` is a permutation matrix, ``l`` is lower triangular with ones on the diagonal,
    and ``u`` is upper triangular. There is a gradient if the first ``min(m, n)`` rows
    of ``pᵀ·x`` are independent.

    Args:
        x: ``[..., m, n]``.

    Returns:
        A named tuple of ``P``, ``[..., m, m]``, ``L``, ``[..., m, k]``, and ``U``,
        ``[..., k, n]``, of the dtype of ``x``; float32 for integers and bool. ``k`` is
        ``min(m, n)``.

    Raises:
        ValueError: ``x`` has fewer than two axes.
        TypeError: ``x`` is float16 or contains strings.

    Example:
        >>> p, l, u = pg.linalg.lu([[1.0, 2.0], [4.0, 6.0]])
        >>> l.tolist(), u.tolist()
        ([[1.0, 0.0], [0.25, 1.0]], [[4.0, 6.0], [0.0, 0.5]])

    Source:
        ``scipy.linalg.lu`` and ``torch.linalg.lu``.

    """
    from ._results import LUResult

    return LUResult(*run_many(LU, matrix.matrices("lu", x, square=False)))


def _lu_gradient(
    _: Tensor,
    dlower: Tensor,
    dupper: Tensor,
    p: Tensor,
    lower: Tensor,
    upper: Tensor,
) -> Tensor:
    """Return the gradient of the square part, concatenated with that of the rest.

    The rest of a wide ``upper`` is ``lower⁻¹·b``, and the rest of a tall ``lower`` is
    ``c·upper⁻¹``, where b and c are the rest of ``pᵀ·x``. The gradient of the square
    part therefore has a term for the rest.
    """
    k = upper.shape[-2]
    last = len(upper.shape) - 1
    wide = upper.shape[-1] - k
    tall = lower.shape[-2] - k
    rest: Tensor | None = None
    if wide:
        (upper, more), (dupper, dmore) = (
            _split_first(t, last, k) for t in (upper, dupper)
        )
        rest = _solve_lower(lower, dmore)
        dlower = dlower - matrix.times_adjoint(rest, more)
    if tall:
        (lower, more), (dlower, dmore) = (
            _split_first(t, last - 1, k) for t in (lower, dlower)
        )
        rest = _solve_upper(upper, dmore)
        dupper = dupper - matrix.adjoint_times(more, rest)
    inner = matrix.adjoint_times(lower, dlower)
    below = matrix.band(inner, -1, 0) - matrix.band(inner, 0, 0)
    dx = below + matrix.band(matrix.times_adjoint(dupper, upper), 0, -1)
    dx = _solve_upper(upper, _solve_lower(lower, dx))
    if rest is not None:
        dx = shape.concat([dx, rest], axis=last if wide else last - 1)
    return matrix.product(p, dx)


def _split_first(x: Tensor, axis: int, size: int) -> tuple[Tensor, Tensor]:
    """Return the first ``size`` rows or columns, and the remaining ones."""
    rest = slicing.along(x, axis, size, x.shape[axis] - size)
    return slicing.along(x, axis, 0, size), rest


def _solve_lower(lower: Tensor, x: Tensor) -> Tensor:
    """Return ``lower⁻ᴴ·x``."""
    return run(matrix.TRIANGULAR_SOLVE, matrix.adjoint(lower), x, upper=True)


def _solve_upper(upper: Tensor, x: Tensor) -> Tensor:
    """Return ``x·upper⁻ᴴ``."""
    y = run(matrix.TRIANGULAR_SOLVE, upper, matrix.adjoint(x), upper=True)
    return matrix.adjoint(y)


gradients(LU, x=_lu_gradient)

# --- the exponential -------------------------------------------------------------

MATRIX_EXP = Kernel(
    f"MatrixExp(x: {matrix.LAPACK})",
    out=functools.partial(matrix.check_matrices, "matrix_exp"),
    op="linalg.matrix_exp",
    doc="""``Σ x^k / k!`` over all ``k`` from 0, a sum of powers of the matrix.

    A matrix with NaN or an infinity gives NaN. If intermediate results overflow,
    elements are infinite or NaN.""",
)


def matrix_exp(x: TensorLike, /) -> Tensor:
    """Return the exponential of each matrix, ``Σ x^k / k!`` over all ``k`` from 0.

    Unlike ``exp``, it does not work element by element. A matrix with NaN or an
    infinity gives NaN.

    Args:
        x: ``[..., n, n]``.

    Returns:
        A tensor of the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        ValueError: The matrices are not square.
        TypeError: ``x`` is float16 or contains strings.

    Example:
        >>> pg.linalg.matrix_exp([[0.0, 1.0], [0.0, 0.0]])
        Tensor([[1., 1.],
                [0., 1.]], dtype=float32, backend='cpu')

    Source:
        ``scipy.linalg.expm`` and ``torch.linalg.matrix_exp``. N. J. Higham, "The
        Scaling and Squaring Method for the Matrix Exponential Revisited", 2005.

    """
    return run(MATRIX_EXP, matrix.matrices("matrix_exp", x))


def _matrix_exp_gradient(dy: Tensor, x: Tensor) -> Tensor:
    """Return the corner of the exponential of ``[[xᴴ, dy], [0, xᴴ]]``."""
    n = x.shape[-1]
    last = len(x.shape) - 1
    turned = matrix.adjoint(x)
    above = shape.concat([turned, dy], axis=last)
    below = shape.concat([creation.zeros_like(dy), turned], axis=last)
    y = run(MATRIX_EXP, shape.concat([above, below], axis=last - 1))
    return slicing.along(slicing.along(y, last - 1, 0, n), last, n, n)


gradients(MATRIX_EXP, x=_matrix_exp_gradient)

# --- chains of products ----------------------------------------------------------


def multi_dot(xs: Sequence[TensorLike], /) -> Tensor:
    """Return the product of a chain of matrices, multiplied in the cheapest order.

    Args:
        xs: Two or more matrices ``[n_i, n_(i+1)]``. The first one may be a vector,
            which is treated as a row, and so may the last one, which is treated as a
            column; the result lacks these axes.

    Returns:
        A tensor ``[rows, columns]``, a vector or a scalar, of the promoted dtype; int32
        for bool.

    Raises:
        ValueError: There are fewer than two matrices, one has a wrong rank, or the
            sizes are incompatible.
        TypeError: ``xs`` is not a sequence, or contains tensors of strings.

    Example:
        >>> pg.linalg.multi_dot([[1.0, 2.0], [[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0]])
        Tensor(17., dtype=float32, backend='cpu')

    Source:
        ``numpy.linalg.multi_dot``. T. H. Cormen et al., "Introduction to Algorithms",
        on matrix-chain multiplication.

    """
    given = several("multi_dot", "xs", xs)
    if len(given) < 2:
        raise ValueError(f"multi_dot: takes two matrices or more, got {len(given)}")
    tensors = [_convert.numbers("multi_dot", x) for x in given]
    tensors = _convert.promote_all("multi_dot", *tensors)
    if tensors[0].dtype is BOOL:
        tensors = [creation.cast(x, INT32) for x in tensors]
    sizes = _chain_sizes(tensors)
    first = len(tensors[0].shape) == 1
    last = len(tensors[-1].shape) == 1
    pairs = zip(tensors, itertools.pairwise(sizes), strict=True)
    tensors = [shape.shaped(x, size) for x, size in pairs]
    y = _multiply_chain(tensors, _splits(sizes), 0, len(tensors) - 1)
    return shape.shaped(y, y.shape[int(first) : 2 - int(last)])


def _chain_sizes(tensors: list[Tensor]) -> tuple[int, ...]:
    """Return the sizes n_0, n_1, … of a chain; raise if they are incompatible."""
    count = len(tensors)
    sizes: list[int] = []
    for i, x in enumerate(tensors):
        vector = len(x.shape) == 1 and i in (0, count - 1)
        if not vector and len(x.shape) != 2:
            rule = f"xs[{i}] must be a matrix"
            rule += ", or a vector" if i in (0, count - 1) else ""
            raise misfit("multi_dot", rule, x)
        rows, columns = x.shape if not vector else ((1, x.size), (x.size, 1))[i > 0]
        if sizes and sizes[-1] != rows:
            rule = f"xs[{i}] must have as many rows as xs[{i - 1}] has columns"
            raise misfit("multi_dot", rule, tensors[i - 1], x)
        sizes += [columns] if sizes else [rows, columns]
    return tuple(sizes)


@functools.lru_cache(maxsize=1024)
def _splits(sizes: tuple[int, ...]) -> dict[tuple[int, int], int]:
    """Return where to split each part of a chain to minimize multiplications."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    best = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            costs = [
                cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1]
                for k in range(i, j)
            ]
            cost[i, j] = min(costs)
            best[i, j] = i + costs.index(cost[i, j])
    return best


def _multiply_chain(
    xs: list[Tensor], splits: dict[tuple[int, int], int], i: int, j: int
) -> Tensor:
    if i == j:
        return xs[i]
    k = splits[i, j]
    left = _multiply_chain(xs, splits, i, k)
    right = _multiply_chain(xs, splits, k + 1, j)
    return products.matmul(left, right)
