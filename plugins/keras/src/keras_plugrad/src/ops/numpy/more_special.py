"""Special functions, windows, ranges of numbers, and views of bits."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import plugrad as pg
from plugrad import Tensor

from keras_plugrad.src.keras_names import (
    config,
    result_type,
    standardize_dtype,
    vectorize_impl,
)

from ..core.variables import (
    PYTHON_NUMBERS,
    convert_to_tensor,
    dtype_of,
    floating,
    promoted,
    with_own_dtype,
)

BORDER = 8.0  # up to here the power series of the Bessel function is summed
TERMS = {"float32": (15, 8), "float64": (23, 22)}  # of its two series


def _in_floats(dtype: str) -> str:
    """Return the floating dtype in which NumPy computes with integers of ``dtype``."""
    if dtype == "int64":
        return "float64"
    return str(config.floatx()) if "int" in dtype else dtype


def _computing(dtype: str) -> str:
    """Return ``dtype``, or float32 if it is narrower."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def gcd(x1: Any, x2: Any) -> Tensor:
    """Return the greatest common divisors."""
    return pg.gcd(*promoted(x1, x2))


def lcm(x1: Any, x2: Any) -> Tensor:
    """Return the least common multiples."""
    return pg.lcm(*promoted(x1, x2))


def fmax(x1: Any, x2: Any) -> Tensor:
    """Return the greater of two numbers; NaN only where both are NaN."""
    return pg.fmax(*promoted(x1, x2))


def fmin(x1: Any, x2: Any) -> Tensor:
    """Return the smaller of two numbers; NaN only where both are NaN."""
    return pg.fmin(*promoted(x1, x2))


def fmod(x1: Any, x2: Any) -> Tensor:
    """Return the remainder of a division, with the sign of the dividend."""
    a, b = promoted(x1, x2)
    if a.dtype.name == "bool":
        return pg.fmod(pg.astype(a, "int32"), pg.astype(b, "int32"))
    return pg.fmod(a, b)


def hypot(x1: Any, x2: Any) -> Tensor:
    """Return the hypotenuses of right triangles with these legs."""
    a, b = _promoted_in_floats(x1, x2)
    return pg.hypot(a, b)


def heaviside(x1: Any, x2: Any) -> Tensor:
    """Return 0 where ``x1`` is negative, 1 where it is positive, else ``x2``."""
    a, b = _promoted_in_floats(x1, x2)
    result = pg.where(a == 0, b, pg.astype(a > 0, b.dtype))
    return pg.where(a != a, a, result)


def _promoted_in_floats(x1: Any, x2: Any) -> list[Tensor]:
    """Return promoted tensors; integers become floating as in NumPy."""
    given = promoted(x1, x2)
    dtype = _in_floats(given[0].dtype.name)
    return [convert_to_tensor(x, dtype=dtype) for x in given]


def copysign(x1: Any, x2: Any) -> Tensor:
    """Return the magnitudes of ``x1`` with the signs of ``x2``."""
    return pg.copysign(*promoted(x1, x2, to=(float,)))


def divide_no_nan(x1: Any, x2: Any) -> Tensor:
    """Return quotients, and 0 where the divisor is 0."""
    return pg.divide_no_nan(*promoted(x1, x2, to=(float,)))


def float_power(x1: Any, x2: Any) -> Tensor:
    """Return powers, computed with floating-point numbers."""
    return pg.pow(*promoted(x1, x2, to=(float,)))


def logaddexp(x1: Any, x2: Any) -> Tensor:
    """Return ``log(e^x1 + e^x2)`` without overflow."""
    return pg.logaddexp(*promoted(x1, x2, to=(float,)))


def logaddexp2(x1: Any, x2: Any) -> Tensor:
    """Return ``log2(2^x1 + 2^x2)`` without overflow."""
    a, b = promoted(x1, x2, to=(float,))
    are_equal = a == b  # may be infinite, so that their difference is NaN
    gap = pg.where(are_equal, 0.0, a - b)
    distinct = pg.maximum(a, b) + pg.log1p(pg.exp2(-pg.abs(gap))) / math.log(2)
    return pg.where(are_equal, a / 2 + b / 2 + 1, distinct)


def nextafter(x1: Any, x2: Any) -> Tensor:
    """Return the number next to ``x1`` in the direction of ``x2``."""
    return pg.nextafter(*promoted(x1, x2, to=(float,)))


def signbit(x: Any) -> Tensor:
    """Return where the sign bit is set."""
    return pg.signbit(convert_to_tensor(x))


def isin(x1: Any, x2: Any, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Return where the elements of ``x1`` are in ``x2``, or are not."""
    return pg.isin(*promoted(x1, x2), invert=invert)


def ldexp(x1: Any, x2: Any) -> Tensor:
    """Return ``x1 · 2^x2``; ``x2`` contains integers."""
    dtype = promoted(x1, x2, to=(float,))[0].dtype.name
    wide = _computing(dtype)
    exponent = convert_to_tensor(x2)
    if "float" in exponent.dtype.name or "complex" in exponent.dtype.name:
        raise TypeError(f"x2 has the dtype {exponent.dtype}: pass integers")
    limit = 3 * (1023 if wide == "float64" else 127)
    left = pg.clip(pg.astype(exponent, "int32"), -limit, limit)
    y = convert_to_tensor(x1, dtype=wide)
    for parts in (3, 2, 1):  # 2^x2 alone might overflow where the product does not
        part = pg.floor_divide(left, parts)
        y = y * pg.exp2(pg.astype(part, wide))
        left = left - part
    return pg.astype(y, dtype)


def cbrt(x: Any) -> Tensor:
    """Return real cube roots; the derivative at 0, which is infinite, counts as 0."""
    x = convert_to_tensor(x)
    name = x.dtype.name
    x = pg.astype(x, str(config.floatx()) if name == "bool" else _in_floats(name))
    is_own_root = pg.logical_or(x == 0, pg.isinf(x))
    size = pg.where(is_own_root, 1.0, pg.abs(x))
    root = pg.copysign(_cube_root(size), x)
    return pg.where(is_own_root, pg.stop_gradient(x), root)


def _cube_root(x: Tensor) -> Tensor:
    """Return the cube roots of positive numbers; one step of Newton's method rounds."""
    y = pg.exp(pg.log(x) / 3)
    return y - (y - x / (y * y)) / 3


def sinc(x: Any) -> Tensor:
    """Return ``sin(πx) / (πx)``, and 1 for 0."""
    y = floating(x) * math.pi
    square = y * y
    is_small = pg.abs(y) < 0.01
    series = 1 - square / 6 * (1 - square / 20)
    safe = pg.where(is_small, 1.0, y)
    return pg.where(is_small, series, pg.sin(safe) / safe)


def i0(x: Any) -> Tensor:
    """Return the modified Bessel function of the first kind of order 0."""
    x = convert_to_tensor(x)
    dtype = x.dtype.name
    if dtype in ("int64", "float64"):
        dtype = "float64"
    elif dtype not in ("bfloat16", "float16"):
        dtype = str(config.floatx())
    factor, exponent = _bessel(pg.astype(x, _computing(dtype)))
    half = pg.exp(exponent / 2)  # e^x alone would overflow before the product does
    y = pg.where(pg.isinf(exponent), exponent, factor * half * half)
    return pg.astype(y, dtype)


def _bessel(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return f and n for which the Bessel function of order 0 is ``f · e^n``.

    Near 0, it is the power series of x²/4, and n is 0. Elsewhere n is ``|x|``, and f
    is a Chebyshev series of 1 / ``|x|``, divided by a square root.
    """
    few, many = TERMS["float64" if x.dtype.name == "float64" else "float32"]
    is_small = pg.abs(x) <= BORDER
    square = pg.where(is_small, x * x / 4, 0.0)
    near = pg.zeros_like(square)
    for k in reversed(range(few)):
        near = near * square + 1 / math.factorial(k) ** 2
    size = pg.where(is_small, BORDER, pg.abs(x))
    t = 2 * BORDER / size - 1
    after, here = pg.zeros_like(t), pg.zeros_like(t)
    first, *others = _bessel_series(many)
    for coefficient in reversed(others):
        here, after = 2 * t * here - after + coefficient, here
    far = (t * here - after + first) / pg.sqrt(size)
    return pg.where(is_small, near, far), pg.where(is_small, 0.0, size)


@functools.cache
def _bessel_series(terms: int) -> list[float]:
    """Return the Chebyshev series of ``I₀(x) · e^-x · √x`` in ``2 BORDER / x - 1``."""
    series: list[float] = np.polynomial.chebyshev.chebinterpolate(
        _scaled_bessel, terms - 1
    ).tolist()
    return series


def _scaled_bessel(t: Any) -> Any:
    """Return ``I₀(x) · e^-x · √x`` for NumPy arrays, from ``2 BORDER / x - 1``."""
    x = 2 * BORDER / (t + 1)
    finite = np.minimum(x, 500)
    near = np.i0(finite) * np.exp(-finite) * np.sqrt(finite)
    term, far = np.ones_like(x), np.ones_like(x)
    for k in range(1, 8):  # the asymptotic series
        term = term * (2 * k - 1) ** 2 / (8 * k * x)
        far = far + term
    return np.where(x < 500, near, far / math.sqrt(2 * math.pi))


def bartlett(x: Any) -> Tensor:
    """Return the triangular window with this number of elements."""
    return _window(pg.signal.bartlett_window, x)


def blackman(x: Any) -> Tensor:
    """Return the Blackman window with this number of elements."""
    return _window(pg.signal.blackman_window, x)


def hamming(x: Any) -> Tensor:
    """Return the Hamming window with this number of elements."""
    return _window(pg.signal.hamming_window, x)


def hanning(x: Any) -> Tensor:
    """Return the Hann window with this number of elements."""
    return _window(pg.signal.hann_window, x)


def kaiser(x: Any, beta: Any) -> Tensor:
    """Return the Kaiser window with this number of elements."""
    n = _integer(x)
    dtype = str(config.floatx())
    wide = _computing(dtype)
    t = np.linspace(-1, 1, n) if n > 1 else np.zeros(n)
    beta = convert_to_tensor(beta, dtype=wide)
    above, at = _bessel(beta * convert_to_tensor(np.sqrt(1 - t * t), dtype=wide))
    below, end = _bessel(beta)
    return pg.astype(above / below * pg.exp(at - end), dtype)


def _window(function: Callable[..., Tensor], x: Any) -> Tensor:
    """Return a symmetric window in Keras' default dtype."""
    return function(_integer(x), periodic=False, dtype=config.floatx())


def _integer(x: Any) -> int:
    """Return a number of elements, which a tensor may contain, as a Python integer."""
    return x if isinstance(x, int) else int(convert_to_tensor(x).numpy().item())


def linspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """Return evenly spaced numbers, and their distance if ``retstep``."""
    n = _integer(num)
    dtype = _range_dtype(start, stop, dtype)
    points = _spread(start, stop, n, endpoint, dtype, axis, _evenly)
    if not retstep:
        return points
    gaps = n - 1 if endpoint else n
    first, last = _ends(start, stop, dtype)
    step = (last - first) / gaps if gaps > 0 else (last - first) * math.nan
    kind = str(config.floatx()) if "int" in dtype else dtype
    return points, convert_to_tensor(step, dtype=kind)


def logspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    base: Any = 10,
    dtype: Any = None,
    axis: int = 0,
) -> Tensor:
    """Return ``base`` to the power of evenly spaced numbers."""

    def between(first: Any, last: Any, t: Any) -> Any:
        exponents = _evenly(first, last, t)
        if isinstance(exponents, Tensor):
            return pg.pow(convert_to_tensor(base, dtype=exponents.dtype), exponents)
        return np.power(float(base), exponents)

    dtype = _range_dtype(start, stop, dtype)
    return _spread(start, stop, _integer(num), endpoint, dtype, axis, between)


def geomspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    dtype: Any = None,
    axis: int = 0,
) -> Tensor:
    """Return numbers with equal ratios."""

    def between(first: Any, last: Any, t: Any) -> Any:
        return first * (last / first) ** t

    dtype = _range_dtype(start, stop, dtype)
    return _spread(start, stop, _integer(num), endpoint, dtype, axis, between)


def _evenly(first: Any, last: Any, t: Any) -> Any:
    """Return numbers between two ends, both of which are exact."""
    where: Any = pg.where if isinstance(t, Tensor) else np.where
    return where(t == 1, last, first + (last - first) * t)


def _range_dtype(start: Any, stop: Any, dtype: Any) -> str:
    """Return the dtype of a range of numbers."""
    if dtype is not None:
        return str(standardize_dtype(dtype))
    kinds = [dtype_of(with_own_dtype(x)) for x in (start, stop)]
    return str(result_type(*kinds, float))


def _ends(start: Any, stop: Any, dtype: str) -> tuple[Any, Any]:
    """Return both ends: numbers if they are, else tensors of at least 32 bits."""
    if isinstance(start, PYTHON_NUMBERS) and isinstance(stop, PYTHON_NUMBERS):
        return np.multiply(start, 1.0), np.multiply(stop, 1.0)
    is_wide = dtype in ("float64", "int64", "uint64")
    wide = dtype if "complex" in dtype else "float64" if is_wide else "float32"
    return convert_to_tensor(start, dtype=wide), convert_to_tensor(stop, dtype=wide)


def _spread(
    start: Any,
    stop: Any,
    n: int,
    endpoint: bool,
    dtype: str,
    axis: int,
    between: Callable[[Any, Any, Any], Any],
) -> Tensor:
    """Return ``between(start, stop, t)`` for t from 0 to 1, along a new axis."""
    t: Any = np.arange(n) / max(n - 1 if endpoint else n, 1)
    first, last = _ends(start, stop, dtype)
    if isinstance(first, Tensor):
        t = convert_to_tensor(t, dtype=first.dtype)
        first, last = pg.broadcast_arrays(first, last)
        first, last = pg.expand_dims(first, axis=-1), pg.expand_dims(last, axis=-1)
    values = between(first, last, t)
    if "int" in dtype:
        values = pg.floor(values) if isinstance(values, Tensor) else np.floor(values)
    return pg.moveaxis(convert_to_tensor(values, dtype=dtype), -1, axis)


def view(x: Any, dtype: Any = None) -> Tensor:
    """Return the bits of ``x`` as elements of another dtype; no gradient flows."""
    x = convert_to_tensor(x)
    name = x.dtype.name if dtype is None else standardize_dtype(dtype)
    if name == x.dtype.name:
        return x
    if name == "bool":
        return view(x, "uint8") != 0
    if x.dtype.name == "bool":
        x = pg.astype(x, "uint8")
    x = pg.stop_gradient(x)
    old, new = x.dtype.itemsize, getattr(pg, name).itemsize
    if old == new:
        return pg.bitcast(x, name)
    if x.ndim == 0 or x.shape[-1] * old % new:
        raise ValueError(
            f"a tensor of shape {x.shape} and dtype {x.dtype} cannot be viewed as "
            f"{name}: pass one with a multiple of {new} bytes along its last axis"
        )
    rows = x.shape[:-1]
    if old < new:
        return pg.bitcast(pg.reshape(x, (*rows, -1, new // old)), name)
    return pg.reshape(pg.bitcast(x, name), (*rows, x.shape[-1] * old // new))


def vectorize(
    pyfunc: Callable[..., Any], *, excluded: Any = None, signature: str | None = None
) -> Callable[..., Any]:
    """Return a function that calls ``pyfunc`` for all elements of its arguments."""
    function: Callable[..., Any] = vectorize_impl(
        pyfunc, pg.vmap, excluded=excluded, signature=signature
    )
    return function


def slogdet(x: Any) -> tuple[Tensor, Tensor]:
    """Return the signs and the logarithms of the magnitudes of determinants."""
    x = floating(x)
    found = pg.linalg.slogdet(pg.astype(x, _computing(x.dtype.name)))
    return pg.astype(found.sign, x.dtype), pg.astype(found.logabsdet, x.dtype)
