"""Regions: parts of a graph that a backend's compiler turns into one function.

A region contains connected steps with the same backend and precision that iterate over
the same shape; no path in the graph leaves the region and returns to it. Inside a
region no step reads the result of a reduction, so one pass over the elements is enough.

Contents: ``compiled``, which makes a ``RegionPlan``; ``Grouping``, which finds regions;
``last_uses``.
"""

from __future__ import annotations

import functools
import operator
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

from plugrad._src.engine.context import Scope
from plugrad._src.registry.backend import OpenBackend
from plugrad._src.registry.deprecation import outside
from plugrad._src.registry.hooks import Compile, Fusable
from plugrad._src.registry.plugins import Plugin, described
from plugrad._src.registry.registry import registry

from .graph import Graph, Step

# The maximum number of steps and inputs of a region; larger ones exceed the caches.
MAX_REGION_STEPS = 64
MAX_REGION_INPUTS = 24
# Minimum number of elements of an array to recompute; smaller arrays stay in a cache.
RECOMPUTE_MIN_ELEMENTS = 1 << 16
# The number of kernels on cached data that take as long as writing an array of 2 MiB to
# memory and reading it again, as measured for decision 21.
KERNELS_PER_ARRAY_TRANSFER = 8


class Region(NamedTuple):
    """A part of a graph, the function that computes it, and its compiler's name."""

    graph: Graph
    function: Callable[..., Any]
    by: str

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps that it replaces."""
        return self.graph.steps

    @property
    def inputs(self) -> tuple[int, ...]:
        """The values that it reads, without constants."""
        return self.graph.inputs

    @property
    def outputs(self) -> tuple[int, ...]:
        """The values that it makes for other items and for the result."""
        return self.graph.outputs

    @property
    def saved(self) -> int:
        """The bytes of intermediate results that are not written to memory."""
        made = {y for step in self.steps for y in step.outputs}
        specs = [self.graph.specs[y] for y in made.difference(self.graph.outputs)]
        return sum(prod(spec.shape) * spec.dtype.itemsize for spec in specs)

    def about(self, label: str) -> dict[str, Any]:
        """Return the attributes of ``REGION`` for this region."""
        names = Counter([step.kernel.name for step in self.steps])
        kernels = ", ".join(f"{count} {name}" for name, count in names.items())
        return dict(region=label, kernels=kernels, by=self.by, saved=self.saved)


RegionPlan = tuple[Step | Region, ...]


class Compiler(NamedTuple):
    """A compiler of regions for a backend, and the owner that provides it."""

    backend: OpenBackend
    owner: Plugin
    fusable: Fusable
    compile: Compile

    def takes(self, step: Step, graph: Graph) -> Any:
        """Return a true value if a step may be part of a region of this compiler.

        A step whose implementation in force belongs to the user or to another plugin
        is never part of a region, because that implementation must run.
        """
        if step.backend != self.backend.name or step.kernel.effect or not step.inputs:
            return False
        layers = registry.kernels.get((step.kernel.name, step.backend))
        if not layers or layers[0].owner not in (self.owner, self.backend.owner):
            return False
        if any(0 in graph.specs[v].shape for v in values(step)):
            return False
        if callable(self.fusable):
            return self.fusable(step, graph)
        return step.kernel.name in self.fusable


def compilers(backend: OpenBackend) -> Iterator[Compiler]:
    """Yield the compilers for a backend; those of kernel packs come first."""
    for entry in registry.kernel_packs(backend.name):
        pack = entry.value
        if entry.usable and pack.compile is not None:
            yield Compiler(backend, entry.owner, pack.fusable, pack.compile)
    runtime = backend.runtime
    if runtime.compile is not None:
        yield Compiler(backend, backend.owner, runtime.fusable, runtime.compile)


def compiled(graph: Graph) -> tuple[Graph, RegionPlan]:
    """Return a graph with its steps in the order of the plan, and the plan."""
    plan: list[Step | Region] = [*graph.steps]
    for name in sorted({step.backend for step in graph.steps}):
        for compiler in compilers(registry.opened[name]):
            grouping = Grouping(graph, plan)
            grouping.join(compiler)
            plan = [*_without_repeats(compiler, graph, grouping)]
    parts = [item.steps if isinstance(item, Region) else (item,) for item in plan]
    steps = {step.outputs: step for part in parts for step in part}  # each once
    return graph._replace(steps=tuple(steps.values())), tuple(plan)


def space(step: Step, graph: Graph) -> tuple[int, ...]:
    """Return the shape that a step iterates over: the largest of its arrays."""
    return max((graph.specs[v].shape for v in values(step)), key=prod)


def values(step: Step) -> list[int]:
    """Return the values that a step makes, and those that it reads."""
    return [*step.outputs, *[x for x in step.inputs if x is not None]]


# --- groups ----------------------------------------------------------------------


class Grouping:
    """Groups of the items of a plan, by the number of their first member.

    Sets of items and of values are represented by the bits of integers.

    Attributes:
        of: The group of each item.
        groups: The members of each group.
        again: The items of other groups that a group recomputes.
        before: For each group, all items that must run before it.
        after: For each group, all items that must run after it.
        spaces: The shape that each step iterates over.
        reads: The values that each item reads.
        makes: The values that each item makes.
        reduces: Those values whose shape is not the one that the step iterates over.

    """

    graph: Graph
    of: list[int]
    groups: dict[int, int]
    reads: list[int]
    makes: list[int]
    reduces: list[int]
    makers: dict[int, int]
    after: dict[int, int]
    found: dict[int, Any]
    given: dict[int, int]

    def __init__(self, graph: Graph, plan: list[Step | Region]) -> None:
        self.graph, self.plan = graph, plan
        self.of = [*range(len(plan))]
        self.groups = {n: 1 << n for n in self.of}
        self.again: dict[int, int] = {}
        self.before: dict[int, int] = {}
        self.reads = [mask(item.inputs) for item in plan]
        self.makes = [mask(item.outputs) for item in plan]
        steps = [(n, item) for n, item in enumerate(plan) if isinstance(item, Step)]
        self.spaces = {n: space(step, graph) for n, step in steps}
        self.reduces = [0] * len(plan)
        for n, step in steps:
            shapes = [(y, graph.specs[y].shape) for y in step.outputs]
            self.reduces[n] = mask(y for y, shape in shapes if shape != self.spaces[n])
        self.makers = {y: n for n, item in enumerate(plan) for y in item.outputs}
        effects: list[int] = []  # items with effects, which keep their order
        nearest = []
        for n, item in enumerate(plan):
            makers = [self.makers[x] for x in item.inputs if x in self.makers]
            if isinstance(item, Step) and item.kernel.effect:
                makers += effects[-1:]
                effects.append(n)
            nearest.append(makers)
            self.before[n] = any_of(self.before[m] | 1 << m for m in makers)
        self.after = dict.fromkeys(self.before, 0)
        for n in reversed(self.of):
            for m in nearest[n]:
                self.after[m] |= self.after[n] | 1 << n
        items = zip(self.reads, self.makes, self.reduces, strict=True)
        self.unions = dict(enumerate(items))  # by group: unions of its items' masks

    def join(self, compiler: Compiler) -> None:
        """Join each item that the compiler accepts with those that make its inputs."""
        spaces: dict[int, Any] = {}
        read = any_of(self.reads) | mask(self.graph.outputs)
        for n, item in enumerate(self.plan):
            # Steps whose outputs are unused run only because they may raise: no region
            # computes them.
            if not isinstance(item, Step) or not self.makes[n] & read:
                continue
            if key := _fusable_key(compiler, item, self.graph):
                spaces[n] = key, self.spaces[n], item.precision
        for n in spaces:
            makers = {self.makers[x] for x in self.plan[n].inputs if x in self.makers}
            for m in sorted(makers):
                if spaces.get(m) == spaces[n]:
                    self._merge(self.of[n], self.of[m])
        self.found = {self.of[n]: spaces[n] for n in spaces}
        self.given = {g: reads & ~makes for g, (reads, makes, _) in self.unions.items()}
        arrays: dict[Any, int] = {}
        for x, spec in self.graph.specs.items():
            arrays[spec.shape] = arrays.get(spec.shape, 0) | 1 << x
        for g, (_, shape, _) in sorted(self.found.items()):
            if prod(shape) >= RECOMPUTE_MIN_ELEMENTS:
                self._recompute(g, arrays[shape])

    def _recompute(self, g: int, arrays: int) -> None:
        """Let a group recompute the results of other groups where that is faster.

        Writing an array and reading it takes as long as several kernels on cached data.
        So a gradient that reads many values derived from one input is faster if it
        reads the input and recomputes them.
        """
        makers = [self.makers[x] for x in bits(self.given[g]) if x in self.makers]
        for other in sorted({self.of[m] for m in makers}):
            wanted = self.given[g] & self.unions[other][1]
            if not wanted or self.found.get(other) != self.found[g]:
                continue
            again = self._needed_for(wanted, self._members(other))
            members = self._members(g) | again
            masks = [
                union(of, members) for of in (self.reads, self.makes, self.reduces)
            ]
            given = masks[0] & ~masks[1]
            rest = any_of(self.given[h] for h in self.given if h != g)
            unread = wanted & ~mask(self.graph.outputs) & ~rest
            gain = wanted.bit_count() + unread.bit_count()
            gain -= (given & ~self.given[g] & arrays).bit_count()
            if again.bit_count() <= KERNELS_PER_ARRAY_TRANSFER * gain and fits(
                members, *masks
            ):
                self.again[g] = self.again.get(g, 0) | again
                self.given[g] = given

    def _members(self, g: int) -> int:
        """Return the items that a group computes."""
        return self.groups[g] | self.again.get(g, 0)

    def _needed_for(self, wanted: int, members: int) -> int:
        """Return those ``members`` that are needed to compute the wanted values."""
        found = 0
        for n in reversed([*bits(members)]):
            if self.makes[n] & wanted:
                found |= 1 << n
                wanted |= self.reads[n]
        return found

    def _merge(self, a: int, b: int) -> None:
        """Merge two groups, unless a path between them leaves the merged group."""
        if a == b:
            return
        members = self.groups[a] | self.groups[b]
        reads, makes, reduces = map(operator.or_, self.unions[a], self.unions[b])
        if not fits(members, reads, makes, reduces):
            return
        before = (self.before[a] | self.before[b]) & ~members
        after = (self.after[a] | self.after[b]) & ~members
        if before & after:
            return
        # Items that came before or after one of the groups now come before or after all
        # members of both.
        for g in self._groups((self.after[a] ^ self.after[b]) & ~members):
            self.before[g] |= before | members
        for g in self._groups((self.before[a] ^ self.before[b]) & ~members):
            self.after[g] |= after | members
        first, last = sorted((a, b))
        self.groups[first] = members
        self.unions[first] = (reads, makes, reduces)
        self.before[first], self.after[first] = before, after
        for of in (self.groups, self.unions, self.before, self.after):
            del of[last]
        for n in bits(members):
            self.of[n] = first

    def _groups(self, items: int) -> set[int]:
        return {self.of[n] for n in bits(items)}

    def ordered(self) -> Iterator[Step | Region | Graph]:
        """Yield the items in an order in which they can run; groups as graphs."""
        done = 0
        waiting = sorted(self.groups)
        read = any_of(self.given.values()) | mask(self.graph.outputs)
        while waiting:
            g = next(g for g in waiting if not self.before[g] & ~done)
            waiting.remove(g)
            done |= self.groups[g]
            outputs = read & self.unions[g][1]
            if g not in self.found:
                yield self.plan[g]
            elif outputs:  # else other groups recompute everything that it computes
                yield self._graph(g, outputs)

    def _graph(self, g: int, outputs: int) -> Graph:
        """Return the part of a group that computes these outputs, as a graph."""
        members = self._needed_for(outputs, self._members(g))
        chosen = map(self.plan.__getitem__, bits(members))
        steps = [s for s in chosen if type(s) is Step]
        read = {x: None for s in steps for x in s.inputs if x is not None}
        made = {y: None for s in steps for y in s.outputs}
        given = [x for x in read if x not in made]
        return Graph(
            tuple(x for x in given if x not in self.graph.constants),
            {x: self.graph.constants[x] for x in given if x in self.graph.constants},
            tuple(steps),
            tuple(bits(outputs)),
            {v: self.graph.specs[v] for v in (*read, *made)},
        )


def fits(members: int, reads: int, makes: int, reduces: int) -> bool:
    """Return whether items can be one group: small enough, with reductions last."""
    is_small = members.bit_count() <= MAX_REGION_STEPS
    return (
        is_small
        and (reads & ~makes).bit_count() <= MAX_REGION_INPUTS
        and not reads & reduces
    )


def mask(numbers: Iterable[int | None]) -> int:
    """Return the integer with these bits set."""
    found = 0
    for n in numbers:
        if n is not None:
            found |= 1 << n
    return found


def any_of(masks: Iterable[int]) -> int:
    """Return the bits that are set in any of some integers."""
    return functools.reduce(operator.or_, masks, 0)


def union(masks: Sequence[int], members: int) -> int:
    """Return the bits that are set in any of the masks of the members."""
    return any_of(masks[n] for n in bits(members))


def bits(bitmask: int) -> Iterator[int]:
    """Yield the numbers of the bits that are set."""
    while bitmask:
        yield (bitmask & -bitmask).bit_length() - 1
        bitmask &= bitmask - 1


# --- compilers -------------------------------------------------------------------


def _fusable_key(compiler: Compiler, step: Step, graph: Graph) -> Any:
    """Return the compiler's answer about a step; None if it fails."""
    try:
        return compiler.takes(step, graph)
    except Exception as error:
        _warn_about("fusable", compiler, error)
        return None


def _without_repeats(
    compiler: Compiler, graph: Graph, grouping: Grouping
) -> Iterator[Step | Region]:
    """Yield the compiled groups, and each remaining step once.

    If two groups compute the same step and neither is compiled, it runs only once.
    """
    made: set[int] = set()
    for found in grouping.ordered():
        for item in _compile_or_split(compiler, graph, found):
            if isinstance(item, Region) or made.isdisjoint(item.outputs):
                yield item
            made.update(item.outputs)


def _warn_about(what: str, compiler: Compiler, error: Exception) -> None:
    text = f"jit: {what} of {compiler.owner} has failed with {described(error)}; the "
    text += "kernels run one by one"
    warnings.warn(text, RuntimeWarning, stacklevel=outside())


def _compile_or_split(
    compiler: Compiler, graph: Graph, item: Step | Region | Graph
) -> Iterable[Step | Region]:
    """Return the region that the compiler makes from a graph, or the steps."""
    if not isinstance(item, Graph):
        return [item]
    first = item.steps[0]
    try:
        with Scope(**precision_of(first)):
            function = compiler.compile(item)
        if function is not None and not callable(function):
            raise TypeError(f"compile must return a function or None, got {function!r}")
    except Exception as error:  # the compiler failed: run the kernels instead
        _warn_about("compile", compiler, error)
        return item.steps
    if function is None:
        return item.steps
    return [Region(item, at_precision(first, function), f"{compiler.owner}")]


def at_precision(step: Step, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs a step, or its region, at the precision of the step.

    Without a precision of its own, the step runs at the precision of the call, which
    the guards compare.
    """
    if step.precision is None:
        return function

    def inside(*natives: Any, **attrs: Any) -> Any:
        with Scope(**precision_of(step)):
            return function(*natives, **attrs)

    return inside


def precision_of(step: Step) -> dict[str, str]:
    """Return the arguments of a ``Scope`` that sets the step's precision, if any."""
    return {} if step.precision is None else {"precision": step.precision}


# --- liveness --------------------------------------------------------------------


def last_uses(
    plan: RegionPlan, kept: Iterable[int], donated: Iterable[int] = ()
) -> list[list[int]]:
    """Return, for each item, the values that no later item reads.

    These are values that items made, and ``donated`` inputs; never other inputs.
    """
    seen = {*kept}
    found = []
    made = {y for item in plan for y in item.outputs}.union(donated)
    for item in reversed(plan):
        read = [x for x in (*item.inputs, *item.outputs) if x is not None]
        found.append([x for x in dict.fromkeys(read) if x in made and x not in seen])
        seen.update(read)
    return found[::-1]
