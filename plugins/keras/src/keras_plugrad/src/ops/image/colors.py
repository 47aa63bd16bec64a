"""Color spaces."""

from __future__ import annotations

from typing import Any

import plugrad as pg
from plugrad import Tensor

from .layouts import checked, is_channels_first, rounded, wide

BRIGHTNESS = (0.2989, 0.5870, 0.1140)  # of red, green and blue, as in TensorFlow


def rgb_to_grayscale(images: Any, data_format: str | None = None) -> Tensor:
    """Return the brightness of images; grayscale images are returned unchanged."""
    x = checked(images)
    axis = -3 if is_channels_first(data_format) else -1
    if x.shape[axis] not in (1, 3):
        raise ValueError(
            "Invalid channel size: expected 3 (RGB) or 1 (Grayscale). Received input "
            f"with shape: images.shape={x.shape}"
        )
    if x.shape[axis] == 1:
        return x
    parts = pg.unstack(wide(x), axis=axis)
    red, green, blue = [
        part * weight for part, weight in zip(parts, BRIGHTNESS, strict=True)
    ]
    return rounded(pg.expand_dims(red + green + blue, axis=axis), x.dtype.name)


def rgb_to_hsv(images: Any, data_format: str | None = None) -> Tensor:
    """Return hue, saturation and value of RGB images, all from 0 to 1."""
    x, axis = _colors(images, data_format)
    red, green, blue = pg.unstack(wide(x), axis=axis)
    value = pg.maximum(pg.maximum(red, green), blue)
    spread = value - pg.minimum(pg.minimum(red, green), blue)
    is_colored = spread > 0
    unit = pg.where(is_colored, spread, 1.0)
    saturation = pg.where(is_colored, spread / pg.where(is_colored, value, 1.0), 0.0)
    other = pg.where(value == green, 2 + (blue - red) / unit, 4 + (red - green) / unit)
    sector = pg.where(value == red, (green - blue) / unit, other)
    hue = pg.where(is_colored, sector / 6, 0.0)
    hue = pg.where(hue < 0, hue + 1, hue)
    return rounded(pg.stack([hue, saturation, value], axis=axis), x.dtype.name)


def hsv_to_rgb(images: Any, data_format: str | None = None) -> Tensor:
    """Return RGB images of hue, saturation and value."""
    x, axis = _colors(images, data_format)
    hue, saturation, value = pg.unstack(wide(x), axis=axis)
    shades = [
        pg.abs(hue * 6 - 3) - 1,
        2 - pg.abs(hue * 6 - 2),
        2 - pg.abs(hue * 6 - 4),
    ]
    colors = [
        value * (1 - saturation + saturation * pg.clip(shade, 0.0, 1.0))
        for shade in shades
    ]
    return rounded(pg.stack(colors, axis=axis), x.dtype.name)


def _colors(images: Any, data_format: str | None) -> tuple[Tensor, int]:
    """Return images of three floating channels, and the axis of the channels."""
    x = checked(images)
    if "float" not in x.dtype.name:
        raise ValueError(
            "Invalid images dtype: expected float dtype. "
            f"Received: images.dtype={x.dtype.name}"
        )
    axis = -3 if is_channels_first(data_format) else -1
    if x.shape[axis] != 3:
        raise ValueError(
            "Input images must have 3 channels, but received images with "
            f"{x.shape[axis]} channels."
        )
    return x, axis
