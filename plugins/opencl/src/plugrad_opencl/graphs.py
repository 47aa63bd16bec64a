"""What ``jit`` lets the backend compile: regions, and single kernels.

Element-wise kernels, and reductions after them, are regions of one launch
(``regions``, ``folds``); on a GPU row kernels belong to them, too (``sequences``,
``rows``). Every other kernel is a region of its own, so that it can be ``Recorded``: in
a graph its shapes never change, so later calls only launch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plugrad.plugin import Graph, Step

from . import folds, rows, sequences
from .kernels import KERNELS
from .recorded import Recorded
from .runtime import Device

# They launch nothing, or what they launch is not the same each time.
_VIEWS = {"ExpandDims", "Identity", "Reshape"}
_CHECKED = {"GatherNd", "GatherV2", "ScatterNd", "Take", "TensorScatterUpdate"}


def fusable(device: Device, step: Step, graph: Graph) -> Any:
    """Return True for what may be in a region, and the outputs of what is one alone."""
    if folds.fusable(step, graph):
        return True
    if device.style == "gpu" and rows.is_row(step, graph):
        return True
    name = step.kernel.name
    single = name in KERNELS and name not in _VIEWS | _CHECKED
    return single and step.outputs


def compiled(device: Device, graph: Graph) -> Callable[..., Any] | None:
    """Return a function of the inputs of a region, or of a kernel alone."""
    first, *others = graph.steps
    function = None
    if fusable(device, first, graph) is True:
        find = sequences.compiled if device.style == "gpu" else folds.compiled
        function = find(device, graph)
    if function is None and not others:
        function = sequences.alone(graph)
    return function and Recorded(device, function)
