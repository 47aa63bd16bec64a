"""Helpers that the methods share: checks of arguments, explained values, and chunks.

Contents: checks; the value that is explained, and its gradient; chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import plugrad as pg
from plugrad.plugin import Tensor, TensorLike

Model = Callable[[Tensor], Tensor]
Target = int | Sequence[int] | Callable[[Tensor], Tensor] | None
ValueAndGradient = tuple[Tensor, Tensor]

# --- checks ----------------------------------------------------------------------


def checked(name: str, f: object, x: TensorLike) -> Tensor:
    """Return ``x`` as a floating tensor.

    Args:
        name: The name of the method, for errors.
        f: The model.
        x: The examples.

    Raises:
        TypeError: ``f`` is not a function, or ``x`` is not real.
        ValueError: ``x`` has no example axis.

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
        raise ValueError(f"{name}: x must have an example axis, got shape ()")
    return values


def broadcast(name: str, what: str, given: TensorLike, x: Tensor) -> Tensor:
    """Return ``given`` with the shape and the dtype of ``x``.

    Raises:
        ValueError: ``given`` cannot be broadcast to the shape of ``x``.

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


# --- values ----------------------------------------------------------------------


def chosen(y: Tensor, target: Target) -> Tensor:
    """Return the explained value of each example, given the result of the model.

    Raises:
        ValueError: The target does not fit the result of the model.

    """
    if target is None:
        return pg.sum(y, axis=tuple(range(1, y.ndim)))
    if callable(target):
        found: Any = target(y)
        if not isinstance(found, Tensor) or found.shape != y.shape[:1]:
            got = getattr(found, "shape", type(found).__name__)
            raise ValueError(
                f"target must return one value for each of {y.shape[0]} examples, "
                f"got {got}"
            )
        return pg.asarray(found)
    if y.ndim != 2:
        raise ValueError(
            f"target={target!r} selects a column, but the model returns "
            f"shape {y.shape}; pass a function of the result"
        )
    numbers = np.asarray(target)
    if numbers.dtype.kind not in "iu" or numbers.shape not in ((), y.shape[:1]):
        raise ValueError(
            f"target must be the index of an output, or one index for each of "
            f"{y.shape[0]} examples, got {target!r}"
        )
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < y.shape[1]:
        raise ValueError(f"target={target!r} is out of range for {y.shape[1]} outputs")
    if numbers.ndim == 0:
        return y[:, int(numbers)]
    return pg.take_along_axis(y, numbers[:, None], axis=1)[:, 0]


def value_and_gradient(f: Model, x: Tensor, target: Target) -> ValueAndGradient:
    """Return the explained value of each example, and its gradient."""

    def total(x: Tensor) -> tuple[Tensor, Tensor]:
        value = chosen(f(x), target)
        return pg.sum(value), value

    (_, value), gradient = pg.value_and_grad(total, has_aux=True)(x)
    return value, gradient


# --- chunks ----------------------------------------------------------------------


def chunks_of(
    name: str, count: int, target: Target, chunk: int
) -> Iterator[tuple[slice, Target]]:
    """Yield slices of the example axis and their targets.

    Without examples, yield a single empty slice.

    Args:
        name: The name of the method, for errors.
        count: The number of examples.
        target: The value that is explained.
        chunk: The number of examples to process at once.

    Raises:
        ValueError: ``chunk`` is not a positive number.

    """
    if not is_count(chunk):
        raise ValueError(f"{name}: chunk must be a positive number, got {chunk!r}")
    is_each = isinstance(target, Sequence) or getattr(target, "ndim", 0) == 1
    for start in range(0, max(count, 1), chunk):
        part = slice(start, start + chunk)
        one: Any = target[part] if is_each else target  # type: ignore[index]
        yield part, one


def in_chunks(
    name: str,
    work: Callable[..., tuple[Tensor, ...]],
    xs: Sequence[Tensor],
    target: Target,
    chunk: int | None,
) -> tuple[Tensor, ...]:
    """Return the results of ``work`` for all examples, computed in chunks.

    Args:
        name: The name of the method, for errors.
        work: A function that takes a target and a chunk of each of ``xs``. The first
            axis of its results must be that of the examples.
        xs: Tensors whose first axis is that of the examples.
        target: The value that is explained.
        chunk: The number of examples to process at once; None for all.

    Raises:
        ValueError: ``chunk`` is not a positive number.

    """
    if chunk is None:
        return work(target, *xs)
    chunks = chunks_of(name, xs[0].shape[0], target, chunk)
    parts = [work(one, *[x[part] for x in xs]) for part, one in chunks]
    return tuple([pg.concat(list(same)) for same in zip(*parts, strict=True)])
