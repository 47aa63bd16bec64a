"""Functions of each element: mathematics, rounding, and parts of complex numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import plugrad as pg
from plugrad import Tensor

from ..core.variables import cast, convert_to_tensor, floating

Op = Callable[..., Tensor]
UNSIGNED = ("bool", "uint8", "uint16", "uint32", "uint64")


def _of_floats(op: Op) -> Op:
    """Return ``op`` for an argument that is converted to a floating dtype."""

    def call(x: Any) -> Tensor:
        return op(floating(x))

    call.__doc__ = f"Return ``plugrad.{op.__name__}``; integers become floating."
    return call


# --- mathematics -----------------------------------------------------------------

arccos = _of_floats(pg.acos)
arccosh = _of_floats(pg.acosh)
arcsin = _of_floats(pg.asin)
arcsinh = _of_floats(pg.asinh)
arctan = _of_floats(pg.atan)
arctanh = _of_floats(pg.atanh)
cos = _of_floats(pg.cos)
cosh = _of_floats(pg.cosh)
exp = _of_floats(pg.exp)
exp2 = _of_floats(pg.exp2)
expm1 = _of_floats(pg.expm1)
fabs = _of_floats(pg.abs)
log = _of_floats(pg.log)
log10 = _of_floats(pg.log10)
log1p = _of_floats(pg.log1p)
log2 = _of_floats(pg.log2)
reciprocal = _of_floats(pg.reciprocal)
sin = _of_floats(pg.sin)
sinh = _of_floats(pg.sinh)
sqrt = _of_floats(pg.sqrt)
tan = _of_floats(pg.tan)
tanh = _of_floats(pg.tanh)


def absolute(x: Any) -> Tensor:
    """Return ``|x|``."""
    x = convert_to_tensor(x)
    return x if x.dtype.name in UNSIGNED else pg.abs(x)


abs = absolute


def negative(x: Any) -> Tensor:
    """Return ``-x``."""
    return pg.negative(convert_to_tensor(x))


def square(x: Any) -> Tensor:
    """Return ``x²``; for bool, as integers."""
    x = convert_to_tensor(x)
    return pg.square(cast(x, "int32") if x.dtype == pg.bool else x)


def sign(x: Any) -> Tensor:
    """Return -1, 0 or 1."""
    x = convert_to_tensor(x)
    return pg.sign(cast(x, "int32") if x.dtype == pg.bool else x)


def deg2rad(x: Any) -> Tensor:
    """Return degrees as radians."""
    return floating(x) * (math.pi / 180)


def rad2deg(x: Any) -> Tensor:
    """Return radians as degrees."""
    return floating(x) * (180 / math.pi)


# --- rounding --------------------------------------------------------------------

ceil = _of_floats(pg.ceil)
floor = _of_floats(pg.floor)


def trunc(x: Any) -> Tensor:
    """Return ``x`` without its fraction; integers and bool as they are."""
    x = convert_to_tensor(x)
    return x if x.dtype.kind in "biu" else pg.trunc(x)


def round(x: Any, decimals: int = 0) -> Tensor:
    """Return ``x`` rounded to a number of decimals, halves to even."""
    x = convert_to_tensor(x)
    if x.dtype == pg.bool:
        x = cast(x, "int32")
    if x.dtype.kind in "iu":
        return x if decimals >= 0 else cast(_rounded(floating(x), decimals), x.dtype)
    return _rounded(x, decimals)


def _rounded(x: Tensor, decimals: int) -> Tensor:
    if decimals == 0:
        return pg.round(x)
    scale = 10.0**decimals
    return pg.round(x * scale) / scale


# --- properties ------------------------------------------------------------------


def _property(op: Op, of_integers: bool) -> Op:
    """Return a property of floating numbers, which is constant for all others."""

    def call(x: Any) -> Tensor:
        x = convert_to_tensor(x)
        if x.dtype.kind in "biu":
            return pg.full(x.shape, of_integers, dtype="bool")
        return op(x)

    call.__doc__ = f"Return ``plugrad.{op.__name__}``."
    return call


isfinite = _property(pg.isfinite, True)
isinf = _property(pg.isinf, False)
isnan = _property(pg.isnan, False)


def isposinf(x: Any) -> Tensor:
    """Return whether each element is positive infinity."""
    x = floating(x)
    return pg.equal(x, math.inf)


def isneginf(x: Any) -> Tensor:
    """Return whether each element is negative infinity."""
    x = floating(x)
    return pg.equal(x, -math.inf)


# --- complex numbers -------------------------------------------------------------


def _is_complex(x: Tensor) -> bool:
    return x.dtype.kind == "c"


def angle(x: Any) -> Tensor:
    """Return the angle of complex numbers; 0 or π for real numbers."""
    return pg.angle(floating(x))


def conjugate(x: Any) -> Tensor:
    """Return the complex conjugate."""
    x = convert_to_tensor(x)
    return pg.conj(x) if _is_complex(x) else x


conj = conjugate


def real(x: Any) -> Tensor:
    """Return the real part."""
    x = convert_to_tensor(x)
    return pg.real(x) if _is_complex(x) else x


def imag(x: Any) -> Tensor:
    """Return the imaginary part; 0 for real numbers."""
    x = convert_to_tensor(x)
    return pg.imag(x) if _is_complex(x) else pg.zeros_like(x)


def isreal(x: Any) -> Tensor:
    """Return whether the imaginary part is zero."""
    x = convert_to_tensor(x)
    if _is_complex(x):
        return pg.equal(pg.imag(x), 0.0)
    return pg.full(x.shape, True, dtype="bool")
