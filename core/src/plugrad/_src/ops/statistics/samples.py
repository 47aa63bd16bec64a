"""Statistics of samples: covariances and histograms, composed of other ops. No kernels.

Contents: covariances; histograms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from plugrad._src.engine.dispatch import run
from plugrad._src.ops.basis import (
    _convert,
    binary,
    compare,
    complexes,
    creation,
    logic,
    reduce,
    unary,
)
from plugrad._src.ops.basis import shape as shapes
from plugrad._src.ops.indexing import search
from plugrad._src.ops.linalg import matrix, products
from plugrad._src.ops.reduction import cumulative
from plugrad._src.tensor.arguments import entries, finite, flag, integer, misfit, real
from plugrad._src.tensor.dtypes import dtype_kind
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike

__all__ = ["corrcoef", "cov", "histogram"]

# --- covariances -----------------------------------------------------------------


def cov(
    x: TensorLike,
    /,
    *,
    correction: float = 1.0,
    fweights: TensorLike | None = None,
    aweights: TensorLike | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the covariances of variables, ``Σ w (x - mean) (x - mean)ᴴ / d``.

    Without weights, ``w`` is 1 and ``d`` is the number of observations minus
    ``correction``. With weights, ``w`` is the product of ``fweights`` and ``aweights``,
    and ``d = Σ w - correction · Σ w·aweights / Σ w``. The result is NaN or inf where
    ``d`` is not positive.

    Args:
        x: ``[variables, observations]`` or, for one variable, ``[observations]``.
        correction: The number to subtract from the number of observations: 1 for the
            unbiased estimate, 0 for the average.
        fweights: Integers ``[observations]``: how often each observation occurs.
        aweights: ``[observations]``: the relative weight of each observation. Weights
            must not be negative; this is not checked.

    Returns:
        ``[variables, variables]``, or a scalar for one variable ``[observations]``, of
        the dtype of ``x``; float32 for integers and bool.

    Raises:
        ValueError: ``x`` has more than two axes, or the weights have the wrong shape.
        TypeError: ``x`` contains strings, ``fweights`` are not integers, or
            ``aweights`` are complex.

    Example:
        >>> pg.cov([[1.0, 2.0, 3.0], [6.0, 4.0, 2.0]])
        Tensor([[ 1., -2.],
                [-2.,  4.]], dtype=float32, backend='cpu')

    Source:
        ``torch.cov``; ``numpy.cov`` calls the correction ``ddof``.

    """
    if unknown:
        raise unexpected(cov, unknown)
    x, rows = _variables("cov", x)
    correction = finite("cov", "correction", correction)
    y = _covariances(rows, correction, fweights, aweights)
    y = creation.cast(y, x.dtype)
    return y if len(x.shape) == 2 else run(shapes.RESHAPE, y, shape=())


def _variables(op: str, x: TensorLike) -> tuple[Tensor, Tensor]:
    """Return ``x`` as a floating tensor, and a matrix whose rows are the variables."""
    x = _convert.floating(op, x)
    if len(x.shape) > 2:
        rule = "x must be [variables, observations], or [observations]; reshape it"
        raise misfit(op, rule, x)
    wide = reduce.widened(x)
    if len(x.shape) < 2:
        wide = run(shapes.RESHAPE, wide, shape=(1, x.size))
    return x, wide


def _covariances(
    x: Tensor, correction: float, fweights: Any = None, aweights: Any = None
) -> Tensor:
    size = x.shape[1]
    dtype = matrix.magnitude_dtype(x.dtype)
    weights: Tensor | None = None
    if fweights is not None:
        counts = _convert.integer_tensor("cov", "fweights", fweights)
        weights = _check_weights("fweights", creation.cast(counts, dtype), size)
    if aweights is not None:
        shares = creation.cast(_convert.floating("cov", aweights, "f"), dtype)
        shares = _check_weights("aweights", shares, size)
        weights = shares if weights is None else weights * shares
    if weights is None:
        centered = x - run(reduce.MEAN, x, axis=(1,), keepdims=True)
        y = matrix.times_adjoint(centered, centered)
        return y / max(size - correction, 0)
    total = reduce.sum(weights)
    lost = _convert.asarray(correction, dtype=dtype)
    if aweights is not None:
        lost = reduce.sum(weights * shares) / total * correction
    mean = run(reduce.SUM, x * weights, axis=(1,), keepdims=True) / total
    centered = x - mean
    y = matrix.times_adjoint(centered * weights, centered)
    return y / binary.maximum(total - lost, 0)


def _check_weights(name: str, weights: Tensor, size: int) -> Tensor:
    if weights.shape != (size,):
        rule = f"{name} must have shape {(size,)}, one for each observation"
        raise misfit("cov", rule, weights)
    return weights


def corrcoef(x: TensorLike, /) -> Tensor:
    """Return the correlations of variables, ``c[i, j] / √(c[i, i] c[j, j])``.

    ``c`` is the covariance matrix. Real and imaginary parts are limited to the range
    from -1 to 1, which rounding might exceed. Correlations with a constant variable are
    NaN.

    Args:
        x: ``[variables, observations]`` or, for one variable, ``[observations]``.

    Returns:
        ``[variables, variables]``, or a scalar for one variable ``[observations]``, of
        the dtype of ``x``; float32 for integers and bool.

    Raises:
        ValueError: ``x`` has more than two axes.
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.corrcoef([[1.0, 2.0, 3.0], [6.0, 4.0, 2.0]])
        Tensor([[ 1., -1.],
                [-1.,  1.]], dtype=float32, backend='cpu')

    Source:
        ``numpy.corrcoef`` and ``torch.corrcoef``.

    """
    x, rows = _variables("corrcoef", x)
    c = _covariances(rows, 1.0)
    spread = unary.sqrt(complexes.real_part(products.diagonal(c)))
    y = c / matrix.column(spread) / matrix.row(spread)
    if dtype_kind(y.dtype) == "c":
        y = complexes.complex(*[_clip_to_one(part) for part in complexes.parts(y)])
    else:
        y = _clip_to_one(y)
    y = creation.cast(y, x.dtype)
    return y if len(x.shape) == 2 else run(shapes.RESHAPE, y, shape=())


def _clip_to_one(x: Tensor) -> Tensor:
    return binary.minimum(binary.maximum(x, -1), 1)


# --- histograms ------------------------------------------------------------------


def histogram(
    x: TensorLike,
    /,
    bins: int | TensorLike = 10,
    *,
    range: tuple[float, float] | None = None,
    weights: TensorLike | None = None,
    density: bool = False,
    **unknown: Unpack[Nothing],
) -> tuple[Tensor, Tensor]:
    """Return how many elements lie in each bin, and the edges of the bins.

    Each bin includes its left edge; the last bin also includes its right edge. NaN and
    elements outside the edges are ignored.

    Args:
        x: Real numbers of any shape.
        bins: The number of bins of equal width; or the edges of the bins, in ascending
            order.
        range: The first and the last edge of bins of equal width. None selects the
            smallest and the largest element, which are read on the host, or 0 and 1 if
            there are no elements. If both edges are equal, each is moved outward by
            0.5.
        weights: A tensor of the shape of ``x``: the numbers to add up instead of
            counting. The sums are differentiable with respect to them.
        density: Whether to divide the counts by their sum and by the bin widths, so
            that the integral is 1.

    Returns:
        A tensor ``[bins]``: int32 counts, sums in the dtype of the weights (int32 for
        bool), or densities in a floating dtype; and the edges, ``[bins + 1]``. Given
        edges keep their dtype; computed edges have the dtype of ``x``, or float32 for
        integers, bool and float16.

    Raises:
        ValueError: There are no bins, the edges do not ascend or do not have one axis,
            the range is not finite or descends, or the weights do not have the shape of
            ``x``.
        TypeError: ``x`` is complex or contains strings, or ``bins`` is neither an int
            nor edges.

    Example:
        >>> counts, edges = pg.histogram([1.0, 2.0, 2.5, 4.0], 3)
        >>> counts.tolist(), edges.tolist()
        ([1, 2, 1], [1.0, 2.0, 3.0, 4.0])

    Source:
        ``numpy.histogram``.

    """
    if unknown:
        raise unexpected(histogram, unknown)
    x = _convert.real("histogram", x)
    density = flag("histogram", "density", density)
    if isinstance(bins, str | bytes):
        rule = "bins must be a number of bins, or their edges"
        raise TypeError(f"histogram: {rule}, got {bins!r}")
    if isinstance(bins, Tensor) or entries(bins) is not None:
        edges = _checked_edges(bins)
        if range is not None:
            raise ValueError(
                "histogram: range applies to a number of bins, not to edges"
            )
    else:
        count = integer("histogram", "bins", bins, 1)
        edges = _even_edges(x, count, range)
    weight = cumulative._weights("histogram", weights, x)
    counts = _count_in_bins(x, edges, weight)
    if not density:
        return counts, edges
    widths = cumulative.diff(_convert.floating("histogram", edges))
    counts = _convert.floating("histogram", counts)
    return counts / reduce.sum(counts) / widths, edges


def _count_in_bins(x: Tensor, edges: Tensor, weights: Tensor | None) -> Tensor:
    flat = run(shapes.RESHAPE, x, shape=(x.size,))
    bins = max(edges.size - 1, 0)
    place = search.searchsorted(edges, flat, side="right") - 1
    if bins:
        place = compare.where(compare.equal(flat, edges[-1]), bins - 1, place)
    if weights is not None:
        weights = run(shapes.RESHAPE, weights, shape=flat.shape)
    return run(cumulative.BINCOUNT, place, weights, size=bins)


def _checked_edges(bins: TensorLike) -> Tensor:
    edges = _convert.real("histogram", bins)
    if len(edges.shape) != 1:
        raise misfit("histogram", "bin edges must have one axis", edges)
    if logic.any(edges[1:] < edges[:-1])._item():
        raise ValueError("histogram: bin edges must ascend; sort them")
    return edges


def _even_edges(x: Tensor, count: int, range: Sequence[float] | None) -> Tensor:
    """Return the edges of ``count`` bins of equal width."""
    first, last = _range_of(x, range)
    if first == last:
        first = first - 0.5
        last = last + 0.5
    dtype = (
        x.dtype if dtype_kind(x.dtype) == "f" and x.dtype.itemsize > 2 else np.float32
    )
    edges = np.linspace(first, last, count + 1).astype(dtype)
    return _convert.tensor_of(edges, copy=False)


def _range_of(x: Tensor, range: Sequence[float] | None) -> tuple[float, float]:
    if range is None:
        if not x.size:
            return 0.0, 1.0
        ends = [float(f(x)._item()) for f in (reduce.min, reduce.max)]
        hint = "the elements range from {} to {}; pass a finite range"
    else:
        given = entries(range)
        if given is None or len(given) != 2:
            raise ValueError(f"histogram: range must be two numbers, got {range!r}")
        ends = [real("histogram", "range", end) for end in given]
        hint = "range {} to {} must be finite"
    if not all(map(math.isfinite, ends)):
        raise ValueError(f"histogram: {hint.format(*ends)}")
    if ends[0] > ends[1]:
        raise ValueError(f"histogram: range {ends[0]} to {ends[1]} must ascend")
    return ends[0], ends[1]
