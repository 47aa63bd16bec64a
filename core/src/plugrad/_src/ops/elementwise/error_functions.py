"""The error function, its complement, and powers ``e^(-x²)``, also used by ``gelu``.

Kernels: ``Erf Erfc``. Integers and bool become float32; complex numbers raise a
TypeError.
"""

from __future__ import annotations

import math
from functools import partial

from plugrad._src.engine.dispatch import run
from plugrad._src.ops.basis import _convert, binary, compare, creation, unary
from plugrad._src.polynomials import erf_polynomials, erfc_polynomial
from plugrad._src.registry.contract import Kernel, decomposition, gradients, same
from plugrad._src.tensor.dtypes import FLOAT32
from plugrad._src.tensor.tensor import Tensor, TensorLike

__all__ = ["erf", "erfc"]
_elementwise = partial(Kernel, out=same)

ERF = _elementwise(
    "Erf(x: floating)",
    op="erf",
    doc="""The error function, ``2/√π · ∫ e^(-t²) dt`` from 0 to ``x``; ±1 for ±inf.

    It is -0.0 for -0.0. Within 3 ulp in float32.""",
)


def erf(x: TensorLike, /) -> Tensor:
    """Return the error function, ``2/√π · ∫ e^(-t²) dt`` from 0 to ``x``; ±1 for ±inf.

    Args:
        x: A tensor of real numbers.

    Returns:
        A tensor with the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> pg.erf([-1.0, 0.0, 1.0])
        Tensor([-0.8427,  0.    ,  0.8427], dtype=float32, backend='cpu')

    """
    return _convert.floating_unary(ERF, x, "f")


@decomposition(ERF)
def _(x: Tensor) -> Tensor:
    inner, outer, end = erf_polynomials(x.dtype)
    a = unary.abs(x)
    far = 1 - run(unary.EXP, unary._polynomial(outer, binary.minimum(a, end)))
    near = x + x * unary._polynomial(inner, x * x)
    return compare.where(a < 1, near, unary.odd_extension(x, far))


def gaussian(x: Tensor, factor: float = 1.0) -> Tensor:
    """Return ``e^(-factor · x²)`` for a factor of 1 or ½, accurate for small results.

    ``_split_square`` splits the exponent into a part from ``c`` and ``rest``. Only
    ``rest`` has a derivative, because ``c`` is piecewise constant.
    """
    if x.dtype.itemsize == 2:
        return creation.cast(gaussian(creation.cast(x, FLOAT32), factor), x.dtype)
    c, rest = _split_square(x, factor)
    return run(unary.EXP, c * c * -factor) * run(unary.EXP, rest)


def times_gaussian(
    y: Tensor, correction: Tensor, x: Tensor, factor: float = 1.0
) -> Tensor:
    """Return ``y · (1 + correction) · e^(-factor · x²)``, for a small correction."""
    c, rest = _split_square(x, factor)
    y = y + y * (run(unary.EXPM1, rest) + correction)
    return y * run(unary.EXP, c * c * -factor)


def _split_square(x: Tensor, factor: float) -> tuple[Tensor, Tensor]:
    """Return c and r such that ``-factor · x² = -factor · c² + r``, with a small r.

    The rounding error of ``x²`` would become a relative error of the exponential.
    Therefore ``x`` is rounded to ``c``, whose square is exact:
    ``x² = c² + (x - c)(x + c)``.
    """
    end = erfc_polynomial(x.dtype).end / math.sqrt(factor)
    steps = 2.0**20 if x.dtype.itemsize == 8 else 256.0
    near = binary.maximum(binary.minimum(x, end), -end)
    c = run(unary.ROUND, near * steps) * (1 / steps)
    return c, (c - near) * (c + near) * factor


def scaled_erfc(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return y and c with ``e^(a²) · erfc(a) = y · (1 + c)``, for ``a >= 0``.

    c corrects the rounding error of the divisor.
    """
    terms, middle, offset, end = erfc_polynomial(a.dtype)
    a = binary.minimum(a, end)
    divisor = a + offset
    part = divisor - a
    lost = (a - (divisor - part)) + (offset - part)
    y = unary._polynomial(terms, (a - middle) / (a + middle)) / divisor
    return y, -lost / divisor


SLOPE_OF_ERF = 2 / math.sqrt(math.pi)  # at 0
gradients(ERF, x=lambda dy, x: dy * (gaussian(x) * SLOPE_OF_ERF))


ERFC = _elementwise(
    "Erfc(x: floating)",
    op="erfc",
    doc="""``1 - erf(x)``, without cancellation for large ``x``; 0 for inf, 2 for -inf.

    Within 3 ulp in float32 and float64, down to the smallest subnormal number. On a
    backend that computes it from ``Exp`` and ``Expm1``, each within 3 ulp, it is within
    8 ulp in float32.""",
)


def erfc(x: TensorLike, /) -> Tensor:
    """Return the complementary error function, ``1 - erf(x)``; 0 for inf, 2 for -inf.

    For large ``x``, the small result still has a small relative error, because it is
    not computed as a difference from 1.

    Args:
        x: A tensor of real numbers.

    Returns:
        A tensor with the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> pg.erfc([-1.0, 0.0, 1.0])
        Tensor([1.8427, 1.    , 0.1573], dtype=float32, backend='cpu')
        >>> pg.erfc(9.0)  # 1 - erf(9) is 0
        Tensor(4.137e-37, dtype=float32, backend='cpu')

    """
    return _convert.floating_unary(ERFC, x, "f")


@decomposition(ERFC)
def _(x: Tensor) -> Tensor:
    if x.dtype.itemsize == 2:
        return creation.cast(run(ERFC, creation.cast(x, FLOAT32)), x.dtype)
    y = times_gaussian(*scaled_erfc(unary.abs(x)), x)
    return compare.where(x < 0, 2 - y, y)


gradients(ERFC, x=lambda dy, x: dy * (gaussian(x) * -SLOPE_OF_ERF))
