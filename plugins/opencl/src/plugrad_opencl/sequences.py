"""Regions with row kernels: cut into parts that run one after the other.

A part has one row kernel and the element-wise steps around it, and is one launch if it
fits into one. Reductions come after it, with the steps that only they read. What is in
no row's way is computed as late as possible: where it is read.

Map: ``compiled``; ``_levels``, where steps belong; ``_chunks``, which reductions go
together; ``_shared``, for rows that are normalized twice; ``alone``, a single kernel.
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
    """Return a function of a region's inputs; None if its kernels are as fast."""
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
    """Yield the parts of a graph, in the order in which they run."""
    levels = _levels(graph)
    cut = [
        [s for s in graph.steps if levels[s.outputs] == i]
        for i in sorted({*levels.values()})
    ]
    for i, steps in enumerate(cut):
        rest = [step for later in cut[i + 1 :] for step in later]
        part = _part(graph, steps, rest)
        row = next((step for step in steps if rows.is_row(step, graph)), None)
        function = row and len(steps) > 1 and rows.compiled(device, part, row)
        if function:
            yield part, function
        elif row:
            yield from _around(device, graph, steps, row, rest)
        else:
            yield from _without_rows(device, graph, steps, rest)


def _around(
    device: Device, graph: Graph, steps: Sequence[Step], row: Step, rest: Sequence[Step]
) -> Iterator[tuple[Graph, Function]]:
    """Yield what comes before a row kernel, the kernel, and what comes after it."""
    late = rows.after(graph, row)
    before = [step for step in steps if late.isdisjoint(step.outputs)]
    behind = [s for s in steps if s is not row and not late.isdisjoint(s.outputs)]
    yield from _without_rows(device, graph, before, [row, *behind, *rest])
    part = _part(graph, [row], [*behind, *rest])
    yield part, alone(part)
    yield from _without_rows(device, graph, behind, rest)


def _without_rows(
    device: Device, graph: Graph, steps: Sequence[Step], rest: Sequence[Step]
) -> Iterator[tuple[Graph, Function]]:
    """Yield element-wise steps, with the reductions over the same axes after them."""
    later = {x for step in rest for x in step.inputs}.union(graph.outputs)
    others = [step for step in steps if step.kernel.name not in folds.FOLDS]
    made: set[int | None] = set()
    for chunk in _chunks(steps) or [[]]:
        wanted = {x for step in chunk for x in step.inputs}
        wanted |= {y for step in others for y in step.outputs if y in later}
        behind = list[Step]()
        for step in reversed(others):
            if not wanted.isdisjoint(step.outputs) and made.isdisjoint(step.outputs):
                wanted.update(step.inputs)
                behind.insert(0, step)
        part = _part(graph, [*behind, *chunk], [*rest])
        made.update(part.outputs)
        yield from _one_or_more(device, graph, part, rest)


def _one_or_more(
    device: Device, graph: Graph, part: Graph, rest: Sequence[Step]
) -> Iterator[tuple[Graph, Function]]:
    """Yield a part without row kernels, or its steps if they are as fast."""
    function = folds.compiled(device, part) if part.steps else None
    if function:
        yield part, function
        return
    for i, step in enumerate(part.steps):
        one = _part(graph, [step], [*part.steps[i + 1 :], *rest])
        yield one, alone(one)


def _chunks(steps: Sequence[Step]) -> list[list[Step]]:
    """Return the reductions that can be in one kernel: those over the same axes."""
    by_axes: dict[frozenset[int], list[Step]] = {}
    for step in steps:
        if step.kernel.name in folds.FOLDS:
            by_axes.setdefault(frozenset(step.attrs["axis"]), []).append(step)
    most = folds.MAX_FOLDS
    return [
        own[i : i + most] for own in by_axes.values() for i in range(0, len(own), most)
    ]


def _shared(graph: Graph) -> Graph:
    """Return a graph that normalizes once what several LayerNorm steps normalize.

    They scale and move the same rows, which are steps of their own then.
    """
    common = Counter(_normalized(step) for step in graph.steps)
    bases: dict[Any, int] = {}
    steps = list[Step]()
    specs = dict(graph.specs)
    for step in graph.steps:
        key = _normalized(step)
        if not key or common[key] < 2 or not rows.is_row(step, graph):
            steps.append(step)
            continue
        (x, scale, offset), (y,) = step.inputs, step.outputs
        if key not in bases:
            bases[key] = z = max(specs) + 1
            specs[z] = specs[y]
            steps.append(step._replace(inputs=(x, None, None), outputs=(z,)))
        z = bases[key]
        more = [("Multiply", scale), ("Add", offset)]
        given = [(name, t) for name, t in more if t is not None]
        for i, (name, t) in enumerate(given or [("Identity", None)]):
            to = y if i >= len(given) - 1 else max(specs) + 1
            specs[to] = specs[y]
            inputs = (z,) if t is None else (z, t)
            steps.append(Step(contracts()[name], step.backend, inputs, {}, (to,)))
            z = to
    return graph._replace(steps=tuple(steps), specs=specs)


def _normalized(step: Step) -> Any:
    """Return what a LayerNorm step normalizes, and how; None for others."""
    if step.kernel.name != "LayerNorm":
        return None
    return step.inputs[0], step.attrs["axis"], step.attrs["epsilon"]


def _part(graph: Graph, steps: Sequence[Step], rest: Sequence[Step]) -> Graph:
    """Return some steps as a graph; ``rest`` are those that run after them."""
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
    """Return the part of each step, by its outputs.

    Row kernels have even numbers, each one of its own. All reductions are the last
    part, as no step of a region reads them, and so are steps that only they read.
    """
    level: dict[int, int] = {}  # of values
    free: set[int] = set()  # values that depend on no row kernel
    taken: set[int] = set()
    for step in graph.steps:
        (y,) = step.outputs
        given = [x for x in step.inputs if x in level]
        at = max([level[x] for x in given], default=0)
        if rows.is_row(step, graph):
            while at in taken:
                at += 2
            taken.add(at)
        elif step.kernel.name not in folds.FOLDS and free.issuperset(given):
            free.add(y)
        level[y] = at
    last = max(taken, default=0) + 1
    for step in graph.steps:
        if step.kernel.name in folds.FOLDS:
            level[step.outputs[0]] = last
    _delay(graph, level, free)
    return {step.outputs: level[step.outputs[0]] for step in graph.steps}


def _delay(graph: Graph, level: dict[int, int], free: set[int]) -> None:
    """Move steps to the part that reads them.

    That is so if they depend on no row kernel, or if all that read them are reductions
    and steps that were moved.
    """
    readers: dict[int, list[int]] = {}
    for step in reversed(graph.steps):
        (y,) = step.outputs
        read = readers.get(step.outputs[0], [])
        fixed = rows.is_row(step, graph) or step.kernel.name in folds.FOLDS
        if read and not fixed and y not in graph.outputs:
            at = min([level[other] for other in read])
            if y in free or at % 2:
                level[y] = at
        for x in step.inputs:
            if x is not None:
                readers.setdefault(x, []).append(y)


def alone(graph: Graph) -> Function:
    """Return the kernel of a graph of one step, as a function of the graph's inputs."""
    (step,) = graph.steps
    kernel = KERNELS[step.kernel.name]
    bound = partial(getattr(kernel, "kernel", kernel), **step.attrs)
    if step.inputs == graph.inputs:
        return bound
    numbers = {x: i for i, x in enumerate(graph.inputs)}
    constants = graph.constants

    def function(*xs: Any) -> Any:
        return bound(
            *[
                None
                if x is None
                else constants[x]
                if x in constants
                else xs[numbers[x]]
                for x in step.inputs
            ]
        )

    return function
