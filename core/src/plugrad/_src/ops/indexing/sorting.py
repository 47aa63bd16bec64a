"""Sorting elements. Kernels: ``Sort TopK``.

NaN counts as greater than every number; among equal elements, the one with the lower
index comes first.

Contents: the largest elements; sorting; quantiles (``median quantile``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Unpack

import numpy as np

from plugrad._src.engine.dispatch import run, run_many
from plugrad._src.ops.array import gather, rearrange, slicing
from plugrad._src.ops.basis import _convert, compare, creation, logic, reduce, unary
from plugrad._src.ops.basis import shape as shapes
from plugrad._src.registry.contract import Kernel, Spec, decomposition, gradients
from plugrad._src.tensor.arguments import Axis, choice, flag, integer, misfit
from plugrad._src.tensor.dtypes import BOOL, INT32, DType, dtype_kind
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike

__all__ = ["argsort", "in_top_k", "median", "quantile", "sort", "top_k"]

# --- the largest elements --------------------------------------------------------


def _top_k_spec(x: Spec, *, k: int, sorted: bool) -> tuple[Spec, Spec]:
    _check_k("top_k", x, k)
    sizes = (*x.shape[:-1], k)
    return Spec(sizes, x.dtype), Spec(sizes, INT32)


TOP_K = Kernel(
    "TopK(x: integer | floating; k: size, sorted: bool) -> values, indices",
    out=_top_k_spec,
    op="top_k",
    doc="""The ``k`` largest elements along the last axis, and their indices, int32.

    NaN is larger than every number, and -0.0 equals 0.0. Of equal elements, the one
    with the lower index is chosen first and comes first. If not ``sorted``, the
    elements are in the order of their indices.""",
)


def top_k(
    x: TensorLike, /, k: int, *, sorted: bool = True, **unknown: Unpack[Nothing]
) -> tuple[Tensor, Tensor]:
    """Return the ``k`` largest elements along the last axis, and their indices.

    NaN counts as the largest number, and the first of several equal elements is taken.
    The gradient flows to the elements that are returned.

    Args:
        x: A tensor of real numbers with at least one axis.
        k: The number of elements, from 0 to the size of the last axis.
        sorted: Whether to return them from the largest to the smallest; if False, they
            keep their order in ``x``.

    Returns:
        The elements, in the dtype of ``x``, and their indices, int32; both
        ``[..., k]``.

    Raises:
        ValueError: ``k`` is negative, or exceeds the size of the last axis.
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> values, indices = pg.top_k([3.0, 1.0, 4.0, 2.0], 2)
        >>> values.tolist(), indices.tolist()
        ([4.0, 3.0], [2, 0])

    """
    if unknown:
        raise unexpected(top_k, unknown)
    x = _convert.real("top_k", x)
    return _run_top_k(x, _check_k("top_k", x, k), flag("top_k", "sorted", sorted))


def _check_k(op: str, x: Spec | Tensor, k: int) -> int:
    """Return ``k``; raise unless it is from 0 to the size of the last axis."""
    count = integer(op, "k", k)
    if not x.shape or not 0 <= count <= x.shape[-1]:
        raise misfit(op, f"k {count} must be from 0 to the size of the last axis", x)
    return count


def _run_top_k(x: Tensor, k: int, sorted: bool) -> tuple[Tensor, Tensor]:
    """Run ``TopK``, converting bool to int32 and back."""
    y = creation.cast(x, INT32) if x.dtype is BOOL else x
    values, indices = run_many(TOP_K, y, k=k, sorted=sorted)
    return creation.cast(values, x.dtype), indices


def _top_k_gradient(
    dy: Tensor, dindices: Tensor, indices: Tensor, x_spec: Spec
) -> Tensor:
    last = len(x_spec.shape) - 1
    return gather._gather_gradient(dy, indices, x_spec, last, last)


gradients(TOP_K, x=_top_k_gradient)


def in_top_k(
    predictions: TensorLike, targets: TensorLike, /, k: int, **unknown: Unpack[Nothing]
) -> Tensor:
    """Return whether each target is among the ``k`` classes with the largest scores.

    If scores are equal, the one of the class with the lower number counts as larger.
    The result is False for a target that is not a class.

    Args:
        predictions: ``[..., classes]``, real numbers.
        targets: ``[...]``, integers.
        k: The number of classes to consider, from 0 to ``classes``.

    Returns:
        A bool tensor ``[...]``.

    Raises:
        ValueError: ``k`` is negative or exceeds the number of classes, or the shapes do
            not fit.
        TypeError: ``predictions`` are complex or strings, or ``targets`` are not
            integers.

    Example:
        >>> pg.in_top_k([[0.1, 0.6, 0.3], [0.5, 0.3, 0.2]], [2, 2], 2)
        Tensor([ True, False], dtype=bool, backend='cpu')

    """
    if unknown:
        raise unexpected(in_top_k, unknown)
    scores = _convert.real("in_top_k", predictions)
    classes = _convert.integer_tensor("in_top_k", "targets", targets)
    if not scores.shape or scores.shape[:-1] != classes.shape:
        rule = "targets must have the shape of predictions without the last axis"
        raise misfit("in_top_k", rule, classes, scores)
    _, best = _run_top_k(scores, _check_k("in_top_k", scores, k), False)
    hits = compare.equal(best, shapes.expand_dims(classes, axis=-1))
    return logic.any(hits, axis=-1)


# --- sorting ---------------------------------------------------------------------


def _sort_spec(x: Spec, *, axis: int, descending: bool) -> Spec:
    shapes.check_axis("sort", axis, len(x.shape))
    return x


SORT = Kernel(
    "Sort(x: bool | integer | floating; axis: axis, descending: bool)",
    out=_sort_spec,
    op="sort",
    doc="""The elements along ``axis`` in ascending, or ``descending``, order.

    NaN is larger than every number. Equal elements, such as 0.0 and -0.0, keep their
    order in ``x``.""",
)


def sort(
    x: TensorLike,
    /,
    axis: int = -1,
    *,
    descending: bool = False,
    stable: bool = True,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the elements in ascending order along ``axis``, NaN last.

    -0.0 and 0.0 are equal, and keep their order in ``x``.

    Args:
        x: A tensor of real numbers.
        axis: The axis to sort.
        descending: Whether to sort from the greatest to the least; NaN then comes
            first.
        stable: Has no effect: the order of equal elements is always kept. The argument
            exists for the array API standard.

    Returns:
        A tensor with the shape and dtype of ``x``.

    Raises:
        ValueError: ``axis`` is out of range.
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> pg.sort([3.0, 1.0, 2.0])
        Tensor([1., 2., 3.], dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(sort, unknown)
    x = _convert.real("sort", x)
    axis = shapes._axis("sort", axis, len(x.shape))
    return run(SORT, x, axis=axis, descending=flag("sort", "descending", descending))


# No gradient is registered: the decomposition contains TopK, whose gradient uses the
# indices that it returns.
decomposition(SORT, lambda x, axis, descending: _sort_by_top_k(x, axis, descending, 0))


def argsort(
    x: TensorLike,
    /,
    axis: int = -1,
    *,
    descending: bool = False,
    stable: bool = True,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the indices that sort ``x`` along ``axis``.

    Equal elements keep their order in both directions; NaN is greater than every
    number.

    Args:
        x: A tensor of real numbers.
        axis: The axis to sort.
        descending: Whether to sort from the greatest to the least.
        stable: Has no effect: the order of equal elements is always kept. The argument
            exists for the array API standard.

    Returns:
        An int32 tensor with the shape of ``x``.

    Raises:
        ValueError: ``axis`` is out of range.
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> pg.argsort([3.0, 1.0, 2.0])
        Tensor([1, 2, 0], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(argsort, unknown)
    x = _convert.real("argsort", x)
    axis = shapes._axis("argsort", axis, len(x.shape))
    indices = _sort_by_top_k(x, axis, flag("argsort", "descending", descending), 1)
    return indices if descending else (x.shape[axis] - 1) - indices


def _sort_by_top_k(x: Tensor, axis: int, descending: bool, output: int) -> Tensor:
    """Return values (output 0) or indices (output 1) of ``TopK`` along ``axis``.

    ``TopK`` sorts in descending order. For ascending order, both ``x`` and the result
    are reversed, so that equal elements keep their order; indices then count from the
    end.
    """
    last = len(x.shape) - 1
    order = (*[i for i in range(last + 1) if i != axis], axis)
    y = run(shapes.TRANSPOSE, x, axes=order) if axis != last else x
    y = y if descending else run(shapes.REVERSE, y, axis=(last,))
    y = _run_top_k(y, y.shape[-1], True)[output]
    y = y if descending else run(shapes.REVERSE, y, axis=(last,))
    return shapes._permute_back(y, order) if axis != last else y


# --- quantiles -------------------------------------------------------------------

Method = Literal["linear", "lower", "higher", "nearest", "midpoint"]
Shares = np.ndarray[Any, DType]

# For each method, a function that maps the exact position of a quantile among the
# sorted elements to the position to read.
_POSITIONS: dict[str, Callable[[Any], Any]] = {
    "linear": np.positive,
    "lower": np.floor,
    "higher": np.ceil,
    "nearest": np.rint,
    "midpoint": lambda place: (np.floor(place) + np.ceil(place)) / 2,
}


def median(
    x: TensorLike,
    /,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the median over ``axis``: the middle element, or the mean of two.

    The result is NaN where an element is NaN.

    Args:
        x: A tensor of real numbers.
        axis: The axes to reduce: an int, a sequence of ints, or None for all.
        keepdims: Whether to keep the reduced axes, with size 1.

    Returns:
        A tensor with the dtype of ``x``; float32 for integers and bool.

    Raises:
        ValueError: There are no elements, or an axis is out of range.
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> pg.median([1.0, 2.0, 4.0, 10.0])
        Tensor(3., dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(median, unknown)
    return _quantile("median", x, np.asarray(0.5), axis, keepdims, "linear")


def quantile(
    x: TensorLike,
    q: float | Sequence[float] | Shares,
    /,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    method: Method = "linear",
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the ``q``-quantile of the elements over ``axis``.

    The n sorted elements are the quantiles 0, 1/(n-1), …, 1. Between two of
    them, ``method`` determines the value. The result is NaN where an element is NaN.

    Args:
        x: A tensor of real numbers.
        q: Numbers from 0 to 1: a Python number, list or NumPy array. Its axes come
            first in the result.
        axis: The axes to reduce: an int, a sequence of ints, or None for all.
        keepdims: Whether to keep the reduced axes, with size 1.
        method: ``"linear"`` interpolates between the two neighbors, ``"lower"`` and
            ``"higher"`` take one of them, ``"nearest"`` takes the nearer one (the one
            with the even index if both are equally near), and ``"midpoint"`` takes
            their mean.

    Returns:
        A tensor with the dtype of ``x``; float32 for integers and bool.

    Raises:
        ValueError: ``q`` is not from 0 to 1, there are no elements, or an axis is out
            of range.
        TypeError: ``q`` does not contain real numbers, or ``x`` is complex or contains
            strings.

    Example:
        >>> pg.quantile([1.0, 2.0, 4.0, 10.0], [0.5, 1.0])
        Tensor([ 3., 10.], dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(quantile, unknown)
    try:
        shares = np.asarray(q)
    except ValueError:  # nested lists of different lengths
        shares = np.asarray(None)
    if dtype_kind(shares.dtype) not in "iuf":
        raise TypeError(f"quantile: q must be real numbers, got {q!r}")
    if not ((shares >= 0) & (shares <= 1)).all():
        raise ValueError(f"quantile: q must be from 0 to 1, got {q!r}")
    choice("quantile", "method", method, *_POSITIONS)
    return _quantile("quantile", x, shares, axis, keepdims, method)


def _quantile(
    op: str, x: TensorLike, q: Shares, axis: Axis, keepdims: bool, method: str
) -> Tensor:
    keepdims = flag(op, "keepdims", keepdims)
    x, axes = reduce._as_real(op, _convert.floating(op, x, "f"), axis)
    rest = [i for i in range(len(x.shape)) if i not in axes]
    sizes = tuple([x.shape[i] for i in rest])
    count = reduce.count(x, axes)
    y = run(shapes.TRANSPOSE, x, axes=(*rest, *axes))
    y = sort(run(shapes.RESHAPE, y, shape=(*sizes, count)))
    place = _POSITIONS[method](q.astype(np.float64) * (count - 1))
    low = np.floor(place)
    high = np.ceil(place)
    a, b = (gather.gather(y, i.astype(np.int32), axis=-1) for i in (low, high))
    share = _convert.asarray((place - low).astype(x.dtype))
    # The weighted sum of equal numbers would be rounded, and the difference of two
    # infinities is NaN.
    same = a + compare.where(unary.isinf(a), 0, b - a) * share
    between = compare.where(compare.equal(a, b), same, a * (1 - share) + b * share)
    last = slicing.along(y, len(rest), count - 1, 1)  # NaN if any element is NaN
    last = run(shapes.RESHAPE, last, shape=(*sizes, *[1] * q.ndim))
    y = compare.where(compare.equal(last, last), between, last)
    y = rearrange.moveaxis(y, range(len(rest), len(y.shape)), range(q.ndim))
    kept = [1 if i in axes else n for i, n in enumerate(x.shape)]
    return run(shapes.RESHAPE, y, shape=(*q.shape, *kept)) if keepdims else y
