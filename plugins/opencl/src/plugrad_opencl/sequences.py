"""Splits regions with row kernels into parts that run one after the other.

A part consists of one row kernel and the element-wise steps around it, and is one
launch if possible. Reductions come last, with the steps whose results only they read. A
step that depends on no row kernel is computed as late as possible, in the part that
reads its result.

Contents: ``compiled``; ``_levels``, the parts of the steps; ``_chunks``, the reductions
of a launch; ``_shared``, for rows that are normalized several times; ``single_kernel``,
for graphs of one step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from plugrad.plugin import Graph, Step, contracts

from . import folds, rows
from .kernels import KERNELS
from .runtime import Device

Function = Callable[..., Any]


def compiled(device: Device, graph: Graph) -> Function | None:
    """Return a function of a region's inputs; None if separate kernels are to run."""
    if any(rows.is_row(step, graph) for step in graph.steps):
        if len(graph.steps) == 1:
            return None
        graph = _shared(graph)
        pieces = [*_pieces(device, graph)]
    elif len(_chunks(graph.steps)) < 2:
        return folds.compiled(device, graph)
    else:
        pieces = [*_without_rows(device, graph, graph.steps, ())]
    if len(pieces) == 1:
        return pieces[0][1]

    def run(*xs: Any) -> Any:
        values = dict(zip(graph.inputs, xs, strict=True))
        for part, function in pieces:
            made = function(*[values[x] for x in part.inputs])
            ys = made if len(part.outputs) > 1 else (made,)
            values.update(zip(part.outputs, ys, strict=True))
        found = tuple([values[y] for y in graph.outputs])
        return found if len(found) > 1 else found[0]

    return run


def _pieces(device: Device, graph: Graph) -> Iterator[tuple[Graph, Function]]:
    """Yield the parts of a graph with their functions, in the order of execution."""
    levels = _levels(graph)
    steps_by_level = [
        [s for s in graph.steps if levels[s.outputs] == i]
        for i in sorted({*levels.values()})
    ]
    for i, steps in enumerate(steps_by_level):
        rest = [step for later in steps_by_level[i + 1 :] for step in later]
        part = _part(graph, steps, rest)
        row = next((step for step in steps if rows.is_row(step, graph)), None)
        function = row and len(steps) > 1 and rows.compiled(device, part, row)
        if function:
            yield part, function
        elif row:
            yield from _split_at_row(device, graph, steps, row, rest)
        else:
            yield from _without_rows(device, graph, steps, rest)


def _split_at_row(
    device: Device, graph: Graph, steps: Sequence[Step], row: Step, rest: Sequence[Step]
) -> Iterator[tuple[Graph, Function]]:
    """Yield the steps before a row kernel, the kernel, and the steps after it."""
    dependents = rows.dependents(graph, row)
    before = [step for step in steps if dependents.isdisjoint(step.outputs)]
    after = [s for s in steps if s is not row and not dependents.isdisjoint(s.outputs)]
    yield from _without_rows(device, graph, before, [row, *after, *rest])
    part = _part(graph, [row], [*after, *rest])
    yield part, single_kernel(part)
    yield from _without_rows(device, graph, after, rest)


def _without_rows(
    device: Device, graph: Graph, steps: Sequence[Step], rest: Sequence[Step]
) -> Iterator[tuple[Graph, Function]]:
    """Yield parts: element-wise steps, with reductions that can share a launch."""
    later = {x for step in rest for x in step.inputs}.union(graph.outputs)
    others = [step for step in steps if step.kernel.name not in folds.FOLDS]
    made: set[int | None] = set()
    for chunk in _chunks(steps) or [[]]:
        wanted = {x for step in chunk for x in step.inputs}
        wanted |= {y for step in others for y in step.outputs if y in later}
        needed = list[Step]()
        for step in reversed(others):
            if not wanted.isdisjoint(step.outputs) and made.isdisjoint(step.outputs):
                wanted.update(step.inputs)
                needed.insert(0, step)
        part = _part(graph, [*needed, *chunk], [*rest])
        made.update(part.outputs)
        yield from _one_or_more(device, graph, part, rest)


def _one_or_more(
    device: Device, graph: Graph, part: Graph, rest: Sequence[Step]
) -> Iterator[tuple[Graph, Function]]:
    """Yield a part without row kernels as one launch, or as separate kernels."""
    function = folds.compiled(device, part) if part.steps else None
    if function:
        yield part, function
        return
    for i, step in enumerate(part.steps):
        single = _part(graph, [step], [*part.steps[i + 1 :], *rest])
        yield single, single_kernel(single)


def _chunks(steps: Sequence[Step]) -> list[list[Step]]:
    """Return lists of reductions that can share a kernel: those over the same axes."""
    by_axes: dict[frozenset[int], list[Step]] = {}
    for step in steps:
        if step.kernel.name in folds.FOLDS:
            by_axes.setdefault(frozenset(step.attrs["axis"]), []).append(step)
    size = folds.MAX_FOLDS
    return [
        own[i : i + size] for own in by_axes.values() for i in range(0, len(own), size)
    ]


def _shared(graph: Graph) -> Graph:
    """Return a graph that normalizes the rows shared by several LayerNorm steps once.

    Their scales and offsets become separate steps.
    """
    counts = Counter(_normalization_key(step) for step in graph.steps)
    bases: dict[Any, int] = {}
    steps = list[Step]()
    specs = dict(graph.specs)
    for step in graph.steps:
        key = _normalization_key(step)
        if not key or counts[key] < 2 or not rows.is_row(step, graph):
            steps.append(step)
            continue
        (x, scale, offset), (y,) = step.inputs, step.outputs
        if key not in bases:
            bases[key] = z = max(specs) + 1
            specs[z] = specs[y]
            steps.append(step._replace(inputs=(x, None, None), outputs=(z,)))
        z = bases[key]
        operands = [("Multiply", scale), ("Add", offset)]
        given = [(name, t) for name, t in operands if t is not None]
        for i, (name, t) in enumerate(given or [("Identity", None)]):
            output = y if i >= len(given) - 1 else max(specs) + 1
            specs[output] = specs[y]
            inputs = (z,) if t is None else (z, t)
            steps.append(Step(contracts()[name], step.backend, inputs, {}, (output,)))
            z = output
    return graph._replace(steps=tuple(steps), specs=specs)


def _normalization_key(step: Step) -> Any:
    """Return the input, axis and epsilon of a LayerNorm step; None for other steps."""
    if step.kernel.name != "LayerNorm":
        return None
    return step.inputs[0], step.attrs["axis"], step.attrs["epsilon"]


def _part(graph: Graph, steps: Sequence[Step], rest: Sequence[Step]) -> Graph:
    """Return the graph of ``steps``; ``rest`` are the steps that run after them."""
    made = [y for step in steps for y in step.outputs]
    read = {x: None for step in steps for x in step.inputs if x is not None}
    later = {x for step in rest for x in step.inputs}.union(graph.outputs)
    given = [x for x in read if x not in made]
    return Graph(
        tuple([x for x in given if x not in graph.constants]),
        {x: graph.constants[x] for x in given if x in graph.constants},
        tuple(steps),
        tuple([y for y in made if y in later]),
        {v: graph.specs[v] for v in (*read, *made)},
    )


def _levels(graph: Graph) -> dict[tuple[int, ...], int]:
    """Return the index of the part that contains each step, by the step's outputs.

    Each row kernel has its own even index. All reductions are in the last part,
    because no step of a region reads their results. So are steps whose results only
    reductions read.
    """
    level: dict[int, int] = {}  # by value: the index of its part
    free: set[int] = set()  # values that depend on no row kernel
    taken: set[int] = set()
    for step in graph.steps:
        (y,) = step.outputs
        given = [x for x in step.inputs if x in level]
        number = max([level[x] for x in given], default=0)
        if rows.is_row(step, graph):
            while number in taken:
                number += 2
            taken.add(number)
        elif step.kernel.name not in folds.FOLDS and free.issuperset(given):
            free.add(y)
        level[y] = number
    last = max(taken, default=0) + 1
    for step in graph.steps:
        if step.kernel.name in folds.FOLDS:
            level[step.outputs[0]] = last
    _delay(graph, level, free)
    return {step.outputs: level[step.outputs[0]] for step in graph.steps}


def _delay(graph: Graph, level: dict[int, int], free: set[int]) -> None:
    """Move steps to the part that reads their results.

    A step is moved if it depends on no row kernel, or if only reductions and moved
    steps read its result.
    """
    readers: dict[int, list[int]] = {}
    for step in reversed(graph.steps):
        (y,) = step.outputs
        read = readers.get(step.outputs[0], [])
        fixed = rows.is_row(step, graph) or step.kernel.name in folds.FOLDS
        if read and not fixed and y not in graph.outputs:
            earliest = min([level[other] for other in read])
            if y in free or earliest % 2:
                level[y] = earliest
        for x in step.inputs:
            if x is not None:
                readers.setdefault(x, []).append(y)


def single_kernel(graph: Graph) -> Function:
    """Return the kernel of a graph of one step, as a function of the graph's inputs.

    The function returns the outputs of the graph, which may be fewer than those of the
    kernel.
    """
    (step,) = graph.steps
    kernel = KERNELS[step.kernel.name]
    bound = partial(getattr(kernel, "kernel", kernel), **step.attrs)
    function = bound if step.inputs == graph.inputs else _with_constants(bound, graph)
    if step.kernel.single or step.outputs == graph.outputs:
        return function
    used = [step.outputs.index(y) for y in graph.outputs]

    def selected(*xs: Any) -> Any:
        made = function(*xs)
        if made is NotImplemented:
            return made
        found = tuple([made[i] for i in used])
        return found if len(found) > 1 else found[0]

    return selected


def _with_constants(function: Function, graph: Graph) -> Function:
    """Turn a function of the step's inputs into one of the graph's inputs."""
    (step,) = graph.steps
    numbers = {x: i for i, x in enumerate(graph.inputs)}
    constants = graph.constants

    def with_constants(*xs: Any) -> Any:
        return function(
            *[
                None
                if x is None
                else constants[x]
                if x in constants
                else xs[numbers[x]]
                for x in step.inputs
            ]
        )

    return with_constants
