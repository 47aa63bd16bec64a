"""Maxima and averages of windows along one to three spatial axes."""

from __future__ import annotations

from typing import Any

import plugrad as pg
from plugrad import Tensor

from ..core.variables import convert_to_tensor, floating
from .layouts import known_padding, layout, numbers


def max_pool(
    inputs: Any,
    pool_size: Any,
    strides: Any = None,
    padding: str = "valid",
    data_format: str | None = None,
) -> Tensor:
    """Return the maxima of windows."""
    x = convert_to_tensor(inputs)
    options = _options("max_pool", x, pool_size, strides, padding, data_format)
    op: Any = pg.max_pool1d if len(x.shape) == 3 else pg.max_pool
    y: Tensor = op(x, **options)
    return y


def average_pool(
    inputs: Any,
    pool_size: Any,
    strides: Any = None,
    padding: str = "valid",
    data_format: str | None = None,
) -> Tensor:
    """Return the averages of windows, over the elements inside the input."""
    x = floating(inputs)
    options = _options("average_pool", x, pool_size, strides, padding, data_format)
    op: Any = pg.avg_pool1d if len(x.shape) == 3 else pg.avg_pool
    y: Tensor = op(x, **options)
    return y


def adaptive_average_pool(
    inputs: Any, output_size: Any, data_format: str | None = None
) -> Tensor:
    """Return the averages of this many windows along each spatial axis."""
    x = floating(inputs)
    form = layout("adaptive_average_pool", x, data_format)
    sizes = numbers("adaptive_average_pool", "output_size", output_size, form.spatial)
    op: Any = pg.adaptive_avg_pool1d if form.spatial == 1 else pg.adaptive_avg_pool
    y: Tensor = op(x, sizes, data_format=form.name)
    return y


def adaptive_max_pool(
    inputs: Any, output_size: Any, data_format: str | None = None
) -> Tensor:
    """Return the maxima of this many windows along each spatial axis."""
    x = convert_to_tensor(inputs)
    form = layout("adaptive_max_pool", x, data_format)
    sizes = numbers("adaptive_max_pool", "output_size", output_size, form.spatial)
    op: Any = pg.adaptive_max_pool1d if form.spatial == 1 else pg.adaptive_max_pool
    y: Tensor = op(x, sizes, data_format=form.name)
    return y


def _options(
    op: str,
    x: Tensor,
    pool_size: Any,
    strides: Any,
    padding: str,
    data_format: str | None,
) -> dict[str, Any]:
    """Return the attributes of a pooling, as plugrad names them."""
    form = layout(op, x, data_format)
    sizes = numbers(op, "pool_size", pool_size, form.spatial)
    steps = sizes
    if strides is not None:
        steps = numbers(op, "strides", strides, form.spatial)
    return {
        "filter_size": sizes,
        "strides": steps,
        "pad": known_padding(op, padding),
        "data_format": form.name,
    }
