"""The table of ops of graph models: which function runs an op.

Values are tensors, or arrays of NumPy: shapes, and all that is computed of them,
stay on the host. ``plugrad.importing.namespace`` gives the library that fits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import plugrad as pg

__all__ = ["Op", "find", "on_host", "op"]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Op:
    """How an op runs.

    Attributes:
        function: Takes the inputs by position, and the attributes by name.
        reads: Positions of inputs that the function gets as arrays of NumPy.
        frozen: Positions of inputs that training leaves alone.

    """

    function: Callable[..., Any]
    reads: Sequence[int] = ()
    frozen: Sequence[int] = ()


_TABLE: dict[str, Op] = {}


def op(
    *names: str, reads: Sequence[int] = (), frozen: Sequence[int] = ()
) -> Callable[[F], F]:
    """Return a decorator that registers a function as what runs some ops."""

    def register(function: F) -> F:
        run = _reading(function, reads) if reads else function
        _TABLE.update(dict.fromkeys(names, Op(run, reads, frozen)))
        return function

    return register


def _reading(function: F, reads: Sequence[int]) -> F:
    """Return the function, with some of its inputs moved to the host."""

    def run(*inputs: Any, **attrs: Any) -> Any:
        places = [n % len(inputs) for n in reads]
        moved = [on_host(x) if i in places else x for i, x in enumerate(inputs)]
        return function(*moved, **attrs)

    run.__wrapped__ = function  # type: ignore[attr-defined]  # for its signature
    return run  # type: ignore[return-value]


def find(name: str) -> Op | None:
    """Return how an op runs, or None."""
    return _TABLE.get(name)


def on_host(value: Any) -> Any:
    """Return an array of NumPy."""
    return value.numpy() if isinstance(value, pg.Tensor) else np.asarray(value)
