"""Quantiles, functions that ignore NaN, histograms, integrals and correlations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import plugrad as pg
from plugrad import Tensor

from keras_plugrad.src.keras_names import (
    KerasVariable,
    canonicalize_axis,
    config,
    standardize_dtype,
)

from ..core.variables import convert_to_tensor, floating, promoted

METHODS = ("linear", "lower", "higher", "midpoint", "nearest")
FLOATS = ("real floating", "complex floating")


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return axes as a tuple; None stands for all."""
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, list | tuple) else (axis,)
    return tuple([canonicalize_axis(one, ndim) for one in given])


def median(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return medians over axes."""
    return pg.median(floating(x), axis=axis, keepdims=keepdims)


def quantile(
    x: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """Return the quantiles over axes; the axes of ``q``, from 0 to 1, come first."""
    if isinstance(q, Tensor | KerasVariable):
        return _quantiles(x, q, axis, method, keepdims, ignore_nan=False)
    how: Any = _known(method)
    return pg.quantile(floating(x), q, axis=axis, keepdims=keepdims, method=how)


def percentile(
    x: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """Return the quantiles over axes; ``q`` is from 0 to 100."""
    return quantile(x, _shares(q), axis=axis, method=method, keepdims=keepdims)


def nanmedian(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return medians over axes of the elements that are not NaN."""
    return nanquantile(x, 0.5, axis=axis, keepdims=keepdims)


def nanquantile(
    x: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """Return the quantiles over axes of the elements that are not NaN."""
    return _quantiles(x, q, axis, method, keepdims, ignore_nan=True)


def nanpercentile(
    x: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """Return the quantiles of elements that are not NaN; ``q`` is from 0 to 100."""
    return nanquantile(x, _shares(q), axis=axis, method=method, keepdims=keepdims)


def _shares(q: Any) -> Any:
    """Return percentages divided by 100."""
    if isinstance(q, Tensor | KerasVariable):
        return floating(q) / 100
    return np.asarray(q, dtype="float64") / 100


def _known(method: str) -> str:
    if method not in METHODS:
        raise ValueError(f"method={method!r}: choose one of {', '.join(METHODS)}")
    return method


def _quantiles(
    x: Any, q: Any, axis: Any, method: str, keepdims: bool, ignore_nan: bool
) -> Tensor:
    """Return quantiles; ``q`` may be a tensor, whose values are not read."""
    x = floating(x)
    wide = "float64" if x.dtype.name == "float64" else "float32"
    q = convert_to_tensor(q, dtype=wide)
    axes = _axes(axis, x.ndim)
    kept = [one for one in range(x.ndim) if one not in axes]
    sizes = [x.shape[one] for one in kept]
    n = math.prod([x.shape[one] for one in axes])
    rows = pg.reshape(pg.permute_dims(x, [*kept, *axes]), (*sizes, n))
    rows = pg.sort(pg.astype(rows, wide)) if n else pg.full((*sizes, 1), math.nan)
    last: Any = max(n - 1, 0)
    if ignore_nan:
        is_number = pg.astype(pg.logical_not(pg.isnan(rows)), wide)
        last = pg.maximum(pg.sum(is_number, axis=-1, keepdims=True) - 1, 0)
    shares = pg.broadcast_to(pg.reshape(q, (-1,)), (*sizes, q.size))
    found = _between(rows, pg.clip(shares, 0, 1) * last, _known(method))
    if not ignore_nan:
        found = pg.where(pg.isnan(rows[..., -1:]), math.nan, found)
    if keepdims:
        sizes = [1 if one in axes else x.shape[one] for one in range(x.ndim)]
    found = pg.reshape(pg.moveaxis(found, -1, 0), (*q.shape, *sizes))
    return pg.astype(found, x.dtype)


def _between(rows: Tensor, position: Tensor, method: str) -> Tensor:
    """Return the elements at positions between those of sorted rows."""

    def taken(places: Tensor) -> Tensor:
        return pg.take_along_axis(rows, pg.astype(places, "int32"), axis=-1)

    if method == "nearest":
        return taken(pg.round(position))
    if method in ("lower", "higher"):
        return taken(pg.floor(position) if method == "lower" else pg.ceil(position))
    before = pg.floor(position)
    low, high = taken(before), taken(pg.ceil(position))
    share = 0.5 if method == "midpoint" else position - before
    are_infinite = pg.logical_and(low == high, pg.isinf(low))
    return pg.where(are_infinite, low, low + (high - low) * share)


def _without_nan(x: Tensor, value: float) -> Tensor:
    """Return ``x`` with a number in place of NaN."""
    return pg.where(pg.isnan(x), value, x) if pg.isdtype(x.dtype, FLOATS) else x


def nanargmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the maximum that is not NaN, or -1 if all are NaN."""
    return _index(pg.argmax, x, axis, keepdims)


def nanargmin(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the minimum that is not NaN, or -1 if all are NaN."""
    return _index(pg.argmin, x, axis, keepdims)


def _index(find: Callable[..., Tensor], x: Any, axis: Any, keepdims: bool) -> Tensor:
    """Return what ``find``, which ignores NaN, returns, or -1 if all are NaN."""
    x = convert_to_tensor(x)
    found = find(x, axis=axis, keepdims=keepdims)
    if not pg.isdtype(x.dtype, FLOATS):
        return found
    return pg.where(pg.all(pg.isnan(x), axis=axis, keepdims=keepdims), -1, found)


def nancumsum(x: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    """Return cumulative sums along an axis; NaN counts as 0."""
    return _cumulative(pg.cumulative_sum, 0, x, axis, dtype)


def nancumprod(x: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    """Return cumulative products along an axis; NaN counts as 1."""
    return _cumulative(pg.cumulative_prod, 1, x, axis, dtype)


def _cumulative(
    function: Callable[..., Tensor], value: float, x: Any, axis: Any, dtype: Any
) -> Tensor:
    """Return ``function`` of ``x``, or of the flat ``x``, with ``value`` for NaN."""
    x = _without_nan(convert_to_tensor(x), value)
    name = standardize_dtype(x.dtype.name if dtype is None else dtype)
    if axis is None:
        x = pg.reshape(x, (-1,))
        axis = 0
    return function(x, axis=axis, dtype="int32" if name == "bool" else name)


def nanmax(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return the maximum over axes of the elements that are not NaN."""
    return pg.nanmax(convert_to_tensor(x), axis=axis, keepdims=keepdims)


def nanmin(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return the minimum over axes of the elements that are not NaN."""
    return pg.nanmin(convert_to_tensor(x), axis=axis, keepdims=keepdims)


def nansum(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return the sum over axes of the elements that are not NaN."""
    return pg.nansum(convert_to_tensor(x), axis=axis, keepdims=keepdims)


def nanprod(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return the product over axes of the elements that are not NaN."""
    x = _without_nan(convert_to_tensor(x), 1)
    return pg.prod(x, axis=axis, keepdims=keepdims)


def nanmean(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return the mean over axes of the elements that are not NaN."""
    return pg.nanmean(floating(x), axis=axis, keepdims=keepdims)


def nanvar(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return the variance over axes of the elements that are not NaN."""
    x = floating(x)
    y = pg.astype(x, "float32") if x.dtype.name in ("float16", "bfloat16") else x
    is_nan = pg.isnan(y)
    safe = pg.where(is_nan, 0.0, y)
    count = pg.sum(pg.astype(~is_nan, y.dtype), axis=axis, keepdims=True)
    mean = pg.sum(safe, axis=axis, keepdims=True) / count
    gap = pg.where(is_nan, 0.0, safe - mean)
    total = pg.sum(gap * gap, axis=axis, keepdims=keepdims)
    return pg.astype(total / pg.reshape(count, total.shape), x.dtype)


def nanstd(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return the standard deviation over axes of the elements that are not NaN."""
    square = nanvar(x, axis=axis, keepdims=keepdims)
    is_zero = square == 0  # where the root has no derivative
    return pg.where(is_zero, 0.0, pg.sqrt(pg.where(is_zero, 1.0, square)))


def nan_to_num(
    x: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """Return ``x`` with numbers in place of NaN and infinities."""
    return pg.nan_to_num(convert_to_tensor(x), nan=nan, posinf=posinf, neginf=neginf)


def ptp(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return the difference between the maximum and the minimum over axes."""
    x = convert_to_tensor(x)
    largest = pg.max(x, axis=axis, keepdims=keepdims)
    return largest - pg.min(x, axis=axis, keepdims=keepdims)


def average(x: Any, axis: Any = None, weights: Any = None) -> Tensor:
    """Return the weighted mean over axes."""
    if weights is None:
        return pg.mean(promoted(x, to=(float,))[0], axis=axis)
    x, weights = promoted(x, weights, to=(float,))
    if weights.shape != x.shape:
        axes = () if axis is None else _axes(axis, x.ndim)
        if len(axes) != 1 or weights.shape != (x.shape[axes[0]],):
            raise ValueError(
                f"`weights` of shape {weights.shape} do not fit `x` of shape "
                f"{x.shape} and axis={axis}: pass weights of the same shape, or as "
                "many as there are elements along one axis"
            )
        shape = [n if one in axes else 1 for one, n in enumerate(x.shape)]
        weights = pg.broadcast_to(pg.reshape(weights, shape), x.shape)
    return pg.sum(x * weights, axis=axis) / pg.sum(weights, axis=axis)


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Tensor:
    """Return the integral along an axis by the trapezoidal rule."""
    y = pg.moveaxis(promoted(y, to=(float,))[0], axis, -1)
    if x is None:
        widths = convert_to_tensor(dx, dtype=y.dtype)
    else:
        points = convert_to_tensor(x, dtype=y.dtype)
        widths = pg.diff(points if points.ndim == 1 else pg.moveaxis(points, axis, -1))
    return pg.sum((y[..., 1:] + y[..., :-1]) * widths, axis=-1) / 2


def searchsorted(sorted_sequence: Any, values: Any, side: Any = "left") -> Tensor:
    """Return the indices at which inserting values keeps a sequence sorted."""
    sequence, values = promoted(sorted_sequence, values)
    if sequence.ndim != 1:
        raise ValueError(
            "searchsorted only supports 1-D sorted sequences. Use "
            "keras.ops.vectorized_map to extend to N-D sequences. Received: "
            f"sorted_sequence.shape={sequence.shape}"
        )
    return pg.searchsorted(sequence, values, side=side)


def digitize(x: Any, bins: Any) -> Tensor:
    """Return the number of the bin of each element; ``bins`` are ascending edges."""
    x, edges = promoted(x, bins)
    if edges.ndim != 1:
        raise ValueError(
            f"`bins` must be a 1D array. Received: bins={bins} with shape "
            f"bins.shape={edges.shape}"
        )
    return pg.searchsorted(edges, x, side="right")


def bincount(
    x: Any, weights: Any = None, minlength: int = 0, sparse: bool = False
) -> Tensor:
    """Return how often each number occurs along the last axis, or sums of weights.

    The number of counts depends on the greatest element, which is read.
    """
    if sparse:
        raise ValueError("sparse=True: keras-plugrad has no sparse tensors")
    x = convert_to_tensor(x)
    if weights is not None:
        weights = promoted(x, weights)[1]
    x = pg.astype(x, "int32")
    size = max(int(pg.max(x)) + 1 if x.size else 0, int(minlength))
    counts = pg.dense_bincount(x, size=size, weights=weights)
    return counts if weights is None else pg.astype(counts, weights.dtype)


def histogram(x: Any, bins: int = 10, range: Any = None) -> tuple[Tensor, Tensor]:
    """Return how many elements are in each of equal bins, and the edges of the bins."""
    x = convert_to_tensor(x)
    values = pg.reshape(floating(x), (-1,))
    first, last = _limits(values, range)
    share = convert_to_tensor(np.arange(bins + 1) / max(bins, 1), dtype=values.dtype)
    edges = pg.where(share == 1, last, first + (last - first) * share)
    place = pg.searchsorted(edges, values, side="right") - 1
    place = pg.where(values == last, bins - 1, place)  # the last bin includes its end
    counts = pg.bincount(place, size=bins)
    return pg.astype(counts, x.dtype) if pg.isdtype(x.dtype, FLOATS) else counts, edges


def _limits(x: Tensor, range: Any) -> tuple[Tensor, Tensor]:
    """Return the first and the last edge of a histogram, which differ."""
    if range:
        first, last = [convert_to_tensor(end, dtype=x.dtype) for end in range]
    elif x.size:
        first, last = pg.min(x), pg.max(x)
    else:
        first, last = pg.zeros((), dtype=x.dtype), pg.ones((), dtype=x.dtype)
    margin = pg.astype(first == last, x.dtype) / 2
    return first - margin, last + margin


def _wide(x: Any) -> Tensor:
    """Return ``x`` as a floating tensor; int64 becomes float64, as in NumPy."""
    x = convert_to_tensor(x)
    return pg.astype(x, "float64") if x.dtype.name == "int64" else floating(x)


def cov(x: Any) -> Tensor:
    """Return the covariances of the rows, or the variance of a single one."""
    x = _wide(x)
    covariances = pg.cov(x)
    return pg.reshape(covariances, ()) if covariances.size == 1 else covariances


def corrcoef(x: Any) -> Tensor:
    """Return the correlations of the rows."""
    return pg.corrcoef(_wide(x))


def correlate(x1: Any, x2: Any, mode: str = "valid") -> Tensor:
    """Return the sums of products of one vector and shifted copies of another."""
    a, b = promoted(x1, x2)
    if a.ndim != 1 or b.ndim != 1:
        raise ValueError(
            f"x1.shape={a.shape}, x2.shape={b.shape}: pass two vectors, not matrices"
        )
    if not pg.isdtype(a.dtype, FLOATS):
        a, b = pg.astype(a, config.floatx()), pg.astype(b, config.floatx())
    is_swapped = a.size < b.size
    long, short = (b, a) if is_swapped else (a, b)
    n = short.size
    margins = {"valid": (0, 0), "same": (n // 2, n - 1 - n // 2), "full": (n - 1,) * 2}
    if mode not in margins:
        raise ValueError(f"mode={mode!r}: choose one of {', '.join(margins)}")
    signal = pg.reshape(long, (1, -1, 1))
    kernel = pg.reshape(pg.conj(short), (-1, 1, 1))
    found = pg.reshape(pg.conv1d(signal, kernel, pad=[margins[mode]]), (-1,))
    return pg.flip(pg.conj(found)) if is_swapped else found


def unique(
    x: Any,
    sorted: bool = True,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """Return unique elements or slices, and what else is asked for.

    If ``size`` exceeds their number, the first index and counts of 0 fill the rest.
    """
    x = convert_to_tensor(x)
    if size is not None and axis is None and x.size:
        values, index, inverse, counts = _unique_of_size(x, size, fill_value)
    else:
        found = pg.unique_all(x, axis=axis, sorted=sorted)
        values, index, inverse, counts = found
        if size is not None:
            fill = 0 if fill_value is None else fill_value
            values = _resized(values, size, axis or 0, fill)
            counts = _resized(counts, size, 0, 0)
            places = [k if k < index.size else 0 for k in range(size)]
            index = pg.take(index if index.size else counts, places, axis=0)
    asked = [(True, values), (return_index, index)]
    asked += [(return_inverse, inverse), (return_counts, counts)]
    results = [result for is_asked, result in asked if is_asked]
    return results[0] if len(results) == 1 else tuple(results)


def _resized(x: Tensor, size: int, axis: int, fill: Any) -> Tensor:
    """Return ``x`` cut or filled to a size along an axis."""
    x = pg.moveaxis(x, axis, 0)[:size]
    margins = [(0, size - x.shape[0])] + [(0, 0)] * (x.ndim - 1)
    return pg.moveaxis(pg.pad(x, margins, constant_values=fill), 0, axis)


def _unique_of_size(
    x: Tensor, size: int, fill: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return what ``unique`` returns, with ``size`` values; no value is read."""
    flat = pg.reshape(x, (-1,))
    order = pg.argsort(flat)
    ascending = pg.take(flat, order, axis=0)
    is_new = pg.astype(ascending[1:] != ascending[:-1], "int32")
    group = pg.pad(pg.cumulative_sum(is_new, axis=0), [(1, 0)])
    inverse = pg.scatter_nd(pg.expand_dims(order, axis=1), group, flat.shape)
    wanted = pg.arange(size, dtype="int32")
    begin = pg.searchsorted(group, wanted)
    count = pg.searchsorted(group, wanted, side="right") - begin
    is_found = count > 0
    begin = pg.minimum(begin, flat.size - 1)
    padding = pg.full((), 0 if fill is None else fill, dtype=x.dtype)
    values = pg.where(is_found, pg.take(ascending, begin, axis=0), padding)
    index = pg.where(is_found, pg.take(order, begin, axis=0), order[0])
    return values, index, pg.reshape(inverse, x.shape), count
