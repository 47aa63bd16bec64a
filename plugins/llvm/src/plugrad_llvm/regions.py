"""Regions: which steps are taken, and the function that a graph becomes."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from plugrad.plugin import Graph, Step, runtime

from . import native, threads
from .kernels import ELEMENTWISE, KINDS, ZEROS
from .probes import agrees, rows_agree
from .programs import MOST_BUFFERS, Plan, Writer, buffers, values
from .rows import ROWS

LEAST = 1 << 13  # elements of an array, from which on compiling pays
RELEASE = 1 << 14  # elements, from which on other threads of Python may run
LONGEST = 1 << 14  # elements of rows, of which there are buffers on the stack
POOLED = 1 << 15  # bytes of a result that has its memory from the pool of cpu
VIEW = "BroadcastTo"  # its result is a view, of which no element is computed

Function = Callable[..., Any]


# --- steps -----------------------------------------------------------------------


def takes(step: Step, graph: Graph) -> bool:
    """Return whether a step can be compiled, with the bits of its kernel."""
    name, specs = step.kernel.name, graph.specs
    if any(specs[v].dtype not in KINDS for v in (*values(step), *step.outputs)):
        return False
    if name in ROWS:
        return _takes_rows(step, graph)
    if name not in ELEMENTWISE:
        return False
    if KINDS[specs[values(step)[0]].dtype] not in ELEMENTWISE[name].kinds:
        return False
    shape = specs[step.outputs[0]].shape
    operands = [specs[x].shape for x in values(step)]
    if name == VIEW:
        return operands[0] != shape
    if name == "Pow":
        return _exponent(step, graph) in (1, 2, 3)
    if name in ZEROS and any(s != shape and prod(s) != 1 for s in operands):
        return False
    return ELEMENTWISE[name].exact or agrees(step.kernel)


def _exponent(step: Step, graph: Graph) -> float | None:
    constant = graph.constants.get(values(step)[1])
    return None if constant is None or constant.ndim else constant.item()


def _takes_rows(step: Step, graph: Graph) -> bool:
    """Return whether it is a kernel of rows of float32, along the last axis."""
    specs = [graph.specs[v] for v in (*step.outputs, *values(step))]
    shape = specs[0].shape
    n, axis = shape[-1], step.attrs.get("axis", len(shape) - 1)
    if n > LONGEST or any(spec.dtype != np.float32 for spec in specs):
        return False
    if axis not in (len(shape) - 1, (len(shape) - 1,)):
        return False
    if step.kernel.name == "LayerNorm":
        specs = [s for s in specs if s.shape != (n,)]
    return all(s.shape == shape for s in specs) and rows_agree(step.kernel)


# --- functions -------------------------------------------------------------------


def compiled(graph: Graph) -> Function | None:
    """Return the function of a graph; None if others are as fast.

    Of small arrays in float32 that is the compiler of cpu, which takes no time.
    """
    steps = [step for step in graph.steps if step.kernel.name != VIEW]
    dtypes = {spec.dtype for spec in graph.specs.values()}
    large = max(prod(spec.shape) for spec in graph.specs.values()) >= LEAST
    worth = len(steps) > 1 and (large or np.dtype(np.float64) in dtypes)
    return function_of(graph) if worth else None


def function_of(graph: Graph, level: int = native.LEVEL) -> Function | None:
    """Return the function of a graph; None if it cannot be compiled."""
    plan = planned(graph)
    if plan is None or buffers(plan) > MOST_BUFFERS:
        return None
    module = native.new_module()
    Writer(module, plan).write()
    release = prod(plan.shape) >= RELEASE
    return _caller(plan, native.compiled(module, release, level))


def planned(graph: Graph) -> Plan | None:
    """Return the plan of a graph; None if a constant is not in order."""
    rows = [step for step in graph.steps if step.kernel.name in ROWS]
    read = {x for step in rows for x in values(step)}
    numbers: dict[int, float] = {}
    for value, constant in graph.constants.items():
        if constant.size == 1 and value not in read:
            numbers[value] = constant.item()
        elif not constant.flags.c_contiguous:
            return None
    arrays = [value for value in graph.constants if value not in numbers]
    views = {s.outputs[0] for s in graph.steps if s.kernel.name == VIEW}
    shape = graph.specs[graph.steps[0].outputs[0]].shape
    made = [y for y in graph.outputs if y not in views]
    return Plan(graph, shape, [*graph.inputs, *arrays], numbers, made)


def _caller(plan: Plan, run: native.Run) -> Function:
    """Return the function of a region: Python that makes the outputs and runs the code.

    It has a parameter for each input, which takes less time than any number of them::

        def region(x0, x1):
            y4 = make4(shape4, dtype4)
            if not run(x0, x1, y4, 0, 64): return again(region, [x0, x1])
            return y4
    """
    graph = plan.graph
    xs = ", ".join(f"x{v}" for v in graph.inputs)
    lines = [f"def region({xs}):"]
    space: dict[str, Any] = {"run": run, "again": _again, "run_all": threads.run_all}
    space |= {f"x{v}": np.asarray(constant) for v, constant in graph.constants.items()}
    for y in plan.made:
        spec = graph.specs[y]
        space |= {f"make{y}": _empty(spec), f"shape{y}": spec.shape}
        space[f"dtype{y}"] = spec.dtype
        lines.append(f"  x{y} = make{y}(shape{y}, dtype{y})")
    arrays = ", ".join(f"x{v}" for v in (*plan.given, *plan.made))
    call = f"run({arrays}, 0, {plan.items})"
    if (parts := _parts(plan)) is not None:
        space["parts"] = parts
        call = f"run_all(lambda begin, end: run({arrays}, begin, end), parts)"
    lines.append(f"  if not {call}: return again(region, [{xs}])")
    for step in graph.steps:
        if step.outputs[0] in graph.outputs and step.kernel.name == VIEW:
            [x], [y] = step.inputs, step.outputs
            space |= {"view": _view(), f"shape{y}": step.attrs["shape"]}
            lines.append(f"  x{y} = view(x{x}, shape=shape{y})")
    lines.append(f"  return {', '.join(f'x{y}' for y in graph.outputs)}")
    exec("\n".join(lines), space)
    return space["region"]


def _parts(plan: Plan) -> list[tuple[int, int]] | None:
    """Return the pieces that threads do; None if there is one only."""
    if prod(plan.shape) < threads.LEAST:
        return None
    lanes = min(native.processor().lanes, plan.inner)
    parts = threads.pieces(plan.items, lanes if len(plan.axes) == 1 else 1)
    return parts if len(parts) > 1 else None


def _view() -> Function:
    """Return the kernel of the results that are views."""
    cpu = runtime("cpu")
    return cpu.wrap(cpu.kernels[VIEW])


def _empty(spec: Any) -> Function:
    """Return what makes an output: cpu's pool has the memory of large ones."""
    if prod(spec.shape) * spec.dtype.itemsize < POOLED:
        return np.empty
    return runtime("cpu").wrap(np.empty)


def _again(function: Function, xs: list[Any]) -> Any:
    """Call a function with arrays in the place of NumPy's scalars, if there are any."""
    if all(type(x) is np.ndarray for x in xs):
        return NotImplemented  # with strides: the kernels decide about the layout
    return function(*map(np.asarray, xs))
