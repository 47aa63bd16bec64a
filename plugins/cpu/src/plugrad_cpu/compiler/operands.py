"""Describe arrays for the C functions that Python calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from plugrad.plugin import Graph

Inputs = Sequence[tuple[int, int, int]]  # slot, dtype number, elements
Outputs = list[tuple[int, int, bytes]]  # slot, dtype number, shape


def operands(graph: Graph, slots: Mapping[int, int]) -> tuple[Inputs, Outputs]:
    """Return the descriptions of inputs and outputs, given the slot of each value."""
    specs, ys = graph.specs, graph.outputs
    inputs = [
        (slots[x], specs[x].dtype.num, prod(specs[x].shape)) for x in graph.inputs
    ]
    outputs: Outputs = [
        (slots[y], specs[y].dtype.num, bytes_of(specs[y].shape)) for y in ys
    ]
    return inputs, outputs


def bytes_of(shape: tuple[int, ...]) -> bytes:
    """Return a shape as the bytes of NumPy's ``npy_intp`` numbers."""
    return np.array(shape, np.intp).tobytes()
