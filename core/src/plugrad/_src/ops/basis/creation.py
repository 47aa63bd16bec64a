"""Ops that create tensors, and ``astype``.

Kernels: ``Bitcast Cast Fill Identity OnesLike ZerosLike``.

Contents: conversion; constants; constants shaped like a tensor. Ops that are composed
of these are in ``grids``, and sequences are in ``ranges``.
"""

from __future__ import annotations

import math
from typing import Any, TypeGuard, Unpack

import numpy as np

from plugrad._src.engine.dispatch import require_dtype, run
from plugrad._src.registry.contract import Kernel, Spec, decomposition, gradients, same
from plugrad._src.tensor.arguments import (
    Ints,
    flag,
    misfit,
    number,
    sizes,
)
from plugrad._src.tensor.dtypes import (
    FLOAT32,
    STRING,
    DType,
    canonical,
    check_range,
    dtype_kind,
    dtype_of,
    named,
)
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike

from . import _convert
from . import shape as shapes
from .variable import Variable

__all__ = [
    "astype",
    "bitcast",
    "empty",
    "empty_like",
    "full",
    "full_like",
    "identity",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]

Number = complex | np.generic
End = Number | Tensor | Variable
Value = End | str | bytes

# --- conversion ------------------------------------------------------------------


def _cast_spec(x: Spec, *, dtype: DType) -> Spec:
    _check_numbers(x.dtype, dtype)
    return Spec(x.shape, dtype)


def _check_numbers(old: DType, new: DType) -> None:
    if old is STRING or new is STRING:
        raise TypeError(
            f"astype: cannot cast {named(old)} to {named(new)}; convert strings and "
            "numbers on the host"
        )


CAST = Kernel(
    "Cast(x: bool | number; dtype: dtype)",
    out=_cast_spec,
    op="astype",
    doc="""The elements of ``x`` in another dtype.

    To integers: floating numbers are truncated towards zero, and the result wraps as in
    two's complement; NaN and infinities give 0; other integers wrap. To floating
    numbers: rounded to the nearest, ties to even; numbers that are too large become
    infinite. To bool: whether the element is not 0; NaN is True. From bool: 0 and 1.
    From complex to real: the real part.""",
)


def astype(
    x: TensorLike, dtype: Any, /, *, copy: bool = True, device: str | None = None
) -> Tensor:
    """Return the elements of ``x`` converted to ``dtype``.

    Integer dtypes: floating-point numbers are truncated towards zero, out-of-range
    results wrap (modulo ``2^bits``), and NaN and infinities give 0. This is the same on
    every backend. Floating dtypes: elements are rounded to nearest, and elements that
    are too large become infinite. bool: everything but zero is True. Complex numbers
    lose their imaginary part if ``dtype`` is real.

    Args:
        x: A tensor of numbers or bool.
        dtype: A plugrad or NumPy dtype, or its name.
        copy: False returns ``x`` itself if it already has the dtype.
        device: The backend on which the tensor is made; by default the active one.

    Returns:
        A new tensor with the shape of ``x``.

    Raises:
        TypeError: The dtype is unknown, the backend lacks it, or exactly one of the two
            dtypes is ``string``.

    Example:
        >>> pg.astype([1.9, -1.9, float("nan")], "int32")
        Tensor([ 1, -1,  0], dtype=int32, backend='cpu')

    Source:
        The array API standard, which does not define the result for numbers that are
        out of range.

    """
    if device is not None:
        return _convert.call_on_device(device, astype, x, dtype, copy=copy)
    x = x if type(x) is Tensor else _convert.asarray(x)
    y = cast(x, dtype)
    return identity(x) if y is x and flag("astype", "copy", copy) else y


def cast(x: TensorLike, dtype: Any) -> Tensor:
    """Return ``astype(x, dtype, copy=False)``."""
    x = x if type(x) is Tensor else _convert.asarray(x)
    dtype = canonical(dtype)
    if x.dtype is dtype:
        return x
    _check_numbers(x.dtype, dtype)
    return run(CAST, x, dtype=require_dtype("astype", dtype))


gradients(CAST, x=lambda dy, x_spec: cast(dy, x_spec.dtype))


def _bitcast_spec(x: Spec, *, dtype: DType) -> Spec:
    """Return the spec of ``bitcast``, whose last axis splits or joins elements."""
    for one in (x.dtype, dtype):
        if dtype_kind(one) not in "iufc":
            rule = f"{named(one)} is not a numeric dtype; cast with astype"
            raise TypeError(f"bitcast: {named(x.dtype)} to {named(dtype)}: {rule}")
    old, new = x.dtype.itemsize, dtype.itemsize
    if old >= new:
        return Spec((*x.shape, old // new) if old > new else x.shape, dtype)
    if x.shape[-1:] != (new // old,):
        rule = f"the last axis must have size {new // old}, to form one {named(dtype)}"
        raise misfit("bitcast", rule, x)
    return Spec(x.shape[:-1], dtype)


BITCAST = Kernel(
    "Bitcast(x: number; dtype: dtype)",
    out=_bitcast_spec,
    op="bitcast",
    doc="""The bits of ``x`` as elements of another dtype.

    An element of n times the width becomes n elements along a new last axis, and n
    elements along the last axis become one of n times the width. The least
    significant byte of an element comes first.""",
)


def bitcast(x: TensorLike, dtype: Any, /) -> Tensor:
    """Return the bits of ``x`` as elements of ``dtype``; no value is converted.

    If an element of ``dtype`` is narrower, each element of ``x`` is split along a new
    last axis. If it is wider, the elements along the last axis of ``x`` are joined into
    one, and the axis is removed. The bytes are in memory order: on x86, arm64 and
    WebAssembly, the least significant byte comes first.

    Args:
        x: A tensor of numbers.
        dtype: The numeric dtype to interpret the bits as.

    Returns:
        A tensor of ``dtype``; it has the shape of ``x`` if both dtypes have the same
        width. The op has no gradient; pass ``stop_gradient(x)`` to use it in a function
        that is differentiated.

    Raises:
        ValueError: ``dtype`` is wider, and the last axis of ``x`` has the wrong size.
        TypeError: One of the dtypes is bool or ``string``, or the backend lacks
            ``dtype``.

    Example:
        >>> pg.bitcast([1.0, -0.0], "int32")
        Tensor([ 1065353216, -2147483648], dtype=int32, backend='cpu')

    Source:
        The semantics are those of ``tf.bitcast`` in TensorFlow and of
        ``jax.lax.bitcast_convert_type``.

    """
    x = _convert.asarray(x)
    dtype = canonical(dtype)
    _bitcast_spec(Spec(x.shape, x.dtype), dtype=dtype)
    return run(BITCAST, x, dtype=require_dtype("bitcast", dtype))


IDENTITY = Kernel(
    "Identity(x)",
    out=same,
    op="identity",
    doc="""The elements of ``x``.""",
)


def identity(x: TensorLike, /) -> Tensor:
    """Return ``x`` as a new tensor.

    On cpu, wasm and opencl the result is in C order, whatever the strides of ``x`` are.
    The result may share memory with ``x``. The gradient is the cotangent.

    Args:
        x: A tensor of any dtype.

    Returns:
        A tensor with the shape and dtype of ``x``.

    Example:
        >>> pg.identity([1.0, 2.0])
        Tensor([1., 2.], dtype=float32, backend='cpu')

    """
    return _convert.unary(IDENTITY, x)


decomposition(IDENTITY, lambda x: run(shapes.RESHAPE, x, shape=x.shape))
gradients(IDENTITY, x=lambda dy: dy)


# --- constants -------------------------------------------------------------------


def _fill_spec(*, shape: tuple[int, ...], value: complex | bytes, dtype: DType) -> Spec:
    if isinstance(value, bytes) is not (dtype is STRING):
        raise TypeError(f"full: {named(dtype)} cannot hold {value!r}")
    if not isinstance(value, bytes):
        _check_fits("full", value, dtype)
    return Spec(shape, dtype)


def _check_fits(op: str, value: complex, dtype: DType) -> None:
    """Raise unless ``dtype`` can represent a number; integer dtypes accept no float."""
    if dtype_kind(dtype) in "iu" and isinstance(value, float):
        raise TypeError(f"{op}: {dtype} cannot hold {value}; give an int")
    if dtype_kind(dtype) in "iuf" and not isinstance(value, int | float):
        raise TypeError(f"{op}: {dtype} cannot hold the complex number {value}")
    check_range(op, value, dtype)


def is_scalar(given: object) -> TypeGuard[Tensor | Variable]:
    """Return whether ``given`` is a scalar tensor or variable."""
    return isinstance(given, Tensor | Variable) and given.shape == ()


def _truncated(op: str, value: complex, dtype: DType) -> complex:
    """Return a number without its fraction if ``dtype`` is an integer dtype."""
    if not isinstance(value, float) or dtype_kind(dtype) not in "iu":
        return value
    if not math.isfinite(value):
        raise OverflowError(f"{op}: {dtype} cannot hold {value}")
    return int(value)


FILL = Kernel(
    "Fill(; shape: shape, value: scalar, dtype: dtype)",
    out=_fill_spec,
    op="full",
    doc="""A tensor of ``shape`` in which every element is ``value``.

    ``value`` is a Python number that ``dtype`` can represent, an int for an integer
    dtype; or bytes for strings. The sign of -0.0 is kept. For bool, every number but 0
    is True.""",
)


def full(
    shape: Ints,
    fill_value: Value,
    *,
    dtype: Any = None,
    device: str | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return a tensor of ``shape`` in which every element is ``fill_value``.

    Args:
        shape: The shape; 3 is short for (3,).
        fill_value: A number, str or bytes; or a scalar tensor, which is cast and
            broadcast with its gradient.
        dtype: The dtype. None chooses float32, int32, bool, complex64 or string by the
            type of the value, or the dtype of a tensor. An integer dtype truncates a
            floating-point value.
        device: The backend on which the tensor is made; by default the active one.

    Returns:
        A tensor with the given shape and dtype.

    Raises:
        ValueError: A size is negative.
        TypeError: The value is not a number or text; it is complex and the dtype is
            not; a size is not an integer; or the backend lacks the dtype.
        OverflowError: The dtype cannot represent the value.

    Example:
        >>> pg.full((2, 3), 7)
        Tensor([[7, 7, 7],
                [7, 7, 7]], dtype=int32, backend='cpu')

    Source:
        The array API standard.

    """
    if unknown:
        raise unexpected(full, unknown)
    if device is not None:
        return _convert.call_on_device(device, full, shape, fill_value, dtype=dtype)
    if is_scalar(fill_value):
        return _repeat_scalar(shape, fill_value, dtype)
    if isinstance(fill_value, str | bytes):
        text = fill_value.encode() if isinstance(fill_value, str) else bytes(fill_value)
        wanted = STRING if dtype is None else canonical(dtype)
        if wanted is not STRING:
            raise TypeError(f"full: {wanted} cannot hold {fill_value!r}")
        shape = sizes("full", shape)
        return run(FILL, shape=shape, value=text, dtype=require_dtype("full", wanted))
    value = number("full", "fill_value", fill_value)
    wanted = dtype_of(value) if dtype is None else _numeric("full", dtype)
    value = _truncated("full", value, wanted)
    _check_fits("full", value, wanted)
    shape = sizes("full", shape)
    return run(FILL, shape=shape, value=value, dtype=require_dtype("full", wanted))


def _repeat_scalar(shape: Ints, fill_value: Tensor | Variable, dtype: Any) -> Tensor:
    """Broadcast a scalar tensor with ops that have a gradient."""
    own = fill_value.dtype
    wanted = own if dtype is None else canonical(dtype)
    if dtype_kind(own) == "c" and dtype_kind(wanted) in "iuf":
        raise TypeError(f"full: {wanted} cannot hold complex numbers; use real")
    return shapes.broadcast_to(cast(fill_value, wanted), sizes("full", shape))


def zeros(
    shape: Ints,
    *more: int,
    dtype: Any = None,
    device: str | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return a tensor of zeros.

    Args:
        shape: The shape; 3 is short for (3,).
        more: The remaining sizes, if ``shape`` is only the first one.
        dtype: The dtype; float32 by default.
        device: The backend on which the tensor is made; by default the active one.

    Returns:
        A tensor with the given shape and dtype.

    Raises:
        ValueError: A size is negative.
        TypeError: A size is not an integer, the dtype is ``string``, or the
            backend lacks it.

    Example:
        >>> pg.zeros((2, 2))
        Tensor([[0., 0.],
                [0., 0.]], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    if unknown:
        raise unexpected(zeros, unknown)
    if device is not None:
        return _convert.call_on_device(device, zeros, shape, *more, dtype=dtype)
    wanted = (
        FLOAT32 if dtype is None else require_dtype("zeros", _numeric("zeros", dtype))
    )
    return run(FILL, shape=shape_of("zeros", shape, more), value=0, dtype=wanted)


def ones(
    shape: Ints,
    *more: int,
    dtype: Any = None,
    device: str | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return a tensor of ones.

    Args:
        shape: The shape; 3 is short for (3,).
        more: The remaining sizes, if ``shape`` is only the first one.
        dtype: The dtype; float32 by default.
        device: The backend on which the tensor is made; by default the active one.

    Returns:
        A tensor with the given shape and dtype.

    Raises:
        ValueError: A size is negative.
        TypeError: A size is not an integer, the dtype is ``string``, or the
            backend lacks it.

    Example:
        >>> pg.ones(3, dtype="int32")
        Tensor([1, 1, 1], dtype=int32, backend='cpu')

    Source:
        The array API standard.

    """
    if unknown:
        raise unexpected(ones, unknown)
    if device is not None:
        return _convert.call_on_device(device, ones, shape, *more, dtype=dtype)
    wanted = (
        FLOAT32 if dtype is None else require_dtype("ones", _numeric("ones", dtype))
    )
    return run(FILL, shape=shape_of("ones", shape, more), value=1, dtype=wanted)


def shape_of(op: str, shape: Ints, more: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape that was passed as one argument, or as one argument per size."""
    if not more:
        return sizes(op, shape)
    try:
        return sizes(op, (shape, *more))
    except TypeError:
        raise TypeError(
            f"{op}: the sizes must be integers, got {(shape, *more)}; pass the shape "
            f"as one argument, {op}((2, 3)), and the dtype by keyword, dtype="
        ) from None


def _numeric(op: str, dtype: Any) -> DType:
    """Return ``dtype`` in canonical form; raise if it is ``string``."""
    wanted = canonical(dtype)
    if wanted is STRING:
        raise TypeError(f"{op}: dtype must not be string; use full with str or bytes")
    return wanted


# --- constants shaped like a tensor ----------------------------------------------


ZEROS_LIKE = Kernel(
    "ZerosLike(x: bool | number)",
    out=same,
    op="zeros_like",
    doc="""Zeros of the shape and dtype of ``x``; False for bool.""",
)


def zeros_like(
    x: TensorLike,
    /,
    *,
    dtype: Any = None,
    device: str | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return a tensor of zeros shaped like ``x``.

    Args:
        x: A tensor; only its shape and dtype matter.
        dtype: The dtype; by default that of ``x``.
        device: The backend on which the tensor is made; by default the active one.

    Returns:
        A tensor with the shape of ``x`` and the chosen dtype.

    Raises:
        TypeError: The dtype is ``string``, or the backend lacks it.

    Example:
        >>> pg.zeros_like([1, 2, 3])
        Tensor([0, 0, 0], dtype=int32, backend='cpu')

    Source:
        The array API standard.

    """
    if unknown:
        raise unexpected(zeros_like, unknown)
    if device is not None:
        return _convert.call_on_device(device, zeros_like, x, dtype=dtype)
    x = _convert.asarray(x)
    if dtype is None and x.dtype is not STRING:
        return run(ZEROS_LIKE, x)
    return zeros(x.shape, dtype=x.dtype if dtype is None else dtype)


decomposition(ZEROS_LIKE, lambda x: zeros(x.shape, dtype=x.dtype))


ONES_LIKE = Kernel(
    "OnesLike(x: bool | number)",
    out=same,
    op="ones_like",
    doc="""Ones of the shape and dtype of ``x``; True for bool.""",
)


def ones_like(
    x: TensorLike,
    /,
    *,
    dtype: Any = None,
    device: str | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return a tensor of ones shaped like ``x``.

    Args:
        x: A tensor; only its shape and dtype matter.
        dtype: The dtype; by default that of ``x``.
        device: The backend on which the tensor is made; by default the active one.

    Returns:
        A tensor with the shape of ``x`` and the chosen dtype.

    Raises:
        TypeError: The dtype is ``string``, or the backend lacks it.

    Example:
        >>> pg.ones_like([1, 2, 3])
        Tensor([1, 1, 1], dtype=int32, backend='cpu')

    Source:
        The array API standard.

    """
    if unknown:
        raise unexpected(ones_like, unknown)
    if device is not None:
        return _convert.call_on_device(device, ones_like, x, dtype=dtype)
    x = _convert.asarray(x)
    if dtype is None and x.dtype is not STRING:
        return run(ONES_LIKE, x)
    return ones(x.shape, dtype=x.dtype if dtype is None else dtype)


decomposition(ONES_LIKE, lambda x: ones(x.shape, dtype=x.dtype))


def empty(
    shape: Ints,
    *more: int,
    dtype: Any = None,
    device: str | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return a tensor whose elements are to be replaced; until then they are zeros.

    Args:
        shape: The shape; 3 is short for (3,).
        more: The remaining sizes, if ``shape`` is only the first one.
        dtype: The dtype; float32 by default.
        device: The backend on which the tensor is made; by default the active one.

    Returns:
        A tensor with the given shape and dtype.

    Raises:
        ValueError: A size is negative.
        TypeError: A size is not an integer, the dtype is ``string``, or the
            backend lacks it.

    Example:
        >>> pg.empty((2, 3)).shape
        (2, 3)

    Source:
        The array API standard.

    """
    if unknown:
        raise unexpected(empty, unknown)
    return zeros(shape_of("empty", shape, more), dtype=dtype, device=device)


def empty_like(
    x: TensorLike,
    /,
    *,
    dtype: Any = None,
    device: str | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return a tensor shaped like ``x`` whose elements, now zeros, are to be replaced.

    Args:
        x: A tensor; only its shape and dtype matter.
        dtype: The dtype; by default that of ``x``.
        device: The backend on which the tensor is made; by default the active one.

    Returns:
        A tensor with the shape of ``x`` and the chosen dtype.

    Raises:
        TypeError: The dtype is ``string``, or the backend lacks it.

    Example:
        >>> pg.empty_like([1, 2, 3]).dtype
        dtype('int32')

    Source:
        The array API standard.

    """
    if unknown:
        raise unexpected(empty_like, unknown)
    return zeros_like(x, dtype=dtype, device=device)


def full_like(
    x: TensorLike,
    /,
    fill_value: Value,
    *,
    dtype: Any = None,
    device: str | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return a tensor shaped like ``x`` in which every element is ``fill_value``.

    Args:
        x: A tensor of any dtype; only its shape and dtype matter.
        fill_value: A number, str or bytes; or a scalar tensor.
        dtype: The dtype; by default that of ``x``.
        device: The backend on which the tensor is made; by default the active one.

    Returns:
        A tensor with the shape of ``x`` and the chosen dtype.

    Raises:
        TypeError: The kind of the value does not match the dtype, or the backend lacks
            the dtype.
        OverflowError: The dtype cannot represent the value.

    Example:
        >>> pg.full_like([1.0, 2.0], 0.5)
        Tensor([0.5, 0.5], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    if unknown:
        raise unexpected(full_like, unknown)
    if device is not None:
        return _convert.call_on_device(device, full_like, x, fill_value, dtype=dtype)
    x = _convert.asarray(x)
    return full(x.shape, fill_value, dtype=x.dtype if dtype is None else dtype)
