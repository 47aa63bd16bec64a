"""``x[key] = value``: only the object ``x`` gets the new value; see ``setitem``.

If no other object uses the array of ``x``, the backend may write into it: see
``engine.in_place``.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np

from plugrad import geometry
from plugrad._src.engine.context import Scope, made_outside
from plugrad._src.engine.dispatch import run
from plugrad._src.engine.in_place import run_in_place
from plugrad._src.ops.array import gather
from plugrad._src.ops.basis import _convert, compare, creation, shape, variable
from plugrad._src.tensor.arguments import misfit
from plugrad._src.tensor.dtypes import BOOL, INT32, STRING, dtype_kind, named
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import Shape

from . import scatter
from .keys import ParsedKey, parse_key

_assignment_lock = threading.RLock()  # held while an old value is read and replaced


def _reset_lock() -> None:  # another thread may have held the lock at the fork
    global _assignment_lock
    _assignment_lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_lock)


def setitem(x: Tensor | variable.Variable, key: Any, value: TensorLike, /) -> None:
    """Replace the value of ``x`` with one in which ``x[key]`` is ``value``.

    ``x[key] = value`` calls this op. Only the object ``x`` gets the new value. Tensors
    that were computed from ``x``, its aliases, and values that tapes have saved keep
    the old one. Therefore gradients of every order are correct, both with respect to
    the old ``x`` and to ``value``. If several threads assign to ``x``, they take turns,
    and no assignment is lost.

    Args:
        x: A tensor, or a variable, to which the new value is assigned.
        key: See ``getitem``. If index arrays name an element more than once, it gets
            the last value.
        value: A tensor, which is broadcast to the shape of ``x[key]`` and converted to
            the dtype of ``x``.

    Raises:
        IndexError: See ``getitem``.
        ValueError: The value does not broadcast to the shape of ``x[key]``.
        TypeError: The value is complex and ``x`` is not, or only one of the two
            contains strings.
        OverflowError: The value is a number that the dtype of ``x`` cannot represent.

    Example:
        >>> x = pg.asarray([1.0, 2.0, 3.0])
        >>> y = x * 2.0
        >>> x[1:] = 0.0
        >>> x
        Tensor([1., 0., 0.], dtype=float32, backend='cpu')
        >>> y
        Tensor([2., 4., 6.], dtype=float32, backend='cpu')

    """
    with _assignment_lock:
        if isinstance(x, variable.Variable):
            x.assign(_assigned(x.value, key, value))
            return
        home: Any = x._alive()
        if made_outside(x):
            raise ValueError(
                "setitem: the tensor was made outside of vmap, and cannot hold a value "
                "for each example; assign to a new one, such as x + 0"
            )
        with Scope(backend=home):  # the values stay on their backend
            x._rebind(_assigned(x, key, value))


def _assigned(x: Tensor, key: Any, value: TensorLike) -> Tensor:
    """Return ``x`` with ``value`` at ``key``, as a new tensor."""
    new = _convert_value(x, value)
    is_leading_mask = (
        getattr(key, "dtype", None) == BOOL and key.shape == x.shape[: len(key.shape)]
    )
    if is_leading_mask and not new.shape:  # a mask of leading axes, and a scalar
        ones = (1,) * (len(x.shape) - len(key.shape))
        mask = shape.reshape(_convert.asarray(key), (*key.shape, *ones))
        return compare.where(mask, new, x)
    read = parse_key("setitem", x.shape, key)
    target_shape = read.result_shape()
    lead = len(new.shape) - len(target_shape)
    if lead > 0 and set(new.shape[:lead]) == {1}:  # NumPy also drops leading axes of 1
        new = shape.reshape(new, new.shape[lead:])
    if geometry.broadcast("setitem", new.shape, target_shape) != target_shape:
        raise misfit("setitem", f"the value must broadcast to {target_shape}", new)
    if 0 in target_shape:
        return creation.identity(x)
    new = run(shape.BROADCAST_TO, new, shape=target_shape)
    if not read.depth():  # everything is assigned
        return run(shape.RESHAPE, new, shape=x.shape)
    indices, depth = _write_indices(read)
    rows = (*indices.shape[:-1], *read.source[depth:])
    if rows != target_shape:
        new = run(shape.RESHAPE, new, shape=rows)
    old = x
    if read.source != x.shape:  # a mask of several axes
        old = run(shape.RESHAPE, x, shape=read.source)
    with gather.range_errors("setitem", indices, read.source[:depth]):
        y = run_in_place(scatter.TENSOR_SCATTER_UPDATE, old, indices, new)
    return y if y.shape == x.shape else run(shape.RESHAPE, y, shape=x.shape)


def _convert_value(x: Tensor, value: TensorLike) -> Tensor:
    """Convert ``value``, which is to be assigned, to the dtype of ``x``."""
    numbers = isinstance(value, bool | int | float | list | tuple)
    numbers = numbers and x.dtype is not STRING
    if numbers or (isinstance(value, complex) and dtype_kind(x.dtype) == "c"):
        return _convert.asarray(value, dtype=x.dtype)
    new = _convert.asarray(value)
    real_from_complex = dtype_kind(new.dtype) == "c" and dtype_kind(x.dtype) != "c"
    if real_from_complex or (new.dtype is STRING) != (x.dtype is STRING):
        raise TypeError(
            f"setitem: a tensor of {named(x.dtype)} cannot hold {named(new.dtype)}; "
            "convert the value"
        )
    return creation.cast(new, x.dtype)


def _write_indices(read: ParsedKey) -> tuple[Tensor, int]:
    """Return the positions that a key selects, ``[..., depth]``, and ``depth``.

    Each row is a position in the first ``depth`` axes of the source: all axes up to the
    last one not indexed by a full slice. The leading axes of the result are the axes of
    ``x[key]`` that come from these axes.
    """
    depth = read.depth()
    before, after = read.order()
    rest = [i for i, axis in enumerate(read.axes) if axis is not None and axis >= depth]
    after = [i for i in after if not rest or i < rest[0]]
    common = read.index_shape()
    first, last = ([read.view[i] for i in axes] for axes in (before, after))
    lead = (*first, *common, *last)
    places = {view: place for place, view in enumerate(before)}
    places |= {view: -len(after) + place for place, view in enumerate(after)}
    columns: list[Any] = []
    for axis in range(depth):
        view = read.axes.index(axis) if axis in read.axes else None
        if view is None:  # an integer removes this axis
            columns.append(np.asarray(read.begin[axis]))
        elif view in read.arrays:
            array = read.arrays[view]
            sizes = (*array.shape, *(1,) * len(after))
            columns.append(run(shape.RESHAPE, array, shape=sizes))
        else:
            ones = [1] * len(lead)
            ones[places[view]] = -1
            columns.append(read.positions(axis).reshape(ones))
    return _stacked(columns, lead), depth


def _stacked(columns: list[Any], lead: Shape) -> Tensor:
    """Broadcast and stack columns of indices, given as arrays or tensors."""
    if not any([isinstance(column, Tensor) for column in columns]):
        known = [np.broadcast_to(column, lead) for column in columns]
        return _convert.integer_tensor("setitem", "indices", np.stack(known, axis=-1))
    given = [_convert.integer_tensor("setitem", "indices", c) for c in columns]
    kind = _convert.INT64 if any([c.dtype.itemsize > 4 for c in given]) else INT32
    given = [creation.cast(column, kind) for column in given]
    given = [run(shape.BROADCAST_TO, column, shape=lead) for column in given]
    return shape.stack(given, axis=-1)
