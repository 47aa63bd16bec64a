"""The functions that ``tails.py`` measures, with their exact derivatives.

A row contains a plugrad function, its first and second derivative in mpmath, the range
where it is defined, and the same function in PyTorch and JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import plugrad as pg

Exact = Callable[[Any], Any]
INF = float("inf")
ERF_SLOPE = 2 / mp.sqrt(mp.pi)  # the derivative of erf at 0
SELU = mp.mpf("1.0507009873554805")
SELU_ALPHA = mp.mpf("1.6732632423543772")


@dataclass(frozen=True)
class Row:
    """A function with its exact derivatives.

    Attributes:
        op: The plugrad function.
        first: The first derivative, in mpmath.
        second: The second derivative; None where it is 0 or does not exist.
        low: The lower end of the range where the function is defined.
        high: The upper end of this range.
        torch: The same function in PyTorch: an expression of ``torch`` and ``F``.
        jax: The same function in JAX: an expression of ``jnp`` and ``jax``.
        limits: The largest errors allowed for both derivatives, in ulp.
        reason: Why a limit is more than 8 ulp, or the range is smaller.

    """

    op: Callable[[pg.Tensor], pg.Tensor]
    first: Exact
    second: Exact | None
    low: float = -INF
    high: float = INF
    torch: str = ""
    jax: str = ""
    limits: tuple[float, float] = (8, 8)
    reason: str = ""


def sigmoid(x: Any) -> Any:
    """Return 1 / (1 + e^-x)."""
    return 1 / (1 + mp.exp(-x))


def sigmoid_first(x: Any) -> Any:
    """Return the derivative of the sigmoid."""
    return sigmoid(x) * sigmoid(-x)


def sigmoid_second(x: Any) -> Any:
    """Return the second derivative of the sigmoid."""
    return -sigmoid_first(x) * mp.tanh(x / 2)


def clamped_erfc(x: Any) -> Any:
    """Return erfc(x), and its limit where x is too large for mpmath."""
    return mp.erfc(x) if abs(x) < 100 else mp.mpf(0 if x > 0 else 2)


def normal_density(x: Any) -> Any:
    """Return the density of the normal distribution."""
    return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


def mish(x: Any, order: int) -> Any:
    """Return the derivative of the given order of x tanh(log(1 + e^x))."""
    u = mp.exp(x)
    d = u * u + 2 * u + 2
    slope = 4 * u * (1 + u) / d**2
    if order == 1:
        return u * (u + 2) / d + x * slope
    curvature = 4 * u * (2 + 2 * u - 3 * u**2 - 2 * u**3) / d**3
    return 2 * slope + x * curvature


def gelu_tanh(x: Any, order: int) -> Any:
    """Return the derivative of the given order of gelu's tanh form, x sigmoid(u)."""
    c = mp.sqrt(8 / mp.pi)
    k = mp.mpf("0.044715")
    u = c * (x + k * x**3)
    du = c * (1 + 3 * k * x * x)
    ddu = c * 6 * k * x
    if order == 1:
        return sigmoid(u) + x * sigmoid_first(u) * du
    return 2 * sigmoid_first(u) * du + x * (
        sigmoid_second(u) * du**2 + sigmoid_first(u) * ddu
    )


def sign(x: Any) -> Any:
    """Return -1 or 1."""
    return mp.mpf(-1 if x < 0 else 1)


def piecewise(f: Exact, constant: Any) -> Exact:
    """Return a function: ``f`` where x is 0 or negative, a constant elsewhere."""
    return lambda x: f(x) if x <= 0 else mp.mpf(constant)


FUNCTIONS: dict[str, Row] = {
    "sigmoid": Row(
        pg.sigmoid,
        sigmoid_first,
        sigmoid_second,
        torch="F.sigmoid",
        jax="jax.nn.sigmoid",
    ),
    "tanh": Row(
        pg.tanh,
        lambda x: 4 * sigmoid_first(2 * x),
        lambda x: 8 * sigmoid_second(2 * x),
        torch="torch.tanh",
        jax="jnp.tanh",
    ),
    "elu": Row(
        pg.elu,
        piecewise(mp.exp, 1),
        piecewise(mp.exp, 0),
        torch="F.elu",
        jax="jax.nn.elu",
    ),
    "selu": Row(
        pg.selu,
        piecewise(lambda x: SELU * SELU_ALPHA * mp.exp(x), SELU),
        piecewise(lambda x: SELU * SELU_ALPHA * mp.exp(x), 0),
        torch="F.selu",
        jax="jax.nn.selu",
    ),
    "softsign": Row(
        pg.softsign,
        lambda x: (1 + abs(x)) ** -2,
        lambda x: -2 * sign(x) * (1 + abs(x)) ** -3,
        torch="F.softsign",
        jax="jax.nn.soft_sign",
    ),
    "softplus": Row(
        pg.softplus, sigmoid, sigmoid_first, torch="F.softplus", jax="jax.nn.softplus"
    ),
    "log_sigmoid": Row(
        pg.log_sigmoid,
        lambda x: sigmoid(-x),
        lambda x: -sigmoid_first(x),
        torch="F.logsigmoid",
        jax="jax.nn.log_sigmoid",
    ),
    "silu": Row(
        pg.silu,
        lambda x: sigmoid(x) + x * sigmoid_first(x),
        lambda x: 2 * sigmoid_first(x) + x * sigmoid_second(x),
        torch="F.silu",
        jax="jax.nn.silu",
    ),
    "mish": Row(
        pg.mish,
        lambda x: mish(x, 1),
        lambda x: mish(x, 2),
        torch="F.mish",
        jax="jax.nn.mish",
        limits=(8, 16),
        reason="each of twelve operations rounds, and two terms partly cancel",
    ),
    "gelu": Row(
        pg.gelu,
        lambda x: clamped_erfc(-x / mp.sqrt(2)) / 2 + x * normal_density(x),
        lambda x: (2 - x * x) * normal_density(x),
        torch="F.gelu",
        jax="(lambda x: jax.nn.gelu(x, approximate=False))",
    ),
    "gelu(approximate=True)": Row(
        lambda x: pg.gelu(x, approximate=True),
        lambda x: gelu_tanh(x, 1),
        lambda x: gelu_tanh(x, 2),
        torch="(lambda x: F.gelu(x, approximate='tanh'))",
        jax="jax.nn.gelu",
    ),
    "erf": Row(
        pg.erf,
        lambda x: ERF_SLOPE * mp.exp(-x * x),
        lambda x: -2 * x * ERF_SLOPE * mp.exp(-x * x),
        torch="torch.erf",
        jax="jax.scipy.special.erf",
    ),
    "erfc": Row(
        pg.erfc,
        lambda x: -ERF_SLOPE * mp.exp(-x * x),
        lambda x: 2 * x * ERF_SLOPE * mp.exp(-x * x),
        torch="torch.erfc",
        jax="jax.scipy.special.erfc",
    ),
    "exp": Row(pg.exp, mp.exp, mp.exp, torch="torch.exp", jax="jnp.exp"),
    "exp2": Row(
        pg.exp2,
        lambda x: mp.log(2) * mp.mpf(2) ** x,
        lambda x: mp.log(2) ** 2 * mp.mpf(2) ** x,
        torch="torch.exp2",
        jax="jnp.exp2",
        high=1024.05,
        reason="for larger x, the second derivative overflows at an intermediate step",
    ),
    "expm1": Row(pg.expm1, mp.exp, mp.exp, torch="torch.expm1", jax="jnp.expm1"),
    "log": Row(
        pg.log,
        lambda x: 1 / x,
        lambda x: -1 / x**2,
        low=0,
        torch="torch.log",
        jax="jnp.log",
    ),
    "log1p": Row(
        pg.log1p,
        lambda x: 1 / (1 + x),
        lambda x: -1 / (1 + x) ** 2,
        low=-1,
        torch="torch.log1p",
        jax="jnp.log1p",
    ),
    "log2": Row(
        pg.log2,
        lambda x: 1 / (x * mp.log(2)),
        lambda x: -1 / (x**2 * mp.log(2)),
        low=0,
        torch="torch.log2",
        jax="jnp.log2",
    ),
    "log10": Row(
        pg.log10,
        lambda x: 1 / (x * mp.log(10)),
        lambda x: -1 / (x**2 * mp.log(10)),
        low=0,
        torch="torch.log10",
        jax="jnp.log10",
    ),
    "sqrt": Row(
        pg.sqrt,
        lambda x: 1 / (2 * mp.sqrt(x)),
        lambda x: -1 / (4 * mp.sqrt(x) ** 3),
        low=0,
        torch="torch.sqrt",
        jax="jnp.sqrt",
    ),
    "rsqrt": Row(
        pg.rsqrt,
        lambda x: -1 / (2 * mp.sqrt(x) ** 3),
        lambda x: 3 / (4 * mp.sqrt(x) ** 5),
        low=0,
        torch="torch.rsqrt",
        jax="jax.lax.rsqrt",
    ),
    "reciprocal": Row(
        pg.reciprocal,
        lambda x: -1 / x**2,
        lambda x: 2 / x**3,
        torch="torch.reciprocal",
        jax="jnp.reciprocal",
    ),
    "square": Row(
        pg.square,
        lambda x: 2 * x,
        lambda x: mp.mpf(2),
        torch="torch.square",
        jax="jnp.square",
    ),
    "sin": Row(pg.sin, mp.cos, lambda x: -mp.sin(x), torch="torch.sin", jax="jnp.sin"),
    "cos": Row(
        pg.cos,
        lambda x: -mp.sin(x),
        lambda x: -mp.cos(x),
        torch="torch.cos",
        jax="jnp.cos",
    ),
    "tan": Row(
        pg.tan,
        lambda x: 1 + mp.tan(x) ** 2,
        lambda x: 2 * mp.tan(x) * (1 + mp.tan(x) ** 2),
        torch="torch.tan",
        jax="jnp.tan",
    ),
    "asin": Row(
        pg.asin,
        lambda x: 1 / mp.sqrt(1 - x * x),
        lambda x: x / mp.sqrt(1 - x * x) ** 3,
        low=-1,
        high=1,
        torch="torch.asin",
        jax="jnp.arcsin",
    ),
    "acos": Row(
        pg.acos,
        lambda x: -1 / mp.sqrt(1 - x * x),
        lambda x: -x / mp.sqrt(1 - x * x) ** 3,
        low=-1,
        high=1,
        torch="torch.acos",
        jax="jnp.arccos",
    ),
    "atan": Row(
        pg.atan,
        lambda x: 1 / (1 + x * x),
        lambda x: -2 * x / (1 + x * x) ** 2,
        torch="torch.atan",
        jax="jnp.arctan",
    ),
    "sinh": Row(pg.sinh, mp.cosh, mp.sinh, torch="torch.sinh", jax="jnp.sinh"),
    "cosh": Row(pg.cosh, mp.sinh, mp.cosh, torch="torch.cosh", jax="jnp.cosh"),
    "asinh": Row(
        pg.asinh,
        lambda x: 1 / mp.sqrt(1 + x * x),
        lambda x: -x / mp.sqrt(1 + x * x) ** 3,
        torch="torch.asinh",
        jax="jnp.arcsinh",
    ),
    "acosh": Row(
        pg.acosh,
        lambda x: 1 / mp.sqrt(x * x - 1),
        lambda x: -x / mp.sqrt(x * x - 1) ** 3,
        low=1,
        torch="torch.acosh",
        jax="jnp.arccosh",
    ),
    "atanh": Row(
        pg.atanh,
        lambda x: 1 / (1 - x * x),
        lambda x: 2 * x / (1 - x * x) ** 2,
        low=-1,
        high=1,
        torch="torch.atanh",
        jax="jnp.arctanh",
    ),
    "logaddexp(x, 0)": Row(
        lambda x: pg.logaddexp(x, x * 0),
        sigmoid,
        sigmoid_first,
        torch="(lambda x: torch.logaddexp(x, torch.zeros_like(x)))",
        jax="(lambda x: jnp.logaddexp(x, jnp.zeros_like(x)))",
    ),
    "softmax([x, 0])[0]": Row(
        lambda x: pg.softmax(pg.stack([x, x * 0], axis=-1), axis=-1)[..., 0],
        sigmoid_first,
        sigmoid_second,
        torch="(lambda x: F.softmax(torch.stack([x, x * 0], -1), -1)[..., 0])",
        jax="(lambda x: jax.nn.softmax(jnp.stack([x, x * 0], -1), -1)[..., 0])",
        low=0.5,
        reason="near equal logits, two products cancel in the second derivative",
    ),
    "log_softmax([x, 0])[0]": Row(
        lambda x: pg.log_softmax(pg.stack([x, x * 0], axis=-1), axis=-1)[..., 0],
        lambda x: sigmoid(-x),
        lambda x: -sigmoid_first(x),
        torch="(lambda x: F.log_softmax(torch.stack([x, x * 0], -1), -1)[..., 0])",
        jax="(lambda x: jax.nn.log_softmax(jnp.stack([x, x * 0], -1), -1)[..., 0])",
        limits=(400, 400),
        reason="the gradient takes e^y of the rounded output y",
    ),
}
