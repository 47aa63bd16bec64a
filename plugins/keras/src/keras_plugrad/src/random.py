"""Random tensors whose numbers depend only on the seed.

The two numbers that Keras draws for a seed are the key of a call to ``plugrad.random``.
No value is read here, so ``plugrad.jit`` draws again whenever it replays a function.

If the parameters of a distribution are Python numbers, every backend of plugrad returns
the same bits. If some are tensors, the ops of the backend apply them to numbers of the
standard distribution. Beta and binomial numbers, and gamma numbers whose ``alpha`` is a
tensor, are computed by ops as well: each is the first accepted one of a fixed number of
candidates, so that every call runs the same kernels. They have no gradient with respect
to the parameters. Decisions are made in float64, so that backends make the same ones.

Contents: seeds and arguments; normal and uniform; integers, choice and order; gamma and
beta; binomial.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from typing import Any

import plugrad as pg
from plugrad import Tensor, plugin

from .keras_names import SeedGenerator as SeedGenerator
from .keras_names import config, standardize_dtype
from .keras_names import draw_seed as draw_seed
from .keras_names import make_default_seed as make_default_seed
from .ops.core.abstract import BACKEND as SHAPES
from .ops.core.variables import convert_to_tensor

Shape = Sequence[int]

# --- seeds and arguments ---------------------------------------------------------


def _key(seed: Any) -> int | Tensor:
    """Return the bits of the two numbers that Keras draws for a seed, as a key.

    While shapes are inferred, there are no values: any seed will do.
    """
    drawn = draw_seed(seed)
    return 0 if pg.get_backend() == SHAPES else pg.bitcast(drawn, "int32")


def _keys(seed: Any, count: int) -> Sequence[int | Tensor]:
    """Return independent keys for several draws."""
    key = _key(seed)
    if isinstance(key, int):
        return [key] * count
    return pg.unstack(pg.random.split(key, count))


def _floating(dtype: Any) -> str:
    return str(standardize_dtype(dtype or config.floatx()))


def _sizes(shape: Any) -> list[int]:
    """Return a shape as Python integers."""
    return [int(n) for n in ([shape] if isinstance(shape, int) else shape)]


def _are_numbers(*xs: Any) -> bool:
    return all(isinstance(x, numbers.Real) and math.isfinite(x) for x in xs)


def _precise() -> str:
    """Return float64 unless the backend lacks it; then float32."""
    known = plugin.runtime(pg.get_backend()).dtypes
    return "float64" if "float64" in known else "float32"


def _parameter(x: Any, sizes: Shape) -> Tensor:
    """Return a parameter for each element, as a constant of high precision."""
    x = pg.stop_gradient(convert_to_tensor(x, dtype=_precise()))
    return pg.broadcast_to(x, tuple(sizes))


def _first_accepted(accepted: Tensor, candidates: Tensor) -> Tensor:
    """Return the first accepted candidate along axis 0; the first if there is none."""
    at = pg.argmax(pg.astype(accepted, "int32"), axis=0, keepdims=True)
    return pg.squeeze(pg.take_along_axis(candidates, at, axis=0), axis=0)


# --- normal and uniform ----------------------------------------------------------


def normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = None,
    seed: Any = None,
) -> Tensor:
    """Return normally distributed numbers."""
    return _transformed(pg.random.normal, shape, mean, stddev, dtype, seed)


def truncated_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = None,
    seed: Any = None,
) -> Tensor:
    """Return normally distributed numbers within two standard deviations."""
    return _transformed(pg.random.truncated_normal, shape, mean, stddev, dtype, seed)


def _transformed(
    draw: Callable[..., Tensor],
    shape: Any,
    mean: Any,
    stddev: Any,
    dtype: Any,
    seed: Any,
) -> Tensor:
    """Return numbers of a standard distribution, scaled and shifted."""
    dtype = _floating(dtype)
    sizes = _sizes(shape)
    key = _key(seed)
    if _are_numbers(mean, stddev) and stddev >= 0:
        given = {"mean": float(mean), "stddev": float(stddev)}
        return draw(sizes, **given, dtype=dtype, seed=key)
    scale = convert_to_tensor(stddev, dtype=dtype)
    shift = convert_to_tensor(mean, dtype=dtype)
    return shift + scale * draw(sizes, dtype=dtype, seed=key)


def uniform(
    shape: Any,
    minval: Any = 0.0,
    maxval: Any = 1.0,
    dtype: Any = None,
    seed: Any = None,
) -> Tensor:
    """Return uniformly distributed numbers in ``[minval, maxval)``."""
    dtype = _floating(dtype)
    sizes = _sizes(shape)
    key = _key(seed)
    if _are_numbers(minval, maxval) and minval < maxval:
        given = {"minval": float(minval), "maxval": float(maxval)}
        return pg.random.uniform(sizes, **given, dtype=dtype, seed=key)
    low = convert_to_tensor(minval, dtype=dtype)
    high = convert_to_tensor(maxval, dtype=dtype)
    y = low + (high - low) * pg.random.uniform(sizes, dtype=dtype, seed=key)
    last = pg.stop_gradient(pg.nextafter(high, low))  # rounding may reach maxval
    return pg.where((y >= high) & (low < high), last, y)


def dropout(
    inputs: Any, rate: Any, noise_shape: Any = None, seed: Any = None
) -> Tensor:
    """Return ``inputs / (1 - rate)``, with elements set to 0 with probability ``rate``.

    An entry of ``noise_shape`` may be None, for the size of ``inputs``.
    """
    x = convert_to_tensor(inputs)
    key = _key(seed)
    if rate >= 1:
        return pg.zeros_like(x)
    return pg.dropout(x, rate, noise_shape=noise_shape, seed=key)


# --- integers, choice and order --------------------------------------------------


def randint(
    shape: Any, minval: Any, maxval: Any, dtype: Any = "int32", seed: Any = None
) -> Tensor:
    """Return uniformly distributed integers in ``[minval, maxval)``.

    With tensors as bounds, the probabilities of two integers differ by at most 2⁻⁶²
    times the number of integers.
    """
    dtype = str(standardize_dtype(dtype))
    sizes = _sizes(shape)
    key = _key(seed)
    if _are_numbers(minval, maxval) and int(minval) < int(maxval):
        bounds = int(minval), int(maxval)
        return pg.random.uniform_int(sizes, *bounds, dtype=dtype, seed=key)
    low = convert_to_tensor(minval, dtype="int64")
    count = pg.maximum(convert_to_tensor(maxval, dtype="int64") - low, 1)
    bits = pg.random.uniform_int(sizes, 0, 2**62, dtype="int64", seed=key)
    return pg.astype(low + bits % count, dtype)


def categorical(
    logits: Any, num_samples: int, dtype: Any = "int32", seed: Any = None
) -> Tensor:
    """Return classes drawn from each row of ``logits``, ``[batch, num_samples]``."""
    x = convert_to_tensor(logits)
    classes = pg.random.multinomial(x, int(num_samples), seed=_key(seed))
    return pg.astype(classes, standardize_dtype(dtype))


def shuffle(x: Any, axis: int = 0, seed: Any = None) -> Tensor:
    """Return the slices of ``x`` along an axis in random order."""
    return pg.random.shuffle(convert_to_tensor(x), axis=axis, seed=_key(seed))


# --- gamma and beta --------------------------------------------------------------

# Less than 5 % of the candidates are rejected: all are with a probability below 2e-8.
GAMMA_CANDIDATES = 6


def gamma(shape: Any, alpha: Any, dtype: Any = None, seed: Any = None) -> Tensor:
    """Return positive numbers with density ``∝ x^(alpha - 1) · exp(-x)``.

    If ``alpha`` is a tensor, each number is the first accepted one of 6 candidates.
    """
    dtype = _floating(dtype)
    sizes = _sizes(shape)
    if _are_numbers(alpha):
        given = {"dtype": dtype, "seed": _key(seed)}
        return pg.random.gamma(sizes, float(alpha), **given)
    logs = _log_gamma(sizes, _parameter(alpha, sizes), _keys(seed, 3))
    return pg.astype(pg.exp(logs), dtype)


def beta(
    shape: Any, alpha: Any, beta: Any, dtype: Any = None, seed: Any = None
) -> Tensor:
    """Return numbers with density ``∝ x^(alpha - 1) · (1 - x)^(beta - 1)``.

    They are ``a / (a + b)`` for gamma-distributed ``a`` and ``b``, each of which is the
    first accepted one of 6 candidates.
    """
    sizes = _sizes(shape)
    keys = _keys(seed, 6)
    a = _log_gamma(sizes, _parameter(alpha, sizes), keys[:3])
    b = _log_gamma(sizes, _parameter(beta, sizes), keys[3:])
    return pg.astype(pg.sigmoid(a - b), _floating(dtype))


def _log_gamma(sizes: Shape, alpha: Tensor, keys: Sequence[int | Tensor]) -> Tensor:
    """Return logarithms of gamma-distributed numbers, which cannot underflow.

    The method is that of G. Marsaglia and W. W. Tsang, "A Simple Method for Generating
    Gamma Variables", 2000, with a fixed number of candidates.
    """
    dtype = alpha.dtype
    many = (GAMMA_CANDIDATES, *sizes)
    small = alpha < 1
    d = pg.where(small, alpha + 1, alpha) - 1 / 3
    x = pg.random.normal(many, dtype=dtype, seed=keys[0])
    v = 1 + x / pg.sqrt(9 * d)
    positive = v > 0
    v = pg.where(positive, v, 1.0)
    log_v = 3 * pg.log(v)
    limit = 0.5 * x * x + d * (1 - v * v * v + log_v)
    logs_of_uniform = -pg.random.exponential(many, dtype=dtype, seed=keys[1])
    accepted = positive & (logs_of_uniform < limit)
    y = pg.log(d) + _first_accepted(accepted, log_v)
    waits = pg.random.exponential(tuple(sizes), dtype=dtype, seed=keys[2])
    return pg.where(small, y - waits / alpha, y)


# --- binomial --------------------------------------------------------------------

SUMMED_MAX_MEAN = 10  # the mean below which a number is found by summing probabilities
SUMMED_TERMS = (
    48  # a number with a mean below 10 is larger with a probability below 1e-16
)
BINOMIAL_CANDIDATES = 16  # all are rejected with a probability below 1e-8


def binomial(
    shape: Any, counts: Any, probabilities: Any, dtype: Any = None, seed: Any = None
) -> Tensor:
    """Return how many of ``counts`` trials succeed with a given probability.

    If at least 10 successes and 10 failures are expected, the number is the first
    accepted one of 16 candidates. Otherwise it is found by adding up probabilities.
    """
    sizes = _sizes(shape)
    n = pg.floor(_parameter(counts, sizes))
    p = _parameter(probabilities, sizes)
    rare = pg.minimum(p, 1 - p)
    is_few = n * rare < SUMMED_MAX_MEAN
    keys = _keys(seed, 3)
    few = _few_successes(sizes, pg.where(is_few, n, 0.0), rare, keys[0])
    many = _many_successes(
        sizes, pg.where(is_few, 100.0, n), pg.where(is_few, 0.5, rare), keys[1:]
    )
    y = pg.where(is_few, few, many)
    return pg.astype(pg.where(p > 0.5, n - y, y), _floating(dtype))


def _few_successes(sizes: Shape, n: Tensor, p: Tensor, key: int | Tensor) -> Tensor:
    """Return the number of values whose cumulative probability is below a uniform one.

    ``p`` is at most 1/2.
    """
    u = pg.random.uniform(sizes, dtype=n.dtype, seed=key)
    none = pg.exp(n * pg.log1p(-p))
    k = pg.arange(1, SUMMED_TERMS, dtype=n.dtype)
    k = pg.reshape(k, (-1,) + (1,) * len(sizes))
    ratios = pg.maximum(n - k + 1, 0.0) / k * (p / (1 - p))
    first = pg.expand_dims(none, axis=0)
    chances = pg.cumulative_prod(pg.concat([first, ratios]), axis=0)
    is_below = pg.cumulative_sum(chances, axis=0) <= u
    found = pg.sum(pg.astype(is_below, n.dtype), axis=0)
    return pg.minimum(found, n)


def _many_successes(
    sizes: Shape, n: Tensor, p: Tensor, keys: Sequence[int | Tensor]
) -> Tensor:
    """Return binomial numbers; ``p`` is at most 1/2, and ``n p`` at least 10.

    The method is BTRS of W. Hörmann, "The Generation of Binomial Random Variates",
    1993, with a fixed number of candidates and without its squeeze.
    """
    candidates = (BINOMIAL_CANDIDATES, *sizes)
    spread = pg.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    u = pg.random.uniform(candidates, dtype=n.dtype, seed=keys[0]) - 0.5
    logs_of_uniform = -pg.random.exponential(candidates, dtype=n.dtype, seed=keys[1])
    distance = pg.maximum(0.5 - pg.abs(u), 2.0**-54)
    k = pg.floor((2 * a / distance + b) * u + n * p + 0.5)
    inside = (k >= 0) & (k <= n)
    k = pg.clip(k, 0.0, n)
    scale = (2.83 + 5.1 / b) * spread
    hat = pg.log(scale / (a / (distance * distance) + b))
    mode = pg.floor((n + 1) * p)
    limit = _log_chance(k, n, p) - _log_chance(mode, n, p)
    return _first_accepted(inside & (logs_of_uniform + hat <= limit), k)


def _log_chance(k: Tensor, n: Tensor, p: Tensor) -> Tensor:
    """Return the logarithm of the probability of ``k`` successes, plus a constant."""
    odds = pg.log(p) - pg.log1p(-p)
    return k * odds - pg.lgamma(k + 1) - pg.lgamma(n - k + 1)
