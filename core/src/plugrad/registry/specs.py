"""Shapes and dtypes without values, and rules that give those of outputs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from plugrad import geometry
from plugrad.tensor import arguments


class Spec(NamedTuple):
    """What is known of a tensor without its values."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


Specs = Spec | tuple[Spec, ...]


def same(x: Spec, *_: Spec, **__: Any) -> Spec:
    """Give the output the spec of the first input."""
    return x


def one_shape(*xs: Spec) -> Spec:
    """Give the output the spec of the inputs, which have one shape."""
    if len({x.shape for x in xs}) != 1:
        raise arguments.misfit("output", "inputs must be of one shape", *xs)
    return xs[0]


def broadcasted(*xs: Spec, **_: Any) -> Spec:
    """Broadcast the shapes; the op has made the dtypes equal."""
    shape = geometry.broadcast("output", *(x.shape for x in xs))
    return Spec(shape, xs[0].dtype)


def compared(*xs: Spec, **_: Any) -> Spec:
    """Broadcast the shapes; the output is bool."""
    return broadcasted(*xs)._replace(dtype=np.dtype(bool))


def reduced(x: Spec, *, axis: tuple[int, ...], keepdims: bool) -> Spec:
    """Drop ``axis``, or leave it with size 1.

    Raises:
        ValueError: ``axis`` is not sorted, or out of range.

    """
    if axis != geometry.axes("output", axis, len(x.shape)):
        raise ValueError(f"output: axis {axis} must be sorted, and not negative")
    sizes = enumerate(x.shape)
    if keepdims:
        return Spec(tuple(1 if i in axis else n for i, n in sizes), x.dtype)
    return Spec(tuple(n for i, n in sizes if i not in axis), x.dtype)
