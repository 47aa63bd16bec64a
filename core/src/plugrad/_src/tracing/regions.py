"""Regions: parts of a graph that a backend's compiler turns into one function.

A region contains connected steps of one backend and one precision that iterate over one
shape; no path leaves it and comes back. Inside a region no step reads the result of a
reduction, so one pass over the elements is enough.

Map: ``compiled``, which makes a ``Plan``; ``Grouping``, which finds regions;
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

# Steps and inputs of one region: the data of larger regions does not fit into caches.
MAX_REGION_STEPS = 64
MAX_REGION_INPUTS = 24
# Elements of an array: a smaller one is still in a cache when it is read again.
RECOMPUTE_MIN_ELEMENTS = 1 << 16
# Kernels on cached data that take as long as writing an array of 2 MiB to memory and
# reading it, as measured for decision 21.
KERNELS_PER_ARRAY_TRANSFER = 8


class Region(NamedTuple):
    """A part of a graph, the function that computes it, and who compiled it."""

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
        """The values that it makes for others."""
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


Plan = tuple[Step | Region, ...]


class Compiler(NamedTuple):
    """What compiles regions for a backend."""

    backend: OpenBackend
    owner: Plugin
    fusable: Fusable
    compile: Compile

    def takes(self, step: Step, graph: Graph) -> Any:
        """Return a true value if a step may be part of a region of this compiler.

        A kernel of the user, or of another plugin, that is in force must run itself.
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


def compiled(graph: Graph) -> tuple[Graph, Plan]:
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

    Sets of items and of values are bits of integers.

    Attributes:
        of: The group of each item.
        groups: The members of each group.
        again: The items of other groups that a group recomputes.
        before: For each group, all items that must run before it; ``after`` likewise.
        spaces: The shape that each step iterates over.
        reads: The values that each item reads; ``makes`` likewise; ``reduces`` are the
            made values whose shape differs from the iterated one.

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
        effects: list[int] = []  # which keep their order
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
        self.sums = dict(enumerate(items))  # the unions of these, of each group

    def join(self, compiler: Compiler) -> None:
        """Join the items that the compiler accepts with the makers of their inputs."""
        spaces: dict[int, Any] = {}
        read = any_of(self.reads) | mask(self.graph.outputs)
        for n, item in enumerate(self.plan):
            # Steps whose outputs are unused run for their errors: no region computes
            # them.
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
        self.given = {g: reads & ~makes for g, (reads, makes, _) in self.sums.items()}
        arrays: dict[Any, int] = {}
        for x, spec in self.graph.specs.items():
            arrays[spec.shape] = arrays.get(spec.shape, 0) | 1 << x
        for g, (_, shape, _) in sorted(self.found.items()):
            if prod(shape) >= RECOMPUTE_MIN_ELEMENTS:
                self._recompute(g, arrays[shape])

    def _recompute(self, g: int, arrays: int) -> None:
        """Recompute in a group what others compute for it, where that pays.

        Writing an array and reading it takes as long as several kernels on cached data.
        A gradient that reads many values derived from one input is faster if it reads
        the input.
        """
        makers = [self.makers[x] for x in bits(self.given[g]) if x in self.makers]
        for other in sorted({self.of[m] for m in makers}):
            wanted = self.given[g] & self.sums[other][1]
            if not wanted or self.found.get(other) != self.found[g]:
                continue
            again = self._behind(wanted, self._members(other))
            members = self._members(g) | again
            sums = [union(of, members) for of in (self.reads, self.makes, self.reduces)]
            given = sums[0] & ~sums[1]
            rest = any_of(self.given[h] for h in self.given if h != g)
            unread = wanted & ~mask(self.graph.outputs) & ~rest
            gain = wanted.bit_count() + unread.bit_count()
            gain -= (given & ~self.given[g] & arrays).bit_count()
            if again.bit_count() <= KERNELS_PER_ARRAY_TRANSFER * gain and fits(
                members, *sums
            ):
                self.again[g] = self.again.get(g, 0) | again
                self.given[g] = given

    def _members(self, g: int) -> int:
        """Return the items that a group computes."""
        return self.groups[g] | self.again.get(g, 0)

    def _behind(self, wanted: int, members: int) -> int:
        """Return the given items that are needed to compute the wanted values."""
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
        reads, makes, reduces = map(operator.or_, self.sums[a], self.sums[b])
        if not fits(members, reads, makes, reduces):
            return
        before = (self.before[a] | self.before[b]) & ~members
        after = (self.after[a] | self.after[b]) & ~members
        if before & after:
            return
        # Items before or after both now come before or after all of their members.
        for g in self._groups((self.after[a] ^ self.after[b]) & ~members):
            self.before[g] |= before | members
        for g in self._groups((self.before[a] ^ self.before[b]) & ~members):
            self.after[g] |= after | members
        first, last = sorted((a, b))
        self.groups[first] = members
        self.sums[first] = (reads, makes, reduces)
        self.before[first], self.after[first] = before, after
        for of in (self.groups, self.sums, self.before, self.after):
            del of[last]
        for n in bits(members):
            self.of[n] = first

    def _groups(self, items: int) -> set[int]:
        return {self.of[n] for n in bits(items)}

    def ordered(self) -> Iterator[Step | Region | Graph]:
        """Yield the items in an order that they can run in; groups as graphs."""
        done = 0
        waiting = sorted(self.groups)
        read = any_of(self.given.values()) | mask(self.graph.outputs)
        while waiting:
            g = next(g for g in waiting if not self.before[g] & ~done)
            waiting.remove(g)
            done |= self.groups[g]
            outputs = read & self.sums[g][1]
            if g not in self.found:
                yield self.plan[g]
            elif outputs:  # else others compute all of it again
                yield self._graph(g, outputs)

    def _graph(self, g: int, outputs: int) -> Graph:
        """Return the part of a group that computes some outputs as a separate graph."""
        members = self._behind(outputs, self._members(g))
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
    """Return whether items can be one group: small, and with reductions last."""
    few = members.bit_count() <= MAX_REGION_STEPS
    return (
        few
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
    """Return the bits that are set in any of the integers that are members."""
    return any_of(masks[n] for n in bits(members))


def bits(of: int) -> Iterator[int]:
    """Yield the numbers of the bits that are set."""
    while of:
        yield (of & -of).bit_length() - 1
        of &= of - 1


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

    Two groups may compute a step, and neither of them be compiled.
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
    """Return the region that the compiler makes of a graph, or the steps."""
    if not isinstance(item, Graph):
        return [item]
    first = item.steps[0]
    try:
        with Scope(**precision_of(first)):
            function = compiler.compile(item)
        if function is not None and not callable(function):
            raise TypeError(f"compile must return a function or None, got {function!r}")
    except Exception as error:  # of a plugin: the kernels do the same
        _warn_about("compile", compiler, error)
        return item.steps
    if function is None:
        return item.steps
    return [Region(item, at_precision(first, function), f"{compiler.owner}")]


def at_precision(step: Step, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs a step, or its region, at the precision of the step.

    Without a precision of its own it runs at that of the call, which is compared.
    """
    if step.precision is None:
        return function

    def inside(*natives: Any, **attrs: Any) -> Any:
        with Scope(**precision_of(step)):
            return function(*natives, **attrs)

    return inside


def precision_of(step: Step) -> dict[str, str]:
    """Return what a ``Scope`` changes for a step that has a precision of its own."""
    return {} if step.precision is None else {"precision": step.precision}


# --- liveness --------------------------------------------------------------------


def last_uses(
    plan: Plan, kept: Iterable[int], donated: Iterable[int] = ()
) -> list[list[int]]:
    """Return, for each item, the values made by items that no later item reads.

    Inputs that are ``donated`` are included.
    """
    seen = {*kept}
    found = []
    made = {y for item in plan for y in item.outputs}.union(donated)
    for item in reversed(plan):
        read = [x for x in (*item.inputs, *item.outputs) if x is not None]
        found.append([x for x in dict.fromkeys(read) if x in made and x not in seen])
        seen.update(read)
    return found[::-1]
