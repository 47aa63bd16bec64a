"""Elementary functions of float32 vectors.

They perform the same operations in the same order as ``mathematics.h`` in plugrad-cpu,
so the results have the same bits. The module ``gelu`` contains ``gelu``.
"""

from __future__ import annotations

from functools import partial
from math import inf, nan
from typing import NamedTuple

from llvmlite import ir  # type: ignore[import-untyped]

from .code import ALIGNMENT, DOUBLE, FLOAT, Vector, index
from .loops import Loop

LN2_HIGH, LN2_LOW = 0.693145751953125, 1.42860682030941723e-6
LOG2E = 1.44269504
ROUND_TO_INT_MAGIC = (
    12582912.0  # adding 1.5 * 2^23 rounds: the last bits are the integer
)
EXP2 = [1.534581097e-4, 1.33999309e-3, 9.618489072e-3, 5.550328642e-2]
EXP2 += [2.402264625e-1, 6.931471825e-1, 1.0]
EXP_TAIL = [1.38683163e-3, 8.36642366e-3, 4.16674651e-2, 1.66665450e-1, 0.49999997]
ERF_INNER = [-6.090360112e-4, 5.011962727e-3, -2.677890845e-2]
ERF_INNER += [1.128214076e-1, -3.761252463e-1, 1.283791512e-1]
ERF_POWER = [-1.819796744e-3, 2.258191071e-2, -1.317510307e-1]
ERF_POWER += [-9.384062886e-1, -1.616392493, -2.628945746e-3]
ERF_EXP2 = [1.327647129e-3, 9.675540961e-3, 5.550713092e-2]
ERF_EXP2 += [2.402212024e-1, 6.93146944e-1, 1.00000012]
ERFC_TAIL = [-0.00011725809204, -0.00037458744075, 0.00085601767103]
ERFC_TAIL += [0.0014597831144, -0.010834257889, 0.028049510785]
ERFC_TAIL += [-0.041718506293, 0.027294285878, 0.0376197189]
ERFC_TAIL += [-0.14936896198, 0.67125431766]
ERFC_OFFSET = 0.75
SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772
SLOPE_OF_ERF = 1.1283791670955126


def polynomial(x: Vector, *coefficients: float) -> Vector:
    """Return a polynomial; the coefficient of the highest power comes first."""
    y = x.like(coefficients[0])
    for c in coefficients[1:]:
        y = x.code.fma(y, x, c)
    return y


def nma(a: Vector, b: Vector | float, c: Vector | float) -> Vector:
    """Return ``c - a * b`` with one rounding."""
    return a.code.fma(-a, b, c)


def at_most(x: Vector, limit: float) -> Vector:
    """Return the smaller of ``x`` and the limit; NaN stays NaN."""
    return x.code.where(x > limit, limit, x)


def at_least(x: Vector, limit: float) -> Vector:
    """Return the larger of ``x`` and the limit; NaN stays NaN."""
    return x.code.where(x < limit, limit, x)


def without_multiple(n: Vector, x: Vector) -> Vector:
    """Return ``x - n log(2)``."""
    return nma(n, LN2_LOW, nma(n, LN2_HIGH, x))


def scaled(y: Vector, n: Vector) -> Vector:
    """Return ``y · 2^n``, in two factors that do not overflow."""
    i = n.integers()
    half = i >> 1
    y = y * ((half << 23) + 0x3F800000).floats()
    return y * ((i - half << 23) + 0x3F800000).floats()


def _exp_far(x: Vector, nearby: Vector) -> Vector:
    code = x.code
    a = at_most(at_least(x, -105.0), 90.0)
    n = (a * LOG2E).rounded("rint")
    r = without_multiple(n, a)
    y = code.fma(r * r, polynomial(r, *EXP_TAIL), r)
    far = scaled(y + 1.0, n)
    return code.where(abs(x) <= 87.0, nearby, far)


def exp(x: Vector) -> Vector:
    """Return e^x."""
    code = x.code
    near = abs(x) <= 87.0
    n = code.fma(x, 1.44269502, ROUND_TO_INT_MAGIC)
    f = code.fma(x, 1.44269502, ROUND_TO_INT_MAGIC - n)
    f = code.fma(x, 1.92596303e-8, f)
    y = polynomial(f, *EXP2)
    y = (y.bits() + (n.bits() << 23)).floats()
    return code.unless(near, y, x, "exp_far", _exp_far)


def _exp2_far(x: Vector, nearby: Vector) -> Vector:
    a = at_most(at_least(x, -151.0), 129.0)
    n = a.rounded("rint")
    far = scaled(polynomial(a - n, *EXP2), n)
    return x.code.where(abs(x) <= 125.0, nearby, far)


def exp2(x: Vector) -> Vector:
    """Return 2^x."""
    n = x + ROUND_TO_INT_MAGIC
    y = polynomial(x - (n - ROUND_TO_INT_MAGIC), *EXP2)
    y = (y.bits() + (n.bits() << 23)).floats()
    return x.code.unless(abs(x) <= 125.0, y, x, "exp2_far", _exp2_far)


def expm1(x: Vector) -> Vector:
    """Return e^x - 1."""
    code = x.code
    a = at_most(at_least(x, -30.0), 89.0)
    n = (a * LOG2E).rounded("rint")
    r = without_multiple(n, a)
    y = code.fma(r * r, polynomial(r, *EXP_TAIL), r)
    half = (n.integers() + 126 << 23).floats()
    z = code.fma(half, y, half - 0.5)
    z = code.where(n.equal(0.0), y, z + z)
    return code.where(x.equal(0.0), x, z)


def _split(x: Vector) -> tuple[Vector, Vector]:
    code = x.code
    tiny = x < 1.17549435e-38
    a = code.where(tiny, x * 8388608.0, x).bits()
    k = a - 0x3F3504F3 >> 23
    e = k.to("f") - code.where(tiny, 23.0, 0.0)
    return (a - (k << 23)).floats(), e


def _log_near(f: Vector, c: Vector | float, e: Vector) -> Vector:
    code = f.code
    s = f / (f + 2.0)
    z = s * s
    half = f * f * 0.5
    terms = (0.1818182 + 0.03, 0.22222222, 0.28571429, 0.4, 0.66666667)
    r = z * polynomial(z, *terms)
    low = code.fma(e, LN2_LOW, c)
    y = code.fma(s, half + r, low) - half
    return code.fma(e, LN2_HIGH, f + y)


def log(x: Vector) -> Vector:
    """Return the logarithm."""
    code = x.code
    m, e = _split(x)
    y = _log_near(m - 1.0, 0.0, e)
    y = code.where(x.equal(inf), x, y)
    y = code.where(x.equal(0.0), -inf, y)
    return code.where(x >= 0.0, y, nan)


def log1p(x: Vector) -> Vector:
    """Return log(1 + x)."""
    code = x.code
    u = x + 1.0
    lost = code.where(x > 1.0, 1.0 - (u - x), x - (u - 1.0))
    m, e = _split(u)
    near = (x < 0.41421354) & (x > -0.29289323)
    f = code.where(near, x, m - 1.0)
    c = code.where(near, 0.0, lost / u)
    y = _log_near(f, c, code.where(near, 0.0, e))
    y = code.where(x.equal(inf), x, y)
    y = code.where(x.equal(-1.0), -inf, y)
    y = code.where(x >= -1.0, y, nan)
    return code.where(abs(x) < 1e-20, x, y)


def with_sign(y: Vector, x: Vector) -> Vector:
    """Return ``y``, whose sign bit is 0, with the sign of ``x``."""
    return (y.bits() | (x.bits() & -0x80000000)).floats()


def negative(x: Vector) -> Vector:
    """Return ``-|x|``."""
    return (x.bits() | -0x80000000).floats()


def tanh(x: Vector) -> Vector:
    """Return the hyperbolic tangent."""
    code = x.code
    a = at_most(abs(x), 10.0)
    b = a + a
    total = code.fma(b, LOG2E, ROUND_TO_INT_MAGIC + 127)
    n = total - (ROUND_TO_INT_MAGIC + 127)
    r = nma(n, 0.6931471824645996, b)  # for large n, its error hardly matters
    y = code.fma(r * r, polynomial(r, *EXP_TAIL), r)
    power = (total.bits() << 23).floats()
    e = code.fma(power, y, power - 1.0)
    return with_sign(e / (e + 2.0), x)


def sigmoid(x: Vector) -> Vector:
    """Return 1 / (1 + e^-x)."""
    e = exp(negative(x))
    y = 1.0 / (e + 1.0)
    below = x.bits().is_negative()
    return x.code.where(below, e * y, y)


def softplus(x: Vector) -> Vector:
    """Return log(1 + e^x)."""
    code = x.code
    e = exp(negative(x))
    big = e > 0.41421354
    f = code.where(big, (e - 1.0) * 0.5, e)
    y = _log_near(f, 0.0, code.where(big, 1.0, 0.0))
    return at_least(x, 0.0) + y


def erf(x: Vector) -> Vector:
    """Return the error function."""
    code = x.code
    a = abs(x)
    z = x * x
    b = at_most(a, 4.0)
    inner = code.fma(x, polynomial(z, *ERF_INNER), x)
    power = polynomial(b, *ERF_POWER)
    n = power + ROUND_TO_INT_MAGIC
    f = power - (n - ROUND_TO_INT_MAGIC)
    y = (polynomial(f, *ERF_EXP2).bits() + (n.bits() << 23)).floats()
    return code.where(a >= 0.9, with_sign(1.0 - y, x), inner)


class Gaussian(NamedTuple):
    """e^(-x²) as e^(main + small) 2^n; ``n`` is a float whose last bits contain n."""

    main: Vector
    small: Vector
    n: Vector

    @classmethod
    def evaluate(cls, x: Vector) -> Gaussian:
        """Compute the parts from the square of x, which has twice the precision."""
        code = x.code
        high = x * x
        low = code.fma(x, x, -high)
        n = code.fma(high, -1.44269504, ROUND_TO_INT_MAGIC)
        whole = n - ROUND_TO_INT_MAGIC
        main = nma(whole, LN2_HIGH, -high)
        return cls(main, nma(whole, LN2_LOW, -low), n)

    def times(self, y: Vector, correction: Vector | float) -> Vector:
        """Return y (1 + correction) e^(-x²), without the factor 2^n."""
        code = y.code
        r = self.main + self.small
        g = code.fma(r * r, polynomial(r, *EXP_TAIL), self.small + correction)
        return code.fma(y, self.main + g, y)

    def shifted(self, y: Vector) -> Vector:
        """Return y 2^n."""
        return (y.bits() + (self.n.bits() << 23)).floats()

    def scaled(self, y: Vector) -> Vector:
        """Return y 2^n, where the result may be a denormal number."""
        return scaled(y, self.n - ROUND_TO_INT_MAGIC)


def _scaled_erfc(a: Vector) -> tuple[Vector, Vector, Vector]:
    """Return y, t and c: e^(a²) erfc(a) is y t (1 + c)."""
    q = 1.0 - 6.0 / (a + 3.0)
    divisor = a + ERFC_OFFSET
    t = 1.0 / divisor
    lost = at_most(a, ERFC_OFFSET) - (divisor - at_least(a, ERFC_OFFSET))
    correction = nma(t, lost, nma(t, divisor, 1.0))
    return polynomial(q, *ERFC_TAIL), t, correction


def _erfc_tail(a: Vector, e: Gaussian) -> Vector:
    y, t, correction = _scaled_erfc(a)
    return e.times(y, correction) * t


def _erfc_of(x: Vector, y: Vector) -> Vector:
    return x.code.where(x < 0.0, 2.0 - y, y)


def _erfc_far(x: Vector, nearby: Vector) -> Vector:
    a = at_most(abs(x), 10.5)
    e = Gaussian.evaluate(a)
    y = _erfc_of(x, e.scaled(_erfc_tail(a, e)))
    return x.code.where(abs(x) <= 9.0, nearby, y)


def erfc(x: Vector) -> Vector:
    """Return 1 - erf(x)."""
    a = abs(x)
    e = Gaussian.evaluate(a)
    y = _erfc_of(x, e.shifted(_erfc_tail(a, e)))
    return x.code.unless(a <= 9.0, y, x, "erfc_far", _erfc_far)


def _erf_slope_far(x: Vector, nearby: Vector) -> Vector:
    e = Gaussian.evaluate(at_most(abs(x), 10.5))
    y = e.scaled(e.times(x.like(SLOPE_OF_ERF), 0.0))
    return x.code.where(abs(x) <= 9.0, nearby, y)


def erf_grad(dy: Vector, x: Vector) -> Vector:
    """Return the gradient of the error function."""
    e = Gaussian.evaluate(x)
    y = e.shifted(e.times(x.like(SLOPE_OF_ERF), 0.0))
    near = abs(x) <= 9.0
    return dy * x.code.unless(near, y, x, "erf_slope_far", _erf_slope_far)


def sigmoid_grad(dy: Vector, x: Vector) -> Vector:
    """Return the gradient of the sigmoid, from its input."""
    e = exp(negative(x))
    r = 1.0 / (e + 1.0)
    return dy * (e * r * r)


def tanh_grad(dy: Vector, x: Vector) -> Vector:
    """Return the gradient of the hyperbolic tangent, from its input."""
    e = exp(negative(x + x))
    r = 1.0 / (e + 1.0)
    return dy * (e * 4.0 * r * r)


def elu(x: Vector) -> Vector:
    """Return x where it is positive, else e^x - 1."""
    return x.code.where(x > 0.0, x, expm1(x))


def selu(x: Vector) -> Vector:
    """Return the scaled exponential linear unit."""
    y = expm1(x) * (SELU_SCALE * SELU_ALPHA)
    return x.code.where(x > 0.0, x * SELU_SCALE, y)


# --- angles ----------------------------------------------------------------------


def _angle_far(x: Vector, nearby: Vector, function: str) -> Vector:
    """Compute the lanes with values above 8000 in float64, one by one."""
    code, builder = x.code, x.builder
    size_of = code.module.intrinsic("fabs", FLOAT, FLOAT)
    accurate = code.module.declare(function, DOUBLE, DOUBLE)
    given = code.allocate(x.type)
    results = code.allocate(x.type)
    builder.store(x.value, given, align=ALIGNMENT)
    builder.store(nearby.value, results, align=ALIGNMENT)
    loop = Loop(code, index(0))
    [lane] = loop.values
    a = builder.load(code.at(given, "f", lane), typ=FLOAT)
    size = builder.call(size_of, [a])
    far = builder.fcmp_unordered(">", size, ir.Constant(FLOAT, 8000.0))  # or NaN
    with builder.if_then(far):
        result = builder.call(accurate, [builder.fpext(a, DOUBLE)])
        narrow = builder.fptrunc(result, FLOAT)
        builder.store(narrow, code.at(results, "f", lane))
    following = builder.add(lane, index(1))
    more = builder.icmp_unsigned("<", following, index(x.lanes))
    loop.repeat(more, following)
    value = builder.load(results, align=ALIGNMENT, typ=x.type)
    return Vector(code, value, "f", x.lanes)


def _angle(x: Vector, function: str, quarters: int) -> Vector:
    """Return sin(x + quarters * pi / 2)."""
    code = x.code
    total = code.fma(x, 0.63661977, ROUND_TO_INT_MAGIC + quarters)
    n = total - (ROUND_TO_INT_MAGIC + quarters)
    r = nma(n, float.fromhex("0x1.92p+0"), x)
    for part in ("0x1.fb4p-12", "0x1.444p-24", "0x1.68c234p-39"):
        r = nma(n, float.fromhex(part), r)
    z = r * r
    s = polynomial(z, 2.7557319e-6, -1.9841270e-4, 8.3333333e-3, -1.66666667e-1)
    c = polynomial(z, -2.7557319e-7, 2.4801587e-5, -1.3888889e-3, 4.16666667e-2)
    s = code.fma(z * r, s, r)
    c = code.fma(z * z, c, z * -0.5) + 1.0
    odd = (total.bits() & 1).truth()
    minus = total.bits().binary(code.builder.lshr, 1) << 31
    y = (code.where(odd, c, s).bits() ^ minus).floats()
    if not quarters:
        y = code.where(x.equal(0.0), x, y)
    far = partial(_angle_far, function=function)
    return code.unless(abs(x) <= 8000.0, y, x, f"{function}_far", far)


def sin(x: Vector) -> Vector:
    """Return the sine."""
    return _angle(x, "sin", 0)


def cos(x: Vector) -> Vector:
    """Return the cosine."""
    return _angle(x, "cos", 1)
