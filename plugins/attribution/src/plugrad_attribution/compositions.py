"""Patterns for norms, activations and attention that models compose from kernels.

``rms_norm(x)`` and ``x * rsqrt(mean(x * x) + epsilon)`` are the same function, and both
must get the same relevance. A pattern finds the kernels of the second form in a model.
The patterns are small, so that a few of them cover many ways to write a function:
GELU is a product of ``x`` and ``1 + erf(x / √2)``; each factor gets half, and the half
of the second factor then passes to ``x``.

Contents: norms; activations; softmax; attention with constant weights; constant gates.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import plugrad as pg
from plugrad import plugin
from plugrad.plugin import Tensor

from .kernels import identity_rule
from .layers import Table

Function = Callable[[Tensor], Tensor]

# --- norms -----------------------------------------------------------------------

# Functions that compute 1 / √z. Each key names the pattern of a product with the
# function.
INVERSE_ROOTS: dict[str, Function] = {
    "norm_by_rsqrt": lambda z: pg.rsqrt(z),
    "norm_by_division": lambda z: 1.0 / pg.sqrt(z),
    "norm_by_reciprocal": lambda z: pg.reciprocal(pg.sqrt(z)),
    "norm_by_power": lambda z: z**-0.5,
}


def is_statistic(x: Tensor, z: Tensor) -> bool:
    """Return whether ``z`` broadcasts to ``x``, as a mean over axes of ``x`` does."""
    if z.ndim > x.ndim:
        return False
    pairs = zip(reversed(x.shape), reversed(z.shape), strict=False)
    return all(size in (1, whole) for whole, size in pairs)


@functools.cache
def norms() -> Table:
    """Return the rule of ``x · 1/√z``: as in ``x / √z``, the root gets no relevance."""
    found: Table = {}
    for name, inverse_root in INVERSE_ROOTS.items():
        product = lambda x, z, f=inverse_root: x * f(z)
        pattern = plugin.Pattern(
            product, ((2, 3), (2, 1)), name=f"attribution.{name}", fits=is_statistic
        )
        found[pattern] = {"x": lambda dy, z: dy * pg.rsqrt(z), "z": None}
    return found


# --- activations -----------------------------------------------------------------

CUBE = 0.044715  # the coefficient in the tanh form of GELU, x · (1 + CUBE · x²)
# Sums of a function and a constant, by pattern name: factors of GELU, and the divisor
# of a sigmoid.
SHIFTED: dict[str, Function] = {
    "one_plus_erf": lambda x: 1.0 + pg.erf(x),
    "one_plus_tanh": lambda x: 1.0 + pg.tanh(x),
    "one_plus_exp": lambda x: 1.0 + pg.exp(x),
    "half_plus_half_erf": lambda x: 0.5 + 0.5 * pg.erf(x),
    "half_plus_half_tanh": lambda x: 0.5 + 0.5 * pg.tanh(x),
    "one_plus_product": lambda x: 1.0 + CUBE * x * x,
    "one_plus_square": lambda x: 1.0 + CUBE * pg.square(x),
    "one_plus_power": lambda x: 1.0 + CUBE * x**2,
    "one_plus_scaled": lambda x: 1.0 + CUBE * (x * x),
}


@functools.cache
def activations() -> Table:
    """Return the identity rule for sums of a function and a constant in activations.

    Without it the constant would take a share, as a bias does.
    """
    return {
        plugin.Pattern(f, ((2, 3),), name=f"attribution.{name}"): {"x": identity_rule}
        for name, f in SHIFTED.items()
    }


# --- softmax ---------------------------------------------------------------------


def _written_softmax(x: Tensor) -> Tensor:
    powers = pg.exp(x)
    return powers / pg.sum(powers, axis=-1, keepdims=True)


@functools.cache
def softmaxes() -> Table:
    """Return the rule for a softmax composed of ``exp`` and ``sum``: its gradient."""
    name = "attribution.softmax"
    pattern = plugin.Pattern(_written_softmax, ((2, 3),), name=name)

    def gradient(dy: Tensor, y: Tensor, axis: Any) -> Tensor:
        part = dy * y
        return part - y * pg.sum(part, axis=axis, keepdims=True)

    return {pattern: {"x": gradient}}


def logsumexp() -> Table:
    """Return the rule of ``logsumexp``: its gradient, as for softmax.

    The op is defined with ``custom_grad``, so without a rule a ledger would not see it.
    """
    return {pg.logsumexp: {"x": lambda dy, original: original(dy)}}


# --- attention -------------------------------------------------------------------


def _expanded(a: Tensor, v: Tensor) -> Tensor:
    return pg.expand_dims(a, -1) * v


def _reshaped(a: Tensor, v: Tensor) -> Tensor:
    return pg.reshape(a, (2, 3, 1)) * v


def _transposed(a: Tensor, v: Tensor) -> Tensor:
    return pg.permute_dims(a, (1, 0)) * v


# Products of softmax weights ``a`` and values ``v``; models sum these products
# afterwards. Each row: the product, and the shape of ``v`` in the example for the
# pattern.
WEIGHTED: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], tuple[int, ...]]] = {
    "weighted": (lambda a, v: a * v, (2, 3)),
    "weighted_expanded": (_expanded, (2, 3, 4)),
    "weighted_reshaped": (_reshaped, (2, 3, 4)),
    "weighted_transposed": (_transposed, (3, 2)),
}


@functools.cache
def constant_attention() -> Table:
    """Return the rules of attention whose weights are constants.

    A softmax passes nothing on. In a product with it, the other factor gets all of the
    relevance.
    """
    found: Table = {"Softmax": {"logits": None}}
    found |= {pattern: {"x": None} for pattern in softmaxes()}
    for name, (weighted, shape) in WEIGHTED.items():
        for softmax in (pg.softmax, _written_softmax):
            product = lambda s, v, f=weighted, g=softmax: f(g(s), v)
            pattern = plugin.Pattern(
                product, ((2, 3), shape), name=f"attribution.{name}"
            )
            found[pattern] = {"s": None}
    return found


# --- gates -----------------------------------------------------------------------

# Functions with values between 0 and 1 that multiply a signal, by pattern name.
GATE_FUNCTIONS: dict[str, Function] = {
    "gate": lambda a: pg.sigmoid(a),
    "gate_complement": lambda a: 1.0 - pg.sigmoid(a),
    "gate_by_division": lambda a: 1.0 / (1.0 + pg.exp(-a)),
    "gate_complement_by_division": lambda a: 1.0 - 1.0 / (1.0 + pg.exp(-a)),
}


@functools.cache
def constant_gates() -> Table:
    """Return the rule of a sigmoid that multiplies a signal: it gets nothing.

    If the other factor does not depend on the input, the sigmoid is no gate: it has the
    identity rule. The product of a tensor and its own sigmoid gets what the identity
    rule gives it.
    """
    found: Table = {}
    for name, function in GATE_FUNCTIONS.items():
        product = lambda a, b, f=function: f(a) * b
        pattern = plugin.Pattern(product, ((2, 3), (2, 3)), name=f"attribution.{name}")
        found[pattern] = {"a": _gate_rule(function)}
    return found


def _gate_rule(function: Function) -> Callable[..., Tensor]:
    """Return the rule of ``a`` in ``function(a) * b``."""

    def rule(
        dy: Tensor,
        a: Tensor,
        b: Tensor,
        b_tracked: bool,
        original: Callable[[Tensor], Tensor],
    ) -> Tensor:
        if b_tracked:
            return pg.zeros_like(a)
        values = function(a)
        _, pull_back = pg.vjp(lambda factor: factor * b, values)
        (cotangent,) = pull_back(dy)
        plain = lambda _: original(dy)
        return identity_rule(cotangent, a, values, plain)

    return rule
