"""The recorder: an observer that turns the runs of a call into a draft of a graph.

A value is identified by its native array and its backend. No two values share an array:
if they would, one of them gets a copy. A freed array is forgotten, because its ``id``
may be used again; arrays that do not support weak references are kept alive.

Contents: ``Recorder``: events of the engine, ``Variable`` and draws, then values;
arrays.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from plugrad._src.engine import dispatch, sites
from plugrad._src.engine.context import Scope, current, running
from plugrad._src.engine.places import Slot
from plugrad._src.engine.precision import get_precision
from plugrad._src.engine.tape import Outputs
from plugrad._src.ops.basis.variable import Variable
from plugrad._src.registry import backend as backends
from plugrad._src.registry.contract import Kernel, Spec
from plugrad._src.registry.deprecation import line_outside
from plugrad._src.tensor.dtypes import named
from plugrad._src.tensor.explained import explained
from plugrad._src.tensor.tensor import Native, Tensor

from .graph import DRAW, MOVE, Step
from .passes import MAX_FOLDED_BYTES, Draft

MAY_RETURN_INPUT = ("BroadcastTo", "Cast", "Identity", "Reshape", "Transpose")
Inputs = tuple[Tensor | None, ...]
Attrs = Mapping[str, Any]
Numbers = tuple[int | None, ...]
Home = Any  # an OpenBackend; the type checker knows the home of a tensor as Any


# The source of an input: the number of an argument, a slot or a variable.
Source = int | Slot | Variable


def not_replayable(reason: str) -> ValueError:
    """Return the error of ``jit(strict=True)`` about a call that is not replayed."""
    return explained(ValueError(f"jit: strict=True, and {reason}"), "jit-cannot-replay")


class Recorder:
    """Records a call of this thread.

    Args:
        strict: Whether a call that cannot be replayed is an error.
        with_lines: Whether to remember the user's line of each step, for messages.
        hold_arrays: Whether to hold all arrays, to compare them with those of a replay.

    Attributes:
        draft: The graph that has been recorded so far.
        sources: The source of each input of the draft.
        input_arrays: The array of each input, until the call has ended.
        reason: Why the call cannot be replayed, with the user's line; empty if it can.
        is_temporary: Whether the reason may not apply to the next call.
        variables: The variables that were used, with the tensor each held before.
        given: The ids of the tensors assigned to variables in the call.
        free: The tensors that were neither passed to the call nor made in it, with
            their arrays; a dict keyed by the index of the value in the graph.
        read: The arrays of unknown origin whose values the user's code has read, by
            their ids, each with the reason to refuse the call if its origin is not
            found.
        raised: Whether a kernel has raised an error.
        elsewhere: Whether another thread has read the values of a tensor.
        lines: The user's lines, by the numbers of the values that were made there.
        arrays: The arrays of all values by number, if they are held.

    """

    draft: Draft
    reason: str
    is_temporary: bool
    raised: bool
    elsewhere: bool

    def __init__(self, *, strict: bool, with_lines: bool, hold_arrays: bool) -> None:
        self.draft = Draft()
        self.reason = ""
        self.is_temporary = False
        self.sources: list[Source] = []
        self.input_arrays: list[Native] = []
        self.variables: dict[Variable, Tensor] = {}
        self.given: set[int] = set()
        self.free: dict[int, tuple[Tensor, Native]] = {}
        self.read: dict[int, tuple[Native, str]] = {}
        self.raised = self.elsewhere = False
        self.lines: dict[int, str] = {}
        self.arrays: dict[int, Native] = {}
        self._numbers: dict[tuple[int, Home], int] = {}  # by the id of the array
        self._held: list[Any] = []
        self._thread = threading.get_ident()
        self._threads_before = {thread.ident for thread in threading.enumerate()}
        self._strict = strict
        self._with_lines = with_lines
        self._hold_arrays = hold_arrays
        self._precision = get_precision()
        self._outer_scope = current().scope
        self._apart: set[int] = set()
        self._paused = False

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record the runs inside the block."""
        backends.watch(self._transferred)
        try:
            with Scope(observer=self):
                yield
        finally:
            backends.unwatch(self._transferred)

    def refuse(self, reason: str, *, is_temporary: bool = False) -> None:
        """Mark this call as not replayable; the reason includes the user's line."""
        if not self.reason:
            self.reason = f"{reason} ({line_outside()})"
            self.is_temporary = is_temporary
            if self._strict:
                raise not_replayable(self.reason)

    def end(self) -> None:
        """Drop the data that is only needed while the call runs."""
        self.variables, self.given, self._held, self._numbers = {}, set(), [], {}
        self._apart.clear()
        self.input_arrays.clear()
        self.release(above=MAX_FOLDED_BYTES)

    def release(self, above: int = -1) -> None:
        """Release the arrays of more than ``above`` bytes that steps have made."""
        natives, homes = self.draft.natives, self.draft.homes
        for y in [y for step in self.draft.steps for y in step.outputs]:
            native = natives[y]
            if native is None:
                continue
            if above < 0 or homes[y].runtime.arrays.nbytes(native) > above:
                natives[y] = None

    # --- events ------------------------------------------------------------------

    def _is_elsewhere(self) -> bool:
        """Return whether another thread runs kernels in this context.

        The hook does not see the code of that thread, so the call cannot be replayed.
        """
        if threading.get_ident() == self._thread:
            return False
        self.reason = self.reason or "kernels run in another thread"
        return True

    def __call__(
        self, kernel: Kernel, inputs: Inputs, attrs: Attrs, outputs: Outputs
    ) -> None:
        """Record a run that has just ended, unless its parts have been recorded."""
        run = running()
        if (
            self._is_elsewhere()
            or self.reason
            or self._paused
            or run is None
            or run.how == "decomposition"
        ):
            return
        where: Home = outputs[0]._home if kernel is dispatch._TO else run.where
        given = tuple([None if x is None else self.number(x, where) for x in inputs])
        if kernel is dispatch._TO:  # the move has been recorded
            return
        if run.how == "fallback":
            self.refuse(f"{kernel.op} runs on a fallback, {where.name!r}")
        specs = [None if n is None else self.draft.specs[n] for n in given]
        found = kernel.out and kernel.out(*specs, **attrs)
        if found is None and (kernel.effect or self._is_dynamic(given)):
            hint = "" if kernel.out else "; give its contract out="
            what = f"the shape of what {kernel.op} returns"
            self.refuse(f"{what} depends on values{hint}")
        made = [self._output(kernel, y, where, given) for y in outputs]
        if len(made) == 1 and made[0] in given:
            return  # the kernel returned an input unchanged
        self._step(kernel, where, given, attrs, made)
        for y, number in zip(outputs, made, strict=True):
            if where is not y._home:  # a host
                self._move(number, y._data, y._home)

    def outside(self) -> Bystander:
        """Return an observer of the runs in a block of ``outside``."""
        return Bystander(self)

    def skip(self, kernel: Kernel, inputs: Inputs, outputs: Outputs) -> None:
        """Note a run in a block of ``outside``, which replays skip.

        Refuse the call if the run has an effect, or depends on values that differ
        between calls.
        """
        if self._is_elsewhere() or self.reason or self._paused:
            return
        given = [x for x in inputs if x is not None and id(x._data) not in self._apart]
        numbers = [self.number(x, x._home) for x in given]
        if kernel.effect:
            self.refuse(f"{kernel.op}, which has an effect, runs in outside()")
        elif self._is_dynamic(numbers):
            self.refuse(f"{kernel.op} in outside() reads a tensor of the call")
        known = [self._find(y._data, y._home) is not None for y in outputs]
        made = [y._data for y, k in zip(outputs, known, strict=True) if not k]
        self._apart.update(map(id, made))
        self._held += made

    def variable(self, v: Variable) -> None:
        """Note that a variable is about to be read or assigned."""
        x = v._value
        if (
            self._is_elsewhere()
            or v in self.variables
            or id(x) in self.given
            or self.reason
        ):
            return
        if not (home := x._home).depth:  # otherwise, it was made inside vmap
            if isinstance(x._data, np.bool_) or self._find(x._data, home) is not None:
                x._data = _copy(x._data, home)
            self.variables[v] = x
            self._input(x, v)

    def failed(self, error: Exception) -> None:
        """Refuse a call in which a kernel raises; with other values it might not."""
        self.raised = True
        if not self.reason:
            name = type(error).__name__
            self.reason = f"a kernel raises {name}, which is caught ({line_outside()})"

    def keep(self, x: Tensor) -> None:
        """Note that a variable is assigned a tensor of this call."""
        if not self._is_elsewhere():
            self.given.add(id(x))
            self._held.append(x)

    def draw(self, draw: Callable[[Any], Tensor], key: Tensor | None) -> Tensor:
        """Draw random numbers, and record how to draw new ones."""
        if self._is_elsewhere():
            return draw(key)
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
        """Record an upload as a constant; a read of a varying value ends replays."""
        if self.reason or self._paused or backends.transferring.moves:
            return
        if threading.get_ident() != self._thread:
            if what != "upload":
                self._transferred_elsewhere(home, native)
            return
        found = self._find(native, home)
        if what == "upload":
            self._known(native, home)
            return
        reason = f"the values of a tensor, {_described(native)}, are read by Python"
        if self._is_dynamic([found]) or backends.is_shared(native):
            self.refuse(reason)
        elif id(native) in self._apart:
            return  # it depends on nothing that differs between calls
        elif found is None and not _is_scalar(native, home):
            self.read[id(native)] = native, f"{reason} ({line_outside()})"

    def _transferred_elsewhere(self, home: Home, native: Native) -> None:
        """Note that another thread reads the values of a tensor."""
        found = self._find(native, home)
        is_made_here = self._is_dynamic([found]) and found not in self.draft.inputs
        if is_made_here or threading.get_ident() not in self._threads_before:
            values = f"the values of a tensor, {_described(native)}, are read by Python"
            self.reason = self.reason or f"{values} in another thread"
            self.is_temporary = True
        self.elsewhere = True

    # --- values ------------------------------------------------------------------

    def argument(self, x: Tensor, number: int) -> Tensor:
        """Make an argument an input of the graph, and return it.

        If another value has the same array, return a tensor with a copy: the next call
        may pass two different arrays.
        """
        home = x._alive()
        if isinstance(x._data, np.bool_) or self._find(x._data, home) is not None:
            x = Tensor(_copy(x._data, home), home)
        self._input(x, number)
        return x

    def position(self, x: Tensor) -> int | None:
        """Return the position of the input that has the array of a tensor, if any."""
        ids = [id(native) for native in self.input_arrays]
        return ids.index(id(x._data)) if id(x._data) in ids else None

    def reread(self, x: Tensor, slot: Slot) -> None:
        """Make a captured tensor an input, which replays read anew."""
        if isinstance(x._data, np.bool_) or self._find(x._data, x._home) is not None:
            x._data = _copy(x._data, x._home)
        self._input(x, slot)

    def _input(self, x: Tensor, source: Source) -> None:
        number = self._known(x._data, x._home)
        self.draft.inputs.append(number)
        self.sources.append(source)
        self.input_arrays.append(x._data)
        self._vary([number])

    def _find(self, native: Native, home: Home) -> int | None:
        return self._numbers.get((id(native), home))

    def _known(self, native: Native, home: Home) -> int:
        """Return the number of a value; add the value if its array is not known."""
        found = self._numbers.get(key := (id(native), home))
        if found is None:
            found = self.draft.add(native, Spec(native.shape, native.dtype), home)
            self._numbers[key] = found
            if self._hold_arrays:
                self.arrays[found] = native
            try:
                gone = functools.partial(_forget, self._numbers, key)
                self._held.append(weakref.ref(native, gone))
            except TypeError:
                self._held.append(native)
        return found

    def number(self, x: Tensor, where: Home) -> int:
        """Return the number of a tensor on the backend of a run."""
        if x._home is not where and x._cached_copies is not None:  # it has been moved
            _, copy = x._cached_copies[where]
            if self._find(copy, where) is None:
                self._move(self.number(x, x._home), copy, where)
            return self._known(copy, where)
        found = self._find(x._data, x._home)
        if found is not None:
            return found
        if isinstance(x._data, np.bool_):  # NumPy's True is a single object
            x._data = _copy(x._data, x._home)
        if backends.is_shared(x._data):  # others may write to it
            self.reread(x, Slot("a tensor in shared memory", x, "_data", "tensor"))
        elif not _is_scalar(x._data, x._home):
            self.free[self._known(x._data, x._home)] = x, x._data
        return self._known(x._data, x._home)

    def _is_dynamic(self, numbers: Iterable[int | None]) -> bool:
        """Return whether one of these values depends on an input or an effect."""
        return not self.draft.dynamic.isdisjoint(numbers)

    def _output(self, kernel: Kernel, y: Tensor, where: Home, given: Numbers) -> int:
        """Return the number of an output; give it an array of its own."""
        if y._home is not where:  # the array on the host has been freed
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
        now = get_precision()
        inside = None if now == self._precision else now
        scope = sites.inside(self._outer_scope, current().scope)
        step = Step(kernel, where.name, given, dict(attrs), tuple(made), inside, scope)
        self.draft.steps.append(step)
        if self._with_lines:
            self.lines |= dict.fromkeys(made, line_outside())
        if kernel.effect or self._is_dynamic(given):
            self._vary(made)

    def _vary(self, values: Iterable[int]) -> None:
        """Note that these values differ between calls."""
        self.draft.dynamic.update(values)
        for value in values:
            self.draft.natives[value] = None


class Bystander:
    """Observes the runs of a recorded call in a block of ``outside``.

    It records nothing, but notifies the recorder of variables, random draws, and runs
    that may differ from call to call.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.variable, self.keep = recorder.variable, recorder.keep
        self.draw, self.refuse = recorder.draw, recorder.refuse
        self.failed = recorder.failed

    def __call__(
        self, kernel: Kernel, inputs: Inputs, _: Attrs, outputs: Outputs
    ) -> None:
        """Note a run that has just ended."""
        self._recorder.skip(kernel, inputs, outputs)

    def outside(self) -> Bystander:
        """Return the observer of a block inside of this one."""
        return self


# --- arrays ----------------------------------------------------------------------


def _forget(
    numbers: dict[tuple[int, Home], int], key: tuple[int, Home], _: Any
) -> None:
    numbers.pop(key, None)


def _is_scalar(native: Native, backend: Home) -> bool:
    """Return whether a backend, or ``vmap`` over it, caches an array as a scalar."""
    while backend is not None:
        for x in [*backend.scalars.values()]:  # a copy: other threads may add scalars
            while x._home.depth:
                x = x._data.tensor
            if x._data is native:
                return True
        backend = backend.batches
    return False


def _described(native: Native) -> str:
    return f"{named(native.dtype)} of shape {native.shape}"


def _copy(native: Native, home: Home) -> Native:
    """Return a new array with the same values."""
    arrays = home.runtime.arrays
    return arrays.upload(np.array(arrays.download(native)))


def _separate(y: Tensor) -> None:
    """Give an output an array of its own, even if a tape has just saved it.

    Otherwise, two values could share an array: NumPy's True is a single object, and a
    kernel may return its input for some values.
    """
    shared = y._data
    y._data = _copy(y._data, y._home)
    nodes = [tape.nodes[-1] for tape in current().tapes if tape.nodes]
    for saved in [x for node in nodes for x in node.saved if type(x) is Tensor]:
        if saved._data is shared and saved._tape_id is y._tape_id is not None:
            saved._data = y._data
