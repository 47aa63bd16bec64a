"""Reductions. Kernels: ``Max Mean Min Prod Sum``.

Contents: sums and means; maximum and minimum; products; ``root``. ``all`` and ``any``
are in ``logic``, indices of maxima in ``extremes``, and compositions such as ``var`` in
``statistics``.

``axis`` is an int, a sequence of ints, or None for all axes; ``keepdims`` keeps the
reduced axes, with size 1. In contracts ``axis`` is a sorted tuple of non-negative ints.
"""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable
from typing import Any, Unpack

import numpy as np

from plugrad._src.engine.dispatch import run
from plugrad._src.registry.contract import (
    Kernel,
    Spec,
    decomposition,
    gradients,
    reduced,
)
from plugrad._src.tensor.arguments import Axis, misfit, real
from plugrad._src.tensor.dtypes import (
    BFLOAT16,
    BOOL,
    DTYPES,
    FLOAT32,
    INT32,
    LIMITS,
    DType,
    canonical,
    dtype_kind,
    named,
    weak,
)
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import Shape, axes

from . import _convert, binary, compare, complexes, creation, logic, shape, unary

__all__ = [
    "max",
    "mean",
    "min",
    "prod",
    "sum",
]

_HALVES = DTYPES["float16"], BFLOAT16
SUMMED_AS = {DTYPES[name]: INT32 for name in ("bool", "int8", "int16")}
SUMMED_AS |= {DTYPES[name]: DTYPES["uint32"] for name in ("uint8", "uint16")}


def widened(x: Tensor) -> Tensor:
    """Convert float16 and bfloat16 to float32, for accumulation; keep other dtypes."""
    return creation.cast(x, FLOAT32) if x.dtype in _HALVES else x


def one_axis(op: str, axis: int, rank: int) -> int:
    """Return ``axis`` as a non-negative int; raise unless it names one axis."""
    found = axes(op, axis, rank)
    if len(found) != 1:
        raise ValueError(f"{op}: axis must be one int, got {axis}")
    return found[0]


def _summand(x: TensorLike, dtype: Any, op: str = "sum") -> Tensor:
    """Convert the argument of a sum; bool and small integers become 32 bits wide."""
    x = _convert.numbers(op, x)
    wanted = SUMMED_AS.get(x.dtype, x.dtype) if dtype is None else canonical(dtype)
    if wanted is BOOL:
        raise TypeError(f"{op}: is not defined for bool; use any, all or count_nonzero")
    return creation.cast(x, wanted)


def _restore_axes(y: Tensor, x: Tensor | Spec, axis: Shape, keepdims: bool) -> Tensor:
    """Return a reduction of ``x`` with the dropped axes restored, with size 1.

    A scalar is returned as is: it broadcasts anyway.
    """
    if keepdims or not y.shape:
        return y
    sizes = tuple([1 if i in axis else n for i, n in enumerate(x.shape)])
    return run(shape.RESHAPE, y, shape=sizes)


def _broadcast_back(
    dy: Tensor, x_spec: Tensor | Spec, axis: Shape, keepdims: bool
) -> Tensor:
    """Repeat ``dy`` along the axes that a reduction of ``x`` has dropped."""
    dy = _restore_axes(dy, x_spec, axis, keepdims)
    return run(shape.BROADCAST_TO, dy, shape=x_spec.shape)


def selected(op: str, x: Tensor, where: TensorLike | None, other: float) -> Tensor:
    """Return ``x`` with the elements outside of the mask, if there is one, replaced."""
    if where is None:
        return x
    if (mask := _convert.asarray(where)).dtype is not BOOL:
        rule = f"where must be bool, got {named(mask.dtype)}; use x != 0"
        raise TypeError(f"{op}: {rule}")
    if broadcast_axes(mask.shape, x.shape) is None:
        raise misfit(op, "where must broadcast to x", mask, x)
    return compare.where(mask, x, other)


# --- sums and means --------------------------------------------------------------


SUM = Kernel(
    "Sum(x: number; axis: axes, keepdims: bool)",
    out=reduced,
    op="sum",
    doc="""``y = Σ x`` over ``axis``, in the dtype of ``x``; 0 for no elements.

    Integers wrap. Floating sums are at least as accurate as pairwise summation; float16
    is summed in float32. NaN gives NaN, and so do infinities of both signs.""",
)


def sum(
    x: TensorLike,
    /,
    axis: Axis = None,
    *,
    dtype: Any = None,
    keepdims: bool = False,
    where: TensorLike | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the sum over ``axis``; 0 where there are no elements.

    Integers wrap. The rounding error hardly grows with the number of elements,
    whichever axis is reduced.

    Args:
        x: A tensor of numbers.
        axis: The axes to reduce: an int, a sequence of ints, or None for all.
        dtype: Cast ``x`` to this dtype first. By default bool, int8 and int16 become
            int32, uint8 and uint16 become uint32, and other dtypes are kept.
        keepdims: Whether to keep the reduced axes, with size 1.
        where: A bool tensor that broadcasts to ``x``. Elements where it is False
            are left out, even NaN; their gradient is 0. None: use all elements.

    Returns:
        A tensor with the dtype in which the sum was computed.

    Raises:
        TypeError: ``x`` contains strings, ``dtype`` is bool, or ``where`` is not.
        ValueError: An axis is out of range, or ``where`` does not broadcast to ``x``.

    Example:
        >>> pg.sum([[1.0, 2.0], [3.0, 4.0]], axis=0)
        Tensor([4., 6.], dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(sum, unknown)
    if type(x) is not Tensor or dtype is not None or dtype_kind(x.dtype) not in "fc":
        x = _summand(x, dtype)
    if where is not None:
        x = selected("sum", x, where, 0)
    return _convert.reduction(SUM, x, axes("sum", axis, len(x.shape)), keepdims)


gradients(SUM, x=_broadcast_back)


@functools.lru_cache(maxsize=4096)
def broadcast_axes(sizes: Shape, wanted: Shape) -> Shape | None:
    """Return the axes of ``wanted`` along which ``sizes`` is repeated by broadcasting.

    None if ``sizes`` does not broadcast to ``wanted``.
    """
    lead = len(wanted) - len(sizes)
    pairs = zip(sizes, wanted[lead:], strict=False)
    if lead < 0 or not builtins.all(n in (1, m) for n, m in pairs):
        return None
    return *range(lead), *[i for i, n in enumerate(sizes, lead) if n != wanted[i]]


def sum_to(x: Tensor, sizes: tuple[int, ...], /) -> Tensor:
    """Return ``x`` summed to a shape that broadcasts to its own."""
    if x.shape == sizes:
        return x
    axis = broadcast_axes(sizes, x.shape)
    keepdims = len(x.shape) == len(sizes)
    y = run(SUM, x, axis=axis, keepdims=keepdims)
    return shape.shaped(y, sizes)


MEAN = Kernel(
    "Mean(x: inexact; axis: axes, keepdims: bool)",
    out=reduced,
    op="mean",
    doc="""``y = Σ x / n`` over ``axis``, summed as by ``Sum``; NaN where n is 0.""",
)


def mean(
    x: TensorLike,
    /,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    where: TensorLike | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the mean over ``axis``, ``Σ x / n``; NaN where there are no elements.

    Args:
        x: A tensor of numbers.
        axis: The axes to reduce: an int, a sequence of ints, or None for all.
        keepdims: Whether to keep the reduced axes, with size 1.
        where: A bool tensor that broadcasts to ``x`` and selects the elements, as
            for ``sum``.

    Returns:
        A tensor with the dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` contains strings, or ``where`` is not bool.
        ValueError: An axis is out of range, or ``where`` does not broadcast to ``x``.

    Example:
        >>> pg.mean([[1.0, 2.0], [3.0, 4.0]], axis=1)
        Tensor([1.5, 3.5], dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(mean, unknown)
    x = _convert.floating("mean", x)
    if where is not None:
        return _mean_where(x, axis, keepdims, where)
    return _convert.reduction(MEAN, x, axes("mean", axis, len(x.shape)), keepdims)


def _mean_where(x: Tensor, axis: Axis, keepdims: bool, where: TensorLike) -> Tensor:
    """Return the mean of the elements that the mask ``where`` selects."""
    along = axes("mean", axis, len(x.shape))
    parts = widened(x), creation.ones(x.shape, dtype=INT32)
    chosen = [selected("mean", part, where, 0) for part in parts]
    total, number = [_convert.reduction(SUM, t, along, keepdims) for t in chosen]
    return _quotient(total, number, x.dtype)


@decomposition(MEAN)
def _(x: Tensor, *, axis: Shape, keepdims: bool) -> Tensor:
    total = run(SUM, widened(x), axis=axis, keepdims=keepdims)
    return _quotient(total, count(x, axis), x.dtype)


def _quotient(total: Tensor, number: Tensor | int, dtype: DType) -> Tensor:
    if dtype_kind(dtype) == "c":
        # A complex divisor would turn infinite parts into NaN.
        parts = [_quotient(part, number, part.dtype) for part in complexes.parts(total)]
        return run(complexes.COMPLEX, *parts)
    if type(number) is Tensor:
        number = creation.cast(number, total.dtype)
    return creation.cast(total / number, dtype)


def count(x: Tensor | Spec, axis: Shape) -> int:
    """Return the number of elements that a reduction over ``axis`` combines."""
    return math.prod([x.shape[i] for i in axis])


def _mean_gradient(dy: Tensor, x_spec: Spec, axis: Shape, keepdims: bool) -> Tensor:
    share = 1 / builtins.max(count(x_spec, axis), 1)
    dx = creation.cast(widened(dy) * share, dy.dtype)
    return _broadcast_back(dx, x_spec, axis, keepdims)


gradients(MEAN, x=_mean_gradient)


# --- maximum and minimum ---------------------------------------------------------


def _as_real(op: str, x: TensorLike, axis: Axis) -> tuple[Tensor, Shape]:
    """Convert an argument to real numbers; raise unless it has elements to reduce."""
    x = _convert.real(op, x)
    axis = axes(op, axis, len(x.shape))
    if 0 in x.shape:
        check_not_empty(op, x, axis)
    return x, axis


def check_not_empty(op: str, x: Tensor | Spec, axis: Shape) -> None:
    if not count(x, axis):
        raise misfit(op, f"cannot reduce axis {axis} without elements", x)


def _nonempty_rule(op: str) -> Callable[..., Spec]:
    """Return the shape rule of a reduction that is undefined without elements."""

    def out(x: Spec, *, axis: Shape, keepdims: bool) -> Spec:
        found = reduced(x, axis=axis, keepdims=keepdims)
        check_not_empty(op, x, axis)
        return found

    return out


def _share_among_ties(
    dy: Tensor, x: Tensor, y: Tensor, axis: Shape, keepdims: bool
) -> Tensor:
    """Share ``dy`` equally among the elements that equal the extreme.

    Where the extreme is NaN, no element equals it, and the gradient is 0/0, NaN.
    """
    y = _restore_axes(y, x, axis, keepdims)
    wide = widened(_restore_axes(dy, x, axis, keepdims))
    hit = creation.cast(compare.equal(x, y), wide.dtype)
    ties = run(SUM, hit, axis=axis, keepdims=True)
    return creation.cast(wide / ties * hit, dy.dtype)


MAX = Kernel(
    "Max(x: integer | floating; axis: axes, keepdims: bool)",
    out=_nonempty_rule("max"),
    op="max",
    doc="""The maximum over ``axis``; NaN where an element is NaN.

    The maximum of 0.0 and -0.0 is either of them. It is an error to reduce an axis
    without elements.""",
)


def max(
    x: TensorLike,
    /,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    initial: float | None = None,
    where: TensorLike | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the maximum over ``axis``; NaN where an element is NaN.

    Elements that equal the maximum share the gradient equally; where the maximum is
    NaN, the gradient is also NaN. The maximum of 0.0 and -0.0 is either of the two.

    Args:
        x: A tensor of real numbers.
        axis: The axes to reduce: an int, a sequence of ints, or None for all.
        keepdims: Whether to keep the reduced axes, with size 1.
        initial: A number that the dtype of ``x`` can represent. It counts as one more
            element, and is the result where there are no elements.
        where: A bool tensor that broadcasts to ``x``, as for ``sum``; it needs
            ``initial``.

    Returns:
        A tensor with the dtype of ``x``.

    Raises:
        ValueError: There are no elements to reduce, or ``where`` is given, without
            ``initial``; an axis is out of range; or ``where`` does not broadcast.
        TypeError: ``x`` is complex, or contains strings, or ``where`` is not bool.

    Example:
        >>> pg.max([[1.0, 5.0], [3.0, 4.0]], axis=0)
        Tensor([3., 5.], dtype=float32, backend='cpu')
        >>> pg.max(pg.zeros((2, 0)), axis=1, initial=-1.0)
        Tensor([-1., -1.], dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(max, unknown)
    if initial is not None or where is not None:
        return _with_initial("max", x, axis, keepdims, initial, where)
    x, axis = _as_real("max", x, axis)
    return _convert.reduction(logic.ANY if x.dtype is BOOL else MAX, x, axis, keepdims)


def _with_initial(
    op: str,
    x: TensorLike,
    axis: Axis,
    keepdims: bool,
    initial: float | None,
    where: TensorLike | None,
) -> Tensor:
    """Return the maximum or minimum over ``axis``, with ``initial`` as an element."""
    x = _convert.real(op, x)
    if initial is None:
        raise ValueError(f"{op}: where needs initial, the result without elements")
    number = real(op, "initial", initial)
    if weak(op, number, x.dtype) is not x.dtype:
        rule = f"initial {initial} does not fit into {named(x.dtype)}; cast x"
        raise TypeError(f"{op}: {rule}")
    first = _convert.asarray(number, dtype=x.dtype)
    along = axes(op, axis, x.ndim)
    kernel, of_bool, function, bound = {
        "max": (MAX, logic.ANY, binary.maximum, -math.inf),
        "min": (MIN, logic.ALL, binary.minimum, math.inf),
    }[op]
    if where is not None:  # not with ``initial``, which would share the gradient
        if x.dtype is BOOL:
            bound = bound > 0
        elif dtype_kind(x.dtype) != "f":
            bound = LIMITS[x.dtype][bound > 0]
        x = selected(op, x, where, bound)
    if x.dtype is BOOL:
        kernel = of_bool
    elif not count(x, along):  # a sum of no elements is 0, and has a gradient
        return _convert.reduction(SUM, x, along, keepdims) + first
    return function(_convert.reduction(kernel, x, along, keepdims), first)


gradients(MAX, x=_share_among_ties)


MIN = Kernel(
    "Min(x: integer | floating; axis: axes, keepdims: bool)",
    out=_nonempty_rule("min"),
    op="min",
    doc="""The minimum over ``axis``; NaN where an element is NaN.

    The minimum of 0.0 and -0.0 is either of them. It is an error to reduce an axis
    without elements.""",
)


def min(
    x: TensorLike,
    /,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    initial: float | None = None,
    where: TensorLike | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the minimum over ``axis``; NaN where an element is NaN.

    Elements that equal the minimum share the gradient equally; where the minimum is
    NaN, the gradient is also NaN. The minimum of 0.0 and -0.0 is either of the two.

    Args:
        x: A tensor of real numbers.
        axis: The axes to reduce: an int, a sequence of ints, or None for all.
        keepdims: Whether to keep the reduced axes, with size 1.
        initial: A number that counts as one more element, as for ``max``.
        where: A bool tensor that broadcasts to ``x``, as for ``sum``; it needs
            ``initial``.

    Returns:
        A tensor with the dtype of ``x``.

    Raises:
        ValueError: There are no elements to reduce, or ``where`` is given, without
            ``initial``; an axis is out of range; or ``where`` does not broadcast.
        TypeError: ``x`` is complex, or contains strings, or ``where`` is not bool.

    Example:
        >>> pg.min([[1.0, 5.0], [3.0, 4.0]], axis=0)
        Tensor([1., 4.], dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(min, unknown)
    if initial is not None or where is not None:
        return _with_initial("min", x, axis, keepdims, initial, where)
    x, axis = _as_real("min", x, axis)
    return _convert.reduction(logic.ALL if x.dtype is BOOL else MIN, x, axis, keepdims)


@decomposition(MIN)
def _(x: Tensor, *, axis: Shape, keepdims: bool) -> Tensor:
    return reversed_order(run(MAX, reversed_order(x), axis=axis, keepdims=keepdims))


def reversed_order(x: Tensor) -> Tensor:
    """Map numbers so that their order reverses; ``-x`` may overflow for integers."""
    if dtype_kind(x.dtype) == "f":
        return unary.negative(x)
    return (-1 if dtype_kind(x.dtype) == "i" else int(np.iinfo(x.dtype).max)) - x


gradients(MIN, x=_share_among_ties)


# --- products --------------------------------------------------------------------


PROD = Kernel(
    "Prod(x: number; axis: axes, keepdims: bool)",
    out=reduced,
    op="prod",
    doc="""``y = Π x`` over ``axis``, in the dtype of ``x``; 1 for no elements.

    Integers wrap. float16 is multiplied in float32. The product of a single complex
    number is that number, even if it is infinite; a factor 1+0j would give NaN.""",
)


def prod(
    x: TensorLike,
    /,
    axis: Axis = None,
    *,
    dtype: Any = None,
    keepdims: bool = False,
    where: TensorLike | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the product over ``axis``; 1 where there are no elements.

    Integers wrap. The gradient does not divide, so it is also correct where elements
    are 0. The product of a single complex number is that number, even if it is
    infinite; ``np.prod`` multiplies it by 1+0j and gives NaN.

    Args:
        x: A tensor of numbers.
        axis: The axes to reduce: an int, a sequence of ints, or None for all.
        dtype: Cast ``x`` to this dtype first. By default bool, int8 and int16 become
            int32, uint8 and uint16 become uint32, and other dtypes are kept.
        keepdims: Whether to keep the reduced axes, with size 1.
        where: A bool tensor that broadcasts to ``x`` and selects the elements, as
            for ``sum``.

    Returns:
        A tensor with the dtype in which the product was computed.

    Raises:
        TypeError: ``x`` contains strings, ``dtype`` is bool, or ``where`` is not.
        ValueError: An axis is out of range, or ``where`` does not broadcast to ``x``.

    Example:
        >>> pg.prod([[1.0, 2.0], [3.0, 4.0]], axis=0)
        Tensor([3., 8.], dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(prod, unknown)
    x = selected("prod", _summand(x, dtype, "prod"), where, 1)
    return _convert.reduction(PROD, x, axes("prod", axis, len(x.shape)), keepdims)


@decomposition(PROD)  # also used for the gradient, which never divides
def _(x: Tensor, *, axis: Shape, keepdims: bool) -> Tensor:
    sizes = reduced(Spec(x.shape, x.dtype), axis=axis, keepdims=keepdims).shape
    if not count(x, axis):
        return creation.full(sizes, 1, dtype=x.dtype)
    y = widened(x)
    for i in axis:
        y = _product(y, i)
    return creation.cast(run(shape.RESHAPE, y, shape=sizes), x.dtype)


def _product(x: Tensor, axis: int) -> Tensor:
    """Multiply the halves of an axis until its size is 1; odd elements come last."""
    unpaired: list[Tensor] = []
    while (size := x.shape[axis]) > 1:
        sizes = [size // 2, size // 2, *[1] * (size % 2)]
        a, b, *odd = shape.split(x, sizes, axis=axis)
        x = a * b
        unpaired = unpaired + odd
    return math.prod(unpaired, start=x)


# --- roots ----------------------------------------------------------------------


def root(x: Tensor, /) -> Tensor:
    """Return ``√x`` with the derivative 0 at 0, which norms and ``std`` need."""
    zero = compare.equal(x, 0)
    return compare.where(zero, 0.0, unary.sqrt(compare.where(zero, 1.0, x)))
