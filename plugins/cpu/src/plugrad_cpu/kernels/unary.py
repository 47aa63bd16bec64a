"""Unary kernels: NumPy ufuncs where they exist; most float32 kernels are in C."""

from collections.abc import Callable
from typing import Any

import numpy as np
from plugrad.plugin import KernelTable, erf_polynomials, erfc_polynomial

from ..arrays import Array
from ..native import by_float32, elementwise

kernels = KernelTable(
    Abs=elementwise("abs_f32")(np.absolute),
    Ceil=elementwise("ceil_f32")(np.ceil),
    Exp=elementwise("exp_f32")(np.exp),
    Floor=elementwise("floor_f32")(np.floor),
    IsFinite=by_float32("f->?")(np.isfinite),
    IsInf=by_float32("f->?")(np.isinf),
    IsNan=by_float32("f->?")(np.isnan),
    Neg=elementwise("neg_f32")(np.negative),
    Reciprocal=elementwise("reciprocal_f32")(np.reciprocal),
    Round=elementwise("round_f32")(np.rint),
    SignBit=np.signbit,
    Sqrt=elementwise("sqrt_f32")(np.sqrt),
    Square=elementwise("square_f32")(np.square),
    Trunc=elementwise("trunc_f32")(np.trunc),
)


@kernels("Sign")
@by_float32()
def sign(x: Array) -> Array:
    """Scale complex numbers first: their modulus may overflow or underflow."""
    if x.dtype.kind != "c":
        return np.sign(x)
    size = np.maximum(np.abs(x.real), np.abs(x.imag))
    size = np.where((size > 0) & (size < np.inf), size, 1)
    y = np.empty(x.shape, x.dtype)
    y.real = x.real / size
    y.imag = x.imag / size
    return np.sign(y)


@kernels("Rsqrt")
@elementwise("rsqrt_f32")
def rsqrt(x: Array) -> Array:
    """Compute float16 in float32, because 1/√x would round twice."""
    if x.dtype == np.float16:
        return (1 / np.sqrt(x, dtype=np.float32)).astype(np.float16)
    return np.reciprocal(np.sqrt(x))


@kernels("Exp2")
@elementwise("exp2_f32")
def exp2(x: Array) -> Array:
    """Compute float32 in float64: np.exp2 is inexact for some integers, such as 127."""
    if x.dtype != np.float32:
        return np.exp2(x)
    y = np.empty_like(x)
    return np.exp2(x, out=y, dtype=np.float64, casting="same_kind")


@kernels("Expm1")
@elementwise("expm1_f32")
def expm1(x: Array) -> Array:
    """Correct np.expm1 for complex infinities, and turn real parts of -0 into 0."""
    y: Array = np.expm1(x, out=np.empty_like(x))
    if x.dtype.kind == "c":
        y.real += 0.0
        odd = ~(np.isfinite(x) & np.isfinite(y))
        np.copyto(y, np.exp(x) - 1 if odd.any() else y, where=odd)
    return y


@kernels("Log")
@elementwise("log_f32")
def log(x: Array) -> Array:
    """Compute float32 in float64: np.log is off by up to 4 ulp."""
    if x.dtype != np.float32:
        return np.log(x)
    y = np.empty_like(x)
    return np.log(x, out=y, dtype=np.float64, casting="same_kind")


@kernels("Log1p")
@elementwise("log1p_f32")
def log1p(x: Array) -> Array:
    """Use a formula for complex numbers: np.log1p is inaccurate for them near 0."""
    if x.dtype.kind != "c":
        return np.log1p(x)
    a, b = x.real, x.imag
    y = np.empty(x.shape, x.dtype)
    near = 0.5 * np.log1p(a * (2 + a) + b * b)
    y.real = np.where(np.abs(x) < 0.5, near, np.log(np.hypot(1 + a, b)))
    y.imag = np.arctan2(b, 1 + a)
    return y


BLOCK_ELEMENTS = 1 << 15  # a block stays in the cache for about fifty passes


def by_blocks(function: Callable[[Array, Array], None]) -> Callable[[Array], Array]:
    """Return a kernel that calls ``function(block, out)`` for each block.

    float16 is computed in float32.
    """

    def kernel(x: Array) -> Array:
        if x.dtype == np.float16:
            return kernel(x.astype(np.float32)).astype(np.float16)
        y = np.empty(x.shape, x.dtype)
        flat = x.reshape(-1)
        out = y.reshape(-1)
        for at in range(0, flat.size, BLOCK_ELEMENTS):
            function(flat[at : at + BLOCK_ELEMENTS], out[at : at + BLOCK_ELEMENTS])
        return y

    return kernel


def _write_erf(x: Array, out: Array) -> None:
    """Write erf, within 1 ulp in float64 and 2 ulp in float32."""
    inner_terms, outer_terms, end = erf_polynomials(x.dtype)
    bits_type = np.dtype(f"i{x.itemsize}")
    a = np.abs(x)
    near = a < 1
    if near.any():
        inner = _polynomial(inner_terms, x * x)
        inner *= x
        np.add(inner, x, out=out)
    if near.all():
        return
    np.minimum(a, end, out=a)
    outer = np.exp(_polynomial(outer_terms, a))
    np.subtract(1, outer, out=outer)
    np.copysign(outer, x, out=outer)
    # Select by bit operations: where() branches, and is ten times slower if half of the
    # branches are mispredicted.
    mask = near.astype(bits_type)
    np.negative(mask, out=mask)
    bits = outer.view(bits_type)
    y = out.view(bits_type)
    y ^= bits
    y &= mask
    y ^= bits


kernels["Erf"] = elementwise("erf_f32")(by_blocks(_write_erf))


@by_blocks
def _erfc(x: Array, out: Array) -> None:
    """Compute float32 in float64, because np.exp of float32 is off by 2 ulp."""
    a = np.abs(x, dtype=np.float64)
    y = times_gaussian(*scaled_erfc(a, x.dtype), a, 1.0)
    np.copyto(out, np.where(x < 0, 2 - y, y), casting="same_kind")


kernels["Erfc"] = elementwise("erfc_f32")(_erfc)


def times_gaussian(y: Array, correction: Array, a: Array, factor: float) -> Array:
    """Return ``y · (1 + correction) · e^(-factor · a²)`` in float64.

    The square is computed to twice the precision.
    """
    a = np.minimum(a, 40.0)  # e^(-40²/2) is 0
    c = a.astype(np.float32).astype(np.float64)
    y = y + y * (np.expm1((c - a) * (c + a) * factor) + correction)
    y *= np.exp(c * c * -factor)
    return y


def scaled_erfc(a: Array, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Return y and c with ``e^(a²) · erfc(a) = y · (1 + c)`` for ``a >= 0``.

    All are float64; ``dtype`` determines the accuracy of the polynomial.
    """
    terms, middle, offset, end = erfc_polynomial(dtype)
    a = np.minimum(a, end)
    divisor = a + offset
    part = divisor - a
    lost = (a - (divisor - part)) + (offset - part)
    y = _polynomial(terms, (a - middle) / (a + middle))
    y /= divisor
    return y, -lost / divisor


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    y = x * coefficients[0]
    for c in coefficients[1:-1]:
        y += c
        y *= x
    y += coefficients[-1]
    return y
