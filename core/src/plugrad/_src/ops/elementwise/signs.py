"""The sign bit, and neighboring floating-point numbers. Kernels: ``CopySign SignBit``.

Contents: ``signbit`` and ``copysign``; ``nextafter``.
"""

from __future__ import annotations

from typing import Any

from plugrad._src.engine.dispatch import run
from plugrad._src.ops.basis import _convert, compare, creation, reduce, unary
from plugrad._src.ops.custom import custom_grad
from plugrad._src.registry.contract import (
    Kernel,
    broadcasted,
    compared,
    decomposition,
    gradients,
)
from plugrad._src.tensor.dtypes import DType, dtype_kind, floating_info
from plugrad._src.tensor.tensor import Tensor, TensorLike

__all__ = ["copysign", "nextafter", "signbit"]


SIGN_BIT = Kernel(
    "SignBit(x: floating)",
    out=compared,
    op="signbit",
    doc="""Whether the sign bit is set: for numbers below 0, -0.0 and -inf.

    For NaN it is the sign bit of that NaN; on a backend without the kernel, False.""",
)


def signbit(x: TensorLike, /) -> Tensor:
    """Return whether the sign bit of each number is set, as it is for -0.0.

    Args:
        x: A tensor of real numbers.

    Returns:
        A bool tensor with the shape of ``x``. NaN also has a sign bit; its value in the
        result of an operation is undefined, and may differ between backends.

    Raises:
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> pg.signbit([-2.0, -0.0, 0.0])
        Tensor([ True,  True, False], dtype=bool, backend='cpu')

    Source:
        The array API standard.

    """
    x = _convert.real("signbit", x)
    if dtype_kind(x.dtype) != "f":
        return compare.less(x, 0)
    return run(SIGN_BIT, x)


@decomposition(SIGN_BIT)
def _(x: Tensor) -> Tensor:
    zero = compare.equal(x, 0)
    inverse = unary.reciprocal(compare.where(zero, x, 1.0))  # -inf for -0.0
    return compare.logical_or(x < 0, compare.logical_and(zero, inverse < 0))


gradients(SIGN_BIT, x=None)


COPY_SIGN = Kernel(
    "CopySign(a: floating, b: a)",
    out=broadcasted,
    broadcasts=True,
    op="copysign",
    doc="""``a`` with the sign bit of ``b``, including zeros and infinities; exact.

    NaN where ``a`` is NaN. Where ``b`` is NaN, ``SignBit`` defines its sign.""",
)


def copysign(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return ``|a|`` with the sign of ``b``.

    -0.0 and -inf are negative. The derivative with respect to ``a`` is 1 where ``a``
    and ``b`` have the same sign, and -1 elsewhere; with respect to ``b`` it is 0.

    Args:
        a: A tensor of real numbers.
        b: A tensor of real numbers that broadcasts with ``a``.

    Returns:
        A floating-point tensor of the broadcast shape; integers give float32.

    Raises:
        TypeError: A tensor is complex, or contains strings.
        ValueError: The shapes do not broadcast.

    Example:
        >>> pg.copysign([1.0, -2.0], [-0.0, 3.0])
        Tensor([-1.,  2.], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    both = _convert.promote_and_broadcast("copysign", a, b)
    a, b = (_convert.floating("copysign", x, "f") for x in both)
    return run(COPY_SIGN, a, b)


def _negate_where_signs_differ(y: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return ``y`` where ``a`` and ``b`` have the same sign bit, ``-y`` elsewhere."""
    return compare.where(compare.equal(run(SIGN_BIT, a), run(SIGN_BIT, b)), y, -y)


decomposition(COPY_SIGN, lambda a, b: _negate_where_signs_differ(a, a, b))
gradients(
    COPY_SIGN,
    a=lambda dy, a, b: _negate_where_signs_differ(dy, a, b),
    b=lambda dy, b_spec: creation.zeros(b_spec.shape, dtype=b_spec.dtype),
)


def nextafter(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return the floating-point number next to ``a`` in the direction of ``b``.

    The result is ``b`` where the two are equal, and NaN where either is NaN. Where the
    result is 0 and ``a`` is not, the result has the sign of ``a``, as in C. The
    derivative with respect to ``a`` is 1 everywhere, and with respect to ``b`` it is 0.

    Args:
        a: A tensor of real numbers.
        b: A tensor of real numbers that broadcasts with ``a``.

    Returns:
        A floating-point tensor of the broadcast shape; integers give float32.

    Raises:
        TypeError: A tensor is complex, or contains strings.
        ValueError: The shapes do not broadcast.

    Example:
        >>> (pg.nextafter(1.0, 2.0) - 1.0).item() == float(np.finfo("float32").eps)
        True

    Source:
        The array API standard. S. M. Rump, P. Zimmermann, S. Boldo and G. Melquiond,
        "Computing predecessor and successor in rounding to nearest", 2009.

    """
    both = _convert.promote_and_broadcast("nextafter", a, b)
    return _next(*(_convert.floating("nextafter", x, "f") for x in both))


@custom_grad
def _next(a: Tensor, b: Tensor) -> Any:
    up = a < b
    # The number below a is minus the number above -a.
    step = _successor(compare.where(up, a, -a), a.dtype)
    y = compare.where(up, step, -step)
    y = compare.where(compare.equal(y, 0), a * 0, y)  # a zero with the sign of a
    y = compare.where(compare.equal(a, b), b, y)
    y = compare.where(compare.logical_or(unary.isnan(a), unary.isnan(b)), a + b, y)
    return y, lambda dy: (reduce.sum_to(dy, a.shape), None)


def _successor(c: Tensor, dtype: DType) -> Tensor:
    """Return the next larger number, by additions that round to nearest."""
    info = floating_info(dtype)
    u = float(info.eps) / 2
    tiny = float(info.smallest_subnormal)
    phi = u * (1 + 2 * u)
    size = unary.abs(c)
    normal = c + size * phi
    scaled = c * (1 / u)
    middle = (scaled + unary.abs(scaled) * phi) * u  # near the subnormal numbers
    y = compare.where(size >= 0.5 / u / u * tiny, normal, middle)
    y = compare.where(size < tiny / u, c + tiny, y)
    least = creation.full((), -float(info.max), dtype=dtype)
    return compare.where(compare.equal(c, float("-inf")), least, y)
