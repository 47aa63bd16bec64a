"""Rules of affine layers: how the relevance of a result is distributed over the input.

A rule takes the cotangent of the result, which is relevance divided by value, and
returns that of the input. So ``x · cotangent`` is the relevance of ``x``, and linear
kernels need no rule: their gradients pass relevance on.

With ``z = f(x, w) + b`` and ``R`` the relevance of ``z``, most rules compute
``R_i = x_i · Σ_j w'_ij · R_j / z'_j``, where ``w'`` and ``z'`` are the weights and sums
as the rule modifies them. A stabilizer moves ``z'`` away from zero.

Contents: rules that return relevance divided by value; rules of the first layer, which
return relevance itself; helpers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import plugrad as pg
from plugrad.plugin import Tensor

from .layers import Layer

Part = tuple[int, Tensor, Tensor | float]  # the sign of the inputs, weights, and bias


def stabilized(z: Tensor, amount: float) -> Tensor:
    """Return ``z`` moved away from zero by ``amount``; 0 counts as positive."""
    return z + pg.where(z >= 0, amount, -amount)


def damped(c: Tensor, y: Tensor, amount: float) -> Tensor:
    """Return ``c · y / stabilized(y, amount)``; ``c`` if the amount is zero.

    The signs of ``y`` and of its stabilizer cancel out, so absolute values give the
    same numbers.
    """
    if not amount:
        return c
    size = pg.abs(y)
    return c * size / (size + amount)


def positive(x: Tensor) -> Tensor:
    """Return the positive part of each element."""
    return pg.maximum(x, 0.0)


def negative(x: Tensor) -> Tensor:
    """Return the negative part of each element."""
    return pg.minimum(x, 0.0)


@dataclass(frozen=True)
class Epsilon:
    """The epsilon rule: the gradient, with a stabilized denominator.

    ``R_i = x_i · Σ_j w_ij · R_j / (z_j + epsilon · sign(z_j))``. Relevance that the
    bias and epsilon absorb is lost. With ``epsilon=0`` the attribution is input times
    gradient.

    Args:
        epsilon: The stabilizer, in the units of ``z``.

    Example:
        >>> import plugrad_attribution as attr
        >>> attr.Epsilon(0.25)
        Epsilon(epsilon=0.25)

    Source:
        S. Bach et al., "On Pixel-Wise Explanations for Non-Linear Classifier Decisions
        by Layer-Wise Relevance Propagation", 2015, equation 58.

    """

    epsilon: float = 1e-6

    gives_relevance: ClassVar[bool] = False

    def __call__(self, c: Tensor, layer: Layer) -> Tensor:
        """Return the cotangent of the input, given that of the result."""
        return layer.backward(damped(c, layer.y, self.epsilon), layer.w)


@dataclass(frozen=True)
class Gamma:
    """The gamma rule: positive contributions count more.

    For positive inputs and results, the weights are ``w + gamma · max(w, 0)``, and the
    bias likewise. Other signs use the mirror image, so that the rule also works for
    layers with negative inputs and results.

    Args:
        gamma: How much more positive contributions count; 0 gives the epsilon rule, and
            infinity the rule ``ZPlus``.
        stabilizer: The stabilizer of the denominators.

    Source:
        G. Montavon et al., "Layer-Wise Relevance Propagation: An Overview", 2019; in
        the form of zennit, for inputs of both signs.

    """

    gamma: float = 0.25
    stabilizer: float = 1e-6

    gives_relevance: ClassVar[bool] = False

    def __call__(self, c: Tensor, layer: Layer) -> Tensor:
        """Return the cotangent of the input, given that of the result."""
        x, w, b, y, *_ = layer
        more = w + self.gamma * positive(w)
        less = w + self.gamma * negative(w)
        up = 0.0 if b is None else b + self.gamma * positive(b)
        down = 0.0 if b is None else b + self.gamma * negative(b)
        r = c * y
        from_positive = [(1, more, up), (-1, less, 0.0)]
        from_negative = [(1, less, down), (-1, more, 0.0)]
        return _spread(
            pg.where(y > 0, r, 0.0), x, from_positive, layer, self.stabilizer
        ) + _spread(pg.where(y < 0, r, 0.0), x, from_negative, layer, self.stabilizer)


@dataclass(frozen=True)
class ZPlus:
    """The z-plus rule: only positive contributions count.

    ``R_i = Σ_j (x_i w_ij)⁺ / Σ_i (x_i w_ij)⁺ · R_j``; a positive bias takes its share.

    Args:
        stabilizer: The stabilizer of the denominators.
        zero_bias: Whether the bias gets no relevance.

    Source:
        G. Montavon et al., "Explaining NonLinear Classification Decisions with Deep
        Taylor Decomposition", 2017.

    """

    stabilizer: float = 1e-6
    zero_bias: bool = False

    gives_relevance: ClassVar[bool] = False

    def __call__(self, c: Tensor, layer: Layer) -> Tensor:
        """Return the cotangent of the input, given that of the result."""
        x, w, b, y, *_ = layer
        bias = 0.0 if b is None or self.zero_bias else positive(b)
        parts = [(1, positive(w), bias), (-1, negative(w), 0.0)]
        return _spread(c * y, x, parts, layer, self.stabilizer)


@dataclass(frozen=True)
class AlphaBeta:
    """The alpha-beta rule: positive and negative contributions count separately.

    The relevance is ``alpha`` times the share among positive contributions, minus
    ``beta`` times the share among negative ones.

    Args:
        alpha: The weight of positive contributions.
        beta: The weight of negative contributions; ``alpha - beta`` must be 1.
        stabilizer: The stabilizer of the denominators.
        zero_bias: Whether the bias gets no relevance.

    Raises:
        ValueError: ``alpha - beta`` is not 1, or one of them is negative.

    Source:
        S. Bach et al., 2015, equation 60.

    """

    alpha: float = 2.0
    beta: float = 1.0
    stabilizer: float = 1e-6
    zero_bias: bool = False

    gives_relevance: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.alpha < 0 or self.beta < 0 or abs(self.alpha - self.beta - 1) > 1e-9:
            raise ValueError(
                f"AlphaBeta: alpha - beta must be 1, and neither may be negative, got "
                f"alpha={self.alpha}, beta={self.beta}"
            )

    def __call__(self, c: Tensor, layer: Layer) -> Tensor:
        """Return the cotangent of the input, given that of the result."""
        x, w, b, y, *_ = layer
        has_bias = b is not None and not self.zero_bias
        up = positive(b) if has_bias and b is not None else 0.0
        down = negative(b) if has_bias and b is not None else 0.0
        r = c * y
        supporting = [(1, positive(w), up), (-1, negative(w), 0.0)]
        found = self.alpha * _spread(r, x, supporting, layer, self.stabilizer)
        if not self.beta:
            return found
        opposing = [(1, negative(w), down), (-1, positive(w), 0.0)]
        return found - self.beta * _spread(r, x, opposing, layer, self.stabilizer)


# --- the first layer -------------------------------------------------------------


@dataclass(frozen=True)
class Box:
    """The box rule, for inputs between two bounds such as the values of pixels.

    ``R_i = Σ_j (x_i w_ij - low_i w⁺_ij - high_i w⁻_ij) / Σ_i (...) · R_j``. Use it for
    the first layer. Unlike other rules, it returns relevance, not relevance divided by
    the value of the input, so an input of zero can have relevance.

    Args:
        low: The smallest value of an input: a number, or a tensor that can be broadcast
            to the input.
        high: The largest value of an input, in the same form.
        stabilizer: The stabilizer of the denominator.

    Source:
        G. Montavon et al., 2017, who call it ``zᴮ``.

    """

    low: float | Tensor
    high: float | Tensor
    stabilizer: float = 1e-6

    gives_relevance: ClassVar[bool] = True

    def __call__(self, c: Tensor, layer: Layer) -> Tensor:
        """Return the relevance of the input, given the cotangent of the result."""
        x, w, b, y, *_ = layer
        low, high = pg.zeros_like(x) + self.low, pg.zeros_like(x) + self.high
        up, down = positive(w), negative(w)
        total = y - layer.forward(low, up) - layer.forward(high, down)
        if b is not None:
            total = total - positive(b) - negative(b)
        q = c * y / stabilized(total, self.stabilizer)
        spread = x * layer.backward(q, w)
        return spread - low * layer.backward(q, up) - high * layer.backward(q, down)


@dataclass(frozen=True)
class Flat:
    """The flat rule: each input in a window has the same relevance.

    Use it for the first layer. Unlike other rules, it returns relevance, not relevance
    divided by the value of the input.

    Args:
        stabilizer: The stabilizer of the denominator.

    Source:
        S. Lapuschkin et al., "Unmasking Clever Hans Predictors and Assessing What
        Machines Really Learn", 2019.

    """

    stabilizer: float = 1e-6

    gives_relevance: ClassVar[bool] = True

    def __call__(self, c: Tensor, layer: Layer) -> Tensor:
        """Return the relevance of the input, given the cotangent of the result."""
        x, w, _, y, *_ = layer
        ones = pg.ones_like(w)
        total = layer.forward(pg.ones_like(x), ones)
        return layer.backward(c * y / stabilized(total, self.stabilizer), ones)


@dataclass(frozen=True)
class WSquare:
    """The w² rule: inputs share relevance in proportion to their squared weights.

    Use it for the first layer. Unlike other rules, it returns relevance, not relevance
    divided by the value of the input.

    Args:
        stabilizer: The stabilizer of the denominator.
        zero_bias: Whether the bias gets no relevance.

    Source:
        G. Montavon et al., 2017, who call it ``w²``.

    """

    stabilizer: float = 1e-6
    zero_bias: bool = False

    gives_relevance: ClassVar[bool] = True

    def __call__(self, c: Tensor, layer: Layer) -> Tensor:
        """Return the relevance of the input, given the cotangent of the result."""
        x, w, b, y, *_ = layer
        squares = w * w
        total = layer.forward(pg.ones_like(x), squares)
        if b is not None and not self.zero_bias:
            total = total + b * b
        return layer.backward(c * y / stabilized(total, self.stabilizer), squares)


# --- helpers ---------------------------------------------------------------------


def _spread(
    r: Tensor, x: Tensor, parts: Sequence[Part], layer: Layer, amount: float
) -> Tensor:
    """Return the cotangent of ``x``, given weights for its positive and negative parts.

    Args:
        r: The relevance of the result.
        x: The input.
        parts: The weights and the bias for the positive part, and for the negative one.
        layer: The layer.
        amount: The stabilizer.

    """
    above, below = pg.maximum(x, 0.0), pg.minimum(x, 0.0)
    (_, up, bias), (_, down, other) = parts
    total = layer.forward(above, up) + bias + layer.forward(below, down) + other
    q = r / stabilized(total, amount)
    return pg.where(x > 0, layer.backward(q, up), layer.backward(q, down))
