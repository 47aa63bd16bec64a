"""Sums and products up to each element, and counting.

Kernels: ``Bincount Cumprod Cumsum DenseBincount``.

Map: cumulative sums and products; differences; counting; running means.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from plugrad.engine.dispatch import run
from plugrad.registry.contract import Kernel, Spec, decomposition, gradients
from plugrad.tensor.arguments import flag, integer, misfit, sizes
from plugrad.tensor.dtypes import BOOL, INT32, DType
from plugrad.tensor.tensor import Tensor, TensorLike

from . import _convert, binary, compare, creation, gather, reduce, slicing
from . import shape as shapes

__all__ = [
    "bincount",
    "confusion_matrix",
    "cumulative_prod",
    "cumulative_sum",
    "dense_bincount",
    "diff",
    "moving_average",
]

# --- cumulative sums and products ------------------------------------------------


def _along(op: str) -> Callable[..., Spec]:
    """Return the rule of a kernel that goes along one axis."""

    def out(x: Spec, *, axis: int, **_: bool) -> Spec:
        if axis not in range(len(x.shape)):
            raise misfit(op, f"there is no axis {axis}", x)
        return x

    return out


CUMSUM = Kernel(
    "Cumsum(x: number; axis: axis, exclusive: bool, reverse: bool)",
    out=_along("cumulative_sum"),
    op="cumulative_sum",
    doc="""``y[i] = x[0] + … + x[i]`` along ``axis``, in the dtype of ``x``.

    ``exclusive`` leaves ``x[i]`` out: the first sum is 0. ``reverse`` sums from the
    end, ``x[i] + … + x[n-1]``. Integers wrap. NaN, and infinities of both signs, make
    all later sums NaN. float16 is summed in float32, or in a wider dtype.""",
)


def cumulative_sum(
    x: TensorLike,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    include_initial: bool = False,
    exclusive: bool = False,
    reverse: bool = False,
) -> Tensor:
    """Return the sums ``x[0] + … + x[i]`` along ``axis``.

    Bool and integers of less than 32 bits give int32 (unsigned ones uint32).

    Args:
        x: One axis or more.
        axis: May be left out where there is only one.
        dtype: Cast ``x`` to it first; it is then that of the sums, which may wrap.
        include_initial: Begin with the sum of nothing, 0: one element more.
        exclusive: Leave ``x[i]`` out of its sum, so that the first one is 0.
        reverse: Sum from the end: ``x[i] + … + x[n-1]``; what begins is then last.

    Raises:
        ValueError: The axis is missing or out of range, or ``include_initial`` and
            ``exclusive`` are both given.
        TypeError: Strings.

    """
    return _cumulative(CUMSUM, x, axis, dtype, include_initial, exclusive, reverse)


def _cumulative(
    kernel: Kernel,
    x: TensorLike,
    axis: int | None,
    dtype: Any,
    include_initial: bool,
    exclusive: bool,
    reverse: bool,
) -> Tensor:
    op = kernel.op
    x = reduce._summand(x, dtype, op)
    if axis is None and len(x.shape) != 1:
        raise ValueError(f"{op}: shape {x.shape} has not one axis; say which, axis=")
    axis = shapes._axis(op, 0 if axis is None else axis, len(x.shape))
    include_initial = flag(op, "include_initial", include_initial)
    exclusive, reverse = flag(op, "exclusive", exclusive), flag(op, "reverse", reverse)
    if include_initial and exclusive:
        raise ValueError(f"{op}: include_initial and exclusive begin empty; use one")
    if include_initial:
        x = _padded(x, axis, 0 if kernel is CUMSUM else 1, 1, reverse)
    return run(kernel, x, axis=axis, exclusive=exclusive, reverse=reverse)


def _padded(x: Tensor, axis: int, value: int, count: int, behind: bool) -> Tensor:
    """Add elements along one axis, before or behind it."""
    pairs = [(0, 0)] * len(x.shape)
    pairs[axis] = (0, count) if behind else (count, 0)
    return slicing.pad(x, pairs, constant_values=value)


def _scan(combine: Kernel, nothing: int) -> Callable[..., Tensor]:
    """Return what combines with the element 1, 2, 4, … before: log2(n) rounds.

    Sums of 2, 4, … neighbours may overflow though no sum from the beginning does.
    """

    def scan(x: Tensor, *, axis: int, exclusive: bool, reverse: bool) -> Tensor:
        n, step = x.shape[axis], 1
        y = reduce.widened(x)

        def moved(y: Tensor, by: int) -> Tensor:
            y = _padded(y, axis, nothing, by, reverse)
            return slicing.along(y, axis, by if reverse else 0, n)

        if exclusive:
            y = moved(y, 1)
        while step < n:
            y = run(combine, y, moved(y, step))
            step *= 2
        return creation.cast(y, x.dtype)

    return scan


decomposition(CUMSUM, _scan(binary.ADD, 0))


def _sum_back(dy: Tensor, axis: int, exclusive: bool, reverse: bool) -> Tensor:
    return run(CUMSUM, dy, axis=axis, exclusive=exclusive, reverse=not reverse)


gradients(CUMSUM, x=_sum_back)


CUMPROD = Kernel(
    "Cumprod(x: number; axis: axis, exclusive: bool, reverse: bool)",
    out=_along("cumulative_prod"),
    op="cumulative_prod",
    doc="""``y[i] = x[0] · … · x[i]`` along ``axis``, in the dtype of ``x``.

    ``exclusive`` leaves ``x[i]`` out: the first product is 1. ``reverse`` multiplies
    from the end. Integers wrap. NaN makes all later products NaN. float16 is multiplied
    in float32, or in a wider dtype.""",
)


def cumulative_prod(
    x: TensorLike,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    include_initial: bool = False,
    exclusive: bool = False,
    reverse: bool = False,
) -> Tensor:
    """Return the products ``x[0] · … · x[i]`` along ``axis``.

    The product of nothing is 1; all else is as in ``cumulative_sum``. Zeros among the
    elements do no harm to the gradient.
    """
    return _cumulative(CUMPROD, x, axis, dtype, include_initial, exclusive, reverse)


# And no gradient: that of the parts never divides
decomposition(CUMPROD, _scan(binary.MULTIPLY, 1))


# --- differences -----------------------------------------------------------------


def diff(
    x: TensorLike,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: TensorLike | None = None,
    append: TensorLike | None = None,
) -> Tensor:
    """Return the differences ``x[i+1] - x[i]`` along ``axis``, ``n`` times over.

    ``prepend`` and ``append``, of the rank of ``x``, are joined to it before; each time
    there is one element less. Integers wrap; bool has no differences (TypeError).
    """
    x = _convert.asarray(x)
    axis = shapes._axis("diff", axis, len(x.shape))
    times = integer("diff", "n", n, 0)
    parts = [part for part in (prepend, x, append) if part is not None]
    y = shapes.concat(parts, axis=axis) if len(parts) > 1 else x
    if y.dtype is BOOL:
        raise TypeError("diff: is not defined for bool; use not_equal, or astype")
    for _ in range(min(times, y.shape[axis])):  # then there is nothing left
        size = y.shape[axis] - 1
        y = slicing.along(y, axis, 1, size) - slicing.along(y, axis, 0, size)
    return creation.identity(x) if y is x else y


# --- counting --------------------------------------------------------------------


def _dtype(weights: Spec | Tensor | None) -> DType:
    """Return the dtype of sums of weights, or of counts."""
    return INT32 if weights is None else weights.dtype


def _fitting(op: str, x: Tensor | Spec, weights: Tensor | Spec | None) -> None:
    """Raise a ValueError unless there is one weight an element."""
    if weights is not None and weights.shape != x.shape:
        rule = f"weights {weights.shape} must have the shape of x, {x.shape}"
        raise ValueError(f"{op}: {rule}")


def _of_rows(x: Tensor | Spec) -> None:
    if not x.shape:
        raise ValueError("dense_bincount: x has no axes; it needs one or more")


def _summed(x: Spec, weights: Spec | None, *, size: int) -> Spec:
    _fitting("bincount", x, weights)
    return Spec((size,), _dtype(weights))


def _by_row(x: Spec, weights: Spec | None, *, size: int, **_: bool) -> Spec:
    _of_rows(x)
    _fitting("dense_bincount", x, weights)
    return Spec((*x.shape[:-1], size), _dtype(weights))


BINCOUNT = Kernel(
    "Bincount(x: int32 | int64, weights?: number; size: size)",
    out=_summed,
    op="bincount",
    doc="""How often 0, 1, …, ``size - 1`` are in ``x``; int32.

    With ``weights``, of the shape of ``x``, the sums of the weights of each number, in
    their dtype: integers wrap, and numbers that are not there give 0. Numbers that are
    negative, or ``size`` or more, are left out.""",
)


def bincount(
    x: TensorLike, /, *, weights: TensorLike | None = None, size: int | None = None
) -> Tensor:
    """Return how often 0, 1, …, ``size - 1`` are in ``x``; int32.

    With ``weights``, of the shape of ``x``, return the sum of the weights of each
    number in their dtype, int32 for bool. Numbers that are negative or too large are
    left out. Without ``size`` it is one more than the greatest number, read on the
    host.

    Raises:
        TypeError: ``x`` does not hold integers, or the weights are strings.
        ValueError: Shapes differ, or ``size`` is negative.

    """
    ids = _convert.integer_tensor("bincount", "x", x)
    weigh = _weights("bincount", weights, ids)
    if size is None:
        size = max(int(reduce.max(ids).item()) + 1, 0) if ids.size else 0
    return run(BINCOUNT, ids, weigh, size=integer("bincount", "size", size, 0))


def _weights(op: str, weights: TensorLike | None, x: Tensor) -> Tensor | None:
    if weights is None:
        return None
    w = _convert.numbers(op, weights)
    _fitting(op, x, w)
    return creation.cast(w, INT32) if w.dtype is BOOL else w


@decomposition(BINCOUNT)  # and no gradients: they are those of the parts
def _(x: Tensor, weights: Tensor | None, *, size: int) -> Tensor:
    ids = run(shapes.RESHAPE, x, shape=(x.size,))
    each = creation.ones(ids.shape, dtype=INT32) if weights is None else weights
    each = run(shapes.RESHAPE, each, shape=ids.shape)
    return run(gather.UNSORTED_SEGMENT_SUM, each, ids, num_segments=size)


DENSE_BINCOUNT = Kernel(
    "DenseBincount(x: int32 | int64, weights?: number; "
    "size: size, binary_output: bool)",
    out=_by_row,
    op="dense_bincount",
    doc="""``Bincount`` of each row of ``x``, its last axis: (…, ``size``).

    With ``binary_output`` 1 for numbers that are in the row and 0 for the others, in
    the dtype of the weights, or int32.""",
)


def dense_bincount(
    x: TensorLike,
    /,
    *,
    size: int,
    weights: TensorLike | None = None,
    binary_output: bool = False,
) -> Tensor:
    """Return ``bincount`` of each row of ``x``, its last axis: [..., ``size``].

    With ``binary_output`` 1 for the numbers that are there, and 0 for the others, in
    the dtype of the weights, or int32. ``x`` without axes is a ValueError; other errors
    are those of ``bincount``.
    """
    ids = _convert.integer_tensor("dense_bincount", "x", x)
    _of_rows(ids)
    weigh = _weights("dense_bincount", weights, ids)
    count = integer("dense_bincount", "size", size, 0)
    binary_output = flag("dense_bincount", "binary_output", binary_output)
    return run(DENSE_BINCOUNT, ids, weigh, size=count, binary_output=binary_output)


@decomposition(DENSE_BINCOUNT)  # and no gradients: they are those of the parts
def _(x: Tensor, weights: Tensor | None, *, size: int, binary_output: bool) -> Tensor:
    lead = x.shape[:-1]
    rows = math.prod(lead)
    kind = INT32 if rows * size < 2**31 else _convert.INT64
    starts = (np.arange(rows) * size).astype(kind).reshape(*lead, 1)
    ids = creation.cast(x, kind) + _convert.asarray(starts, copy=False)
    ids = compare.where((x >= 0) & (x < size), ids, -1)
    y = run(BINCOUNT, ids, None if binary_output else weights, size=rows * size)
    if binary_output:
        y = creation.cast(binary.minimum(y, 1), _dtype(weights))
    return run(shapes.RESHAPE, y, shape=(*lead, size))


def confusion_matrix(
    labels: TensorLike,
    predictions: TensorLike,
    /,
    num_classes: int,
    *,
    weights: TensorLike | None = None,
) -> Tensor:
    """Return how often class j was predicted where the label is class i; int32 [i, j].

    ``labels`` and ``predictions`` are classes, integers in one axis; examples of which
    one is out of range are left out. With ``weights``, one an example, return their
    sums in their dtype.

    Raises:
        TypeError: Classes that are not integers, or weights that are strings.
        ValueError: Shapes differ or have not one axis, or ``num_classes`` is negative.

    """
    op = "confusion_matrix"
    rows = _convert.integer_tensor(op, "labels", labels)
    columns = _convert.integer_tensor(op, "predictions", predictions)
    if len(rows.shape) != 1 or rows.shape != columns.shape:
        rule = "labels and predictions must have one axis of one size"
        raise misfit(op, rule, rows, columns)
    n, _ = sizes(op, (num_classes, num_classes), "num_classes")
    outside = [compare.logical_or(i < 0, i >= n) for i in (rows, columns)]
    kind = INT32 if n * n < 2**31 else _convert.INT64
    ids = creation.cast(rows, kind) * n + creation.cast(columns, kind)
    ids = compare.where(compare.logical_or(*outside), -1, ids)
    counts = run(BINCOUNT, ids, _weights(op, weights, ids), size=n * n)
    return run(shapes.RESHAPE, counts, shape=(n, n))


# --- running means ---------------------------------------------------------------


def moving_average(
    v: TensorLike,
    x: TensorLike,
    /,
    decay: TensorLike,
    *,
    step: TensorLike | None = None,
    zero_debias: bool = True,
) -> Tensor:
    """Return the running mean ``v`` with ``x`` taken in: ``v + (x - v)·(1 - decay)``.

    With ``zero_debias`` the change is divided by ``1 - decay^step``, so that a mean
    that began as 0 does not lean towards it. Integers give float32.

    Args:
        v: The mean up to now.
        x: The new value, of the same shape.
        decay: How much of ``v`` stays, from 0 to 1; less than 1 with ``zero_debias``.
        step: How many values have been taken in, this one included.
        zero_debias: See above; needs ``step``.

    Raises:
        ValueError: The shapes differ, or ``step`` is missing.

    """
    v, x = binary.floats("moving_average", v, x)
    if v.shape != x.shape:
        raise misfit("moving_average", "v and x must have the same shape", v, x)
    zero_debias = flag("moving_average", "zero_debias", zero_debias)
    if zero_debias and step is None:
        raise ValueError("moving_average: zero_debias needs step, the count of values")
    keep, count = _number(decay), None if step is None else _number(step)
    change = (x - v) * (1 - keep)
    return v + (change / (1 - keep**count) if zero_debias else change)


def _number(value: Any) -> Any:
    """Return a number of Python's as it is: it is more precise than a tensor."""
    return value if isinstance(value, float | int) else _convert.asarray(value)
