"""Pooling over windows, and over all positions."""

from __future__ import annotations

from typing import Any

import plugrad as pg

from ..settings import Format, Ints, Padding
from .conv import CHANNELS_FIRST, channels_last, spread
from .table import layer


def _pool(
    op: Any, x: Any, size: Ints, strides: Ints | None, pad: str, data_format: str
) -> Any:
    rank = x.ndim - 2
    window = spread(size, rank)
    steps = window if strides is None else spread(strides, rank)
    if rank == 1:  # the kernels pool images: add an axis of size 1
        window = (1, *window)
        steps = (1, *steps)

    def run(x: Any) -> Any:
        x = pg.expand_dims(x, 1) if rank == 1 else x
        y = op(x, window, strides=steps, pad=pad)
        return pg.squeeze(y, 1) if rank == 1 else y

    return channels_last(x, data_format, run)


@layer("MaxPooling1D", "MaxPooling2D", "MaxPooling3D")
def max_pooling(
    x: Any,
    *,
    pool_size: Ints = (2,),
    strides: Ints | None = None,
    padding: Padding = "valid",
    data_format: Format = "channels_last",
) -> Any:
    return _pool(pg.max_pool, x, pool_size, strides, padding, data_format)


@layer("AveragePooling1D", "AveragePooling2D", "AveragePooling3D")
def average_pooling(
    x: Any,
    *,
    pool_size: Ints = (2,),
    strides: Ints | None = None,
    padding: Padding = "valid",
    data_format: Format = "channels_last",
) -> Any:
    return _pool(pg.avg_pool, x, pool_size, strides, padding, data_format)


def _spatial_axes(x: Any, data_format: str) -> Ints:
    return tuple(
        range(2, x.ndim) if data_format in CHANNELS_FIRST else range(1, x.ndim - 1)
    )


@layer("GlobalMaxPooling1D", "GlobalMaxPooling2D", "GlobalMaxPooling3D")
def global_max_pooling(
    x: Any, *, data_format: Format = "channels_last", keepdims: bool = False
) -> Any:
    return pg.max(x, axis=_spatial_axes(x, data_format), keepdims=keepdims)


@layer("GlobalAveragePooling1D", "GlobalAveragePooling2D", "GlobalAveragePooling3D")
def global_average_pooling(
    x: Any, *, data_format: Format = "channels_last", keepdims: bool = False
) -> Any:
    return pg.mean(x, axis=_spatial_axes(x, data_format), keepdims=keepdims)
