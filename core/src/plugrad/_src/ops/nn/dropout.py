"""Dropout: elements are set to 0 at random. No kernels."""

from __future__ import annotations

from typing import Unpack

from plugrad._src.ops.basis import _convert, compare, creation, unary
from plugrad._src.ops.basis.creation import Number
from plugrad._src.ops.random import _draws, random
from plugrad._src.tensor import arguments
from plugrad._src.tensor.arguments import misfit
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import broadcast

__all__ = ["dropout"]


def dropout(
    x: TensorLike,
    /,
    rate: Number,
    *,
    noise_shape: random.NoiseShape = None,
    seed: random.Seed = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``x / (1 - rate)``, with each element set to 0 with probability ``rate``.

    The expected value of each element stays the same. With ``noise_shape``, elements
    along the axes over which it broadcasts are dropped or kept together.

    Args:
        x: A tensor of numbers.
        rate: The probability of dropping an element: at least 0 and below 1.
        noise_shape: A shape that broadcasts to that of ``x``; an entry of None stands
            for the size of ``x``. By default the shape of ``x``: each element is
            dropped independently.
        seed: An int or a key that determines which elements are dropped.

    Returns:
        A tensor of the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        ValueError: ``rate`` is out of range, or ``noise_shape`` does not broadcast to
            the shape of ``x``.
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.dropout([1.0, 2.0, 3.0, 4.0], 0.5, seed=1)
        Tensor([2., 4., 0., 0.], dtype=float32, backend='cpu')

    Source:
        N. Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from
        Overfitting", 2014.

    """
    if unknown:
        raise unexpected(dropout, unknown)
    x = _convert.floating("dropout", x)
    chance = arguments.finite("dropout", "rate", rate)
    if not 0 <= chance < 1:
        raise ValueError(f"dropout: rate must be from 0 to below 1, got {chance}")
    sizes = x.shape
    if noise_shape is not None:
        entries = arguments.entries(noise_shape)
        entries = [noise_shape] if entries is None else entries
        lead = len(x.shape) - len(entries)
        axes = enumerate(entries, lead)
        given = [x.shape[i] if n is None and lead >= 0 else n for i, n in axes]
        sizes = arguments.sizes("dropout", given, "noise_shape")
        if broadcast("dropout", x.shape, sizes) != x.shape:
            raise misfit("dropout", f"noise_shape must broadcast to {x.shape}", sizes)
    if not chance:
        return creation.identity(x)
    kept = random.draw_tensor("dropout", seed, sizes, _draws.bernoulli, 1 - chance)
    return compare.where(kept, unary.times_real(x, 1 / (1 - chance)), 0.0)
