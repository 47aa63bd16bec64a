"""Element-wise ops of two arguments.

Kernels: ``Add AddN Atan2 FloorDiv Hypot Maximum Minimum Mod Multiply Pow RealDiv
SquaredDifference Sub``. All but AddN broadcast. The engine sums cotangents down to the
shapes of the inputs, so the gradients here need not do so.

Contents: conversion to floating dtypes; sums and products; division; powers; maximum
and minimum; angles, lengths, and logarithms of sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from plugrad._src.engine.dispatch import run
from plugrad._src.engine.tape import alias
from plugrad._src.registry.contract import (
    Kernel,
    broadcasted,
    decomposition,
    gradients,
    one_shape,
)
from plugrad._src.tensor.arguments import misfit
from plugrad._src.tensor.dtypes import dtype_kind
from plugrad._src.tensor.tensor import Tensor, TensorLike

from . import _convert, compare, complexes, creation, unary

__all__ = [
    "add",
    "add_n",
    "atan2",
    "divide",
    "divide_no_nan",
    "floor_divide",
    "fmod",
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

# --- conversion to floating dtypes -----------------------------------------------


def floats(
    op: str, a: TensorLike, b: TensorLike, kinds: str = "fc"
) -> tuple[Tensor, Tensor]:
    """Return both arguments in one floating dtype; float32 if both are integers."""
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

    Integers wrap; for bool it is ``a or b``.""",
)


def add(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return ``a + b`` for each pair of elements.

    Integers wrap; for bool, the sum is ``a or b``.

    Args:
        a: A tensor of numbers or bool.
        b: A tensor of numbers or bool; the shapes broadcast. A Python number adopts the
            dtype of the other argument, unless its own kind is higher (such as a float
            with an integer tensor).

    Returns:
        A tensor of the broadcast shape and the promoted dtype.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: An argument contains strings, or no dtype can represent both.
        OverflowError: The dtype of the other argument cannot represent a Python number.

    Example:
        >>> pg.add([[1], [2]], [10, 20])
        Tensor([[11, 21],
                [12, 22]], dtype=int32, backend='cpu')
        >>> pg.add([1, 2], 0.5)
        Tensor([1.5, 2.5], dtype=float32, backend='cpu')

    Source:
        The array API standard.

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
    """Return ``a - b`` for each pair of elements.

    Integers wrap.

    Args:
        a: A tensor of numbers.
        b: A tensor of numbers; the shapes broadcast.

    Returns:
        A tensor of the broadcast shape and the promoted dtype.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: Both are bool, an argument contains strings, or no dtype can
            represent both.

    Example:
        >>> pg.subtract([5.0, 7.0], 2.0)
        Tensor([3., 5.], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    return _convert.elementwise(SUB, a, b, "iufc")


gradients(SUB, a=lambda dy: dy, b=lambda dy: -dy)


MULTIPLY = _broadcasting(
    "Multiply(a: bool | number, b: a)",
    op="multiply",
    doc="""``a · b``.

    Integers wrap; for bool it is ``a and b``.""",
)


def multiply(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return ``a · b`` for each pair of elements.

    Integers wrap; for bool, the product is ``a and b``.

    Args:
        a: A tensor of numbers or bool.
        b: A tensor of numbers or bool; the shapes broadcast.

    Returns:
        A tensor of the broadcast shape and the promoted dtype.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: An argument contains strings, or no dtype can represent both.

    Example:
        >>> pg.multiply([1, 2, 3], [[1], [10]])
        Tensor([[ 1,  2,  3],
                [10, 20, 30]], dtype=int32, backend='cpu')

    Source:
        The array API standard.

    """
    return _convert.elementwise(MULTIPLY, a, b)


gradients(MULTIPLY, a=lambda dy, b: dy * complexes.conjugate(b))
gradients(MULTIPLY, b=lambda dy, a: dy * complexes.conjugate(a))


ADD_N = Kernel(
    "AddN(*xs: bool | number)",
    out=one_shape,
    op="add_n",
    doc="""``xs[0] + xs[1] + …``, in this order; the shapes are equal.

    Integers wrap; for bool it is ``or``. Each partial sum is rounded to the dtype.""",
)


def add_n(xs: Sequence[TensorLike], /) -> Tensor:
    """Return the sum ``xs[0] + xs[1] + …`` of tensors of the same shape.

    The tensors are added in this order. Integers wrap; for bool, the sum is ``or``.

    Args:
        xs: A list or tuple of one or more tensors; they are not broadcast.

    Returns:
        A tensor of their shape and promoted dtype.

    Raises:
        TypeError: ``xs`` is not a list or tuple, or contains tensors of strings.
        ValueError: ``xs`` is empty, or the shapes differ.

    Example:
        >>> pg.add_n([[1.0, 2.0], [10.0, 20.0], [100.0, 200.0]])
        Tensor([111., 222.], dtype=float32, backend='cpu')

    Source:
        The semantics are those of ``tf.addN`` in TensorFlow.js.

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
    """Return ``(a - b)²`` for each pair of elements.

    Integers wrap.

    Args:
        a: A tensor of real numbers.
        b: A tensor of real numbers; the shapes broadcast.

    Returns:
        A tensor of the broadcast shape and the promoted dtype.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: Both are bool, or an argument is complex or contains strings.

    Example:
        >>> pg.squared_difference([1.0, 5.0], [4.0, 3.0])
        Tensor([9., 4.], dtype=float32, backend='cpu')

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

    A real number divided by ±0 is ±inf: inf if both signs are equal; 0 divided by 0
    is NaN.""",
)


def divide(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return the quotient ``a / b`` for each pair of elements.

    A real number divided by zero is ±inf; 0 divided by 0 is NaN.

    Args:
        a: A tensor of numbers or bool.
        b: A tensor of numbers or bool; the shapes broadcast.

    Returns:
        A tensor of the broadcast shape and the promoted dtype; float32 for two
        integers.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: An argument contains strings, or no dtype can represent both.

    Example:
        >>> pg.divide([1, 2, 3], 2)
        Tensor([0.5, 1. , 1.5], dtype=float32, backend='cpu')
        >>> pg.divide([1.0, -1.0, 0.0], 0.0)
        Tensor([ inf, -inf,  nan], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    if type(a) is Tensor and dtype_kind(a.dtype) in "fc":
        other_type: object = b.dtype if type(b) is Tensor else type(b)
        if other_type is a.dtype or other_type is float or other_type is int:
            return _convert.elementwise(REAL_DIV, a, b)
    return run(REAL_DIV, *floats("divide", a, b))


gradients(REAL_DIV, a=lambda dy, b: dy / complexes.conjugate(b))
gradients(
    REAL_DIV, b=lambda dy, b, y: -dy * complexes.conjugate(y) / complexes.conjugate(b)
)


def divide_no_nan(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return ``a / b`` where ``b`` is not 0, and 0 where it is.

    Where ``b`` is 0 both derivatives are 0.

    Args:
        a: A tensor of numbers or bool.
        b: A tensor of numbers or bool; the shapes broadcast.

    Returns:
        A tensor of the broadcast shape and the promoted dtype; float32 for two
        integers.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: An argument contains strings, or no dtype can represent both.

    Example:
        >>> pg.divide_no_nan([6.0, 5.0], [3.0, 0.0])
        Tensor([2., 0.], dtype=float32, backend='cpu')

    Source:
        The semantics are those of ``tf.divNoNan`` in TensorFlow.js.

    """
    a, b = floats("divide_no_nan", a, b)
    null = compare.equal(b, 0)
    return compare.where(null, 0, a / compare.where(null, 1, b))


FLOOR_DIV = _broadcasting(
    "FloorDiv(a: integer | floating, b: a)",
    op="floor_divide",
    doc="""``⌊a / b⌋``, computed from the exact quotient.

    Integers divided by 0 give 0; the least integer divided by -1 wraps to itself. A
    floating number divided by ±0 gives ±inf, and 0 divided by ±0 gives NaN. A finite
    number divided by ±inf gives ±0 with the sign of the quotient; ±inf gives ±inf if
    divided by a finite number, and NaN if divided by ±inf.""",
)


def floor_divide(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return ``⌊a / b⌋``, the greatest whole number ≤ ``a / b``, as ``//`` does.

    The result is computed from the exact quotient: ``1.0 // 0.1`` is 9, because the
    floating-point number 0.1 is slightly greater than a tenth. Integers divided by zero
    give 0. A floating-point number divided by ±0 gives ±inf, and 0 divided by ±0 gives
    NaN. A finite number divided by ±inf gives ±0 with the sign of the quotient; ±inf
    gives ±inf if divided by a finite number, and NaN if divided by ±inf. Both
    derivatives are 0.

    Args:
        a: A tensor of real numbers.
        b: A tensor of real numbers; the shapes broadcast.

    Returns:
        A tensor of the broadcast shape and the promoted dtype; integers stay integers.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: Both are bool, or an argument is complex or contains strings.

    Example:
        >>> pg.floor_divide([7, -7, 7], [2, 2, 0])
        Tensor([ 3, -4,  0], dtype=int32, backend='cpu')

    Source:
        The array API standard.

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
    doc="""``a - b·⌊a / b⌋``, exactly, with the sign of ``b`` even if the result is 0.

    Where ``b`` is 0, the result is 0 for integers and NaN for floating numbers. Where
    ``b`` is ±inf, it is ``a`` for a finite ``a`` of the same sign, ``b`` for a finite
    ``a`` of the other sign, and NaN for an infinite ``a``.""",
)


def remainder(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return ``a - b·⌊a / b⌋``, which has the sign of ``b``, as ``%`` does.

    The result is exact. Where ``b`` is 0, it is 0 for integers and NaN for
    floating-point numbers. Where ``b`` is ±inf, it is ``a`` for a finite ``a`` of the
    same sign, ``b`` for a finite ``a`` of the other sign, and NaN for an infinite
    ``a``. The derivative with respect to ``a`` is 1, and with respect to ``b`` it is
    ``-⌊a / b⌋``.

    Args:
        a: A tensor of real numbers.
        b: A tensor of real numbers; the shapes broadcast.

    Returns:
        A tensor of the broadcast shape and the promoted dtype; integers stay integers.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: Both are bool, or an argument is complex or contains strings.

    Example:
        >>> pg.remainder([7, -7, 7], [3, 3, 0])
        Tensor([1, 2, 0], dtype=int32, backend='cpu')

    Source:
        The array API standard.

    """
    return _convert.elementwise(MOD, a, b, "iuf")


gradients(MOD, a=lambda dy: dy, b=lambda dy, a, b: -dy * run(FLOOR_DIV, a, b))


def fmod(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return ``a - b·trunc(a / b)``, which has the sign of ``a`` even where it is 0.

    The result is exact. Where ``b`` is 0, it is 0 for integers and NaN for
    floating-point numbers. The derivative with respect to ``a`` is 1, and with respect
    to ``b`` it is ``-trunc(a / b)``.

    Args:
        a: A tensor of real numbers.
        b: A tensor of real numbers; the shapes broadcast.

    Returns:
        A tensor of the broadcast shape and the promoted dtype; integers stay integers.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: Both are bool, or an argument is complex or contains strings.

    Example:
        >>> pg.fmod([7, -7, 7], [3, 3, -3])
        Tensor([ 1, -1,  1], dtype=int32, backend='cpu')

    Source:
        ``numpy.fmod``.

    """
    a, b = _convert.promote_all("fmod", a, b)
    if dtype_kind(a.dtype) == "f":
        below = a < 0
        rest = remainder(compare.where(below, -a, a), unary.abs(b))
        rest = compare.where(below, -rest, rest)
        return compare.where(compare.equal(a, rest), a, rest)  # keeps the sign of -0.0
    rest = _convert.elementwise(MOD, a, b, "iuf")
    if dtype_kind(a.dtype) == "u":
        return rest
    other = compare.logical_and(compare.not_equal(rest, 0), (a < 0) != (b < 0))
    return compare.where(other, rest - b, rest)


# --- powers ----------------------------------------------------------------------

POW = _broadcasting(
    "Pow(a: number, b: a)",
    op="pow",
    doc="""``a`` to the power of ``b``; 1 where ``b`` is 0, even if ``a`` is 0 or NaN.

    Floating numbers: NaN where ``a`` is finite and negative and ``b`` is finite and not
    whole; ±0 to a negative power is inf, or -inf for -0.0 and odd ``b``. Integers wrap;
    a negative power of an integer is 0, unless ``a`` is ±1. Within 3 ulp in
    float32.""",
)


def pow(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return ``a`` to the power of ``b``, element by element.

    The result is 1 where ``b`` is 0, even if ``a`` is 0 or NaN. It is NaN where ``a``
    is finite and negative and ``b`` is finite and not whole. Integers wrap. Where both
    are integer tensors and ``b`` is negative, the result is 0 unless ``a`` is ±1. The
    derivative with respect to ``b`` is 0 where ``a`` is negative or 0 and the result is
    finite.

    Args:
        a: The base, a tensor of numbers.
        b: The exponent, a tensor of numbers; the shapes broadcast.

    Returns:
        A tensor of the broadcast shape and the promoted dtype.

    Raises:
        ValueError: ``a`` contains integers and ``b`` is a negative Python integer, or
            the shapes do not broadcast.
        TypeError: Both are bool, or an argument contains strings.

    Example:
        >>> pg.pow([2.0, 3.0, 4.0], [3.0, 0.0, -0.5])
        Tensor([8. , 1. , 0.5], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    if isinstance(b, int | np.integer) and b < 0:
        a = _convert.asarray(a)
        if dtype_kind(a.dtype) not in "fc":
            raise ValueError(
                f"pow: {a.dtype} to the negative power {b} is not an integer; make "
                f"the base or the exponent floating, such as {float(b)}"
            )
    return _convert.elementwise(POW, a, b, "iufc")


def _pow_base(dy: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return ``dy · b · a^(b-1)``; where ``a = b = 0`` it is 0, not NaN."""
    constant = compare.logical_and(compare.equal(b, 0), compare.equal(a * a, 0))
    return dy * complexes.conjugate(b * pow(compare.where(constant, 1, a), b - 1))


def _pow_exponent(dy: Tensor, a: Tensor, y: Tensor) -> Tensor:
    """Return ``dy · y · log a``; 0 where ``y`` is finite and ``a`` has no logarithm."""
    safe = compare.not_equal(a, 0) if dtype_kind(a.dtype) == "c" else a > 0
    return dy * complexes.conjugate(y * unary.log(compare.where(safe, a, 1)))


gradients(POW, a=_pow_base, b=_pow_exponent)


# --- maximum and minimum ---------------------------------------------------------

MAXIMUM = _broadcasting(
    "Maximum(a: bool | integer | floating, b: a)",
    op="maximum",
    doc="""The greater of ``a`` and ``b``; NaN where one is NaN.

    For zeros of different signs the result may be either.""",
)


def maximum(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return the greater of ``a`` and ``b``, element by element.

    The result is NaN where either argument is NaN. The cotangent flows to the argument
    that is returned: to ``a`` if they are equal, and to neither if one is NaN.

    Args:
        a: A tensor of real numbers or bool.
        b: A tensor of real numbers or bool; the shapes broadcast.

    Returns:
        A tensor of the broadcast shape and the promoted dtype.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> pg.maximum([1.0, 5.0], [3.0, 2.0])
        Tensor([3., 5.], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    return _convert.elementwise(MAXIMUM, a, b, "biuf")


gradients(MAXIMUM, a=lambda dy, a, b: compare.where(a >= b, dy, 0))
gradients(MAXIMUM, b=lambda dy, a, b: compare.where(a < b, dy, 0))


MINIMUM = _broadcasting(
    "Minimum(a: bool | integer | floating, b: a)",
    op="minimum",
    doc="""The smaller of ``a`` and ``b``; NaN where one is NaN.

    For zeros of different signs the result may be either.""",
)


def minimum(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return the smaller of ``a`` and ``b``, element by element.

    The result is NaN where either argument is NaN. The cotangent flows to the argument
    that is returned: to ``a`` if they are equal, and to neither if one is NaN.

    Args:
        a: A tensor of real numbers or bool.
        b: A tensor of real numbers or bool; the shapes broadcast.

    Returns:
        A tensor of the broadcast shape and the promoted dtype.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> pg.minimum([1.0, 5.0], [3.0, 2.0])
        Tensor([1., 2.], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    return _convert.elementwise(MINIMUM, a, b, "biuf")


gradients(MINIMUM, a=lambda dy, a, b: compare.where(a <= b, dy, 0))
gradients(MINIMUM, b=lambda dy, a, b: compare.where(a > b, dy, 0))


# --- angles, lengths, and logarithms of sums -------------------------------------

ATAN2 = _broadcasting(
    "Atan2(a: floating, b: a)",
    op="atan2",
    doc="""The angle of the point (x = ``b``, y = ``a``), in [-π, π].

    It has the sign of ``a``. Signed zeros and infinities are treated as by C's
    ``atan2``: (a, b) = (±0, +0) gives ±0, (±0, -0) gives ±π, and two infinities give
    odd multiples of π/4. NaN where one is NaN. Within 3 ulp in float32.""",
)


def atan2(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return the angle of the point (x = ``b``, y = ``a``), in radians in [-π, π].

    Signed zeros and infinities are treated as by C's ``atan2``: (a, b) = (±0, -0) gives
    ±π, and two infinities give odd multiples of π/4. The result is NaN where either
    argument is NaN. Both derivatives at (0, 0) are 0.

    Args:
        a: The y coordinates, a tensor of real numbers.
        b: The x coordinates, a tensor of real numbers; the shapes broadcast.

    Returns:
        A tensor of the broadcast shape and the promoted dtype; float32 for integers.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> pg.atan2([1.0, 1.0, -1.0], [1.0, -1.0, 0.0])
        Tensor([ 0.7854,  2.3562, -1.5708], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    return run(ATAN2, *floats("atan2", a, b, "f"))


def _scaled(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``a/s``, ``b/s`` and ``s``; squares of the quotients do not overflow.

    ``s`` is the greater of |a| and |b|, or 1 where the greater one is 0 or infinite. It
    is treated as a constant, because neither the results that are computed from all
    three nor their derivatives depend on ``s``.
    """
    size = maximum(unary.abs(a), unary.abs(b))
    usual = compare.logical_and(size > 0, size < float("inf"))
    s = alias(compare.where(usual, size, 1))
    return a / s, b / s, s


def _angle(dy: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``dy · a / (a² + b²)`` and ``dy · b / (a² + b²)``."""
    u, v, s = _scaled(a, b)
    squares = u * u + v * v
    over = dy / compare.where(compare.equal(squares, 0), 1, squares)
    return over * u / s, over * v / s


gradients(ATAN2, a=lambda dy, a, b: _angle(dy, a, b)[1])
gradients(ATAN2, b=lambda dy, a, b: -_angle(dy, a, b)[0])


HYPOT = _broadcasting(
    "Hypot(a: floating, b: a)",
    op="hypot",
    doc="""``√(a² + b²)``, without overflow or underflow of the squares.

    inf where one is infinite, even if the other is NaN; else NaN where one is NaN.
    Within 3 ulp.""",
)


def hypot(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return ``√(a² + b²)`` for each pair of elements.

    The squares neither overflow nor underflow. The result is inf where one argument is
    infinite, even if the other one is NaN. Both derivatives at (0, 0) are 0. Where the
    result is infinite, the derivatives are those of ``|a|`` or ``|b|``.

    Args:
        a: A tensor of real numbers.
        b: A tensor of real numbers; the shapes broadcast.

    Returns:
        A tensor of the broadcast shape and the promoted dtype; float32 for integers.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> pg.hypot([3.0, 5.0], [4.0, 12.0])
        Tensor([ 5., 13.], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    return run(HYPOT, *floats("hypot", a, b, "f"))


@decomposition(HYPOT)
def _(a: Tensor, b: Tensor) -> Tensor:
    a_is_inf = unary.isinf(a)
    inf = compare.logical_or(a_is_inf, unary.isinf(b))
    u, v, s = _scaled(*(compare.where(inf, 0, x) for x in (a, b)))
    squares = u * u + v * v
    null = compare.equal(squares, 0)
    length = unary.sqrt(compare.where(null, 1, squares)) * s
    length = compare.where(null, 0, length)
    return compare.where(inf, unary.abs(compare.where(a_is_inf, a, b)), length)


def _unit(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``a`` and ``b`` divided by ``hypot(a, b)``, and zeros at (0, 0).

    Where ``a`` is infinite, the result is (±1, 0); elsewhere, where ``b`` is infinite,
    it is (0, ±1).
    """
    a_is_inf = unary.isinf(a)
    inf = compare.logical_or(a_is_inf, unary.isinf(b))
    u = compare.where(inf, compare.where(a_is_inf, run(unary.SIGN, a), 0), a)
    v = compare.where(inf, compare.where(a_is_inf, 0, run(unary.SIGN, b)), b)
    u, v, _ = _scaled(u, v)
    squares = u * u + v * v
    null = compare.equal(squares, 0)
    length = unary.sqrt(compare.where(null, 1, squares))
    return compare.where(null, 0, u / length), compare.where(null, 0, v / length)


gradients(HYPOT, a=lambda dy, a, b: dy * _unit(a, b)[0])
gradients(HYPOT, b=lambda dy, a, b: dy * _unit(a, b)[1])


def logaddexp(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return ``log(e^a + e^b)`` for each pair of elements, without overflow of ``e^a``.

    Args:
        a: A tensor of real numbers.
        b: A tensor of real numbers; the shapes broadcast.

    Returns:
        A tensor of the broadcast shape and the promoted dtype; float32 for integers.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> pg.logaddexp([0.0, 1.0], [0.0, -1.0])
        Tensor([0.6931, 1.1269], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    a, b = floats("logaddexp", a, b, "f")
    # Of two equal numbers, one counts as high and one as low, so each gets half of dy.
    first = a >= b
    high = compare.where(first, a, b)
    low = compare.where(first, b, a)
    even = compare.logical_and(unary.isinf(high), compare.equal(low, high))
    return high + unary.log1p(unary.exp(compare.where(even, 0, low - high)))
