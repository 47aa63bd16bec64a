"""Structured matrices, linear systems and determinants: NumPy's LAPACK functions.

NumPy computes in double precision and rounds the result to float32.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array


def lapack(
    op: str, problem: str, function: Callable[..., Any], x: Array, *right_sides: Array
) -> Any:
    """Return ``function(x, *right_sides)``; if LAPACK fails, name the failing matrix.

    LAPACK rejects some matrices with NaN and infinities; here their result is NaN.
    """
    try:
        return function(x, *right_sides)
    except np.linalg.LinAlgError:
        mask = _has_nonfinite(x)
    alone = np.linalg.inv if right_sides else function
    for index in np.argwhere(~mask).tolist():
        try:
            alone(x[tuple(index)])
        except np.linalg.LinAlgError:
            which = f"matrix {index}" if index else "the matrix"
            raise ValueError(f"{op}: {which} is {problem}") from None
    return _fill_with_nan(function(_replace_masked(x, mask), *right_sides), mask)


def finite(op: str, problem: str, function: Callable[..., Any], x: Array) -> Any:
    """Return ``function(x)``, with NaN for matrices that contain NaN or infinities.

    These matrices are not passed to LAPACK: with an infinity, its iterations may never
    end.
    """
    mask = _has_nonfinite(x)
    if not mask.any():
        return lapack(op, problem, function, x)
    return _fill_with_nan(lapack(op, problem, function, _replace_masked(x, mask)), mask)


def _has_nonfinite(x: Array) -> Array:
    """Return a mask of the matrices that contain NaN or an infinity."""
    return np.asarray(~np.isfinite(x).all((-2, -1)))


def _replace_masked(x: Array, mask: Array) -> Array:
    """Return ``x`` with the matrices of ``mask`` replaced by the identity."""
    return np.where(mask[..., None, None], np.eye(*x.shape[-2:], dtype=x.dtype), x)


def _fill_with_nan(found: Any, mask: Array) -> Any:
    """Return the results, with NaN for the matrices of ``mask``."""

    def filled(y: Array) -> Any:
        return np.where(mask[(..., *[None] * min(y.ndim - mask.ndim, 2))], np.nan, y)

    return tuple(map(filled, found)) if isinstance(found, tuple) else filled(found)


kernels = KernelTable(
    Det=np.linalg.det,
    Inverse=partial(lapack, "inv", "singular", np.linalg.inv),
    Slogdet=np.linalg.slogdet,
    Solve=partial(lapack, "solve", "singular", np.linalg.solve),
)


@kernels("Diag")
def diag(x: Array) -> Array:
    """Write every (n + 1)th element of an n x n matrix: its diagonal."""
    y = np.zeros((x.size, x.size), x.dtype)
    y.ravel()[:: x.size + 1] = x.ravel()
    return y.reshape(x.shape * 2)


@kernels("MatrixBandPart")
def matrix_band_part(input: Array, num_lower: Array, num_upper: Array) -> Array:
    """Keep the diagonals in the band; a negative number keeps the whole triangle."""
    rows, columns = input.shape[-2:]
    lower = min(int(num_lower), rows)
    upper = min(int(num_upper), columns)
    y = input if lower < 0 else np.triu(input, -lower)
    return y if upper < 0 else np.tril(y, upper)


@kernels("TriangularSolve")
def triangular_solve(a: Array, b: Array, *, upper: bool) -> Array:
    """Solve an upper system; a lower one is an upper one in reverse order."""
    zeros = np.argwhere((np.diagonal(a, axis1=-2, axis2=-1) == 0).any(-1))
    if len(zeros):
        which = f"matrix {zeros[0].tolist()}" if a.ndim > 2 else "the matrix"
        raise ValueError(f"triangular_solve: {which} is singular")
    if upper:
        return _solve_upper(a, b)
    return _solve_upper(a[..., ::-1, ::-1], b[..., ::-1, :])[..., ::-1, :]


def _solve_upper(a: Array, b: Array) -> Array:
    """Solve for the last half, substitute it, and solve for the first half.

    Small systems are solved by LU: the decomposition of an upper triangular matrix is
    the matrix itself.
    """
    half = a.shape[-1] // 2
    if half < 32:
        return np.linalg.solve(np.triu(a), b)
    last = _solve_upper(a[..., half:, half:], b[..., half:, :])
    rest = b[..., :half, :] - a[..., :half, half:] @ last
    first = _solve_upper(a[..., :half, :half], rest)
    return np.concatenate([first, last], axis=-2)
