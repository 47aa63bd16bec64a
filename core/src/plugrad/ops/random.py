"""Random tensors, public as ``plugrad.random``, and ``dropout``.

Kernels: ``Multinomial``.

All are drawn on the host (``_draws``) and uploaded: the same seed gives the same
numbers on every backend and machine, for ever. ``seed=`` gives a call its own numbers;
calls without one go on from ``random.seed(n)``, or from where the operating system
lets the process begin, each with numbers of its own in every thread. Two calls with the
same ``seed=`` use the same random bits, whatever they make of them.

dtypes are float32 unless another floating one is given. Nothing drawn has a gradient in
its parameters; ``mean + stddev * normal(shape)`` has.

Map: the process's seed; uniform; normal; gamma; order and choice; dropout.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from plugrad.engine.dispatch import run
from plugrad.geometry import Shape, broadcast
from plugrad.registry.contract import Kernel, Spec, decomposition, gradients
from plugrad.tensor import arguments
from plugrad.tensor.arguments import Ints, misfit
from plugrad.tensor.dtypes import FLOAT32, INT32, LIMITS, DType, canonical
from plugrad.tensor.tensor import Tensor, TensorLike

from . import _convert, _draws, compare, creation, gather, reduce, shape, unary
from .creation import Number

__all__ = [
    "bernoulli",
    "choice",
    "exponential",
    "gamma",
    "multinomial",
    "normal",
    "permutation",
    "seed",
    "shuffle",
    "truncated_normal",
    "uniform",
    "uniform_int",
]

Seed = int | None
NoiseShape = Sequence[int | None] | None
Draw = Callable[..., _draws.Array]


def seed(n: Seed = None, /) -> None:
    """Begin the numbers of this process anew: calls without ``seed=`` repeat.

    None begins where the operating system says. Threads share the sequence of calls:
    none gets another's numbers, but who comes first is not determined.
    """
    _draws.reseed(_checked("seed", n))


def _checked(op: str, n: Seed) -> Seed:
    number = None if n is None else arguments.integer(op, "seed", n)
    if number is not None and not 0 <= number < 2**64:
        raise ValueError(f"{op}: a seed is from 0 to below 2**64, got {number}")
    return number


def _drawn(op: str, seed: Seed, sizes: Shape, draw: Draw, *attrs: Any) -> Tensor:
    """Return ``draw(stream, count, *attrs)`` in the shape ``sizes``."""
    stream = _draws.stream(_checked(op, seed))
    values = draw(stream, math.prod(sizes), *attrs)
    return _convert.asarray(values.reshape(sizes), copy=False)


def _floating(op: str, dtype: Any) -> DType:
    wanted = FLOAT32 if dtype is None else creation._held(op, canonical(dtype))
    if wanted.kind != "f":
        raise TypeError(f"{op}: {wanted} is not floating; use uniform_int or bernoulli")
    return wanted


def _finite(op: str, name: str, value: Number, *, positive: bool = False) -> float:
    """Return a parameter as a finite float."""
    number = float(arguments.real(op, name, value))
    if not math.isfinite(number) or (positive and number <= 0):
        rule = "positive and finite" if positive else "finite"
        raise ValueError(f"{op}: {name} must be {rule}, got {number}")
    return number


# --- uniform ---------------------------------------------------------------------


def uniform(
    shape: Ints,
    /,
    *,
    minval: Number = 0.0,
    maxval: Number = 1.0,
    dtype: Any = None,
    seed: Seed = None,
) -> Tensor:
    """Return numbers from ``minval`` to below ``maxval``, all equally likely.

    They have 24 random bits, 53 in float64.

    Raises:
        ValueError: There is nothing between, or the dtype cannot hold the ends.

    """
    sizes, wanted = arguments.sizes("uniform", shape), _floating("uniform", dtype)
    a, b = _finite("uniform", "minval", minval), _finite("uniform", "maxval", maxval)
    with np.errstate(over="ignore"):
        low, high = map(float, np.asarray((a, b), wanted))
    if not (low < high and math.isfinite(high - low)):
        raise ValueError(f"uniform: minval {a} to maxval {b} is no range of {wanted}")
    return _drawn("uniform", seed, sizes, _draws.uniform, low, high, wanted)


def uniform_int(
    shape: Ints, /, minval: int, maxval: int, *, dtype: Any = "int32", seed: Seed = None
) -> Tensor:
    """Return integers from ``minval`` to below ``maxval``, all equally likely.

    Raises:
        ValueError: There is none.
        OverflowError: The dtype, one of integers, does not hold all of them.

    """
    op = "uniform_int"
    sizes, wanted = arguments.sizes(op, shape), creation._held(op, canonical(dtype))
    if wanted.kind not in "iu":
        raise TypeError(f"{op}: draws integers, not {wanted}; cast with astype")
    low, high = arguments.integers(op, "minval and maxval", (minval, maxval))
    if low >= high:
        raise ValueError(f"{op}: there is no integer from {low} to below {high}")
    least, most = LIMITS[wanted]
    if low < least or high - 1 > most:
        raise OverflowError(f"{op}: {wanted} does not hold {low} to {high - 1}")
    return _drawn(op, seed, sizes, _draws.integers, low, high, wanted)


def bernoulli(shape: Ints, /, p: Number = 0.5, *, seed: Seed = None) -> Tensor:
    """Return bool, True with probability ``p`` (of many: ``uniform(p.shape) < p``).

    Raises:
        ValueError: ``p``, of which 32 bits count, is not from 0 to 1.

    """
    sizes, chance = arguments.sizes("bernoulli", shape), _finite("bernoulli", "p", p)
    if not 0 <= chance <= 1:
        raise ValueError(f"bernoulli: p must be from 0 to 1, got {chance}")
    return _drawn("bernoulli", seed, sizes, _draws.true, chance)


# --- normal ----------------------------------------------------------------------


def _transformed(
    draw: Draw, shape: Ints, mean: Number, stddev: Number, dtype: Any, seed: Seed
) -> Tensor:
    """Draw numbers that are known for mean 0 and standard deviation 1."""
    op = draw.__name__
    sizes, wanted = arguments.sizes(op, shape), _floating(op, dtype)
    middle, scale = _finite(op, "mean", mean), _finite(op, "stddev", stddev)
    if scale < 0:
        raise ValueError(f"{op}: stddev must not be negative, got {scale}")

    def scaled(words: _draws.Words) -> _draws.Floats:
        z = draw(words)
        z *= scale
        z += middle
        return z

    with np.errstate(over="ignore"):
        return _drawn(op, seed, sizes, _draws.filled, scaled, wanted)


def normal(
    shape: Ints,
    /,
    *,
    mean: Number = 0.0,
    stddev: Number = 1.0,
    dtype: Any = None,
    seed: Seed = None,
) -> Tensor:
    """Return normal numbers of this mean and this standard deviation.

    Their density is in proportion to ``exp(-((x - mean) / stddev)² / 2)``. None is
    further than 8.3 standard deviations from the mean. ``stddev`` may be 0.
    """
    return _transformed(_draws.normal, shape, mean, stddev, dtype, seed)


def truncated_normal(
    shape: Ints,
    /,
    *,
    mean: Number = 0.0,
    stddev: Number = 1.0,
    dtype: Any = None,
    seed: Seed = None,
) -> Tensor:
    """Return normal numbers of those within two standard deviations of the mean.

    ``stddev`` is that before truncation; the numbers have 0.8796 times as much.
    """
    return _transformed(_draws.truncated_normal, shape, mean, stddev, dtype, seed)


# --- gamma -----------------------------------------------------------------------


def exponential(
    shape: Ints, /, *, rate: Number = 1.0, dtype: Any = None, seed: Seed = None
) -> Tensor:
    """Return positive numbers with density ``rate · exp(-rate · x)``: mean 1 / rate."""
    scale = 1 / _finite("exponential", "rate", rate, positive=True)
    return _transformed(_draws.exponential, shape, 0.0, scale, dtype, seed)


def gamma(
    shape: Ints,
    /,
    alpha: Number,
    beta: Number = 1.0,
    *,
    dtype: Any = None,
    seed: Seed = None,
) -> Tensor:
    """Return positive numbers, density in proportion to ``x^(alpha-1) · exp(-beta x)``.

    Their mean is ``alpha / beta``: ``beta`` is a rate. For ``alpha`` far below 1 most
    are so small that they are 0.
    """
    sizes, wanted = arguments.sizes("gamma", shape), _floating("gamma", dtype)
    form = _finite("gamma", "alpha", alpha, positive=True)
    rate = _finite("gamma", "beta", beta, positive=True)
    with np.errstate(over="ignore"):
        return _drawn("gamma", seed, sizes, _draws.gamma, form, rate, wanted)


# --- order and choice ------------------------------------------------------------


def permutation(n: int, /, *, seed: Seed = None) -> Tensor:
    """Return 0 to ``n - 1`` in random order, int32; all orders are equally likely."""
    size = arguments.integer("permutation", "n", n, 0)
    return _drawn("permutation", seed, (size,), _draws.order)


def shuffle(x: TensorLike, /, *, axis: int = 0, seed: Seed = None) -> Tensor:
    """Return the slices of ``x`` along ``axis`` in random order."""
    x = _convert.asarray(x)
    axis = reduce.one_axis("shuffle", axis, len(x.shape))
    order = _drawn("shuffle", seed, (x.shape[axis],), _draws.order)
    return run(gather.GATHER_V2, x, order, axis=axis, batch_dims=0)


def choice(
    x: TensorLike,
    /,
    shape: Ints = (),
    *,
    replace: bool = True,
    p: TensorLike | None = None,
    axis: int = 0,
    seed: Seed = None,
) -> Tensor:
    """Return slices of ``x`` along ``axis``, chosen at random.

    Args:
        x: What to choose from; an int ``n`` stands for the int32 from 0 to ``n - 1``.
        shape: How many; it takes the place of ``axis``.
        replace: Whether one may be chosen again.
        p: How likely each is, or weights in proportion; by default all alike.
        axis: Along which to choose.
        seed: Of this call.

    Raises:
        ValueError: There are fewer than are wanted, or the weights do not fit.

    """
    sizes = arguments.sizes("choice", shape)
    replace = arguments.flag("choice", "replace", replace)
    if isinstance(x, int | np.integer):
        n = arguments.integer("choice", "x", x, 0)
    else:
        x = _convert.asarray(x)
        axis = reduce.one_axis("choice", axis, len(x.shape))
        n = x.shape[axis]
    weights = None if p is None else _weights(p, n)
    count, there = math.prod(sizes), n if weights is None else np.count_nonzero(weights)
    if (count and not there) if replace else count > there:
        raise ValueError(f"choice: cannot choose {count} of {there} ({replace=})")
    places = _drawn("choice", seed, sizes, _draws.chosen, n, weights, replace)
    if isinstance(x, int | np.integer):
        return places
    return run(gather.GATHER_V2, x, places, axis=axis, batch_dims=0)


def _weights(p: TensorLike, n: int) -> _draws.Floats:
    try:
        weights = np.asarray(p, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"choice: p must be numbers, got {type(p).__name__}") from None
    if weights.shape != (n,) or not ((weights >= 0) & (weights < math.inf)).all():
        raise ValueError(
            f"choice: p must be {n} finite numbers that are not negative, got {weights}"
        )
    return weights / (weights.max(initial=0.0) or 1.0)


def _drawn_from(logits: Spec, noise: Spec, **_: bool) -> Spec:
    fits = len(noise.shape) == 3 and noise.shape[1:] == logits.shape
    if not fits or not logits.shape[1]:
        rule = "logits [rows, classes] and noise [samples, rows, classes] must fit"
        raise misfit("multinomial", rule, logits, noise)
    return Spec(noise.shape[1::-1], INT32)


MULTINOMIAL = Kernel(
    "Multinomial(logits: float32 | float64, noise: logits; normalized: bool)",
    out=_drawn_from,
    op="random.multinomial",
    doc="""``y[i, s]``, the class of the largest ``logits[i] + noise[s, i]``, or
    ``logits[i] · noise[s, i]`` if ``normalized``; the first of ties.

    Where the maximum of a row of logits is finite it is subtracted from them first.
    Each operation is rounded to the dtype by itself.""",
)
NOISE = 1 << 20  # numbers to a run


def multinomial(
    logits: TensorLike,
    /,
    num_samples: int,
    *,
    normalized: bool = False,
    seed: Seed = None,
) -> Tensor:
    """Return classes, int32, drawn with probability ``softmax(logits)``.

    The largest of ``logits + noise`` wins, where the noise has Gumbel's distribution,
    or of ``probabilities · noise``, where its inverse has the exponential one. Sums and
    products are rounded in one way alone: every backend draws the same.

    Args:
        logits: ``[..., classes]``; -inf is never drawn but in a row of nothing else.
        num_samples: How many to draw from each row.
        normalized: Whether ``logits`` are probabilities, or weights in proportion.
        seed: Of this call.

    Returns:
        ``[..., num_samples]``.

    """
    x = reduce.widened(_convert.floating("multinomial", logits, "f"))
    count = arguments.integer("multinomial", "num_samples", num_samples, 0)
    if not x.shape or not x.shape[-1]:
        raise ValueError(f"multinomial: logits of shape {x.shape} hold no classes")
    *batch, classes = x.shape
    rows = math.prod(batch)
    table = run(shape.RESHAPE, x, shape=(rows, classes))
    normalized = arguments.flag("multinomial", "normalized", normalized)
    stream, parts = _draws.stream(_checked("multinomial", seed)), []
    step = max(NOISE // max(rows * classes, 1), 1)
    draw = _draws.race if normalized else _draws.gumbel
    for at in range(0, max(count, 1), step):
        sizes = (min(step, count - at), rows, classes)
        noise = _draws.filled(stream, math.prod(sizes), draw, x.dtype)
        noisy = _convert.asarray(noise.reshape(sizes), copy=False)
        parts.append(run(MULTINOMIAL, table, noisy, normalized=normalized))
    y = run(shape.CONCAT, *parts, axis=1) if len(parts) > 1 else parts[0]
    return run(shape.RESHAPE, y, shape=(*batch, count))


@decomposition(MULTINOMIAL)  # logits [rows, classes], noise [samples, rows, classes]
def _(logits: Tensor, noise: Tensor, *, normalized: bool) -> Tensor:
    if normalized:
        score = logits * noise
    else:
        top = reduce.max(logits, axis=1, keepdims=True)
        score = compare.where(unary.isfinite(top), logits - top, logits) + noise
    return run(shape.TRANSPOSE, run(reduce.ARG_MAX, score, axis=2), axes=(1, 0))


gradients(MULTINOMIAL, logits=None, noise=None)


# --- dropout ---------------------------------------------------------------------


def dropout(
    x: TensorLike, /, rate: Number, *, noise_shape: NoiseShape = None, seed: Seed = None
) -> Tensor:
    """Return ``x / (1 - rate)``, with each element 0 with probability ``rate``.

    So the mean stays. Elements that share a place of ``noise_shape`` are dropped
    together: it broadcasts to the shape of ``x``, and None stands for the size there.

    Raises:
        ValueError: ``rate`` is not from 0 to below 1, or ``noise_shape`` does not fit.

    """
    x = _convert.floating("dropout", x)
    chance = _finite("dropout", "rate", rate)
    if not 0 <= chance < 1:
        raise ValueError(f"dropout: rate must be from 0 to below 1, got {chance}")
    sizes = x.shape
    if noise_shape is not None:
        told = arguments.entries(noise_shape)
        told = [noise_shape] if told is None else told
        lead = len(x.shape) - len(told)
        axes = enumerate(told, lead)
        given = [x.shape[i] if n is None and lead >= 0 else n for i, n in axes]
        sizes = arguments.sizes("dropout", given, "noise_shape")
        if broadcast("dropout", x.shape, sizes) != x.shape:
            raise misfit("dropout", f"noise_shape must broadcast to {x.shape}", sizes)
    if not chance:
        return creation.identity(x)
    kept = _drawn("dropout", seed, sizes, _draws.true, 1 - chance)
    return compare.where(kept, x * (1 / (1 - chance)), 0.0)
