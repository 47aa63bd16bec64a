"""Compare two recordings: ``jit`` replays calls once two in a row did the same.

Contents: ``Differ``; how values and attributes are compared.
"""

from __future__ import annotations

import functools
import linecache
from collections.abc import Iterable
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from plugrad._src.engine.places import Slot, same_value
from plugrad._src.ops.basis.variable import Variable
from plugrad._src.tensor.dtypes import dtype_kind
from plugrad._src.tensor.tensor import Native, Tensor

from .graph import Step
from .recorder import Home
from .recording import Recording, may_replace


class Differ:
    """Compares two recordings of calls that should do the same.

    Attributes:
        difference: The difference, for messages; empty if there is none.
        same: For each value of the first draft, its number in the second.

    """

    difference: str

    def __init__(self, old: Recording, new: Recording, *, code: bool = True) -> None:
        self._old = old
        self._new = new
        self._code = code
        self.same: dict[int, int] = {}
        self._met: set[int] = set()  # the values of ``same``, for fast look-ups
        self.difference = self._find_difference()

    def _find_difference(self) -> str:
        old, new = self._old, self._new
        if old.reason or new.reason:
            return new.reason or old.reason
        if self._code and (other := _only_in(new.ran, old.ran)):
            return f"{other} runs now, and did not before"
        if self._code and (other := _only_in(old.ran, new.ran)):
            return f"{other} ran before, and does not now"
        return self._inputs() or self._steps() or self._results()

    def _inputs(self) -> str:
        ours, its = self._old.recorder, self._new.recorder
        sources = [[_source_key(s) for s in r.sources] for r in (ours, its)]
        if sources[0] != sources[1]:
            return "it reads other variables or tensors than before"
        self._meet(ours.draft.inputs, its.draft.inputs)
        return ""

    def _steps(self) -> str:
        ours, its = self._old.recorder.draft.steps, self._new.recorder.draft.steps
        for old, new in zip(ours, its, strict=False):
            if found := self._step(old, new):
                self._meet(old.outputs[:1], new.outputs[:1])
                return f"{found}{self.place_of(old.outputs[0])}"
        if len(ours) != len(its):
            return f"{len(ours)} kernels ran before, {len(its)} now"
        return ""

    def _step(self, old: Step, new: Step) -> str:
        if (old.kernel, old.backend) != (new.kernel, new.backend):
            names = [f"{s.kernel.name} on {s.backend}" for s in (old, new)]
            return f"{names[0]} ran before, {names[1]} now"
        name = new.kernel.name
        if old.precision != new.precision:
            both = [step.precision or "that of the call" for step in (old, new)]
            return f"the precision of {name} was {both[0]}, and is {both[1]}"
        if len(old.inputs) != len(new.inputs):
            return f"{name} had {len(old.inputs)} inputs, and has {len(new.inputs)}"
        for n, (x, y) in enumerate(zip(old.inputs, new.inputs, strict=True)):
            if found := self._value(x, y):
                return f"input {n} of {name} {found}"
        if old.attrs.keys() != new.attrs.keys():
            return f"{name} has different attributes than before"
        for key, x in old.attrs.items():
            if not _same_attribute(x, new.attrs[key]):
                return f"{key} of {name} was {x!r}, and is {new.attrs[key]!r}"
        specs = [self._old.recorder.draft.specs[y] for y in old.outputs]
        if specs != [self._new.recorder.draft.specs[y] for y in new.outputs]:
            return f"the shape or the dtype of what {name} returns differs"
        self._meet(old.outputs, new.outputs)
        return ""

    def _results(self) -> str:
        old, new = self._old, self._new
        if old.returned != new.returned:
            return "its result differs in structure, or in a value that is not a tensor"
        if [id(v) for v in old.assigned] != [id(v) for v in new.assigned]:
            return "it assigns other variables than before"
        if old.rebound != new.rebound:
            return "it assigns items of other arguments than before"
        pairs = zip(old.recorder.draft.outputs, new.recorder.draft.outputs, strict=True)
        for n, (x, y) in enumerate(pairs):
            if found := self._value(x, y):
                return f"result {n} {found}"
        return ""

    def _value(self, x: int | None, y: int | None) -> str:
        """Describe how a value differs.

        Constants are compared when a step or a result first uses them.
        """
        if x is None or y is None:
            return "" if x is y else "is given in one call only"
        if x in self.same or y in self._met:
            return "" if self.same.get(x) == y else "is another value"
        old, new = self._old, self._new
        first, second = old.recorder.draft.natives[x], new.recorder.draft.natives[y]
        if first is not second:
            home = new.homes[y]
            if home is not old.homes[x] or x in old.recorder.free or y in new.unseen:
                return "comes from a place that jit does not see"
            values = [_values(n, home) for n in (first, second)]
            if not same_bits(*values):
                return f"was {_brief(values[0])}, and is {_brief(values[1])}"
        self._meet([x], [y])
        return ""

    def _meet(self, ours: Iterable[int], its: Iterable[int]) -> None:
        pairs = dict(zip(ours, its, strict=True))
        self.same |= pairs
        self._met.update(pairs.values())

    def place_of(self, value: int) -> str:
        """Return the user's line that made a value of the first draft, for messages."""
        place = self._new.recorder.lines.get(self.same.get(value, -1), "")
        file, _, line = place.rpartition(":")
        if not place:
            return ""
        text = linecache.getline(file, int(line)).strip()
        return f" ({place}: {text})" if text else f" ({place})"


def _only_in(one: dict[int, CodeType], other: dict[int, CodeType]) -> str:
    """Return the name of code that ran in ``one`` but not in ``other``, if any."""
    names = [code.co_qualname for key, code in one.items() if key not in other]
    return names[0] if names else ""


def _source_key(source: Any) -> Any:
    if isinstance(source, Slot):
        return source.key
    return source if isinstance(source, int) else (Variable, id(source))


def _values(native: Native, home: Home) -> Any:
    return np.asarray(home.runtime.arrays.download(native))


def _brief(x: Any) -> str:
    return repr(x.item()) if x.size == 1 else f"an array of shape {x.shape}"


def same_bits(x: Any, y: Any) -> bool:
    """Return whether two arrays are bitwise equal; all NaN count as equal."""
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if x.dtype.hasobject:
        return bool((x == y).all())
    if x.tobytes() == y.tobytes():
        return True
    if dtype_kind(x.dtype) not in "fcV":
        return False
    parts = (
        [x.view(x.real.dtype), y.view(y.real.dtype)]
        if dtype_kind(x.dtype) == "c"
        else [x, y]
    )
    nan = np.isnan(parts[0])
    if not np.array_equal(nan, np.isnan(parts[1])):
        return False
    x, y = [np.where(nan, 0, part) for part in parts]
    return bool(x.tobytes() == y.tobytes())


def _same_attribute(x: Any, y: Any) -> bool:
    """Return whether an attribute is the same in two recordings."""
    if same_value(x, y):
        return True
    if type(x) is not type(y):
        return False
    if type(x) is Tensor:  # a key, which is an input of the step as well
        return may_replace(x, y)
    if isinstance(x, functools.partial):
        parts = [(p.func, p.args, tuple(p.keywords.items())) for p in (x, y)]
        return _same_attribute(*parts)
    if isinstance(x, FunctionType):
        return _same_function(x, y)
    if isinstance(x, tuple | list):
        pairs = zip(x, y, strict=False)
        return len(x) == len(y) and all(_same_attribute(a, b) for a, b in pairs)
    if isinstance(x, np.ndarray):
        return same_bits(x, y)
    return bool(x == y) and repr(x) == repr(y)


def _same_function(f: FunctionType, g: FunctionType) -> bool:
    """Return whether two functions, such as two draws, have equal code and data."""
    if f.__code__ is not g.__code__:
        return False
    cells = [[c.cell_contents for c in h.__closure__ or ()] for h in (f, g)]
    defaults = [(h.__defaults__, h.__kwdefaults__) for h in (f, g)]
    return _same_attribute(*cells) and _same_attribute(*defaults)
