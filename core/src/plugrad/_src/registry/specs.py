"""Specs: shapes and dtypes without values, and rules for the specs of outputs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from plugrad import geometry
from plugrad._src.tensor import arguments


class Spec(NamedTuple):
    """The shape and dtype of a tensor, without its values.

    Example:
        >>> from plugrad import plugin
        >>> plugin.Spec((2, 3), np.dtype("float32")).shape
        (2, 3)

    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


Specs = Spec | tuple[Spec, ...]


def same(x: Spec, *_: Spec, **__: Any) -> Spec:
    """Return the spec of the first input as the spec of the output.

    Example:
        >>> from plugrad import plugin
        >>> plugin.same(plugin.Spec((2, 3), np.dtype("float32"))).shape
        (2, 3)

    """
    return x


def one_shape(*xs: Spec) -> Spec:
    """Return the spec of the first input; raise unless all inputs have its shape."""
    if len({x.shape for x in xs}) != 1:
        raise arguments.misfit("output", "inputs must have the same shape", *xs)
    return xs[0]


def broadcasted(*xs: Spec, **_: Any) -> Spec:
    """Return the spec of an output that has the broadcast shape of all inputs.

    The dtype is that of the first input; ops make the dtypes equal.

    Raises:
        ValueError: The shapes do not broadcast.

    Example:
        >>> from plugrad import plugin
        >>> a, b = (plugin.Spec(s, np.dtype("float32")) for s in [(3, 1), (4,)])
        >>> plugin.broadcasted(a, b).shape
        (3, 4)

    """
    shape = geometry.broadcast("output", *(x.shape for x in xs))
    return Spec(shape, xs[0].dtype)


def compared(*xs: Spec, **_: Any) -> Spec:
    """Return the spec of a bool output that has the broadcast shape of all inputs.

    Raises:
        ValueError: The shapes do not broadcast.

    Example:
        >>> from plugrad import plugin
        >>> x = plugin.Spec((3,), np.dtype("float32"))
        >>> plugin.compared(x, x).dtype.name
        'bool'

    """
    return broadcasted(*xs)._replace(dtype=np.dtype(bool))


def reduced(x: Spec, *, axis: tuple[int, ...], keepdims: bool) -> Spec:
    """Return the spec of a reduction of ``x``: ``axis`` is dropped, or gets size 1.

    Args:
        x: The spec of the input.
        axis: The reduced axes: sorted, not negative.
        keepdims: Whether the axes stay, with size 1.

    Raises:
        ValueError: ``axis`` is not sorted, or out of range.

    Example:
        >>> from plugrad import plugin
        >>> x = plugin.Spec((2, 3), np.dtype("float32"))
        >>> plugin.reduced(x, axis=(0,), keepdims=True).shape
        (1, 3)

    """
    if axis != geometry.axes("output", axis, len(x.shape)):
        raise ValueError(f"output: axis {axis} must be sorted, and not negative")
    sizes = enumerate(x.shape)
    if keepdims:
        return Spec(tuple(1 if i in axis else n for i, n in sizes), x.dtype)
    return Spec(tuple(n for i, n in sizes if i not in axis), x.dtype)
