"""Random numbers on the host, the same in every version; no tensors here.

The numbers are computed from 64-bit random words of NumPy's Philox generator, whose
stream NumPy promises never to change. Words are transformed only by operations whose
rounding IEEE 754 defines: + - · / √ and changes of the exponent. Therefore every
processor and every NumPy version gives the same bits, which is not true of ``np.log``
and ``np.exp``.

All transforms consume one word for each number, except ``gamma``, which rejects some
words, and transforms that use 32 bits for each number. Changing a transform, or the
order of the words, would break the promise.

Contents: streams; words to uniform numbers; logarithm and exponential; the normal
quantile; distributions; order and choice.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from math import factorial, sqrt
from typing import Any, TypeAlias

import numpy as np

Words = np.ndarray[Any, np.dtype[np.uint64]]
Floats = np.ndarray[Any, np.dtype[np.floating[Any]]]
Array = np.ndarray[Any, Any]
Transform = Callable[[Words], Floats]
# A string: importing numpy.random takes 10 ms, so it is deferred to the first draw.
Stream: TypeAlias = "np.random.Philox"

# How many numbers are drawn at a time: even, and small enough for the cache.
CHUNK_NUMBERS = 1 << 14


# --- streams ---------------------------------------------------------------------


class Streams:
    """The streams of a process: one key, and a counter that numbers the calls.

    Each call has its own stream. Threads share only the counter, and ``next`` of an
    ``itertools.count`` is atomic.
    """

    def __init__(self, key: int | None) -> None:
        self.key_is_random = key is None
        self.key = int.from_bytes(os.urandom(8)) if key is None else key
        self.calls = itertools.count()

    def next(self) -> Stream:
        """Return the stream of the next call, which no call with a seed shares."""
        counter = next(self.calls) << 192
        return np.random.Philox(key=self.key + (1 << 64), counter=counter)


process = Streams(None)


def reseed(key: int | None) -> None:
    """Restart with a key; None stands for a random key from the operating system."""
    global process
    process = Streams(key)


def _forked() -> None:
    if process.key_is_random:
        reseed(None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def stream(seed: int | None) -> Stream:
    """Return the stream of a seed, or the next one of the process."""
    return process.next() if seed is None else np.random.Philox(key=seed)


# Words that become keys come from separate streams, from which no call draws numbers:
# the upper half of Philox's key is 2 or 3. It is 1 for the streams of the process.
SPLIT, FOLD_IN = 2, 3


def derived(key: int, use: int, count: int, counter: int = 0) -> Words:
    """Return keys derived from a key, for ``SPLIT`` or ``FOLD_IN``."""
    return np.random.Philox(key=key + (use << 64), counter=counter).random_raw(count)


# --- words to uniform numbers ----------------------------------------------------


def half_open(words: Words) -> Floats:
    """Return multiples of 2^-53 in the half-open interval [0, 1)."""
    return (words >> 11) * 2.0**-53


def open_interval(words: Words) -> Floats:
    """Return odd multiples of 2^-53 in the open interval (0, 1)."""
    return ((words >> 12) + 0.5) * 2.0**-52


def bits(stream: Stream, count: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Return 32-bit random numbers, two from each word."""
    words = stream.random_raw((count + 1) // 2)
    return words.astype("<u8", copy=False).view("<u4")[:count]


def uniform_below(stream: Stream, count: int, n: int) -> Words:
    """Return uniformly distributed integers in [0, n), where ``n`` is at most 2^64.

    Words beyond the last multiple of ``n`` are drawn again.
    """
    words = stream.random_raw(count)
    last = np.uint64(2**64 - 2**64 % n - 1)
    while (over := np.flatnonzero(words > last)).size:
        words[over] = stream.random_raw(over.size)
    return words % np.uint64(n) if n < 2**64 else words


def integers(stream: Stream, count: int, low: int, high: int, dtype: Any) -> Array:
    """Return uniformly distributed integers in [low, high)."""
    return (uniform_below(stream, count, high - low) + np.uint64(low % 2**64)).astype(
        dtype
    )


def uniform(stream: Stream, count: int, low: float, high: float, dtype: Any) -> Array:
    """Return uniform numbers in [low, high): 24 random bits, or 53 for float64."""
    y = np.empty(count, dtype)
    for begin in range(0, count, CHUNK_NUMBERS):
        some = y[begin : begin + CHUNK_NUMBERS]
        if dtype == np.float64:
            u = half_open(stream.random_raw(some.size))
        else:
            u = (bits(stream, some.size) >> 8) * 2.0**-24
        some[:] = low + (high - low) * u
    return np.minimum(y, np.nextafter(np.asarray(high, dtype), -np.inf), out=y)


def bernoulli(
    stream: Stream, count: int, p: float
) -> np.ndarray[Any, np.dtype[np.bool]]:
    """Return True with probability ``p``, rounded to a multiple of 2^-32."""
    return bits(stream, count) < np.float64(round(p * 2**32))


# --- logarithm and exponential ---------------------------------------------------

LN2 = float.fromhex("0x1.62e42feep-1")  # few bits, so that its multiples are exact
LN2_REST = 1.9082149292705877e-10
ARTANH = [2 / n for n in range(1, 24, 2)]
EXP = [1 / factorial(n) for n in range(14)]


def _polynomial(coefficients: list[float], x: Floats) -> Floats:
    """Return ``c0 + c1 x + c2 x² + …``."""
    *rest, top = coefficients
    y = np.full_like(x, top)
    for c in reversed(rest):
        y *= x
        y += c
    return y


def log(x: Floats) -> Floats:
    """Return the logarithm, ``2 artanh((m - 1) / (m + 1)) + k ln 2``.

    ``x = m 2^k`` is positive and not subnormal; ``m`` is within a factor of √2 of 1.
    """
    m, k = np.frexp(x)
    small = m < sqrt(0.5)
    m += m * small
    k -= small
    m = (m - 1) / (m + 1)
    y = _polynomial(ARTANH, m * m)
    y *= m
    y += k * LN2_REST
    y += k * LN2
    return y


def exp(x: Floats) -> Floats:
    """Return the exponential of non-positive numbers."""
    x = np.maximum(x, -1000.0)
    k = np.rint(x / (LN2 + LN2_REST))
    return np.ldexp(_polynomial(EXP, (x - k * LN2) - k * LN2_REST), k.astype(np.int32))


# --- the normal quantile ---------------------------------------------------------

# M. J. Wichura, Algorithm AS 241: The Percentage Points of the Normal Distribution,
# Applied Statistics 37 (1988): the coefficients of the numerators and denominators for
# the middle of the distribution, the near tail and the far tail.
AS241 = """
    3.3871328727963665 133.14166789178438 1971.5909503065513 13731.69376550946
    45921.95393154987 67265.7709270087 33430.57558358813 2509.0809287301227 1.0
    42.31333070160091 687.1870074920579 5394.196021424751 21213.794301586597
    39307.89580009271 28729.085735721943 5226.495278852854 1.4234371107496835
    4.630337846156546 5.769497221460691 3.6478483247632045 1.2704582524523684
    0.2417807251774506 0.022723844989269184 0.0007745450142783414 1.0 2.053191626637759
    1.6763848301838038 0.6897673349851 0.14810397642748008 0.015198666563616457
    0.0005475938084995345 1.0507500716444169e-09 6.657904643501103 5.463784911164114
    1.7848265399172913 0.29656057182850487 0.026532189526576124 0.0012426609473880784
    2.7115555687434876e-05 2.0103343992922881e-07 1.0 0.599832206555888
    0.1369298809227358 0.014875361290850615 0.0007868691311456133 1.8463183175100548e-05
    1.421511758316446e-07 2.0442631033899397e-15
"""
MIDDLE, OUTSIDE, FAR = np.array(AS241.split(), float).reshape(3, 2, 8).tolist()
P_ABOVE_2 = 0.022750131948179207  # the probability that a normal number exceeds 2


def _rational(parts: list[list[float]], x: Floats) -> Floats:
    y = _polynomial(parts[0], x)
    y /= _polynomial(parts[1], x)
    return y


def _normal_quantile(p: Floats) -> Floats:
    """Return the upper quantile of the standard normal distribution at p ≤ 1/2."""
    q = 0.5 - p
    z = _rational(MIDDLE, 0.180625 - q * q)
    z *= q
    out = np.flatnonzero(q > 0.425)
    r = np.sqrt(-log(p[out]))
    z[out] = _rational(OUTSIDE, r - 1.6)
    far = np.flatnonzero(r > 5)
    if far.size:
        z[out[far]] = _rational(FAR, r[far] - 5)
    return z


def _with_random_sign(z: Floats, words: Words) -> Floats:
    """Return ``z``, negated where the last bit of its word is 1."""
    return np.negative(z, out=z, where=(words & 1).astype(bool))


# --- distributions ---------------------------------------------------------------


def filled(stream: Stream, count: int, transform: Transform, dtype: Any) -> Array:
    """Return ``count`` transformed words."""
    y = np.empty(count, dtype)
    for begin in range(0, count, CHUNK_NUMBERS):
        some = y[begin : begin + CHUNK_NUMBERS]
        some[:] = transform(stream.random_raw(some.size))
    return y


def normal(words: Words) -> Floats:
    """Return standard normal numbers; their magnitude is at most 8.3."""
    return _with_random_sign(_normal_quantile(open_interval(words) * 0.5), words)


def truncated_normal(words: Words) -> Floats:
    """Return standard normal numbers truncated to the interval [-2, 2]."""
    p = P_ABOVE_2 + (0.5 - P_ABOVE_2) * open_interval(words)
    return _with_random_sign(np.minimum(_normal_quantile(p), 2.0), words)


def exponential(words: Words) -> Floats:
    """Return positive numbers ``x`` with density ``exp(-x)``."""
    return -log(open_interval(words))


def inverse_exponential(words: Words) -> Floats:
    """Return ``1 / x`` for exponentially distributed numbers ``x``."""
    return 1 / exponential(words)


def gumbel(words: Words) -> Floats:
    """Return numbers with the Gumbel distribution function, ``exp(-exp(-x))``."""
    return -log(exponential(words))


def gamma(stream: Stream, count: int, alpha: float, beta: float, dtype: Any) -> Floats:
    """Return positive numbers with a density ``∝ x^(alpha-1) exp(-beta x)``.

    G. Marsaglia and W. W. Tsang, A Simple Method for Generating Gamma Variables, ACM
    Transactions on Mathematical Software 26 (2000). Less than 5 % of the
    candidates are rejected.
    """
    y = np.empty(count)
    d = (alpha if alpha >= 1 else alpha + 1) - 1 / 3
    left = np.arange(count)
    while left.size:
        x = filled(stream, left.size, normal, np.float64)
        u = open_interval(stream.random_raw(left.size))
        v = 1 + x / sqrt(9 * d)
        positive = v > 0
        v = np.where(positive, v * v * v, 1.0)
        good = positive & (log(u) < 0.5 * x * x + d * (1 - v + log(v)))
        y[left[good]] = d * v[good]
        left = left[~good]
    if alpha < 1:
        y *= exp(log(open_interval(stream.random_raw(count))) / alpha)
    return (y / beta).astype(dtype)


# --- order and choice ------------------------------------------------------------


def order(stream: Stream, n: int) -> Array:
    """Return the integers from 0 to ``n - 1`` in random order."""
    return np.argsort(stream.random_raw(n), kind="stable").astype(np.int32)


def chosen(
    stream: Stream, count: int, n: int, weights: Floats | None, replace: bool
) -> Array:
    """Return ``count`` integers from 0 to ``n - 1``, chosen by weight if given.

    At least one weight must be nonzero; without replacement, at least ``count``
    weights. A weighted choice without replacement selects the numbers with the shortest
    waiting times (P. S. Efraimidis and P. G. Spirakis, Weighted Random Sampling with a
    Reservoir, 2006).
    """
    if weights is None:
        found = (
            uniform_below(stream, count, max(n, 1))
            if replace
            else order(stream, n)[:count]
        )
    elif replace:
        ends = np.add.accumulate(weights)
        level = half_open(stream.random_raw(count)) * ends[-1:].sum()
        found = np.searchsorted(ends, level, side="right")
        found = np.minimum(found, np.flatnonzero(weights)[-1:])
    else:
        waits = exponential(stream.random_raw(n))
        with np.errstate(divide="ignore", over="ignore"):
            found = np.argsort(waits / weights, kind="stable")[:count]
    return found.astype(np.int32)
