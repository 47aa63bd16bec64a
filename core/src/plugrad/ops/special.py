"""Special functions.

Map: products with a logarithm.
"""

from __future__ import annotations

import math

from plugrad.tensor.tensor import Tensor, TensorLike

from . import binary, compare, unary

__all__ = ["xlog1py", "xlogy"]

# --- products with a logarithm ---------------------------------------------------


def xlogy(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return ``a · log(b)``, and 0 where ``a`` is 0, unless ``b`` is NaN.

    It is the term of an entropy, of which the limit at ``a = 0`` is 0. Where ``a`` is 0
    and ``b`` is not a positive finite number, the derivatives are 0, too.

    Args:
        a: A tensor of real numbers.
        b: A tensor of real numbers; the shapes broadcast.

    Returns:
        A tensor of the broadcast shape and the promoted dtype; float32 for integers.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: An argument is complex or holds strings.

    Example:
        >>> pg.xlogy([0.0, 2.0], [0.0, 3.0])
        Tensor([0.    , 2.1972], dtype=float32, backend='cpu')

    Source:
        ``scipy.special.xlogy``.

    """
    a, b = binary.floats("xlogy", a, b, "f")
    infinite = compare.logical_or(b <= 0, compare.equal(b, math.inf))
    null = compare.logical_and(compare.equal(a, 0), infinite)
    return compare.where(null, 0, a * unary.log(compare.where(null, 1, b)))


def xlog1py(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return ``a · log(1 + b)``, and 0 where ``a`` is 0, unless ``b`` is NaN.

    The logarithm is accurate next to ``b = 0``. Where ``a`` is 0 and ``1 + b`` is not a
    positive finite number, the derivatives are 0, too.

    Args:
        a: A tensor of real numbers.
        b: A tensor of real numbers; the shapes broadcast.

    Returns:
        A tensor of the broadcast shape and the promoted dtype; float32 for integers.

    Raises:
        ValueError: The shapes do not broadcast.
        TypeError: An argument is complex or holds strings.

    Example:
        >>> pg.xlog1py([0.0, 2.0], [-1.0, 1.0])
        Tensor([0.    , 1.3863], dtype=float32, backend='cpu')

    Source:
        ``scipy.special.xlog1py``.

    """
    a, b = binary.floats("xlog1py", a, b, "f")
    infinite = compare.logical_or(b <= -1, compare.equal(b, math.inf))
    null = compare.logical_and(compare.equal(a, 0), infinite)
    return compare.where(null, 0, a * unary.log1p(compare.where(null, 0, b)))
