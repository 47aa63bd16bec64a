"""What ``jit`` lets the backend compile: regions, and single kernels.

Element-wise kernels, and reductions after them, are regions of one launch
(``regions``, ``folds``). Every other kernel is a region of its own, so that it can be
``Recorded``: in a graph its shapes never change, so later calls only launch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from plugrad.plugin import Graph, Step

from . import folds
from .kernels import KERNELS
from .recorded import Recorded
from .runtime import Device

# They launch nothing, or what they launch is not the same each time.
_VIEWS = {"ExpandDims", "Identity", "Reshape"}
_CHECKED = {"GatherNd", "GatherV2", "ScatterNd", "Take", "TensorScatterUpdate"}


def fusable(step: Step, graph: Graph) -> Any:
    """Return True for what may be in a region, and the outputs of what is one alone."""
    if folds.fusable(step, graph):
        return True
    name = step.kernel.name
    alone = name in KERNELS and name not in _VIEWS | _CHECKED
    return alone and step.outputs


def compiled(device: Device, graph: Graph) -> Callable[..., Any] | None:
    """Return a function of the inputs of a region, or of a kernel alone."""
    first, *others = graph.steps
    function = None
    if folds.fusable(first, graph):
        function = folds.compiled(device, graph)
    if function is None and not others:
        function = _alone(graph)
    return function and Recorded(device, function)


def _alone(graph: Graph) -> Callable[..., Any]:
    """Return the kernel of a graph of one step, as a function of the graph's inputs."""
    (step,) = graph.steps
    kernel = KERNELS[step.kernel.name]
    bound = partial(getattr(kernel, "kernel", kernel), **step.attrs)
    if step.inputs == graph.inputs:
        return bound
    numbers = {x: i for i, x in enumerate(graph.inputs)}
    constants = graph.constants

    def function(*xs: Any) -> Any:
        return bound(
            *[
                None
                if x is None
                else constants[x]
                if x in constants
                else xs[numbers[x]]
                for x in step.inputs
            ]
        )

    return function
