"""A recording: a call that has run, its effects, and everything that it depends on.

Contents: ``Recording``; its references and results; how states are compared;
``Attempts``, for a function whose calls differ.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from plugrad._src.engine.code import TRUSTED, RunningCode, package_of
from plugrad._src.engine.context import current
from plugrad._src.engine.layers import Overrides, are_same
from plugrad._src.engine.places import Same, Slot
from plugrad._src.engine.references import References
from plugrad._src.ops.basis.variable import Variable
from plugrad._src.registry.registry import registry
from plugrad._src.tensor.tensor import NOWHERE, Native, Tensor
from plugrad._src.tensor.tree import split

from .graph import Graph
from .recorder import Recorder, not_replayable
from .signature import Signature, Static, structure_key, value_key

if TYPE_CHECKING:
    from .program import ReplayProgram

RESULTS = (bool, int, float, complex, str, bytes, type, np.dtype, np.generic)
# Standard-library modules with which a thread can wait for other threads.
THREADS = frozenset(
    {
        "_threading_local",
        "asyncio",
        "concurrent",
        "multiprocessing",
        "queue",
        "selectors",
        "socket",
        "subprocess",
        "threading",
    }
)


class Recording:
    """A call that has run, and everything that it depends on.

    Args:
        f: The function.
        sign: The signature of the call.
        strict: Whether a call that cannot be replayed is an error.
        donated: The texts of errors about donated tensors, by the indices of the
            tensors.
        varying: The slots of tensors that other code replaces; they become inputs.
        with_lines: Whether to remember lines, for messages about differences.
        hold_arrays: Whether to hold all arrays, to compare them with those of a replay.

    Attributes:
        value: What the function returned.
        frozen: Packages whose state is not compared.
        reason: Why it cannot be replayed; empty if it can.
        is_temporary: Whether the reason may not apply to the next call.
        references: The references of the function.
        varying: The slots whose tensors are read anew in each call.
        inputs: The slots that are inputs of the graph.
        ran: The code that ran, without that of the standard library and NumPy.
        plans: The registry's plans, a new object whenever a gradient changes.
        overrides: The gradient overrides of scopes.
        scope: The scope of the call, if a gradient depends on it; else None.
        tables: The backends that ran kernels, each with its table of kernels.
        variables: The variables that were used, with the backends of their tensors.
        recorded: The number of runs that were recorded.
        homes: The backend of each value of the graph.
        results: For each tensor in ``value``, by its id: its index among the outputs of
            the graph, and its index among the tensors in the arguments, or None.
        captured: Tensors in ``value`` that the function has read and not made, by id:
            the tensor, or the slot that replays read anew.
        assigned: The variables that get new values. These are outputs of the graph,
            after the results.
        rebound: The arguments whose items the function assigns, as indices among the
            tensors in the arguments. Their new values are the last outputs.
        confirmed: Whether another call has done the same, so that it is replayed.
        program: The code of a replay, once the recording is confirmed.

    Raises:
        ValueError: The call cannot be replayed, and ``strict`` is set.

    """

    program: ReplayProgram

    sign: Signature
    reason: str
    is_temporary: bool
    value: Any
    recorded: int
    references: References
    unseen: set[int]

    def __init__(
        self,
        f: Callable[..., Any],
        sign: Signature,
        *,
        strict: bool = False,
        donated: Mapping[int, str] | None = None,
        varying: Iterable[Slot] = (),
        with_lines: bool = False,
        hold_arrays: bool = False,
        frozen: frozenset[str] = frozenset(),
    ) -> None:
        self.function = f
        self.frozen = frozen
        self.sign = sign
        self.donated = donated or {}
        self.plans, self.overrides = registry.gradients.plans, current().overrides
        # The scope affects the gradients of a call only if an override reads it.
        by_site = self.overrides is not None and self.overrides.by_site
        self.scope = current().scope if by_site else None
        self.confirmed = False
        recorder = Recorder(
            strict=strict, with_lines=with_lines, hold_arrays=hold_arrays
        )
        self.recorder = recorder
        self.varying = [*varying]
        given, running = self._run()
        self._finish([x for x in given if type(x) is Tensor])
        self._find_references(running)
        recorder.end()
        self.reason, self.is_temporary = recorder.reason, recorder.is_temporary
        if self.reason and strict:
            raise not_replayable(self.reason)

    def _run(self) -> tuple[list[Any], RunningCode]:
        """Run the function; return its argument leaves, and the code that ran."""
        sign, recorder = self.sign, self.recorder
        # f gets new handles of donated arguments, which it may keep or return.
        own = [
            x._alias() if self.donated and type(x) is Tensor else x for x in sign.leaves
        ]
        given = [
            recorder.argument(x, n) if type(x) is Tensor else x
            for n, x in enumerate(own)
        ]
        self._make_inputs(self.varying)
        args, kwargs = sign.args, sign.kwargs
        if any(x is not y for x, y in zip(given, sign.leaves, strict=True)):
            args, kwargs = sign.structure(given)
        natives = [x._data for x in given if type(x) is Tensor]
        with recorder.recording(), RunningCode() as running:
            self.value = self.function(*without_static(args), **without_static(kwargs))
        self._find_rebound(given, natives)
        now = split((args, kwargs))
        if structure_key(now[1]) != sign.key[0] or list(map(id, now[0])) != [
            *map(id, given)
        ]:
            recorder.refuse("a list or dict among the arguments is changed")
        return given, running

    def _find_rebound(self, given: list[Any], natives: list[Native]) -> None:
        """Find the arguments whose items are assigned, and update the user's tensors.

        Args:
            given: The leaves that the function got.
            natives: The arrays of the tensors among these leaves, before the call.

        """
        self.rebound = list[int]()
        leaves = [x for x in self.sign.leaves if type(x) is Tensor]
        passed = [x for x in given if type(x) is Tensor]
        for n, (x, y, native) in enumerate(zip(leaves, passed, natives, strict=True)):
            if y._data is native:
                continue
            if sum(other is x for other in leaves) > 1:
                raise ValueError(
                    "jit: the function assigns items of a tensor that is passed twice; "
                    "pass a copy once: copy.copy(x)"
                )
            x._rebind(y)
            if n not in self.donated:
                self.rebound.append(n)

    def _make_inputs(self, varying: list[Slot]) -> None:
        """Make the tensors in these slots inputs: one input for each tensor."""
        self.inputs: list[Slot] = []
        self.aliases: list[tuple[Slot, Slot]] = []
        self.shared: list[tuple[Slot, int]] = []
        self._read: list[tuple[Slot, Tensor, Native]] = []
        first: dict[int, Slot] = {}
        for slot in varying:
            x = slot.read()
            if type(x) is not Tensor or x._home is NOWHERE or x._home.depth:
                continue
            if id(x) in first:
                self.aliases.append((slot, first[id(x)]))
            elif (position := self.recorder.position(x)) is not None:
                self.shared.append((slot, position))  # it is also an argument
                continue
            else:
                first[id(x)] = slot
                self.recorder.reread(x, slot)
            self._read.append((slot, x, x._data))

    def _finish(self, given: list[Tensor]) -> None:
        """Note the results, and the current values of variables and arguments."""
        recorder, draft = self.recorder, self.recorder.draft
        self.results = dict[int, tuple[int, int | None]]()
        before = recorder.variables
        tensors = [*map(id, given)]
        for x in split(self.value)[0]:
            if type(x) is Tensor:
                argument = tensors.index(id(x)) if id(x) in tensors else None
                self.results.setdefault(id(x), (len(draft.outputs), argument))
                draft.outputs.append(recorder.number(x, x._alive()))
            elif not isinstance(x, (Variable, *RESULTS)):
                recorder.refuse(f"a {type(x).__name__} is returned")
            elif x not in before and id(getattr(x, "_value", x)) in recorder.given:
                recorder.refuse("a Variable made in the call is returned")
        self.assigned = [v for v, x in before.items() if v._value is not x]
        new = [v._value for v in self.assigned]
        new += [given[n] for n in self.rebound]
        draft.outputs += [recorder.number(x, x._home) for x in new]
        self.variables = [(v, x._home) for v, x in before.items()]
        names = {self.sign.key[2].name, *[step.backend for step in draft.steps]}
        opened = [registry.opened[name] for name in sorted(names)]
        self.tables = [(backend, backend.table) for backend in opened]
        self.recorded = len(draft.steps)
        self.homes = draft.homes
        self.inputs = [s for s in recorder.sources if isinstance(s, Slot)]

    def _find_references(self, running: RunningCode) -> None:
        """Find the references of the function; refuse those that cannot be compared."""
        recorder = self.recorder
        packages = [package_of(str(g.get("__name__", ""))) for _, g in running.ran]
        pairs = zip(running.ran, packages, strict=True)
        left_out = TRUSTED | self.frozen
        self.ran = {id(code): code for (code, _), name in pairs if name not in left_out}
        leaves = without_static([x for x in self.sign.leaves if type(x) is not Tensor])
        roots = [self.function, *leaves, *_functions(self.overrides)]
        keys = [slot.key for slot, *_ in self._read]
        keys += [slot.key for slot, _ in self.shared]
        self.references = References(roots, running.ran, keys, self.frozen)
        if running.reason or self.references.sets_hooks:
            reason = "the call may start or stop a debugger or a profiler"
            recorder.refuse(running.reason or reason, is_temporary=True)
        if self.references.reason:
            recorder.refuse(self.references.reason)
        if recorder.elsewhere and not THREADS.isdisjoint(packages):
            recorder.refuse(
                "it waits for a thread that reads tensors", is_temporary=True
            )
        for slot, x, native in self._read:
            if slot.read() is not x or x._data is not native:
                recorder.refuse(f"it changes {slot.label}, which it reads")
        self._find_constants()
        self._find_captured_results()
        # Tensors that are read anew must have the backend, shape and dtype of the old
        # ones. The old tensors may be freed.
        kinds = [(slot, _kind_of(x)) for slot, x, _ in self._read]
        self._kinds, self._distinct = kinds, len({id(x) for _, x, _ in self._read})
        self._read.clear()
        self.references.tensors.clear()

    def _find_constants(self) -> None:
        """Find the tensors that are constants, and refuse values of unknown origin."""
        recorder, known = self.recorder, self.references.tensors
        for native, reason in recorder.read.values():
            if id(native) not in known and not recorder.reason:
                recorder.reason = reason
        for x, native in recorder.free.values():
            if x._data is not native:
                recorder.refuse(f"it assigns items of {_about(x)}, which it reads")
        # Captured tensors that the search did not find; another call may read others.
        self.unseen = {n for n, (_, a) in recorder.free.items() if id(a) not in known}
        # Tensors in slots that the search also found elsewhere; they must not change.
        self.pinned = [
            (slot, x)
            for slot, x, native in self._read
            if any(x is other for other in known.get(id(native), ()))
        ]
        # Captured tensors with the array of an input; the input represents them.
        for position, native in enumerate(recorder.input_arrays):
            for x in known.get(id(native), ()):
                slot = Slot("a tensor that it refers to", x, "_data", "tensor")
                self.shared.append((slot, position))
        leaves = [x for x in self.sign.leaves if type(x) is Tensor]
        for position in self.rebound:  # it had the array of the input before the call
            x = leaves[position]
            if any(x is other for other in known.get(id(x._data), ())):
                slot = Slot("a tensor that it refers to", x, "_data", "tensor")
                self.shared.append((slot, position))
        used = [native for _, native in recorder.free.values()]
        used += [native for native, _ in recorder.read.values()]
        tensors = {id(x): x for x, _ in recorder.free.values()}
        tensors |= {id(x): x for native in used for x in known.get(id(native), ())}
        self.constants = [(x, x._data) for x in tensors.values()]

    def _find_captured_results(self) -> None:
        """Find the results that are captured tensors, which replays return as well."""
        leaves, structure = split(self.value)
        slots = {id(x): slot for slot, x, _ in reversed(self._read)}
        known = self.references.tensors
        self.captured: dict[int, Tensor | Slot] = {}
        for x in [x for x in leaves if type(x) is Tensor]:
            if id(x) in slots:
                self.captured[id(x)] = slots[id(x)]
            elif any(x is other for other in known.get(id(x._data), ())):
                self.captured[id(x)] = x
        # The parts of the result other than tensors, which another call must repeat.
        self.returned = structure_key(structure), [*map(self._key_of_result, leaves)]

    def _key_of_result(self, x: Any) -> Any:
        """Return a key of a leaf of the result: other calls return equal keys."""
        if type(x) is not Tensor:
            return value_key(x)
        found = self.captured.get(id(x))
        if isinstance(found, Slot):
            return self.results[id(x)], found.key
        return self.results[id(x)], None if found is None else Same(found)

    @functools.cached_property
    def graph(self) -> Graph | None:
        """The graph to run; None if the call must run eagerly."""
        return None if self.reason else self.recorder.draft.copy().finished()

    def stale(self, sign: Signature) -> str:
        """Describe what has changed since the call, except arguments; "" if nothing."""
        for backend, table in self.tables:
            if backend.table is not table:
                return f"the kernels of {backend.name!r}"
        if registry.gradients.plans is not self.plans:
            return "the registered gradients"
        if not are_same(current().overrides, self.overrides):
            return "the overridden gradients"
        if self.scope is not None and current().scope != self.scope:
            return "the scope, on which an overridden gradient depends"
        if any(v._value._home is not home for v, home in self.variables):
            return "the backend of a variable"
        if changed := self.references.changed():
            return changed
        now = [slot.read() for slot, _ in self._kinds]
        for (slot, kind), x in zip(self._kinds, now, strict=True):
            if _kind_of(x) != kind:
                return slot.label
        distinct = len({*map(id, now)}) == self._distinct
        if not distinct or any(
            s.read() is not first.read() for s, first in self.aliases
        ):
            return "which of the tensors that it refers to are the same object"
        for slot, x in self.pinned:
            if slot.read() is not x:
                return slot.label
        for slot, position in self.shared:
            if _array_of(slot.read()) is not _array_of(self._input(position, sign)):
                return f"whether {slot.label} is also an argument"
        for x, native in self.constants:
            if x._data is not native:
                return f"items of {_about(x)} that it refers to"
        return ""

    def _input(self, position: int, sign: Signature) -> Any:
        """Return the tensor that a call passes as an input."""
        given = iter([x for x in sign.leaves if type(x) is Tensor])
        found: Any = None
        for source in self.recorder.sources[: position + 1]:
            if isinstance(source, Slot):
                found = source.read()
            else:
                found = source._value if isinstance(source, Variable) else next(given)
        return found

    def replaced(self) -> list[Slot]:
        """Return the slots whose tensors were replaced by others of the same kind."""
        found: list[Slot] = []
        for place in self.references.places:
            for n in place.differing():
                slot = place.slot(n) if n >= 0 else None
                if slot is not None and may_replace(slot.read(), place.values[n]):
                    found.append(slot)
        for x, native in self.constants:
            if x._data is not native:
                found.append(Slot("items of a tensor", x, "_data", "tensor"))
        return found


def _array_of(x: Any) -> Any:
    return x._data if type(x) is Tensor else None


def _about(x: Tensor) -> str:
    return f"a tensor of shape {x.shape}"


def _kind_of(x: Any) -> tuple[Any, ...] | None:
    """Return a key: tensors with equal keys may replace each other."""
    return (x._home, x._shape, x._dtype) if type(x) is Tensor else None


def may_replace(new: Any, old: Any) -> bool:
    """Return whether a tensor may be read in place of another one."""
    return type(old) is Tensor and _kind_of(new) == _kind_of(old)


def without_static(arguments: Any) -> Any:
    """Return positional or named arguments, replacing each ``Static`` by its value."""
    if isinstance(arguments, dict):
        return dict(zip(arguments, without_static(arguments.values()), strict=True))
    return [x.value if isinstance(x, Static) else x for x in arguments]


def _functions(overrides: Overrides | None) -> list[Any]:
    """Return the gradient functions by which scopes and the user override others."""
    tables = [table for _, _, table in registry.gradients._user]
    rules = [rule.function for table in tables for rule in table.values() if rule]
    layers = overrides.layers if overrides else ()
    return rules + [function for layer in layers for function in layer.functions()]


class Attempts:
    """The attempts to record a signature, as long as no two in a row did the same.

    After some recordings, calls run eagerly for a while: a rest.

    Attributes:
        key: The key of the signature.
        recordings: The number of recordings since the last rest.
        calls: The number of calls that run eagerly before another one is recorded.
        rests: The number of rests so far.
        reason: Why no two recordings were the same.

    """

    __slots__ = ("calls", "key", "reason", "recordings", "rests")

    calls: int
    key: Any
    reason: str
    recordings: int
    rests: int

    def __init__(self, key: Any) -> None:
        self.key = key
        self.recordings = self.calls = self.rests = 0
        self.reason = ""
