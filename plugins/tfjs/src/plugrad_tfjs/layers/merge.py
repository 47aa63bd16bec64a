"""Layers with several inputs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import plugrad as pg

from ..settings import Ints
from .table import layer


def _with_equal_ranks(xs: tuple[Any, ...]) -> list[Any]:
    """Reshape the inputs to the same rank; new axes follow the batch axis."""
    rank = max(x.ndim for x in xs)
    shapes = [(x.shape[0], *[1] * (rank - x.ndim), *x.shape[1:]) for x in xs]
    return [
        x if x.ndim == rank else pg.reshape(x, shape)
        for x, shape in zip(xs, shapes, strict=True)
    ]


def _merge(op: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def merge(*xs: Any) -> Any:
        return functools.reduce(op, _with_equal_ranks(xs))

    return merge


_OPS = {"Add": pg.add, "Subtract": pg.subtract, "Multiply": pg.multiply}
_OPS |= {"Maximum": pg.maximum, "Minimum": pg.minimum}
for _name, _op in _OPS.items():
    layer(_name, masks="refuses")(_merge(_op))


@layer("Average", masks="refuses")
def average(*xs: Any) -> Any:
    return functools.reduce(pg.add, _with_equal_ranks(xs)) / len(xs)


@layer("Concatenate", masks="refuses")
def concatenate(*xs: Any, axis: int = -1) -> Any:
    return pg.concat(xs, axis=axis)


@layer("Dot")
def dot(a: Any, b: Any, *, axes: Ints, normalize: bool = False) -> Any:
    left = axes[0] % a.ndim
    right = axes[-1] % b.ndim
    if normalize:
        a = _normalize(a, left)
        b = _normalize(b, right)
    batch = "z"
    letters_a = [batch, *"abcd"[: a.ndim - 1]]
    letters_b = [batch, *"efgh"[: b.ndim - 1]]
    letters_a[left] = letters_b[right] = "k"
    out = [name for name in (*letters_a, *letters_b) if name not in (batch, "k")]
    y = pg.einsum(
        f"{''.join(letters_a)},{''.join(letters_b)}->{batch}{''.join(out)}", a, b
    )
    return pg.expand_dims(y, 1) if y.ndim == 1 else y


def _normalize(x: Any, axis: int) -> Any:
    square = pg.sum(pg.square(x), axis=axis, keepdims=True)
    return x / pg.sqrt(pg.maximum(square, 1e-7))
