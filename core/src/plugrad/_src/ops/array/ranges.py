"""Sequences of numbers. Kernels: ``LinSpace Range``."""

from __future__ import annotations

import math
from typing import Any, Unpack

import numpy as np

from plugrad._src.engine.dispatch import require_dtype, run
from plugrad._src.ops.basis import _convert, compare, creation, unary
from plugrad._src.ops.basis import shape as shapes
from plugrad._src.ops.basis.creation import is_scalar
from plugrad._src.ops.basis.variable import Variable
from plugrad._src.registry.contract import Kernel, Spec, decomposition
from plugrad._src.tensor.arguments import (
    flag,
    integer,
    number,
    real,
    sizes,
)
from plugrad._src.tensor.dtypes import (
    DType,
    canonical,
    check_range,
    dtype_kind,
    named,
)
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor

__all__ = ["arange", "linspace"]

Number = complex | np.generic
End = Number | Tensor | Variable


def _steps(start: float, stop: float, step: float) -> int:
    """Return the number of steps, computed once for all backends."""
    if step == 0 or not all(map(math.isfinite, (start, stop, step))):
        raise ValueError(
            f"arange: start {start}, stop {stop} and step {step} must be finite, and "
            "step not 0"
        )
    whole = all(isinstance(n, int) for n in (start, stop, step))
    steps = -((start - stop) // step) if whole else math.ceil((stop - start) / step)
    return max(int(steps), 0)


def _range_spec(*, start: float, step: float, size: int, dtype: DType) -> Spec:
    _steps(real("arange", "start", start), start, real("arange", "step", step))
    _check_sequence(start, step, size, dtype)
    return Spec((size,), dtype)


def _check_sequence(start: float, step: float, size: int, dtype: DType) -> None:
    """Raise unless ``dtype`` can represent the elements of a sequence."""
    if dtype_kind(dtype) not in "iuf":
        raise TypeError(f"arange: is not defined for {named(dtype)}; use astype")
    sizes("arange", size, "size")
    for place in (0, size - 1) if size else ():
        value = creation._truncated("arange", start + place * step, dtype)
        check_range("arange", value, dtype)


def _with_size(*, start: Any, stop: Any, step: Any, dtype: Any) -> dict[str, Any]:
    """Replace the attribute ``stop`` with ``size``."""
    given = {"start": start, "stop": stop, "step": step}
    begin, end, by = (real("arange", name, n) for name, n in given.items())
    return {
        "start": start,
        "step": step,
        "size": _steps(begin, end, by),
        "dtype": dtype,
    }


RANGE = Kernel(
    "Range(; start: number, step: number, size: size, dtype: dtype)",
    canonicalize=_with_size,
    out=_range_spec,
    op="arange",
    doc="""``start + i * step`` for i below ``size``; ``dtype`` is integer or floating.

    If ``start`` and ``step`` are int and ``dtype`` is integer, the elements are exact.
    Otherwise they are computed in float64 and converted as by ``Cast``. ``dtype`` can
    represent all of them.""",
)


def arange(
    start: End,
    /,
    stop: End | None = None,
    step: End = 1,
    *,
    dtype: Any = None,
    device: str | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the numbers ``start, start + step, …`` that come before ``stop``.

    ``arange(stop)`` starts at 0. If not all arguments are integers, elements are
    computed in float64 and then cast. Arguments may be scalar tensors; those for the
    start and the step must be integers. There is no gradient.

    Args:
        start: The first number, or the end if ``stop`` is None.
        stop: The end, which is not included.
        step: The difference between neighboring elements, positive or negative.
        dtype: The dtype; None means int32 if all arguments are integers, else float32.
        device: The backend on which the tensor is made; by default the active one.

    Returns:
        A tensor with one axis.

    Raises:
        ValueError: The step is 0, or an argument is not finite.
        TypeError: The dtype is neither integer nor real floating, or an argument is not
            a real number.
        OverflowError: The dtype cannot represent an element.

    Example:
        >>> pg.arange(4)
        Tensor([0, 1, 2, 3], dtype=int32, backend='cpu')
        >>> pg.arange(1, 2, 0.25)
        Tensor([1.  , 1.25, 1.5 , 1.75], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    if unknown:
        raise unexpected(arange, unknown)
    if device is not None:
        return _convert.call_on_device(device, arange, start, stop, step, dtype=dtype)
    first, last = (0, start) if stop is None else (start, stop)
    end = real("arange", "stop", last._item() if is_scalar(last) else last)
    begin, by = (
        real(
            "arange",
            name,
            n._item() if is_scalar(n) and dtype_kind(n.dtype) in "iu" else n,
        )
        for name, n in (("start", first), ("step", step))
    )
    usual = "int32" if all(isinstance(n, int) for n in (begin, end, by)) else "float32"
    wanted = require_dtype("arange", canonical(usual if dtype is None else dtype))
    size = _steps(begin, end, by)
    _check_sequence(begin, by, size, wanted)
    return run(RANGE, start=begin, step=by, size=size, dtype=wanted)


@decomposition(RANGE)
def _(start: float, step: float, size: int, dtype: DType) -> Tensor:
    if isinstance(start, int) and isinstance(step, int) and dtype_kind(dtype) in "iu":
        values = np.fromiter((start + i * step for i in range(size)), dtype, size)
    else:
        values = (start + np.arange(size) * float(step)).astype(dtype)
    return _convert.tensor_of(values, copy=False)


def _linspace_spec(
    *, start: complex, stop: complex, num: int, endpoint: bool, dtype: DType
) -> Spec:
    _check_ends(start, stop, dtype)
    return Spec((num,), dtype)


def _check_ends(start: complex, stop: complex, dtype: DType) -> None:
    """Raise unless ``dtype`` is floating and can represent both ends."""
    kinds = "fc" if all(isinstance(n, int | float) for n in (start, stop)) else "c"
    if dtype_kind(dtype) not in kinds:
        raise TypeError(
            f"linspace: {named(dtype)} cannot hold numbers from {start} to {stop}; use "
            "arange for integers"
        )
    for end in (start, stop):
        check_range("linspace", end, dtype)


LIN_SPACE = Kernel(
    "LinSpace(; start: number, stop: number, num: size, endpoint: bool, dtype: dtype)",
    canonicalize=lambda *, start, stop, num, endpoint=True, dtype="float32": dict(
        start=start, stop=stop, num=num, endpoint=endpoint, dtype=dtype
    ),
    out=_linspace_spec,
    op="linspace",
    doc="""``start + i * (stop - start) / n`` for i below ``num``.

    With ``endpoint``, n is ``num - 1`` and the last element is exactly ``stop``;
    without it, n is ``num``. If ``num`` is 1, or if ``stop`` equals ``start``, all
    elements are ``start``, even if it is infinite. Elements are computed in double
    precision and rounded to ``dtype``, which is floating or complex.""",
)


def linspace(
    start: End,
    stop: End,
    /,
    num: int,
    *,
    dtype: Any = None,
    device: str | None = None,
    endpoint: bool = True,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``num`` evenly spaced numbers from ``start`` to ``stop``.

    The spacing is ``(stop - start) / (num - 1)``, or ``(stop - start) / num`` without
    the endpoint. If ``num`` is 1, the number is ``start``. If both ends are equal, all
    elements equal them, even if they are infinite; NumPy, PyTorch and JAX then return
    NaN. Elements are computed in double precision and then rounded. If an end is a
    tensor, they are computed in the dtype of the result.

    Args:
        start: The first number, real or complex; or a scalar tensor, which has a
            gradient.
        stop: The last number, which is not included if ``endpoint`` is False.
        num: The number of elements.
        dtype: The dtype. None means float32, or complex64 if an end is complex, or the
            promoted dtype if an end is a tensor.
        endpoint: Whether ``stop`` is included.
        device: The backend on which the tensor is made; by default the active one.

    Returns:
        A tensor ``[num]``.

    Raises:
        ValueError: ``num`` is negative.
        TypeError: ``num`` is not an integer, the dtype is not floating, or it is real
            but an end is complex.
        OverflowError: The dtype cannot represent an end.

    Example:
        >>> pg.linspace(0, 1, 5)
        Tensor([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32, backend='cpu')
        >>> pg.linspace(0, 1, 4, endpoint=False)
        Tensor([0.  , 0.25, 0.5 , 0.75], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    if unknown:
        raise unexpected(linspace, unknown)
    if device is not None:
        more = {"dtype": dtype, "endpoint": endpoint}
        return _convert.call_on_device(device, linspace, start, stop, num, **more)
    if is_scalar(start) or is_scalar(stop):
        return _linspace_of_tensors(start, stop, num, dtype, endpoint)
    ends = number("linspace", "start", start), number("linspace", "stop", stop)
    usual = "complex64" if any(isinstance(n, complex) for n in ends) else "float32"
    wanted = require_dtype("linspace", canonical(usual if dtype is None else dtype))
    _check_ends(*ends, wanted)
    begin, end = (n if isinstance(n, complex) else float(n) for n in ends)
    num = integer("linspace", "num", num, 0)
    endpoint = flag("linspace", "endpoint", endpoint)
    return run(
        LIN_SPACE, start=begin, stop=end, num=num, endpoint=endpoint, dtype=wanted
    )


def _linspace_of_tensors(
    start: End, stop: End, num: int, dtype: Any, endpoint: bool
) -> Tensor:
    """Compute ``linspace`` with differentiable ops, if an end is a tensor."""
    for name, end in (("start", start), ("stop", stop)):
        if not is_scalar(end):
            number("linspace", name, end)
    ends = _convert.promote_all("linspace", start, stop)
    a, b = (_convert.floating("linspace", x) for x in ends)
    wanted = a.dtype if dtype is None else require_dtype("linspace", canonical(dtype))
    if dtype_kind(wanted) not in "fc"[dtype_kind(a.dtype) == "c" :]:
        raise TypeError(f"linspace: {named(wanted)} cannot hold numbers of {a.dtype}")
    a = creation.cast(a, wanted)
    b = creation.cast(b, wanted)
    parts = linspace(0, 1, num, dtype=wanted, endpoint=endpoint)
    if len(parts) < 2:
        return run(shapes.BROADCAST_TO, a, shape=parts.shape)
    same = compare.logical_and(compare.equal(a, b), unary.isinf(a))
    y = a + compare.where(same, 0, b - a) * parts  # infinity minus itself is NaN
    if not endpoint:
        return y
    return compare.where(arange(len(parts)) == len(parts) - 1, b, y)


@decomposition(LIN_SPACE)
def _(start: complex, stop: complex, num: int, endpoint: bool, dtype: DType) -> Tensor:
    steps = max(num - 1 if endpoint else num, 1)
    if num == 1 or start == stop:
        return _convert.tensor_of(np.full(num, start, dtype), copy=False)
    with np.errstate(all="ignore"):
        values = start + np.arange(num) * ((stop - start) / steps)
    if endpoint and num:
        values[-1] = stop
    return _convert.tensor_of(values.astype(dtype), copy=False)
