"""The table of layers: the function and weight shapes of each Keras class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

__all__ = ["Layer", "Shapes", "find", "layer", "names"]

# Maps settings to the shape of each weight; None stands for any size or any shape.
Shapes = Callable[[Mapping[str, Any]], dict[str, tuple[int | None, ...] | None]]
F = TypeVar("F", bound=Callable[..., Any])
Masks = Literal["keeps", "takes", "drops", "refuses"]


@dataclass(frozen=True)
class Layer:
    """The implementation of a layer class.

    Attributes:
        function: A function of the inputs, by position, and the weights and settings,
            by name.
        shapes: A function that returns the shapes of the weights for given settings.
        masks: How a time-step mask is treated. "keeps": the output gets the same mask;
            "takes": the function gets it as ``mask``; "drops": it is ignored;
            "refuses": the model is refused.

    """

    function: Callable[..., Any]
    shapes: Shapes
    masks: Masks


_TABLE: dict[str, Layer] = {}


def layer(
    *names: str, shapes: Shapes = lambda s: {}, masks: Masks = "drops"
) -> Callable[[F], F]:
    """Return a decorator that registers a function for layer classes."""

    def register(function: F) -> F:
        _TABLE.update(dict.fromkeys(names, Layer(function, shapes, masks)))
        return function

    return register


def find(name: str) -> Layer | None:
    """Return the implementation of a layer class, or None."""
    return _TABLE.get(name)


def names() -> tuple[str, ...]:
    """Return the names of the supported classes."""
    return tuple(_TABLE)
