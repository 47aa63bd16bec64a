"""The table of layers: which function runs a class of Keras, with which weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

__all__ = ["Layer", "Shapes", "find", "layer", "names"]

# For settings: the shape of each weight, None where the file does not tell a size.
Shapes = Callable[[Mapping[str, Any]], dict[str, tuple[int | None, ...] | None]]
F = TypeVar("F", bound=Callable[..., Any])
Masks = Literal["keeps", "takes", "drops", "refuses"]


@dataclass(frozen=True)
class Layer:
    """How a layer runs.

    Attributes:
        function: Takes the inputs by position, weights and settings by name.
        shapes: Gives the shapes of the weights that some settings call for.
        masks: What becomes of a mask of time steps: the output has the same one, the
            function takes it as ``mask``, the layer does without it, or it is refused.

    """

    function: Callable[..., Any]
    shapes: Shapes
    masks: Masks


_TABLE: dict[str, Layer] = {}


def layer(
    *names: str, shapes: Shapes = lambda s: {}, masks: Masks = "drops"
) -> Callable[[F], F]:
    """Return a decorator that registers a function as what runs some layers."""

    def register(function: F) -> F:
        _TABLE.update(dict.fromkeys(names, Layer(function, shapes, masks)))
        return function

    return register


def find(name: str) -> Layer | None:
    """Return how a layer runs, or None."""
    return _TABLE.get(name)


def names() -> tuple[str, ...]:
    """Return the classes that are supported."""
    return tuple(_TABLE)
