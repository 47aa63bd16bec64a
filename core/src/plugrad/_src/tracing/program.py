"""Generated code that checks whether a call matches the recorded one, and replays it.

The generated module has two functions. ``call(args, kwargs)`` compares the call with
the recorded one and returns ``MISS`` if anything differs. ``finish(*tensors)`` runs
the kernel functions, which are its globals, and deletes each value after its last use::

    def finish(x0):
        a0 = x0._data
        t1 = k0(a0, a0)
        if t1 is NotImplemented: t1 = d1(a0, a0)
        return Tensor(t1, h1)

A recorded call needs no code at first. Only when another call matches it are its
regions passed to compilers and its code compiled, so a call that is not repeated costs
neither.

Contents: ``ReplayProgram``; guards; the body; the globals of the code. The module
``parts`` runs the steps.
"""

from __future__ import annotations

import functools
import itertools
import signal
import traceback
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from plugrad._src.engine.context import PROCESS, current
from plugrad._src.engine.layers import are_same
from plugrad._src.engine.places import GONE, MISSING, Place, Slot
from plugrad._src.ops.basis.variable import Variable
from plugrad._src.registry.registry import registry
from plugrad._src.tensor.tensor import Tensor
from plugrad._src.tensor.tree import LEAF, kind_of, split

from .graph import Graph, Step
from .parts import KernelByKernel, compiled_code, function_of, observed, step_code
from .recording import Recording
from .regions import (
    Region,
    RegionPlan,
    compiled,
    last_uses,
)
from .signature import Static, leaf_key, structure_key, value_key

MISS: Any = object()
Call = Callable[[tuple[Any, ...], dict[str, Any]], Any]
HEAD = """\
def call(args, kwargs):
  try:
    context = current()
    if (
      not context.quiet or context.level is not None
      or (context.overrides is not overrides
        and not are_same(context.overrides, overrides))
      or gradients.plans is not plans
      or (context.backend or PROCESS.backend) is not backend
      or (context.precision or PROCESS.precision) != precision
    ): return MISS"""
# The call does not match if an attribute, an item or the content of a cell is gone.
TAIL = "  except GONE: return MISS"
data_of = attrgetter("_data")


class ReplayProgram:
    """The code of a recorded call, its lines and the objects that they name.

    Attributes:
        graph: The steps, after ``load`` in the order in which they run; None if the
            code calls the function.
        plan: The steps, and the regions that compilers have made from some steps.
        call: A function that replays a call that matches the recorded one, and returns
            ``MISS`` for other calls; None before ``load``.
        finish: A function that runs the plan. It takes the tensors among the arguments,
            and those that are read anew.
        runs_again: Whether the function may run after a replay of it has failed.
        holders: The inputs that the code deletes after their last use, because they are
            donated or get new values, each with the number of tensors then holding it.
        rebound: The arguments that get new values, by the numbers of the values.
        homes: The backends of these values.

    """

    call: Call | None = None
    runs_again: bool = False

    name: str
    lines: list[str]
    ends: list[str]
    starts: list[str]
    source: str
    named: dict[int, str]
    holders: dict[int, int]
    rebound: dict[int, list[str]]
    homes: dict[int, str]
    finish: Callable[..., Any]

    def __init__(self, recording: Recording, name: str) -> None:
        self.name, self.graph, self.plan = name, recording.graph, RegionPlan()
        self.lines, self.numbers = [HEAD], itertools.count()
        self.tensors: list[str] = []  # names of the tensors among the arguments
        self.handles: dict[int, str] = {}  # names of the tensors of the result, by id
        self.calls: dict[str, Step | Region] = {}  # function name -> what it runs
        self.instead: dict[str, KernelByKernel] = {}  # region function -> its fallback
        self.updates: dict[str, Any] = {}  # in-place function -> the kernel function
        self.names: dict[str, Any] = {
            known.__name__: known for known in GENERATED_CODE_GLOBALS
        }
        self.names |= {"MISS": MISS, "PROCESS": PROCESS, "current": current}
        self.names |= {"GONE": GONE, "MISSING": MISSING, "data_of": data_of}
        self.names |= {"gradients": registry.gradients, "plans": recording.plans}
        self.names["backend"] = recording.sign.key[2]
        self.names["precision"] = recording.sign.key[3]
        self.names["overrides"] = recording.overrides
        self.names["scope"] = recording.scope
        self.names["function"] = recording.function
        self.names["__name__"] = __name__  # recordings skip code of plugrad
        self.guards(recording)
        self.ends = ["  return function(*args, **kwargs)"]
        if recording.graph is not None:
            self.ends = self.begin(recording, recording.graph)
        self.starts = self.lines

    def load(self) -> None:
        """Pass regions to compilers, and compile the code."""
        self.lines = [*self.starts]
        if self.graph is not None:
            self.graph, self.plan = compiled(self.graph)
            self.body(self.graph)
        self.source = "\n".join([*self.lines, *self.ends])
        exec(compiled_code(self.source, self.name), self.names)
        self.finish = self.names.get("finish", self.names["function"])
        self.call = self.names["call"]

    def observed(self, *tensors: Tensor) -> Any:
        """Run the plan as ``finish`` does, and notify observers of each part."""
        names = {**self.names}
        number = 0
        for name, item in self.calls.items():
            number += isinstance(item, Region)
            label = f"region {number} of {self.name.rpartition('.')[2]}"
            functions = names[name], self.instead.get(name)
            if name in self.updates:  # observers may hold the array, so do not write
                functions = self.updates[name], None
                run = functools.partial(observed, label, item, functions)
                names[name] = functools.partial(_run_held, run)
                continue
            names[name] = functools.partial(observed, label, item, functions)
        exec(compiled_code(self.source, self.name), names)
        return names["finish"](*tensors)

    def bind(self, value: Any) -> str:
        """Make an object a global of the code, and return its name there."""
        name = f"g{next(self.numbers)}"
        self.names[name] = value
        return name

    # --- guards ------------------------------------------------------------------

    def guards(self, recording: Recording) -> None:
        """Add the comparisons with the recorded call."""
        if recording.scope is not None:
            self.miss("context.scope != scope")
        for backend, table in recording.tables:
            self.miss(f"{self.bind(backend)}.table is not {self.bind(table)}")
        sign = recording.sign
        for name, given in (("args", sign.args), ("kwargs", sign.kwargs)):
            if given:
                self.unpack(name, given)
            else:
                self.miss(name)
        for variable, home in recording.variables:
            self.miss(f"{self.bind(variable)}._value._home is not {self.bind(home)}")
        arguments = len(self.tensors)
        for slot in recording.inputs:
            self.slot(slot)
        if len(recording.inputs) > 1:
            ids = ", ".join([f"id({name})" for name in self.tensors[arguments:]])
            self.miss(f"len({{{{{ids}}}}}) < {len(recording.inputs)}")
        for slot, first in recording.aliases:
            self.miss(f"{self.read(slot)} is not {self.read(first)}")
        if recording.shared:
            names = self.inputs_of(recording)
            for slot, position in recording.shared:
                self.miss(f"{self.read(slot)}._data is not {names[position]}._data")
        for slot, x in recording.pinned:
            self.miss(f"{self.read(slot)} is not {self.bind(x)}")
        for place in recording.references.places:
            self.compare(place)
        if recording.constants:
            tensors = self.bind(tuple([x for x, _ in recording.constants]))
            arrays = tuple([native for _, native in recording.constants])
            self.bind(arrays)  # keeps the arrays alive, and so their ids
            ids = self.bind([*map(id, arrays)])
            self.miss(f"[*map(id, map(data_of, {tensors}))] != {ids}")
        self.lines.append(TAIL)

    def miss(self, condition: str) -> None:
        """Add a line: if this condition holds, the call does not match."""
        self.lines.append(f"    if {condition}: return MISS")

    def compare(self, place: Place) -> None:
        """Add the comparison of the values at a place that the function reads.

        The code compares identities first, which is fast. If they differ, it compares
        by value, because equal numbers may be different objects.
        """
        changed = f"{self.bind(place)}.changed()"
        holder = self.bind(place.holder)
        code = place.expression(holder)
        if absent := getattr(place, "absent", None):
            self.miss(f"not {self.bind(absent)}.isdisjoint({holder})")
        if not code:
            self.miss(changed)
        elif (parts := place.parts(holder)) is not None:
            pairs = zip(parts, place.values, strict=True)
            others = [f"{part} is not {self.bind(x)}" for part, x in pairs]
            if others:
                self.miss(f"({' or '.join(others)}) and {changed}")
        else:
            ids = self.bind([*map(id, place.values)])
            self.miss(f"[*map(id, {code})] != {ids} and {changed}")

    def read(self, slot: Slot) -> str:
        """Return code for the tensor in a slot."""
        return slot.expression(self.bind(slot.holder))

    def slot(self, slot: Slot) -> None:
        """Add the comparison of the backend, shape and dtype of a tensor in a slot."""
        name = f"p{next(self.numbers)}"
        self.lines.append(f"    {name} = {self.read(slot)}")
        self.leaf(name, slot.read())

    def unpack(self, name: str, value: Any) -> None:
        """Add the comparison of a part of the arguments, and name the leaves in it."""
        kind = type(value)
        if kind in (tuple, list):
            test = f"type({name}) is not {kind.__name__} or len({name}) != {len(value)}"
            inside = [(f"{name}[{i}]", child) for i, child in enumerate(value)]
        elif kind is dict:
            names = self.bind([*value])  # keeps the keys alive, and so their ids
            ids = self.bind([*map(id, self.names[names])])
            new_ids = f"[*map(id, {name})] != {ids}"
            keys = f"value_key([*{name}]) != {self.bind(value_key([*value]))}"
            test = f"type({name}) is not dict or {new_ids} and {keys}"
            _, structure = split(value)
            inside = [(f"{name}[{self.bind(k)}]", value[k]) for k in structure._keys]
        elif kind_of(value) is None:
            self.leaf(name, value)
            return
        else:
            leaves, structure = split(value)
            self.lines.append(f"    {name}s, of = split({name})")
            test = f"structure_key(of) != {self.bind(structure_key(structure))}"
            inside = [(f"{name}s[{i}]", leaf) for i, leaf in enumerate(leaves)]
        self.miss(test)
        for get, child in inside:
            part = f"p{next(self.numbers)}"
            self.lines.append(f"    {part} = {get}")
            self.unpack(part, child)

    def leaf(self, name: str, value: Any) -> None:
        """Add the comparison of one leaf of the arguments."""
        if type(value) is Tensor:
            home = self.bind(value._home)
            shape = self.bind(value.shape)
            other = f"type({name}) is not Tensor or {name}._home is not {home} or "
            dtype = f"{name}._dtype is not {self.bind(value.dtype)}"
            self.miss(f"{other}{name}._shape != {shape} or {dtype}")
            self.tensors.append(name)
            return
        given = f"Static({name})" if isinstance(value, Static) else name
        inside = self.bind(value.value if isinstance(value, Static) else value)
        key = self.bind(leaf_key(value))
        self.miss(f"{name} is not {inside} and leaf_key({given}) != {key}")

    # --- the body ----------------------------------------------------------------

    def begin(self, recording: Recording, graph: Graph) -> list[str]:
        """Add the first lines of ``finish``; return those that build the results."""
        tensors = ", ".join(self.tensors)
        self.lines += self.end(tensors, graph, recording)
        self.named = {v: f"t{v}" for v in graph.specs}
        self.named |= {v: self.bind(native) for v, native in graph.constants.items()}
        for value, where in zip(graph.inputs, self.inputs_of(recording), strict=True):
            self.lines.append(f"  {self.named[value]} = {where}._data")
        # Once the handles are empty, only this function holds the arrays.
        for n, why in recording.donated.items():
            x = self.tensors[n]
            self.lines.append(f"  {x}._empty({why!r})")
        self.use_up(recording, graph)
        made = list[str]()
        lines = list[str]()
        first = len(self.tensors) - len(recording.inputs)
        keys = [slot.key for slot in recording.inputs]
        rereads = dict(zip(keys, self.tensors[first:], strict=True))
        for value in graph.outputs:
            made.append(
                f"Tensor({self.named[value]}, {self.bind(recording.homes[value])})"
            )
        for tensor, (place, argument) in recording.results.items():
            self.handles[tensor] = name = f"r{place}"
            handle = made[place]
            captured = recording.captured.get(tensor)
            if argument is not None and not recording.donated:
                handle = self.tensors[argument]
            elif isinstance(captured, Tensor):
                handle = self.bind(captured)
            elif captured is not None:
                handle = rereads[captured.key]
            lines.append(f"  {name} = {handle}")
        built = self.result(recording.value)
        end = len(made) - len(recording.rebound)
        new_values = made[end - len(recording.assigned) : end]
        for v, code in zip(recording.assigned, new_values, strict=True):
            lines.append(f"  {self.bind(v)}._value = {code}")
        unmade = {*self.rebound}.difference(y for s in graph.steps for y in s.outputs)
        lines += [line for value in unmade for line in self.rebind(value)]
        return [*lines, f"  return {built}"]

    def use_up(self, recording: Recording, graph: Graph) -> None:
        """Note the inputs that are donated, and the arguments that get new values."""
        self.holders = {graph.inputs[n]: 0 for n in recording.donated}
        values = graph.outputs[len(graph.outputs) - len(recording.rebound) :]
        self.rebound = dict[int, list[str]]()
        self.homes = {v: self.bind(recording.homes[v]) for v in values}
        for n, value in zip(recording.rebound, values, strict=True):
            self.holders[graph.inputs[n]] = 1
            self.rebound.setdefault(value, []).append(self.tensors[n])

    def inputs_of(self, recording: Recording) -> list[str]:
        """Return code for the tensor of each input."""
        given = iter(self.tensors)
        return [
            f"{self.bind(source)}._value"
            if isinstance(source, Variable)
            else next(given)
            for source in recording.recorder.sources
        ]

    def end(self, tensors: str, graph: Graph, recording: Recording) -> list[str]:
        """Return the end of ``call`` and the head of ``finish``.

        If a kernel raises, the function runs eagerly: it raises the same error at the
        user's line, or catches it.
        """
        uses_up = bool(recording.donated or recording.rebound)
        self.runs_again = not uses_up and not has_effects(graph)
        lines = [f"  return finish({tensors})"]
        if self.runs_again:
            lines = [f"  try: return finish({tensors})"]
            lines += ["  except Exception as error:", "    if is_signal(error): raise"]
            lines.append("  return function(*args, **kwargs)")
        return [*lines, f"def finish({tensors}):"]

    def body(self, graph: Graph) -> None:
        """Add the lines that run the kernels and the regions."""
        dead_after = last_uses(self.plan, graph.outputs, self.holders)
        for item, dead in zip(self.plan, dead_after, strict=True):
            if isinstance(item, Region):
                self.region(item)
            elif is_updated(item, dead):
                self.step(item, self.holders.get(dead.pop(0), 0))
            else:
                self.step(item)
            if dead:
                self.lines.append(f"  del {', '.join(self.named[x] for x in dead)}")
            for value in item.outputs:
                self.lines += self.rebind(value)

    def region(self, region: Region) -> None:
        """Add the call of a compiled function; if it declines, the kernels run."""
        named = self.named
        made = [named[y] for y in region.outputs]
        to = made[0] if len(made) == 1 else "made"
        given = ", ".join(named[x] for x in region.inputs)
        name = self.bind(region.function)
        self.calls[name] = region
        self.instead[name] = KernelByKernel(region.graph)
        instead = f"{self.bind(self.instead[name])}.run({given})"
        self.lines.append(f"  {to} = {name}({given})")
        self.lines.append(f"  if {to} is NotImplemented: {to} = {instead}")
        if len(made) > 1:
            self.lines.append(f"  [{', '.join(made)}] = made")

    def step(self, step: Step, holders: int | None = None) -> None:
        """Add the call of one kernel; see ``step_code`` for ``holders``."""
        name, lines = step_code(step, self.named, self.bind, holders)
        self.calls[name] = step
        if holders is not None:
            self.updates[name] = function_of(step)[0]
        self.lines += [f"  {line}" for line in lines]

    def rebind(self, value: int) -> list[str]:
        """Return the lines that assign a value to the arguments that get it."""
        if value not in self.rebound:
            return []
        made = f"Tensor({self.named[value]}, {self.homes[value]})"
        return [f"  {x}._rebind({made})" for x in self.rebound[value]]

    def result(self, tree: Any) -> str:
        """Return the code that builds the results, each tensor only once."""
        if type(tree) is Tensor:
            return self.handles[id(tree)]
        if type(tree) is tuple:
            return f"({''.join(f'{self.result(part)}, ' for part in tree)})"
        if type(tree) is list:
            return f"[{', '.join(map(self.result, tree))}]"
        if type(tree) is dict:
            items = [f"{self.bind(k)}: {self.result(x)}" for k, x in tree.items()]
            return f"{{{', '.join(items)}}}"
        leaves, structure = split(tree)
        if structure is LEAF:
            return self.bind(tree)
        return f"{self.bind(structure)}([{', '.join(map(self.result, leaves))}])"


def is_signal(error: BaseException) -> bool:
    """Return whether a signal handler rather than a kernel raised an error."""
    handlers = map(signal.getsignal, signal.valid_signals())
    codes = [getattr(handler, "__code__", None) for handler in handlers]
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return any(frame.f_code in codes for frame in frames)


# Globals of the generated code, under their own names.
GENERATED_CODE_GLOBALS = (
    Static,
    Tensor,
    are_same,
    is_signal,
    leaf_key,
    value_key,
    structure_key,
    split,
)


def is_updated(step: Step, dead: list[int]) -> bool:
    """Return whether a step may write into its first input: nothing reads it later."""
    known = registry.opened[step.backend].in_place
    x = step.inputs[0] if step.inputs else None
    return step.kernel.name in known and x in dead and step.inputs.count(x) == 1


def _run_held(
    run: Callable[..., Any], held: list[Any], *natives: Any, **attrs: Any
) -> Any:
    return run(held[0], *natives, **attrs)


def has_effects(graph: Graph) -> bool:
    """Return whether a run of a graph does more than compute its outputs."""
    return any(step.kernel.effect for step in graph.steps)
