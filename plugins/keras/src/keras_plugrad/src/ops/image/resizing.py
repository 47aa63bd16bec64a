"""Images of another size."""

from __future__ import annotations

from typing import Any

import numpy as np
import plugrad as pg
from plugrad import Tensor

from .layouts import batch, checked, is_channels_first, wide
from .resampling import area_weights, kernel_weights, resampled

INTERPOLATIONS = ("bilinear", "nearest", "lanczos3", "lanczos5", "bicubic", "area")


def resize(
    images: Any,
    size: Any,
    interpolation: str = "bilinear",
    antialias: bool = False,
    crop_to_aspect_ratio: bool = False,
    pad_to_aspect_ratio: bool = False,
    fill_mode: str = "constant",
    fill_value: float = 0.0,
    data_format: str | None = None,
) -> Tensor:
    """Return images of another height and width.

    Integers become float32, so that the caller rounds them; nearest pixels keep their
    dtype.
    """
    x = checked(images)
    sizes = _sizes(size)
    _check(interpolation, fill_mode, crop_to_aspect_ratio and pad_to_aspect_ratio)
    axis = len(x.shape) - (2 if is_channels_first(data_format) else 3)  # of the height
    if crop_to_aspect_ratio:
        x = _cropped(x, axis, sizes)
    elif pad_to_aspect_ratio:
        x = _padded(x, axis, sizes, fill_value)
    old = x.shape[axis : axis + 2]
    if interpolation == "nearest":
        return _nearest(x, axis, sizes)
    is_smooth = antialias and (sizes[0] < old[0] or sizes[1] < old[1])
    if interpolation == "bilinear" and not is_smooth:
        given = batch(x, data_format)
        y = pg.image.resize_bilinear(given.pixels, sizes, half_pixel_centers=True)
        y = given.arranged(y)
    else:
        y = _resampled(wide(x), axis, sizes, interpolation, antialias)
    return pg.astype(y, x.dtype) if "float" in x.dtype.name else y


def _sizes(size: Any) -> tuple[int, int]:
    """Return the new height and width."""
    if len(size) != 2:
        raise ValueError(
            f"Expected `size` to be a tuple of 2 integers. Received: size={size}"
        )
    return int(size[0]), int(size[1])


def _check(interpolation: str, fill_mode: str, is_cropped_and_padded: bool) -> None:
    """Raise an error if the arguments do not fit."""
    if interpolation not in INTERPOLATIONS:
        raise ValueError(
            f"`interpolation` must be one of {INTERPOLATIONS}. "
            f"Received: interpolation={interpolation}"
        )
    if fill_mode != "constant":
        raise ValueError(f"`fill_mode` must be 'constant'. Received: {fill_mode!r}")
    if is_cropped_and_padded:
        raise ValueError(
            "Only one of `pad_to_aspect_ratio` & `crop_to_aspect_ratio` can be `True`."
        )


def _cropped(x: Tensor, axis: int, sizes: tuple[int, int]) -> Tensor:
    """Return the largest part in the middle that has the shape of the result."""
    height, width = x.shape[axis : axis + 2]
    kept = (
        min(height, max(width * sizes[0] // sizes[1], 1)),
        min(width, max(height * sizes[1] // sizes[0], 1)),
    )
    begins = [0] * len(x.shape)
    begins[axis : axis + 2] = [(height - kept[0]) // 2, (width - kept[1]) // 2]
    shape = list(x.shape)
    shape[axis : axis + 2] = kept
    return pg.slice(x, begins, shape)


def _padded(x: Tensor, axis: int, sizes: tuple[int, int], value: Any) -> Tensor:
    """Return images with equal margins, so that they have the shape of the result.

    As in Keras' other backends, a margin is rounded down to whole pixels.
    """
    height, width = x.shape[axis : axis + 2]
    down = max(width * sizes[0] // sizes[1] - height, 0) // 2
    right = max(height * sizes[1] // sizes[0] - width, 0) // 2
    margins = [(0, 0)] * len(x.shape)
    margins[axis : axis + 2] = [(down, down), (right, right)]
    fill = float(value) if "float" in x.dtype.name else int(value)
    return pg.pad(x, margins, constant_values=fill)


def _nearest(x: Tensor, axis: int, sizes: tuple[int, int]) -> Tensor:
    """Return the pixels in which the centers of the new pixels lie."""
    for i, new in enumerate(sizes):
        old = x.shape[axis + i]
        if new != old:
            places = (2 * np.arange(new) + 1) * old // (2 * new)
            x = pg.take(x, pg.asarray(places.astype(np.int32)), axis=axis + i)
    return x


def _resampled(
    x: Tensor, axis: int, sizes: tuple[int, int], method: str, antialias: bool
) -> Tensor:
    """Return weighted sums of pixels, along height and width."""
    for i, new in enumerate(sizes):
        old = x.shape[axis + i]
        if new == old:
            continue
        if method == "area":
            weights = area_weights((old, new), x.dtype)
        else:
            scale = pg.asarray(new / old, dtype=x.dtype)
            weights = kernel_weights((old, new), scale, 0.0, method, antialias)
        x = resampled(x, weights, axis + i)
    return x
