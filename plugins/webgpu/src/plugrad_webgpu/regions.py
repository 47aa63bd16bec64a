"""Compiles the regions of ``jit``: element-wise steps and the reductions at their end.

The results have the same bits as those of the separate kernels, because a region hides
intermediate values from the optimizer, and reduces in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from plugrad.plugin import Graph, Step

from . import expressions
from .arrays import KINDS, Array, DType, Shape
from .device import device
from .elementwise import Each, launch
from .kernels.reduce import FOLDS, reduce, reduced_shape
from .plans import Plan, Slot

REDUCTIONS = {*FOLDS, "Mean"}
PLAIN = {"Identity"}  # a view: nothing to compute


def fusable(step: Step, graph: Graph) -> bool:
    """Return whether a step can be in a region."""
    name = step.kernel.name
    kinds = _kinds(step, graph)
    if kinds is None or name in PLAIN:
        return False
    if name in REDUCTIONS:
        spec = graph.specs[step.inputs[0] or 0]
        fits = kinds in FOLDS["Sum" if name == "Mean" else name]
        floating = name != "Mean" or kinds in "fh"
        return fits and floating and 0 not in spec.shape
    return expressions.find(name, kinds, step.attrs) is not None


def _kinds(step: Step, graph: Graph) -> str | None:
    """Return the kinds of the inputs; None if the device does not compute with one."""
    kinds = [KINDS.get(graph.specs[x].dtype) for x in step.inputs if x is not None]
    return None if None in kinds else "".join([kind for kind in kinds if kind])


def compiled(graph: Graph) -> Callable[..., Any] | None:
    """Return a function that runs a region; None if separate kernels should run."""
    steps = [s for s in graph.steps if s.kernel.name not in REDUCTIONS]
    folds = [s for s in graph.steps if s.kernel.name in REDUCTIONS]
    if len(graph.steps) < 2 or not steps:
        return None
    shape = graph.specs[steps[-1].outputs[0]].shape
    same = all(graph.specs[s.outputs[0]].shape == shape for s in steps)
    made = {s.outputs[0] for s in steps}
    if not same or not math.prod(shape) or any(s.inputs[0] not in made for s in folds):
        return None
    folded = {s.outputs[0] for s in folds}
    if any(x in folded for s in steps for x in s.inputs):
        return None  # a step reads a reduction, whose shape may be the same
    reduced = {s.inputs[0] for s in folds}
    stored = [y for y in made if y in graph.outputs or y in reduced]
    sources = [*graph.inputs, *graph.constants]
    if len(sources) + len(stored) > device().max_bindings:
        return None
    return _Region(graph, steps, folds, shape, stored)


class _Region:
    """A region as a plan, with the constants that it reads."""

    def __init__(
        self,
        graph: Graph,
        steps: list[Step],
        folds: list[Step],
        shape: Shape,
        stored: list[int],
    ) -> None:
        sources = [*graph.inputs, *graph.constants]
        self._constants = [*graph.constants.values()]
        specs: list[tuple[Shape, DType] | None] = [
            (graph.specs[x].shape, graph.specs[x].dtype) for x in sources
        ]
        self._plan = Plan(device(), specs)
        slots = [slot for slot in self._plan.inputs if slot is not None]
        found = dict(zip(sources, slots, strict=True))
        each, kinds = _each(graph, steps, sources, stored)
        name = "region " + "+".join([s.kernel.name for s in steps])
        ys = launch(self._plan, name[:80], shape, slots, each, kinds)
        found |= dict(zip(stored, ys, strict=True))
        for step in folds:
            found[step.outputs[0]] = _fold(self._plan, step, found)
        outputs = [found[y] for y in graph.outputs]
        self._plan.finish(outputs[0] if len(outputs) == 1 else outputs)

    def __call__(self, *xs: Array) -> Any:
        """Return the native arrays of the outputs."""
        return self._plan(*xs, *self._constants)


def _each(
    graph: Graph, steps: list[Step], sources: list[int], stored: list[int]
) -> tuple[Each, str]:
    """Return the expressions of a region, and the kinds of what it stores."""
    each = Each("".join([KINDS[graph.specs[x].dtype] for x in sources]))
    names = {x: f"a{j}" for j, x in enumerate(sources)}
    for step in steps:
        kinds = _kinds(step, graph) or ""
        found = expressions.find(step.kernel.name, kinds, step.attrs)
        if found is None:
            raise RuntimeError(f"webgpu: {step.kernel.name} cannot be in a region")
        args = [names[x] for x in step.inputs if x is not None]
        if step.kernel.name in expressions.CANCEL and kinds[0] in "fh":
            args[1] = f"opq_({args[1]})"  # else x - x is 0 for every x
        name = f"v{step.outputs[0]}"
        each.add(name, found, args, step.kernel.name in expressions.HIDDEN)
        names[step.outputs[0]] = name
    kinds = ""
    for y in stored:
        kinds += KINDS[graph.specs[y].dtype]
        each.output(names[y], kinds[-1])
    return each, kinds


def _fold(plan: Plan, step: Step, found: dict[int, Slot]) -> Slot:
    """Record a reduction at the end of a region."""
    x = found[step.inputs[0] or 0]
    axis, keepdims = step.attrs["axis"], step.attrs["keepdims"]
    shape = reduced_shape(x.shape, axis, keepdims)
    if step.kernel.name != "Mean":
        return reduce(plan, step.kernel.name, x, axis, shape)
    return reduce(plan, "Sum", x, axis, shape, math.prod([x.shape[a] for a in axis]))
