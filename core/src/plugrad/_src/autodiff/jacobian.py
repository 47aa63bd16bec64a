"""``jacobian`` and ``hessian``: all partial derivatives, by ``vjp`` and ``jvp``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, ParamSpec, Unpack

from plugrad._src.ops.array import grids
from plugrad._src.ops.basis import creation, shape
from plugrad._src.ops.basis._convert import asarray
from plugrad._src.tensor.arguments import choice, function
from plugrad._src.tensor.dtypes import dtype_kind
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor

from .reverse import grad, jvp, vjp

__all__ = ["hessian", "jacobian"]

P = ParamSpec("P")
Mode = Literal["reverse", "forward"]


def jacobian(
    f: Callable[P, Any], *, mode: Mode = "reverse", **unknown: Unpack[Nothing]
) -> Callable[P, Tensor]:
    """Return ``g(x, *rest)``: the Jacobian ``∂f(x)/∂x``.

    The modes agree for real numbers. For complex numbers, ``"reverse"`` returns
    gradients as ``grad`` does, so for ``z²`` it returns the conjugate of ``2z``;
    ``"forward"`` returns derivatives along the real axis.

    Args:
        f: A function from a floating tensor, and any further arguments, to a floating
            tensor.
        mode: ``"reverse"`` runs one pullback for each element of the result,
            ``"forward"`` one ``jvp`` for each element of ``x``: choose the smaller
            number.

    Returns:
        A function that takes the arguments of ``f`` and returns a tensor of shape
        ``(*f(x).shape, *x.shape)``.

    Raises:
        TypeError: ``x`` or the result is not a floating tensor.
        ValueError: ``mode`` is neither ``"reverse"`` nor ``"forward"``.

    Example:
        >>> pg.jacobian(lambda x: x * x)(pg.asarray([1.0, 2.0]))
        Tensor([[2., 0.],
                [0., 4.]], dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(jacobian, unknown)
    function("jacobian", f)
    choice("jacobian", "mode", mode, "reverse", "forward")
    by_parts = _rows if mode == "reverse" else _columns
    call: Callable[..., Any] = f
    g: Callable[..., Tensor] = lambda x, *rest: by_parts(
        lambda x: call(x, *rest), _argument(x)
    )
    return g


def hessian(f: Callable[P, Any], **unknown: Unpack[Nothing]) -> Callable[P, Tensor]:
    """Return ``g(x, *rest)``: the Hessian ``∂²f(x)/∂x∂x``.

    Args:
        f: A function from a floating tensor, and any further arguments, to a floating
            scalar.

    Returns:
        A function that takes the arguments of ``f`` and returns a tensor of shape
        ``(*x.shape, *x.shape)``.

    Raises:
        TypeError: ``x`` or the result is not a floating tensor.
        ValueError: The result is not a scalar.

    Example:
        >>> pg.hessian(lambda x: pg.sum(x * x * x))(pg.asarray([1.0, 2.0]))
        Tensor([[ 6.,  0.],
                [ 0., 12.]], dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(hessian, unknown)
    return jacobian(grad(f))


def _argument(x: Any) -> Tensor:
    if isinstance(x, dict | list | tuple):
        raise TypeError(
            f"jacobian: x must be one tensor, got a {type(x).__name__}; take one "
            "leaf at a time, or flatten the tree: `pg.concat` of its leaves"
        )
    return asarray(x)


def _unit_tensors(like: Tensor) -> list[Tensor]:
    """Return the unit tensors of a shape: 1 in one element, 0 in all others."""
    units = grids.eye(like.size, dtype=like.dtype)
    return list(shape.unstack(shape.reshape(units, (like.size, *like.shape))))


def _rows(f: Callable[[Tensor], Any], x: Tensor) -> Tensor:
    value, pullback = vjp(f, x)
    if not isinstance(value, Tensor) or dtype_kind(value.dtype) not in "fc":
        kind = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(f"jacobian: f must return a floating tensor, got {kind}")
    rows = [pullback(unit)[0] for unit in _unit_tensors(value)]
    return _assembled(rows, value.shape, x)


def _columns(f: Callable[[Tensor], Any], x: Tensor) -> Tensor:
    columns = [jvp(f, [x], [unit])[1] for unit in _unit_tensors(x)]
    if not columns:
        return _rows(f, x)
    stacked = shape.stack(columns, axis=-1)
    return shape.reshape(stacked, (*columns[0].shape, *x.shape))


def _assembled(rows: list[Tensor], outer: tuple[int, ...], x: Tensor) -> Tensor:
    if not rows:
        return creation.zeros((*outer, *x.shape), dtype=x.dtype)
    return shape.reshape(shape.stack(rows), (*outer, *x.shape))
