"""Moving axes and elements, composed of other ops. Kernels: ``BroadcastArgs``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Unpack

import numpy as np

from plugrad import geometry
from plugrad._src.engine.dispatch import run
from plugrad._src.ops.basis import _convert, creation, shape
from plugrad._src.registry.contract import Kernel, Spec, decomposition
from plugrad._src.tensor.arguments import Ints, integers, misfit, several, sizes
from plugrad._src.tensor.dtypes import check_range, dtype_kind
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import Shape

from . import gather, slicing

__all__ = [
    "broadcast_args",
    "broadcast_arrays",
    "broadcast_shapes",
    "ensure_shape",
    "moveaxis",
    "repeat",
    "roll",
]


def moveaxis(x: TensorLike, source: Ints, destination: Ints, /) -> Tensor:
    """Return ``x`` with the axes ``source`` moved to the positions ``destination``.

    The other axes keep their order.

    Args:
        x: A tensor of any dtype.
        source: The axes to move: an int or a sequence of ints.
        destination: Their positions in the result, one for each axis.

    Returns:
        A tensor with the dtype of ``x``.

    Raises:
        ValueError: The numbers of axes differ, or an axis is named twice or out of
            range.

    Example:
        >>> pg.moveaxis(pg.zeros((2, 3, 4)), 0, -1).shape
        (3, 4, 2)

    """
    x = _convert.asarray(x)
    rank = len(x.shape)
    sources = _axes_in_order("moveaxis", "source", source, rank)
    destinations = _axes_in_order("moveaxis", "destination", destination, rank)
    if not len(sources) == len({*sources}) == len(destinations) == len({*destinations}):
        raise ValueError(
            f"moveaxis: source {source} and destination {destination} must name "
            "the same number of axes, each once"
        )
    order = [i for i in range(rank) if i not in sources]
    for position, axis in sorted(zip(destinations, sources, strict=True)):
        order.insert(position, axis)
    return run(shape.TRANSPOSE, x, axes=tuple(order))


def _axes_in_order(op: str, name: str, given: Ints, rank: int) -> list[int]:
    """Return axes in the given order, as non-negative ints."""
    return [geometry.axes(op, i, rank)[0] for i in integers(op, name, given)]


def roll(
    x: TensorLike, /, shift: Ints, axis: Ints | None = None, **unknown: Unpack[Nothing]
) -> Tensor:
    """Return the elements shifted along ``axis``, wrapping around at its end.

    Args:
        x: A tensor of any dtype.
        shift: The number of positions, one for all axes or one for each; a negative
            number shifts towards the start.
        axis: An int or a sequence of ints; None shifts the elements in row-major order.

    Returns:
        A tensor with the shape and dtype of ``x``.

    Raises:
        ValueError: The numbers of shifts and axes differ, or an axis is out of range.

    Example:
        >>> pg.roll([1, 2, 3, 4], 1)
        Tensor([4, 1, 2, 3], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(roll, unknown)
    x = _convert.asarray(x)
    shifts = integers("roll", "shift", shift)
    if axis is None:
        flat = run(shape.RESHAPE, x, shape=(math.prod(x.shape),))
        return run(shape.RESHAPE, roll(flat, sum(shifts), axis=0), shape=x.shape)
    axes = _axes_in_order("roll", "axis", axis, len(x.shape))
    shifts = shifts * len(axes) if len(shifts) == 1 else shifts
    if len(shifts) != len(axes):
        raise ValueError(
            f"roll: got {len(shifts)} shifts for {len(axes)} axes; give one shift "
            "for each axis"
        )
    given = x
    for i, step in zip(axes, shifts, strict=True):
        n = x.shape[i]
        cut = -step % n if n else 0
        if cut:
            ends = slicing.along(x, i, cut, n - cut), slicing.along(x, i, 0, cut)
            x = run(shape.CONCAT, *ends, axis=i)
    return creation.identity(x) if x is given else x


def repeat(
    x: TensorLike,
    repeats: TensorLike,
    /,
    axis: int | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return each element ``repeats`` times in a row along ``axis``.

    Args:
        x: A tensor of any dtype.
        repeats: The number of repetitions: one integer, or one for each element along
            the axis. A tensor is read on the host, because the shape depends on its
            values.
        axis: The axis along which to repeat; None flattens ``x`` first.

    Returns:
        A tensor with the dtype of ``x``.

    Raises:
        ValueError: ``repeats`` contains a negative number, or the number of its
            elements is neither 1 nor the size of the axis.
        TypeError: ``repeats`` are not integers.

    Example:
        >>> pg.repeat([1, 2, 3], 2)
        Tensor([1, 1, 2, 2, 3, 3], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(repeat, unknown)
    x = _convert.asarray(x)
    if axis is None:
        x = run(shape.RESHAPE, x, shape=(math.prod(x.shape),))
    axis = shape._axis("repeat", 0 if axis is None else axis, len(x.shape))
    size = x.shape[axis]
    counts = _convert.on_host("repeat", "repeats", repeats)
    if counts is None:
        counts = _convert.integer_tensor("repeat", "repeats", repeats)._values()
    if counts.shape not in ((), (1,), (size,)) or counts.min(initial=0) < 0:
        raise ValueError(
            f"repeat: expected one non-negative integer or {size} of them, got "
            f"{repeats!r}"
        )
    if counts.size != 1:
        where = np.repeat(np.arange(size, dtype=np.int32), counts)
        return gather.gather(x, where, axis=axis)
    old = x.shape
    count = counts.item()
    x = run(shape.RESHAPE, x, shape=shape._replace_axis(old, axis, size, 1))
    x = run(shape.BROADCAST_TO, x, shape=shape._replace_axis(old, axis, size, count))
    return run(shape.RESHAPE, x, shape=shape._replace_axis(old, axis, size * count))


def _broadcast_args_spec(s0: Spec, s1: Spec) -> Spec:
    _check_vectors(s0, s1)
    return max(s0, s1, key=lambda s: s.shape)


def _check_vectors(s0: Spec | Tensor, s1: Spec | Tensor) -> None:
    if len(s0.shape) != 1 or len(s1.shape) != 1:
        raise misfit("broadcast_args", "shapes must be of rank 1", s0, s1)


BROADCAST_ARGS = Kernel(
    "BroadcastArgs(s0: int32 | int64, s1: s0)",
    out=_broadcast_args_spec,
    checks=("s0", "s1"),
    op="broadcast_args",
    doc="""The shape to which the shapes ``s0`` and ``s1`` broadcast.

    The shorter shape is padded with leading ones, and a size of 1 becomes the other
    size. If two sizes differ and neither is 1, it raises a ValueError.""",
)


def broadcast_args(s0: TensorLike, s1: TensorLike, /) -> Tensor:
    """Return the shape to which two shapes, given as tensors, broadcast.

    Args:
        s0: ``[m]``, integers, the sizes of the first shape.
        s1: ``[n]``, integers, the sizes of the second shape.

    Returns:
        ``[max(m, n)]``, int64 if either argument is int64, else int32.

    Raises:
        TypeError: The shapes are not integers.
        ValueError: The arguments are not of rank 1, or the shapes do not broadcast.

    Example:
        >>> pg.broadcast_args([2, 1], [5, 1, 3])
        Tensor([5, 2, 3], dtype=int32, backend='cpu')

    """
    s0, s1 = (_sizes("broadcast_args", s) for s in (s0, s1))
    _check_vectors(s0, s1)
    return run(BROADCAST_ARGS, *_convert.promote_all("broadcast_args", s0, s1))


def _sizes(op: str, value: TensorLike) -> Tensor:
    """Return sizes as a tensor; raise if the integer dtype cannot represent one."""
    x = _convert.asarray(value)
    if dtype_kind(x.dtype) == "u" and not np.can_cast(x.dtype, _convert.widest()):
        for size in x._values().ravel().tolist():
            check_range(op, size, _convert.widest())
    return _convert.integer_tensor(
        op, "shapes", x if dtype_kind(x.dtype) == "u" else value
    )


@decomposition(BROADCAST_ARGS)
def _(s0: Tensor, s1: Tensor) -> Tensor:
    known = [tuple(s._values().tolist()) for s in (s0, s1)]  # reads only a few numbers
    sizes = geometry.broadcast("broadcast_args", *known)
    return _convert.asarray(np.array(sizes, s0.dtype))


def broadcast_arrays(*xs: TensorLike) -> tuple[Tensor, ...]:
    """Return all tensors broadcast to their common shape; each keeps its dtype.

    Args:
        xs: Tensors of any dtype.

    Returns:
        A tuple of tensors of the same shape.

    Raises:
        ValueError: The shapes do not broadcast.

    Example:
        >>> a, b = pg.broadcast_arrays([1, 2, 3], [[1.0], [2.0]])
        >>> a
        Tensor([[1, 2, 3],
                [1, 2, 3]], dtype=int32, backend='cpu')

    """
    tensors = [_convert.asarray(x) for x in xs]
    common = geometry.broadcast("broadcast_arrays", *(x.shape for x in tensors))
    return tuple([run(shape.BROADCAST_TO, x, shape=common) for x in tensors])


def broadcast_shapes(*shapes: Ints) -> Shape:
    """Return the shape to which tensors of these shapes broadcast.

    Args:
        shapes: Shapes; an int n stands for ``(n,)``.

    Returns:
        A tuple of int; ``()`` without shapes.

    Raises:
        ValueError: The shapes do not broadcast, or a size is negative.
        TypeError: A size is not an integer.

    Example:
        >>> pg.broadcast_shapes((2, 1), (3,), (1, 1, 1))
        (1, 2, 3)

    Source:
        The array API standard.

    """
    given = [sizes("broadcast_shapes", s) for s in shapes]
    return geometry.broadcast("broadcast_shapes", *given)


def ensure_shape(
    x: TensorLike, /, shape: Sequence[int | None], **unknown: Unpack[Nothing]
) -> Tensor:
    """Return ``x``; raise unless its shape matches ``shape``.

    Args:
        x: A tensor of any dtype.
        shape: The required size of each axis, or None for any size.

    Returns:
        A tensor with the same elements.

    Raises:
        ValueError: The shape of ``x`` does not match.

    Example:
        >>> pg.ensure_shape([[1, 2], [3, 4]], (None, 2)).shape
        (2, 2)

    """
    if unknown:
        raise unexpected(ensure_shape, unknown)
    x = _convert.asarray(x)
    given = several("ensure_shape", "shape", shape)
    integers("ensure_shape", "shape", [n for n in given if n is not None])
    wanted = [m if n is None else n for n, m in zip(given, x.shape, strict=False)]
    if len(given) != len(x.shape) or tuple(wanted) != x.shape:
        raise ValueError(f"ensure_shape: expected shape {tuple(given)}, got {x.shape}")
    return creation.identity(x)
