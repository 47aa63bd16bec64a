"""Images on another grid, as weighted sums of their pixels along each axis."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import plugrad as pg
from plugrad import Tensor

from ..core.variables import convert_to_tensor
from .layouts import rounded, wide


def _triangle(x: Tensor) -> Tensor:
    """Return the weights of linear interpolation at a distance in pixels."""
    return pg.relu(1 - x)


def _cubic(x: Tensor) -> Tensor:
    """Return the weights of Keys' cubic with the parameter -1/2."""
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return pg.where(x < 1, near, pg.where(x < 2, far, 0.0))


def _lanczos(radius: int) -> Callable[[Tensor], Tensor]:
    """Return the weights ``sinc(x) · sinc(x / radius)`` within a radius."""

    def weights(x: Tensor) -> Tensor:
        is_apart = x > 1e-3
        angle = math.pi * pg.where(is_apart, x, 1.0)
        product = radius * pg.sin(angle) * pg.sin(angle / radius)
        y = pg.where(is_apart, product / pg.square(angle), 1.0)
        return pg.where(x > radius, 0.0, y)

    return weights


KERNELS: dict[str, Callable[[Tensor], Tensor]] = {
    **dict.fromkeys(("linear", "bilinear", "trilinear", "triangle"), _triangle),
    **dict.fromkeys(("cubic", "bicubic", "tricubic"), _cubic),
    "lanczos3": _lanczos(3),
    "lanczos5": _lanczos(5),
}


def scale_and_translate(
    images: Any,
    output_shape: Any,
    scale: Any,
    translation: Any,
    spatial_dims: Any,
    method: str,
    antialias: bool = True,
) -> Tensor:
    """Return images of another shape, scaled and moved; outside an image is zero."""
    if method not in KERNELS:
        raise ValueError(
            f"`method` must be one of {tuple(KERNELS)}. Received: method={method}"
        )
    x = convert_to_tensor(images)
    y = wide(x)
    factors = convert_to_tensor(scale, dtype=y.dtype)
    shifts = convert_to_tensor(translation, dtype=y.dtype)
    _check(x, output_shape, factors, shifts, spatial_dims)
    for i, axis in enumerate(spatial_dims):
        sizes = x.shape[axis], int(output_shape[axis])
        weights = kernel_weights(sizes, factors[i], shifts[i], method, antialias)
        y = resampled(y, weights, axis)
    return rounded(y, x.dtype.name)


def _check(x: Tensor, shape: Any, scale: Tensor, shift: Tensor, axes: Any) -> None:
    """Raise an error if the arguments do not fit."""
    if len(shape) != len(x.shape):
        raise ValueError(
            "`output_shape` must have one size for each axis of `images`. Received: "
            f"images.shape={x.shape}, output_shape={shape}"
        )
    if scale.shape != (len(axes),) or shift.shape != (len(axes),):
        raise ValueError(
            "`scale` and `translation` must have one number for each of "
            f"`spatial_dims`. Received: scale.shape={scale.shape}, "
            f"translation.shape={shift.shape}, spatial_dims={axes}"
        )


def kernel_weights(
    sizes: tuple[int, int], scale: Tensor, shift: Any, method: str, antialias: bool
) -> Tensor:
    """Return the weight of each old pixel in each new one, ``[old, new]``.

    Args:
        sizes: The old and the new size.
        scale: The size of an old pixel on the new grid.
        shift: The place of the old edge on the new grid.
        method: The name of a kernel.
        antialias: Whether a kernel covers a whole new pixel, if that is larger.

    """
    old, new = sizes
    step = 1 / scale
    places = (pg.arange(new, dtype=scale.dtype) + 0.5 - shift) * step - 0.5
    apart = pg.abs(places - pg.reshape(pg.arange(old, dtype=scale.dtype), (-1, 1)))
    if antialias:
        apart = apart / pg.maximum(step, 1.0)
    weights = KERNELS[method](apart)
    total = pg.sum(weights, axis=0, keepdims=True)
    has_weight = pg.abs(total) > 1000 * float(pg.finfo(scale.dtype).eps)
    weights = pg.where(has_weight, weights / pg.where(has_weight, total, 1.0), 0.0)
    is_inside = (places >= -0.5) & (places <= old - 0.5)
    return pg.where(is_inside, weights, 0.0)


def area_weights(sizes: tuple[int, int], dtype: Any) -> Tensor:
    """Return the share of each old pixel in the area of each new one."""
    old, new = sizes
    step = old / new
    begin = pg.arange(new, dtype=dtype) * step
    pixel = pg.reshape(pg.arange(old, dtype=dtype), (-1, 1))
    common = pg.minimum(begin + step, pixel + 1) - pg.maximum(begin, pixel)
    return pg.relu(common) / step


def resampled(x: Tensor, weights: Tensor, axis: int) -> Tensor:
    """Return the weighted sums of ``x`` along an axis."""
    axis = axis % len(x.shape)
    return pg.moveaxis(pg.tensordot(x, weights, axes=([axis], [0])), -1, axis)
