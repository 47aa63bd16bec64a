"""Convolutions of images with fixed weights."""

from __future__ import annotations

from typing import Any

import plugrad as pg
from plugrad import Tensor

from ..core.variables import convert_to_tensor
from .layouts import batch, rounded

SOBEL = ((-1.0, -2.0, -1.0), (0.0, 0.0, 0.0), (1.0, 2.0, 1.0))


def gaussian_blur(
    images: Any,
    kernel_size: Any = (3, 3),
    sigma: Any = (1.0, 1.0),
    data_format: str | None = None,
) -> Tensor:
    """Return images blurred along height and width; outside an image is zero."""
    given = batch(images, data_format)
    return given.restored(blurred(given.pixels, kernel_size, sigma))


def blurred(x: Tensor, kernel_size: Any, sigma: Any) -> Tensor:
    """Return a batch of images with the channels last, blurred along both axes."""
    sizes = [int(size) for size in kernel_size]
    down = _weights(sizes[0], sigma[0], x)
    right = _weights(sizes[1], sigma[1], x)
    channels = x.shape[3]
    columns = pg.reshape(down, (sizes[0], 1, 1, 1))
    columns = pg.broadcast_to(columns, (sizes[0], 1, channels, 1))
    rows = pg.reshape(right, (1, sizes[1], 1, 1))
    rows = pg.broadcast_to(rows, (1, sizes[1], channels, 1))
    x = pg.depthwise_conv2d(x, columns, pad="same")
    return pg.depthwise_conv2d(x, rows, pad="same")


def _weights(size: int, sigma: Any, x: Tensor) -> Tensor:
    """Return the weights of a normal distribution, whose sum is 1."""
    places = pg.arange(size, dtype=x.dtype) - (size - 1) / 2
    width = convert_to_tensor(sigma, dtype=x.dtype)
    return pg.softmax(-0.5 * pg.square(places / width))


def sobel_edges(images: Any, data_format: str | None = None) -> Tensor:
    """Return the slopes down and to the right, as a last axis of size 2."""
    if len(images.shape) != 4:
        raise ValueError(
            "Invalid images rank: expected rank 4 (batch of images). "
            f"Received: images.shape={tuple(images.shape)}"
        )
    given = batch(images, data_format)
    x = given.pixels
    down = pg.asarray([*SOBEL], dtype=x.dtype)
    both = pg.stack([down, pg.matrix_transpose(down)], axis=-1)
    channels = x.shape[3]
    weights = pg.broadcast_to(pg.expand_dims(both, axis=2), (3, 3, channels, 2))
    y = pg.depthwise_conv2d(x, weights, pad="same")
    y = pg.reshape(y, (*x.shape, 2))
    return rounded(given.arranged(y), given.dtype)
