"""Divisors of integers, and positions in a shape. Kernels: ``Gcd``.

Contents: common divisors and multiples; positions.
"""

from __future__ import annotations

import math
from typing import Unpack

import numpy as np

from plugrad._src.engine.dispatch import run
from plugrad._src.ops.basis import _convert, binary, compare, creation, reduce, unary
from plugrad._src.registry.contract import Kernel, broadcasted, decomposition
from plugrad._src.tensor.arguments import Ints, sizes
from plugrad._src.tensor.dtypes import DTYPES, DType, dtype_kind, named
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike

__all__ = ["gcd", "lcm", "unravel_index"]

# --- common divisors and multiples -----------------------------------------------

GCD = Kernel(
    "Gcd(a: integer, b: a)",
    out=broadcasted,
    broadcasts=True,
    op="gcd",
    doc="""The greatest common divisor of ``|a|`` and ``|b|``; ``|a|`` where ``b`` is 0.

    The least integer has no positive counterpart; where it is the divisor, the result
    wraps to it.""",
)


def gcd(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return the greatest common divisor of ``|a|`` and ``|b|``, element by element.

    It is ``|a|`` where ``b`` is 0, and 0 where both are 0. The least integer of a dtype
    has no positive counterpart: where it is the divisor, the result wraps to it.

    Args:
        a: A tensor of integers.
        b: A tensor of integers; the shapes broadcast.

    Returns:
        A tensor of the broadcast shape and the promoted dtype.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: An argument does not contain integers, or no dtype can represent
            both.

    Example:
        >>> pg.gcd([12, -18, 0], [20, 12, 5])
        Tensor([4, 6, 5], dtype=int32, backend='cpu')

    Source:
        ``numpy.gcd``.

    """
    return _convert.elementwise(GCD, a, b, "iu")


def _euclid_steps(dtype: DType) -> int:
    """Return the maximum number of steps of Euclid's algorithm for a dtype.

    Adjacent Fibonacci numbers need the most steps.
    """
    largest = 1 << (8 * dtype.itemsize)
    steps = 0
    a, b = 1, 1
    while b <= largest:
        a, b, steps = b, a + b, steps + 1
    return steps


@decomposition(GCD)
def _(a: Tensor, b: Tensor) -> Tensor:
    signed = dtype_kind(a.dtype) == "i"
    if signed:  # the dtype can represent each -|x|, but not each |x|
        a, b = (binary.minimum(x, 0 - x) for x in (a, b))
    for _ in range(_euclid_steps(a.dtype)):
        done = compare.equal(b, 0)
        a, b = compare.where(done, a, b), run(binary.MOD, a, b)
    return 0 - a if signed else a


def lcm(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return the least common multiple of ``|a|`` and ``|b|``, element by element.

    It is 0 where either argument is 0. Multiples that the dtype cannot represent wrap.

    Args:
        a: A tensor of integers.
        b: A tensor of integers; the shapes broadcast.

    Returns:
        A tensor of the broadcast shape and the promoted dtype.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: An argument does not contain integers, or no dtype can represent
            both.

    Example:
        >>> pg.lcm([4, -6, 0], [6, 4, 5])
        Tensor([12, 12,  0], dtype=int32, backend='cpu')

    Source:
        ``numpy.lcm``.

    """
    a, b = _convert.promote_and_broadcast("lcm", a, b)
    if dtype_kind(a.dtype) not in "iu":
        rule = "lcm: is defined for integers"
        raise TypeError(f"{rule}, got {named(a.dtype)}; cast with astype")
    divisor = run(GCD, a, b)  # division by 0 gives 0
    return run(binary.FLOOR_DIV, unary.abs(a), divisor) * unary.abs(b)


# --- positions -------------------------------------------------------------------


def unravel_index(
    indices: TensorLike, /, shape: Ints, **unknown: Unpack[Nothing]
) -> tuple[Tensor, ...]:
    """Convert indices into a flattened array of ``shape`` to indices along each axis.

    ``x.reshape(-1)[i]`` is ``x[unravel_index(i, x.shape)]``. If ``indices`` is a
    tensor, its values are read on the host to check them.

    Args:
        indices: Integers from 0 to the number of elements minus 1, in row-major order.
        shape: The shape of the array; 3 is short for (3,).

    Returns:
        A tuple of tensors with the shape of ``indices``, one for each axis; int32, or
        int64 if the indices need it.

    Raises:
        ValueError: An index is negative or too large, or a size is negative.
        TypeError: ``indices`` or ``shape`` are not integers.

    Example:
        >>> rows, columns = pg.unravel_index([5, 2], (2, 3))
        >>> rows.tolist(), columns.tolist()
        ([1, 0], [2, 2])

    Source:
        ``numpy.unravel_index``, with the order "C".

    """
    if unknown:
        raise unexpected(unravel_index, unknown)
    wanted = sizes("unravel_index", shape)
    x = _convert.integer_tensor("unravel_index", "indices", indices)
    count = math.prod(wanted)
    if x.size:
        for index in (reduce.min(x)._item(), reduce.max(x)._item()):
            if not 0 <= index < count:
                rule = f"is out of range for shape {wanted} with {count} elements"
                raise ValueError(f"unravel_index: index {index} {rule}")
    if count > np.iinfo(np.int32).max:
        x = creation.cast(x, DTYPES["int64"])
    found = []
    for size in reversed(wanted):
        found.append(x % max(size, 1))
        x = x // max(size, 1)
    return tuple(reversed(found))
