"""Reductions at the end of a region: their inputs are computed without storing them.

A reduction of float32 reads each element once, so it can compute it. The order of its
sums stays that of the kernel, and so do the bits.

Map: ``fusable``; ``compiled``; ``_fused``, one kernel; ``_reads``, its C.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from plugrad.plugin import Graph, Step

from . import reductions, regions, source
from .arrays import DType
from .kernels import KERNELS
from .kernels.reduce import divide
from .runtime import Device

FOLDS = {"Sum": "Sum", "Mean": "Sum", "Max": "Max", "Min": "Min"}
FLOAT32 = np.dtype("float32")


def fusable(step: Step, graph: Graph) -> bool:
    """Return whether a step can be in a region.

    What a reduction makes is not read in its region, if it has fewer elements.
    """
    if step.kernel.name in FOLDS:
        x, y = graph.specs[_read(step)], graph.specs[step.outputs[0]]
        return x.dtype == FLOAT32 and prod(x.shape) > prod(y.shape)
    return regions.fusable(step, graph)


def compiled(device: Device, graph: Graph) -> Callable[..., Any] | None:
    """Return a function of the inputs of a region; None if its kernels are as fast."""
    folds = [step for step in graph.steps if step.kernel.name in FOLDS]
    if not folds:
        return regions.compiled(device, graph)
    steps = tuple([step for step in graph.steps if step not in folds])
    made = {y for step in steps for y in step.outputs}
    read = [_read(step) for step in folds]
    wanted = dict.fromkeys([y for y in (*graph.outputs, *read) if y in made])
    part = graph._replace(steps=steps, outputs=(*wanted,))
    if not steps:
        return None
    if graph.outputs == folds[0].outputs and (run := _fused(device, part, folds[0])):
        return run
    first = regions.compiled(device, part)
    return first and _one_by_one(graph, part, folds, first)


def _read(step: Step) -> int:
    """Return the value that a reduction reads."""
    (x,) = step.inputs
    assert x is not None
    return x


def _one_by_one(
    graph: Graph, part: Graph, folds: Sequence[Step], first: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a function that runs the region, and then the reductions."""

    def run(*xs: Any) -> Any:
        made = first(*xs)
        ys = made if len(part.outputs) > 1 else (made,)
        values = dict(zip(part.outputs, ys, strict=True))
        for step in folds:
            x, kernel = values[_read(step)], KERNELS[step.kernel.name]
            values[step.outputs[0]] = kernel(x, **step.attrs)
        found = tuple([values[y] for y in graph.outputs])
        return found if len(found) > 1 else found[0]

    return run


def _fused(device: Device, part: Graph, step: Step) -> Callable[..., Any] | None:
    """Return one kernel; None if an input has to be broadcast, or axes lie apart."""
    code, shape = regions.Code(part), part.specs[part.outputs[0]].shape
    shapes = [part.specs[x].shape for x in code.inputs]
    axis, name = step.attrs["axis"], step.kernel.name
    begin, end = min(axis, default=0), max(axis, default=-1) + 1
    sizes = prod(shape[:begin]), prod(shape[begin:end]), prod(shape[end:])
    fits = all(own == shape or prod(own) == 1 for own in shapes)
    if not fits or not code.lines or len(code.libraries) > 1 or sizes[1] < 2:
        return None
    if len(axis) != end - begin or len(shapes) + len(code.numbers) > 60:
        return None
    whole = [own == shape for own in shapes]
    reads, fold = _reads(code, part, whole, FLOAT32), FOLDS[name]
    launch = reductions.reducer(device, fold, FLOAT32, sizes[2] == 1, *reads)
    keeps, constants = step.attrs["keepdims"], [*part.constants.values()]
    kept = [(i, 1 if i in axis else n) for i, n in enumerate(shape)]
    to = tuple([n for i, n in kept if keeps or i not in axis])

    def run(*xs: Any) -> Any:
        given = [*[x.buffer for x in (*xs, *constants)], *code.numbers]
        y = reductions.reduced(launch, fold, FLOAT32, sizes, *given).view(to)
        return divide(y, count=sizes[1]) if name == "Mean" else y

    return run


def _reads(
    code: regions.Code, part: Graph, whole: Sequence[bool], dtype: DType
) -> tuple[str, str]:
    """Return the arguments of a kernel, and what defines the elements that it reads."""
    cs = [source.C[part.specs[x].dtype] for x in code.inputs]
    given = [f"__global const {c} *restrict x{i}" for i, c in enumerate(cs)]
    given += [f"{c} a{i}" for i, c in enumerate(code.types)]
    names = [f"x{i}" for i in range(len(cs))] + [
        f"a{i}" for i in range(len(code.types))
    ]
    functions = []
    for one in (False, True):
        lines = []
        for i, (c, full) in enumerate(zip(cs, whole, strict=True)):
            vector = f"const V_{c} v{i} ="
            if full and not one:
                lines.append(f"{vector} *(__global const V_{c} *)(x{i} + at);")
            else:
                lines.append(f"{vector} x{i}[{'at' if full else 0}];")
        result = code.variables[part.outputs[0]]
        head = f"static inline V_{source.C[dtype]} {'one' if one else 'many'}_at"
        body = " ".join([*lines, *code.lines, f"return {result};"])
        functions.append(f"{head}({', '.join([*given, 'long at'])}) {{ {body} }}")
    called = ", ".join(names)
    functions += [f"#define MANY_AT(i) many_at({called}, i)"]
    functions += [f"#define ONE_AT(i) FIRST(one_at({called}, i))"]
    return ", ".join(given), "\n".join([*code.definitions(dtype), *functions])
