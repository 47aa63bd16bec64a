"""Batching rules of convolutions, pooling and resizing.

Image kernels have a batch axis of their own, which is merged with the axis of examples.
If the filters differ between examples, the examples become groups of channels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from plugrad._src.engine.dispatch import run, run_many
from plugrad._src.ops.array.rearrange import moveaxis
from plugrad._src.ops.basis import shape as shapes
from plugrad._src.registry.contract import Kernel
from plugrad._src.tensor.tensor import Tensor
from plugrad.geometry import Resizing, Windows

from .rules import Flags, Rule, expanded, size_of

Geometry = Windows | Resizing


def _joined(kernel: Kernel) -> Rule:
    """Return the rule of a kernel whose inputs are all batches of images."""

    def rule(batched: Flags, *images: Tensor | None, **attrs: Any) -> Any:
        if attrs.get("include_batch_in_index"):
            return NotImplemented
        given = expanded(batched, images)
        size, count = next(x.shape[:2] for x in given if x is not None)
        if "geometry" in attrs:
            attrs["geometry"] = _with_larger_batch(attrs["geometry"], size)
        parts = [None if x is None else _join(x) for x in given]
        if kernel.single:
            return _split_batch(run(kernel, *parts, **attrs), size, count)
        return tuple(
            [_split_batch(y, size, count) for y in run_many(kernel, *parts, **attrs)]
        )

    return rule


def _join(x: Tensor) -> Tensor:
    """Merge the batches of all examples into one batch of images."""
    return shapes.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:]))


def _split_batch(x: Tensor, size: int, count: int) -> Tensor:
    return shapes.reshape(x, (size, count, *x.shape[1:]))


def _with_larger_batch(geometry: Any, size: int) -> Any:
    """Return the geometry for a batch that is ``size`` times as large."""
    (n, *x), (_, *y) = geometry.in_shape, geometry.out_shape
    return replace(geometry, in_shape=(n * size, *x), out_shape=(n * size, *y))


def _normalized(kernel: Kernel) -> Rule:
    """Return ``_joined`` if only the images have examples; else decompose."""

    def rule(batched: Flags, x: Tensor, *others: Tensor | None, **attrs: Any) -> Any:
        if any(batched[1:]) or any(y is not None and len(y.shape) > 1 for y in others):
            return NotImplemented
        return _split_batch(run(kernel, _join(x), *others, **attrs), *x.shape[:2])

    return rule


# --- convolutions ----------------------------------------------------------------


def _convolution(*roles: str, to: str) -> Callable[[Kernel], Rule]:
    """Return a function that makes the rule of a convolution or one of its gradients.

    Args:
        roles: The roles of its inputs: "images", "filters" or "depthwise" filters.
        to: The role of its output.

    """

    def make(kernel: Kernel) -> Rule:
        def rule(batched: Flags, a: Tensor, b: Tensor, *, geometry: Windows) -> Tensor:
            size = size_of(batched, (a, b))
            if to == "images" and not batched[1]:
                y = run(
                    kernel, _join(a), b, geometry=_with_larger_batch(geometry, size)
                )
                return _split_batch(y, size, geometry.out_shape[0])
            given = expanded(batched, (a, b))
            parts = [_grouped(x, role) for x, role in zip(given, roles, strict=True)]
            (*x, c), (*y_shape, k) = geometry.in_shape, geometry.out_shape
            grouped = replace(
                geometry,
                in_shape=(*x, size * c),
                out_shape=(*y_shape, size * k),
                groups=size * geometry.groups,
            )
            return _ungrouped(run(kernel, *parts, geometry=grouped), size, to)

        return rule

    return make


def _grouped(x: Tensor, role: str) -> Tensor:
    """Return a tensor with the channels of all examples, one after the other."""
    axis = -3 if role == "depthwise" else -2
    x = moveaxis(x, 0, axis)
    shape = list(x.shape)
    shape[axis : axis + 2 or None] = [shape[axis] * shape[axis + 1]]
    return shapes.reshape(x, tuple(shape))


def _ungrouped(x: Tensor, size: int, role: str) -> Tensor:
    axis = len(x.shape) - (2 if role == "depthwise" else 1)
    n = x.shape[axis] // size
    x = shapes.reshape(x, (*x.shape[:axis], size, n, *x.shape[axis + 1 :]))
    return moveaxis(x, axis, 0)


FORWARD = _convolution("images", "filters", to="images")
FILTER = _convolution("images", "images", to="filters")

RULES: dict[Callable[[Kernel], Rule], str] = {
    _joined: """
        AvgPool AvgPool3D AvgPool3DGrad AvgPoolGrad LRN LRNGrad MaxPool MaxPool3D
        MaxPool3DGrad MaxPoolGrad MaxPoolWithArgmax ResizeBilinear ResizeBilinearGrad
        ResizeNearestNeighbor ResizeNearestNeighborGrad
        """,
    _normalized: "FusedBatchNorm",
    FORWARD: "Conv2D Conv2DBackpropInput Conv3D Conv3DBackpropInputV2",
    FILTER: "Conv2DBackpropFilter Conv3DBackpropFilterV2",
    _convolution("images", "depthwise", to="images"): """
        DepthwiseConv2dNative DepthwiseConv2dNativeBackpropInput
        """,
    _convolution("images", "images", to="depthwise"): (
        "DepthwiseConv2dNativeBackpropFilter"
    ),
}
