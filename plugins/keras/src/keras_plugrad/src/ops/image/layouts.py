"""Batches of images with the channels last, and the dtypes of pixels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import plugrad as pg
from plugrad import Tensor

from keras_plugrad.src.keras_names import config

from ..core.variables import convert_to_tensor


class Images(NamedTuple):
    """Images as floating numbers, ``[batch, height, width, channels]``."""

    pixels: Tensor
    dtype: str  # that was given
    is_single: bool
    is_channels_first: bool

    def restored(self, y: Tensor) -> Tensor:
        """Return a result in the layout and the dtype of the images."""
        return rounded(self.arranged(y), self.dtype)

    def arranged(self, y: Tensor) -> Tensor:
        """Return a result in the layout of the images; it may have further axes."""
        if self.is_channels_first:
            y = pg.moveaxis(y, 3, 1)
        return pg.squeeze(y, axis=0) if self.is_single else y


def is_channels_first(data_format: str | None) -> bool:
    """Return whether the channels precede height and width."""
    return config.standardize_data_format(data_format) == "channels_first"


def checked(images: Any) -> Tensor:
    """Return one image or a batch as a tensor."""
    x = convert_to_tensor(images)
    if len(x.shape) not in (3, 4):
        raise ValueError(
            "Invalid images rank: expected rank 3 (single image) or rank 4 (batch of "
            f"images). Received: images.shape={x.shape}"
        )
    return x


def batch(images: Any, data_format: str | None) -> Images:
    """Return images in the layout and the dtype in which they are computed."""
    x = checked(images)
    is_single = len(x.shape) == 3
    is_first = is_channels_first(data_format)
    y = pg.expand_dims(x, axis=0) if is_single else x
    y = pg.moveaxis(y, 1, 3) if is_first else y
    return Images(wide(y), x.dtype.name, is_single, is_first)


def wide(x: Tensor) -> Tensor:
    """Return ``x`` as float32, or float64 if it has that dtype."""
    return x if x.dtype.name == "float64" else pg.astype(x, "float32")


def rounded(y: Tensor, dtype: str) -> Tensor:
    """Return floating numbers in a dtype; integers are rounded and saturate."""
    if "float" in dtype:
        return pg.astype(y, dtype)
    if dtype == "bool":
        return y >= 0.5
    limits = np.iinfo(dtype)
    least, most = y.dtype.type(limits.min), y.dtype.type(limits.max)
    if int(most) > limits.max:
        most = np.nextafter(most, y.dtype.type(0))
    nearest = pg.sign(y) * pg.floor(pg.abs(y) + 0.5)
    return pg.astype(pg.clip(nearest, float(least), float(most)), dtype)
