"""Blocks of pixels, moved to and from the batch and the channels.

Kernels: ``BatchToSpaceND DepthToSpace SpaceToBatchND``. No kernel has its own gradient:
each is differentiated through its decomposition, which only moves elements.
"""

from __future__ import annotations

import math
from typing import Literal, Unpack

from plugrad import geometry
from plugrad._src.engine.dispatch import run
from plugrad._src.ops.basis import _convert, shape
from plugrad._src.registry.contract import Kernel, Spec, decomposition
from plugrad._src.tensor.arguments import (
    Ints,
    Margins,
    choice,
    integer,
    integers,
    misfit,
)
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import Shape

from . import slicing
from .slicing import Pairs

__all__ = ["batch_to_space_nd", "depth_to_space", "space_to_batch_nd"]


def _depth_to_space_spec(
    x: Spec | Tensor, *, block_size: int, data_format: str
) -> Spec:
    b = block_size
    if data_format == "NCHW":
        n, c, h, w = x.shape
        return Spec((n, c // b**2, h * b, w * b), x.dtype)
    n, h, w, c = x.shape
    return Spec((n, h * b, w * b, c // b**2), x.dtype)


def _check_depth(x: Spec | Tensor, b: int, data_format: str) -> None:
    if len(x.shape) != 4 or b < 2 or x.shape[data_format.index("C")] % b**2:
        rule = f"x must have rank 4, block_size {b} must be 2 or more"
        rule += f", and its square must divide the channels ({data_format})"
        raise misfit("depth_to_space", rule, x)


def _checked_depth_to_space_spec(x: Spec, *, block_size: int, data_format: str) -> Spec:
    _check_depth(x, block_size, data_format)
    return _depth_to_space_spec(x, block_size=block_size, data_format=data_format)


DEPTH_TO_SPACE = Kernel(
    "DepthToSpace(x; block_size: int, data_format: 'NHWC' | 'NCHW')",
    out=_checked_depth_to_space_spec,
    op="depth_to_space",
    doc="""``y[n, b·h + i, b·w + j, k] = x[n, h, w, (b·i + j)·c + k]`` where b is
    ``block_size``, and y has c channels. With "NCHW", the channels are the second axis
    of x and y.""",
)


def depth_to_space(
    x: TensorLike,
    /,
    block_size: int,
    *,
    data_format: Literal["NHWC", "NCHW"] = "NHWC",
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return images ``x`` whose channels are moved into blocks of pixels.

    With ``b = block_size`` and ``c`` channels in the result,
    ``y[n, b·h + i, b·w + j, k] = x[n, h, w, (b·i + j)·c + k]``.

    Args:
        x: ``[batch, height, width, b²·c]`` of any dtype; the channels are the second
            axis for "NCHW".
        block_size: The height and width of a block, 2 or more.
        data_format: "NHWC" or "NCHW", for ``x`` and for the result.

    Returns:
        A tensor ``[batch, b·height, b·width, c]`` with the dtype of ``x``.

    Raises:
        ValueError: ``x`` does not have rank 4, ``block_size`` is less than 2, or its
            square does not divide the channels.

    Example:
        >>> x = [[[[1, 2, 3, 4]]]]  # one pixel with four channels
        >>> pg.depth_to_space(x, 2)[0, :, :, 0]
        Tensor([[1, 2],
                [3, 4]], dtype=int32, backend='cpu')

    Source:
        The semantics are those of ``tf.depthToSpace`` in TensorFlow.js.

    """
    if unknown:
        raise unexpected(depth_to_space, unknown)
    op = "depth_to_space"
    x = _convert.asarray(x)
    b = integer(op, "block_size", block_size)
    choice(op, "data_format", data_format, "NHWC", "NCHW")
    _check_depth(x, b, data_format)
    return run(DEPTH_TO_SPACE, x, block_size=b, data_format=data_format)


@decomposition(DEPTH_TO_SPACE)
def _(x: Tensor, *, block_size: int, data_format: str) -> Tensor:
    b = block_size
    out = _depth_to_space_spec(x, block_size=b, data_format=data_format).shape
    if data_format == "NCHW":
        cut = (out[0], b, b, out[1], *x.shape[2:])
        axes = (0, 3, 4, 1, 5, 2)
    else:
        cut = (*x.shape[:3], b, b, out[3])
        axes = (0, 1, 3, 2, 4, 5)
    x = run(shape.TRANSPOSE, run(shape.RESHAPE, x, shape=cut), axes=axes)
    return run(shape.RESHAPE, x, shape=out)


def _space_to_batch_spec(x: Spec | Tensor, block_shape: Shape, paddings: Pairs) -> Spec:
    batch = x.shape[0] * math.prod(block_shape)
    rest = x.shape[len(block_shape) + 1 :]
    axes = zip(x.shape[1:], block_shape, paddings, strict=False)
    space = [(before + n + after) // b for n, b, (before, after) in axes]
    return Spec((batch, *space, *rest), x.dtype)


def _blocks_and_paddings(
    x: Spec | Tensor, block_shape: Ints, paddings: Margins
) -> tuple[Shape, Pairs]:
    """Return block sizes and paddings; raise unless they fit ``x``."""
    op = "space_to_batch_nd"
    blocks = _blocks(op, x, block_shape)
    pads = geometry.pairs(op, "paddings", paddings, len(blocks))
    for n, b, padding in zip(x.shape[1:], blocks, pads, strict=False):
        if (n + sum(padding)) % b:
            rule = f"block size {b} must divide size {n} plus paddings {padding}"
            raise misfit(op, rule, x)
    return blocks, pads


SPACE_TO_BATCH_ND = Kernel(
    "SpaceToBatchND(x; block_shape: ints, paddings: pairs)",
    out=lambda x, block_shape, paddings: _space_to_batch_spec(
        x, *_blocks_and_paddings(x, block_shape, paddings)
    ),
    op="space_to_batch_nd",
    doc="""``y[(i·b + j)·batch + n, p, q] = padded[n, a·p + i, b·q + j]`` for a
    ``block_shape`` of (a, b); other numbers of axes are analogous. The elements that
    ``paddings`` add are False, 0, or empty strings.""",
)


def space_to_batch_nd(
    x: TensorLike, /, block_shape: Ints, paddings: Margins, **unknown: Unpack[Nothing]
) -> Tensor:
    """Return ``x`` with the elements of each spatial block moved into the batch.

    For a ``block_shape`` of (a, b) the result is
    ``y[(i·b + j)·batch + n, p, q] = padded[n, a·p + i, b·q + j]``; other numbers of
    spatial axes are analogous.

    Args:
        x: ``[batch, *space, *rest]`` of any dtype, with one spatial axis for each size
            in ``block_shape``.
        block_shape: The sizes of a block along each spatial axis; an int stands for a
            single axis.
        paddings: A pair (before, after) for each spatial axis: how many elements to add
            at each end. They are 0, False or empty strings, depending on the dtype.

    Returns:
        A tensor ``[batch · prod(block_shape), *(padded space / block_shape), *rest]``
        with the dtype of ``x``.

    Raises:
        ValueError: A block size does not divide the padded size, or shapes do not fit.

    Example:
        >>> x = [[[1], [2], [3], [4]]]  # [batch, width, channels]
        >>> y = pg.space_to_batch_nd(x, [2], [(0, 0)])
        >>> y.shape, y.tolist()
        ((2, 2, 1), [[[1], [3]], [[2], [4]]])

    Source:
        The semantics are those of ``tf.spaceToBatchND`` in TensorFlow.js.

    """
    if unknown:
        raise unexpected(space_to_batch_nd, unknown)
    x = _convert.asarray(x)
    blocks, pads = _blocks_and_paddings(x, block_shape, paddings)
    return run(SPACE_TO_BATCH_ND, x, block_shape=blocks, paddings=pads)


def _blocks(op: str, x: Spec | Tensor, block_shape: Ints) -> Shape:
    blocks = integers(op, "block_shape", block_shape)
    if len(x.shape) <= len(blocks) or min(blocks, default=1) < 1:
        rule = f"block_shape {blocks} must be positive sizes, fewer than the axes of x"
        raise misfit(op, rule, x)
    return blocks


@decomposition(SPACE_TO_BATCH_ND)
def _(x: Tensor, *, block_shape: Shape, paddings: Pairs) -> Tensor:
    m = len(block_shape)
    out = _space_to_batch_spec(x, block_shape, paddings).shape
    x = slicing.pad(x, ((0, 0), *paddings, *((0, 0),) * (len(x.shape) - 1 - m)))
    cut = [p for pair in zip(out[1:], block_shape, strict=False) for p in pair]
    x = run(shape.RESHAPE, x, shape=(x.shape[0], *cut, *x.shape[m + 1 :]))
    inner = range(2, 2 * m + 1, 2)
    outer = range(1, 2 * m + 1, 2)
    order = (*inner, 0, *outer, *range(2 * m + 1, len(x.shape)))
    return run(shape.RESHAPE, run(shape.TRANSPOSE, x, axes=order), shape=out)


def _batch_to_space_spec(x: Spec | Tensor, block_shape: Shape, crops: Pairs) -> Spec:
    batch = x.shape[0] // math.prod(block_shape)
    rest = x.shape[len(block_shape) + 1 :]
    axes = zip(x.shape[1:], block_shape, crops, strict=False)
    return Spec((batch, *[n * b - sum(crop) for n, b, crop in axes], *rest), x.dtype)


def _blocks_and_crops(
    x: Spec | Tensor, block_shape: Ints, crops: Margins
) -> tuple[Shape, Pairs]:
    """Return block sizes and crops; raise unless they fit ``x``."""
    op = "batch_to_space_nd"
    blocks = _blocks(op, x, block_shape)
    cuts = geometry.pairs(op, "crops", crops, len(blocks))
    if x.shape[0] % (count := math.prod(blocks)):
        rule = f"the {count} elements of a block {blocks} must divide the batch"
        raise misfit(op, rule, x)
    for n, b, crop in zip(x.shape[1:], blocks, cuts, strict=False):
        if sum(crop) > n * b:
            raise misfit(op, f"crops {crop} remove more than size {n * b}", x)
    return blocks, cuts


BATCH_TO_SPACE_ND = Kernel(
    "BatchToSpaceND(x; block_shape: ints, crops: pairs)",
    out=lambda x, block_shape, crops: _batch_to_space_spec(
        x, *_blocks_and_crops(x, block_shape, crops)
    ),
    op="batch_to_space_nd",
    doc="""The inverse of ``SpaceToBatchND``, whose ``paddings`` are ``crops`` here:
    ``y[n, a·p + i - top, b·q + j - left] = x[(i·b + j)·batch + n, p, q]``.""",
)


def batch_to_space_nd(
    x: TensorLike, /, block_shape: Ints, crops: Margins, **unknown: Unpack[Nothing]
) -> Tensor:
    """Return ``x`` with the elements of the batch moved back into spatial blocks.

    It is the inverse of ``space_to_batch_nd``; ``crops`` correspond to its
    ``paddings``.

    Args:
        x: ``[batch, *space, *rest]`` of any dtype, with one spatial axis for each size
            in ``block_shape``.
        block_shape: The sizes of a block along each spatial axis; an int stands for a
            single axis.
        crops: A pair (before, after) for each spatial axis: how many elements to remove
            at each end.

    Returns:
        A tensor ``[batch / prod(block_shape), *(space · block_shape - crops), *rest]``
        with the dtype of ``x``.

    Raises:
        ValueError: The number of elements of a block does not divide the batch, the
            crops exceed the size, or shapes do not fit.

    Example:
        >>> x = [[[1], [3]], [[2], [4]]]  # [batch, width, channels]
        >>> y = pg.batch_to_space_nd(x, [2], [(0, 0)])
        >>> y.shape, y.tolist()
        ((1, 4, 1), [[[1], [2], [3], [4]]])

    Source:
        The semantics are those of ``tf.batchToSpaceND`` in TensorFlow.js.

    """
    if unknown:
        raise unexpected(batch_to_space_nd, unknown)
    x = _convert.asarray(x)
    blocks, cuts = _blocks_and_crops(x, block_shape, crops)
    return run(BATCH_TO_SPACE_ND, x, block_shape=blocks, crops=cuts)


@decomposition(BATCH_TO_SPACE_ND)
def _(x: Tensor, *, block_shape: Shape, crops: Pairs) -> Tensor:
    m = len(block_shape)
    out = _batch_to_space_spec(x, block_shape, crops).shape
    space = x.shape[1 : m + 1]
    rest = x.shape[m + 1 :]
    x = run(shape.RESHAPE, x, shape=(*block_shape, out[0], *space, *rest))
    mixed = [i for axis in range(m) for i in (m + 1 + axis, axis)]
    x = run(shape.TRANSPOSE, x, axes=(m, *mixed, *range(2 * m + 1, len(x.shape))))
    wide = [n * b for n, b in zip(space, block_shape, strict=True)]
    x = run(shape.RESHAPE, x, shape=(out[0], *wide, *rest))
    begin = (0, *[before for before, _ in crops], *[0] * len(rest))
    return run(slicing.SLICE, x, begin=begin, size=out)
