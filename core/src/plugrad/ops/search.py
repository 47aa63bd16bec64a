"""Finding elements: places in what is sorted, distinct ones, those on a condition.

Kernels: ``LowerBound SearchSorted Unique UpperBound``. NaN counts as greater than every
number where an order is asked for, and equals nothing where distinct elements are.
The shapes of ``unique_*``, ``nonzero``, ``boolean_mask`` and ``setdiff1d`` depend on
values, for which they wait.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

from plugrad.engine.dispatch import run, run_many
from plugrad.geometry import Shape
from plugrad.registry.contract import Kernel, Spec, decomposition, gradients
from plugrad.tensor.arguments import choice, flag, misfit
from plugrad.tensor.dtypes import BOOL, INT32
from plugrad.tensor.tensor import Tensor, TensorLike

from . import _convert, binary, compare, creation, cumulative, gather, indexing, sorting
from . import shape as shapes

__all__ = [
    "boolean_mask",
    "isin",
    "lower_bound",
    "nonzero",
    "searchsorted",
    "setdiff1d",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "upper_bound",
]

# --- places in what is sorted ----------------------------------------------------

Side = Literal["left", "right"]


def _places(op: str) -> Callable[..., Spec]:
    """Return the rule of a kernel that looks up rows in rows."""

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
    out=_places("searchsorted"),
    op="searchsorted",
    doc="""How many elements of row i are less than ``values[i, j]``, or not greater.

    The former if ``side`` is ``'left'``, the latter if it is ``'right'``; int32. The
    rows are ascending, with NaN, which is the greatest and equals NaN, at their end.
    Of a row that is not ascending, the counts are any numbers from 0 to its size.""",
)


def searchsorted(
    x1: TensorLike,
    x2: TensorLike,
    /,
    *,
    side: Side = "left",
    sorter: TensorLike | None = None,
) -> Tensor:
    """Return where in ``x1``, which is ascending, the elements of ``x2`` belong; int32.

    Before all elements that are equal (``"left"``: i with ``x1[i-1] < v <= x1[i]``) or
    behind them (``"right"``: ``x1[i-1] <= v < x1[i]``). NaN is the greatest.

    Args:
        x1: One axis, or several of which the last is ascending: then all others are
            those of ``x2``, row by row.
        x2: What to look for, of any shape if ``x1`` has one axis.
        side: See above.
        sorter: Indices that make ``x1`` ascending, as from ``argsort``.

    Raises:
        ValueError: The shapes do not fit, or the side is neither of the two.
        TypeError: Complex numbers or strings.

    """
    choice("searchsorted", "side", side, "left", "right")
    if sorter is not None:
        x1 = _convert.asarray(x1)
        sorter = _convert.integer_tensor("searchsorted", "sorter", sorter)
        if sorter.shape != x1.shape:
            rule = "sorter must have the shape of x1, an index for each element"
            raise misfit("searchsorted", rule, sorter, x1)
        x1 = gather.take_along_axis(x1, sorter, axis=-1)
    return _look_up(SEARCH_SORTED, x1, x2, side=side)


def _look_up(kernel: Kernel, x1: TensorLike, x2: TensorLike, **side: Side) -> Tensor:
    """Run a kernel on rows ``[batch, n]`` and what to look for, ``[batch, m]``."""
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
    """Halve what is left of each row, by as many elements in all rows."""
    base, left = creation.zeros(values.shape, dtype=INT32), sorted_sequence.shape[1]
    nan = compare.not_equal(values, values) if values.dtype.kind == "f" else None
    before = compare.less if side == "left" else compare.less_equal
    while left:
        half = (left + 1) // 2  # of which the last one decides
        probe = base + (half - 1)
        x = run(gather.GATHER_V2, sorted_sequence, probe, axis=1, batch_dims=1)
        go = before(x, values)
        if nan is not None:  # the greatest
            go = compare.where(nan, side == "right" or compare.equal(x, x), go)
        base = compare.where(go, base + half, base)
        left -= half
    return base


gradients(SEARCH_SORTED, sorted_sequence=None, values=None)


LOWER_BOUND = Kernel(
    f"LowerBound({_SORTED})",
    out=_places("lower_bound"),
    op="lower_bound",
    doc="""``SearchSorted`` with the side ``'left'``.""",
)


def lower_bound(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Return how many elements of a row of ``x1`` are less than those of ``x2``; int32.

    Shapes are those of ``searchsorted``, and the rows are ascending.
    """
    return _look_up(LOWER_BOUND, x1, x2)


@decomposition(LOWER_BOUND)
def _(sorted_sequence: Tensor, values: Tensor) -> Tensor:
    return run(SEARCH_SORTED, sorted_sequence, values, side="left")


gradients(LOWER_BOUND, sorted_sequence=None, values=None)


UPPER_BOUND = Kernel(
    f"UpperBound({_SORTED})",
    out=_places("upper_bound"),
    op="upper_bound",
    doc="""``SearchSorted`` with the side ``'right'``.""",
)


def upper_bound(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Return how many elements of a row of ``x1`` do not exceed those of ``x2``; int32.

    Shapes are those of ``searchsorted``, and the rows are ascending.
    """
    return _look_up(UPPER_BOUND, x1, x2)


@decomposition(UPPER_BOUND)
def _(sorted_sequence: Tensor, values: Tensor) -> Tensor:
    return run(SEARCH_SORTED, sorted_sequence, values, side="right")


gradients(UPPER_BOUND, sorted_sequence=None, values=None)


def isin(x1: TensorLike, x2: TensorLike, /, *, invert: bool = False) -> Tensor:
    """Return which elements of ``x1`` are (``invert``: are not) in ``x2``; bool.

    NaN is nowhere, as it equals nothing. Both are real numbers.
    """
    invert, (x1, x2) = (
        flag("isin", "invert", invert),
        _convert.promote_all("isin", x1, x2),
    )
    among = run(shapes.RESHAPE, _convert.real("isin", x2), shape=(x2.size,))
    among = sorting.sort(among)
    if not among.size:
        return creation.full(x1.shape, invert)
    at = binary.minimum(searchsorted(among, x1), among.size - 1)
    found = run(gather.GATHER_V2, among, at, axis=0, batch_dims=0)
    return compare.not_equal(found, x1) if invert else compare.equal(found, x1)


# --- distinct elements -----------------------------------------------------------


class UniqueCounts(NamedTuple):
    """What ``unique_counts`` returns."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What ``unique_inverse`` returns."""

    values: Tensor
    inverse_indices: Tensor


class UniqueAll(NamedTuple):
    """What ``unique_all`` returns."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


def _known_later(x: Spec, *, axis: int) -> None:
    """Check; how many distinct slices there are depends on the values."""
    shapes.check_axis("unique_inverse", axis, len(x.shape))


UNIQUE = Kernel(
    "Unique(x; axis: axis) -> values, indices",
    out=_known_later,
    op="unique_inverse",
    doc="""The distinct slices along ``axis``, and which of them each slice of ``x`` is.

    They stand in the order in which they first appear. ``indices``, int32, has the size
    of ``axis``. NaN equals nothing, so that each stays; -0.0 equals 0.0, and the one
    that appears first stays.""",
)


def unique_values(x: TensorLike, /, *, axis: int | None = None) -> Tensor:
    """Return the distinct elements of ``x``, in the order in which they first appear.

    With ``axis`` the distinct slices along it. NaN equals nothing, so that each stays.
    Of any dtype; elements that are equal share the gradient.
    """
    return _unique("unique_values", x, axis)[0]


def unique_inverse(x: TensorLike, /, *, axis: int | None = None) -> UniqueInverse:
    """Return distinct elements or slices, and which of them stands where in ``x``.

    So that ``take(values, inverse_indices, axis=axis or 0)`` is ``x``: the indices,
    int32, have its shape, or that of ``axis``. Otherwise as ``unique_values``.
    """
    values, inverse, _, sizes = _unique("unique_inverse", x, axis)
    return UniqueInverse(values, run(shapes.RESHAPE, inverse, shape=sizes))


def unique_counts(x: TensorLike, /, *, axis: int | None = None) -> UniqueCounts:
    """Return distinct elements or slices, and how often each is there, int32.

    Otherwise as ``unique_values``.
    """
    values, inverse, along, _ = _unique("unique_counts", x, axis)
    return UniqueCounts(values, _counts(values, inverse, along))


def unique_all(x: TensorLike, /, *, axis: int | None = None) -> UniqueAll:
    """Return distinct elements or slices, where each appears first, where each stands.

    And how often it is there: ``values``, ``indices`` (into flattened ``x``, or along
    ``axis``), ``inverse_indices`` as from ``unique_inverse``, ``counts``; int32.
    """
    values, inverse, along, sizes = _unique("unique_all", x, axis)
    counts = _counts(values, inverse, along)
    starts = cumulative.cumulative_sum(counts, exclusive=True)
    order = sorting.argsort(inverse)
    first = run(gather.GATHER_V2, order, starts, axis=0, batch_dims=0)
    inverse = run(shapes.RESHAPE, inverse, shape=sizes)
    return UniqueAll(values, first, inverse, counts)


def _unique(
    op: str, x: TensorLike, axis: int | None
) -> tuple[Tensor, Tensor, int, Shape]:
    """Return distinct values, their numbers along one axis, that axis, and a shape.

    It is the shape in which the user gets the numbers.
    """
    x = _convert.asarray(x)
    if axis is None:
        along, sizes, x = 0, x.shape, run(shapes.RESHAPE, x, shape=(x.size,))
    else:
        along = shapes._axis(op, axis, len(x.shape))
        sizes = x.shape[along : along + 1]
    values, inverse = run_many(UNIQUE, x, axis=along)
    return values, inverse, along, sizes


def _counts(values: Tensor | Spec, inverse: Tensor, axis: int) -> Tensor:
    return run(cumulative.BINCOUNT, inverse, None, size=values.shape[axis])


def _unique_gradient(
    dy: Tensor, dindices: Tensor, indices: Tensor, values_spec: Spec, axis: int
) -> Tensor:
    """Share ``dy`` among the elements that are equal."""
    rest = (1,) * (len(values_spec.shape) - 1 - axis)
    counts = _counts(values_spec, indices, axis)
    counts = run(shapes.RESHAPE, counts, shape=(*counts.shape, *rest))
    dy = dy / creation.cast(counts, dy.dtype)
    return run(gather.GATHER_V2, dy, indices, axis=axis, batch_dims=0)


gradients(UNIQUE, x=_unique_gradient)


def setdiff1d(x: TensorLike, y: TensorLike, /) -> tuple[Tensor, Tensor]:
    """Return the elements of ``x`` that are not in ``y``, and their indices, int32.

    In the order of ``x``, as often as there. Both have one axis and real numbers. Which
    they are is read on the host, as the shape depends on it.
    """
    x, y = _convert.promote_all("setdiff1d", x, y)
    x = _convert.real("setdiff1d", x)
    if len(x.shape) != 1 or len(y.shape) != 1:
        raise misfit("setdiff1d", "x and y must have one axis", x, y)
    (indices,) = nonzero(isin(x, y, invert=True))
    return run(gather.GATHER_V2, x, indices, axis=0, batch_dims=0), indices


# --- elements on a condition -----------------------------------------------------


def nonzero(x: TensorLike, /) -> tuple[Tensor, ...]:
    """Return where elements are not 0: their indices, int32, axis by axis.

    In row-major order. ``x`` is read on the host, as the shape depends on it.
    """
    x = _convert.asarray(x)
    if not x.shape:
        raise ValueError("nonzero: x has no axes, so that there are no indices")
    return tuple([_convert.asarray(i, dtype=INT32) for i in x.numpy().nonzero()])


def boolean_mask(x: TensorLike, mask: TensorLike, /, *, axis: int = 0) -> Tensor:
    """Return the slices of ``x`` for which ``mask`` is True.

    The axes of ``mask``, bool, are those of ``x`` from ``axis`` on, and become one. It
    is read on the host, as the shape depends on it.
    """
    x, mask = _convert.asarray(x), _convert.asarray(mask)
    if mask.dtype is not BOOL:
        raise TypeError(f"boolean_mask: mask must be bool, got {mask.dtype}")
    axis = shapes._axis("boolean_mask", axis, len(x.shape))
    if not mask.shape or x.shape[axis : axis + len(mask.shape)] != mask.shape:
        rule = f"mask must have the axes of x from axis {axis} on, one or more"
        raise misfit("boolean_mask", rule, mask, x)
    return indexing.select("boolean_mask", x, (*[slice(None)] * axis, mask))
