"""The table of graph-model ops: the function that runs each op.

Values are tensors or NumPy arrays: shapes, and values computed from them, stay on the
host. ``plugrad.importing.namespace`` returns the matching library.
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
    """The implementation of an op.

    Attributes:
        function: A function of the inputs, by position, and the attributes, by name.
        reads: Positions of inputs that the function gets as NumPy arrays.
        frozen: Positions of inputs that training does not change.

    """

    function: Callable[..., Any]
    reads: Sequence[int] = ()
    frozen: Sequence[int] = ()


_TABLE: dict[str, Op] = {}


def op(
    *names: str, reads: Sequence[int] = (), frozen: Sequence[int] = ()
) -> Callable[[F], F]:
    """Return a decorator that registers a function for ops."""

    def register(function: F) -> F:
        run = _with_host_inputs(function, reads) if reads else function
        _TABLE.update(dict.fromkeys(names, Op(run, reads, frozen)))
        return function

    return register


def _with_host_inputs(function: F, reads: Sequence[int]) -> F:
    """Wrap a function so that it gets the inputs in ``reads`` as NumPy arrays."""

    def run(*inputs: Any, **attrs: Any) -> Any:
        positions = [n % len(inputs) for n in reads]
        arguments = [on_host(x) if i in positions else x for i, x in enumerate(inputs)]
        return function(*arguments, **attrs)

    run.__wrapped__ = function  # type: ignore[attr-defined]  # for its signature
    return run  # type: ignore[return-value]


def find(name: str) -> Op | None:
    """Return the implementation of an op, or None."""
    return _TABLE.get(name)


def on_host(value: Any) -> Any:
    """Return a value as a NumPy array."""
    return value.numpy() if isinstance(value, pg.Tensor) else np.asarray(value)
