"""Signatures: what two calls have in common that one recording serves.

Arguments are one half. The other is what a function reads from outside: closures,
globals, defaults, attributes. They are found by the names in its code, and in that of
the functions and methods which these lead to. Names of attributes are looked up in
every object that was found, so more may be guarded than is read. Modules of Python,
NumPy, plugrad and installed packages are not searched.

Map: ``look``, by which values are compared; ``Static``, ``Signature`` of a call, keys
of leaves and structures, ``difference``; ``Place`` and ``Captured``.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, NamedTuple

import numpy as np

from plugrad.ops._convert import asarray
from plugrad.ops.variable import Variable
from plugrad.registry.backend import OpenBackend
from plugrad.tensor.dtypes import named
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.tree import Structure, split

PLAIN = (type(None), bool, int, float, complex, str, bytes)
OTHERS = {*sys.stdlib_module_names, "numpy", "plugrad"} - {"__main__"}
MISSING: Any = object()
# Objects that equal themselves alone, and whose changes are seen or matter to nothing.
FUNCTIONS = FunctionType, MethodType, BuiltinFunctionType, np.ufunc
IDENTITY = *FUNCTIONS, type, ModuleType, Variable, Enum, np.dtype, type(Ellipsis)


class Same:
    """Equal only to the same objects in the same order."""

    __slots__ = ("ids", "values")

    def __init__(self, *values: object) -> None:
        self.values, self.ids = values, (*map(id, values),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.ids == self.ids

    def __hash__(self) -> int:
        return hash(self.ids)


def is_fixed(value: Any) -> bool:
    """Return whether the same object always looks the same."""
    if type(value) in (tuple, frozenset):
        return all(map(is_fixed, value))
    return type(value) in PLAIN or isinstance(value, IDENTITY)


def values(of: dict[Any, Any] | list[Any]) -> Iterable[Any]:
    """Return what a container holds."""
    return of.values() if type(of) is dict else of


def look(value: Any) -> Any:
    """Return what equals that of another value only if ``jit`` may take both as one."""
    kind = type(value)
    if kind in PLAIN:
        return kind, repr(value)  # which tells 0.0 from -0.0, and has NaN equal NaN
    if isinstance(value, np.generic | np.ndarray) and not value.dtype.hasobject:
        return kind, value.shape, value.dtype, value.tobytes()
    if kind is Tensor:
        return kind, Same(value, value._data)
    if kind is dict:
        return kind, look([*value]), look([*value.values()])
    if kind in (list, tuple):
        kinds = {*map(type, value)}
        if kinds == {Tensor}:
            return kind, Same(*value, *[x._data for x in value])
        return kind, *(value if kinds == {str} else map(look, value))
    if kind in (set, frozenset):
        return kind, frozenset(map(look, value))
    return Same(value)


# --- arguments -------------------------------------------------------------------


class Static:
    """A static argument: one leaf, whatever it is."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Signature(NamedTuple):
    """A call as ``jit`` sees it.

    Attributes:
        args: The positional arguments, with tensors in place of NumPy's arrays.
        kwargs: The named arguments.
        leaves: Their leaves.
        structure: Their structure.
        key: What calls of one signature have in common.

    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    leaves: list[Any]
    structure: Structure
    key: tuple[Any, ...]


def signature(
    args: Any, kwargs: Any, static: Collection[int | str], backend: OpenBackend
) -> Signature:
    """Return the signature of a call.

    Raises:
        TypeError: An argument is of a class that jit does not know.

    """
    if static:
        args = tuple([Static(x) if i in static else x for i, x in enumerate(args)])
        kwargs = {n: Static(x) if n in static else x for n, x in kwargs.items()}
    leaves, structure = split((args, kwargs))
    if any([isinstance(x, np.ndarray) for x in leaves]):
        leaves = [asarray(x) if isinstance(x, np.ndarray) else x for x in leaves]
        args, kwargs = structure(leaves)
    keys = []
    for i, x in enumerate(leaves):
        try:
            keys.append(leaf_key(x))
        except TypeError:
            raise TypeError(
                f"jit: {argument(structure.paths()[i])} is a {type(x).__name__}, whose "
                "changes jit cannot see; pass tensors, numbers, text or trees of them, "
                "or name it in static= if it is hashable"
            ) from None
    key = outline(structure), tuple(keys), backend
    return Signature(args, kwargs, leaves, structure, key)


def leaf_key(x: Any) -> Any:
    """Return what equal leaves have in common; raise TypeError for unknown classes."""
    if type(x) is Tensor:
        return Tensor, x.shape, x.dtype, x._alive()
    static = isinstance(x, Static)
    value = x.value if static else x
    if isinstance(value, IDENTITY):
        return Same(value)
    if isinstance(value, set | frozenset) and not static:
        return type(value), frozenset(map(leaf_key, value))
    key = look(value)
    if not isinstance(key, Same):
        return key
    by_identity: Any = type(value).__hash__
    if not static and by_identity is object.__hash__:
        raise TypeError("its objects may change unseen")
    return type(value), value, hash(value)


def outline(structure: Structure) -> Any:
    """Return the structure with the order of dicts, which the order of runs follows."""
    static = structure._static
    children = tuple([outline(child) for child in structure._children])
    return structure._class, structure._keys, structure._order, look(static), children


def argument(path: str) -> str:
    """Return the place of a leaf of ``(args, kwargs)``, for messages."""
    first, _, rest = path[4:].partition("]")
    return f"argument {first}{rest}"


def donated(sign: Signature, names: Mapping[Any, str], of: str) -> dict[int, str]:
    """Return the tensors in some arguments by their numbers, with what errors say."""
    given = [*enumerate(sign.args), *sorted(sign.kwargs.items())]
    paths = [(key, path) for key, x in given for path in split(x)[1].paths()]
    leaves = zip(paths, sign.leaves, strict=True)
    tensors = [place for place, leaf in leaves if type(leaf) is Tensor]
    return {
        n: f"donated to jit as argument {names[key]}{path} of {of}; use what the call "
        "returned, donate a copy (copy.copy(x)), or leave it out of donate="
        for n, (key, path) in enumerate(tensors)
        if key in names
    }


def difference(old: Signature, new: Signature) -> str:
    """Return the part in which a call differs from another, for messages."""
    if old.key[0] != new.key[0]:
        return f"the structure of the arguments: {old.structure!r}, {new.structure!r}"
    pairs = zip(old.key[1], new.key[1], new.structure.paths(), strict=True)
    for before, now, path in pairs:
        if before != now:
            return f"{argument(path)}: {described(before)}, {described(now)}"
    return f"the active backend: {old.key[2].name}, {new.key[2].name}"


def described(key: Any) -> str:
    """Return the key of a leaf for people."""
    if isinstance(key, Same):
        return repr(key.values[0])
    if key[0] is Tensor:
        _, shape, dtype, home = key
        return f"{named(dtype)} of shape {shape} on {home.name}"
    return f"{key[0].__name__} {key[1]}"


# --- what is captured ------------------------------------------------------------


class Place(NamedTuple):
    """Where a function finds a value: ``holder[name]``, or an attribute of ``holder``.

    Attributes:
        label: What it is, for messages.
        holder: A dict, or an object.
        name: The key, or the name of the attribute.
        value: What was there.
        look: How it looked.

    """

    label: str
    holder: Any
    name: str
    value: Any = None
    look: Any = None

    def now(self) -> Any:
        """Return what is there."""
        if isinstance(self.holder, Mapping):
            return self.holder.get(self.name, MISSING)
        try:
            return getattr(self.holder, self.name)
        except (AttributeError, ValueError):  # deleted; an empty cell
            return MISSING


class Captured:
    """All that functions read from outside.

    Attributes:
        places: Where it is.
        tensors: The tensors in it, by the ids of their arrays.

    """

    def __init__(self, roots: Iterable[Any]) -> None:
        self.places: list[Place] = []
        self.tensors: dict[int, Tensor] = {}
        self._seen: dict[Any, Any] = {}  # what is held gives its id to nothing else
        self._names, self._objects = {"__call__"}, list[Any]()
        for root in roots:
            self._search(root)
        done = (0, 0)
        while done != (done := (len(self._objects), len(self._names))):
            for found in [*self._objects]:
                for name in sorted(self._names):
                    self._attribute(found, name)

    def changed(self) -> str:
        """Return which place has another value now; an empty string if none has."""
        changed = [p.label for p in self.places if look(p.now()) != p.look]
        return changed[0] if changed else ""

    def _first(self, *key: Any) -> bool:
        """Return whether objects, and a name, are seen for the first time."""
        marks = tuple([k if isinstance(k, str) else id(k) for k in key])
        return self._seen.setdefault(marks, key) is key

    def _place(self, label: str, holder: Any, name: str) -> None:
        place = Place(label, holder, name)
        value = place.now()
        if value is not MISSING:
            self._search(value)  # which may give a tensor an array of its own
            self.places.append(place._replace(value=value, look=look(value)))

    def _search(self, value: Any) -> None:
        """Note what a value leads to."""
        data = (*PLAIN, np.ndarray, np.generic, Variable)
        if isinstance(value, data) or not self._first(value):
            return
        if isinstance(value, Tensor):
            if isinstance(value._data, np.bool_):  # True is one object
                value._data = np.array(value._data)
            self.tensors[id(value._data)] = value
        elif isinstance(value, FunctionType):
            self._function(value)
        else:
            for part in _parts(value):
                self._search(part)
            if _is_searched(value):
                self._objects.append(value)

    def _function(self, function: FunctionType) -> None:
        code, name = function.__code__, function.__name__
        outside = function.__globals__
        if outside.get("__name__", "").partition(".")[0] == "plugrad":
            # Ours: what it holds does not change, but may be the user's.
            for cell in function.__closure__ or ():
                self._search(Place("", cell, "cell_contents").now())
            self._search((function.__defaults__, function.__kwdefaults__))
            return
        self._names |= (names := _names(code))
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        for free, cell in cells:
            if self._first(cell):
                self._place(f"{free!r} of {name}", cell, "cell_contents")
        for defaults in ("__defaults__", "__kwdefaults__"):
            if getattr(function, defaults):
                self._place(f"a default of {name}", function, defaults)
        if _is_followed(outside.get("__name__", ""), code.co_filename):
            for read in sorted(names & outside.keys()):
                if self._first(outside, read):
                    self._place(f"the global {read!r}", outside, read)

    def _attribute(self, of: Any, name: str) -> None:
        if not self._first(of, name):
            return
        label = f"attribute {name!r} of {getattr(of, '__name__', type(of).__name__)}"
        if name in getattr(of, "__dict__", {}):
            self._place(label, vars(of), name)
            return
        for cls in filter(_is_searched, type(of).__mro__):
            if isinstance(vars(cls).get(name), MemberDescriptorType):
                self._place(label, of, name)
            elif name in vars(cls) and self._first(cls, name):
                self._place(f"{name!r} of class {cls.__name__}", vars(cls), name)


PARTS: dict[type, tuple[str, ...]] = {
    MethodType: ("__func__", "__self__"),
    functools.partial: ("func", "args", "keywords"),
    **dict.fromkeys((staticmethod, classmethod), ("__func__",)),
    property: ("fget",),
}


def _parts(value: Any) -> Iterable[Any]:
    """Return what is inside of a container or a callable."""
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, list | tuple | set | frozenset):
        return value
    if "__wrapped__" in getattr(value, "__dict__", {}):
        return (value.__wrapped__,)
    return [getattr(value, name) for name in PARTS.get(type(value), ())]


def _names(code: CodeType) -> set[str]:
    """Return the names in a code object, and in those of the functions inside it."""
    inside = [c for c in code.co_consts if isinstance(c, CodeType)]
    return {*code.co_names}.union(*map(_names, inside))


def _is_searched(value: Any) -> bool:
    """Return whether attributes of an object are looked up."""
    cls = value if isinstance(value, type) else type(value)
    module = value if isinstance(value, ModuleType) else sys.modules.get(cls.__module__)
    name = getattr(module, "__name__", "")
    return _is_followed(name, getattr(module, "__file__", None) or "")


def _is_followed(module: str, file: str) -> bool:
    installed = "site-packages" in file or "dist-packages" in file
    return module.partition(".")[0] not in OTHERS and not installed
