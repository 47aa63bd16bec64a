"""Regions: which steps are taken, and the function that a graph becomes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from plugrad.plugin import Graph, Step, runtime

from . import native, threads
from .kernels import ELEMENTWISE, KINDS, PROBED, ZEROS
from .probes import agrees, rows_agree
from .programs import MOST_BUFFERS, Plan, Writer, buffers, values
from .rows import ROWS

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
    return name not in PROBED or agrees(step.kernel)


def _exponent(step: Step, graph: Graph) -> float | None:
    native = graph.constants.get(step.inputs[1] or 0)
    return float(native) if native is not None and not native.ndim else None


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
    """Return the function of a graph; None if its kernels are as fast."""
    steps = [step for step in graph.steps if step.kernel.name != VIEW]
    return function_of(graph) if len(steps) > 1 else None


def function_of(graph: Graph) -> Function | None:
    """Return the function of a graph; None if it cannot be compiled."""
    plan = planned(graph)
    if plan is None or buffers(plan) > MOST_BUFFERS:
        return None
    module = native.new_module()
    Writer(module, plan).write()
    arrays = len(plan.given) + len(plan.made)
    size = prod(plan.shape)
    native.add_call(module, arrays, release=size >= RELEASE)
    function = _caller(plan, native.Compiled(module))
    views = {s.outputs[0]: s for s in graph.steps if s.kernel.name == VIEW}
    if views.keys() & {*graph.outputs}:
        return _with_views(function, graph, views)
    return function


def planned(graph: Graph) -> Plan | None:
    """Return the plan of a graph; None if a constant is not in order."""
    numbers: dict[int, float] = {}
    for value, constant in graph.constants.items():
        if constant.size == 1:
            numbers[value] = constant.item()
        elif not constant.flags.c_contiguous:
            return None
    arrays = [value for value in graph.constants if value not in numbers]
    views = {s.outputs[0] for s in graph.steps if s.kernel.name == VIEW}
    shape = graph.specs[graph.steps[0].outputs[0]].shape
    made = [y for y in graph.outputs if y not in views]
    return Plan(graph, shape, [*graph.inputs, *arrays], numbers, made)


def _caller(plan: Plan, code: native.Compiled) -> Function:
    """Return the function that makes the outputs and calls the code."""
    specs = [plan.graph.specs[y] for y in plan.made]
    more = [plan.graph.constants[v] for v in plan.given if v in plan.graph.constants]
    items, run = plan.items, code.run
    empties = [(_empty(spec), spec.shape, spec.dtype) for spec in specs]
    lanes = min(native.processor().lanes, plan.inner)
    parts = [(0, items)]
    if prod(plan.shape) >= threads.LEAST:
        parts = threads.pieces(items, lanes if len(plan.axes) == 1 else 1)

    def one(*xs: Any) -> Any:
        y = make(shape, dtype)
        if run(*xs, y, 0, items):
            return y
        return again(one, xs)

    def several(*xs: Any) -> Any:
        ys = [make(shape, dtype) for make, shape, dtype in empties]
        if len(parts) > 1:
            done = threads.run_all(functools.partial(run, *xs, *more, *ys), parts)
        else:
            done = run(*xs, *more, *ys, 0, items)
        if not done:
            return again(several, xs)
        return tuple(ys) if len(ys) > 1 else ys[0]

    if len(empties) > 1 or more or len(parts) > 1:
        several.code = code  # type: ignore[attr-defined]
        return several
    [(make, shape, dtype)] = empties
    one.code = code  # type: ignore[attr-defined]
    return one


def _empty(spec: Any) -> Function:
    """Return what makes an output: cpu's pool has the memory of large ones."""
    if prod(spec.shape) * spec.dtype.itemsize < POOLED:
        return np.empty
    return runtime("cpu").wrap(np.empty)


def again(function: Function, xs: tuple[Any, ...]) -> Any:
    """Call a function with arrays in the place of NumPy's scalars, if there are any."""
    arrays = [np.asarray(x) for x in xs]
    if all(type(x) is np.ndarray for x in xs):
        return NotImplemented  # with strides: the kernels decide about the layout
    return function(*arrays)


def _with_views(function: Function, graph: Graph, views: dict[int, Step]) -> Function:
    """Return the function with the views among its outputs."""
    broadcast = runtime("cpu").wrap(runtime("cpu").kernels[VIEW])
    made = [y for y in graph.outputs if y not in views]
    places = {y: graph.inputs.index(s.inputs[0]) for y, s in views.items()}

    def call(*xs: Any) -> Any:
        results = function(*xs)
        if results is NotImplemented:
            return results
        ys = dict(zip(made, results if len(made) > 1 else [results], strict=True))
        for y in graph.outputs:
            if y in views:
                ys[y] = broadcast(xs[places[y]], shape=views[y].attrs["shape"])
        return tuple([ys[y] for y in graph.outputs])

    return call
