"""What methods share: checks of their arguments, and chunks of examples.

Map: checks; the value and its gradient; chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import plugrad as pg
from plugrad.plugin import Tensor, TensorLike

from .attribution import Target, chosen

Model = Callable[[Tensor], Tensor]


def checked(name: str, f: Model, x: TensorLike) -> Tensor:
    """Return ``x`` as a tensor of floats.

    Args:
        name: The name of the method, for errors.
        f: The model.
        x: The examples.

    Raises:
        TypeError: ``f`` is not a function, or ``x`` is not of real numbers.
        ValueError: ``x`` has no axis of examples.

    """
    if not callable(f):
        raise TypeError(f"{name}: expected a function, got {f!r}")
    values = pg.asarray(x)
    if values.dtype.kind != "f":
        raise TypeError(
            f"{name}: x must be floats, got {values.dtype}; for tokens, explain a "
            "function of their embeddings"
        )
    if values.ndim == 0:
        raise ValueError(f"{name}: x must have an axis of examples, got shape ()")
    return values


def broadcast(name: str, what: str, given: TensorLike, x: Tensor) -> Tensor:
    """Return a value with the shape and the dtype of ``x``.

    Raises:
        ValueError: It cannot be broadcast to the shape of ``x``.

    """
    values = pg.astype(pg.asarray(given), x.dtype)
    try:
        return pg.broadcast_to(values, x.shape)
    except ValueError:
        raise ValueError(
            f"{name}: {what} of shape {values.shape} cannot be broadcast to that of x, "
            f"{x.shape}"
        ) from None


def is_count(value: object) -> bool:
    """Return whether a value is a positive integer."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def value_and_gradient(f: Model, x: Tensor, target: Target) -> tuple[Tensor, Tensor]:
    """Return the value that is explained, for each example, and its gradient."""

    def total(x: Tensor) -> tuple[Tensor, Tensor]:
        value = chosen(f(x), target)
        return pg.sum(value), value

    (_, value), gradient = pg.value_and_grad(total, has_aux=True)(x)
    return value, gradient


def in_chunks(
    name: str,
    work: Callable[..., tuple[Tensor, ...]],
    xs: Sequence[Tensor],
    target: Target,
    chunk: int | None,
) -> tuple[Tensor, ...]:
    """Return what ``work`` returns for all examples, computed in parts.

    Args:
        name: The name of the method, for errors.
        work: A function of a target and of a part of each of ``xs``, whose results
            begin with the axis of the examples.
        xs: Tensors that begin with the axis of the examples.
        target: The value that is explained.
        chunk: At most this many examples at once; None for all.

    Raises:
        ValueError: ``chunk`` is not a positive number.

    """
    if chunk is None:
        return work(target, *xs)
    if not is_count(chunk):
        raise ValueError(f"{name}: chunk must be a positive number, got {chunk!r}")
    is_each = isinstance(target, Sequence) or getattr(target, "ndim", 0) == 1
    parts = []
    for start in range(0, max(xs[0].shape[0], 1), chunk):
        part = slice(start, start + chunk)
        one: Any = target[part] if is_each else target  # type: ignore[index]
        parts.append(work(one, *[x[part] for x in xs]))
    return tuple([pg.concat(list(same)) for same in zip(*parts, strict=True)])
