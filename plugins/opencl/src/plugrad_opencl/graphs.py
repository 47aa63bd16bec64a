"""Compiles the regions of graphs and the single kernels that ``jit`` offers.

Element-wise kernels and the reductions after them form regions of one launch
(``regions``, ``folds``). On a GPU, regions may also contain row kernels (``sequences``,
``rows``). Every other kernel is a region of its own, so that it can be ``Recorded``:
shapes in a graph never change, so later calls only launch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plugrad.plugin import Graph, Step

from . import folds, rows, sequences
from .kernels import KERNELS
from .recorded import Recorded
from .runtime import Device

# Not compiled: views launch nothing, and kernels that check indices are not recorded.
_VIEWS = {"ExpandDims", "Identity", "Reshape"}
_CHECKED = {"GatherNd", "GatherV2", "ScatterNd", "Take", "TensorScatterUpdate"}


def fusable(device: Device, step: Step, graph: Graph) -> Any:
    """Return True if a step may join other steps in a region.

    Return its outputs if it can only form a region of its own, and otherwise False.
    """
    if folds.fusable(step, graph):
        return True
    if device.style == "gpu" and rows.is_row(step, graph):
        return True
    name = step.kernel.name
    single = name in KERNELS and name not in _VIEWS | _CHECKED
    return single and step.outputs


def compiled(device: Device, graph: Graph) -> Callable[..., Any] | None:
    """Return a function that runs a region, or a single kernel, on its inputs."""
    first, *others = graph.steps
    function = None
    if fusable(device, first, graph) is True:
        find = sequences.compiled if device.style == "gpu" else folds.compiled
        function = find(device, graph)
    if function is None and not others:
        function = sequences.single_kernel(graph)
    return function and Recorded(device, function)
