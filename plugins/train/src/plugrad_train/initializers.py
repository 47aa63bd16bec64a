"""Initial values of weights: functions ``initializer(shape, seed=)``.

The last two axes of a shape are inputs and outputs, as in ``matmul`` and in the filters
of ``conv2d``; the axes before them are the receptive field. ``fan_in`` and ``fan_out``
are the numbers of inputs and outputs of a unit. The names are those of
``jax.nn.initializers``; "He" is also known as Kaiming, and "Glorot" as Xavier.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import plugrad as pg

from ._trees import check_choice

__all__ = [
    "Initializer",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "lecun_normal",
    "lecun_uniform",
    "orthogonal",
    "truncated_normal",
    "variance_scaling",
]

Initializer = Callable[..., pg.Tensor]
Shape = Sequence[int]
Seed = int | pg.Tensor | None
# The standard deviation of the standard normal distribution truncated at ±2.
STDDEV = 0.87962566103423978


def fans(shape: Shape, /) -> tuple[int, int]:
    """Return the numbers of inputs and outputs of a unit.

    Example:
        >>> pt.initializers.fans((3, 3, 16, 32))
        (144, 288)

    """
    if len(shape) < 2:
        raise ValueError(
            f"initializers: shape {tuple(shape)} has no inputs and outputs; it needs "
            "at least two axes. Start biases with pg.zeros"
        )
    field = math.prod(shape[:-2])
    return field * shape[-2], field * shape[-1]


def variance_scaling(
    scale: float, mode: str, distribution: str, /
) -> Callable[..., pg.Tensor]:
    """Return the initializer whose values have the variance ``scale / fan``.

    Args:
        scale: The factor.
        mode: ``"fan_in"``, ``"fan_out"``, or ``"fan_avg"``, their mean.
        distribution: ``"normal"``, truncated at two standard deviations, or
            ``"uniform"``.

    Returns:
        A function of a shape, ``seed=`` and ``dtype=``.

    Example:
        >>> initializer = pt.initializers.variance_scaling(1.0, "fan_in", "uniform")
        >>> w = initializer((3, 4), seed=0)
        >>> w.shape, bool(pg.max(pg.abs(w)) <= 1.0)
        ((3, 4), True)

    Source:
        ``jax.nn.initializers.variance_scaling``.

    """
    check_choice("variance_scaling", "mode", mode, ("fan_in", "fan_out", "fan_avg"))
    check_choice(
        "variance_scaling", "distribution", distribution, ("normal", "uniform")
    )

    def initializer(
        shape: Shape, *, seed: Seed = None, dtype: Any = pg.float32
    ) -> pg.Tensor:
        inputs, outputs = fans(shape)
        fan = {"fan_in": inputs, "fan_out": outputs, "fan_avg": (inputs + outputs) / 2}
        stddev = math.sqrt(scale / max(fan[mode], 1))
        if distribution == "uniform":
            limit = math.sqrt(3) * stddev
            return pg.random.uniform(
                shape, minval=-limit, maxval=limit, dtype=dtype, seed=seed
            )
        return truncated_normal(shape, stddev / STDDEV, seed=seed, dtype=dtype)

    return initializer


def truncated_normal(
    shape: Shape, stddev: float = 0.02, *, seed: Seed = None, dtype: Any = pg.float32
) -> pg.Tensor:
    """Return normally distributed numbers, truncated at two standard deviations.

    Example:
        >>> w = pt.initializers.truncated_normal((100,), 0.5, seed=0)
        >>> bool(pg.max(pg.abs(w)) <= 1.0)
        True

    """
    return pg.random.truncated_normal(shape, stddev=stddev, dtype=dtype, seed=seed)


def orthogonal(
    shape: Shape, gain: float = 1.0, *, seed: Seed = None, dtype: Any = pg.float32
) -> pg.Tensor:
    """Return a random matrix with orthogonal rows or columns of norm ``gain``.

    All axes except the last are merged into the rows.

    Args:
        shape: The shape, with at least two axes.
        gain: The Euclidean norm of the rows or columns.
        seed: A seed, or a key.
        dtype: The dtype.

    Returns:
        A tensor.

    Example:
        >>> w = pt.initializers.orthogonal((4, 2), seed=0)
        >>> bool(pg.all(pg.abs(pg.matmul(w.mT, w) - pg.eye(2)) < 1e-5))
        True

    Source:
        A. M. Saxe, J. L. McClelland and S. Ganguli, "Exact solutions to the nonlinear
        dynamics of learning in deep linear neural networks", ICLR 2014.

    """
    fans(shape)  # raises if there are fewer than two axes
    rows = math.prod(shape[:-1])
    columns = shape[-1]
    normal = pg.random.normal(
        (max(rows, columns), min(rows, columns)), dtype=dtype, seed=seed
    )
    q, r = pg.linalg.qr(normal)
    q = q * pg.sign(pg.linalg.diagonal(r))  # makes the distribution uniform
    return pg.reshape(gain * (q.mT if rows < columns else q), tuple(shape))


he_normal: Initializer = variance_scaling(2.0, "fan_in", "normal")
he_uniform: Initializer = variance_scaling(2.0, "fan_in", "uniform")
glorot_normal: Initializer = variance_scaling(1.0, "fan_avg", "normal")
glorot_uniform: Initializer = variance_scaling(1.0, "fan_avg", "uniform")
lecun_normal: Initializer = variance_scaling(1.0, "fan_in", "normal")
lecun_uniform: Initializer = variance_scaling(1.0, "fan_in", "uniform")
