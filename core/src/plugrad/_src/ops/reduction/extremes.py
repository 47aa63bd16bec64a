"""The index of the largest or smallest element. Kernels: ``ArgMax ArgMin``."""

from __future__ import annotations

import math
from typing import Unpack

import numpy as np

from plugrad._src.engine.dispatch import run
from plugrad._src.ops.basis import _convert, compare, creation, reduce, shape
from plugrad._src.registry.contract import Kernel, Spec, decomposition, gradients
from plugrad._src.tensor.arguments import OneAxis, flag
from plugrad._src.tensor.dtypes import BOOL, INT32, dtype_kind
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike

__all__ = ["argmax", "argmin"]


def _index_spec(x: Spec, *, axis: int) -> Spec:
    reduce.check_not_empty("argmax", x, (axis,))
    return Spec((*x.shape[:axis], *x.shape[axis + 1 :]), INT32)


def _run_along_axis(
    kernel: Kernel, x: TensorLike, axis: OneAxis, keepdims: bool
) -> Tensor:
    """Run ``ArgMax`` or ``ArgMin``; without an axis, on the flattened tensor."""
    op = kernel.op
    x = _convert.real(op, x)
    if axis is None:
        kept = (1,) * len(x.shape)
        x = run(shape.RESHAPE, x, shape=(x.size,))
        axis = 0
    else:
        axis = reduce.one_axis(op, axis, len(x.shape))
        kept = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    reduce.check_not_empty(op, x, (axis,))
    y = run(kernel, creation.cast(x, INT32) if x.dtype is BOOL else x, axis=axis)
    return run(shape.RESHAPE, y, shape=kept) if flag(op, "keepdims", keepdims) else y


ARG_MAX = Kernel(
    "ArgMax(x: integer | floating; axis: axis)",
    out=_index_spec,
    op="argmax",
    doc="""The index of the largest element along ``axis``, int32; the first of ties.

    NaN is ignored; if all elements are NaN, the index is 0. It is an error to
    reduce an axis without elements.""",
)


def argmax(
    x: TensorLike,
    /,
    axis: OneAxis = None,
    *,
    keepdims: bool = False,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the index of the first maximum along ``axis``.

    NaN is ignored, as in TensorFlow.js. ``max``, by contrast, returns NaN, as the array
    API standard requires. The index is 0 if all elements are NaN.

    Args:
        x: A tensor of real numbers.
        axis: The axis to search; None for all elements in row-major order.
        keepdims: Whether to keep the reduced axes, with size 1.

    Returns:
        An int32 tensor.

    Raises:
        ValueError: There are no elements to search, or ``axis`` is out of range.
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> pg.argmax([[1.0, 5.0], [4.0, 3.0]], axis=1)
        Tensor([1, 0], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(argmax, unknown)
    return _run_along_axis(ARG_MAX, x, axis, keepdims)


@decomposition(ARG_MAX)
def _(x: Tensor, *, axis: int) -> Tensor:
    size = x.shape[axis]
    line = (size, *[1] * (len(x.shape) - axis - 1))
    places = _convert.asarray(np.arange(size, dtype=np.int32).reshape(line))
    numbers = x
    if dtype_kind(x.dtype) == "f":
        numbers = compare.where(compare.equal(x, x), x, -math.inf)
    top = run(reduce.MAX, numbers, axis=(axis,), keepdims=True)
    hit = compare.where(compare.equal(x, top), places, size)
    first = run(reduce.MIN, hit, axis=(axis,), keepdims=False)
    return compare.where(compare.equal(first, size), 0, first)


gradients(ARG_MAX, x=None)


ARG_MIN = Kernel(
    "ArgMin(x: integer | floating; axis: axis)",
    out=_index_spec,
    op="argmin",
    doc="""The index of the smallest element along ``axis``, int32; the first of ties.

    NaN is ignored; if all elements are NaN, the index is 0. It is an error to
    reduce an axis without elements.""",
)


def argmin(
    x: TensorLike,
    /,
    axis: OneAxis = None,
    *,
    keepdims: bool = False,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the index of the first minimum along ``axis``.

    NaN is ignored, as in ``argmax``. The index is 0 if all elements are NaN.

    Args:
        x: A tensor of real numbers.
        axis: The axis to search; None for all elements in row-major order.
        keepdims: Whether to keep the reduced axes, with size 1.

    Returns:
        An int32 tensor.

    Raises:
        ValueError: There are no elements to search, or ``axis`` is out of range.
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> pg.argmin([[1.0, 5.0], [4.0, 3.0]], axis=1)
        Tensor([0, 1], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(argmin, unknown)
    return _run_along_axis(ARG_MIN, x, axis, keepdims)


decomposition(
    ARG_MIN, lambda x, axis: run(ARG_MAX, reduce.reversed_order(x), axis=axis)
)
gradients(ARG_MIN, x=None)
