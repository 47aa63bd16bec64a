"""Ops that ignore or replace NaN, composed of other ops. No kernels.

Contents: ``nan_to_num``; ``fmax`` and ``fmin``; reductions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Unpack

from plugrad._src.engine.dispatch import run
from plugrad._src.ops.basis import (
    _convert,
    binary,
    compare,
    complexes,
    creation,
    reduce,
    unary,
)
from plugrad._src.tensor.arguments import Axis, flag, real
from plugrad._src.tensor.dtypes import INT32, dtype_kind, floating_info
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import axes

__all__ = ["fmax", "fmin", "nan_to_num", "nanmax", "nanmean", "nanmin", "nansum"]

# --- replaced numbers ------------------------------------------------------------


def nan_to_num(
    x: TensorLike,
    /,
    *,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Tensor:
    """Return ``x`` with NaN and infinities replaced by numbers.

    Real and imaginary parts of complex numbers are replaced separately. The derivative
    is 0 where a number is replaced, and 1 elsewhere.

    Args:
        x: A tensor of numbers.
        nan: The replacement for NaN.
        posinf: The replacement for inf; None means the largest number of the dtype.
        neginf: The replacement for -inf; None means the lowest number of the dtype.

    Returns:
        A tensor of the shape and dtype of ``x``. Integers and bool do not change.

    Raises:
        TypeError: ``x`` contains strings, or a replacement is not a real number.
        OverflowError: The dtype of ``x`` cannot represent a replacement.

    Example:
        >>> pg.nan_to_num([1.0, np.nan, -np.inf], nan=2.0, neginf=-1.0)
        Tensor([ 1.,  2., -1.], dtype=float32, backend='cpu')

    Source:
        ``numpy.nan_to_num``.

    """
    x = _convert.numbers("nan_to_num", x)
    values: list[tuple[str, float, float | None]] = [
        ("posinf", math.inf, posinf),
        ("neginf", -math.inf, neginf),
        ("nan", math.nan, nan),
    ]
    given = [
        (bad, None if value is None else real("nan_to_num", name, value))
        for name, bad, value in values
    ]
    if dtype_kind(x.dtype) not in "fc":
        return creation.identity(x)
    if dtype_kind(x.dtype) == "f":
        return _replace_nonfinite(x, given)
    return complexes.complex(
        *[_replace_nonfinite(part, given) for part in complexes.parts(x)]
    )


def _replace_nonfinite(x: Tensor, given: list[tuple[float, float | None]]) -> Tensor:
    """Replace NaN and infinities; None stands for the nearest finite number."""
    y = x
    for bad, value in given:
        if value is None:
            value = math.copysign(float(floating_info(x.dtype).max), bad)
        number = _convert.scalar("nan_to_num", value, x.dtype)
        mask = unary.isnan(x) if bad != bad else compare.equal(x, bad)
        y = compare.where(mask, number, y)
    return y


# --- the greater and the smaller of two ------------------------------------------


def fmax(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return the greater of ``a`` and ``b``; where one is NaN, return the other one.

    The result is NaN only where both are NaN. The cotangent flows to the argument that
    is returned: to ``a`` if they are equal or both are NaN.

    Args:
        a: A tensor of real numbers or bool.
        b: A tensor of real numbers or bool; the shapes broadcast.

    Returns:
        A tensor of the broadcast shape and the promoted dtype.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> pg.fmax([1.0, np.nan, 3.0], [2.0, 5.0, np.nan])
        Tensor([2., 5., 3.], dtype=float32, backend='cpu')

    Source:
        ``numpy.fmax``.

    """
    return _extreme("fmax", a, b, binary.MAXIMUM, compare.GREATER_EQUAL)


def fmin(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return the smaller of ``a`` and ``b``; where one is NaN, return the other one.

    The result is NaN only where both are NaN. The cotangent flows to the argument that
    is returned: to ``a`` if they are equal or both are NaN.

    Args:
        a: A tensor of real numbers or bool.
        b: A tensor of real numbers or bool; the shapes broadcast.

    Returns:
        A tensor of the broadcast shape and the promoted dtype.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> pg.fmin([1.0, np.nan, 3.0], [2.0, 5.0, np.nan])
        Tensor([1., 5., 3.], dtype=float32, backend='cpu')

    Source:
        ``numpy.fmin``.

    """
    return _extreme("fmin", a, b, binary.MINIMUM, compare.LESS_EQUAL)


def _extreme(
    op: str, a: TensorLike, b: TensorLike, integer_kernel: Any, wins: Any
) -> Tensor:
    """Return the extreme of two numbers; ``integer_kernel`` is run for integers."""
    a, b = (_convert.real(op, x) for x in _convert.promote_and_broadcast(op, a, b))
    if dtype_kind(a.dtype) != "f":
        return run(integer_kernel, a, b)
    first = compare.logical_or(run(wins, a, b), unary.isnan(b))
    return compare.where(first, a, b)


# --- reductions ------------------------------------------------------------------


def nansum(
    x: TensorLike,
    /,
    axis: Axis = None,
    *,
    dtype: Any = None,
    keepdims: bool = False,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the sum over ``axis`` of elements that are not NaN; 0 if all are NaN.

    The derivative at NaN is 0.

    Args:
        x: A tensor of numbers.
        axis: The axes to reduce: an int, a sequence of ints, or None for all.
        dtype: Cast ``x`` to this dtype first, as in ``sum``.
        keepdims: Whether to keep the reduced axes, with size 1.

    Returns:
        A tensor of the dtype in which the elements are summed.

    Raises:
        TypeError: ``x`` contains strings, or ``dtype`` is bool.
        ValueError: An axis is out of range.

    Example:
        >>> pg.nansum([[1.0, np.nan], [3.0, 4.0]], axis=0)
        Tensor([4., 4.], dtype=float32, backend='cpu')

    Source:
        ``numpy.nansum``.

    """
    if unknown:
        raise unexpected(nansum, unknown)
    x = reduce._summand(x, dtype, "nansum")
    axis = axes("nansum", axis, len(x.shape))
    keepdims = flag("nansum", "keepdims", keepdims)
    return run(reduce.SUM, _replace_nan(x)[0], axis=axis, keepdims=keepdims)


def _replace_nan(x: Tensor, value: float = 0) -> tuple[Tensor, Tensor]:
    """Return ``x`` with ``value`` in place of NaN, and the mask of NaN."""
    missing = unary.isnan(x)
    return (
        compare.where(missing, value, x) if dtype_kind(x.dtype) in "fc" else x
    ), missing


def nanmean(
    x: TensorLike,
    /,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the mean over ``axis`` of elements that are not NaN; NaN if all are NaN.

    The derivative at NaN is 0.

    Args:
        x: A tensor of numbers.
        axis: The axes to reduce: an int, a sequence of ints, or None for all.
        keepdims: Whether to keep the reduced axes, with size 1.

    Returns:
        A tensor of the dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` contains strings.
        ValueError: An axis is out of range.

    Example:
        >>> pg.nanmean([[1.0, np.nan], [3.0, 4.0]], axis=0)
        Tensor([2., 4.], dtype=float32, backend='cpu')

    Source:
        ``numpy.nanmean``.

    """
    if unknown:
        raise unexpected(nanmean, unknown)
    x = _convert.floating("nanmean", x)
    along = axes("nanmean", axis, len(x.shape))
    return _mean(x, along, flag("nanmean", "keepdims", keepdims))


def _mean(x: Tensor, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    numbers, missing = _replace_nan(reduce.widened(x))
    present = creation.cast(compare.logical_not(missing), INT32)
    parts = (numbers, present)
    total, count = (
        run(reduce.SUM, part, axis=axis, keepdims=keepdims) for part in parts
    )
    return creation.cast(total / creation.cast(count, total.dtype), x.dtype)


def nanmax(
    x: TensorLike,
    /,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the maximum over ``axis`` of the elements that are not NaN.

    The result is NaN where all elements are NaN. Elements that equal the maximum share
    the gradient equally; the derivative at NaN is 0.

    Args:
        x: A tensor of real numbers.
        axis: The axes to reduce: an int, a sequence of ints, or None for all.
        keepdims: Whether to keep the reduced axes, with size 1.

    Returns:
        A tensor of the dtype of ``x``.

    Raises:
        ValueError: There are no elements to reduce, or an axis is out of range.
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> pg.nanmax([[1.0, np.nan], [3.0, 4.0]], axis=0)
        Tensor([3., 4.], dtype=float32, backend='cpu')

    Source:
        ``numpy.nanmax``.

    """
    if unknown:
        raise unexpected(nanmax, unknown)
    return _nan_extreme("nanmax", reduce.max, -math.inf, x, axis, keepdims)


def nanmin(
    x: TensorLike,
    /,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the minimum over ``axis`` of the elements that are not NaN.

    The result is NaN where all elements are NaN. Elements that equal the minimum share
    the gradient equally; the derivative at NaN is 0.

    Args:
        x: A tensor of real numbers.
        axis: The axes to reduce: an int, a sequence of ints, or None for all.
        keepdims: Whether to keep the reduced axes, with size 1.

    Returns:
        A tensor of the dtype of ``x``.

    Raises:
        ValueError: There are no elements to reduce, or an axis is out of range.
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> pg.nanmin([[1.0, np.nan], [3.0, 4.0]], axis=0)
        Tensor([1., 4.], dtype=float32, backend='cpu')

    Source:
        ``numpy.nanmin``.

    """
    if unknown:
        raise unexpected(nanmin, unknown)
    return _nan_extreme("nanmin", reduce.min, math.inf, x, axis, keepdims)


def _nan_extreme(
    op: str,
    reduction: Callable[..., Tensor],
    worst: float,
    x: TensorLike,
    axis: Axis,
    keepdims: bool,
) -> Tensor:
    x, along = reduce._as_real(op, x, axis)
    keepdims = flag(op, "keepdims", keepdims)
    if dtype_kind(x.dtype) != "f":
        return reduction(x, along, keepdims=keepdims)
    y = reduction(_replace_nan(x, worst)[0], along, keepdims=keepdims)
    # Where all numbers equal ``worst``, elements that were NaN must not share the
    # gradient. There, take the mean of the numbers: it also equals ``worst``, and
    # is NaN if all elements are NaN.
    return compare.where(compare.equal(y, worst), _mean(x, along, keepdims), y)
