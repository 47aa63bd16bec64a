"""Searching: positions in sorted sequences, unique elements, and masks.

Kernels: ``LowerBound SearchSorted Unique UpperBound``. Where elements are ordered, NaN
is greater than every number; where they are compared for equality, NaN equals nothing.
The shapes that ``unique_*``, ``boolean_mask`` and ``setdiff1d`` return depend on
values, so these ops wait until the values have been computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple, Unpack

from plugrad._src.engine.dispatch import run, run_many
from plugrad._src.ops.array import gather
from plugrad._src.ops.basis import _convert, binary, compare, creation
from plugrad._src.ops.basis import shape as shapes
from plugrad._src.ops.reduction import cumulative
from plugrad._src.registry.contract import Kernel, Spec, decomposition, gradients
from plugrad._src.tensor.arguments import choice, flag, misfit
from plugrad._src.tensor.dtypes import BOOL, INT32, dtype_kind
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import Shape

from . import indexing, sorting

__all__ = [
    "boolean_mask",
    "isin",
    "lower_bound",
    "searchsorted",
    "setdiff1d",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "upper_bound",
]

# --- positions in sorted sequences -----------------------------------------------

Side = Literal["left", "right"]


def _search_rule(op: str) -> Callable[..., Spec]:
    """Return the shape rule of a kernel that searches rows for values."""

    def out(sorted_sequence: Spec, values: Spec, **_: object) -> Spec:
        rows = [x.shape[:1] for x in (sorted_sequence, values) if len(x.shape) == 2]
        if len(rows) != 2 or rows[0] != rows[1]:
            rule = "there must be rows [batch, n] and values [batch, m]"
            raise misfit(op, rule, sorted_sequence, values)
        return Spec(values.shape, INT32)

    return out


_SORTED = "sorted_sequence: bool | integer | floating, values: sorted_sequence"
SEARCH_SORTED = Kernel(
    f"SearchSorted({_SORTED}; side: 'left' | 'right')",
    out=_search_rule("searchsorted"),
    op="searchsorted",
    doc="""The number of elements of row i that come before ``values[i, j]``; int32.

    These are the smaller elements if ``side`` is ``'left'``, and the elements that are
    not greater if it is ``'right'``. The rows ascend. NaN counts as greater than all
    numbers and as equal to NaN, so it comes at the end of a row. For a row that does
    not ascend, the result is any number from 0 to the size of the row.""",
)


def searchsorted(
    x1: TensorLike,
    x2: TensorLike,
    /,
    *,
    side: Side = "left",
    sorter: TensorLike | None = None,
) -> Tensor:
    """Return the indices at which inserting ``x2`` keeps ``x1`` sorted.

    ``"left"`` inserts before equal elements: for a value v, the index i satisfies
    ``x1[i-1] < v <= x1[i]``. ``"right"`` inserts after them: ``x1[i-1] <= v < x1[i]``.
    NaN is greater than every number.

    Args:
        x1: Ascending real numbers ``[n]``; or ``[..., n]`` with the leading axes of
            ``x2``, to search row by row.
        x2: The values to find: any shape if ``x1`` has one axis, else ``[..., m]``.
        side: ``"left"`` or ``"right"``.
        sorter: Indices that sort ``x1``, such as ``argsort`` returns, if it is not
            sorted.

    Returns:
        An int32 tensor with the shape of ``x2``.

    Raises:
        ValueError: The shapes do not fit, or ``side`` is unknown.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> pg.searchsorted([1.0, 3.0, 5.0], [0.0, 3.0, 9.0])
        Tensor([0, 1, 3], dtype=int32, backend='cpu')

    """
    choice("searchsorted", "side", side, "left", "right")
    if sorter is not None:
        x1 = _convert.asarray(x1)
        sorter = _convert.integer_tensor("searchsorted", "sorter", sorter)
        if sorter.shape != x1.shape:
            rule = "sorter must have the shape of x1, an index for each element"
            raise misfit("searchsorted", rule, sorter, x1)
        x1 = gather.take_along_axis(x1, sorter, axis=-1)
    return _search_rows(SEARCH_SORTED, x1, x2, side=side)


def _search_rows(
    kernel: Kernel, x1: TensorLike, x2: TensorLike, **side: Side
) -> Tensor:
    """Reshape to rows ``[batch, n]`` and values ``[batch, m]``, and run a kernel."""
    op = kernel.op
    x1, x2 = _convert.promote_all(op, x1, x2)
    lead = x1.shape[:-1]
    if not x1.shape or (lead and (not x2.shape or x2.shape[:-1] != lead)):
        rule = "x1 must have one axis, or the shape of x2 but for the last axis"
        raise misfit(op, rule, x1, x2)
    batch = math.prod(lead)
    rows = run(shapes.RESHAPE, _convert.real(op, x1), shape=(batch, x1.shape[-1]))
    count = x2.shape[-1] if lead else x2.size
    sought = run(shapes.RESHAPE, x2, shape=(batch, count))
    return run(shapes.RESHAPE, run(kernel, rows, sought, **side), shape=x2.shape)


@decomposition(SEARCH_SORTED)
def _(sorted_sequence: Tensor, values: Tensor, *, side: str) -> Tensor:
    """Bisect all rows in parallel, with intervals of equal size."""
    base = creation.zeros(values.shape, dtype=INT32)
    left = sorted_sequence.shape[1]
    nan = compare.not_equal(values, values) if dtype_kind(values.dtype) == "f" else None
    before = compare.less if side == "left" else compare.less_equal
    while left:
        half = (left + 1) // 2  # the last element of this half is compared
        probe = base + (half - 1)
        x = run(gather.GATHER_V2, sorted_sequence, probe, axis=1, batch_dims=1)
        go = before(x, values)
        if nan is not None:  # NaN is the greatest
            go = compare.where(nan, side == "right" or compare.equal(x, x), go)
        base = compare.where(go, base + half, base)
        left -= half
    return base


gradients(SEARCH_SORTED, sorted_sequence=None, values=None)


LOWER_BOUND = Kernel(
    f"LowerBound({_SORTED})",
    out=_search_rule("lower_bound"),
    op="lower_bound",
    doc="""``SearchSorted`` with the side ``'left'``.""",
)


def lower_bound(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Return how many elements of a row of ``x1`` are less than each element of ``x2``.

    It is ``searchsorted`` with ``side="left"``.

    Args:
        x1: Ascending real numbers ``[n]``; or ``[..., n]`` with the leading axes of
            ``x2``, to search row by row.
        x2: The values to find: any shape if ``x1`` has one axis, else ``[..., m]``.

    Returns:
        An int32 tensor with the shape of ``x2``.

    Raises:
        ValueError: The shapes do not fit.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> pg.lower_bound([1.0, 3.0, 3.0, 5.0], [0.0, 3.0])
        Tensor([0, 1], dtype=int32, backend='cpu')

    """
    return _search_rows(LOWER_BOUND, x1, x2)


@decomposition(LOWER_BOUND)
def _(sorted_sequence: Tensor, values: Tensor) -> Tensor:
    return run(SEARCH_SORTED, sorted_sequence, values, side="left")


gradients(LOWER_BOUND, sorted_sequence=None, values=None)


UPPER_BOUND = Kernel(
    f"UpperBound({_SORTED})",
    out=_search_rule("upper_bound"),
    op="upper_bound",
    doc="""``SearchSorted`` with the side ``'right'``.""",
)


def upper_bound(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Return how many elements in a row of ``x1`` do not exceed each element of ``x2``.

    It is ``searchsorted`` with ``side="right"``.

    Args:
        x1: Ascending real numbers ``[n]``; or ``[..., n]`` with the leading axes of
            ``x2``, to search row by row.
        x2: The values to find: any shape if ``x1`` has one axis, else ``[..., m]``.

    Returns:
        An int32 tensor with the shape of ``x2``.

    Raises:
        ValueError: The shapes do not fit.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> pg.upper_bound([1.0, 3.0, 3.0, 5.0], [0.0, 3.0])
        Tensor([0, 3], dtype=int32, backend='cpu')

    """
    return _search_rows(UPPER_BOUND, x1, x2)


@decomposition(UPPER_BOUND)
def _(sorted_sequence: Tensor, values: Tensor) -> Tensor:
    return run(SEARCH_SORTED, sorted_sequence, values, side="right")


gradients(UPPER_BOUND, sorted_sequence=None, values=None)


def isin(x1: TensorLike, x2: TensorLike, /, *, invert: bool = False) -> Tensor:
    """Return which elements of ``x1`` are in ``x2``.

    NaN is never found, because it equals nothing.

    Args:
        x1: A tensor of real numbers.
        x2: A tensor of real numbers, of any shape.
        invert: Whether to return which elements are *not* in ``x2``.

    Returns:
        A bool tensor with the shape of ``x1``.

    Raises:
        TypeError: An argument is complex or contains strings.

    Example:
        >>> pg.isin([1, 2, 3, 4], [2, 4])
        Tensor([False,  True, False,  True], dtype=bool, backend='cpu')

    """
    invert = flag("isin", "invert", invert)
    x1, x2 = _convert.promote_all("isin", x1, x2)
    sorted_values = run(shapes.RESHAPE, _convert.real("isin", x2), shape=(x2.size,))
    sorted_values = sorting.sort(sorted_values)
    if not sorted_values.size:
        return creation.full(x1.shape, invert)
    positions = binary.minimum(searchsorted(sorted_values, x1), sorted_values.size - 1)
    found = run(gather.GATHER_V2, sorted_values, positions, axis=0, batch_dims=0)
    return compare.not_equal(found, x1) if invert else compare.equal(found, x1)


# --- distinct elements -----------------------------------------------------------


class UniqueCounts(NamedTuple):
    """The result of ``unique_counts``."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """The result of ``unique_inverse``."""

    values: Tensor
    inverse_indices: Tensor


class UniqueAll(NamedTuple):
    """The result of ``unique_all``."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


def _unique_rule(x: Spec, *, axis: int, sorted: bool) -> None:
    """Check the axis; the number of unique slices depends on the values."""
    shapes.check_axis("unique_inverse", axis, len(x.shape))


UNIQUE = Kernel(
    "Unique(x; axis: axis, sorted: bool) -> values, indices",
    out=_unique_rule,
    op="unique_inverse",
    doc="""The unique slices along ``axis``, and the index of each slice among them.

    If ``sorted``, the unique slices ascend: complex numbers by their real and then
    their imaginary parts; strings by code points; slices by their first elements that
    differ. NaN comes last, in any order. Otherwise the slices are in the order of their
    first appearance. ``indices``, int32, has the size of ``axis``. NaN equals nothing,
    so each NaN is kept. -0.0 equals 0.0, and the one that appears first is kept.""",
)


def unique_values(
    x: TensorLike,
    /,
    *,
    axis: int | None = None,
    sorted: bool = True,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the unique elements of ``x``, in ascending order.

    NaN equals nothing, so each NaN is kept; they come last. Complex numbers are ordered
    by their real and then their imaginary parts, slices by their first elements that
    differ. Equal elements share the gradient equally. The number of results depends on
    the values, so the op waits until these have been computed.

    Args:
        x: A tensor of any dtype.
        axis: The axis whose slices are compared; None compares all elements.
        sorted: Whether to sort the values in ascending order; if False, they are in
            the order of their first appearance.

    Returns:
        A tensor with the dtype of ``x``; it has one axis unless ``axis`` is given.

    Raises:
        TypeError: ``sorted`` is not a bool.
        ValueError: ``axis`` is out of range.

    Example:
        >>> pg.unique_values([3, 1, 3, 2])
        Tensor([1, 2, 3], dtype=int32, backend='cpu')
        >>> pg.unique_values([3, 1, 3, 2], sorted=False)
        Tensor([3, 1, 2], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(unique_values, unknown)
    return _unique("unique_values", x, axis, sorted)[0]


def unique_inverse(
    x: TensorLike,
    /,
    *,
    axis: int | None = None,
    sorted: bool = True,
    **unknown: Unpack[Nothing],
) -> UniqueInverse:
    """Return unique elements or slices, and the index of each element of ``x`` in them.

    ``take(values, inverse_indices, axis=axis or 0)`` is ``x``. The values are those of
    ``unique_values``.

    Args:
        x: A tensor of any dtype.
        axis: The axis whose slices are compared; None compares all elements.
        sorted: Whether to sort the values in ascending order; if False, they are in
            the order of their first appearance.

    Returns:
        A named tuple of ``values`` and ``inverse_indices``; the latter are int32, with
        the shape of ``x``, or ``[x.shape[axis]]`` if ``axis`` is given.

    Raises:
        TypeError: ``sorted`` is not a bool.
        ValueError: ``axis`` is out of range.

    Example:
        >>> pg.unique_inverse([3, 1, 3, 2]).inverse_indices
        Tensor([2, 0, 2, 1], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(unique_inverse, unknown)
    values, inverse, _, sizes = _unique("unique_inverse", x, axis, sorted)
    return UniqueInverse(values, run(shapes.RESHAPE, inverse, shape=sizes))


def unique_counts(
    x: TensorLike,
    /,
    *,
    axis: int | None = None,
    sorted: bool = True,
    **unknown: Unpack[Nothing],
) -> UniqueCounts:
    """Return unique elements or slices, and how often each occurs.

    The values are those of ``unique_values``.

    Args:
        x: A tensor of any dtype.
        axis: The axis whose slices are compared; None compares all elements.
        sorted: Whether to sort the values in ascending order; if False, they are in
            the order of their first appearance.

    Returns:
        A named tuple of ``values``, and ``counts``, int32.

    Raises:
        TypeError: ``sorted`` is not a bool.
        ValueError: ``axis`` is out of range.

    Example:
        >>> pg.unique_counts([3, 1, 3, 2]).counts
        Tensor([1, 1, 2], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(unique_counts, unknown)
    values, inverse, along, _ = _unique("unique_counts", x, axis, sorted)
    return UniqueCounts(values, _counts(values, inverse, along))


def unique_all(
    x: TensorLike,
    /,
    *,
    axis: int | None = None,
    sorted: bool = True,
    **unknown: Unpack[Nothing],
) -> UniqueAll:
    """Return unique elements or slices, their first indices, the inverse, and counts.

    The values are those of ``unique_values``.

    Args:
        x: A tensor of any dtype.
        axis: The axis whose slices are compared; None compares all elements.
        sorted: Whether to sort the values in ascending order; if False, they are in
            the order of their first appearance.

    Returns:
        A named tuple of ``values``; ``indices`` of their first appearance in flattened
        ``x``, or along ``axis``; ``inverse_indices`` as in ``unique_inverse``; and
        ``counts``. All but the values are int32.

    Raises:
        TypeError: ``sorted`` is not a bool.
        ValueError: ``axis`` is out of range.

    Example:
        >>> pg.unique_all([3, 1, 3, 2]).indices
        Tensor([1, 3, 0], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(unique_all, unknown)
    values, inverse, along, sizes = _unique("unique_all", x, axis, sorted)
    counts = _counts(values, inverse, along)
    starts = cumulative.cumulative_sum(counts, exclusive=True)
    order = sorting.argsort(inverse)
    first = run(gather.GATHER_V2, order, starts, axis=0, batch_dims=0)
    inverse = run(shapes.RESHAPE, inverse, shape=sizes)
    return UniqueAll(values, first, inverse, counts)


def _unique(
    op: str, x: TensorLike, axis: int | None, sorted: bool
) -> tuple[Tensor, Tensor, int, Shape]:
    """Return unique values, the inverse indices, the axis, and a shape.

    The shape is that of the inverse indices returned to the user.
    """
    x = _convert.asarray(x)
    sorted = flag(op, "sorted", sorted)
    if axis is None:
        along = 0
        sizes = x.shape
        x = run(shapes.RESHAPE, x, shape=(x.size,))
    else:
        along = shapes._axis(op, axis, len(x.shape))
        sizes = x.shape[along : along + 1]
    values, inverse = run_many(UNIQUE, x, axis=along, sorted=sorted)
    return values, inverse, along, sizes


def _counts(values: Tensor | Spec, inverse: Tensor, axis: int) -> Tensor:
    return run(cumulative.BINCOUNT, inverse, None, size=values.shape[axis])


def _unique_gradient(
    dy: Tensor, dindices: Tensor, indices: Tensor, values_spec: Spec, axis: int
) -> Tensor:
    """Share ``dy`` equally among equal elements."""
    rest = (1,) * (len(values_spec.shape) - 1 - axis)
    counts = _counts(values_spec, indices, axis)
    counts = run(shapes.RESHAPE, counts, shape=(*counts.shape, *rest))
    dy = dy / creation.cast(counts, dy.dtype)
    return run(gather.GATHER_V2, dy, indices, axis=axis, batch_dims=0)


gradients(UNIQUE, x=_unique_gradient)


def setdiff1d(x: TensorLike, y: TensorLike, /) -> tuple[Tensor, Tensor]:
    """Return the elements of ``x`` that are not in ``y``, and their indices.

    They keep the order of ``x``, including repeated elements. The number of results
    depends on the values, so the op waits until these have been computed.

    Args:
        x: ``[n]``, real numbers.
        y: ``[m]``, real numbers.

    Returns:
        The elements, in the promoted dtype, and their indices, int32.

    Raises:
        ValueError: ``x`` or ``y`` does not have one axis.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> values, indices = pg.setdiff1d([1, 2, 3, 4], [2, 4])
        >>> values.tolist(), indices.tolist()
        ([1, 3], [0, 2])

    """
    x, y = _convert.promote_all("setdiff1d", x, y)
    x = _convert.real("setdiff1d", x)
    if len(x.shape) != 1 or len(y.shape) != 1:
        raise misfit("setdiff1d", "x and y must have one axis", x, y)
    (indices,) = compare.nonzero(isin(x, y, invert=True))
    return run(gather.GATHER_V2, x, indices, axis=0, batch_dims=0), indices


# --- elements that meet a condition ----------------------------------------------


def boolean_mask(
    x: TensorLike, mask: TensorLike, /, axis: int = 0, **unknown: Unpack[Nothing]
) -> Tensor:
    """Return the slices of ``x`` for which ``mask`` is True.

    Their number depends on the values, so ``mask`` is read on the host.

    Args:
        x: A tensor of any dtype.
        mask: A bool tensor with at least one axis. Its shape must match the axes of
            ``x`` from ``axis`` on.
        axis: The first axis of ``x`` that ``mask`` applies to.

    Returns:
        A tensor with the dtype of ``x``, and with one axis in place of those of
        ``mask``.

    Raises:
        TypeError: ``mask`` is not bool.
        ValueError: The shapes do not fit.

    Example:
        >>> pg.boolean_mask([1, 2, 3], [True, False, True])
        Tensor([1, 3], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(boolean_mask, unknown)
    x = _convert.asarray(x)
    mask = _convert.asarray(mask)
    if mask.dtype is not BOOL:
        raise TypeError(
            f"boolean_mask: mask must be bool, got {mask.dtype}; compare, as in x != 0"
        )
    axis = shapes._axis("boolean_mask", axis, len(x.shape))
    if not mask.shape or x.shape[axis : axis + len(mask.shape)] != mask.shape:
        rule = f"mask must match one or more axes of x, from axis {axis} on"
        raise misfit("boolean_mask", rule, mask, x)
    return indexing.select("boolean_mask", x, (*[slice(None)] * axis, mask))
