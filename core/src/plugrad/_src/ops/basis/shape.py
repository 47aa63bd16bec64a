"""Ops that change shapes, or move elements without computing with them.

Kernels: ``BroadcastTo Concat ExpandDims Pack Reshape Reverse SplitV Tile Transpose
Unpack``. The decompositions of ``SplitV Unpack Reverse`` are in ``slicing``.

Contents: new shapes of the same elements; repeating; joining and splitting; the order
of axes and elements. Ops that are composed of these are in ``rearrange``.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Unpack

from plugrad import geometry
from plugrad._src.engine.dispatch import run, run_many
from plugrad._src.registry.contract import (
    Kernel,
    Spec,
    decomposition,
    gradients,
    reduced,
)
from plugrad._src.tensor.arguments import (
    Ints,
    entries,
    integer,
    integers,
    misfit,
    several,
    sizes,
)
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import Shape

from . import _convert, reduce

__all__ = [
    "broadcast_to",
    "concat",
    "expand_dims",
    "flip",
    "permute_dims",
    "reshape",
    "split",
    "squeeze",
    "stack",
    "tile",
    "unstack",
]

# --- new shapes of the same elements ---------------------------------------------


def _reshape_spec(x: Spec, *, shape: Shape) -> Spec:
    return Spec(geometry.reshaped(x.shape, shape), x.dtype)


RESHAPE = Kernel(
    "Reshape(x; shape: shape)",
    out=_reshape_spec,
    op="reshape",
    doc="""The elements of ``x`` in row-major order, under another shape.""",
)


def reshape(
    x: TensorLike,
    /,
    shape: Ints,
    *,
    copy: bool | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return a tensor with the same elements, in row-major order, and a new shape.

    Args:
        x: A tensor of any dtype.
        shape: The sizes; one of them may be -1 and is computed from the others.
        copy: Has no effect, because the result never changes when ``x`` does. The
            argument exists for the array API standard.

    Returns:
        A tensor of the new shape and the dtype of ``x``.

    Raises:
        ValueError: The new shape has a different number of elements, or a negative
            size other than a single -1.

    Example:
        >>> pg.reshape([1, 2, 3, 4, 5, 6], (2, -1))
        Tensor([[1, 2, 3],
                [4, 5, 6]], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(reshape, unknown)
    x = x if type(x) is Tensor else _convert.asarray(x)
    shape = integers("reshape", "shape", shape)
    if min(shape, default=0) < -1:
        raise ValueError(f"reshape: shape {shape} has a negative size")
    return run(RESHAPE, x, shape=geometry.reshaped(x.shape, shape))


gradients(RESHAPE, x=lambda dy, x_spec: run(RESHAPE, dy, shape=x_spec.shape))


def shaped(x: Tensor, sizes: Shape) -> Tensor:
    """Return ``x`` reshaped to ``sizes``; ``x`` itself if it has that shape."""
    return x if x.shape == sizes else run(RESHAPE, x, shape=sizes)


def _expand_dims_spec(input: Spec | Tensor, *, axis: int) -> Spec:
    shape = input.shape
    check_axis("expand_dims", axis, len(shape) + 1)
    return Spec((*shape[:axis], 1, *shape[axis:]), input.dtype)


def check_axis(op: str, axis: int, rank: int) -> None:
    """Raise unless ``axis`` is one of ``rank`` axes, in canonical form."""
    if not 0 <= axis < rank:
        raise ValueError(
            f"{op}: axis {axis} must be at least 0 and below the rank, {rank}"
        )


EXPAND_DIMS = Kernel(
    "ExpandDims(input; axis: new_axis)",
    out=_expand_dims_spec,
    op="expand_dims",
    doc="""The elements of ``input``, with a new axis ``axis`` of size 1.""",
)


def expand_dims(x: TensorLike, /, axis: Ints = 0, **unknown: Unpack[Nothing]) -> Tensor:
    """Return ``x`` with new axes of size 1 at the positions ``axis``.

    Args:
        x: A tensor of any dtype.
        axis: The index of the new axis in the result, or a sequence of indices.
            Negative ones count from the end of the result.

    Returns:
        A tensor with the same elements and dtype, and one or more additional axes.

    Raises:
        ValueError: An axis is out of range (the error is then also an IndexError), or
            is given twice.

    Example:
        >>> pg.expand_dims([1, 2, 3], axis=1).shape
        (3, 1)
        >>> pg.expand_dims([1, 2, 3], axis=(0, -1)).shape
        (1, 3, 1)

    Source:
        The array API standard.

    """
    if unknown:
        raise unexpected(expand_dims, unknown)
    x = x if type(x) is Tensor else _convert.asarray(x)
    if isinstance(axis, tuple | list):
        new = geometry.axes("expand_dims", axis, len(x.shape) + len(axis))
        old = iter(x.shape)
        wide = [1 if i in new else next(old) for i in range(len(x.shape) + len(new))]
        return run(RESHAPE, x, shape=tuple(wide))
    return run(EXPAND_DIMS, x, axis=_axis("expand_dims", axis, len(x.shape) + 1))


@decomposition(EXPAND_DIMS)
def _(input: Tensor, *, axis: int) -> Tensor:
    return run(RESHAPE, input, shape=_expand_dims_spec(input, axis=axis).shape)


gradients(
    EXPAND_DIMS, input=lambda dy, input_spec: run(RESHAPE, dy, shape=input_spec.shape)
)


def _axis(op: str, axis: Ints, rank: int) -> int:
    """Return ``axis``, a single int, as a non-negative int."""
    return geometry.axes(op, integer(op, "axis", axis), rank)[0]


def squeeze(
    x: TensorLike, /, axis: Ints | None = None, **unknown: Unpack[Nothing]
) -> Tensor:
    """Return ``x`` without axes of size 1.

    Args:
        x: A tensor of any dtype.
        axis: The axes to remove: an int, a sequence of ints, or None for all of size 1.

    Returns:
        A tensor with the same elements and dtype, and fewer axes.

    Raises:
        ValueError: An axis is out of range, or its size is not 1.

    Example:
        >>> pg.squeeze([[[1], [2]]]).shape
        (2,)
        >>> pg.squeeze([[[1], [2]]], axis=0).shape
        (2, 1)

    """
    if unknown:
        raise unexpected(squeeze, unknown)
    x = _convert.asarray(x)
    if axis is None:
        removed = tuple([i for i, n in enumerate(x.shape) if n == 1])
    else:
        removed = geometry.axes("squeeze", axis, len(x.shape))
    for i in removed:
        if x.shape[i] != 1:
            raise misfit("squeeze", f"axis {i} must have size 1", x)
    remaining = tuple([n for i, n in enumerate(x.shape) if i not in removed])
    return run(RESHAPE, x, shape=remaining)


# --- repeating -------------------------------------------------------------------


def _broadcast_spec(x: Spec, *, shape: Shape) -> Spec:
    return Spec(shape, _convert.check_broadcast("broadcast_to", "x", x, shape).dtype)


BROADCAST_TO = Kernel(
    "BroadcastTo(x; shape: shape)",
    out=_broadcast_spec,
    op="broadcast_to",
    doc="""``x``, repeated along new axes in front and along those of size 1.""",
)


def broadcast_to(x: TensorLike, /, shape: Ints, **unknown: Unpack[Nothing]) -> Tensor:
    """Return ``x`` repeated along axes of size 1 and new leading axes, to ``shape``.

    Args:
        x: A tensor of any dtype.
        shape: The sizes of the result.

    Returns:
        A tensor of ``shape`` and the dtype of ``x``.

    Raises:
        ValueError: ``x`` does not broadcast to ``shape``.

    Example:
        >>> pg.broadcast_to([1, 2, 3], (2, 3))
        Tensor([[1, 2, 3],
                [1, 2, 3]], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(broadcast_to, unknown)
    x = x if type(x) is Tensor else _convert.asarray(x)
    shape = integers("broadcast_to", "shape", shape)
    x = _convert.check_broadcast("broadcast_to", "x", x, shape)
    return run(BROADCAST_TO, x, shape=shape)


gradients(BROADCAST_TO, x=lambda dy, x_spec: reduce.sum_to(dy, x_spec.shape))


def _tile_spec(x: Spec, *, repetitions: Shape) -> Spec:
    if len(repetitions) != len(x.shape):
        rule = f"repetitions {repetitions} must be one number for each axis"
        raise misfit("tile", rule, x)
    shape = tuple(map(operator.mul, repetitions, x.shape))
    return Spec(sizes("tile", shape, "the result"), x.dtype)


TILE = Kernel(
    "Tile(x; repetitions: shape)",
    out=_tile_spec,
    op="tile",
    doc="Copies of ``x``, end to end: ``repetitions[i]`` (0 or more) along axis i.",
)


def tile(x: TensorLike, repetitions: Ints, /) -> Tensor:
    """Return copies of ``x``, end to end along each axis.

    Args:
        x: A tensor of any dtype.
        repetitions: The number of copies along each axis, 0 or more. If ``repetitions``
            and the shape of ``x`` differ in length, the shorter one is padded with
            leading ones.

    Returns:
        A tensor with the dtype of ``x`` whose sizes are those of ``x`` times
        ``repetitions``.

    Raises:
        ValueError: A repetition count is negative.

    Example:
        >>> pg.tile([1, 2], 3)
        Tensor([1, 2, 1, 2, 1, 2], dtype=int32, backend='cpu')

    """
    x = _convert.asarray(x)
    counts = integers("tile", "repetitions", repetitions)
    if min(counts, default=0) < 0:
        raise ValueError(f"tile: repetitions {counts} must not be negative")
    lead = len(counts) - len(x.shape)
    if lead > 0:
        x = run(RESHAPE, x, shape=(1,) * lead + x.shape)
    counts = (1,) * -lead + counts
    sizes("tile", tuple(map(operator.mul, counts, x.shape)), "the result")
    return run(TILE, x, repetitions=counts)


@decomposition(TILE)  # also used for the gradient
def _(x: Tensor, *, repetitions: Shape) -> Tensor:
    pairs = list(zip(repetitions, x.shape, strict=True))
    y = run(RESHAPE, x, shape=tuple(m for _, n in pairs for m in (1, n)))
    y = run(BROADCAST_TO, y, shape=tuple(m for pair in pairs for m in pair))
    return run(RESHAPE, y, shape=tuple(r * n for r, n in pairs))


# --- joining and splitting -------------------------------------------------------


def _replace_axis(shape: Shape, axis: int, *sizes: int) -> Shape:
    """Return ``shape`` with one axis replaced by any number of ``sizes``."""
    return shape[:axis] + sizes + shape[axis + 1 :]


def _concat_spec(*xs: Spec, axis: int) -> Spec:
    _check_not_empty("concat", xs)
    check_axis("concat", axis, len(xs[0].shape))
    _check_other_axes(xs, axis)
    size = sum(x.shape[axis] for x in xs)
    return Spec(_replace_axis(xs[0].shape, axis, size), xs[0].dtype)


def _check_other_axes(xs: Sequence[Spec | Tensor], axis: int) -> None:
    if len({(len(x.shape), _replace_axis(x.shape, axis)) for x in xs}) != 1:
        raise misfit("concat", f"shapes must agree outside axis {axis}", *xs)


CONCAT = Kernel(
    "Concat(*xs; axis: axis)",
    out=_concat_spec,
    op="concat",
    doc="""One or more tensors ``xs``, joined end to end along ``axis``.""",
)


def concat(
    xs: Sequence[TensorLike], /, axis: int | None = 0, **unknown: Unpack[Nothing]
) -> Tensor:
    """Return tensors joined end to end along an existing axis.

    Args:
        xs: One or more tensors; their dtypes are promoted, and their sizes along all
            other axes must agree.
        axis: The axis along which to join; None joins all elements in row-major order.

    Returns:
        A tensor of the promoted dtype.

    Raises:
        ValueError: There are no tensors, or their shapes do not fit.
        TypeError: No dtype can represent all of them, or ``xs`` is not a sequence.

    Example:
        >>> pg.concat([[1, 2], [3]])
        Tensor([1, 2, 3], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(concat, unknown)
    tensors = _several("concat", xs)
    if axis is None:
        flat = [run(RESHAPE, t, shape=(math.prod(t.shape),)) for t in tensors]
        return run(CONCAT, *flat, axis=0)
    axis = _axis("concat", axis, len(tensors[0].shape))
    _check_other_axes(tensors, axis)
    return run(CONCAT, *tensors, axis=axis)


def _several(op: str, xs: Sequence[TensorLike]) -> list[Tensor]:
    given = several(op, "xs", xs)
    _check_not_empty(op, given)
    return _convert.promote_all(op, *given)


def _check_not_empty(op: str, xs: Sequence[object]) -> None:
    if not xs:
        raise ValueError(f"{op}: there is nothing to join; give at least one tensor")


def _split_cotangent(
    dy: Tensor, xs_spec: tuple[Spec, ...], axis: int
) -> tuple[Tensor, ...]:
    sizes = tuple([x.shape[axis] for x in xs_spec])
    return run_many(SPLIT_V, dy, sizes=sizes, axis=axis)


gradients(CONCAT, xs=_split_cotangent)


def _stack_spec(*xs: Spec, axis: int) -> Spec:
    _check_not_empty("stack", xs)
    shape = xs[0].shape
    check_axis("stack", axis, len(shape) + 1)
    _check_equal_shapes(xs)
    return Spec((*shape[:axis], len(xs), *shape[axis:]), xs[0].dtype)


def _check_equal_shapes(xs: Sequence[Spec | Tensor]) -> None:
    if len({x.shape for x in xs}) != 1:
        raise misfit("stack", "shapes differ; use concat, or broadcast_to", *xs)


PACK = Kernel(
    "Pack(*xs; axis: new_axis)",
    out=_stack_spec,
    op="stack",
    doc="""``y[..., i, ...] = xs[i]``, where i counts along the new axis ``axis``.""",
)


def stack(
    xs: Sequence[TensorLike], /, axis: int = 0, **unknown: Unpack[Nothing]
) -> Tensor:
    """Return tensors of the same shape joined along a new axis.

    Args:
        xs: One or more tensors of the same shape; their dtypes are promoted.
        axis: The index of the new axis in the result.

    Returns:
        A tensor with one more axis, of the promoted dtype.

    Raises:
        ValueError: There are no tensors, or their shapes differ.
        TypeError: No dtype can represent all of them, or ``xs`` is not a sequence.

    Example:
        >>> pg.stack([[1, 2], [3, 4]], axis=1)
        Tensor([[1, 3],
                [2, 4]], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(stack, unknown)
    tensors = _several("stack", xs)
    _check_equal_shapes(tensors)
    return run(PACK, *tensors, axis=_axis("stack", axis, len(tensors[0].shape) + 1))


@decomposition(PACK)
def _(*xs: Tensor, axis: int) -> Tensor:
    return run(CONCAT, *[run(EXPAND_DIMS, x, axis=axis) for x in xs], axis=axis)


gradients(PACK, xs=lambda dy, axis: run_many(UNPACK, dy, axis=axis))


def _split_spec(x: Spec, *, sizes: Shape, axis: int) -> tuple[Spec, ...]:
    check_axis("split", axis, len(x.shape))
    if sum(sizes) != x.shape[axis]:
        raise _sizes_error(sizes, x.shape[axis])
    return tuple(Spec(_replace_axis(x.shape, axis, size), x.dtype) for size in sizes)


def _sizes_error(sizes: Shape, n: int) -> ValueError:
    return ValueError(f"split: sizes {sizes} do not add up to {n}, the axis size")


SPLIT_V: Kernel = Kernel(
    "SplitV(x; sizes: shape, axis: axis) -> *ys",
    out=_split_spec,
    op="split",
    doc="""``x``, cut along ``axis`` into pieces of ``sizes``; a size may be 0.""",
)


def split(
    x: TensorLike, /, sizes: Ints, axis: int = 0, **unknown: Unpack[Nothing]
) -> list[Tensor]:
    """Return ``x`` split along ``axis`` into pieces of given sizes or of equal size.

    Args:
        x: A tensor of any dtype.
        sizes: The number of equal pieces, or a sequence with the size of each piece.
            One size may be -1 and is computed from the others.
        axis: The axis to split.

    Returns:
        A list of tensors with the dtype of ``x``.

    Raises:
        ValueError: The size of the axis is not divisible by the number of pieces, or
            the sizes do not add up to it.

    Example:
        >>> a, b = pg.split([1, 2, 3, 4, 5], [2, -1])
        >>> b
        Tensor([3, 4, 5], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(split, unknown)
    x = _convert.asarray(x)
    axis = _axis("split", axis, len(x.shape))
    n = x.shape[axis]
    given = integers("split", "sizes", sizes)
    if entries(sizes) is None:
        (count,) = given
        if count < 1 or n % count:
            raise ValueError(f"split: cannot split size {n} into {count} equal pieces")
        given = (n // count,) * count
    rest = n - sum(size for size in given if size != -1)
    wanted = tuple(rest if size == -1 else size for size in given)
    if given.count(-1) > 1 or min(wanted, default=0) < 0 or sum(wanted) != n:
        raise _sizes_error(given, n)
    return list(run_many(SPLIT_V, x, sizes=wanted, axis=axis))


gradients(SPLIT_V, x=lambda dys, axis: run(CONCAT, *dys, axis=axis))


def _unstack_spec(value: Spec, *, axis: int) -> tuple[Spec, ...]:
    check_axis("unstack", axis, len(value.shape))
    return (Spec(_replace_axis(value.shape, axis), value.dtype),) * value.shape[axis]


UNPACK: Kernel = Kernel(
    "Unpack(value; axis: axis) -> *ys",
    out=_unstack_spec,
    op="unstack",
    doc="""``ys[i] = value[..., i, ...]``, where i counts along ``axis``.""",
)


def unstack(
    x: TensorLike, /, axis: int = 0, **unknown: Unpack[Nothing]
) -> tuple[Tensor, ...]:
    """Return the slices of ``x`` along ``axis``, each without that axis.

    Args:
        x: A tensor of any dtype with at least one axis.
        axis: The axis along which to take slices.

    Returns:
        A tuple of tensors with the dtype of ``x``, as many as the size of ``axis``.

    Raises:
        ValueError: ``axis`` is out of range.

    Example:
        >>> first, second = pg.unstack([[1, 2], [3, 4]])
        >>> second
        Tensor([3, 4], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(unstack, unknown)
    x = x if type(x) is Tensor else _convert.asarray(x)
    return run_many(UNPACK, x, axis=_axis("unstack", axis, len(x.shape)))


gradients(UNPACK, value=lambda dys, axis: run(PACK, *dys, axis=axis))


# --- the order of axes and elements ----------------------------------------------


def _permute_spec(x: Spec, *, axes: Shape) -> Spec:
    _check_order(axes, x)
    return Spec(tuple(x.shape[i] for i in axes), x.dtype)


def _check_order(axes: Shape, x: Spec | Tensor) -> None:
    if sorted(axes) != list(range(len(x.shape))):
        raise misfit("permute_dims", f"axes {axes} must name each axis once", x)


TRANSPOSE = Kernel(
    "Transpose(x; axes: permutation)",
    out=_permute_spec,
    op="permute_dims",
    doc="""The elements of ``x``; axis i of ``y`` is axis ``axes[i]`` of ``x``.""",
)


def permute_dims(
    x: TensorLike, /, axes: Sequence[int], **unknown: Unpack[Nothing]
) -> Tensor:
    """Return ``x`` with its axes in another order: axis i of the result is ``axes[i]``.

    Args:
        x: A tensor of any dtype.
        axes: All axes of ``x``, each once; negative ones count from the end.

    Returns:
        A tensor with the dtype of ``x``.

    Raises:
        ValueError: ``axes`` does not name each axis once.

    Example:
        >>> pg.permute_dims([[1, 2, 3], [4, 5, 6]], (1, 0))
        Tensor([[1, 4],
                [2, 5],
                [3, 6]], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(permute_dims, unknown)
    x = x if type(x) is Tensor else _convert.asarray(x)
    rank = len(x.shape)
    given = integers("permute_dims", "axes", axes)
    order = tuple([i + rank if i < 0 else i for i in given])
    _check_order(order, x)
    return run(TRANSPOSE, x, axes=order)


def _permute_back(dy: Tensor, axes: Shape) -> Tensor:
    """Return ``dy`` with its axes permuted by the inverse of ``axes``."""
    back = sorted(range(len(axes)), key=axes.__getitem__)
    return run(TRANSPOSE, dy, axes=tuple(back))


gradients(TRANSPOSE, x=_permute_back)


def _flip_spec(x: Spec, *, axis: Shape) -> Spec:
    reduced(x, axis=axis, keepdims=True)  # checks the axes
    return x


REVERSE = Kernel(
    "Reverse(x; axis: axes)",
    out=_flip_spec,
    op="flip",
    doc="""The elements of ``x`` in reverse order along each of the axes ``axis``.""",
)


def flip(
    x: TensorLike, /, axis: Ints | None = None, **unknown: Unpack[Nothing]
) -> Tensor:
    """Return the elements in reverse order along ``axis``.

    Args:
        x: A tensor of any dtype.
        axis: The axes to reverse: an int, a sequence of ints, or None for all.

    Returns:
        A tensor with the shape and dtype of ``x``.

    Raises:
        ValueError: An axis is out of range.

    Example:
        >>> pg.flip([[1, 2], [3, 4]], axis=1)
        Tensor([[2, 1],
                [4, 3]], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(flip, unknown)
    x = _convert.asarray(x)
    return run(REVERSE, x, axis=geometry.axes("flip", axis, len(x.shape)))


gradients(REVERSE, x=lambda dy, axis: run(REVERSE, dy, axis=axis))
