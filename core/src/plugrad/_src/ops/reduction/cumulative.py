"""Cumulative sums and products, differences, and counting.

Kernels: ``Bincount Cumprod Cumsum DenseBincount``.

Contents: cumulative sums and products; cumulative extremes and log-sum-exp;
differences; counting; moving averages.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Unpack

import numpy as np

from plugrad._src.engine.dispatch import run
from plugrad._src.engine.tape import alias
from plugrad._src.ops.array import gather, ranges, slicing
from plugrad._src.ops.basis import _convert, binary, compare, creation, reduce, unary
from plugrad._src.ops.basis import shape as shapes
from plugrad._src.registry.contract import Kernel, Spec, decomposition, gradients
from plugrad._src.tensor.arguments import finite, flag, integer, misfit, sizes
from plugrad._src.tensor.dtypes import BOOL, INT32, DType
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike

__all__ = [
    "bincount",
    "confusion_matrix",
    "cumulative_logsumexp",
    "cumulative_max",
    "cumulative_min",
    "cumulative_prod",
    "cumulative_sum",
    "dense_bincount",
    "diff",
    "moving_average",
]

# --- cumulative sums and products ------------------------------------------------


def _axis_rule(op: str) -> Callable[..., Spec]:
    """Return the shape rule of a kernel that works along one axis."""

    def out(x: Spec, *, axis: int, **_: bool) -> Spec:
        if axis not in range(len(x.shape)):
            raise misfit(op, f"there is no axis {axis}", x)
        return x

    return out


CUMSUM = Kernel(
    "Cumsum(x: number; axis: axis, exclusive: bool, reverse: bool)",
    out=_axis_rule("cumulative_sum"),
    op="cumulative_sum",
    doc="""``y[i] = x[0] + … + x[i]`` along ``axis``, in the dtype of ``x``.

    ``exclusive`` leaves ``x[i]`` out of its sum, so that the first sum is 0.
    ``reverse`` sums from the end, ``x[i] + … + x[n-1]``. Integers wrap. All sums after
    a NaN, or after infinities of both signs, are NaN. float16 is summed in float32, or
    in a wider dtype.""",
)


def cumulative_sum(
    x: TensorLike,
    /,
    axis: int | None = None,
    *,
    dtype: Any = None,
    include_initial: bool = False,
    exclusive: bool = False,
    reverse: bool = False,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the sums ``x[0] + … + x[i]`` along an axis.

    All sums after a NaN, or after infinities of both signs, are NaN. Integers wrap;
    float16 is summed in float32.

    Args:
        x: A tensor of numbers or bool with at least one axis.
        axis: The axis of the scan; it may be None if ``x`` has only one.
        dtype: The dtype of the sums, to which ``x`` is cast first. By default the dtype
            of ``x``; bool and integers of fewer than 32 bits become int32, or uint32 if
            unsigned.
        include_initial: Whether to begin with an additional element 0, the empty sum.
        exclusive: Whether to leave ``x[i]`` out of its sum, so that the first sum is 0.
        reverse: Whether to sum from the end: ``x[i] + … + x[n-1]``. The empty sum then
            comes last.

    Returns:
        A tensor of the shape of ``x``, with one more element along ``axis`` if
        ``include_initial`` is True.

    Raises:
        ValueError: The axis is missing or out of range, or ``include_initial`` and
            ``exclusive`` are both True.
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.cumulative_sum([1, 2, 3, 4])
        Tensor([ 1,  3,  6, 10], dtype=int32, backend='cpu')
        >>> pg.cumulative_sum([1, 2, 3, 4], exclusive=True, reverse=True)
        Tensor([9, 7, 4, 0], dtype=int32, backend='cpu')

    Source:
        The array API standard; ``exclusive`` and ``reverse`` are those of ``tf.cumsum``
        in TensorFlow.js.

    """
    if unknown:
        raise unexpected(cumulative_sum, unknown)
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
    axis = _only_axis(op, x, axis)
    include_initial = flag(op, "include_initial", include_initial)
    exclusive, reverse = flag(op, "exclusive", exclusive), flag(op, "reverse", reverse)
    if include_initial and exclusive:
        raise ValueError(f"{op}: include_initial and exclusive are both True; use one")
    if include_initial:
        x = _pad_axis(x, axis, 0 if kernel is CUMSUM else 1, 1, reverse)
    return run(kernel, x, axis=axis, exclusive=exclusive, reverse=reverse)


def _only_axis(op: str, x: Tensor, axis: int | None) -> int:
    """Return the axis, which is optional if there is only one."""
    if axis is None and len(x.shape) != 1:
        raise ValueError(f"{op}: x of shape {x.shape} must have one axis; give axis")
    return shapes._axis(op, 0 if axis is None else axis, len(x.shape))


def _pad_axis(x: Tensor, axis: int, value: int, count: int, at_end: bool) -> Tensor:
    """Add elements along one axis, at its end or at its start."""
    pairs = [(0, 0)] * len(x.shape)
    pairs[axis] = (0, count) if at_end else (count, 0)
    return slicing.pad(x, pairs, constant_values=value)


def _scan(combine: Kernel, identity_element: int) -> Callable[..., Tensor]:
    """Return a decomposition: a scan by doubling, in log2(n) rounds.

    Sums of 2, 4, … neighbors may overflow even if no sum from the beginning does. The
    identity element only fills the first element of an exclusive scan. It is not
    combined with other elements, because 1 times a complex infinity is NaN.
    """

    def scan(x: Tensor, *, axis: int, exclusive: bool, reverse: bool) -> Tensor:
        y, step = reduce.widened(x), 1
        if exclusive and x.shape[axis]:
            y = slicing.along(y, axis, int(reverse), x.shape[axis] - 1)
        n = y.shape[axis]
        while step < n:
            ends = [slicing.along(y, axis, i, n - step) for i in (0, step)]
            near, far = ends if reverse else ends[::-1]
            done = slicing.along(y, axis, n - step if reverse else 0, step)
            pieces = [run(combine, near, far), done]
            y = shapes.concat(pieces if reverse else pieces[::-1], axis=axis)
            step *= 2
        if n < x.shape[axis]:
            y = _pad_axis(y, axis, identity_element, 1, reverse)
        return creation.cast(y, x.dtype)

    return scan


decomposition(CUMSUM, _scan(binary.ADD, 0))


def _sum_gradient(dy: Tensor, axis: int, exclusive: bool, reverse: bool) -> Tensor:
    return run(CUMSUM, dy, axis=axis, exclusive=exclusive, reverse=not reverse)


gradients(CUMSUM, x=_sum_gradient)


CUMPROD = Kernel(
    "Cumprod(x: number; axis: axis, exclusive: bool, reverse: bool)",
    out=_axis_rule("cumulative_prod"),
    op="cumulative_prod",
    doc="""``y[i] = x[0] · … · x[i]`` along ``axis``, in the dtype of ``x``.

    ``exclusive`` leaves ``x[i]`` out: the first product is 1. ``reverse`` multiplies
    from the end. Integers wrap. All products after a NaN are NaN. float16 is multiplied
    in float32, or in a wider dtype. The first product is the first factor, even if that
    is a complex infinity; a factor 1+0j would give NaN.""",
)


def cumulative_prod(
    x: TensorLike,
    /,
    axis: int | None = None,
    *,
    dtype: Any = None,
    include_initial: bool = False,
    exclusive: bool = False,
    reverse: bool = False,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the products ``x[0] · … · x[i]`` along an axis.

    NaN makes all later products NaN. The gradient is also correct where elements are 0.
    Integers wrap; float16 is multiplied in float32.

    Args:
        x: A tensor of numbers or bool with at least one axis.
        axis: The axis of the scan; it may be None if ``x`` has only one.
        dtype: The dtype of the products, to which ``x`` is cast first. By default the
            dtype of ``x``; bool and integers of fewer than 32 bits become int32, or
            uint32 if unsigned.
        include_initial: Whether to begin with an additional element 1, the empty
            product.
        exclusive: Whether to leave ``x[i]`` out of its product, so that the first one
            is 1.
        reverse: Whether to multiply from the end: ``x[i] · … · x[n-1]``. The empty
            product then comes last.

    Returns:
        A tensor of the shape of ``x``, with one more element along ``axis`` if
        ``include_initial`` is True.

    Raises:
        ValueError: The axis is missing or out of range, or ``include_initial`` and
            ``exclusive`` are both True.
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.cumulative_prod([1, 2, 3, 4])
        Tensor([ 1,  2,  6, 24], dtype=int32, backend='cpu')

    Source:
        The array API standard; ``exclusive`` and ``reverse`` are those of
        ``tf.cumprod`` in TensorFlow.js.

    """
    if unknown:
        raise unexpected(cumulative_prod, unknown)
    return _cumulative(CUMPROD, x, axis, dtype, include_initial, exclusive, reverse)


# No gradient here: the gradients of the decomposition are used, which never divide.
decomposition(CUMPROD, _scan(binary.MULTIPLY, 1))


# --- cumulative extremes, and logarithms of sums ---------------------------------


def cumulative_max(
    x: TensorLike,
    /,
    axis: int | None = None,
    *,
    reverse: bool = False,
    **unknown: Unpack[Nothing],
) -> tuple[Tensor, Tensor]:
    """Return the maxima of ``x[0], …, x[i]`` along an axis, and their indices.

    If several elements are equal, the index is that of the last one. NaN makes all
    later maxima NaN, and the index is that of the last NaN. The cotangent of a maximum
    flows to the element at its index.

    Args:
        x: A tensor of real numbers or bool with at least one axis.
        axis: The axis of the scan; it may be None if ``x`` has only one.
        reverse: Whether to start at the end: the maxima of ``x[n-1], …, x[i]``.

    Returns:
        The maxima, of the shape and dtype of ``x``, and int32 indices along the axis.

    Raises:
        ValueError: The axis is missing or out of range.
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> values, indices = pg.cumulative_max([1, 3, 2, 3, 5])
        >>> values.tolist(), indices.tolist()
        ([1, 3, 3, 3, 5], [0, 1, 1, 3, 4])

    Source:
        ``torch.cummax``.

    """
    if unknown:
        raise unexpected(cumulative_max, unknown)
    return _run_extremes("cumulative_max", compare.GREATER_EQUAL, x, axis, reverse)


def cumulative_min(
    x: TensorLike,
    /,
    axis: int | None = None,
    *,
    reverse: bool = False,
    **unknown: Unpack[Nothing],
) -> tuple[Tensor, Tensor]:
    """Return the minima of ``x[0], …, x[i]`` along an axis, and their indices.

    If several elements are equal, the index is that of the last one. NaN makes all
    later minima NaN, and the index is that of the last NaN. The cotangent of a minimum
    flows to the element at its index.

    Args:
        x: A tensor of real numbers or bool with at least one axis.
        axis: The axis of the scan; it may be None if ``x`` has only one.
        reverse: Whether to start at the end: the minima of ``x[n-1], …, x[i]``.

    Returns:
        The minima, of the shape and dtype of ``x``, and int32 indices along the axis.

    Raises:
        ValueError: The axis is missing or out of range.
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> values, indices = pg.cumulative_min([4, 3, 5, 3, 1])
        >>> values.tolist(), indices.tolist()
        ([4, 3, 3, 3, 1], [0, 1, 1, 3, 4])

    Source:
        ``torch.cummin``.

    """
    if unknown:
        raise unexpected(cumulative_min, unknown)
    return _run_extremes("cumulative_min", compare.LESS_EQUAL, x, axis, reverse)


def cumulative_logsumexp(
    x: TensorLike,
    /,
    axis: int | None = None,
    *,
    reverse: bool = False,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``log(e^x[0] + … + e^x[i])`` along an axis, without overflow.

    NaN makes all later results NaN. float16 is computed in float32.

    Args:
        x: A tensor of real numbers with at least one axis.
        axis: The axis of the scan; it may be None if ``x`` has only one.
        reverse: Whether to sum from the end: ``e^x[i] + … + e^x[n-1]``.

    Returns:
        A tensor of the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        ValueError: The axis is missing or out of range.
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> pg.cumulative_logsumexp([1000.0, 1000.0, -np.inf])
        Tensor([1000.    , 1000.6932, 1000.6932], dtype=float32, backend='cpu')

    Source:
        ``torch.logcumsumexp``, and ``tf.math.cumulative_logsumexp`` in TensorFlow.

    """
    if unknown:
        raise unexpected(cumulative_logsumexp, unknown)
    op = "cumulative_logsumexp"
    x = _convert.floating(op, x, "f")
    axis, reverse = _only_axis(op, x, axis), flag(op, "reverse", reverse)
    combine = lambda a, b: (binary.logaddexp(*a, *b),)
    (y,) = _scan_all((reduce.widened(x),), combine, axis, reverse)
    return creation.cast(y, x.dtype)


Parts = tuple[Tensor, ...]


def _run_extremes(
    op: str, wins: Kernel, x: TensorLike, axis: int | None, reverse: bool
) -> tuple[Tensor, Tensor]:
    """Find the indices, as constants; the gradient flows through the values."""
    x = _convert.real(op, x)
    axis, reverse = _only_axis(op, x, axis), flag(op, "reverse", reverse)
    line = [1] * len(x.shape)
    line[axis] = x.shape[axis]
    places = ranges.arange(x.shape[axis], dtype=INT32)
    places = run(shapes.RESHAPE, places, shape=tuple(line))
    places = run(shapes.BROADCAST_TO, places, shape=x.shape)

    def combine(before: Parts, after: Parts) -> Parts:
        later = run(wins, after[0], before[0])
        later = compare.logical_or(later, unary.isnan(after[0]))
        pairs = zip(after, before, strict=True)
        return tuple([compare.where(later, a, b) for a, b in pairs])

    constant = creation.cast(x, INT32) if x.dtype is BOOL else alias(x)
    _, places = _scan_all((constant, places), combine, axis, reverse)
    return gather.take_along_axis(x, places, axis=axis), places


def _scan_all(
    parts: Parts, combine: Callable[[Parts, Parts], Parts], axis: int, reverse: bool
) -> Parts:
    """Return the scan of ``parts`` under ``combine``, by doubling in log2(n) rounds.

    ``parts`` are tensors of the same shape. ``combine`` maps two tuples of such
    tensors, earlier and later elements, to one.
    """
    size, step = parts[0].shape[axis], 1
    if reverse:
        parts = tuple([shapes.flip(x, axis=axis) for x in parts])
    while step < size:
        head, before, after = (
            tuple([slicing.along(x, axis, begin, count) for x in parts])
            for begin, count in ((0, step), (0, size - step), (step, size - step))
        )
        joined = zip(head, combine(before, after), strict=True)
        parts = tuple([shapes.concat(pair, axis=axis) for pair in joined])
        step *= 2
    return tuple([shapes.flip(x, axis=axis) for x in parts]) if reverse else parts


# --- differences -----------------------------------------------------------------


def diff(
    x: TensorLike,
    /,
    n: int = 1,
    axis: int = -1,
    *,
    prepend: TensorLike | None = None,
    append: TensorLike | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the differences ``x[i+1] - x[i]`` along an axis, taken ``n`` times.

    Integers wrap.

    Args:
        x: A tensor of numbers with at least one axis.
        n: How many times to take differences; each time removes one element. If it is
            0, the result is ``x``, without ``prepend`` and ``append``.
        axis: The axis along which to take differences.
        prepend: A tensor of the rank of ``x`` to concatenate before it, or None.
        append: A tensor of the rank of ``x`` to concatenate after it, or None.

    Returns:
        A tensor of the promoted dtype.

    Raises:
        ValueError: ``n`` is negative, the axis is out of range, or the shapes are
            incompatible.
        TypeError: The promoted dtype is bool or string.

    Example:
        >>> pg.diff([1, 4, 9, 16])
        Tensor([3, 5, 7], dtype=int32, backend='cpu')
        >>> pg.diff([1, 4, 9, 16], n=2)
        Tensor([2, 2], dtype=int32, backend='cpu')

    Source:
        The array API standard.

    """
    if unknown:
        raise unexpected(diff, unknown)
    x = _convert.asarray(x)
    axis = shapes._axis("diff", axis, len(x.shape))
    times = integer("diff", "n", n, 0)
    around = (prepend, x, append) if times else (x,)
    parts = [part for part in around if part is not None]
    y = shapes.concat(parts, axis=axis) if len(parts) > 1 else x
    if y.dtype is BOOL:
        raise TypeError("diff: is not defined for bool; use not_equal, or astype")
    for _ in range(min(times, y.shape[axis])):  # until the axis is empty
        size = y.shape[axis] - 1
        y = slicing.along(y, axis, 1, size) - slicing.along(y, axis, 0, size)
    return creation.identity(x) if y is x else y


# --- counting --------------------------------------------------------------------


def _dtype(weights: Spec | Tensor | None) -> DType:
    """Return the dtype of sums of weights, or int32 for counts."""
    return INT32 if weights is None else weights.dtype


def _check_weights(op: str, x: Tensor | Spec, weights: Tensor | Spec | None) -> None:
    """Raise unless ``weights`` have the shape of ``x``."""
    if weights is not None and weights.shape != x.shape:
        rule = f"weights {weights.shape} must have the shape of x, {x.shape}"
        raise ValueError(f"{op}: {rule}")


def _check_has_axes(x: Tensor | Spec) -> None:
    if not x.shape:
        raise ValueError("dense_bincount: x has no axes; it needs one or more")


def _bincount_spec(x: Spec, weights: Spec | None, *, size: int) -> Spec:
    _check_weights("bincount", x, weights)
    return Spec((size,), _dtype(weights))


def _rows_spec(x: Spec, weights: Spec | None, *, size: int, **_: bool) -> Spec:
    _check_has_axes(x)
    _check_weights("dense_bincount", x, weights)
    return Spec((*x.shape[:-1], size), _dtype(weights))


BINCOUNT = Kernel(
    "Bincount(x: int32 | int64, weights?: number; size: size)",
    out=_bincount_spec,
    op="bincount",
    doc="""How often each of 0, 1, …, ``size - 1`` occurs in ``x``; int32.

    With ``weights``, which have the shape of ``x``, the result is the sum of the
    weights of each number, in their dtype: integers wrap, and a number that does not
    occur gives 0. Negative numbers, and numbers of at least ``size``, are ignored.""",
)


def bincount(
    x: TensorLike,
    /,
    *,
    weights: TensorLike | None = None,
    size: int | None = None,
    minlength: int = 0,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return how often each of 0, 1, …, ``size - 1`` occurs in ``x``.

    Numbers that are negative or too large are ignored. Sums of integer weights wrap.

    Args:
        x: Integers of any shape.
        weights: A tensor of the shape of ``x``; the result is then the sum of the
            weights of each number.
        size: The number of counts. None means the greatest element of ``x`` plus one;
            that element is read on the host.
        minlength: The minimum number of counts if ``size`` is None.

    Returns:
        A tensor ``[size]``: int32 counts, or sums in the dtype of the weights (int32
        for bool).

    Raises:
        TypeError: ``x`` does not contain integers, or the weights are strings.
        ValueError: The shapes differ, ``size`` or ``minlength`` is negative, or both
            are given.

    Example:
        >>> pg.bincount([1, 1, 3])
        Tensor([0, 2, 0, 1], dtype=int32, backend='cpu')
        >>> pg.bincount([1, 1, 3], minlength=6)
        Tensor([0, 2, 0, 1, 0, 0], dtype=int32, backend='cpu')
        >>> pg.bincount([1, 1, 3], weights=[0.5, 1.5, 4.0], size=3)
        Tensor([0., 2., 0.], dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(bincount, unknown)
    ids = _convert.integer_tensor("bincount", "x", x)
    weight = _weights("bincount", weights, ids)
    least = integer("bincount", "minlength", minlength, 0)
    if size is None:
        size = max(int(reduce.max(ids)._item()) + 1, least) if ids.size else least
    elif least:
        raise ValueError(
            f"bincount: size {size} and minlength {least} are mutually exclusive; pass "
            "size for an exact number of counts, minlength for a minimum"
        )
    return run(BINCOUNT, ids, weight, size=integer("bincount", "size", size, 0))


def _weights(op: str, weights: TensorLike | None, x: Tensor) -> Tensor | None:
    if weights is None:
        return None
    w = _convert.numbers(op, weights)
    _check_weights(op, x, w)
    return creation.cast(w, INT32) if w.dtype is BOOL else w


@decomposition(BINCOUNT)  # also used for the gradient
def _(x: Tensor, weights: Tensor | None, *, size: int) -> Tensor:
    ids = run(shapes.RESHAPE, x, shape=(x.size,))
    each = creation.ones(ids.shape, dtype=INT32) if weights is None else weights
    each = run(shapes.RESHAPE, each, shape=ids.shape)
    return run(gather.UNSORTED_SEGMENT_SUM, each, ids, num_segments=size)


DENSE_BINCOUNT = Kernel(
    "DenseBincount(x: int32 | int64, weights?: number; "
    "size: size, binary_output: bool)",
    out=_rows_spec,
    op="dense_bincount",
    doc="""``Bincount`` of each row of ``x`` along the last axis: (…, ``size``).

    With ``binary_output``, the result is 1 for numbers that occur in the row and 0 for
    the others, in the dtype of the weights, or int32.""",
)


def dense_bincount(
    x: TensorLike,
    /,
    *,
    size: int,
    weights: TensorLike | None = None,
    binary_output: bool = False,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``bincount`` of each row of ``x`` along the last axis.

    Args:
        x: Integers ``[..., n]``.
        size: The number of counts in each row; numbers that are negative or too large
            are ignored.
        weights: A tensor of the shape of ``x``; the result is then the sum of the
            weights of each number.
        binary_output: Whether to return 1 for the numbers that occur and 0 for the
            others, in the dtype of the weights, or int32.

    Returns:
        A tensor ``[..., size]``: int32 counts, or sums in the dtype of the weights
        (int32 for bool).

    Raises:
        TypeError: ``x`` does not contain integers, or the weights are strings.
        ValueError: ``x`` has no axis, the shapes differ, or ``size`` is negative.

    Example:
        >>> pg.dense_bincount([[0, 0, 1], [2, 2, 2]], size=3)
        Tensor([[2, 1, 0],
                [0, 0, 3]], dtype=int32, backend='cpu')

    Source:
        The semantics are those of ``tf.denseBincount`` in TensorFlow.js.

    """
    if unknown:
        raise unexpected(dense_bincount, unknown)
    ids = _convert.integer_tensor("dense_bincount", "x", x)
    _check_has_axes(ids)
    weight = _weights("dense_bincount", weights, ids)
    count = integer("dense_bincount", "size", size, 0)
    binary_output = flag("dense_bincount", "binary_output", binary_output)
    return run(DENSE_BINCOUNT, ids, weight, size=count, binary_output=binary_output)


@decomposition(DENSE_BINCOUNT)  # also used for the gradient
def _(x: Tensor, weights: Tensor | None, *, size: int, binary_output: bool) -> Tensor:
    lead = x.shape[:-1]
    rows = math.prod(lead)
    kind = INT32 if rows * size < 2**31 else _convert.INT64
    starts = (np.arange(rows) * size).astype(kind).reshape(*lead, 1)
    ids = creation.cast(x, kind) + _convert.tensor_of(starts, copy=False)
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
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the confusion matrix: ``y[i, j]`` examples have label i and prediction j.

    Examples whose label or prediction is out of range are ignored.

    Args:
        labels: Integers ``[n]``.
        predictions: Integers ``[n]``.
        num_classes: The number of classes.
        weights: A tensor ``[n]``; the result is then the sum of the weights.

    Returns:
        A tensor ``[num_classes, num_classes]``: int32 counts, or sums in the dtype of
        the weights (int32 for bool).

    Raises:
        TypeError: Classes are not integers, or weights are strings.
        ValueError: The shapes differ or do not have one axis, or ``num_classes`` is
            negative.

    Example:
        >>> pg.confusion_matrix([0, 1, 1], [0, 1, 0], 2)
        Tensor([[1, 0],
                [1, 1]], dtype=int32, backend='cpu')

    Source:
        The semantics are those of ``tf.math.confusionMatrix`` in TensorFlow.js, with
        weights.

    """
    if unknown:
        raise unexpected(confusion_matrix, unknown)
    op = "confusion_matrix"
    rows = _convert.integer_tensor(op, "labels", labels)
    columns = _convert.integer_tensor(op, "predictions", predictions)
    if len(rows.shape) != 1 or rows.shape != columns.shape:
        rule = "labels and predictions must have one axis of the same size"
        raise misfit(op, rule, rows, columns)
    n, _ = sizes(op, (num_classes, num_classes), "num_classes")
    outside = [compare.logical_or(i < 0, i >= n) for i in (rows, columns)]
    kind = INT32 if n * n < 2**31 else _convert.INT64
    ids = creation.cast(rows, kind) * n + creation.cast(columns, kind)
    ids = compare.where(compare.logical_or(*outside), -1, ids)
    counts = run(BINCOUNT, ids, _weights(op, weights, ids), size=n * n)
    return run(shapes.RESHAPE, counts, shape=(n, n))


# --- moving averages -------------------------------------------------------------


def moving_average(
    v: TensorLike,
    x: TensorLike,
    /,
    decay: TensorLike,
    *,
    step: TensorLike | None = None,
    zero_debias: bool = True,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the moving average ``v`` updated by ``x``: ``v + (x - v)·(1 - decay)``.

    With ``zero_debias``, the change is divided by ``1 - decay^step``, so that an
    average that began at 0 is not biased toward 0.

    Args:
        v: The average so far.
        x: The new value, of the same shape.
        decay: The fraction of ``v`` to keep, from 0 to 1; less than 1 with
            ``zero_debias``.
        step: The number of values so far, including this one.
        zero_debias: Whether to correct the bias; requires ``step``.

    Returns:
        A tensor of the shape of ``v`` and the promoted dtype; float32 for integers.

    Raises:
        ValueError: The shapes differ, ``zero_debias`` is True and ``step`` is missing,
            or ``decay`` or ``step`` is a number out of range.
        TypeError: An argument contains strings.

    Example:
        >>> pg.moving_average([1.0, 2.0], [3.0, 4.0], 0.75, zero_debias=False)
        Tensor([1.5, 2.5], dtype=float32, backend='cpu')
        >>> pg.moving_average([0.0], [3.0], 0.75, step=1)
        Tensor([3.], dtype=float32, backend='cpu')

    Source:
        The semantics are those of ``tf.movingAverage`` in TensorFlow.js.

    """
    if unknown:
        raise unexpected(moving_average, unknown)
    v, x = binary.floats("moving_average", v, x)
    if v.shape != x.shape:
        raise misfit("moving_average", "v and x must have the same shape", v, x)
    zero_debias = flag("moving_average", "zero_debias", zero_debias)
    if zero_debias and step is None:
        raise ValueError("moving_average: zero_debias needs step, the count of values")
    _check_average(decay, step, zero_debias)
    keep = _number(decay)
    count = None if step is None else _number(step)
    change = (x - v) * (1 - keep)
    return v + (change / (1 - keep**count) if zero_debias else change)


def _check_average(decay: TensorLike, step: TensorLike | None, debias: bool) -> None:
    """Raise if ``decay`` or ``step`` is a Python number out of range."""
    if isinstance(decay, _convert.SCALARS):
        share = finite("moving_average", "decay", decay, least=0, most=1)
        if debias and share == 1:
            raise ValueError("moving_average: decay must be below 1 with zero_debias")
    if debias and isinstance(step, _convert.SCALARS):
        finite("moving_average", "step", step, least=1)


def _number(value: Any) -> Any:
    """Return a tensor; keep a Python number, because it is more precise."""
    return value if isinstance(value, float | int) else _convert.asarray(value)
