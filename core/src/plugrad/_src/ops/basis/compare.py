"""Comparison, selection and logic, element by element.

Kernels: ``BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Equal Greater GreaterEqual
LeftShift Less LessEqual LogicalAnd LogicalNot LogicalOr LogicalXor NotEqual RightShift
Select``. All broadcast. Bool and integer outputs have no derivative, so only Select has
a gradient. Comparisons declare None as their gradient, so that tapes do not decompose
those that have a decomposition.

Contents: comparisons; ``where`` and ``nonzero``; logic; bits; comparison with a
tolerance.
"""

from __future__ import annotations

from functools import partial
from typing import overload

import numpy as np

from plugrad import geometry
from plugrad._src.engine.dispatch import active, run
from plugrad._src.registry.contract import (
    Kernel,
    broadcasted,
    compared,
    decomposition,
    gradients,
    same,
)
from plugrad._src.tensor.arguments import finite, flag
from plugrad._src.tensor.dtypes import BOOL, DTYPES, INT32, dtype_kind, named
from plugrad._src.tensor.tensor import Tensor, TensorLike

from . import _convert, binary, creation, logic, unary

__all__ = [
    "allclose",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "equal",
    "greater",
    "greater_equal",
    "isclose",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "nonzero",
    "not_equal",
    "where",
]

# Contracts with two inputs that broadcast: ``_predicate`` with a bool output,
# ``_bitwise`` with an output of the inputs' dtype.
_predicate = partial(Kernel, out=compared, broadcasts=True)
_bitwise = partial(Kernel, out=broadcasted, broadcasts=True)

# --- comparisons -----------------------------------------------------------------

EQUAL = _predicate(
    "Equal(a: bool | number | string, b: a)",
    op="equal",
    doc="""Whether ``a = b``; NaN equals nothing, and 0.0 equals -0.0.

    Complex numbers are equal if both parts are; strings if all bytes are.""",
)


def equal(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return whether ``a = b`` for each pair of elements.

    NaN equals nothing, and 0.0 equals -0.0. Complex numbers are equal if both parts are
    equal; strings, if all bytes are.

    Args:
        a: A tensor of numbers, bool or strings.
        b: Strings if ``a`` contains strings, else numbers or bool; the shapes
            broadcast.

    Returns:
        A bool tensor of the broadcast shape.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: One argument contains strings and the other does not, or no dtype can
            represent both.

    Example:
        >>> pg.equal([1.0, 2.0, float("nan")], [1.0, 3.0, float("nan")])
        Tensor([ True, False, False], dtype=bool, backend='cpu')

    Source:
        The array API standard; strings are an extension.

    """
    return _convert.elementwise(EQUAL, a, b, "biufcO")


gradients(EQUAL, a=None, b=None)


NOT_EQUAL = _predicate(
    "NotEqual(a: bool | number | string, b: a)",
    op="not_equal",
    doc="Whether ``a ≠ b``, the opposite of ``Equal``: True where one is NaN.",
)


def not_equal(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return whether ``a ≠ b`` for each pair of elements.

    NaN differs from everything, even from itself. Strings differ if any byte differs.

    Args:
        a: A tensor of numbers, bool or strings.
        b: Strings if ``a`` contains strings, else numbers or bool; the shapes
            broadcast.

    Returns:
        A bool tensor of the broadcast shape.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: One argument contains strings and the other does not, or no dtype can
            represent both.

    Example:
        >>> pg.not_equal([1, 2, 3], 2)
        Tensor([ True, False,  True], dtype=bool, backend='cpu')

    Source:
        The array API standard; strings are an extension.

    """
    return _convert.elementwise(NOT_EQUAL, a, b, "biufcO")


decomposition(NOT_EQUAL, lambda a, b: logical_not(run(EQUAL, a, b)))
gradients(NOT_EQUAL, a=None, b=None)


GREATER = _predicate(
    "Greater(a: bool | integer | floating | string, b: a)",
    op="greater",
    doc="""Whether ``a > b``; False where one is NaN.

    False is less than True; strings are compared byte by byte, as in Python.""",
)


def greater(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return whether ``a > b`` for each pair of elements.

    The result is False where either argument is NaN. False is less than True; strings
    are compared byte by byte.

    Args:
        a: A tensor of real numbers, bool or strings.
        b: Strings if ``a`` contains strings, else numbers or bool; the shapes
            broadcast.

    Returns:
        A bool tensor of the broadcast shape.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: An argument is complex, one contains strings and the other does not,
            or no dtype can represent both.

    Example:
        >>> pg.greater([1.0, 2.0, 3.0], 2.0)
        Tensor([False, False,  True], dtype=bool, backend='cpu')

    Source:
        The array API standard; strings are an extension.

    """
    return _convert.elementwise(GREATER, a, b, "biufO")


decomposition(GREATER, lambda a, b: run(LESS, b, a))
gradients(GREATER, a=None, b=None)


GREATER_EQUAL = _predicate(
    "GreaterEqual(a: bool | integer | floating | string, b: a)",
    op="greater_equal",
    doc="""Whether ``a ≥ b``; False where one is NaN.

    False is less than True; strings are compared byte by byte, as in Python.""",
)


def greater_equal(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return whether ``a ≥ b`` for each pair of elements.

    The result is False where either argument is NaN. False is less than True; strings
    are compared byte by byte.

    Args:
        a: A tensor of real numbers, bool or strings.
        b: Strings if ``a`` contains strings, else numbers or bool; the shapes
            broadcast.

    Returns:
        A bool tensor of the broadcast shape.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: An argument is complex, one contains strings and the other does not,
            or no dtype can represent both.

    Example:
        >>> pg.greater_equal([1.0, 2.0, 3.0], 2.0)
        Tensor([False,  True,  True], dtype=bool, backend='cpu')

    Source:
        The array API standard; strings are an extension.

    """
    return _convert.elementwise(GREATER_EQUAL, a, b, "biufO")


decomposition(GREATER_EQUAL, lambda a, b: run(LESS_EQUAL, b, a))
gradients(GREATER_EQUAL, a=None, b=None)


LESS: Kernel = _predicate(
    "Less(a: bool | integer | floating | string, b: a)",
    op="less",
    doc="""Whether ``a < b``; False where one is NaN.

    False is less than True; strings are compared byte by byte, as in Python.""",
)


def less(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return whether ``a < b`` for each pair of elements.

    The result is False where either argument is NaN. False is less than True; strings
    are compared byte by byte.

    Args:
        a: A tensor of real numbers, bool or strings.
        b: Strings if ``a`` contains strings, else numbers or bool; the shapes
            broadcast.

    Returns:
        A bool tensor of the broadcast shape.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: An argument is complex, one contains strings and the other does not,
            or no dtype can represent both.

    Example:
        >>> pg.less([1.0, 2.0, 3.0], 2.0)
        Tensor([ True, False, False], dtype=bool, backend='cpu')
        >>> pg.less(["apple", "pear"], ["banana", "fig"])
        Tensor([ True, False], dtype=bool, backend='cpu')

    Source:
        The array API standard; strings are an extension.

    """
    return _convert.elementwise(LESS, a, b, "biufO")


gradients(LESS, a=None, b=None)


LESS_EQUAL: Kernel = _predicate(
    "LessEqual(a: bool | integer | floating | string, b: a)",
    op="less_equal",
    doc="""Whether ``a ≤ b``; False where one is NaN.

    False is less than True; strings are compared byte by byte, as in Python.""",
)


def less_equal(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return whether ``a ≤ b`` for each pair of elements.

    The result is False where either argument is NaN. False is less than True; strings
    are compared byte by byte.

    Args:
        a: A tensor of real numbers, bool or strings.
        b: Strings if ``a`` contains strings, else numbers or bool; the shapes
            broadcast.

    Returns:
        A bool tensor of the broadcast shape.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: An argument is complex, one contains strings and the other does not,
            or no dtype can represent both.

    Example:
        >>> pg.less_equal([1.0, 2.0, 3.0], 2.0)
        Tensor([ True,  True, False], dtype=bool, backend='cpu')

    Source:
        The array API standard; strings are an extension.

    """
    return _convert.elementwise(LESS_EQUAL, a, b, "biufO")


# "Not greater" would be True for NaN.
decomposition(LESS_EQUAL, lambda a, b: logical_or(run(LESS, a, b), run(EQUAL, a, b)))
gradients(LESS_EQUAL, a=None, b=None)


# --- where -----------------------------------------------------------------------

SELECT = Kernel(
    "Select(condition: bool, t, e: t)",
    out=lambda condition, t, e: broadcasted(t, e, condition),
    broadcasts=True,
    op="where",
    doc="""``t`` where ``condition`` is True, ``e`` where it is False.

    Values are copied, including signs of zeros, NaN and strings. Elements that are not
    selected do not affect the result, even if they are NaN.""",
)


@overload
def where(condition: TensorLike, /) -> tuple[Tensor, ...]: ...
@overload
def where(condition: TensorLike, x1: TensorLike, x2: TensorLike, /) -> Tensor: ...
def where(
    condition: TensorLike,
    x1: TensorLike | None = None,
    x2: TensorLike | None = None,
    /,
) -> Tensor | tuple[Tensor, ...]:
    """Return ``x1`` where ``condition`` is True, and ``x2`` where it is False.

    The elements are copied, so elements that are not selected do not affect the result,
    even if they are NaN; their cotangents are 0. ``where(condition)`` alone is
    ``nonzero(condition)``, as in NumPy and PyTorch.

    Args:
        condition: A bool tensor.
        x1: A tensor of any dtype.
        x2: A tensor of any dtype; all three shapes broadcast.

    Returns:
        A tensor of the broadcast shape and the promoted dtype of ``x1`` and ``x2``.

    Raises:
        TypeError: ``condition`` is not bool, no dtype can represent ``x1`` and ``x2``,
            or one of them is missing.
        ValueError: The shapes do not broadcast.

    Example:
        >>> x = pg.asarray([-1.0, 2.0, -3.0])
        >>> pg.where(x < 0, 0.0, x)
        Tensor([0., 2., 0.], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    if x1 is None or x2 is None:
        if x1 is x2:
            return nonzero(condition)
        raise TypeError("where: pass x1 and x2, or neither of them")
    if type(condition) is not Tensor:
        condition = _convert.asarray(condition)
    if condition.dtype is not BOOL:
        got = named(condition.dtype)
        raise TypeError(f"where: condition must be bool, got {got}; use x != 0")
    if type(x1) is not Tensor or type(x2) is not Tensor or x1.dtype is not x2.dtype:
        x1, x2 = _convert.promote_and_broadcast("where", x1, x2)
    if len({condition.shape, x1.shape, x2.shape, ()}) > 2:
        geometry.broadcast("where", condition.shape, x1.shape, x2.shape)
    return run(SELECT, condition, x1, x2)


gradients(SELECT, condition=None, t=lambda dy, condition: where(condition, dy, 0))
gradients(SELECT, e=lambda dy, condition: where(condition, 0, dy))


def nonzero(x: TensorLike, /) -> tuple[Tensor, ...]:
    """Return the indices of the elements that are not 0, one tensor for each axis.

    The elements are in row-major order. Their number depends on the values, so ``x`` is
    read on the host.

    Args:
        x: A tensor with at least one axis.

    Returns:
        A tuple of int32 tensors ``[n]``, one for each axis of ``x``.

    Raises:
        ValueError: ``x`` has no axes.

    Example:
        >>> rows, columns = pg.nonzero([[1, 0], [2, 3]])
        >>> rows.tolist(), columns.tolist()
        ([0, 1, 1], [0, 0, 1])

    """
    x = _convert.asarray(x)
    if not x.shape:
        raise ValueError(
            "nonzero: x has rank 0, so its elements have no indices; reshape it to (1,)"
        )
    return tuple([_convert.asarray(i, dtype=INT32) for i in x._values().nonzero()])


# --- logic -----------------------------------------------------------------------


def _logical(kernel: Kernel, a: TensorLike, b: TensorLike) -> Tensor:
    """Run a kernel of two bool arguments; numbers other than 0 count as True."""
    if type(a) is Tensor and type(b) is Tensor and a.dtype is BOOL is b.dtype:
        return _convert.elementwise(kernel, a, b)
    a, b = (_convert.numbers(kernel.op, x) for x in (a, b))
    geometry.broadcast(kernel.op, a.shape, b.shape)
    return run(kernel, creation.cast(a, BOOL), creation.cast(b, BOOL))


LOGICAL_AND = _predicate(
    "LogicalAnd(a: bool, b: a)",
    op="logical_and",
    doc="Whether both are True.",
)


def logical_and(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return whether both ``a`` and ``b`` are True.

    Numbers count as True unless they are 0; NaN is True.

    Args:
        a: A tensor of bool or numbers.
        b: A tensor of bool or numbers; the shapes broadcast.

    Returns:
        A bool tensor of the broadcast shape.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: An argument contains strings.

    Example:
        >>> pg.logical_and([False, False, True, True], [False, True, False, True])
        Tensor([False, False, False,  True], dtype=bool, backend='cpu')

    Source:
        The array API standard; numbers are accepted as in NumPy.

    """
    return _logical(LOGICAL_AND, a, b)


decomposition(LOGICAL_AND, lambda a, b: where(a, b, False))


LOGICAL_OR = _predicate(
    "LogicalOr(a: bool, b: a)",
    op="logical_or",
    doc="Whether one is True, or both.",
)


def logical_or(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return whether ``a`` or ``b`` is True, or both.

    Numbers count as True unless they are 0; NaN is True.

    Args:
        a: A tensor of bool or numbers.
        b: A tensor of bool or numbers; the shapes broadcast.

    Returns:
        A bool tensor of the broadcast shape.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: An argument contains strings.

    Example:
        >>> pg.logical_or([False, False, True, True], [False, True, False, True])
        Tensor([False,  True,  True,  True], dtype=bool, backend='cpu')

    Source:
        The array API standard; numbers are accepted as in NumPy.

    """
    return _logical(LOGICAL_OR, a, b)


decomposition(LOGICAL_OR, lambda a, b: where(a, True, b))


LOGICAL_XOR = _predicate(
    "LogicalXor(a: bool, b: a)",
    op="logical_xor",
    doc="Whether exactly one is True.",
)


def logical_xor(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return whether exactly one of ``a`` and ``b`` is True.

    Numbers count as True unless they are 0; NaN is True.

    Args:
        a: A tensor of bool or numbers.
        b: A tensor of bool or numbers; the shapes broadcast.

    Returns:
        A bool tensor of the broadcast shape.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: An argument contains strings.

    Example:
        >>> pg.logical_xor([False, False, True, True], [False, True, False, True])
        Tensor([False,  True,  True, False], dtype=bool, backend='cpu')

    Source:
        The array API standard; numbers are accepted as in NumPy.

    """
    return _logical(LOGICAL_XOR, a, b)


decomposition(LOGICAL_XOR, lambda a, b: run(NOT_EQUAL, a, b))


LOGICAL_NOT = Kernel(
    "LogicalNot(x: bool)",
    out=same,
    op="logical_not",
    doc="Whether ``x`` is False.",
)


def logical_not(x: TensorLike, /) -> Tensor:
    """Return ``not x`` for each element.

    Numbers count as True unless they are 0; NaN is True.

    Args:
        x: A tensor of bool or numbers.

    Returns:
        A bool tensor with the shape of ``x``.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.logical_not([True, False])
        Tensor([False,  True], dtype=bool, backend='cpu')

    Source:
        The array API standard; numbers are accepted as in NumPy.

    """
    x = _convert.numbers("logical_not", x)
    return _convert.unary(LOGICAL_NOT, creation.cast(x, BOOL))


decomposition(LOGICAL_NOT, lambda x: equal(x, False))


# --- bits ------------------------------------------------------------------------


def _bits(kernel: Kernel, logical: Kernel, a: TensorLike, b: TensorLike) -> Tensor:
    """Run ``kernel`` for two integer arguments, or ``logical`` if both are bool."""
    if type(a) is not Tensor or type(b) is not Tensor or a.dtype is not b.dtype:
        a, b = _convert.promote_and_broadcast(kernel.op, a, b)
    if a.dtype is BOOL:
        return _convert.elementwise(logical, a, b)
    return _convert.elementwise(kernel, a, b, "biu")


BITWISE_AND = _bitwise(
    "BitwiseAnd(a: bool | integer, b: a)",
    op="bitwise_and",
    doc="The bits that are set in both; for bool, ``a and b``.",
)


def bitwise_and(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return the bits that are set in both ``a`` and ``b``.

    For two bool tensors, this is ``logical_and``.

    Args:
        a: A tensor of integers or bool.
        b: A tensor of integers or bool; the shapes broadcast.

    Returns:
        A tensor of the broadcast shape and the promoted dtype.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: An argument is neither integer nor bool.

    Example:
        >>> pg.bitwise_and([0b1100, 0b1010], 0b0110)
        Tensor([4, 2], dtype=int32, backend='cpu')

    Source:
        The array API standard.

    """
    return _bits(BITWISE_AND, LOGICAL_AND, a, b)


BITWISE_OR = _bitwise(
    "BitwiseOr(a: bool | integer, b: a)",
    op="bitwise_or",
    doc="The bits that are set in one or both; for bool, ``a or b``.",
)


def bitwise_or(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return the bits that are set in ``a`` or in ``b``.

    For two bool tensors, this is ``logical_or``.

    Args:
        a: A tensor of integers or bool.
        b: A tensor of integers or bool; the shapes broadcast.

    Returns:
        A tensor of the broadcast shape and the promoted dtype.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: An argument is neither integer nor bool.

    Example:
        >>> pg.bitwise_or([0b1100, 0b1010], 0b0110)
        Tensor([14, 14], dtype=int32, backend='cpu')

    Source:
        The array API standard.

    """
    return _bits(BITWISE_OR, LOGICAL_OR, a, b)


@decomposition(BITWISE_OR)
def _(a: Tensor, b: Tensor) -> Tensor:
    if a.dtype is BOOL:
        return run(LOGICAL_OR, a, b)
    return a + (b - run(BITWISE_AND, a, b))


BITWISE_XOR = _bitwise(
    "BitwiseXor(a: bool | integer, b: a)",
    op="bitwise_xor",
    doc="The bits that are set in just one; for bool, whether just one is True.",
)


def bitwise_xor(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return the bits that are set in exactly one of ``a`` and ``b``.

    For two bool tensors, this is ``logical_xor``.

    Args:
        a: A tensor of integers or bool.
        b: A tensor of integers or bool; the shapes broadcast.

    Returns:
        A tensor of the broadcast shape and the promoted dtype.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: An argument is neither integer nor bool.

    Example:
        >>> pg.bitwise_xor([0b1100, 0b1010], 0b0110)
        Tensor([10, 12], dtype=int32, backend='cpu')

    Source:
        The array API standard.

    """
    return _bits(BITWISE_XOR, LOGICAL_XOR, a, b)


@decomposition(BITWISE_XOR)
def _(a: Tensor, b: Tensor) -> Tensor:
    if a.dtype is BOOL:
        return run(LOGICAL_XOR, a, b)
    common = run(BITWISE_AND, a, b)
    return (a - common) + (b - common)


BITWISE_NOT = Kernel(
    "BitwiseNot(x: bool | integer)",
    out=same,
    op="bitwise_invert",
    doc="All bits flipped: ``-1 - x`` if signed; for bool, ``not x``.",
)


def bitwise_invert(x: TensorLike, /) -> Tensor:
    """Return ``x`` with all bits flipped.

    For signed integers that is ``-1 - x``, for bool ``not x``.

    Args:
        x: A tensor of integers or bool.

    Returns:
        A tensor with the shape and dtype of ``x``.

    Raises:
        TypeError: ``x`` is neither integer nor bool.

    Example:
        >>> pg.bitwise_invert([0, 5, -1])
        Tensor([-1, -6,  0], dtype=int32, backend='cpu')

    Source:
        The array API standard.

    """
    x = _convert.asarray(x)
    if x.dtype is BOOL:
        return run(LOGICAL_NOT, x)
    if dtype_kind(x.dtype) not in "iu":
        raise _convert.kind_error(BITWISE_NOT, x.dtype, "biu")
    return run(BITWISE_NOT, x)


@decomposition(BITWISE_NOT)
def _(x: Tensor) -> Tensor:
    if x.dtype is BOOL:
        return run(LOGICAL_NOT, x)
    ones = -1 if dtype_kind(x.dtype) == "i" else int(np.iinfo(x.dtype).max)
    return ones - x


LEFT_SHIFT = _bitwise(
    "LeftShift(a: integer, b: a)",
    op="bitwise_left_shift",
    doc="""The bits of ``a`` shifted up by ``b``, ``a · 2^b``; higher bits are lost.

    0 where ``b`` is negative, or at least the width of the dtype in bits.""",
)


def bitwise_left_shift(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return the bits of ``a`` shifted left by ``b``: ``a · 2^b``.

    Bits beyond the width of the dtype are lost, so the result is 0 where ``b`` is at
    least the width. It is also 0 where ``b`` is negative.

    Args:
        a: A tensor of integers.
        b: A tensor of integers, 0 or more; the shapes broadcast.

    Returns:
        A tensor of the broadcast shape and the promoted dtype.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: An argument is not integer, or both are bool.

    Example:
        >>> pg.bitwise_left_shift([1, 3, 5], [4, 1, 32])
        Tensor([16,  6,  0], dtype=int32, backend='cpu')

    Source:
        The array API standard.

    """
    return _convert.elementwise(LEFT_SHIFT, a, b, "iu")


@decomposition(LEFT_SHIFT)
def _(a: Tensor, b: Tensor) -> Tensor:
    power, rest = _powers_of_two(b)
    return a * power * rest


RIGHT_SHIFT = _bitwise(
    "RightShift(a: integer, b: a)",
    op="bitwise_right_shift",
    doc="""The bits of ``a`` shifted down by ``b``, ``⌊a / 2^b⌋``.

    Where ``b`` is negative, or at least the width of the dtype in bits, the result is
    0, or -1 if ``a < 0``.""",
)


def bitwise_right_shift(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return the bits of ``a`` shifted right by ``b``: ``⌊a / 2^b⌋``.

    Where ``b`` is negative, or at least the width of the dtype in bits, the result is
    0, or -1 if ``a`` is negative.

    Args:
        a: A tensor of integers.
        b: A tensor of integers, 0 or more; the shapes broadcast.

    Returns:
        A tensor of the broadcast shape and the promoted dtype.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: An argument is not integer, or both are bool.

    Example:
        >>> pg.bitwise_right_shift([16, 7, -7], [4, 1, 1])
        Tensor([ 1,  3, -4], dtype=int32, backend='cpu')

    Source:
        The array API standard.

    """
    return _convert.elementwise(RIGHT_SHIFT, a, b, "iu")


@decomposition(RIGHT_SHIFT)
def _(a: Tensor, b: Tensor) -> Tensor:
    power, rest = _powers_of_two(b)
    return a // power // rest


def _powers_of_two(b: Tensor) -> tuple[Tensor, Tensor]:
    """Return two factors of ``2^b``, each of which the dtype can represent.

    Where ``b`` is negative or exceeds the width, they are factors of ``2^width``.
    """
    width = 8 * b.dtype.itemsize
    if dtype_kind(b.dtype) == "i":
        b = where(b < 0, width, b)
    first = binary.minimum(b, width - 2)
    return 2**first, 2 ** binary.minimum(b - first, 2)


# --- comparison with a tolerance -------------------------------------------------


def isclose(
    x1: TensorLike,
    x2: TensorLike,
    /,
    *,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> Tensor:
    """Return whether ``|x1 - x2| ≤ atol + rtol·|x2|`` for each pair of elements.

    An infinity is close only to itself. NaN is close to nothing; with ``equal_nan`` it
    is close to NaN. Integers are compared as float64, or as float32 on backends without
    float64.

    Args:
        x1: A tensor of numbers or bool.
        x2: A tensor of numbers or bool; the shapes broadcast.
        rtol: The tolerance relative to ``|x2|``.
        atol: The absolute tolerance.
        equal_nan: Whether NaN is close to NaN.

    Returns:
        A bool tensor of the broadcast shape.

    Raises:
        ValueError: The shapes do not broadcast, or a tolerance is negative.
        TypeError: An argument contains strings.

    Example:
        >>> pg.isclose([1.0, 2.0], [1.000001, 2.1])
        Tensor([ True, False], dtype=bool, backend='cpu')

    Source:
        The semantics are those of ``numpy.isclose``.

    """
    x1, x2 = (
        _convert.numbers("isclose", x)
        for x in _convert.promote_and_broadcast("isclose", x1, x2)
    )
    if dtype_kind(x1.dtype) not in "fc":  # differences of integers may wrap
        widest = "float64" if DTYPES["float64"] in active().dtypes else "float32"
        x1 = creation.cast(x1, widest)
        x2 = creation.cast(x2, widest)
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if isinstance(tolerance, _convert.SCALARS):
            finite("isclose", name, tolerance, least=0)
    near = unary.abs(x1 - x2) <= unary.abs(x2) * rtol + atol
    near = (near & unary.isfinite(x2)) | equal(x1, x2)
    if flag("isclose", "equal_nan", equal_nan):
        near = near | (unary.isnan(x1) & unary.isnan(x2))
    return near


def allclose(
    x1: TensorLike,
    x2: TensorLike,
    /,
    *,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> Tensor:
    """Return whether all elements are close, as defined by ``isclose``.

    Args:
        x1: A tensor of numbers or bool.
        x2: A tensor of numbers or bool; the shapes broadcast.
        rtol: The tolerance relative to ``|x2|``.
        atol: The absolute tolerance.
        equal_nan: Whether NaN is close to NaN.

    Returns:
        A bool scalar tensor.

    Raises:
        ValueError: The shapes do not broadcast, or a tolerance is negative.
        TypeError: An argument contains strings.

    Example:
        >>> pg.allclose([1.0, 2.0], [1.000001, 2.000001])
        Tensor(True, dtype=bool, backend='cpu')

    Source:
        The semantics are those of ``numpy.allclose``, but the result is a tensor.

    """
    return logic.all(isclose(x1, x2, rtol=rtol, atol=atol, equal_nan=equal_nan))
