"""Row kernels and reductions in regions: how C is called on a part of the arrays.

Contents: ``Call``; ``call_of``, the call of a step; row kernels; reductions.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np
from plugrad.plugin import Graph, Step

from ..kernels.reduce import REDUCE_MIN_ELEMENTS, plan
from ..native import MAX_ELEMENTS

ROW_MAX_ELEMENTS = 1 << 16  # maximum row length in a region
VIEW = "BroadcastTo"
FOUR_ROWS = 32  # reduce.c sums rows of this length four at a time


class Count(NamedTuple):
    """The number of elements of a block, divided by ``over``."""

    over: int


Numbers = tuple[int | Count, ...]


class Call(NamedTuple):
    """A call of a kernel in C on a block of elements.

    Attributes:
        name: The name of the kernel. Its arguments are the inputs, the result,
            ``numbers`` and ``last``.
        inputs: The values that it reads.
        numbers: The integer arguments.
        last: The last argument, a float.
        unit: A call processes a multiple of this number of elements.
        results_per_unit: The number of results that it computes from a unit; fewer than
            ``unit`` in a reduction.
        is_part: Whether each call processes only one unit, as a part of a longer
            reduction.
        shape: The shape of the result.
        rest: The calls that complete a reduction: see ``reduce.plan``.

    """

    name: str
    inputs: tuple[int | None, ...]
    numbers: Numbers
    last: float
    unit: int
    results_per_unit: int
    is_part: bool
    shape: tuple[int, ...]
    rest: list[Any] = []  # noqa: RUF012

    @property
    def reduces(self) -> bool:
        """Whether the kernel is a reduction."""
        return self.results_per_unit < self.unit


def call_of(step: Step, graph: Graph) -> Call | None:
    """Return the call that runs a step on blocks; None if no C kernel can run it."""
    make = CALLS.get(step.kernel.name)
    if make is None:
        return None
    specs = [graph.specs[v] for v in (*step.inputs, *step.outputs) if v is not None]
    if any(spec.dtype != np.float32 for spec in specs) or _reads_views(step, graph):
        return None
    return make(step, graph) if prod(specs[0].shape) < MAX_ELEMENTS else None


def values(step: Step) -> list[int]:
    """Return the values that a step reads."""
    return [x for x in step.inputs if x is not None]


def _reads_views(step: Step, graph: Graph) -> bool:
    """Return whether an input is a broadcast view; row kernels cannot read views."""
    views = (s for s in graph.steps if s.kernel.name == VIEW)
    return any(s.outputs[0] in step.inputs for s in views)


# --- row kernels -----------------------------------------------------------------


def _rows(name: str, *numbers: int) -> Callable[[Step, Graph], Call | None]:
    """Return a function that returns the ``Call`` of a row kernel.

    The first inputs contain all rows (see ``ARRAYS``); the others are single rows or
    missing.
    """

    def make(step: Step, graph: Graph) -> Call | None:
        shape = graph.specs[step.outputs[0]].shape
        last = len(shape) - 1
        n = shape[-1]
        if step.attrs.get("axis", last) not in (last, (last,)) or n > ROW_MAX_ELEMENTS:
            return None
        arrays = ARRAYS.get(step.kernel.name, len(step.inputs))
        for k, x in enumerate(step.inputs):
            expected = shape if k < arrays else (n,)
            if x is not None and graph.specs[x].shape != expected:
                return None
        if arrays < len(step.inputs) and last == 0:
            return None
        epsilon = float(step.attrs.get("epsilon", 0.0))
        sizes: Numbers = (Count(n), n, *numbers)
        return Call(name, step.inputs, sizes, epsilon, n, n, False, shape)

    return make


# The number of inputs that contain all rows; for other kernels, all inputs do.
ARRAYS = {"LayerNorm": 1, "LayerNormGrad": 2}

# --- reductions ------------------------------------------------------------------


def _fold(name: str) -> Callable[[Step, Graph], Call | None]:
    """Return a function that returns the first ``Call`` of a reduction."""

    def make(step: Step, graph: Graph) -> Call | None:
        x = values(step)[0]
        shape, axis = graph.specs[x].shape, step.attrs["axis"]
        steps = plan(shape, axis, step.attrs["keepdims"])[1]
        if prod(shape) < REDUCE_MIN_ELEMENTS or not steps:
            return None
        ((_, parts, _), (outer, n, inner, chunk)), *rest = steps
        last = n % chunk if inner == 1 else 0
        if chunk * inner > ROW_MAX_ELEMENTS or (
            parts > 1 and (outer > 1 or last == FOUR_ROWS)
        ):
            return None
        numbers: Numbers = (Count(n * inner), n, inner, n)
        if parts > 1:
            numbers = (1, Count(inner), inner, Count(inner))
        divisor = 1.0 if rest else divisor_of(step, shape)
        unit = chunk * inner
        y_shape = graph.specs[step.outputs[0]].shape
        y_shape = steps[0][0] if rest else y_shape
        is_part = parts > 1
        return Call(name, (x,), numbers, divisor, unit, inner, is_part, y_shape, rest)

    return make


def divisor_of(step: Step, shape: tuple[int, ...]) -> float:
    """Return the number by which the sum is divided: 1 unless it is a mean."""
    mean = step.kernel.name == "Mean"
    return float(prod([shape[i] for i in step.attrs["axis"]])) if mean else 1.0


CALLS = {
    "Softmax": _rows("softmax_f32", 1, 0),
    "LogSoftmax": _rows("softmax_f32", 1, 1),
    "plugrad_cpu.SoftmaxGrad": _rows("softmax_grad_f32", 0),
    "plugrad_cpu.LogSoftmaxGrad": _rows("softmax_grad_f32", 1),
    "LayerNorm": _rows("layer_norm_f32"),
    "LayerNormGrad": _rows("layer_norm_grad_f32"),
}
FOLDS = {"Sum": "sum", "Mean": "sum", "Prod": "prod", "Max": "max_of", "Min": "min_of"}
CALLS |= {kernel: _fold(f"{name}_f32") for kernel, name in FOLDS.items()}
