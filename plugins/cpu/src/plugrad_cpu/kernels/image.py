"""Pixels in and out, and turning."""

from typing import Any

import numpy as np
from plugrad.geometry import Rotation
from plugrad.plugin import KernelTable

from ..arrays import Array

kernels = KernelTable()


@kernels("FromPixels")
def from_pixels(pixels: Array, *, num_channels: int) -> Array:
    """Take channels from the front."""
    return pixels[..., :num_channels].astype(np.int32)


@kernels("Draw")
def draw(image: Array) -> Array:
    """Scale, round and clip; NaN is black."""
    if image.dtype.kind != "f":
        return np.clip(image.astype(np.int32), 0, 255)
    return np.nan_to_num(np.rint(np.clip(image, 0, 1) * 255), copy=False).astype(
        np.int32
    )


@kernels("FlipLeftRight")
def flip_left_right(image: Array) -> Array:
    """View the columns from the last to the first."""
    return image[..., ::-1, :]


@kernels("RotateWithOffset")
def rotate_with_offset(image: Array, *, geometry: Rotation, fill_value: Any) -> Array:
    """Read all pixels, and write over those that are none."""
    b, h, w, c = image.shape
    y = image.reshape(b, h * w, c).take(geometry.table, 1, mode="clip")
    y[:, geometry.table < 0] = fill_value
    return y.reshape(image.shape)
