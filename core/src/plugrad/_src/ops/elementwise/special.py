"""Special functions. Kernels: ``Digamma Erfinv Lgamma Polygamma``.

The functions are defined for real numbers: integers and bool become float32. float16 is
computed in float32.

Contents: products with a logarithm; tools; the inverse of the error function; the
logarithm of the gamma function; its derivatives.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Unpack

import numpy as np

from plugrad._src import rationals
from plugrad._src.engine.dispatch import run
from plugrad._src.ops.basis import _convert, binary, compare, creation, reduce, unary
from plugrad._src.rationals import Pieces, Rational
from plugrad._src.registry.contract import Kernel, Spec, decomposition, gradients, same
from plugrad._src.tensor.arguments import integer
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike

from . import trigonometry

__all__ = ["digamma", "erfinv", "lgamma", "polygamma", "xlog1py", "xlogy"]

# A contract with one input; the output has the same shape and dtype.
_elementwise = partial(Kernel, out=same)

# --- products with a logarithm ---------------------------------------------------


def xlogy(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return ``a · log(b)``, and 0 where ``a`` is 0, unless ``b`` is NaN.

    With ``b = a``, it is a term of the negative entropy, whose limit at 0 is 0. Where
    ``a`` is 0 and ``b`` is not a positive finite number, the derivatives are also 0.

    Args:
        a: A tensor of real numbers.
        b: A tensor of real numbers; the shapes broadcast.

    Returns:
        A tensor of the broadcast shape and the promoted dtype; float32 for integers.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> pg.xlogy([0.0, 2.0], [0.0, 3.0])
        Tensor([0.    , 2.1972], dtype=float32, backend='cpu')

    Source:
        ``scipy.special.xlogy``.

    """
    a, b = binary.floats("xlogy", a, b, "f")
    infinite = compare.logical_or(b <= 0, compare.equal(b, math.inf))
    null = compare.logical_and(compare.equal(a, 0), infinite)
    return compare.where(null, 0, a * unary.log(compare.where(null, 1, b)))


def xlog1py(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return ``a · log(1 + b)``, and 0 where ``a`` is 0, unless ``b`` is NaN.

    The logarithm is accurate near ``b = 0``. Where ``a`` is 0 and ``1 + b`` is not a
    positive finite number, the derivatives are also 0.

    Args:
        a: A tensor of real numbers.
        b: A tensor of real numbers; the shapes broadcast.

    Returns:
        A tensor of the broadcast shape and the promoted dtype; float32 for integers.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> pg.xlog1py([0.0, 2.0], [-1.0, 1.0])
        Tensor([0.    , 1.3863], dtype=float32, backend='cpu')

    Source:
        ``scipy.special.xlog1py``.

    """
    a, b = binary.floats("xlog1py", a, b, "f")
    infinite = compare.logical_or(b <= -1, compare.equal(b, math.inf))
    null = compare.logical_and(compare.equal(a, 0), infinite)
    return compare.where(null, 0, a * unary.log1p(compare.where(null, 0, b)))


# --- tools -----------------------------------------------------------------------

ASYMPTOTIC_MIN = 8  # the least x for which the series have float64 accuracy

# The Bernoulli numbers B(2), B(4), B(6), …
BERNOULLI = (
    *(1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6),
    *(-3617 / 510, 43867 / 798, -174611 / 330, 854513 / 138),
)


def _piecewise(pieces: Pieces, x: Tensor) -> Tensor:
    """Evaluate at each element the rational function of the interval around it."""
    first, *others = pieces.for_dtype(x.dtype)
    y = _quotient(first, x)
    for end, rational in zip(pieces.ends, others, strict=False):
        y = compare.where(x < end, y, _quotient(rational, x))
    return y


def _quotient(rational: Rational, x: Tensor) -> Tensor:
    center, offset, numerator, denominator = rational
    x = x - center
    quotient = unary._polynomial(numerator, x) / unary._polynomial(denominator, x)
    return quotient + offset


def _offset_from_integer(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``x`` minus the nearest integer, and whether the difference is 0."""
    nearest = unary.round(x)
    whole = compare.equal(x, nearest)
    return compare.where(whole, 0, x - nearest), whole


def _sin_pi(r: Tensor) -> Tensor:
    """Return ``sin(πr)``, accurate near 0."""
    return run(trigonometry.SIN, r * math.pi)


def _cot_pi(r: Tensor) -> Tensor:
    """Return ``cot(πr)`` for r from -0.5 to 0.5, also accurate near its zeros."""
    return _sin_pi(0.5 - unary.abs(r)) / _sin_pi(r)


def _term_count(x: Tensor, single: int, double: int) -> int:
    """Return the number of series terms: ``double`` for float64, else ``single``."""
    return double if x.dtype.itemsize == 8 else single


# --- the inverse of the error function -------------------------------------------

ERFINV = _elementwise(
    "Erfinv(x: floating)",
    op="erfinv",
    doc="""The inverse of ``Erf``; ±inf for ±1, NaN outside, and -0.0 for -0.0.

    Within 3 ulp in float32.""",
)


def erfinv(x: TensorLike, /) -> Tensor:
    """Return ``y`` with ``erf(y) = x``; ±inf for ±1, and NaN outside of [-1, 1].

    Args:
        x: A tensor of real numbers from -1 to 1.

    Returns:
        A tensor with the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> pg.erfinv([-0.5, 0.0, 1.0])
        Tensor([-0.4769,  0.    ,     inf], dtype=float32, backend='cpu')

    """
    return _convert.floating_unary(ERFINV, x, "f")


@decomposition(ERFINV)
def _(x: Tensor) -> Tensor:
    wide = reduce.widened(x)
    a = unary.abs(wide)
    near = wide * _piecewise(
        rationals.ERFINV_CENTER, binary.minimum(wide * wide, 0.5625)
    )
    rest = 1 - a  # exact
    tiny = float(np.finfo(wide.dtype).eps) / 4
    w = unary.sqrt(-unary.log(binary.minimum(binary.maximum(rest, tiny), 0.25)))
    far = w * _piecewise(rationals.ERFINV_TAIL, w)
    far = compare.where(compare.equal(rest, 0), math.inf, far)
    far = compare.where(rest < 0, math.nan, far)
    y = compare.where(a <= 0.75, near, unary.odd_extension(wide, far))
    return creation.cast(y, x.dtype)


def _erfinv_gradient(dy: Tensor, y: Tensor) -> Tensor:
    return dy * (unary.exp(y * y) * (math.sqrt(math.pi) / 2))


gradients(ERFINV, x=_erfinv_gradient)


# --- the logarithm of the gamma function -----------------------------------------

LGAMMA = _elementwise(
    "Lgamma(x: floating)",
    op="lgamma",
    doc="""``log |Γ(x)|``; inf for 0, negative integers and ±inf.

    Within 3 ulp in float32 where ``x`` is positive. Where it is negative, the error is
    at most that of ``log Γ(1 - x)`` and of ``log |sin πx|``.""",
)


def lgamma(x: TensorLike, /) -> Tensor:
    """Return ``log |Γ(x)|``, the logarithm of the gamma function.

    It is inf for 0, for negative integers, and for ±inf. ``lgamma(n + 1)`` is
    ``log(n!)``. The derivative is ``digamma``.

    Args:
        x: A tensor of real numbers.

    Returns:
        A tensor with the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> pg.lgamma([0.5, 3.0, -1.0])
        Tensor([0.5724, 0.6931,    inf], dtype=float32, backend='cpu')

    """
    return _convert.floating_unary(LGAMMA, x, "f")


@decomposition(LGAMMA)
def _(x: Tensor) -> Tensor:
    wide = reduce.widened(x)
    a = unary.abs(wide)
    small = a < 0.75
    value, log_part, factor = _log_gamma(a, small)
    rest, whole = _offset_from_integer(wide)
    # Γ(x) Γ(1 - x) sin(πx) = π
    sine = unary.abs(_sin_pi(rest)) * (1 / math.pi)
    reflected = -unary.log(sine * factor) - log_part
    reflected = compare.where(whole, math.inf, reflected)
    y = compare.where(wide < 0, reflected, value)
    return creation.cast(y, x.dtype)


def _log_gamma(a: Tensor, small: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``log Γ(a)``, and two tensors c and f with ``Γ(1 + a) = e^c · f``."""
    z = a
    product = creation.ones_like(a)
    # Γ(a) = (a - 1) (a - 2) … Γ(z), z from 2 to 3
    for i in range(1, ASYMPTOTIC_MIN - 2):
        above = a >= i + 2
        less = a - i
        z = compare.where(above, less, z)
        product = compare.where(above, product * less, product)
    middle = a < ASYMPTOTIC_MIN
    t = compare.where(small, a, z - 1)
    t = compare.where(middle, t, 0)
    core = t * (t - 1) * _piecewise(rationals.LOG_GAMMA, t)
    log = unary.log(compare.where(middle, compare.where(small, a, product), a))
    b = binary.maximum(a, ASYMPTOTIC_MIN)
    large = (b - 0.5) * (log - 1) + (math.log(2 * math.pi) / 2 - 0.5 + _stirling(b))
    value = core + compare.where(small, -log, log)
    factor = a * compare.where(middle, product, 1)
    return (
        compare.where(middle, value, large),
        compare.where(middle, core, large),
        compare.where(small, 1, factor),
    )


def _stirling(a: Tensor) -> Tensor:
    """Return ``log Γ(a) - (a - 1/2) log(a) + a - log(2π)/2`` for large ``a``."""
    coefficients = [
        BERNOULLI[k - 1] / (2 * k * (2 * k - 1))
        for k in range(_term_count(a, 3, 10), 0, -1)
    ]
    u = 1 / a
    return u * unary._polynomial(tuple(coefficients), u * u)


# --- the derivatives of the logarithm of the gamma function ----------------------

DIGAMMA = _elementwise(
    "Digamma(x: floating)",
    op="digamma",
    doc="""``ψ(x) = Γ'(x) / Γ(x)``; -inf for 0.0, inf for -0.0 and inf, and NaN for
    negative integers and -inf.

    Within 3 ulp in float32 where ``x`` is positive. Where it is negative, the error is
    within 3 ulp of ``|ψ(1 - x)| + |π·cot(πx)|``.""",
)


def digamma(x: TensorLike, /) -> Tensor:
    """Return ``ψ(x) = Γ'(x) / Γ(x)``, the derivative of ``lgamma``.

    It is -inf for 0.0, inf for -0.0, and NaN for negative integers. The derivative is
    ``polygamma(x, 1)``.

    Args:
        x: A tensor of real numbers.

    Returns:
        A tensor with the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> pg.digamma([1.0, 2.0, 0.0])
        Tensor([-0.5772,  0.4228,    -inf], dtype=float32, backend='cpu')

    """
    return _convert.floating_unary(DIGAMMA, x, "f")


@decomposition(DIGAMMA)
def _(x: Tensor) -> Tensor:
    wide = reduce.widened(x)
    a = unary.abs(wide)
    small = a < 1
    value = _digamma(a, small)  # ψ(a), or ψ(1 + a) where a is small
    positive = compare.where(small, value - 1 / wide, value)
    rest, whole = _offset_from_integer(wide)
    value = compare.where(small, value, value + 1 / a)  # ψ(1 + a)
    negative = compare.where(whole, math.nan, value - math.pi * _cot_pi(rest))
    y = compare.where(wide < 0, negative, positive)
    return creation.cast(y, x.dtype)


def _digamma(a: Tensor, small: Tensor) -> Tensor:
    z = a
    total = creation.zeros_like(a)
    for i in range(1, ASYMPTOTIC_MIN - 2):  # ψ(a) = 1/(a - 1) + 1/(a - 2) + … + ψ(z)
        above = a >= i + 2
        less = a - i
        z = compare.where(above, less, z)
        total = total + compare.where(above, 1 / compare.where(above, less, 1), 0)
    middle = a < ASYMPTOTIC_MIN
    t = compare.where(small, a, z - 1)
    t = compare.where(middle, t, 0)
    high, low = rationals.DIGAMMA_ROOT[a.dtype.itemsize]
    core = ((t - high) - low) * _piecewise(rationals.DIGAMMA, t)
    b = binary.maximum(a, ASYMPTOTIC_MIN)
    coefficients = [
        BERNOULLI[k - 1] / (2 * k) for k in range(_term_count(a, 3, 11), 0, -1)
    ]
    u = 1 / b
    series = u * u * unary._polynomial(tuple(coefficients), u * u)
    return compare.where(middle, core + total, unary.log(b) - 0.5 * u - series)


MAX_ORDER = 30  # the factorials of this order and of the next one fit into float32


def _check_order(n: int) -> int:
    if not 1 <= n <= MAX_ORDER:
        raise ValueError(f"polygamma: n {n} must be from 0 to {MAX_ORDER}")
    return n


def _polygamma_spec(x: Spec, *, n: int) -> Spec:
    _check_order(n)
    return x


POLYGAMMA = Kernel(
    "Polygamma(x: floating; n: size)",
    out=_polygamma_spec,
    op="polygamma",
    doc=f"""The ``n``-th derivative of ``Digamma``, ``n`` from 1 to {MAX_ORDER}.

    It has poles at 0 and at negative integers. There it is inf for odd ``n``; for even
    ``n`` it is -inf for 0.0, inf for -0.0, and NaN for negative integers. It is 0 for
    inf and NaN for -inf. Within ``3 + 2n`` ulp in float32 and float64 where the result
    is a normal number; where ``x`` is negative, relative to the terms of the reflection
    formula.""",
)


def polygamma(x: TensorLike, /, n: int, **unknown: Unpack[Nothing]) -> Tensor:
    """Return the ``n``-th derivative of ``digamma``.

    ``n = 0`` is ``digamma`` itself, and ``n = 1`` the trigamma function. It has poles
    at 0 and at negative integers. There it is inf for odd ``n``; for even ``n`` it is
    -inf for 0.0, inf for -0.0, and NaN for negative integers. The error grows with the
    order, and is at most ``3 + 2n`` units in the last place.

    Args:
        x: A tensor of real numbers.
        n: The order, from 0 to 30.

    Returns:
        A tensor with the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        ValueError: ``n`` is out of range.
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> pg.polygamma([1.0, 2.0], 1)
        Tensor([1.6449, 0.6449], dtype=float32, backend='cpu')

    Source:
        ``torch.polygamma`` and ``scipy.special.polygamma``, which take ``n`` first.

    """
    if unknown:
        raise unexpected(polygamma, unknown)
    n = integer("polygamma", "n", n, 0)
    x = _convert.floating("polygamma", x, "f")
    return run(POLYGAMMA, x, n=_check_order(n)) if n else run(DIGAMMA, x)


@decomposition(POLYGAMMA)
def _(x: Tensor, *, n: int) -> Tensor:
    wide = reduce.widened(x)
    below = wide < 0
    sign = 1 if n % 2 else -1
    value = _zeta(compare.where(below, 1 - wide, wide), n) * sign
    rest, whole = _offset_from_integer(wide)
    # The n-th derivative of ψ(1 - x) - ψ(x) = π·cot(πx).
    pole = _cot_derivative(n, _cot_pi(rest)) * math.pi ** (n + 1)
    negative = value * (-1) ** n - pole
    at_pole = math.inf if n % 2 else math.nan
    negative = compare.where(whole, at_pole, negative)
    negative = compare.where(compare.equal(wide, -math.inf), math.nan, negative)
    return creation.cast(compare.where(below, negative, value), x.dtype)


def _zeta(x: Tensor, n: int) -> Tensor:
    """Return ``n! · Σ 1 / (x + k)^(n+1)`` over all ``k`` from 0, by Euler-Maclaurin.

    For large ``x``, the powers would underflow although their products with ``n!`` do
    not. There ``x`` is divided by a power of two, ``unit``, and the sum is multiplied
    by ``n! / unit^(n+1)`` instead of ``n!``.
    """
    s = n + 1
    shift = ASYMPTOTIC_MIN + n // 2
    factorial = math.factorial(n)
    unit = 2.0 ** math.ceil(math.log2(factorial) / s)
    far = x >= unit
    scale = compare.where(far, creation.full_like(x, 1 / unit), 1)
    total = binary.pow(x * scale, -s)
    for k in range(1, shift):
        total = total + binary.pow((x + k) * scale, -s)
    y = x + shift
    coefficients = []
    for k in range(1, _term_count(x, 4, 10) + 1):
        factor = math.prod(range(s, s + 2 * k - 1)) / math.factorial(2 * k)
        coefficients.append(BERNOULLI[k - 1] * factor)
    u = 1 / y
    series = unary._polynomial(tuple(reversed(coefficients)), u * u)
    rest = binary.pow(y * scale, -n) * (1 / n + 0.5 * u + u * u * series) / scale
    total = total + rest
    return compare.where(far, total * (factorial / unit**s), total * float(factorial))


def _cot_derivative(n: int, c: Tensor) -> Tensor:
    """Return the ``n``-th derivative of the cotangent as a polynomial of its value.

    The polynomial has only odd powers if ``n`` is even, and only even ones otherwise.
    """
    powers = [0, 1]  # coefficients, from the lowest power
    for _ in range(n):  # c' is -(1 + c²)
        slope = [k * a for k, a in enumerate(powers)][1:]
        powers = [-a - b for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    odd = (n + 1) % 2
    coefficients = tuple(float(a) for a in reversed(powers[odd::2]))
    y = unary._polynomial(coefficients, c * c)
    return c * y if odd else y


gradients(LGAMMA, x=lambda dy, x: dy * run(DIGAMMA, x))
gradients(DIGAMMA, x=lambda dy, x: dy * run(POLYGAMMA, x, n=1))
gradients(POLYGAMMA, x=lambda dy, x, n: dy * run(POLYGAMMA, x, n=n + 1))
