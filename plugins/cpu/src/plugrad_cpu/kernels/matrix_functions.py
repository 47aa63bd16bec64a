"""LU decomposition and matrix exponential, built on NumPy's matrix products."""

from __future__ import annotations

from math import prod

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array

kernels = KernelTable()

PANEL_COLUMNS = 32  # columns eliminated per step; BLAS updates the rest


@kernels("Lu")
def lu(x: Array) -> tuple[Array, Array, Array]:
    """Decompose one panel of columns after another, for all matrices at once."""
    *batch, m, n = x.shape
    k = min(m, n)
    count = prod(batch)
    a = np.array(x, order="C").reshape(count, m, n)
    order = np.tile(np.arange(m), (count, 1))
    for begin in range(0, k, PANEL_COLUMNS):
        end = min(begin + PANEL_COLUMNS, k)
        _eliminate_panel(a, order, begin, end)
        low = _unit_lower(a[:, begin:end, begin:end])
        if end < n:
            a[:, begin:end, end:] = np.linalg.solve(low, a[:, begin:end, end:])
            a[:, end:, end:] -= a[:, end:, begin:end] @ a[:, begin:end, end:]
    p = np.zeros((count, m, m), x.dtype)
    np.put_along_axis(p, order[:, None], 1, axis=1)
    lower = _unit_lower(a[:, :, :k])
    upper = np.triu(a[:, :k])
    return (
        p.reshape(*batch, m, m),
        lower.reshape(*batch, m, k),
        upper.reshape(*batch, k, n),
    )


def _eliminate_panel(a: Array, order: Array, begin: int, end: int) -> None:
    """Eliminate below the diagonal in some columns; swap whole rows.

    The elimination works on a copy in which columns are contiguous.
    """
    at = np.arange(len(a))
    columns = a[:, begin:, begin:end].swapaxes(1, 2).copy()
    for i in range(end - begin):
        column = columns[:, i, i:]
        pivots = i + (np.abs(column.real) + np.abs(column.imag)).argmax(1)
        _swap_rows(columns.swapaxes(1, 2), at, i, pivots)
        for rows in (a, order):
            _swap_rows(rows, at, begin + i, begin + pivots)
        pivot = columns[:, i, i]
        factors = columns[:, i, i + 1 :]
        factors /= np.where(pivot == 0, 1, pivot)[:, None]
        columns[:, i + 1 :, i + 1 :] -= columns[:, i + 1 :, i, None] * factors[:, None]
    a[:, begin:, begin:end] = columns.swapaxes(1, 2)


def _swap_rows(rows: Array, at: Array, i: int, others: Array) -> None:
    """Swap row ``i`` of each matrix with the row whose index is in ``others``."""
    rows[at, others], rows[:, i] = rows[:, i].copy(), rows[at, others]


def _unit_lower(a: Array) -> Array:
    """Return the lower triangle with ones on the diagonal."""
    return np.tril(a, -1) + np.eye(*a.shape[-2:], dtype=a.dtype)


# Higham, 2005: the Padé approximant of degree 13, and the largest norm for which it is
# accurate to double precision.
PADE = (
    *(64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800),
    *(129060195264000, 10559470521600, 670442572800, 33522128640, 1323241920),
    *(40840800, 960960, 16380, 182, 1),
)
PADE_MAX_NORM = 5.371920351148152


@kernels("MatrixExp")
def matrix_exp(x: Array) -> Array:
    """Halve ``x`` until the approximant is accurate, then square as often (float64)."""
    a = x.astype(np.result_type(x.dtype, np.float64))
    finite = np.isfinite(a).all((-2, -1))
    a[~finite] = 0
    norms = np.abs(a).sum(-2).max(-1, initial=0)
    halvings = np.ceil(np.log2(np.maximum(norms / PADE_MAX_NORM, 1))).astype(int)
    y = _approximant(a * np.exp2(-halvings.astype(float))[..., None, None])
    for done in range(halvings.max(initial=0)):
        unfinished = halvings > done
        y[unfinished] = y[unfinished] @ y[unfinished]
    y[~finite] = np.nan
    return y.astype(x.dtype)


def _approximant(a: Array) -> Array:
    """Return the Padé approximant of the exponential of matrices."""
    one = np.eye(a.shape[-1], dtype=a.dtype)
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    b = PADE
    u = a6 @ (b[13] * a6 + b[11] * a4 + b[9] * a2)
    u = a @ (u + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * one)
    v = a6 @ (b[12] * a6 + b[10] * a4 + b[8] * a2)
    v = v + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * one
    return np.asarray(np.linalg.solve(v - u, v + u))
