"""Logic along axes. Kernels: ``All Any``.

Contents: ``all`` and ``any``; ``count_nonzero``.
"""

from __future__ import annotations

from typing import Unpack

from plugrad._src.engine.dispatch import run
from plugrad._src.registry.contract import Kernel, decomposition, reduced
from plugrad._src.tensor.arguments import Axis, flag
from plugrad._src.tensor.dtypes import BOOL, INT32
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import Shape, axes

from . import _convert, creation, reduce

__all__ = ["all", "any", "count_nonzero"]


def _as_bool(
    op: str, x: TensorLike, axis: Axis, where: TensorLike | None = None
) -> tuple[Tensor, Shape]:
    x = creation.cast(_convert.numbers(op, x), BOOL)
    return reduce.selected(op, x, where, op == "all"), axes(op, axis, len(x.shape))


ALL = Kernel(
    "All(x: bool; axis: axes, keepdims: bool)",
    out=reduced,
    op="all",
    doc="""Whether all elements over ``axis`` are true; True for no elements.""",
)


def all(
    x: TensorLike,
    /,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    where: TensorLike | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return whether all elements along ``axis`` are true; True where there are none.

    Every number but 0 counts as true, including NaN.

    Args:
        x: A tensor of numbers or bool.
        axis: The axes to reduce: an int, a sequence of ints, or None for all.
        keepdims: Whether to keep the reduced axes, with size 1.
        where: A bool tensor that broadcasts to ``x`` and selects the elements, as
            for ``sum``.

    Returns:
        A bool tensor.

    Raises:
        TypeError: ``x`` contains strings, or ``where`` is not bool.
        ValueError: An axis is out of range, or ``where`` does not broadcast to ``x``.

    Example:
        >>> pg.all([[True, True], [True, False]], axis=1)
        Tensor([ True, False], dtype=bool, backend='cpu')

    """
    if unknown:
        raise unexpected(all, unknown)
    return _convert.reduction(ALL, *_as_bool("all", x, axis, where), keepdims)


decomposition(ALL, lambda x, axis, keepdims: ~(~x).any(axis=axis, keepdims=keepdims))


ANY = Kernel(
    "Any(x: bool; axis: axes, keepdims: bool)",
    out=reduced,
    op="any",
    doc="""Whether any element over ``axis`` is true; False for no elements.""",
)


def any(
    x: TensorLike,
    /,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    where: TensorLike | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return whether any element along ``axis`` is true; False where there are none.

    Every number but 0 counts as true, including NaN.

    Args:
        x: A tensor of numbers or bool.
        axis: The axes to reduce: an int, a sequence of ints, or None for all.
        keepdims: Whether to keep the reduced axes, with size 1.
        where: A bool tensor that broadcasts to ``x`` and selects the elements, as
            for ``sum``.

    Returns:
        A bool tensor.

    Raises:
        TypeError: ``x`` contains strings, or ``where`` is not bool.
        ValueError: An axis is out of range, or ``where`` does not broadcast to ``x``.

    Example:
        >>> pg.any([[False, False], [True, False]], axis=1)
        Tensor([False,  True], dtype=bool, backend='cpu')

    """
    if unknown:
        raise unexpected(any, unknown)
    return _convert.reduction(ANY, *_as_bool("any", x, axis, where), keepdims)


@decomposition(ANY)
def _(x: Tensor, *, axis: Shape, keepdims: bool) -> Tensor:
    ones = creation.cast(x, INT32)  # a sum of no elements is 0, a maximum is undefined
    return creation.cast(run(reduce.SUM, ones, axis=axis, keepdims=keepdims), BOOL)


def count_nonzero(
    x: TensorLike,
    /,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the number of elements along ``axis`` that are not 0.

    Args:
        x: A tensor of numbers or bool.
        axis: The axes to count along: an int, a sequence of ints, or None for all.
        keepdims: Whether to keep the reduced axes, with size 1.

    Returns:
        An int32 tensor.

    Raises:
        TypeError: ``x`` contains strings.
        ValueError: An axis is out of range.

    Example:
        >>> pg.count_nonzero([[1.0, 0.0], [3.0, 4.0]], axis=1)
        Tensor([1, 2], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(count_nonzero, unknown)
    x, axis = _as_bool("count_nonzero", x, axis)
    keepdims = flag("count_nonzero", "keepdims", keepdims)
    return run(reduce.SUM, creation.cast(x, INT32), axis=axis, keepdims=keepdims)
