"""Methods that need only gradients: the model's own, or a modified one for ReLU.

Contents: ``Contributions``; integrated gradients; SmoothGrad; guided backpropagation
and deconvnet.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import plugrad as pg
from plugrad.plugin import Tensor, TensorLike

from .attribution import Attribution
from .examples import (
    Model,
    Target,
    broadcast,
    checked,
    chosen,
    in_chunks,
    is_count,
    value_and_gradient,
)
from .layers import Table


@dataclass(frozen=True)
class Contributions(Attribution):
    """The contribution of each element to the difference from a baseline.

    Attributes:
        input: The contribution of each element of the input, in the input's shape.
        value: The explained value of each example.
        start: The value of the baseline, one for each example.

    Example:
        >>> import plugrad_attribution as attr
        >>> square = lambda x: pg.sum(x * x, axis=1)
        >>> found = attr.integrated_gradients(square, [[3.0, 1.0]], baseline=1.0)
        >>> found.value.tolist(), found.start.tolist()
        ([10.0], [2.0])

    """

    start: Tensor

    @property
    def gap(self) -> Tensor:
        """The error of the sum, per example: ``Σ input - (value - start)``."""
        axes = tuple(range(1, self.input.ndim))
        return pg.sum(self.input, axis=axes) - (self.value - self.start)


# --- integrated gradients --------------------------------------------------------


def _gauss_legendre(steps: int) -> tuple[np.ndarray, np.ndarray]:
    points, weights = np.polynomial.legendre.leggauss(steps)
    return (points + 1) / 2, weights / 2


def _trapezoid(steps: int) -> tuple[np.ndarray, np.ndarray]:
    weights = np.full(steps, 1 / max(steps - 1, 1))
    if steps > 1:
        weights[[0, -1]] /= 2
    return np.linspace(0, 1, steps), weights


def _riemann(offset: float) -> Callable[[int], tuple[np.ndarray, np.ndarray]]:
    """Return a Riemann sum of equal steps, each with its point at ``offset``."""
    return lambda steps: (
        (np.arange(steps) + offset) / steps,
        np.full(steps, 1 / steps),
    )


# Functions of the number of steps that return the points between baseline (0) and input
# (1), and their weights.
METHODS: dict[str, Callable[[int], tuple[np.ndarray, np.ndarray]]] = {
    "gausslegendre": _gauss_legendre,
    "riemann_left": _riemann(0.0),
    "riemann_middle": _riemann(0.5),
    "riemann_right": _riemann(1.0),
    "riemann_trapezoid": _trapezoid,
}


def integrated_gradients(
    f: Model,
    x: TensorLike,
    baseline: TensorLike = 0.0,
    target: Target = None,
    *,
    steps: int = 50,
    method: str = "gausslegendre",
    chunk: int | None = None,
) -> Contributions:
    """Return the gradient, averaged from a baseline to ``x``, times the difference.

    The result is ``(x - x₀) · ∫ ∇f(x₀ + t (x - x₀)) dt`` for ``t`` from 0 to 1. The
    contributions of an example add up to ``f(x) - f(x₀)``. ``gap`` of the result is the
    error of the sum that approximates the integral; more steps make it smaller.

    Args:
        f: The model: a function of a batch of examples, which returns a tensor whose
            first axis is that of the examples.
        x: The examples; they must be real.
        baseline: The input to compare the examples with, such as a black image: a
            tensor that can be broadcast to ``x``.
        target: The value that is explained, as in ``attribute``.
        steps: The number of points at which the gradient is computed.
        method: How the integral is approximated: ``"gausslegendre"``, or
            ``"riemann_left"``, ``"riemann_middle"``, ``"riemann_right"`` or
            ``"riemann_trapezoid"``.
        chunk: The number of examples to process at once, to limit memory.

    Returns:
        A ``Contributions``.

    Raises:
        TypeError: ``f`` is not a function, or ``x`` is not real.
        ValueError: Another argument is invalid.

    Example:
        >>> import plugrad_attribution as attr
        >>> square = lambda x: pg.sum(x * x, axis=1)
        >>> found = attr.integrated_gradients(square, [[3.0, 1.0]])
        >>> found.input.numpy().round(4).tolist()
        [[9.0, 1.0]]
        >>> bool(abs(found.gap.item()) < 1e-5)
        True

    Source:
        M. Sundararajan et al., "Axiomatic Attribution for Deep Networks", 2017.

    """
    name = "integrated_gradients"
    values = checked(name, f, x)
    origin = broadcast(name, "baseline", baseline, values)
    if method not in METHODS:
        raise ValueError(
            f"{name}: method must be one of {', '.join(METHODS)}, got {method!r}"
        )
    if not is_count(steps):
        raise ValueError(f"{name}: steps must be a positive number, got {steps!r}")

    def work(target: Target, x: Tensor, origin: Tensor) -> tuple[Tensor, ...]:
        difference = x - origin
        mean = pg.zeros_like(x)
        for point, weight in zip(*METHODS[method](steps), strict=True):
            _, found = value_and_gradient(f, origin + float(point) * difference, target)
            mean = mean + float(weight) * found
        return difference * mean, chosen(f(x), target), chosen(f(origin), target)

    return Contributions(*in_chunks(name, work, (values, origin), target, chunk))


# --- SmoothGrad ------------------------------------------------------------------


def smooth_grad(
    f: Model,
    x: TensorLike,
    target: Target = None,
    *,
    samples: int = 20,
    sigma: float = 0.1,
    seed: int | Tensor = 0,
    chunk: int | None = None,
) -> Attribution:
    """Return the mean gradient of noisy copies of ``x``.

    The result is ``1/n · Σ ∇f(x + noise)``, with normally distributed noise. Gradients
    of deep networks vary strongly between neighboring inputs; their mean shows what
    they have in common.

    Args:
        f: The model: a function of a batch of examples, which returns a tensor whose
            first axis is that of the examples.
        x: The examples; they must be real.
        target: The value that is explained, as in ``attribute``.
        samples: The number of noisy copies.
        sigma: The standard deviation of the noise, in the units of ``x``.
        seed: The seed of the noise, or a key of ``pg.random``.
        chunk: The number of examples to process at once, to limit memory. The noise
            does not depend on it.

    Returns:
        An ``Attribution``: the mean gradient, and the value of ``x`` without noise.

    Raises:
        TypeError: ``f`` is not a function, or ``x`` is not real.
        ValueError: Another argument is invalid.

    Example:
        >>> import plugrad_attribution as attr
        >>> cube = lambda x: pg.sum(x**3, axis=1)
        >>> found = attr.smooth_grad(cube, [[2.0]], samples=50)
        >>> found.value.item(), round(found.input.item())
        (8.0, 12)

    Source:
        D. Smilkov et al., "SmoothGrad: Removing Noise by Adding Noise", 2017.

    """
    name = "smooth_grad"
    values = checked(name, f, x)
    if not is_count(samples):
        raise ValueError(f"{name}: samples must be a positive number, got {samples!r}")
    if not 0 <= sigma < math.inf:
        raise ValueError(f"{name}: sigma must be finite and 0 or more, got {sigma!r}")
    key = pg.random.key(seed) if isinstance(seed, int) else seed

    def gradient(target: Target, x: Tensor) -> tuple[Tensor]:
        return value_and_gradient(f, x, target)[1:]

    def value(target: Target, x: Tensor) -> tuple[Tensor]:
        return (chosen(f(x), target),)

    total = pg.zeros_like(values)
    for number in range(samples):
        noise = pg.random.normal(
            values.shape, dtype=values.dtype, seed=pg.random.fold_in(key, number)
        )
        noisy = values + sigma * noise
        total = total + in_chunks(name, gradient, (noisy,), target, chunk)[0]
    (found,) = in_chunks(name, value, (values,), target, chunk)
    return Attribution(total / samples, found)


# --- other gradients of ReLU -----------------------------------------------------


@functools.cache
def _guided() -> Any:
    """Return the block in which only positive cotangents pass through active ReLUs."""
    relu = lambda dy, y: pg.where((y > 0) & (dy > 0), dy, 0.0)
    relu6 = lambda dy, original: original(pg.maximum(dy, 0.0))
    table: Table = {"Relu": {"x": relu}, "Relu6": {"x": relu6}}
    return pg.use_gradients(table, linear=False, innermost=True)


@functools.cache
def _deconvnet() -> Any:
    """Return the block in which positive cotangents pass through all ReLUs."""
    rule = lambda dy: pg.maximum(dy, 0.0)
    table: Table = {"Relu": {"x": rule}, "Relu6": {"x": rule}}
    return pg.use_gradients(table, linear=False, innermost=True)


def _with_block(
    name: str, block: Any, f: Model, x: TensorLike, target: Target, chunk: int | None
) -> Attribution:
    """Return the value and its gradient, computed inside a block of overrides."""
    values = checked(name, f, x)
    inside = block(value_and_gradient)

    def work(target: Target, x: Tensor) -> tuple[Tensor, ...]:
        value, gradient = inside(f, x, target)
        return gradient, value

    return Attribution(*in_chunks(name, work, (values,), target, chunk))


def guided_backprop(
    f: Model, x: TensorLike, target: Target = None, *, chunk: int | None = None
) -> Attribution:
    """Return the gradient of guided backpropagation.

    A ReLU passes a cotangent on if both the cotangent and the ReLU's input are
    positive. So the result includes only paths through neurons that raise the value.
    This applies to all runs of the kernels ``Relu`` and ``Relu6``, including those in
    reused layers and in functions; ``Relu6`` passes nothing on above 6. The result
    depends less on the explained value than the gradient does: it resembles a picture
    of edges.

    Args:
        f: The model: a function of a batch of examples, which returns a tensor whose
            first axis is that of the examples.
        x: The examples; they must be real.
        target: The value that is explained, as in ``attribute``.
        chunk: The number of examples to process at once, to limit memory.

    Returns:
        An ``Attribution``; its ``input`` is the gradient.

    Raises:
        TypeError: ``f`` is not a function, or ``x`` is not real.
        ValueError: ``target`` or ``chunk`` is invalid.

    Example:
        >>> import plugrad_attribution as attr
        >>> model = lambda x: pg.sum(pg.relu(x) * [1.0, 1.0, -1.0], axis=1)
        >>> attr.guided_backprop(model, [[-1.0, 2.0, 3.0]]).input.tolist()
        [[0.0, 1.0, 0.0]]

    Source:
        J. T. Springenberg et al., "Striving for Simplicity: The All Convolutional Net",
        2015.

    """
    return _with_block("guided_backprop", _guided(), f, x, target, chunk)


def deconvnet(
    f: Model, x: TensorLike, target: Target = None, *, chunk: int | None = None
) -> Attribution:
    """Return the gradient of a deconvolutional network.

    A ReLU passes a cotangent on if the cotangent is positive, whatever the ReLU's
    input. This applies to all runs of the kernels ``Relu`` and ``Relu6``, including
    those in reused layers and in functions.

    Args:
        f: The model: a function of a batch of examples, which returns a tensor whose
            first axis is that of the examples.
        x: The examples; they must be real.
        target: The value that is explained, as in ``attribute``.
        chunk: The number of examples to process at once, to limit memory.

    Returns:
        An ``Attribution``; its ``input`` is the gradient.

    Raises:
        TypeError: ``f`` is not a function, or ``x`` is not real.
        ValueError: ``target`` or ``chunk`` is invalid.

    Example:
        >>> import plugrad_attribution as attr
        >>> model = lambda x: pg.sum(pg.relu(x) * [1.0, 1.0, -1.0], axis=1)
        >>> attr.deconvnet(model, [[-1.0, 2.0, 3.0]]).input.tolist()
        [[1.0, 1.0, 0.0]]

    Source:
        M. D. Zeiler and R. Fergus, "Visualizing and Understanding Convolutional
        Networks", 2014.

    """
    return _with_block("deconvnet", _deconvnet(), f, x, target, chunk)
