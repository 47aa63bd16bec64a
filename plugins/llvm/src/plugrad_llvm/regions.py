"""Turns a region, which is a graph, into a function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np
from plugrad.plugin import Graph, Step, runtime
from plugrad_cpu.regions import Share, machine_code

from . import native
from .graphs import VIEW, values
from .programs import MAX_BUFFER_BYTES, Plan, Writer, buffer_bytes
from .rows import ROWS
from .worth import REDUCTIONS

THREADS_MIN_ELEMENTS = 1 << 17  # from this size on, a region runs on several threads
PIECE_ELEMENTS = 1 << 14  # elements that a thread computes at once
RUN_AFTER = {VIEW, *REDUCTIONS}  # kernels that run after the code, on its outputs

Function = Callable[..., Any]


def function_of(graph: Graph, level: int = native.LEVEL) -> Function | None:
    """Return the function of a graph; None if it cannot be compiled."""
    plan = planned(graph)
    if plan is None or buffer_bytes(plan) > MAX_BUFFER_BYTES:
        return None
    module = native.new_module()
    Writer(module, plan).write()
    engine = native.compiled(module, level)
    specs = graph.specs
    constants = [graph.constants[v] for v in plan.inputs[len(graph.inputs) :]]
    run = machine_code(
        engine.get_function_address("run"),
        _share(plan),
        [specs[v] for v in graph.inputs],
        [np.asarray(constant) for constant in constants],
        [specs[v] for v in plan.outputs],
        engine,
    )
    return run and _with_kernels(graph, plan, run)


def planned(graph: Graph) -> Plan | None:
    """Return the plan of a graph; None if a constant is not in row-major order."""
    rows = [step for step in graph.steps if step.kernel.name in ROWS]
    read = {x for step in rows for x in values(step)}
    numbers: dict[int, float] = {}
    for value, constant in graph.constants.items():
        if constant.size == 1 and value not in read:
            numbers[value] = constant.item()
        elif not constant.flags.c_contiguous:
            return None
    arrays = [value for value in graph.constants if value not in numbers]
    steps = [s for s in graph.steps if s.kernel.name not in REDUCTIONS]
    reduced = [x for s in graph.steps if s not in steps for x in values(s)]
    computed = {s.outputs[0] for s in steps if s.kernel.name != VIEW}
    outputs = [y for y in dict.fromkeys([*graph.outputs, *reduced]) if y in computed]
    part = graph._replace(steps=tuple(steps))
    shape = graph.specs[steps[0].outputs[0]].shape
    return Plan(part, shape, [*graph.inputs, *arrays], numbers, outputs)


def _with_kernels(graph: Graph, plan: Plan, run: Function) -> Function:
    """Return a function that runs the code, then the view and reduction kernels."""
    steps = [
        (_kernel(step), values(step)[0], step.outputs[0])
        for step in graph.steps
        if step.outputs[0] in graph.outputs and step.kernel.name in RUN_AFTER
    ]
    if not steps:
        return run

    def region(*xs: Any) -> Any:
        results = run(*xs)
        if results is NotImplemented:
            return NotImplemented
        results = results if len(plan.outputs) > 1 else (results,)
        found = dict(zip(graph.inputs, xs, strict=True))
        found |= zip(plan.outputs, results, strict=True)
        for kernel, x, y in steps:
            found[y] = kernel(found[x])
        ys = tuple([found[y] for y in graph.outputs])
        return ys if len(ys) > 1 else ys[0]

    return region


def _share(plan: Plan) -> Share:
    """Return how the threads of the backend share a region, if it is large enough."""
    flat = len(plan.axes) == 1
    unit = plan.lanes(native.processor().lanes) if flat else 1
    units = plan.items // unit
    if prod(plan.shape) < THREADS_MIN_ELEMENTS or units >= 1 << 32:
        return Share(plan.items)
    grain = max(1, PIECE_ELEMENTS // (unit if flat else plan.inner))
    return Share(plan.items, unit, units, grain)


def _kernel(step: Step) -> Function:
    """Return the kernel of a step, with its attributes."""
    cpu = runtime("cpu")
    return partial(cpu.wrap(cpu.kernels[step.kernel.name]), **step.attrs)
