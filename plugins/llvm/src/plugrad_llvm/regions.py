"""Turns a region, which is a graph, into a function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np
from plugrad.plugin import Graph, Step, runtime

from . import native
from .graphs import VIEW, values
from .programs import MAX_BUFFER_BYTES, Plan, Writer, buffer_bytes
from .rows import ROWS
from .worth import REDUCTIONS

NOGIL_MIN_ELEMENTS = 1 << 14  # from here on a region releases the GIL
THREADS_MIN_ELEMENTS = 1 << 17  # from here on a region runs on several threads
PIECE_ELEMENTS = 1 << 14  # that a thread computes at once
POOL_MIN_BYTES = 1 << 15  # from here on results use memory from plugrad-cpu's pool
AFTERWARDS = {VIEW, *REDUCTIONS}  # kernels that run on the outputs of the code

Function = Callable[..., Any]


def function_of(graph: Graph, level: int = native.LEVEL) -> Function | None:
    """Return the function of a graph; None if it cannot be compiled."""
    plan = planned(graph)
    if plan is None or buffer_bytes(plan) > MAX_BUFFER_BYTES:
        return None
    module = native.new_module()
    Writer(module, plan).write()
    release = prod(plan.shape) >= NOGIL_MIN_ELEMENTS
    return _caller(graph, plan, native.compiled(module, release, _pieces(plan), level))


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
    made = [y for y in dict.fromkeys([*graph.outputs, *reduced]) if y in computed]
    part = graph._replace(steps=tuple(steps))
    shape = graph.specs[steps[0].outputs[0]].shape
    return Plan(part, shape, [*graph.inputs, *arrays], numbers, made)


def _caller(graph: Graph, plan: Plan, run: native.Run) -> Function:
    """Return the function of a region: Python that allocates outputs and runs the code.

    It has a parameter for each input, which is faster than ``*args``::

        def region(x0, x1):
            y4 = make4(shape4, dtype4)
            if not run(x0, x1, y4): return again(region, [x0, x1])
            return y4

    Views and reductions run afterwards, as their kernels.
    """
    xs = ", ".join(f"x{v}" for v in graph.inputs)
    lines = [f"def region({xs}):"]
    names: dict[str, Any] = {"run": run, "again": _as_arrays, "__name__": __name__}
    names |= {f"x{v}": np.asarray(constant) for v, constant in graph.constants.items()}
    for y in plan.made:
        spec = graph.specs[y]
        names |= {f"make{y}": _empty(spec), f"shape{y}": spec.shape}
        names[f"dtype{y}"] = spec.dtype
        lines.append(f"  x{y} = make{y}(shape{y}, dtype{y})")
    arrays = ", ".join(f"x{v}" for v in (*plan.given, *plan.made))
    lines.append(f"  if not run({arrays}): return again(region, [{xs}])")
    for step in graph.steps:
        if step.outputs[0] in graph.outputs and step.kernel.name in AFTERWARDS:
            [x], [y] = step.inputs, step.outputs
            names[f"kernel{y}"] = _kernel(step)
            lines.append(f"  x{y} = kernel{y}(x{x})")
    lines.append(f"  return {', '.join(f'x{y}' for y in graph.outputs)}")
    exec("\n".join(lines), names)
    return names["region"]


def _pieces(plan: Plan) -> native.Pieces:
    """Return how the threads of the backend share a region, if it is large enough."""
    flat = len(plan.axes) == 1
    unit = plan.lanes(native.processor().lanes) if flat else 1
    units = plan.items // unit
    grain = max(1, PIECE_ELEMENTS // (unit if flat else plan.inner))
    if prod(plan.shape) < THREADS_MIN_ELEMENTS or units >= 1 << 32:
        return 0, plan.items, 0, 0, 0
    return runtime("cpu").parallel_for or 0, plan.items, unit, units, grain


def _kernel(step: Step) -> Function:
    """Return the kernel of a step, with its attributes."""
    cpu = runtime("cpu")
    return partial(cpu.wrap(cpu.kernels[step.kernel.name]), **step.attrs)


def _empty(spec: Any) -> Function:
    """Return a function that allocates an output; large ones come from cpu's pool."""
    if prod(spec.shape) * spec.dtype.itemsize < POOL_MIN_BYTES:
        return np.empty
    return runtime("cpu").wrap(np.empty)


def _as_arrays(function: Function, xs: list[Any]) -> Any:
    """Call a function with arrays instead of NumPy scalars."""
    if all(type(x) is np.ndarray for x in xs):
        return NotImplemented  # not row-major: the kernels must choose the layout
    return function(*map(np.asarray, xs))
