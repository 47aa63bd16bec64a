"""Pooling: the maximum or the average of each window."""

from __future__ import annotations

import functools
from typing import cast

import numpy as np
from plugrad.geometry import Windows
from plugrad.plugin import KernelTable

from ..arrays import ClArray, ClArrays, DType, filled
from ..runtime import Device
from ..windows import Body, backward, forward
from .binary import kernels as binary
from .shape import broadcast_to

kernels = KernelTable()

_AVERAGE = Body(
    "T total = (T)(0);",
    "total += value;",
    "*(__global T *)(y + to) = total / (S)count;",
    "total += value;",
)
_INDEX = Body(
    "T best = (T)($least); I output = (I)(-1);",
    # the first value that is not NaN, and then each larger one
    "const I hit = (value > best) | ((output < (I)0) & (value == value));"
    "best = hit ? value : best; output = hit ? (I)(first + p) : output;",
    "output = output < (I)0 ? output : output * (I)channels + lanes(c);"
    "*(__global T *)(y + to) = best; *(__global N *)(index + to) = TO(N, output);",
    "total += TO(I, *(__global const N *)(index + from)) == me ? value : (T)(0);",
)
# For windows that do not overlap: find the maximum and write the gradient in one pass.
_ALONE = _INDEX._replace(
    end="const T dy = LOAD(f + to);"
    "EACH_POSITION(*(__global T *)(y + at) = output == (I)p ? dy : (T)(0);)",
    back="",
)
_LARGEST = Body(
    "T best = (T)($least);",
    "best = value > best ? value : best;",
    "*(__global T *)(y + to) = best;",
)


@functools.cache
def _for_dtype(body: Body, dtype: DType) -> Body:
    """Return the body with the minimum of the dtype filled in."""
    least = "-INFINITY"
    if dtype.kind in "iu":
        limit = np.iinfo(dtype).min
        least = f"({limit + 1} - 1)" if limit else "0"
    return body._replace(start=body.start.replace("$least", least))


@kernels("MaxPool3D")
@kernels("MaxPool")
def max_pool(x: ClArray, *, geometry: Windows) -> ClArray:
    """Return the maximum of each window; NaN is never the largest."""
    return forward(_for_dtype(_LARGEST, x.dtype), x, None, geometry)[0]


@kernels("MaxPoolWithArgmax")
def max_pool_with_argmax(
    x: ClArray, *, geometry: Windows, include_batch_in_index: bool
) -> tuple[ClArray, ClArray]:
    """Return the maximum of each window, and the index of its first occurrence."""
    body = _for_dtype(_INDEX, x.dtype)
    batch = include_batch_in_index
    return forward(body, x, None, geometry, index=True, counts=batch)


@kernels("MaxPool3DGrad")
@kernels("MaxPoolGrad")
def max_pool_grad(dy: ClArray, x: ClArray, y: ClArray, *, geometry: Windows) -> ClArray:
    """Find each maximum again, and add up the cotangents of its windows there."""
    if geometry.dilations == (1,) * len(geometry.window) and all(
        n <= s for n, s in zip(geometry.window, geometry.strides, strict=True)
    ):
        dx = filled(x.device, x.shape, 0, x.dtype)
        forward(_for_dtype(_ALONE, x.dtype), x, dy, geometry, into=dx)
        return dx
    _, index = forward(_for_dtype(_INDEX, x.dtype), x, None, geometry, index=True)
    return backward(_INDEX, dy, None, index, geometry)


@kernels("AvgPool3D")
@kernels("AvgPool")
def avg_pool(x: ClArray, *, geometry: Windows) -> ClArray:
    """Return the average of the elements of each window that are inside the input."""
    return forward(_AVERAGE, x, None, geometry)[0]


@kernels("AvgPool3DGrad")
@kernels("AvgPoolGrad")
def avg_pool_grad(dy: ClArray, x: ClArray | None, *, geometry: Windows) -> ClArray:
    """Distribute each cotangent over the elements of its window."""
    share = binary["RealDiv"](dy, _counts(dy.device, geometry, dy.dtype))
    if _tiled(geometry):  # repeat each share along its window
        outputs, window = geometry.out_shape[1:-1], geometry.window
        axes = [*zip(outputs, window, strict=True)]
        ends = (dy.shape[:1], dy.shape[-1:])
        narrow, wide = [
            (*ends[0], *[m for n, k in axes for m in (n, k if full else 1)], *ends[1])
            for full in (False, True)
        ]
        return broadcast_to(share.view(narrow), shape=wide).view(geometry.in_shape)
    return backward(_AVERAGE, share, None, None, geometry)


def _tiled(geometry: Windows) -> bool:
    """Return whether each element of the input is in exactly one window."""
    sizes = zip(geometry.out_shape[1:-1], geometry.window, strict=True)
    return (
        geometry.strides == geometry.window
        and max(geometry.dilations) == 1
        and geometry.in_shape[1:-1] == tuple([n * k for n, k in sizes])
    )


@functools.lru_cache(256)
def _counts(device: Device, windows: Windows, dtype: DType) -> ClArray:
    """Return how many elements each window contains, and 1 for an empty window."""
    axes = [np.array([sum(row) for row in axis]) for axis in windows.inside]
    counts = functools.reduce(np.multiply.outer, [*axes, np.ones(1, np.int64)])
    return cast("ClArray", ClArrays(device).upload(np.maximum(counts, 1).astype(dtype)))
