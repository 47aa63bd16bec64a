"""Images from and to pixels, and rotation."""

from typing import Any

import numpy as np
from plugrad.geometry import Rotation
from plugrad.plugin import KernelTable

from ..arrays import Array
from ._windows import batches

kernels = KernelTable()


@kernels("FromPixels")
def from_pixels(pixels: Array, *, num_channels: int) -> Array:
    """Return the first ``num_channels`` channels."""
    return pixels[..., :num_channels].astype(np.int32)


@kernels("Draw")
def draw(image: Array) -> Array:
    """Scale and round; clip if a value is out of range. NaN becomes black."""
    if image.dtype.kind != "f":
        return np.clip(image.astype(np.int32), 0, 255)
    y = np.empty(image.shape, np.int32)
    for part in batches(image, 1 << 18):
        scaled = np.rint(image[part] * image.dtype.type(255))
        if not (scaled.min(initial=0) >= 0 and scaled.max(initial=0) <= 255):
            scaled = np.nan_to_num(np.clip(scaled, 0, 255))
        y[part] = scaled
    return y


@kernels("FlipLeftRight")
def flip_left_right(image: Array) -> Array:
    """Return a view with the columns reversed."""
    return image[..., ::-1, :]


@kernels("RotateWithOffset")
def rotate_with_offset(image: Array, *, geometry: Rotation, fill_value: Any) -> Array:
    """Read all pixels, then fill those that lie outside of the image."""
    b, h, w, c = image.shape
    y = image.reshape(b, h * w, c).take(geometry.table, 1, mode="clip")
    y[:, geometry.table < 0] = fill_value
    return y.reshape(image.shape)
