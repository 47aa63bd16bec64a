"""Surrogate gradients of spikes, and straight-through estimators of rounding.

A spiking neuron fires when its potential is above a threshold: ``pg.step(u - 1.0)``.
The derivative of a step is 0, so nothing would be learned. A surrogate gradient is used
in its place. Each function here returns a table for ``pg.use_gradients``; the packs of
this distribution are the same tables with default parameters.

======================================  ==============================================
pack                                    gradient of ``pg.step(x)``
======================================  ==============================================
``surrogate.fast_sigmoid``              ``1 / (25 |x| + 1)²``
``surrogate.atan``                      ``1 / (1 + (π x)²)``
``surrogate.sigmoid``                   ``25 e / (e + 1)²`` with ``e = exp(-25 x)``
``surrogate.triangular``                1 below 0, elsewhere -1
``surrogate.spike_rate_escape``         ``25 exp(-|x - 1|)``
``surrogate.straight_through``          1
======================================  ==============================================

The packs ``ste.identity`` and ``ste.clipped`` are for rounding, signs and steps in
quantized networks.

Example:
    >>> import plugrad_attribution as attr
    >>> with pg.use_gradients("surrogate.fast_sigmoid"):
    ...     pg.grad(pg.step)(0.04).item()
    0.25
    >>> with pg.use_gradients(attr.surrogates.fast_sigmoid(slope=100.0)):
    ...     pg.grad(pg.step)(0.01).item()
    0.25

Contents: surrogates of spikes; straight-through estimators; the tables of the packs;
checks of arguments.

"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping

import plugrad as pg
from plugrad.plugin import Tensor

Gradient = Callable[..., Tensor]
Table = dict[str, dict[str, Gradient]]


# --- surrogates of spikes --------------------------------------------------------


def fast_sigmoid(slope: float = 25.0) -> Table:
    """Return the derivative of a fast sigmoid, ``1 / (slope · |x| + 1)²``.

    Args:
        slope: How narrow the derivative is.

    Returns:
        A table of gradients for ``pg.use_gradients``. Tables with equal parameters
        have the same functions, so ``jit`` does not record again.

    Raises:
        ValueError: ``slope`` is not a positive number.

    Example:
        >>> import plugrad_attribution as attr
        >>> with pg.use_gradients(attr.surrogates.fast_sigmoid(slope=10.0)):
        ...     pg.grad(pg.step)(0.1).item()
        0.25

    Source:
        F. Zenke and S. Ganguli, "SuperSpike: Supervised Learning in Multilayer Spiking
        Neural Networks", 2018; in the form of snntorch.

    """
    return _step_table(_fast_sigmoid(_positive("fast_sigmoid", "slope", slope)))


@functools.cache
def _fast_sigmoid(slope: float) -> Gradient:
    return lambda dy, x: dy / pg.square(slope * pg.abs(x) + 1.0)


def atan(alpha: float = 2.0) -> Table:
    """Return the derivative of an arc tangent, ``α/2 / (1 + (π/2 · α · x)²)``.

    Args:
        alpha: How narrow the derivative is.

    Returns:
        A table of gradients for ``pg.use_gradients``.

    Raises:
        ValueError: ``alpha`` is not a positive number.

    Example:
        >>> import plugrad_attribution as attr
        >>> with pg.use_gradients(attr.surrogates.atan(alpha=4.0)):
        ...     pg.grad(pg.step)(0.0).item()
        2.0

    Source:
        W. Fang et al., "Incorporating Learnable Membrane Time Constant to Enhance
        Learning of Spiking Neural Networks", 2021; in the form of snntorch.

    """
    return _step_table(_atan(_positive("atan", "alpha", alpha)))


@functools.cache
def _atan(alpha: float) -> Gradient:
    scale = math.pi / 2 * alpha
    return lambda dy, x: alpha / 2 / (1.0 + pg.square(scale * x)) * dy


def sigmoid(slope: float = 25.0) -> Table:
    """Return the derivative of a sigmoid, ``slope · e / (e + 1)²``.

    Here ``e`` is ``exp(-slope · |x|)``. snntorch computes it without the absolute
    value, so that it overflows: far below the threshold, snntorch's gradient is NaN.

    Args:
        slope: How steep the sigmoid is.

    Returns:
        A table of gradients for ``pg.use_gradients``.

    Raises:
        ValueError: ``slope`` is not a positive number.

    Example:
        >>> import plugrad_attribution as attr
        >>> with pg.use_gradients(attr.surrogates.sigmoid(slope=4.0)):
        ...     pg.grad(pg.step)(0.0).item()
        1.0

    Source:
        F. Zenke and S. Ganguli, 2018; in the form of snntorch.

    """
    return _step_table(_sigmoid(_positive("sigmoid", "slope", slope)))


@functools.cache
def _sigmoid(slope: float) -> Gradient:
    def gradient(dy: Tensor, x: Tensor) -> Tensor:
        e = pg.exp(-slope * pg.abs(x))
        return dy * slope * e / pg.square(e + 1.0)

    return gradient


def triangular(threshold: float = 1.0) -> Table:
    """Return ``threshold`` below 0, and ``-threshold`` elsewhere.

    As in snntorch, these are the slopes of a triangle, so the gradient of a neuron that
    fires has the opposite sign.

    Args:
        threshold: The size of the gradient.

    Returns:
        A table of gradients for ``pg.use_gradients``.

    Raises:
        ValueError: ``threshold`` is not a positive number.

    Example:
        >>> import plugrad_attribution as attr
        >>> with pg.use_gradients(attr.surrogates.triangular(threshold=0.5)):
        ...     pg.grad(pg.step)(-1.0).item(), pg.grad(pg.step)(1.0).item()
        (0.5, -0.5)

    Source:
        The function of this name in snntorch.

    """
    return _step_table(_triangular(_positive("triangular", "threshold", threshold)))


@functools.cache
def _triangular(threshold: float) -> Gradient:
    return lambda dy, x: pg.where(x >= 0, -threshold, threshold) * dy


def spike_rate_escape(beta: float = 1.0, slope: float = 25.0) -> Table:
    """Return the escape rate of a neuron, ``slope · exp(-beta · |x - 1|)``.

    Args:
        beta: How narrow the gradient is.
        slope: The largest value of the gradient.

    Returns:
        A table of gradients for ``pg.use_gradients``.

    Raises:
        ValueError: ``beta`` or ``slope`` is not a positive number.

    Example:
        >>> import plugrad_attribution as attr
        >>> with pg.use_gradients(attr.surrogates.spike_rate_escape(slope=2.0)):
        ...     pg.grad(pg.step)(1.0).item()
        2.0

    Source:
        W. Gerstner and W. M. Kistler, "Spiking Neuron Models", 2002; in the form of
        snntorch.

    """
    who = "spike_rate_escape"
    beta = _positive(who, "beta", beta)
    return _step_table(_spike_rate_escape(beta, _positive(who, "slope", slope)))


@functools.cache
def _spike_rate_escape(beta: float, slope: float) -> Gradient:
    return lambda dy, x: dy * slope * pg.exp(-beta * pg.abs(x - 1.0))


# --- straight-through estimators -------------------------------------------------

ROUNDING = ("Round", "Floor", "Ceil", "Trunc")
SIGNS = ("Sign", "Step")


def straight_through() -> Table:
    """Return the identity for spikes: the cotangent passes through a step.

    Returns:
        A table of gradients for ``pg.use_gradients``.

    Example:
        >>> import plugrad_attribution as attr
        >>> with pg.use_gradients(attr.surrogates.straight_through()):
        ...     pg.grad(pg.step)(-3.0).item()
        1.0

    Source:
        Y. Bengio et al., "Estimating or Propagating Gradients Through Stochastic
        Neurons for Conditional Computation", 2013.

    """
    return _step_table(_straight)


def identity_estimator() -> Table:
    """Return the identity for rounding, signs and steps.

    Returns:
        A table of gradients for ``pg.use_gradients``, the same as the pack
        ``ste.identity``.

    Example:
        >>> import plugrad_attribution as attr
        >>> with pg.use_gradients(attr.surrogates.identity_estimator()):
        ...     pg.grad(pg.round)(0.3).item(), pg.grad(pg.sign)(-3.0).item()
        (1.0, 1.0)

    Source:
        Y. Bengio et al., 2013.

    """
    return {kernel: {"x": _straight} for kernel in (*ROUNDING, *SIGNS)}


def clipped_estimator(limit: float = 1.0) -> Table:
    """Return the identity for rounding, and for signs and steps close to 0.

    A sign or a step has the gradient of ``clip(x, -limit, limit)``, so that weights
    and potentials far from 0 do not move further.

    Args:
        limit: The largest absolute value whose sign has a gradient.

    Returns:
        A table of gradients for ``pg.use_gradients``. With the default limit, it is the
        same as the pack ``ste.clipped``.

    Raises:
        ValueError: ``limit`` is not a positive number.

    Example:
        >>> import plugrad_attribution as attr
        >>> with pg.use_gradients(attr.surrogates.clipped_estimator(limit=2.0)):
        ...     pg.grad(pg.sign)(-1.5).item(), pg.grad(pg.sign)(-2.5).item()
        (1.0, 0.0)

    Source:
        I. Hubara et al., "Binarized Neural Networks", 2016.

    """
    clipped = _clipped(_positive("clipped_estimator", "limit", limit))
    rounding: Table = {kernel: {"x": _straight} for kernel in ROUNDING}
    return rounding | {kernel: {"x": clipped} for kernel in SIGNS}


def _straight(dy: Tensor) -> Tensor:
    return dy


@functools.cache
def _clipped(limit: float) -> Gradient:
    return lambda dy, x: pg.where(pg.abs(x) <= limit, dy, 0.0)


# --- packs -----------------------------------------------------------------------

# The table of each pack; the module ``plugin`` names them.
PACKS: Mapping[str, Callable[[], Table]] = {
    "ste.clipped": clipped_estimator,
    "ste.identity": identity_estimator,
    "surrogate.atan": atan,
    "surrogate.fast_sigmoid": fast_sigmoid,
    "surrogate.sigmoid": sigmoid,
    "surrogate.spike_rate_escape": spike_rate_escape,
    "surrogate.straight_through": straight_through,
    "surrogate.triangular": triangular,
}

# --- arguments -------------------------------------------------------------------


def _step_table(gradient: Gradient) -> Table:
    return {"Step": {"x": gradient}}


def _positive(who: str, name: str, value: object) -> float:
    """Return a parameter as a float.

    Raises:
        ValueError: It is not a positive number.

    """
    is_bool = isinstance(value, bool)
    if isinstance(value, int | float) and not is_bool and 0 < value < math.inf:
        return float(value)
    raise ValueError(
        f"surrogates.{who}: {name} must be a positive number, got {value!r}"
    )


__all__ = [
    "atan",
    "clipped_estimator",
    "fast_sigmoid",
    "identity_estimator",
    "sigmoid",
    "spike_rate_escape",
    "straight_through",
    "triangular",
]
