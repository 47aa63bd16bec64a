"""The compiler that ``jit`` asks: a region is compiled if all its bits are right."""

from __future__ import annotations

from plugrad.plugin import Graph

from .regions import Function, function_of
from .steps import is_equal


def compiled(graph: Graph) -> Function | None:
    """Return the function of a graph; None if a kernel has other bits."""
    return function_of(graph) if all(map(is_equal, graph.steps)) else None
