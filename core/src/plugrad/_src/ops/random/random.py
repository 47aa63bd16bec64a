"""Random tensors, public as ``plugrad.random``.

Kernels: ``Multinomial``.

All numbers are drawn on the host (``_draws``) and uploaded: the same seed gives the
same numbers on every backend and machine, in every version. The numbers of a call with
``seed=`` depend only on the seed. Calls without it continue the sequence of the
process, which starts from a seed from the operating system or, after
``random.seed(n)``, from ``n``; each call in each thread gets different numbers. Two
calls with the same ``seed=`` use the same random bits, even for different
distributions.

Instead of a number, ``seed=`` accepts a key: an int32 tensor of shape (2,) that
``key``, ``split`` or ``fold_in`` returns. Give each worker, layer or step its own key.

The generator is Philox4x64 with 10 rounds: J. Salmon, M. Moraes, R. Dror and D. Shaw,
"Parallel random numbers: as easy as 1, 2, 3", SC 2011. It is not meant for
cryptography.

The dtype is float32 unless another floating dtype is given. Random numbers have no
gradient with respect to the parameters of the distribution;
``mean + stddev * normal(shape)`` has one.

Contents: the seed of the process; keys; uniform; normal; gamma; order and choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Never, Unpack, cast

import numpy as np

from plugrad._src.engine.context import current, notify_outer
from plugrad._src.engine.dispatch import require_dtype, run
from plugrad._src.ops.array import gather
from plugrad._src.ops.basis import (
    _convert,
    compare,
    reduce,
    shape,
    unary,
)
from plugrad._src.ops.basis.creation import Number
from plugrad._src.ops.reduction import extremes
from plugrad._src.registry.contract import Kernel, Spec, decomposition, gradients
from plugrad._src.tensor import arguments
from plugrad._src.tensor.arguments import Ints, misfit
from plugrad._src.tensor.dtypes import (
    FLOAT32,
    INT32,
    LIMITS,
    DType,
    canonical,
    dtype_kind,
)
from plugrad._src.tensor.explained import explained
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import Shape

from . import _draws

__all__ = [
    "bernoulli",
    "choice",
    "exponential",
    "fold_in",
    "gamma",
    "key",
    "multinomial",
    "normal",
    "permutation",
    "seed",
    "shuffle",
    "split",
    "truncated_normal",
    "uniform",
    "uniform_int",
]

Seed = int | Tensor | None  # a number, or a key
NoiseShape = Sequence[int | None] | None
Draw = Callable[..., _draws.Array]


def seed(n: Seed = None, /) -> None:
    """Restart the sequence of random numbers that calls without ``seed=`` use.

    Threads share the sequence of calls: no two calls get the same numbers, but the
    order in which threads draw is not determined.

    Args:
        n: A seed from 0 to 2⁶⁴ - 1, or a key; None requests a random seed from the
            operating system.

    Raises:
        ValueError: ``n`` is out of range.
        TypeError: ``n`` is not an integer.

    Example:
        >>> pg.random.seed(7)
        >>> x = pg.random.uniform((2,))
        >>> pg.random.seed(7)
        >>> bool(pg.all(x == pg.random.uniform((2,))))
        True
        >>> pg.random.seed()  # unpredictable again

    """
    notify_outer("refuse", "random.seed restarts the numbers of the process")
    _draws.reseed(_seed_or_key("seed", n))


def _seed_or_key(op: str, n: Seed) -> int | None:
    """Return a seed, or the 64 bits of a key as an integer; None stays None."""
    if n is None:
        return None
    return (
        _key_bits(op, n)
        if isinstance(n, Tensor) and n.shape
        else _seed_word(op, "seed", n)
    )


def _seed_word(op: str, name: str, given: Any) -> int:
    """Return an integer; raise unless it is from 0 to 2⁶⁴ - 1."""
    number = arguments.integer(op, name, given)
    if not 0 <= number < 2**64:
        raise ValueError(f"{op}: a {name} must be from 0 to below 2**64, got {number}")
    return number


def _as_key(op: str, key: TensorLike) -> Tensor:
    """Return a key as a tensor; raise if it is not a key."""
    x = _convert.asarray(key)
    if x.shape != (2,) or x.dtype != INT32:
        error = ValueError(
            f"{op}: a key must be an int32 tensor of shape (2,), got {x.dtype} of "
            f"shape {x.shape}; make one with random.key(seed), and index a tensor of "
            "several keys, keys[0]"
        )
        raise explained(error, "not-a-random-key")
    return x


def _key_bits(op: str, key: TensorLike) -> int:
    """Return the 64 bits of a key."""
    high, low = _as_key(op, key)._values().view(np.uint32).tolist()
    return int(high << 32 | low)


def _keys(words: _draws.Words, sizes: Shape) -> Tensor:
    """Return 64-bit words as keys, the upper half first."""
    halves = words.astype(">u8").view(">i4").astype(np.int32)
    return _convert.tensor_of(halves.reshape(*sizes, 2), copy=False)


def draw_tensor(op: str, seed: Seed, sizes: Shape, draw: Draw, *attrs: Any) -> Tensor:
    """Return ``draw(stream, count, *attrs)`` as a tensor of shape ``sizes``."""

    def drawn(number: int | None) -> Tensor:
        values = draw(_draws.stream(number), math.prod(sizes), *attrs)
        return _convert.tensor_of(values.reshape(sizes), copy=False)

    return _for_each_example(op, seed, drawn)


def _for_each_example(
    op: str, seed: Seed, drawn: Callable[[int | None], Tensor]
) -> Tensor:
    """Return ``drawn(number)`` for a seed, or for the 64 bits of a key.

    Inside ``vmap``, examples without a seed, and examples with their own keys, get
    their own numbers.
    """
    level = current().level
    if level is None:
        given = seed if isinstance(seed, Tensor) else None

        def draw(key: Tensor | None) -> Tensor:
            return drawn(_seed_or_key(op, seed if key is None else key))

        # jit draws again when it replays the function
        y = notify_outer("draw", draw, given)
        return cast("Tensor", draw(given) if y is None else y)
    key: Any = seed
    mapped = seed is None
    if isinstance(seed, Tensor):
        key, mapped = level.unwrap(seed)
    with level.outside():
        if not mapped:
            y = _for_each_example(op, key, drawn)
        elif level.size:
            keys = [None if key is None else key[i] for i in range(level.size)]
            y = shape.stack([_for_each_example(op, k, drawn) for k in keys])
        else:
            y = shape.stack([_for_each_example(op, 0, drawn)])[:0]
    return cast("Tensor", level.wrap(y, mapped))


def _only_shape(op: str, shape: Ints, more: tuple[Never, ...]) -> Shape:
    """Return the shape; raise for further positional arguments, which are ambiguous."""
    if more:
        listed = ", ".join(map(repr, (shape, *more)))
        raise TypeError(
            f"{op}: pass the shape as one argument and all others by keyword, got "
            f"{op}({listed}); write {op}((2, 3)) for a shape of 2 by 3"
        )
    return arguments.sizes(op, shape)


def _floating(op: str, dtype: Any) -> DType:
    wanted = FLOAT32 if dtype is None else require_dtype(op, canonical(dtype))
    if dtype_kind(wanted) != "f":
        raise TypeError(f"{op}: {wanted} is not floating; use uniform_int or bernoulli")
    return wanted


# --- keys ------------------------------------------------------------------------


def key(seed: int, /) -> Tensor:
    """Return the key of a seed: ``seed=key(n)`` gives the same numbers as ``seed=n``.

    Use a key only once: for one draw, for one ``split``, or for ``fold_in`` with
    different numbers. Numbers that are drawn with a key are independent of the keys
    into which it is split.

    Args:
        seed: An integer from 0 to 2⁶⁴ - 1.

    Returns:
        An int32 tensor of shape (2,): the upper and the lower half of the key.

    Raises:
        ValueError: ``seed`` is out of range.
        TypeError: ``seed`` is not an integer.

    Example:
        >>> pg.random.key(7)
        Tensor([0, 7], dtype=int32, backend='cpu')
        >>> weights, bias = pg.random.split(pg.random.key(7))
        >>> pg.random.normal((2,), seed=weights)
        Tensor([ 1.7449007, -0.8506511], dtype=float32, backend='cpu')

    """
    return _keys(np.array([_seed_word("key", "seed", seed)], np.uint64), ())


def split(key: TensorLike, /, n: Ints = 2, **unknown: Unpack[Nothing]) -> Tensor:
    """Return ``n`` keys derived from a key, for independent random numbers.

    The first keys do not depend on ``n``. Keys have 64 bits; two of them are equal by
    chance with probability 2⁻⁶⁴.

    Args:
        key: A key.
        n: The number of keys, or a shape.

    Returns:
        An int32 tensor of shape (n, 2), or of the given shape followed by 2; it can be
        unpacked into keys.

    Raises:
        ValueError: ``key`` is not a key, or ``n`` is negative.

    Example:
        >>> for key in pg.random.split(pg.random.key(0), 3):
        ...     print(pg.random.uniform((), seed=key).item() < 1)
        True
        True
        True

    """
    if unknown:
        raise unexpected(split, unknown)
    sizes = arguments.sizes("split", n, "n")

    def make_keys(number: int | None) -> Tensor:
        words = _draws.derived(cast("int", number), _draws.SPLIT, math.prod(sizes))
        return _keys(words, sizes)

    return _for_each_example("split", _as_key("split", key), make_keys)


def fold_in(key: TensorLike, n: int, /) -> Tensor:
    """Return a key derived from a key and a number, such as a step number.

    Args:
        key: A key.
        n: An integer from 0 to 2⁶⁴ - 1.

    Returns:
        A key.

    Raises:
        ValueError: ``key`` is not a key, or ``n`` is out of range.
        TypeError: ``n`` is not an integer.

    Example:
        >>> key = pg.random.key(0)
        >>> steps = [pg.random.fold_in(key, step) for step in range(2)]
        >>> bool(pg.all(steps[0] == steps[1]))
        False

    """
    counter = _seed_word("fold_in", "number", n)
    fold = lambda number: _keys(_draws.derived(number, _draws.FOLD_IN, 1, counter), ())
    return _for_each_example("fold_in", _as_key("fold_in", key), fold)


# --- uniform ---------------------------------------------------------------------


def uniform(
    shape: Ints,
    /,
    *more: Never,
    minval: Number = 0.0,
    maxval: Number = 1.0,
    dtype: Any = None,
    seed: Seed = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return uniformly distributed numbers in ``[minval, maxval)``.

    They have 24 random bits, or 53 for float64.

    Args:
        shape: The sizes of the result.
        more: Not accepted; pass the shape as one argument.
        minval: The lower bound, inclusive.
        maxval: The upper bound, exclusive.
        dtype: A real floating dtype; float32 unless given.
        seed: An int or a key that determines the numbers that this call draws.

    Returns:
        A tensor of ``shape`` and ``dtype``.

    Raises:
        ValueError: ``minval`` is not below ``maxval``, or the dtype cannot represent
            them.
        TypeError: The dtype is not a real floating dtype.

    Example:
        >>> pg.random.uniform((3,), seed=1)
        Tensor([0.4585, 0.3036, 0.7295], dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(uniform, unknown)
    sizes = _only_shape("uniform", shape, more)
    wanted = _floating("uniform", dtype)
    a = arguments.finite("uniform", "minval", minval)
    b = arguments.finite("uniform", "maxval", maxval)
    with np.errstate(over="ignore"):
        low, high = map(float, np.asarray((a, b), wanted))
    if not (low < high and math.isfinite(high - low)):
        raise ValueError(
            f"uniform: minval {a} must be less than maxval {b} in {wanted}, and their "
            "difference finite"
        )
    return draw_tensor("uniform", seed, sizes, _draws.uniform, low, high, wanted)


def uniform_int(
    shape: Ints,
    /,
    minval: int,
    maxval: int,
    *,
    dtype: Any = "int32",
    seed: Seed = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return uniformly distributed integers in ``[minval, maxval)``.

    Args:
        shape: The sizes of the result.
        minval: The lower bound, inclusive.
        maxval: The upper bound, exclusive.
        dtype: An integer dtype.
        seed: An int or a key that determines the numbers that this call draws.

    Returns:
        A tensor of ``shape`` and ``dtype``.

    Raises:
        ValueError: ``minval`` is not below ``maxval``.
        OverflowError: The dtype cannot represent all of the integers.
        TypeError: The dtype is not an integer dtype.

    Example:
        >>> pg.random.uniform_int((5,), 0, 10, seed=1)
        Tensor([7, 5, 8, 6, 4], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(uniform_int, unknown)
    op = "uniform_int"
    sizes = arguments.sizes(op, shape)
    wanted = require_dtype(op, canonical(dtype))
    if dtype_kind(wanted) not in "iu":
        raise TypeError(f"{op}: draws integers, not {wanted}; cast with astype")
    low, high = arguments.integers(op, "minval and maxval", (minval, maxval))
    if low >= high:
        raise ValueError(f"{op}: there is no integer from {low} to below {high}")
    least, most = LIMITS[wanted]
    if low < least or high - 1 > most:
        raise OverflowError(f"{op}: {wanted} cannot hold {low} to {high - 1}")
    return draw_tensor(op, seed, sizes, _draws.integers, low, high, wanted)


def bernoulli(
    shape: Ints, /, p: Number = 0.5, *, seed: Seed = None, **unknown: Unpack[Nothing]
) -> Tensor:
    """Return bool values, each True with probability ``p``.

    For a tensor of probabilities, write ``uniform(p.shape) < p``.

    Args:
        shape: The sizes of the result.
        p: The probability, from 0 to 1, rounded to the nearest multiple of 2⁻³².
        seed: An int or a key that determines the numbers that this call draws.

    Returns:
        A bool tensor of ``shape``.

    Raises:
        ValueError: ``p`` is not from 0 to 1.

    Example:
        >>> pg.random.bernoulli((4,), 0.5, seed=1)
        Tensor([ True,  True, False, False], dtype=bool, backend='cpu')

    """
    if unknown:
        raise unexpected(bernoulli, unknown)
    sizes = arguments.sizes("bernoulli", shape)
    chance = arguments.finite("bernoulli", "p", p)
    if not 0 <= chance <= 1:
        raise ValueError(f"bernoulli: p must be from 0 to 1, got {chance}")
    return draw_tensor("bernoulli", seed, sizes, _draws.bernoulli, chance)


# --- normal ----------------------------------------------------------------------


def _transformed(
    draw: Draw, sizes: Shape, mean: Number, stddev: Number, dtype: Any, seed: Seed
) -> Tensor:
    """Draw numbers with ``draw``, then scale them by ``stddev`` and add ``mean``."""
    op = draw.__name__
    wanted = _floating(op, dtype)
    middle = arguments.finite(op, "mean", mean)
    scale = arguments.finite(op, "stddev", stddev)
    if scale < 0:
        raise ValueError(f"{op}: stddev must not be negative, got {scale}")

    def scaled(words: _draws.Words) -> _draws.Floats:
        z = draw(words)
        z *= scale
        z += middle
        return z

    with np.errstate(over="ignore"):
        return draw_tensor(op, seed, sizes, _draws.filled, scaled, wanted)


def normal(
    shape: Ints,
    /,
    *more: Never,
    mean: Number = 0.0,
    stddev: Number = 1.0,
    dtype: Any = None,
    seed: Seed = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return normal numbers, with density ``∝ exp(-((x - mean) / stddev)² / 2)``.

    All are within 8.3 standard deviations of the mean.

    Args:
        shape: The sizes of the result.
        more: Not accepted; pass the shape as one argument.
        mean: The mean of the distribution.
        stddev: The standard deviation, 0 or more.
        dtype: A real floating dtype; float32 unless given.
        seed: An int or a key that determines the numbers that this call draws.

    Returns:
        A tensor of ``shape`` and ``dtype``.

    Raises:
        ValueError: ``stddev`` is negative, or a parameter is not finite.
        TypeError: The dtype is not a real floating dtype.

    Example:
        >>> pg.random.normal((3,), seed=1)
        Tensor([-1.0288, -0.1908,  1.4182], dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(normal, unknown)
    sizes = _only_shape("normal", shape, more)
    return _transformed(_draws.normal, sizes, mean, stddev, dtype, seed)


def truncated_normal(
    shape: Ints,
    /,
    *more: Never,
    mean: Number = 0.0,
    stddev: Number = 1.0,
    dtype: Any = None,
    seed: Seed = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return normal numbers within two standard deviations of the mean.

    Their actual standard deviation is 0.8796 times ``stddev``, which is the standard
    deviation before truncation.

    Args:
        shape: The sizes of the result.
        more: Not accepted; pass the shape as one argument.
        mean: The mean of the distribution.
        stddev: The standard deviation before truncation, 0 or more.
        dtype: A real floating dtype; float32 unless given.
        seed: An int or a key that determines the numbers that this call draws.

    Returns:
        A tensor of ``shape`` and ``dtype``.

    Raises:
        ValueError: ``stddev`` is negative, or a parameter is not finite.
        TypeError: The dtype is not a real floating dtype.

    Example:
        >>> pg.random.truncated_normal((3,), seed=1)
        Tensor([-0.9636, -0.182 ,  1.2973], dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(truncated_normal, unknown)
    sizes = _only_shape("truncated_normal", shape, more)
    return _transformed(_draws.truncated_normal, sizes, mean, stddev, dtype, seed)


# --- gamma -----------------------------------------------------------------------


def exponential(
    shape: Ints,
    /,
    *more: Never,
    rate: Number = 1.0,
    dtype: Any = None,
    seed: Seed = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return positive numbers with density ``rate · exp(-rate · x)``.

    Their mean is ``1 / rate``.

    Args:
        shape: The sizes of the result.
        more: Not accepted; pass the shape as one argument.
        rate: The rate, positive.
        dtype: A real floating dtype; float32 unless given.
        seed: An int or a key that determines the numbers that this call draws.

    Returns:
        A tensor of ``shape`` and ``dtype``.

    Raises:
        ValueError: ``rate`` is not positive and finite.
        TypeError: The dtype is not a real floating dtype.

    Example:
        >>> pg.random.exponential((3,), seed=1)
        Tensor([1.1921, 0.164 , 1.857 ], dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(exponential, unknown)
    scale = 1 / arguments.positive("exponential", "rate", rate)
    sizes = _only_shape("exponential", shape, more)
    return _transformed(_draws.exponential, sizes, 0.0, scale, dtype, seed)


def gamma(
    shape: Ints,
    /,
    alpha: Number,
    beta: Number = 1.0,
    *,
    dtype: Any = None,
    seed: Seed = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return positive numbers with density ``∝ x^(alpha - 1) · exp(-beta · x)``.

    Their mean is ``alpha / beta``. If ``alpha`` is far below 1, most of the numbers are
    so small that they round to 0.

    Args:
        shape: The sizes of the result.
        alpha: The shape parameter, positive.
        beta: The rate, positive.
        dtype: A real floating dtype; float32 unless given.
        seed: An int or a key that determines the numbers that this call draws.

    Returns:
        A tensor of ``shape`` and ``dtype``.

    Raises:
        ValueError: A parameter is not positive and finite.
        TypeError: The dtype is not a real floating dtype.

    Example:
        >>> pg.random.gamma((3,), 2.0, seed=1)
        Tensor([0.6601, 1.4323, 4.2498], dtype=float32, backend='cpu')

    Source:
        G. Marsaglia and W. W. Tsang, "A Simple Method for Generating Gamma Variables",
        2000.

    """
    if unknown:
        raise unexpected(gamma, unknown)
    sizes = arguments.sizes("gamma", shape)
    wanted = _floating("gamma", dtype)
    form = arguments.positive("gamma", "alpha", alpha)
    rate = arguments.positive("gamma", "beta", beta)
    with np.errstate(over="ignore"):
        return draw_tensor("gamma", seed, sizes, _draws.gamma, form, rate, wanted)


# --- order and choice ------------------------------------------------------------


def permutation(n: int, /, *, seed: Seed = None, **unknown: Unpack[Nothing]) -> Tensor:
    """Return 0 to ``n - 1`` in random order, with all orders equally likely.

    Args:
        n: The number of elements, 0 or more.
        seed: An int or a key that determines the order.

    Returns:
        ``[n]``, int32.

    Raises:
        ValueError: ``n`` is negative.

    Example:
        >>> pg.random.permutation(5, seed=1)
        Tensor([3, 2, 0, 1, 4], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(permutation, unknown)
    size = arguments.integer("permutation", "n", n, 0)
    return draw_tensor("permutation", seed, (size,), _draws.order)


def shuffle(
    x: TensorLike, /, *, axis: int = 0, seed: Seed = None, **unknown: Unpack[Nothing]
) -> Tensor:
    """Return the slices of ``x`` along ``axis`` in random order.

    Args:
        x: A tensor of any dtype with at least one axis.
        axis: The axis to shuffle.
        seed: An int or a key that determines the order.

    Returns:
        A tensor of the shape and dtype of ``x``.

    Raises:
        ValueError: ``axis`` is out of range.

    Example:
        >>> pg.random.shuffle([10, 20, 30, 40], seed=1)
        Tensor([40, 30, 10, 20], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(shuffle, unknown)
    x = _convert.asarray(x)
    axis = reduce.one_axis("shuffle", axis, len(x.shape))
    order = draw_tensor("shuffle", seed, (x.shape[axis],), _draws.order)
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
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return slices of ``x`` along ``axis``, chosen at random.

    Args:
        x: The tensor to choose from; an int ``n`` stands for ``arange(n)``.
        shape: The sizes that replace ``axis`` in the result.
        replace: Whether a slice may be chosen several times.
        p: The probability of each slice, or weights proportional to the probabilities;
            by default all slices are equally likely.
        axis: The axis along which to choose.
        seed: An int or a key that determines the choice.

    Returns:
        A tensor of the dtype of ``x``, with ``shape`` in place of ``axis``.

    Raises:
        ValueError: There are too few slices to choose from, or the weights are invalid.
        TypeError: The weights are not numbers.

    Example:
        >>> pg.random.choice([10, 20, 30, 40], (2,), replace=False, seed=1)
        Tensor([40, 30], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(choice, unknown)
    sizes = arguments.sizes("choice", shape)
    replace = arguments.flag("choice", "replace", replace)
    if isinstance(x, int | np.integer):
        n = arguments.integer("choice", "x", x, 0)
    else:
        x = _convert.asarray(x)
        axis = reduce.one_axis("choice", axis, len(x.shape))
        n = x.shape[axis]
    weights = None if p is None else _weights(p, n)
    count = math.prod(sizes)
    available = n if weights is None else np.count_nonzero(weights)
    if (count and not available) if replace else count > available:
        raise ValueError(f"choice: cannot choose {count} of {available} ({replace=})")
    chosen = draw_tensor("choice", seed, sizes, _draws.chosen, n, weights, replace)
    if isinstance(x, int | np.integer):
        return chosen
    return run(gather.GATHER_V2, x, chosen, axis=axis, batch_dims=0)


def _weights(p: TensorLike, n: int) -> _draws.Floats:
    try:
        weights = np.asarray(p, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"choice: p must be numbers, got {type(p).__name__}") from None
    if weights.shape != (n,) or not ((weights >= 0) & (weights < math.inf)).all():
        raise ValueError(
            f"choice: p must be {n} finite, non-negative numbers, got {weights}"
        )
    return weights / (weights.max(initial=0.0) or 1.0)


def _multinomial_spec(logits: Spec, noise: Spec, **_: bool) -> Spec:
    fits = len(noise.shape) == 3 and noise.shape[1:] == logits.shape
    if not fits or not logits.shape[1]:
        rule = "logits [rows, classes] and noise [samples, rows, classes] must fit"
        raise misfit("multinomial", rule, logits, noise)
    return Spec(noise.shape[1::-1], INT32)


MULTINOMIAL = Kernel(
    "Multinomial(logits: float32 | float64, noise: logits; normalized: bool)",
    out=_multinomial_spec,
    op="random.multinomial",
    doc="""``y[i, s]`` is the class with the largest ``logits[i] + noise[s, i]``, or
    ``logits[i] · noise[s, i]`` if ``normalized``; the first of ties.

    If the maximum of a row of logits is finite and ``normalized`` is False, it is
    subtracted from the row first. Each operation is rounded to the dtype
    separately.""",
)
NOISE_PER_RUN = 1 << 20  # the target number of random numbers for each kernel run


def multinomial(
    logits: TensorLike,
    /,
    num_samples: int,
    *,
    normalized: bool = False,
    seed: Seed = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return classes drawn with probability ``softmax(logits)``.

    The class drawn is the one with the largest ``logits + noise``, where the noise has
    the Gumbel distribution. If ``normalized``, it is the one with the largest
    ``probabilities · noise``, where the reciprocals of the noise have the exponential
    distribution. Each operation is rounded separately, so every backend draws the same
    classes.

    Args:
        logits: ``[..., classes]``, real numbers. A class with the logit -inf is never
            drawn, unless all logits in the row are -inf.
        num_samples: The number of classes to draw from each row.
        normalized: Whether ``logits`` are probabilities, or weights proportional to
            them.
        seed: An int or a key that determines the classes that this call draws.

    Returns:
        ``[..., num_samples]``, int32.

    Raises:
        ValueError: There are no classes, or ``num_samples`` is negative.
        TypeError: ``logits`` are complex or strings.

    Example:
        >>> pg.random.multinomial([0.1, 0.2, 0.7], 6, normalized=True, seed=1)
        Tensor([1, 1, 2, 2, 2, 2], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(multinomial, unknown)
    x = reduce.widened(_convert.floating("multinomial", logits, "f"))
    count = arguments.integer("multinomial", "num_samples", num_samples, 0)
    if not x.shape or not x.shape[-1]:
        raise ValueError(f"multinomial: logits of shape {x.shape} have no classes")
    *batch, classes = x.shape
    rows = math.prod(batch)
    table = run(shape.RESHAPE, x, shape=(rows, classes))
    normalized = arguments.flag("multinomial", "normalized", normalized)
    inside = current().level is not None  # vmap
    parts, stream = [], None
    step = max(count, 1) if inside else max(NOISE_PER_RUN // max(rows * classes, 1), 1)
    draw = _draws.inverse_exponential if normalized else _draws.gumbel
    if step < count:  # all parts continue one stream
        notify_outer("refuse", "multinomial draws in several parts")
        stream = _draws.stream(_seed_or_key("multinomial", seed))
    for begin in range(0, max(count, 1), step):
        sizes = (min(step, count - begin), rows, classes)

        def noise(number: int | None, sizes: Shape = sizes) -> Tensor:
            words = stream or _draws.stream(number)
            values = _draws.filled(words, math.prod(sizes), draw, x.dtype)
            return _convert.tensor_of(values.reshape(sizes), copy=False)

        noisy = _for_each_example("multinomial", seed, noise)
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
    return run(shape.TRANSPOSE, run(extremes.ARG_MAX, score, axis=2), axes=(1, 0))


gradients(MULTINOMIAL, logits=None, noise=None)
