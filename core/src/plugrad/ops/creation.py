"""Ops that make tensors, and ``astype``.

Kernels: ``Cast Fill Identity LinSpace OnesLike Range ZerosLike``.

Map: conversion; constants; constants like a tensor; sequences; matrices and grids.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from plugrad._arguments import Ints, choice, flag, integer, number, real, sizes
from plugrad._dtypes import (
    FLOAT32,
    STRING,
    DType,
    canonical,
    check_range,
    dtype_of,
    named,
)
from plugrad._engine import active, run
from plugrad._kernel import Kernel, Spec, decomposition, gradients, same
from plugrad._tensor import Tensor, TensorLike

from . import _convert, compare
from . import shape as shapes

Number = complex | np.generic
Value = Number | str | bytes

# --- conversion ------------------------------------------------------------------

CAST = Kernel("Cast(x; dtype)", out=lambda x, dtype: Spec(x.shape, dtype), op="astype")


def astype(x: TensorLike, dtype: Any, /) -> Tensor:
    """Return the elements converted to ``dtype``; ``x`` itself where it has it.

    On the way to integers floating numbers are truncated towards zero, what is out of
    range wraps, NaN and infinities give 0. To bool, anything but zero is True. Complex
    numbers lose their imaginary part on the way to real ones.

    Raises:
        TypeError: The dtype is unknown, the backend has none such, or one of the two is
            that of strings.

    """
    x = x if type(x) is Tensor else _convert.asarray(x)
    dtype = canonical(dtype)
    if x.dtype is dtype:
        return x
    if x.dtype is STRING or dtype is STRING:
        raise TypeError(
            f"astype: {named(x.dtype)} does not become {named(dtype)}; strings and "
            "numbers are converted on the host"
        )
    return run(CAST, x, dtype=_held("astype", dtype))


gradients(CAST, x=lambda dy, x_spec: astype(dy, x_spec.dtype))


def _held(op: str, dtype: DType) -> DType:
    """Return ``dtype`` if the active backend holds it."""
    backend = active()
    if dtype not in backend.dtypes:
        raise TypeError(f"{op}: backend {backend.name!r} has no {named(dtype)}")
    return dtype


IDENTITY = Kernel("Identity(x)", out=same, op="identity")


def identity(x: TensorLike, /) -> Tensor:
    """Return ``x`` as a new tensor; a backend may share the memory."""
    return _convert.unary(IDENTITY, x)


decomposition(IDENTITY, lambda x: run(shapes.RESHAPE, x, shape=x.shape))
gradients(IDENTITY, x=lambda dy: dy)


# --- constants -------------------------------------------------------------------

FILL = Kernel(
    "Fill(; shape, value, dtype)",
    out=lambda shape, value, dtype: Spec(shape, dtype),
    op="full",
)


def full(shape: Ints, fill_value: Value, /, *, dtype: Any = None) -> Tensor:
    """Return ``fill_value`` in every place of ``shape``.

    The dtype is float32, int32, bool, complex64 or string, after the value, unless
    given; an integer one takes a floating value without its fraction.

    Raises:
        ValueError: A size is negative.
        TypeError: The value is no number or text, or complex and the dtype is not; a
            size is no integer; the backend does not have the dtype.
        OverflowError: The dtype cannot hold the value.

    """
    if isinstance(fill_value, str | bytes):
        text = fill_value.encode() if isinstance(fill_value, str) else bytes(fill_value)
        wanted = STRING if dtype is None else canonical(dtype)
        if wanted is not STRING:
            raise TypeError(f"full: {wanted} cannot hold {fill_value!r}")
        shape = sizes("full", shape)
        return run(FILL, shape=shape, value=text, dtype=_held("full", wanted))
    value = number("full", "fill_value", fill_value)
    wanted = dtype_of(value) if dtype is None else _numeric("full", dtype)
    if isinstance(value, complex) and wanted.kind in "iuf":
        raise TypeError(f"full: {wanted} cannot hold the complex number {value}")
    if isinstance(value, float) and wanted.kind in "iu":
        if not math.isfinite(value):
            raise OverflowError(f"full: {wanted} cannot hold {value}")
        value = int(value)
    check_range("full", value, wanted)
    shape = sizes("full", shape)
    return run(FILL, shape=shape, value=value, dtype=_held("full", wanted))


def zeros(shape: Ints, /, *, dtype: Any = None) -> Tensor:
    """Return zeros; float32 unless another dtype is given. Errors are those of full."""
    wanted = FLOAT32 if dtype is None else _held("zeros", _numeric("zeros", dtype))
    return run(FILL, shape=sizes("zeros", shape), value=0, dtype=wanted)


def ones(shape: Ints, /, *, dtype: Any = None) -> Tensor:
    """Return ones; float32 unless another dtype is given. Errors are those of full."""
    wanted = FLOAT32 if dtype is None else _held("ones", _numeric("ones", dtype))
    return run(FILL, shape=sizes("ones", shape), value=1, dtype=wanted)


def _numeric(op: str, dtype: Any) -> DType:
    """Return a dtype that holds numbers."""
    wanted = canonical(dtype)
    if wanted is STRING:
        raise TypeError(f"{op}: strings are no numbers; use full, with str or bytes")
    return wanted


# --- constants like a tensor -----------------------------------------------------


def full_like(x: TensorLike, fill_value: Value, /, *, dtype: Any = None) -> Tensor:
    """Return ``fill_value`` in the shape, and unless given the dtype, of ``x``."""
    x = _convert.asarray(x)
    return full(x.shape, fill_value, dtype=x.dtype if dtype is None else dtype)


ZEROS_LIKE = Kernel("ZerosLike(x)", out=same, op="zeros_like")


def zeros_like(x: TensorLike, /, *, dtype: Any = None) -> Tensor:
    """Return zeros in the shape, and unless given the dtype, of ``x``."""
    x = _convert.asarray(x)
    if dtype is None and x.dtype is not STRING:
        return run(ZEROS_LIKE, x)
    return zeros(x.shape, dtype=x.dtype if dtype is None else dtype)


decomposition(ZEROS_LIKE, lambda x: zeros(x.shape, dtype=x.dtype))


ONES_LIKE = Kernel("OnesLike(x)", out=same, op="ones_like")


def ones_like(x: TensorLike, /, *, dtype: Any = None) -> Tensor:
    """Return ones in the shape, and unless given the dtype, of ``x``."""
    x = _convert.asarray(x)
    if dtype is None and x.dtype is not STRING:
        return run(ONES_LIKE, x)
    return ones(x.shape, dtype=x.dtype if dtype is None else dtype)


decomposition(ONES_LIKE, lambda x: ones(x.shape, dtype=x.dtype))


# --- sequences -------------------------------------------------------------------


def _sized(*, start: float, stop: float, step: float, dtype: Any) -> dict[str, Any]:
    """Turn ``stop`` into a size, worked out once for all backends."""
    if step == 0 or not all(map(math.isfinite, (start, stop, step))):
        raise ValueError(
            f"arange: from {start} to {stop} by {step} is no sequence; all must be "
            "finite and the step not 0"
        )
    whole = all(isinstance(n, int) for n in (start, stop, step))
    steps = -((start - stop) // step) if whole else math.ceil((stop - start) / step)
    size = max(int(steps), 0)
    return {"start": start, "step": step, "size": size, "dtype": canonical(dtype)}


RANGE = Kernel(
    "Range(; start, step, size, dtype)",
    normalize=_sized,
    out=lambda start, step, size, dtype: Spec((size,), dtype),
    op="arange",
)


def arange(
    start: Number, /, stop: Number | None = None, step: Number = 1, *, dtype: Any = None
) -> Tensor:
    """Return ``start, start + step, …`` as far as before ``stop``.

    ``arange(stop)`` starts at 0. The dtype is int32 if all three are integers, else
    float32, unless given; elements are computed in float64, if not all are integers,
    and then cast to it.

    Raises:
        ValueError: The step is 0, or something is not finite.
        TypeError: The dtype is neither integer nor real floating, or something is no
            real number.
        OverflowError: The dtype cannot hold an element.

    """
    first, last = (0, start) if stop is None else (start, stop)
    begin, end = real("arange", "start", first), real("arange", "stop", last)
    by = real("arange", "step", step)
    usual = "int32" if all(isinstance(n, int) for n in (begin, end, by)) else "float32"
    wanted = _held("arange", canonical(usual if dtype is None else dtype))
    if wanted.kind not in "iuf":
        raise TypeError(f"arange: there is no sequence of {named(wanted)}; use astype")
    attrs = _sized(start=begin, stop=end, step=by, dtype=wanted)
    sizes("arange", attrs["size"], "size")
    for place in (0, attrs["size"] - 1) if attrs["size"] else ():
        value = begin + place * by
        check_range("arange", int(value) if wanted.kind in "iu" else value, wanted)
    return run(RANGE, **attrs)


@decomposition(RANGE)
def _(start: float, step: float, size: int, dtype: DType) -> Tensor:
    if isinstance(start, int) and isinstance(step, int):
        values = np.fromiter(range(start, start + size * step, step), dtype, size)
    else:
        values = (start + np.arange(size) * step).astype(dtype)
    return _convert.asarray(values, copy=False)


LIN_SPACE = Kernel(
    "LinSpace(; start, stop, num, endpoint, dtype)",
    normalize=lambda *, start, stop, num, endpoint=True, dtype="float32": dict(
        start=start, stop=stop, num=num, endpoint=endpoint, dtype=canonical(dtype)
    ),
    out=lambda start, stop, num, endpoint, dtype: Spec((num,), dtype),
    op="linspace",
)


def linspace(
    start: Number,
    stop: Number,
    /,
    num: int,
    *,
    dtype: Any = None,
    endpoint: bool = True,
) -> Tensor:
    """Return ``num`` numbers from ``start`` to ``stop`` at equal distances.

    ``endpoint=False`` leaves ``stop`` out, and makes the distance ``(stop - start) /
    num``; else both ends are there, and one number is ``start``. The dtype is float32,
    or complex64 if an end is complex, unless given; elements are computed in double
    precision and then rounded to it.

    Raises:
        ValueError: ``num`` is negative.
        TypeError: ``num`` is no integer, or the dtype not floating, or real though an
            end is complex.
        OverflowError: The dtype cannot hold an end.

    """
    ends = number("linspace", "start", start), number("linspace", "stop", stop)
    kinds = "c" if any(isinstance(end, complex) for end in ends) else "fc"
    usual = "complex64" if kinds == "c" else "float32"
    wanted = _held("linspace", canonical(usual if dtype is None else dtype))
    if wanted.kind not in kinds:
        raise TypeError(
            f"linspace: {named(wanted)} cannot hold numbers from {ends[0]} to "
            f"{ends[1]}; use arange for integers"
        )
    for end in ends:
        check_range("linspace", end, wanted)
    begin, end = (n if isinstance(n, complex) else float(n) for n in ends)
    num = integer("linspace", "num", num, 0)
    endpoint = flag("linspace", "endpoint", endpoint)
    return run(
        LIN_SPACE, start=begin, stop=end, num=num, endpoint=endpoint, dtype=wanted
    )


@decomposition(LIN_SPACE)
def _(start: complex, stop: complex, num: int, endpoint: bool, dtype: DType) -> Tensor:
    steps = max(num - 1 if endpoint else num, 1)
    with np.errstate(all="ignore"):
        values = start + np.arange(num) * ((stop - start) / steps)
    if endpoint and num > 1:
        values[-1] = stop
    return _convert.asarray(values.astype(dtype), copy=False)


# --- matrices and grids ----------------------------------------------------------


def eye(n: int, m: int | None = None, /, *, k: int = 0, dtype: Any = None) -> Tensor:
    """Return ``n`` rows and ``m`` (default ``n``) columns with ones on a diagonal.

    ``k`` is the diagonal: 0 the main one, above it if positive, below if negative. The
    dtype is float32 unless given; a negative size is a ValueError.
    """
    rows, columns = sizes("eye", (n, n if m is None else m))
    hit = _diagonal("eye", rows, columns, k) == arange(columns)
    return astype(hit, FLOAT32 if dtype is None else dtype)


def _diagonal(op: str, rows: int, columns: int, k: int) -> Tensor:
    """Return, as a column, in which place of each row diagonal ``k`` lies."""
    k = max(-rows, min(integer(op, "k", k), columns))
    return shapes.reshape(arange(k, rows + k), (rows, 1))


def tril(x: TensorLike, /, *, k: int = 0) -> Tensor:
    """Return ``x`` with zeros above diagonal ``k`` of its last two axes.

    ``k`` is that of ``eye``. Fewer than two axes are a ValueError.
    """
    x = _convert.numbers("tril", x)
    return compare.where(_above("tril", x, k), False, x)


def triu(x: TensorLike, /, *, k: int = 0) -> Tensor:
    """Return ``x`` with zeros below diagonal ``k`` of its last two axes.

    ``k`` is that of ``eye``. Fewer than two axes are a ValueError.
    """
    x = _convert.numbers("triu", x)
    return compare.where(_above("triu", x, integer("triu", "k", k) - 1), x, False)


def _above(op: str, x: Tensor, k: int) -> Tensor:
    """Return where the last two axes are above diagonal ``k``."""
    if len(x.shape) < 2:
        raise ValueError(f"{op}: x must have two axes or more, got shape {x.shape}")
    rows, columns = x.shape[-2:]
    return arange(columns) > _diagonal(op, rows, columns, k)


def meshgrid(*xs: TensorLike, indexing: Literal["xy", "ij"] = "xy") -> list[Tensor]:
    """Return each of the vectors ``xs``, repeated over the grid that they span.

    ``indexing="ij"`` gives shape (n_0, n_1, …), axis i belonging to ``xs[i]``; "xy"
    swaps the first two axes, so that those of a picture are rows and columns. Each has
    the dtype of its vector; a scalar is a vector of one element, and more than one axis
    is a ValueError.
    """
    choice("meshgrid", "indexing", indexing, "xy", "ij")
    vectors = [_convert.asarray(x) for x in xs]
    for x in vectors:
        if len(x.shape) > 1:
            raise ValueError(f"meshgrid: expected vectors, got shape {x.shape}")
    axes = list(range(len(vectors)))  # of each vector, and the vector of each axis
    if indexing == "xy":
        axes[:2] = reversed(axes[:2])
    grid = tuple(vectors[axis].size for axis in axes)
    columns = [
        shapes.reshape(x, (-1, *[1] * (len(axes) - axis - 1)))
        for axis, x in zip(axes, vectors, strict=True)
    ]
    return [shapes.broadcast_to(x, grid) for x in columns]
