"""The regularized incomplete gamma functions. No kernels.

``P(a, x)`` is the lower function, and ``Q(a, x) = 1 - P(a, x)`` the upper one. Where
both ``a`` and ``x`` are positive and finite, there are four formulas:

- a series for P, for small ``x``;
- a series for Q, for small ``a`` and ``x``, where 1 - P would cancel;
- a continued fraction for Q, for large ``x``;
- an expansion in powers of ``1 / a`` for large ``a``, and ``x`` near ``a``.

Each has a fixed number of terms, computed for all elements; ``where`` selects among the
results. Elements that another formula covers are replaced by harmless ones first, so
that their gradients are 0, not NaN.

Contents: the ops; the choice of a formula; the formulas; their common factor.
"""

from __future__ import annotations

import math

from plugrad._src import rationals
from plugrad._src.ops.basis import _convert, binary, compare, creation, reduce, unary
from plugrad._src.tensor.tensor import Tensor, TensorLike

from . import error_functions, special

__all__ = ["gammainc", "gammaincc"]

EXPANSION_MIN_SHAPE = 20  # the least a for which the expansion has float64 accuracy
EXPANSION_RATIOS = 0.46, 1.86  # x / a for which it does: |η| is at most 0.7
SMALL_SHAPE = 1  # below it, Q has a series of its own
SERIES_MARGIN = 1, 2  # the series are used for x up to this number above a, or above 1

# The numbers of terms for float32 and float64, found by comparison with mpmath where
# the formulas meet.
SERIES_TERMS = 35, 58
SMALL_TERMS = 16, 32
FRACTION_TERMS = 18, 38
LOGARITHM_TERMS = 9, 19
EXPANSION_TERMS = 10, 8, 6, 4  # of each row for float32

# The coefficients c[k][n] of η^n / a^k, the highest power of η first: N. M. Temme, "The
# Asymptotic Expansion of the Incomplete Gamma Functions", 1979; NIST DLMF 8.12(iii).
EXPANSION: tuple[tuple[float, ...], ...] = (
    (
        *(-5.0276692801141755e-12, 2.4361948020667415e-11, -5.830772132550426e-11),
        *(-2.5514193994946248e-11, 9.14769958223679e-10, -4.382036018453353e-09),
        *(1.0261809784240309e-08, 6.707853543401498e-09, -1.7665952736826078e-07),
        *(8.296711340953087e-07, -1.85406221071516e-06, -2.185448510679992e-06),
        *(3.919263178522438e-05, -0.0001787551440329218, 0.0003527336860670194),
        *(0.0011574074074074073, -0.014814814814814815, 0.08333333333333333),
        *(-0.3333333333333333,),
    ),
    (
        *(-8.56390702649298e-11, 4.162792991842583e-10, -1.0091543710600413e-09),
        *(-1.7543241719747647e-11, 1.1951628599778148e-08, -5.752545603517705e-08),
        *(1.378633446915721e-07, 4.647127802807434e-09, -1.6120900894563446e-06),
        *(7.64916091608111e-06, -1.8098550334489977e-05, -4.018775720164609e-07),
        *(0.00020576131687242798, -0.0009902263374485596, 0.0026455026455026454),
        *(-0.003472222222222222, -0.001851851851851852),
    ),
    (
        *(1.2872252400089318e-10, 9.428356159014678e-13, -1.3670488396617114e-09),
        *(6.228974084922022e-09, -1.409252991086752e-08, -2.0477098421990866e-10),
        *(1.4280614206064242e-07, -6.298992138380055e-07, 1.3721957309062934e-06),
        *(3.423578734096138e-08, -1.2760635188618728e-05, 5.2923448829120125e-05),
        *(-0.0001073665322636516, 2.0093878600823047e-06, 0.0007716049382716049),
        *(-0.0026813271604938273, 0.004133597883597883),
    ),
    (
        *(2.0620131815488797e-09, 2.3928620439808118e-12, -1.9111168485973655e-08),
        *(8.099464905388083e-08, -1.6958404091930278e-07, -2.7861080291528143e-11),
        *(1.4230900732435883e-06, -5.6749528269915965e-06, 1.1082654115347302e-05),
        *(-2.396505113867297e-07, -7.561801671883977e-05, 0.00026772063206283885),
        *(-0.0004691894943952557, 0.00022947209362139917, 0.0006494341563786008),
    ),
    (
        *(2.8865829742708783e-08, 2.956794137544049e-11, -2.292934834000805e-07),
        *(8.907507532205309e-07, -1.6954149536558305e-06, 2.507497226237533e-10),
        *(1.1375726970678419e-05, -3.968365047179435e-05, 6.641498215465122e-05),
        *(-1.4638452578843418e-06, -0.0002990724803031902, 0.0007840392217200666),
        *(-0.0008618882909167117,),
    ),
    (
        *(-1.8447187191171344e-07, 3.4652846491085265e-07, -3.252473551298454e-10),
        *(-2.291481176508095e-06, 8.018470256334202e-06, -1.3594048189768693e-05),
        *(1.419062920643967e-07, 6.797780477937208e-05, -0.00019932570516188847),
        *(0.0002772753244959392, -6.972813758365857e-05, -0.00033679855336635813),
    ),
    (
        *(-2.0291327396058603e-06, 3.465155368803609e-06, -3.0796134506033047e-09),
        *(-1.8329116582843375e-05, 5.61168275310625e-05, -8.153969367561969e-05),
        *(7.902353232660328e-07, 0.0002708782096718045, -0.0005921664373536939),
        *(0.0005313079364639922,),
    ),
    (
        *(-1.8263488805711332e-05, 2.7744451511563645e-05, -1.2741009095484485e-07),
        *(-0.00010976582244684731, 0.0002812695154763237, -0.00033493161081142234),
        *(5.171790908260592e-05, 0.00034436760689237765),
    ),
    (
        *(0.00016644846642067547, -6.969091458420552e-07, -0.000438297098541721),
        *(0.0008394987206720873, -0.0006526239185953094),
    ),
    (*(-7.204895416020011e-05, -0.0005967612901927463),),
)

# --- the ops ---------------------------------------------------------------------


def gammainc(a: TensorLike, x: TensorLike, /) -> Tensor:
    """Return the regularized lower incomplete gamma function, ``P(a, x)``.

    ``P(a, x) = 1/Γ(a) · ∫ t^(a-1) e^(-t) dt`` from 0 to ``x``, the probability that a
    gamma variate with the shape ``a`` is at most ``x``. It is 0 where ``x`` is 0 or
    ``a`` is inf, 1 where ``x`` is inf or ``a`` is 0, and NaN where an argument is
    negative, or both are 0 or inf.

    For ``a`` up to 1e4, the relative error is at most 1e-12 in float64 where the result
    is above 1e-200; in float32 it is at most 1e-5 where the result is above 1e-10, and
    5e-5 for smaller normal numbers. The derivatives by ``a`` and ``x`` are as accurate;
    that by ``x`` is ``x^(a-1) e^(-x) / Γ(a)``. Both are 0 where the result is one of
    the limits above. A call runs about 1,500 element-wise kernels in float64, and 850
    in float32.

    Args:
        a: A tensor of real numbers, the shape parameter.
        x: A tensor of real numbers, the limit of the integral; the shapes broadcast.

    Returns:
        A tensor of the broadcast shape and the promoted dtype; float32 for integers.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> pg.gammainc([0.5, 1.0, 2.0], [1.0, 1.0, 0.0])
        Tensor([0.8427, 0.6321, 0.    ], dtype=float32, backend='cpu')

    Source:
        ``scipy.special.gammainc``.

    """
    return _incomplete_gamma("gammainc", a, x, upper=False)


def gammaincc(a: TensorLike, x: TensorLike, /) -> Tensor:
    """Return the regularized upper incomplete gamma function, ``Q(a, x)``.

    ``Q(a, x) = 1/Γ(a) · ∫ t^(a-1) e^(-t) dt`` from ``x`` to inf. It equals
    ``1 - gammainc(a, x)``, without cancellation where it is small. It is 1 where ``x``
    is 0 or ``a`` is inf, 0 where ``x`` is inf or ``a`` is 0, and NaN where
    ``gammainc`` is. Errors and derivatives are those of ``gammainc``.

    Args:
        a: A tensor of real numbers, the shape parameter.
        x: A tensor of real numbers, the limit of the integral; the shapes broadcast.

    Returns:
        A tensor of the broadcast shape and the promoted dtype; float32 for integers.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> pg.gammaincc([0.5, 1.0, 2.0], [1.0, 1.0, 0.0])
        Tensor([0.1573, 0.3679, 1.    ], dtype=float32, backend='cpu')

    Source:
        ``scipy.special.gammaincc``.

    """
    return _incomplete_gamma("gammaincc", a, x, upper=True)


# --- the choice of a formula -----------------------------------------------------


def _incomplete_gamma(op: str, a: TensorLike, x: TensorLike, *, upper: bool) -> Tensor:
    a, x = binary.floats(op, a, x, "f")
    dtype = a.dtype
    a, x = _convert.promote_and_broadcast(op, reduce.widened(a), reduce.widened(x))
    known = (a >= 0) & (x >= 0) & (a + x > 0) & (binary.minimum(a, x) < math.inf)
    low = compare.equal(x, 0) | compare.equal(a, math.inf)
    limit = compare.where(low, float(upper), float(not upper))
    limit = compare.where(known, limit, math.nan)
    inside = (a > 0) & (x > 0) & (binary.maximum(a, x) < math.inf)
    y = compare.where(
        inside, _inside(a, x, inside, upper), creation.cast(limit, a.dtype)
    )
    return creation.cast(y, dtype)


def _inside(a: Tensor, x: Tensor, inside: Tensor, upper: bool) -> Tensor:
    """Return the function where ``a`` and ``x`` are positive and finite."""
    large = a >= EXPANSION_MIN_SHAPE
    least, most = EXPANSION_RATIOS
    middle = large & (x > a * least) & (x < a * most) & inside
    margin = special._term_count(x, *SERIES_MARGIN)
    below = x < compare.where(large, a, binary.maximum(a, SMALL_SHAPE) + margin)
    below = below & inside
    series = _series(*_only(below & ~middle, a, x, 1.0, 1.0))
    above = inside & ~(below | middle)
    fraction = _fraction(*_only(above, a, x, 1.0, 4.0))
    small = (a < SMALL_SHAPE) & below
    rest = _small(*_only(small, a, x, 0.5, 1.0))
    if upper:
        y = compare.where(small, rest, 1 - series)
        y = compare.where(below, y, fraction)
    else:  # near 1, the derivatives of the series cancel
        y = compare.where(small & (rest < 0.5), 1 - rest, series)
        y = compare.where(below, y, 1 - fraction)
    least_shape = float(EXPANSION_MIN_SHAPE)
    expansion = _expansion(*_only(middle, a, x, least_shape, least_shape), upper)
    return compare.where(middle, expansion, y)


def _only(
    condition: Tensor, a: Tensor, x: Tensor, other_a: float, other_x: float
) -> tuple[Tensor, Tensor]:
    """Return the arguments where the condition holds, and harmless ones elsewhere."""
    return compare.where(condition, a, other_a), compare.where(condition, x, other_x)


# --- the formulas ----------------------------------------------------------------


def _series(a: Tensor, x: Tensor) -> Tensor:
    """Return ``P = x^a e^-x / Γ(a+1) · Σ x^n / ((a+1)···(a+n))``."""
    total = creation.ones_like(x)
    for n in range(special._term_count(x, *SERIES_TERMS), 0, -1):
        total = 1 + total * (x / (a + n))
    return _factor(a, x) * total


def _small(a: Tensor, x: Tensor) -> Tensor:
    """Return Q for small ``a`` and ``x``, where P may be close to 1.

    It is ``1 - f · (1 + a · Σ (-x)^n / ((a+n) n!))`` with ``f = x^a / Γ(a+1)``. The
    logarithm of f, and so ``1 - f``, has a small relative error.
    """
    count = special._term_count(x, *SMALL_TERMS)
    total = 1 / (a + count)
    for n in range(count - 1, 0, -1):
        total = 1 / (a + n) - total * (x * (1 / (n + 1)))
    log_gamma = a * (a - 1) * special._piecewise(rationals.LOG_GAMMA, a)
    log = a * unary.log(x) - log_gamma
    return a * x * total * unary.exp(log) - unary.expm1(log)


def _fraction(a: Tensor, x: Tensor) -> Tensor:
    """Return ``Q = x^a e^-x / Γ(a)`` times a continued fraction.

    The fraction is ``1 / (x+1-a - 1(1-a) / (x+3-a - 2(2-a) / (x+5-a - ···)))``.
    """
    difference = x - a
    rest = creation.zeros_like(x)
    for n in range(special._term_count(x, *FRACTION_TERMS), 0, -1):
        rest = (n - a) * n / (difference + (2 * n + 1) - rest)
    return _factor(a, x) * (a / (difference + 1 - rest))


def _expansion(a: Tensor, x: Tensor, upper: bool) -> Tensor:
    """Return P or Q for large ``a``: a normal distribution, corrected.

    With ``η²/2 = x/a - 1 - log(x/a)``, Q is
    ``erfc(η √(a/2)) / 2 + e^(-a η²/2) / √(2πa) · Σ c[k][n] η^n / a^k``.
    """
    m = (x - a) / a
    ratio = _logarithm(m)
    eta = m * unary.sqrt(ratio * 2)
    rows = EXPANSION
    if a.dtype.itemsize < 8:
        pairs = zip(EXPANSION, EXPANSION_TERMS, strict=False)
        rows = tuple(row[-count:] for row, count in pairs)
    total = creation.zeros_like(a)
    for row in reversed(rows):
        total = total / a + unary._polynomial(row, eta)
    density = unary.exp(-(a * m * m * ratio)) * unary.rsqrt(2 * math.pi * a)
    z = eta * unary.sqrt(a * 0.5)
    if upper:
        return error_functions.erfc(z) * 0.5 + density * total
    return error_functions.erfc(-z) * 0.5 - density * total


def _logarithm(m: Tensor) -> Tensor:
    """Return ``(m - log(1 + m)) / m²`` for m from -0.55 to 0.87.

    It is ``w - 2 m w³ (1/3 + s²/5 + s⁴/7 + ···)`` with ``w = 1 / (2 + m)`` and
    ``s = m w``, where nothing cancels.
    """
    count = special._term_count(m, *LOGARITHM_TERMS)
    w = 1 / (m + 2)
    s = m * w
    coefficients = tuple(1 / (2 * n + 3) for n in range(count - 1, -1, -1))
    return w - 2 * w * w * s * unary._polynomial(coefficients, s * s)


# --- their common factor ---------------------------------------------------------


def _factor(a: Tensor, x: Tensor) -> Tensor:
    """Return ``x^a e^-x / Γ(a+1)``.

    For large ``a``, the terms of its logarithm nearly cancel. There it is computed as
    ``e^(-a (m - log(1 + m))) / (√(2πa) e^r)`` with ``m = x/a - 1`` and the remainder r
    of Stirling's formula.
    """
    large = a >= special.ASYMPTOTIC_MIN
    little = compare.where(large, 1.0, a)
    direct = unary.exp(little * unary.log(x) - x - special.lgamma(little + 1))
    great = compare.where(large, a, float(special.ASYMPTOTIC_MIN))
    m = (x - great) / great
    near = unary.abs(m) < 0.5
    part = compare.where(near, m, 0.0)
    excess = part * part * _logarithm(part)
    rest = compare.where(near, 1.0, m)
    excess = compare.where(near, excess, rest - unary.log(x / great))
    exponent = -(great * excess) - special._stirling(great)
    stable = unary.exp(exponent) * unary.rsqrt(2 * math.pi * great)
    return compare.where(large, stable, direct)
