"""Products of vectors, matrices and tensors."""

from __future__ import annotations

from typing import Any

import plugrad as pg
from plugrad import Tensor

from ..core.variables import cast, convert_to_tensor, promoted


def matmul(x1: Any, x2: Any) -> Tensor:
    """Return the matrix product; that of int8 is int32."""
    a, b = convert_to_tensor(x1), convert_to_tensor(x2)
    if a.dtype.name == b.dtype.name == "int8":
        return pg.matmul(a, b, preferred_element_type="int32")
    return _of_numbers(pg.matmul, *promoted(a, b))


def _of_numbers(op: Any, *xs: Tensor, **options: Any) -> Tensor:
    """Return a product; that of bool is computed with integers."""
    if xs[0].dtype != pg.bool:
        return cast(op(*xs, **options), xs[0].dtype)
    return cast(op(*[cast(x, "int32") for x in xs], **options), "bool")


def dot(x1: Any, x2: Any) -> Tensor:
    """Return the sum of products over the last axis and the last but one."""
    a, b = promoted(x1, x2)
    if not a.shape or not b.shape:
        return pg.multiply(a, b)
    axis = 0 if len(b.shape) == 1 else len(b.shape) - 2
    return _of_numbers(pg.tensordot, a, b, axes=((len(a.shape) - 1,), (axis,)))


def tensordot(x1: Any, x2: Any, axes: Any = 2) -> Tensor:
    """Return the sum of products over some axes of both."""
    a, b = promoted(x1, x2)
    if isinstance(axes, list | tuple):
        pair = [(one,) if isinstance(one, int) else tuple(one) for one in axes]
        axes = tuple(pair)
    return _of_numbers(pg.tensordot, a, b, axes=axes)


def inner(x1: Any, x2: Any) -> Tensor:
    """Return the sum of products over the last axes."""
    a, b = promoted(x1, x2)
    if not a.shape or not b.shape:
        return pg.multiply(a, b)
    last = (len(a.shape) - 1,), (len(b.shape) - 1,)
    return _of_numbers(pg.tensordot, a, b, axes=last)


def vdot(x1: Any, x2: Any) -> Tensor:
    """Return the inner product of all elements; the first argument is conjugated."""
    a, b = promoted(x1, x2)
    a = pg.conj(a) if a.dtype.kind == "c" else a
    flat = pg.reshape(a, (-1,)), pg.reshape(b, (-1,))
    return _of_numbers(pg.tensordot, *flat, axes=1)


def outer(x1: Any, x2: Any) -> Tensor:
    """Return the products of all pairs of elements."""
    a, b = promoted(x1, x2)
    return pg.multiply(pg.reshape(a, (-1, 1)), pg.reshape(b, (1, -1)))


def kron(x1: Any, x2: Any) -> Tensor:
    """Return the Kronecker product."""
    a, b = promoted(x1, x2)
    axes = max(len(a.shape), len(b.shape))
    left = (1,) * (axes - len(a.shape)) + a.shape
    right = (1,) * (axes - len(b.shape)) + b.shape
    a = pg.reshape(a, [n for size in left for n in (size, 1)])
    b = pg.reshape(b, [n for size in right for n in (1, size)])
    return pg.reshape(a * b, [m * n for m, n in zip(left, right, strict=True)])


def cross(
    x1: Any,
    x2: Any,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Tensor:
    """Return the cross product of vectors of 3 or 2 elements."""
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = promoted(x1, x2)
    if a.dtype == pg.bool:
        a, b = cast(a, "int32"), cast(b, "int32")
    a = pg.moveaxis(a, axisa, -1)
    b = pg.moveaxis(b, axisb, -1)
    is_plane = a.shape[-1] == b.shape[-1] == 2
    y = pg.linalg.cross(*pg.broadcast_arrays(_in_space(a), _in_space(b)))
    return y[..., 2] if is_plane else pg.moveaxis(y, -1, axisc)


def _in_space(x: Tensor) -> Tensor:
    """Return vectors of 3 elements; the third is 0 in a plane."""
    if x.shape[-1] == 3:
        return x
    if x.shape[-1] != 2:
        raise ValueError(
            "cross: vectors must have 2 or 3 elements along their axis, got shape "
            f"{x.shape}"
        )
    return pg.pad(x, [(0, 0)] * (len(x.shape) - 1) + [(0, 1)])


def einsum(subscripts: str, *operands: Any, **kwargs: Any) -> Tensor:
    """Return a sum of products in Einstein's notation; that of int8 is int32."""
    xs = [convert_to_tensor(x) for x in operands]
    if {x.dtype.name for x in xs} == {"int8"}:
        return pg.einsum(subscripts, *[cast(x, "int32") for x in xs])
    return _of_numbers(lambda *given: pg.einsum(subscripts, *given), *promoted(*xs))
