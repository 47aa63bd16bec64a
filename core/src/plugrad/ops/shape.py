"""Ops that make or move elements.

Kernels: ``BroadcastTo Concat Reshape SplitV``.
"""

from __future__ import annotations

from collections.abc import Sequence

from plugrad import geometry
from plugrad._engine import run, run_many
from plugrad._kernel import Kernel, Spec, gradients
from plugrad._tensor import Tensor, TensorLike

from . import _convert, reduce

RESHAPE = Kernel(
    "Reshape", "x", attrs="shape", out=lambda x, shape: Spec(shape, x.dtype)
)


def reshape(x: TensorLike, /, shape: Sequence[int]) -> Tensor:
    """Return the same elements under a new shape, in which one -1 is worked out."""
    x = _convert.asarray(x)
    return run(RESHAPE, x, shape=geometry.reshaped(x.shape, shape))


gradients(RESHAPE, x=lambda dy, x_spec: reshape(dy, x_spec.shape))


BROADCAST_TO = Kernel(
    "BroadcastTo", "x", attrs="shape", out=lambda x, shape: Spec(shape, x.dtype)
)


def broadcast_to(x: TensorLike, /, shape: Sequence[int]) -> Tensor:
    """Return ``x`` repeated along axes of size 1 until it has ``shape``."""
    x, shape = _convert.asarray(x), tuple(shape)
    if geometry.broadcast("broadcast_to", x.shape, shape) != shape:
        raise ValueError(f"broadcast_to: shape {x.shape} does not broadcast to {shape}")
    return run(BROADCAST_TO, x, shape=shape)


gradients(BROADCAST_TO, x=lambda dy, x_spec: reduce.sum_to(dy, x_spec.shape))


def _concatenated(*xs: Spec, axis: int) -> Spec:
    size = sum(x.shape[axis] for x in xs)
    return Spec((*xs[0].shape[:axis], size, *xs[0].shape[axis + 1 :]), xs[0].dtype)


CONCAT = Kernel("Concat", "*xs", attrs="axis", out=_concatenated)


def concat(xs: Sequence[TensorLike], /, *, axis: int = 0) -> Tensor:
    """Join tensors end to end along ``axis``; all other axes must agree."""
    tensors = _convert.together("concat", *xs)
    (axis,) = geometry.axes("concat", axis, len(tensors[0].shape))
    if len({(*t.shape[:axis], *t.shape[axis + 1 :]) for t in tensors}) != 1:
        shapes = ", ".join(str(t.shape) for t in tensors)
        raise ValueError(f"concat: shapes {shapes} differ outside axis {axis}")
    return run(CONCAT, *tensors, axis=axis)


gradients(
    CONCAT,
    xs=lambda dy, xs_spec, axis: split(dy, [x.shape[axis] for x in xs_spec], axis=axis),
)


def _pieces(x: Spec, *, sizes: tuple[int, ...], axis: int) -> tuple[Spec, ...]:
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    return tuple(Spec((*before, size, *after), x.dtype) for size in sizes)


SPLIT_V = Kernel("SplitV", "x", attrs="sizes axis", outputs="*ys", out=_pieces)


def split(x: TensorLike, /, sizes: Sequence[int], *, axis: int = 0) -> list[Tensor]:
    """Cut ``x`` along ``axis`` into pieces of the given sizes."""
    x = _convert.asarray(x)
    (axis,) = geometry.axes("split", axis, len(x.shape))
    if sum(sizes) != x.shape[axis]:
        raise ValueError(f"split: sizes {sizes} do not add up to {x.shape[axis]}")
    return list(run_many(SPLIT_V, x, sizes=tuple(sizes), axis=axis))


gradients(SPLIT_V, x=lambda dys, axis: concat(dys, axis=axis))
