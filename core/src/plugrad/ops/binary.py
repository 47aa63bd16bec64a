"""Element-wise ops of two arguments.

Kernels: ``Add AddN Atan2 FloorDiv Maximum Minimum Mod Multiply Pow RealDiv
SquaredDifference Sub``. All but AddN broadcast; the engine sums cotangents back, so a
gradient need not.

Map: which dtypes an op takes; sums and products; division; powers; the greater and
the smaller; the plane: angles, lengths, logarithms of sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from plugrad.engine.dispatch import run
from plugrad.engine.tape import alias
from plugrad.registry.contract import (
    Kernel,
    broadcasted,
    decomposition,
    gradients,
    one_shape,
)
from plugrad.tensor.arguments import misfit
from plugrad.tensor.tensor import Tensor, TensorLike

from . import _convert, compare, complexes, creation, unary

__all__ = [
    "add",
    "add_n",
    "atan2",
    "divide",
    "divide_no_nan",
    "floor_divide",
    "hypot",
    "logaddexp",
    "maximum",
    "minimum",
    "multiply",
    "pow",
    "remainder",
    "squared_difference",
    "subtract",
]

# Contracts of two inputs that broadcast.
_broadcasting = partial(Kernel, out=broadcasted, broadcasts=True)

# --- which dtypes ----------------------------------------------------------------


def floats(
    op: str, a: TensorLike, b: TensorLike, kinds: str = "fc"
) -> tuple[Tensor, Tensor]:
    """Return both as floating tensors of one dtype; float32 if both are integers."""
    if isinstance(b, _convert.SCALARS):
        a = _convert.floating(op, a, kinds)
    elif isinstance(a, _convert.SCALARS):
        b = _convert.floating(op, b, kinds)
    a, b = _convert.promote_and_broadcast(op, a, b)
    return _convert.floating(op, a, kinds), _convert.floating(op, b, kinds)


# --- sums and products -----------------------------------------------------------

ADD = _broadcasting(
    "Add(a: bool | number, b: a)",
    op="add",
    doc="""``a + b``.

    Integers wrap; of bool it is ``a or b``.""",
)


def add(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return ``a + b``. Integers wrap; the sum of two bool is ``a or b``.

    As in all ops of two tensors, shapes broadcast, and the dtype is the one in which
    those of ``a`` and ``b`` meet.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: Strings, or no dtype holds both.
        OverflowError: A Python number that the dtype of the tensor cannot hold.

    """
    return _convert.elementwise(ADD, a, b)


gradients(ADD, a=lambda dy: dy, b=lambda dy: dy)


SUB = _broadcasting(
    "Sub(a: number, b: a)",
    op="subtract",
    doc="""``a - b``.

    Integers wrap.""",
)


def subtract(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return ``a - b``. Integers wrap; two bool have no difference (TypeError)."""
    return _convert.elementwise(SUB, a, b, "iufc")


gradients(SUB, a=lambda dy: dy, b=lambda dy: -dy)


MULTIPLY = _broadcasting(
    "Multiply(a: bool | number, b: a)",
    op="multiply",
    doc="""``a · b``.

    Integers wrap; of bool it is ``a and b``.""",
)


def multiply(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return ``a · b``. Integers wrap; the product of two bool is ``a and b``."""
    return _convert.elementwise(MULTIPLY, a, b)


gradients(MULTIPLY, a=lambda dy, b: dy * complexes.conjugate(b))
gradients(MULTIPLY, b=lambda dy, a: dy * complexes.conjugate(a))


ADD_N = Kernel(
    "AddN(*xs: bool | number)",
    out=one_shape,
    op="add_n",
    doc="""``xs[0] + xs[1] + …``, in this order; the shapes are equal.

    Integers wrap; of bool it is ``or``. Each sum is rounded to the dtype.""",
)


def add_n(xs: Sequence[TensorLike], /) -> Tensor:
    """Return the sum ``xs[0] + xs[1] + …`` of tensors of one shape; dtypes as in add.

    Raises:
        TypeError: ``xs`` is no list or tuple, or of strings.
        ValueError: It is empty, or the shapes differ.

    """
    if not isinstance(xs, list | tuple):
        raise TypeError(f"add_n: expected a list of tensors, got {type(xs).__name__}")
    if not xs:
        raise ValueError("add_n: the list is empty; a sum needs at least one tensor")
    tensors = _convert.promote_all("add_n", *xs)
    _convert.numbers("add_n", tensors[0])
    if len({x.shape for x in tensors}) != 1:
        raise misfit("add_n", "shapes differ; use add, which broadcasts", *tensors)
    return run(ADD_N, *tensors)


decomposition(ADD_N, lambda *xs: sum(xs[1:], xs[0]))
gradients(ADD_N, xs=lambda dy, xs_spec: [dy] * len(xs_spec))


SQUARED_DIFFERENCE = _broadcasting(
    "SquaredDifference(a: integer | floating, b: a)",
    op="squared_difference",
    doc="""``(a - b) · (a - b)``.

    Integers wrap.""",
)


def squared_difference(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return ``(a - b)²``, element by element.

    Integers wrap; there is none of two bool, nor of complex numbers (TypeError).
    """
    return _convert.elementwise(SQUARED_DIFFERENCE, a, b, "iuf")


decomposition(SQUARED_DIFFERENCE, lambda a, b: unary.square(a - b))
gradients(SQUARED_DIFFERENCE, a=lambda dy, a, b: dy * ((a - b) * 2))
gradients(SQUARED_DIFFERENCE, b=lambda dy, a, b: dy * ((b - a) * 2))


# --- division --------------------------------------------------------------------

REAL_DIV = _broadcasting(
    "RealDiv(a: inexact, b: a)",
    op="divide",
    doc="""``a / b``.

    A real number by ±0 is ±inf, with the product of the signs; 0 by 0 is NaN.""",
)


def divide(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return ``a / b``; integers give float32. Division by zero gives ±inf or NaN."""
    if type(a) is Tensor and a.dtype.kind in "fc":
        beside = b.dtype if type(b) is Tensor else type(b)
        if beside is a.dtype or beside is float or beside is int:
            return _convert.elementwise(REAL_DIV, a, b)
    return run(REAL_DIV, *floats("divide", a, b))


gradients(REAL_DIV, a=lambda dy, b: dy / complexes.conjugate(b))
gradients(
    REAL_DIV, b=lambda dy, b, y: -dy * complexes.conjugate(y) / complexes.conjugate(b)
)


def divide_no_nan(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return ``a / b``, and 0 where ``b`` is 0; integers give float32.

    The derivatives in both are 0 there.
    """
    a, b = floats("divide_no_nan", a, b)
    null = compare.equal(b, 0)
    return compare.where(null, 0, a / compare.where(null, 1, b))


FLOOR_DIV = _broadcasting(
    "FloorDiv(a: integer | floating, b: a)",
    op="floor_divide",
    doc="""``⌊a / b⌋``, of the exact quotient.

    Integers: by 0 it is 0; the least one by -1 wraps to itself. Floating numbers: by ±0
    ±inf, or NaN for 0; by ±inf ±0 with the sign of the quotient; of ±inf by a finite
    number ±inf, by ±inf NaN.""",
)


def floor_divide(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return the greatest whole number that is not above ``a / b``, as ``//``.

    It has the dtype of the arguments. By zero, integers give 0 and floating numbers
    ±inf or NaN. The quotient counts as exact: ``1.0 // 0.1`` is 9, since the double 0.1
    is a little more than a tenth. By ±inf it is ±0, and that of ±inf is ±inf. The
    derivatives are 0.

    Raises:
        TypeError: Two bool, or complex numbers.

    """
    return _convert.elementwise(FLOOR_DIV, a, b, "iuf")


gradients(
    FLOOR_DIV,
    a=lambda dy, a_spec: creation.zeros(a_spec.shape, dtype=a_spec.dtype),
    b=lambda dy, b_spec: creation.zeros(b_spec.shape, dtype=b_spec.dtype),
)


MOD = _broadcasting(
    "Mod(a: integer | floating, b: a)",
    op="remainder",
    doc="""``a - b·⌊a / b⌋``, exactly; with the sign of ``b``, also where it is 0.

    By 0, integers give 0 and floating numbers NaN. By ±inf it is ``a``, or ``b`` where
    the signs differ; of ±inf it is NaN.""",
)


def remainder(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return ``a - b·⌊a / b⌋``, exactly and with the sign of ``b``, as ``%``.

    By zero, integers give 0 and floating numbers NaN. By ±inf it is ``a``, or ``b``
    where the signs differ; that of ±inf is NaN.

    Raises:
        TypeError: Two bool, or complex numbers.

    """
    return _convert.elementwise(MOD, a, b, "iuf")


gradients(MOD, a=lambda dy: dy, b=lambda dy, a, b: -dy * run(FLOOR_DIV, a, b))


# --- powers ----------------------------------------------------------------------

POW = _broadcasting(
    "Pow(a: number, b: a)",
    op="pow",
    doc="""``a`` to the power of ``b``; 1 where ``b`` is 0, also for ``a = 0`` and NaN.

    Floating numbers: NaN where ``a`` is negative and finite and ``b`` finite and not
    whole; ±0 to a negative power is inf, or -inf for -0.0 and odd ``b``. Integers wrap;
    to a negative power they give 0, unless ``a`` is ±1. Within 3 ulp in float32.""",
)


def pow(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return ``a`` to the power of ``b``; ``0^0 = 1``.

    NaN where ``a`` is negative and finite and ``b`` is not whole. Integers wrap, and to
    a negative power give the whole part: 0 unless ``a`` is ±1. The derivative in ``b``
    is 0 where ``a`` is negative or 0 and the power finite.

    Raises:
        ValueError: Integers to the power of a negative Python integer.
        TypeError: Two bool.

    """
    if isinstance(b, int | np.integer) and b < 0:
        a = _convert.asarray(a)
        if a.dtype.kind not in "fc":
            raise ValueError(
                f"pow: {a.dtype} to the negative power {b} is no integer; make the "
                f"base or the exponent floating: {float(b)}"
            )
    return _convert.elementwise(POW, a, b, "iufc")


def _pow_base(dy: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return ``dy · b · a^(b-1)``; where ``a = b = 0`` that is 0, and not 0/0."""
    constant = compare.logical_and(compare.equal(b, 0), compare.equal(a * a, 0))
    return dy * complexes.conjugate(b * pow(a, compare.where(constant, 1, b) - 1))


def _pow_exponent(dy: Tensor, a: Tensor, y: Tensor) -> Tensor:
    """Return ``dy · y · log a``; 0 where ``y`` is finite and ``a`` has no logarithm."""
    safe = compare.not_equal(a, 0) if a.dtype.kind == "c" else a > 0
    return dy * complexes.conjugate(y * unary.log(compare.where(safe, a, 1)))


gradients(POW, a=_pow_base, b=_pow_exponent)


# --- the greater and the smaller -------------------------------------------------

MAXIMUM = _broadcasting(
    "Maximum(a: bool | integer | floating, b: a)",
    op="maximum",
    doc="""The greater of ``a`` and ``b``; NaN where one is.

    Of zeros with both signs either may come out.""",
)


def maximum(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return the greater of ``a`` and ``b``, NaN where one is.

    The cotangent goes to the one returned: of a tie to ``a``, for NaN to neither.
    Complex numbers have no order (TypeError).
    """
    return _convert.elementwise(MAXIMUM, a, b, "biuf")


gradients(MAXIMUM, a=lambda dy, a, b: compare.where(a >= b, dy, 0))
gradients(MAXIMUM, b=lambda dy, a, b: compare.where(a < b, dy, 0))


MINIMUM = _broadcasting(
    "Minimum(a: bool | integer | floating, b: a)",
    op="minimum",
    doc="""The smaller of ``a`` and ``b``; NaN where one is.

    Of zeros with both signs either may come out.""",
)


def minimum(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return the smaller of ``a`` and ``b``, NaN where one is.

    The cotangent goes to the one returned: of a tie to ``a``, for NaN to neither.
    Complex numbers have no order (TypeError).
    """
    return _convert.elementwise(MINIMUM, a, b, "biuf")


gradients(MINIMUM, a=lambda dy, a, b: compare.where(a <= b, dy, 0))
gradients(MINIMUM, b=lambda dy, a, b: compare.where(a > b, dy, 0))


# --- the plane -------------------------------------------------------------------

ATAN2 = _broadcasting(
    "Atan2(a: floating, b: a)",
    op="atan2",
    doc="""The angle of the point (x = ``b``, y = ``a``), in [-π, π].

    It has the sign of ``a``. Signed zeros and infinities are those of C: (±0, +0) gives
    ±0, (±0, -0) gives ±π, two infinities odd multiples of π/4. NaN where one is.
    Within 3 ulp in float32.""",
)


def atan2(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return the angle of the point (x = ``b``, y = ``a``), in radians in [-π, π].

    Integers give float32; complex numbers are a TypeError. The gradient at (0, 0) is 0.
    """
    return run(ATAN2, *floats("atan2", a, b, "f"))


def _scaled(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``a/s, b/s, s``, whose squares neither overflow nor vanish.

    ``s`` is the greater of |a| and |b| as a constant: what is made of all three does
    not depend on it, and derivatives do not either. It is 1 for zeros and infinities.
    """
    size = maximum(unary.abs(a), unary.abs(b))
    usual = compare.logical_and(size > 0, size < float("inf"))
    s = alias(compare.where(usual, size, 1))
    return a / s, b / s, s


def _angle(dy: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``dy`` times ``a`` and ``b`` over ``a² + b²``."""
    u, v, s = _scaled(a, b)
    squares = u * u + v * v
    over = dy / compare.where(compare.equal(squares, 0), 1, squares)
    return over * u / s, over * v / s


gradients(ATAN2, a=lambda dy, a, b: _angle(dy, a, b)[1])
gradients(ATAN2, b=lambda dy, a, b: -_angle(dy, a, b)[0])


def hypot(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return ``√(a² + b²)`` without overflow; integers give float32.

    Infinite where one argument is, even beside NaN. The gradient at (0, 0) is 0. There
    is none of complex numbers (TypeError).
    """
    a, b = floats("hypot", a, b, "f")
    u, v, s = _scaled(a, b)
    squares = u * u + v * v
    null = compare.equal(squares, 0)
    length = unary.sqrt(compare.where(null, 1, squares)) * s
    inf = compare.logical_or(unary.isinf(a), unary.isinf(b))
    return compare.where(inf, float("inf"), compare.where(null, 0, length))


def logaddexp(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return ``log(e^a + e^b)`` without overflow; integers give float32.

    There is none of complex numbers (TypeError).
    """
    a, b = floats("logaddexp", a, b, "f")
    first = a >= b  # each of a tie is one of high and low, so that each has its half
    high, low = compare.where(first, a, b), compare.where(first, b, a)
    even = compare.logical_and(unary.isinf(high), compare.equal(low, high))
    return high + unary.log1p(unary.exp(compare.where(even, 0, low - high)))
