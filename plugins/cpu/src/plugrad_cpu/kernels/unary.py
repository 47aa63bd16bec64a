"""Unary kernels: a ufunc each, where NumPy has one."""

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array

kernels = KernelTable(
    Abs=np.absolute,
    Ceil=np.ceil,
    Exp=np.exp,
    Expm1=np.expm1,
    Floor=np.floor,
    IsFinite=np.isfinite,
    IsInf=np.isinf,
    IsNan=np.isnan,
    Neg=np.negative,
    Reciprocal=np.reciprocal,
    Round=np.rint,
    Sqrt=np.sqrt,
    Square=np.square,
)


@kernels("Sign")
def sign(x: Array) -> Array:
    """Complex numbers have it scaled, as their size may overflow and vanish."""
    if x.dtype.kind != "c":
        return np.sign(x)
    size = np.maximum(np.abs(x.real), np.abs(x.imag))
    size = np.where((size > 0) & (size < np.inf), size, 1)
    y = np.empty(x.shape, x.dtype)
    y.real, y.imag = x.real / size, x.imag / size
    return np.sign(y)


@kernels("Rsqrt")
def rsqrt(x: Array) -> Array:
    """Of float16 in float32: 1/√x has two roundings."""
    if x.dtype == np.float16:
        return (1 / np.sqrt(x, dtype=np.float32)).astype(np.float16)
    return np.reciprocal(np.sqrt(x))


@kernels("Log")
def log(x: Array) -> Array:
    """NumPy's own of float32 is off by up to 4 ulp."""
    if x.dtype != np.float32:
        return np.log(x)
    y = np.empty_like(x)
    return np.log(x, out=y, dtype=np.float64, casting="same_kind")


@kernels("Log1p")
def log1p(x: Array) -> Array:
    """NumPy's own of complex numbers is not accurate next to 0."""
    if x.dtype.kind != "c":
        return np.log1p(x)
    a, b = x.real, x.imag
    y = np.empty(x.shape, x.dtype)
    near = 0.5 * np.log1p(a * (2 + a) + b * b)
    y.real = np.where(np.abs(x) < 0.5, near, np.log(np.hypot(1 + a, b)))
    y.imag = np.arctan2(b, 1 + a)
    return y


# Minimax polynomials, highest power first: erf(x)/x - 1 in x² for |x| < 1, and beyond
# log(1 - erf x) in x, up to where erf rounds to 1; by the bytes of an element.
INNER = {
    4: (
        *(7.889119072e-5, -8.020841518e-4, 5.189535425e-3, -2.685444468e-2),
        *(1.128360018e-1, -3.761262714e-1, 1.283791659e-1),
    ),
    8: (
        *(-7.801188874097751e-10, 1.3722976265924504e-08, -1.6209175911748696e-07),
        *(1.6447517677871873e-06, -1.4924744663335489e-05, 0.00012055295320494294),
        *(-0.0008548325989696758, 0.005223977607423468, -0.02686617064327622),
        *(0.11283791670945253, -0.3761263890318355, 0.12837916709551256),
    ),
}
OUTER = {
    4: (
        *(1.855712965e-4, -2.939580992e-3, 2.180521428e-2, -1.030371540e-1),
        *(-6.382259214e-1, -1.127039891, -3.537546911e-4),
    ),
    8: (
        *(-4.8653036146992094e-12, 2.0204202447143395e-10, -3.890150708232215e-09),
        *(4.5934715054282496e-08, -3.6957674109698616e-07, 2.1148618123443585e-06),
        *(-8.579036799493762e-06, 2.253368148755925e-05, -1.9524830219078924e-05),
        *(-0.00013655225745193793, 0.0007730402077688685, -0.001918942294676361),
        *(0.0004135336009249529, 0.018988044025058142, -0.10270229076741853),
        *(-0.6366440547765997, -1.128373991776822, -5.132353128429367e-07),
    ),
}
LAST = {4: 4, 8: 6}
BLOCK = 1 << 15  # elements, so that the fifty passes over them stay in the cache


@kernels("Erf")
def erf(x: Array) -> Array:
    """Within 1 ulp in float64, 2 in float32."""
    if x.dtype == np.float16:
        return erf(x.astype(np.float32)).astype(np.float16)
    y = np.empty(x.shape, x.dtype)
    flat, out = x.reshape(-1), y.reshape(-1)
    for at in range(0, flat.size, BLOCK):
        _erf(flat[at : at + BLOCK], out[at : at + BLOCK])
    return y


def _erf(x: Array, out: Array) -> None:
    size, places = x.itemsize, np.dtype(f"i{x.itemsize}")
    a = np.abs(x)
    near = a < 1
    if near.any():
        inner = _polynomial(INNER[size], x * x)
        inner *= x
        np.add(inner, x, out=out)
    if near.all():
        return
    np.minimum(a, LAST[size], out=a)
    outer = np.exp(_polynomial(OUTER[size], a))
    np.subtract(1, outer, out=outer)
    np.copysign(outer, x, out=outer)
    # Choose by bits: where() guesses which branch comes next, and takes ten times as
    # long if it is wrong half of the time.
    mask = near.astype(places)
    np.negative(mask, out=mask)
    bits, y = outer.view(places), out.view(places)
    y ^= bits
    y &= mask
    y ^= bits


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    y = x * coefficients[0]
    for c in coefficients[1:-1]:
        y += c
        y *= x
    y += coefficients[-1]
    return y
