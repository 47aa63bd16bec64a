"""The parts of a plan and how they run: steps, and regions that compilers have made.

Contents: the code of a step; ``KernelByKernel``; the function of a step; ``observed``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any

from plugrad._src.engine import dispatch
from plugrad._src.engine.context import Scope, current, observed_run, running
from plugrad._src.engine.in_place import writing
from plugrad._src.engine.sites import common, joined
from plugrad._src.registry.registry import registry
from plugrad._src.tensor.tensor import Native, Tensor

from .graph import DRAW, MOVE, REGION, Graph, Step
from .regions import Region, at_precision, last_uses, precision_of

MAX_CACHED_SOURCES = 64  # generated sources whose code is cached


@functools.lru_cache(MAX_CACHED_SOURCES)
def compiled_code(source: str, name: str) -> CodeType:
    """Compile ``source``; calls that differ only in shapes and numbers may share it."""
    return compile(source, f"<plugrad.jit of {name}>", "exec")


def step_code(
    step: Step,
    named: Mapping[int, str],
    bind: Callable[[Any], str],
    holders: int | None = None,
) -> tuple[str, list[str]]:
    """Return the name of the function that runs a step, and the lines that call it.

    Args:
        step: The step.
        named: The variable of each value.
        bind: Makes an object a global of the code, and returns its name.
        holders: If the step may write into its first input, the number of tensors that
            hold its array, not counting the variable, which the lines then delete;
            otherwise None.

    """
    function, attrs = function_of(step)
    given = ["None" if x is None else named[x] for x in step.inputs]
    begin, end = list[str](), list[str]()
    if holders is not None:
        update = registry.opened[step.backend].in_place[step.kernel.name]
        function = writing(at_precision(step, update), function, holders)
        begin = [f"held = [{given[0]}]", f"del {given[0]}"]
        end = ["del held"]
        given[0] = "held[0]"
    if not given:
        given = [bind(registry.opened[step.backend].runtime.arrays)]
    instead = f"{bind(functools.partial(run_declined, step))}({', '.join(given)})"
    given += [f"{name}={bind(value)}" for name, value in attrs.items()]
    given[0] = "held" if begin else given[0]
    to = named[step.outputs[0]] if step.kernel.single else "made"
    name = bind(function)
    lines = [*begin, f"{to} = {name}({', '.join(given)})"]
    lines.append(f"if {to} is NotImplemented: {to} = {instead}")
    if not step.kernel.single:
        lines.append(f"[{', '.join([named[y] for y in step.outputs])}] = made")
    return name, [*lines, *end]


class KernelByKernel:
    """Runs the kernels of a region, for arrays that the region's function declines.

    A cpu region declines arrays with strides, such as a transposed weight, in every
    call. ``run`` is compiled when it is first needed.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    @functools.cached_property
    def run(self) -> Callable[..., Any]:
        """A function of the inputs that returns the outputs, or the only output."""
        graph = self.graph
        names: dict[str, Any] = {"__name__": __name__}

        def bind(value: Any) -> str:
            name = f"g{len(names)}"
            names[name] = value
            return name

        named = {v: f"t{v}" for v in graph.specs}
        named |= {v: bind(native) for v, native in graph.constants.items()}
        lines = [f"def run({', '.join([named[x] for x in graph.inputs])}):"]
        dead_after = last_uses(graph.steps, graph.outputs)
        for step, dead in zip(graph.steps, dead_after, strict=True):
            lines += [f"  {line}" for line in step_code(step, named, bind)[1]]
            if dead:
                lines.append(f"  del {', '.join([named[x] for x in dead])}")
        lines.append(f"  return {', '.join([named[y] for y in graph.outputs])}")
        exec(compiled_code("\n".join(lines), "a region"), names)
        return names["run"]


def run_declined(step: Step, *natives: Native) -> Any:
    """Run a kernel whose implementation has declined, unlike in the recorded call."""
    where = registry.opened[step.backend]
    xs = [None if x is None else Tensor(x, where) for x in natives[: len(step.inputs)]]
    with Scope(backend=where, **precision_of(step)):
        made = dispatch._run(step.kernel, (*xs,), {**step.attrs}, implemented=False)
    return made[0]._data if step.kernel.single else [y._data for y in made]


def function_of(step: Step) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Return the function that runs a step on native arrays, and its attributes."""
    where = registry.opened[step.backend]
    if step.kernel not in (MOVE, DRAW):
        function = where.table[step.kernel.name]
        return at_precision(step, function), dict(step.attrs)
    source = registry.opened[step.attrs["source"]]

    def drawn(key: Native | None) -> Native:
        with Scope(backend=where):
            y = step.attrs["draw"](None if key is None else Tensor(key, source))
        return y._data

    moved = lambda native: where.upload(source.download(native))
    return moved if step.kernel is MOVE else drawn, {}


def observed(
    label: str, item: Step | Region, functions: Any, *natives: Native, **given: Any
) -> Any:
    """Run a part of a plan as the engine runs an observed kernel.

    The first of ``functions`` runs it. For a region, the second one runs if the first
    declines.
    """
    function, instead = functions
    steps = item.steps if isinstance(item, Region) else (item,)
    kernel = steps[0].kernel
    attrs = steps[0].attrs
    home = steps[0].backend
    if isinstance(item, Region) and len(steps) > 1:
        kernel = REGION
        attrs = item.about(label)
    where, result = registry.opened[home], NotImplemented

    def work(*_: Any) -> tuple[Tensor, ...]:
        nonlocal result
        result = function(*natives, **given)
        if result is NotImplemented:
            declined = functools.partial(run_declined, steps[0])
            result = (instead.run if instead else declined)(*natives)
        if kernel is REGION and (run := running()):
            run.how = "region"
        single = len(item.outputs) == 1 if isinstance(item, Region) else kernel.single
        return tuple([Tensor(y, where) for y in ([result] if single else result)])

    # Without inputs, ``natives`` contains only the backend's Arrays.
    pairs = zip(item.inputs, natives, strict=False)
    inputs = tuple([None if x is None else Tensor(n, where) for x, n in pairs])
    with Scope(scope=joined(current().scope, common([s.scope for s in steps]))):
        observed_run(work, kernel, where, inputs, {**attrs})
    return result
