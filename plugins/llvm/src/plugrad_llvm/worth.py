"""Decides for which regions machine code pays off.

Compiling a region takes 6 to 20 ms, and loading LLVM 20 ms; plugrad-cpu's own compiler
takes no time. If both support a region, machine code saves 30 to 40 ns per 1,000
elements for each kernel after the first, and nothing in short regions. Similar regions
share machine code, so their savings add up.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable
from math import prod

import numpy as np
from plugrad.plugin import Graph, Step, runtime

# The minimum work of a region (kernels times elements) for which machine code pays off:
# it then saves 20 us per call, so it pays off after 500 calls. The second limit applies
# if plugrad-cpu has no compiler.
MIN_WORK = 600_000
MIN_WORK_WITHOUT_COMPILER = 1 << 13
# The maximum length of a chain of elementary functions that depend on each other. In
# longer chains the processor stalls, because few iterations of the loop overlap.
MAX_DEPTH = 2
GRADIENTS = ("Erf", "Gelu", "GeluTanh", "Sigmoid", "Tanh")
ELEMENTARY = {
    *("Exp", "Exp2", "Expm1", "Log", "Log1p", "Sin", "Cos", "Tanh", "Erf", "Erfc"),
    *("Sigmoid", "Softplus", "Elu", "Selu", "Gelu", "GeluTanh"),
    *(f"plugrad_cpu.{name}Grad" for name in GRADIENTS),
}
REDUCTIONS = {"Sum", "Mean", "Prod", "Max", "Min"}
# The number of steps up to which plugrad-cpu's own compiler is as fast for regions that
# end in a reduction, because it keeps the input of the reduction in the cache.
REDUCTION_MAX_STEPS = 9
VIEWS = {"BroadcastTo"}  # steps that compute nothing
DOUBLE = np.dtype("float64")
MAX_OUTLINES = 256  # outlines for which the total work is cached


def has_cpu_compiler() -> bool:
    """Return whether plugrad-cpu has its own compiler, which needs the C kernels."""
    return runtime("cpu").compile is not None


def cpu_compiler_accepts(step: Step, graph: Graph) -> bool:
    """Return whether plugrad-cpu's own compiler accepts a step in a region."""
    fusable = runtime("cpu").fusable
    return has_cpu_compiler() and callable(fusable) and fusable(step, graph) is True


def may_pay(step: Step, graph: Graph) -> bool:
    """Return whether a step may be part of a region that pays off."""
    specs = [graph.specs[v] for v in (*step.inputs, *step.outputs) if v is not None]
    if any(
        spec.dtype == DOUBLE for spec in specs
    ):  # only machine code supports float64
        return True
    return len(graph.steps) * max([prod(spec.shape) for spec in specs]) >= min_work()


def min_work() -> int:
    """Return the minimum work (kernels times elements) for which a region pays off."""
    return MIN_WORK if has_cpu_compiler() else MIN_WORK_WITHOUT_COMPILER


def pays(graph: Graph) -> bool:
    """Return whether compiling a region pays off; earlier similar regions count."""
    steps = [step for step in graph.steps if step.kernel.name not in VIEWS]
    if len(steps) < 2:
        return False
    if all(cpu_compiler_accepts(step, graph) for step in graph.steps):
        reduces = any(step.kernel.name in REDUCTIONS for step in steps)
        if _depth(graph) > MAX_DEPTH or (reduces and len(steps) <= REDUCTION_MAX_STEPS):
            return False
    if any(spec.dtype == DOUBLE for spec in graph.specs.values()):
        return True
    counter = _work_counter(_outline(graph))
    counter[0] += (len(steps) - 1) * max(prod(s.shape) for s in graph.specs.values())
    return counter[0] >= min_work()


@functools.lru_cache(MAX_OUTLINES)
def _work_counter(outline: Hashable) -> list[int]:
    """Return a list with the total work of all regions of an outline."""
    return [0]


def _outline(graph: Graph) -> Hashable:
    """Return the outline of a region; equal outlines mean equal machine code."""
    number = {v: n for n, v in enumerate(graph.specs)}
    steps = [
        (s.kernel.name, *[None if x is None else number[x] for x in s.inputs])
        for s in graph.steps
    ]
    shapes = [(spec.shape, spec.dtype) for spec in graph.specs.values()]
    return (*steps, *shapes, *[number[y] for y in graph.outputs])


def _depth(graph: Graph) -> int:
    """Return the length of the longest chain of elementary functions."""
    depth: dict[int, int] = {}
    for step in graph.steps:
        before = [depth.get(x, 0) for x in step.inputs if x is not None]
        length = max(before, default=0) + (step.kernel.name in ELEMENTARY)
        depth |= dict.fromkeys(step.outputs, length)
    return max(depth.values())
