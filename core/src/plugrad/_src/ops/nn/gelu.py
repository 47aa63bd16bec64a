"""The Gaussian error linear unit, and its approximation by a hyperbolic tangent.

Kernels: ``Gelu GeluTanh``.
"""

from __future__ import annotations

import math
from functools import partial

from plugrad._src.engine.dispatch import run
from plugrad._src.ops.basis import _convert, binary, compare, creation, unary
from plugrad._src.ops.elementwise import error_functions
from plugrad._src.registry.contract import Kernel, decomposition, gradients, same
from plugrad._src.tensor import arguments
from plugrad._src.tensor.dtypes import FLOAT32
from plugrad._src.tensor.tensor import Tensor, TensorLike

from . import activation

__all__ = ["gelu"]
_elementwise = partial(Kernel, out=same)

GELU = _elementwise(
    "Gelu(x: floating)",
    op="gelu",
    doc="""``x · erfc(-x · √½) · ½``; NaN for -inf.

    Within 6 ulp in float32 and float64, even where the result is small.""",
)
GELU_TANH = _elementwise(
    "GeluTanh(x: floating)",
    op="gelu",
    doc="""``x · sigmoid(u)`` with ``u = √(8/π) · x · (1 + 0.044715 x²)``; NaN for -inf.

    It equals ``x · (tanh(u / 2) · ½ + ½)``, which would suffer from cancellation.
    Within 8 ulp in float32 and float64, even where the result is small.""",
)


def gelu(x: TensorLike, /, *, approximate: bool = False) -> Tensor:
    """Return ``x`` times the normal CDF: ``x/2 · (1 + erf(x / √2))``.

    The relative error is small even where ``x`` is negative and the result is small.

    Args:
        x: A tensor of real numbers.
        approximate: Whether to use ``tanh(√(2/π) · (x + 0.044715 x³))`` instead of the
            error function. The result then differs by at most 5e-4. It is computed as
            ``x · sigmoid(√(8/π) · (x + 0.044715 x³))``, which is mathematically equal.

    Returns:
        A tensor of the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` is complex or contains strings, or ``approximate`` is not a
            bool.

    Example:
        >>> pg.gelu([-1.0, 0.0, 2.0])
        Tensor([-0.1587,  0.    ,  1.9545], dtype=float32, backend='cpu')

    Source:
        D. Hendrycks and K. Gimpel, "Gaussian Error Linear Units (GELUs)", 2016.

    """
    tanh = arguments.flag("gelu", "approximate", approximate)
    return run(GELU_TANH if tanh else GELU, _convert.floating("gelu", x, "f"))


ROOT_HALF = math.sqrt(0.5)
DENSITY = 1 / math.sqrt(2 * math.pi)
SLOPE = math.sqrt(8 / math.pi)
CUBE = 0.044715 * SLOPE


@decomposition(GELU)
def _(x: Tensor) -> Tensor:
    if x.dtype.itemsize == 2:
        return creation.cast(run(GELU, creation.cast(x, FLOAT32)), x.dtype)
    y, correction = error_functions.scaled_erfc(unary.abs(x) * ROOT_HALF)
    near = binary.minimum(x, 40)  # inf · 0 is NaN
    tail = error_functions.times_gaussian(near * (y * 0.5), correction, x, 0.5)
    y = compare.where(x < 0, tail, x - tail)
    return compare.where(compare.equal(x, 0), x, y)  # keeps -0.0


def gelu_gradient(dy: Tensor, x: Tensor) -> Tensor:
    near = run(activation.CLIP_BY_VALUE, x, min=-40, max=40)  # inf · 0 is NaN
    normal = run(error_functions.ERFC, x * -ROOT_HALF) * 0.5
    return dy * (normal + near * error_functions.gaussian(x, 0.5) * DENSITY)


# For each itemsize: the number of steps per unit of x, √(8/π), and 0.044715 · √(8/π).
# Each factor is split into a number with few significant bits and a remainder.
_SPLIT = {
    4: (
        8.0,
        (1.59576416015625, 4.96144948071176e-06),
        (0.0703125, 0.0010423162726002487),
    ),
    8: (
        256.0,
        (1.5957691216026433, 3.0874305383944692e-12),
        (0.07135391235351562, 9.039190846237764e-07),
    ),
}


def _exp_gelu_tanh(x: Tensor) -> Tensor:
    """Return ``e^-|u|``, ``u = √(8/π) · (x + 0.044715 x³)``, for ``x`` from ``_limit``.

    A rounding error in ``u`` would become a relative error of the result. Therefore
    ``x`` is rounded to ``c`` and the factors are split, so that the sum of the products
    with ``c`` is exact. The derivative comes from ``rest`` alone, because ``c`` is
    piecewise constant.
    """
    steps, (line, line_rest), (cube, cube_rest) = _SPLIT[x.dtype.itemsize]
    c = run(unary.ROUND, x * steps) * (1 / steps)
    c_cubed = c * c * c
    rest = c * line_rest + c_cubed * cube_rest
    rest = rest + (x - c) * ((x * x + x * c + c * c) * CUBE + SLOPE)
    e = run(unary.EXP, -unary.abs(c * line + c_cubed * cube))
    return e * run(unary.EXP, compare.where(x < 0, rest, -rest))


def _limit(x: Tensor) -> Tensor:
    """Limit ``x`` to the range in which ``e^-|u|`` is not 0."""
    end = 22.0 if x.dtype.itemsize == 8 else 11.0
    return run(activation.CLIP_BY_VALUE, x, min=-end, max=end)


@decomposition(GELU_TANH)
def _(x: Tensor) -> Tensor:
    if x.dtype.itemsize == 2:
        return creation.cast(run(GELU_TANH, creation.cast(x, FLOAT32)), x.dtype)
    e = _exp_gelu_tanh(_limit(x))
    return x * (compare.where(x < 0, e, 1) / (e + 1))


def gelu_tanh_gradient(dy: Tensor, x: Tensor) -> Tensor:
    if x.dtype.itemsize == 2:
        wide = gelu_tanh_gradient(*(creation.cast(t, FLOAT32) for t in (dy, x)))
        return creation.cast(wide, x.dtype)
    near = _limit(x)
    e = _exp_gelu_tanh(near)
    r = 1 / (e + 1)
    low = e * r
    slope = near * ((near * near * (3 * 0.044715) + 1) * SLOPE)
    return dy * (compare.where(x < 0, low, r) + slope * r * low)


gradients(GELU, x=gelu_gradient)
gradients(GELU_TANH, x=gelu_tanh_gradient)
