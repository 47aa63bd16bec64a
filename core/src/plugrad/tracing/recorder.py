"""The recorder: an observer that turns the runs of a call into a draft of a graph.

A value is known by its native array and its backend. No two values have one array:
where they would, one of them gets a copy. An array that is gone is forgotten, as its
``id`` may be used again; those that have no weak references are held.

Map: ``Recorder``: what the engine, ``Variable`` and draws tell it, then values; arrays;
``Recorded``, a call that has run, and all that it depends on.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from plugrad.engine import dispatch
from plugrad.engine.context import Overrides, Scope, current, running
from plugrad.engine.tape import Outputs, specs
from plugrad.ops.variable import Variable
from plugrad.registry import backend as backends
from plugrad.registry.contract import Kernel, Spec
from plugrad.registry.registry import registry
from plugrad.tensor.dtypes import named
from plugrad.tensor.tensor import NOWHERE, Native, Tensor
from plugrad.tensor.tree import split

from .graph import DRAW, MOVE, Step
from .passes import Draft
from .signature import Captured, Same, Signature, Static, outline

if TYPE_CHECKING:
    from .program import Program

MAY_RETURN_INPUT = ("BroadcastTo", "Cast", "Identity", "Reshape", "Transpose")
RESULTS = (bool, int, float, complex, str, bytes, type, np.dtype, np.generic)
UNSEEN = "comes from a place that jit does not see; pass it as an argument, or hold it "
UNSEEN += "in a Variable"
Inputs = tuple[Tensor | None, ...]
Attrs = Mapping[str, Any]
Numbers = tuple[int | None, ...]
Told = Mapping[int, str]
Home = Any  # an OpenBackend; of a tensor the type checker knows less


class Recorder:
    """Records a call of this thread.

    Attributes:
        draft: What has been recorded.
        reason: Why the call cannot be replayed, with the user's line; empty if it can.
        variables: The variables that were used, with the tensor each held before.
        given: The ids of the tensors that variables have got in the call.

    """

    def __init__(self, constants: Iterable[Tensor], strict: bool) -> None:
        self.draft, self.reason = Draft(), ""
        self.variables: dict[Variable, Tensor] = {}
        self.given: set[int] = set()
        self._numbers: dict[tuple[int, Home], int] = {}  # by the id of the array
        self._held: list[Any] = []
        self._thread, self._strict = threading.get_ident(), strict
        self._paused = False
        for x in constants:
            if x._home is not NOWHERE:
                self._known(x._data, x._home)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record what runs inside the block."""
        backends.watch(self._transferred)
        try:
            with Scope(observer=self):
                yield
        finally:
            backends.unwatch(self._transferred)

    def refuse(self, reason: str) -> None:
        """Do not replay this call, as something at the user's line forbids it."""
        if not self.reason:
            self.reason = f"{reason} ({_place()})"
            if self._strict:
                raise ValueError(f"jit: strict=True, and {self.reason}")

    # --- what it is told ---------------------------------------------------------

    def __call__(
        self, kernel: Kernel, inputs: Inputs, attrs: Attrs, outputs: Outputs
    ) -> None:
        """Record a run that has just ended, unless its parts have been recorded."""
        run = running()
        if self.reason or self._paused or run is None or run.how == "decomposition":
            return
        where: Home = outputs[0]._home if kernel is dispatch._TO else run.where
        given = tuple([None if x is None else self.number(x, where) for x in inputs])
        if kernel is dispatch._TO:  # the move has been recorded
            return
        if run.how == "fallback":
            self.refuse(f"{kernel.op} runs on a fallback, {where.name!r}")
        found = kernel.out and kernel.out(*specs(inputs), **attrs)
        if found is None and (kernel.effect or self._is_dynamic(given)):
            hint = "" if kernel.out else "; give its contract out="
            what = f"the shape of what {kernel.op} returns"
            self.refuse(f"{what} depends on values{hint}")
        made = [self._output(kernel, y, where, given) for y in outputs]
        if len(made) == 1 and made[0] in given:
            return  # an input as it is
        self._step(kernel, where, given, attrs, made)
        for y, number in zip(outputs, made, strict=True):
            if where is not y._home:  # a host
                self._move(number, y._data, y._home)

    def variable(self, v: Variable) -> None:
        """Note that a variable is about to be read or assigned."""
        x = v._value
        if v in self.variables or id(x) in self.given or self.reason:
            return
        if not (home := x._home).depth:  # else it was made inside vmap
            if isinstance(x._data, np.bool_) or self._find(x._data, home) is not None:
                x._data = _copy(x._data, home)
            self.variables[v] = x
            self._input(x)

    def keep(self, x: Tensor) -> None:
        """Note that a variable is given a tensor of this call."""
        self.given.add(id(x))
        self._held.append(x)

    def draw(self, draw: Callable[[Any], Tensor], key: Tensor | None) -> Tensor:
        """Draw random numbers, and record how to draw others."""
        self._paused = True
        try:
            y = draw(key)
        finally:
            self._paused = False
        if not self.reason:
            source: Home = (y if key is None else key)._home
            given = None if key is None else self.number(key, source)
            attrs = {"draw": draw, "source": source.name}
            made = [self._known(y._data, y._home)]
            self._step(DRAW, y._home, (given,), attrs, made)
        return y

    def _transferred(self, what: str, home: Home, native: Native, _: float) -> None:
        """Note an upload, which makes a constant, or refuse a download."""
        if self.reason or self._paused or threading.get_ident() != self._thread:
            return
        if sys._getframe(3).f_code is dispatch.native.__code__:
            return  # a part of a move; between are _tell, and download or upload
        found = self._find(native, home)
        if what == "upload":
            self._known(native, home)
        elif self._is_dynamic([found]) or not self._is_seen(native, home):
            value = f"{named(native.dtype)} of shape {native.shape}"
            self.refuse(f"the values of a tensor, {value}, leave for Python")

    # --- values ------------------------------------------------------------------

    def argument(self, x: Tensor) -> Tensor:
        """Return an argument as an input of the graph, with an array of its own.

        It is another tensor if the array is known: the next call may pass two arrays.
        """
        home = x._alive()
        if isinstance(x._data, np.bool_) or self._find(x._data, home) is not None:
            x = Tensor(_copy(x._data, home), home)
        self._input(x)
        return x

    def _input(self, x: Tensor) -> None:
        number = self._known(x._data, x._home)
        self.draft.inputs.append(number)
        self._vary([number])

    def _find(self, native: Native, home: Home) -> int | None:
        return self._numbers.get((id(native), home))

    def _known(self, native: Native, home: Home) -> int:
        """Return the number of a value, which is a new one if its array is."""
        found = self._numbers.get(key := (id(native), home))
        if found is None:
            found = self.draft.add(native, Spec(native.shape, native.dtype), home)
            self._numbers[key] = found
            try:
                gone = functools.partial(_forget, self._numbers, key)
                self._held.append(weakref.ref(native, gone))
            except TypeError:
                self._held.append(native)
        return found

    def number(self, x: Tensor, where: Home) -> int:
        """Return the number of a tensor on the backend of a run."""
        if x._home is not where and x._cached_copies is not None:  # it has been moved
            copy = x._cached_copies[where]
            if self._find(copy, where) is None:
                self._move(self.number(x, x._home), copy, where)
            return self._known(copy, where)
        found = self._find(x._data, x._home)
        if found is not None:
            return found
        if not self._is_seen(x._data, x._home):
            self.refuse(f"a tensor of shape {x.shape} {UNSEEN}")
        return self._known(x._data, x._home)

    def _is_seen(self, native: Native, home: Home) -> bool:
        """Return whether it is clear where a value comes from."""
        found = self._find(native, home)
        return found is not None or any(n is native for n in _scalars(home))

    def _is_dynamic(self, numbers: Iterable[int | None]) -> bool:
        """Return whether one of these values depends on an input or an effect."""
        return not self.draft.dynamic.isdisjoint(numbers)

    def _output(self, kernel: Kernel, y: Tensor, where: Home, given: Numbers) -> int:
        """Return the number of an output; give it an array of its own."""
        if y._home is not where:  # the array on the host is gone
            return self.draft.add(None, Spec(y.shape, y.dtype), where)
        number = self._find(y._data, where)
        if number in given and kernel.name in MAY_RETURN_INPUT and number is not None:
            return number
        if number is not None or isinstance(y._data, np.bool_):
            _separate(y)
        return self._known(y._data, where)

    def _move(self, number: int, native: Native, where: Home) -> None:
        attrs = {"source": self.draft.homes[number].name}
        self._step(MOVE, where, (number,), attrs, [self._known(native, where)])

    def _step(
        self, kernel: Kernel, where: Home, given: Numbers, attrs: Attrs, made: list[int]
    ) -> None:
        step = Step(kernel, where.name, given, dict(attrs), tuple(made))
        self.draft.steps.append(step)
        if kernel.effect or self._is_dynamic(given):
            self._vary(made)

    def _vary(self, values: Iterable[int]) -> None:
        """Note that values are not the same in each call."""
        self.draft.dynamic.update(values)
        for value in values:
            self.draft.natives[value] = None


# --- arrays ----------------------------------------------------------------------


def _forget(
    numbers: dict[tuple[int, Home], int], key: tuple[int, Home], _: Any
) -> None:
    del numbers[key]


def _scalars(backend: Home) -> Iterator[Native]:
    """Yield the scalars that a backend keeps, and those of ``vmap`` over it."""
    while backend is not None:
        for x in backend.scalars.values():
            while x._home.depth:
                x = x._data.tensor
            yield x._data
        backend = backend.batches


def _copy(native: Native, home: Home) -> Native:
    """Return an array of the same values that nothing else has."""
    arrays = home.runtime.arrays
    return arrays.upload(np.array(arrays.download(native)))


def _separate(y: Tensor) -> None:
    """Give an output an array of its own, also where a tape has just saved it.

    NumPy's True is one object, and a kernel may return its input for some values.
    """
    shared, y._data = y._data, _copy(y._data, y._home)
    nodes = [tape.nodes[-1] for tape in current().tapes if tape.nodes]
    for saved in [x for node in nodes for x in node.saved if type(x) is Tensor]:
        if saved._data is shared and saved._tape_id is y._tape_id is not None:
            saved._data = y._data


def _place() -> str:
    """Return the file and line of the innermost call from outside of plugrad."""
    frame = sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("plugrad."):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


# --- the recorded call -----------------------------------------------------------


class Recorded:
    """A call that has run, and all that it depends on.

    Attributes:
        function: What was called.
        sign: The signature of the call.
        value: What the function returned.
        reason: Why it cannot be replayed; empty if it can.
        captured: What the function reads from outside.
        plans: Stands for the registered gradients.
        overrides: The gradients that scopes override.
        tables: The kernels of all backends that ran some.
        variables: The variables that were used, with the backends of what they held.
        donated: What errors say of donated tensors, by the numbers of the tensors.
        recorded: How many runs were recorded.
        graph: What to run; None if the call has to run eagerly.
        homes: The backend of each value of the graph.
        results: For each tensor in ``value``, by its id, its place among the outputs of
            the graph, or that of the argument that it is.
        assigned: The variables whose new values are the last outputs of the graph.
        program: The code of a replay.

    Raises:
        ValueError: The call cannot be replayed, and ``strict`` is set.

    """

    program: Program

    def __init__(
        self, f: Callable[..., Any], sign: Signature, strict: bool, donated: Told
    ) -> None:
        self.function, self.sign, self.donated = f, sign, donated
        self.plans, self.overrides = registry.gradients.plans, current().overrides
        roots = plain([x for x in sign.leaves if type(x) is not Tensor])
        self.captured = Captured([f, *roots, *_functions(self.overrides)])
        recorder = Recorder(self.captured.tensors.values(), strict)
        # What f keeps or returns of a donated argument is another handle.
        own = [x._alias() if donated and type(x) is Tensor else x for x in sign.leaves]
        given = [recorder.argument(x) if type(x) is Tensor else x for x in own]
        args, kwargs = sign.args, sign.kwargs
        if any(x is not y for x, y in zip(given, sign.leaves, strict=True)):
            args, kwargs = sign.structure(given)
        natives = [x._data if type(x) is Tensor else None for x in given]
        with recorder.recording():
            self.value = f(*plain(args), **plain(kwargs))
        for x, mine, native in zip(sign.leaves, given, natives, strict=True):
            if native is not None and mine._data is not native:
                recorder.refuse("items of an argument are assigned")
                x._rebind(mine)
        now = split((args, kwargs))
        if outline(now[1]) != sign.key[0] or list(map(id, now[0])) != [*map(id, given)]:
            recorder.refuse("a list or dict among the arguments is changed")
        if changed := self.captured.changed():
            recorder.refuse(f"it changes {changed}, which it reads")
        self._finish(recorder, [id(x) for x in given if type(x) is Tensor])

    def _finish(self, recorder: Recorder, tensors: list[int]) -> None:
        """Make the graph, of the results and of what variables hold now."""
        draft, self.results = recorder.draft, dict[int, tuple[int, int | None]]()
        before = recorder.variables
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
        draft.outputs += [recorder.number(x, x._home) for x in new]
        self.variables = [(v, x._home) for v, x in before.items()]
        names = {self.sign.key[2].name, *[step.backend for step in draft.steps]}
        opened = [registry.opened[name] for name in sorted(names)]
        self.tables = [(backend, backend.table) for backend in opened]
        self.recorded, self.reason = len(draft.steps), recorder.reason
        self.graph = None if self.reason else draft.finished()
        self.homes = draft.homes

    def stale(self) -> str:
        """Return what has changed besides the arguments; an empty string if nothing."""
        for backend, table in self.tables:
            if backend.table is not table:
                return f"the kernels of {backend.name!r}"
        if registry.gradients.plans is not self.plans:
            return "the registered gradients"
        if _layers(current().overrides) != _layers(self.overrides):
            return "the overridden gradients"
        if any(v._value._home is not home for v, home in self.variables):
            return "the backend of a variable"
        return self.captured.changed()


def plain(arguments: Any) -> Any:
    """Return positional or named arguments without ``Static``."""
    if isinstance(arguments, dict):
        return dict(zip(arguments, plain(arguments.values()), strict=True))
    return [x.value if isinstance(x, Static) else x for x in arguments]


def _layers(overrides: Overrides | None) -> Any:
    """Return what equal overrides have in common."""
    found = overrides.layers if overrides else ()
    return [(of, [(k, Same(r)) for k, r in rules.items()]) for of, rules in found]


def _functions(overrides: Overrides | None) -> list[Any]:
    """Return the gradient functions that scopes and the user have put over others."""
    tables = [table for _, _, table in registry.gradients._user]
    for _, layer in overrides.layers if overrides else ():
        tables += layer.values()
    return [rule.function for table in tables for rule in table.values() if rule]
