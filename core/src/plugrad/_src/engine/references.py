"""References of a function: the values that it reads, other than its arguments.

``jit`` compares them before each replay, and ``grad`` looks for its argument among
them. The search starts from some objects and from the code that runs. It follows

- functions to their code, closure, defaults, attributes, and the globals, modules and
  attributes of modules that the code names;
- containers to their items;
- objects of any class to the attributes that the code names: in the instance, in slots
  and in the classes that they inherit from. If a class defines ``__jit_state__``, that
  method lists what calls read;
- objects of C types to the objects that they refer to (methods, partials, views of
  dicts, caches).

It does not look into the standard library, NumPy and plugrad. Classes of plugrad that
contain objects of the user (jitted functions, scopes, gradients) list these objects in
``__jit_state__`` as well.

This is the only search for values. ``code.code_of`` also walks over functions, but to
find code: for a function that has not run, it estimates the code that a call would run,
which is then passed as ``ran``. ``tracing.difference`` compares the closures of two
given functions, and does not search.

Contents: ``References``; functions that inspect objects.
"""

from __future__ import annotations

import functools
import gc
import operator
import random
import sys
import threading
import types
import weakref
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping
from contextvars import ContextVar
from typing import Any

import numpy as np

from plugrad._src.tensor.tensor import Tensor

from .code import (
    TRUSTED,
    CodeWithGlobals,
    imported_modules,
    is_trusted_class,
    joined_names,
    module_of,
    names_in,
    package_of,
)
from .places import (
    GONE,
    MISSING,
    PLAIN,
    Attributes,
    Computed,
    Content,
    Entries,
    Items,
    Place,
    SomeItems,
    is_value,
)
from .special import (
    BOOKKEEPING,
    CLASS_ATTRIBUTES,
    FUNCTION_ATTRIBUTES,
    IMMUTABLE_TYPE,
    OPAQUE,
    SPECIAL_METHODS,
)

CONTAINERS = dict, list, tuple, set, frozenset
MAX_COMPARED_VALUES = 10_000  # comparing more takes longer than a replay saves
PROTOCOL = "__jit_state__"


class InvalidState(TypeError):
    """``__jit_state__`` has returned something other than a tuple."""


class References:
    """All places from which code reads values, other than its arguments.

    Args:
        roots: The function, and other objects that the code reads.
        ran: The code that runs, with its globals.
        varying: The keys of slots that each call reads anew: they are not compared.
        frozen: Packages whose modules, functions, classes and objects are not
            searched.

    Attributes:
        places: The places to compare.
        tensors: The tensors in them, by the ids of their arrays.
        reason: Why the places cannot be compared; empty if they can.
        met: The keys of the slots that code may read.
        sets_hooks: Whether the code may start a debugger or a profiler.

    """

    reason: str
    sets_hooks: bool

    def __init__(
        self,
        roots: Iterable[Any],
        ran: CodeWithGlobals,
        varying: Collection[tuple[int, Any]] = (),
        frozen: Collection[str] = (),
    ) -> None:
        self.places: list[Place] = []
        self.tensors: dict[int, list[Tensor]] = {}
        self.reason = ""
        self.sets_hooks = False
        self.met: set[tuple[int, Any]] = set()
        self._varying = frozenset(varying)
        self._varying_holders = frozenset([holder for holder, _ in varying])
        self._frozen = frozenset(frozen)
        ran = [(code, g) for code, g in ran if not self._is_frozen(g.get("__name__"))]
        self._ran = {id(code) for code, _ in ran}
        self._names = joined_names(ran)
        roots = [*roots]
        known = -1
        while known != len(self._names.attributes):  # values may also add names
            known = len(self._names.attributes)
            self._search(roots, ran)
        self._seen.clear()

    def _search(self, roots: Iterable[Any], ran: CodeWithGlobals) -> None:
        self.places.clear()
        self.tensors.clear()
        self._count = 0
        self._seen: dict[int, Any] = {}  # keeping objects alive keeps their ids unique
        self._globals_seen: dict[int, set[str]] = {}
        self._modules_seen: set[str] = set()
        self._waiting = [(_name_of(x), x) for x in roots]
        for code, code_globals in ran:
            self._globals(code, code_globals)
        while self._waiting and not self.reason:
            label, value = self._waiting.pop()
            if type(value) not in PLAIN and id(value) not in self._seen:
                self._seen[id(value)] = value
                self._try_to_visit(label, value)
        if self.reason:
            self.places.clear()

    def _is_frozen(self, module: object) -> bool:
        """Return whether a module belongs to a package that is not searched."""
        return bool(self._frozen) and package_of(str(module)) in self._frozen

    def _try_to_visit(self, label: str, value: Any) -> None:
        """Follow the references of a value; if its class raises, set ``reason``."""
        try:
            if not self._frozen or not self._is_frozen(module_of(value)):
                self._visit(label, value)
        except InvalidState:
            raise
        except Exception as error:
            self.reason = f"{label} cannot be read: {type(error).__name__}: {error}"

    def changed(self) -> str:
        """Describe the first changed value; return an empty string if there is none."""
        for place in self.places:
            if found := place.changed():
                return found
        return ""

    # --- what is noted -----------------------------------------------------------

    def _note(self, place: Place, follow: bool = True) -> None:
        """Add a place to compare, and follow the values in it."""
        try:
            place.remember()
        except GONE:
            return  # the place changed while it was read
        if id(place.slots_of) in self._varying_holders:
            place = self._without_varying(place)
            if isinstance(place, Attributes) and not place.names:
                return
        if self._names.has_dynamic_lookups:
            named = [x for x in place.values if type(x) is str and x in sys.modules]
            self._modules(named)
        self.places.append(place)
        self._count += len(place.values)
        if self._count > MAX_COMPARED_VALUES:
            self.reason = (
                f"{place.label} leads to more than {MAX_COMPARED_VALUES:,} values"
            )
        if follow:
            values = enumerate(place.values)
            self._waiting += [
                (place.describe(index), x)
                for index, x in values
                if type(x) not in PLAIN
            ]

    def _without_varying(self, place: Place) -> Place:
        """Return a place without the slots that each call reads anew."""
        slots = [place.slot(index) for index in range(len(place.values))]
        kept = [s is None or s.key not in self._varying for s in slots]
        if all(kept):
            return place
        self.met.update(slot.key for slot in slots if slot is not None)
        if isinstance(place, Items):
            names = [n for n, is_kept in zip(place.names, kept, strict=True) if is_kept]
            place = SomeItems(place.label, place.holder, names)
        else:
            first = len(place.values) - len(place.names)
            place.names = [
                n for n, k in zip(place.names, kept[first:], strict=True) if k
            ]
        place.remember()
        return place

    def _attributes(
        self, label: str, namespace: Mapping[Any, Any], owner: Any = None
    ) -> None:
        """Compare those attributes in a dict that code reads, and note absent ones."""
        cls = type(owner)
        names = self._selected(namespace, special=issubclass(type(owner), type))
        if fields := getattr(cls, "__dataclass_fields__", None):
            names += [n for n in namespace if n in fields and n not in names]
        whole = self._names.any_attribute
        wanted = self._names.attributes
        if issubclass(type(owner), type):
            wanted = wanted | SPECIAL_METHODS
        absent = frozenset() if whole else wanted - namespace.keys()
        place = Entries(
            label, namespace, names, owner=owner, whole=whole, absent=absent
        )
        self._note(place)

    def _selected(
        self, namespace: Mapping[Any, Any], special: bool = False
    ) -> list[str]:
        """Return those names in a dict of attributes that code may read."""
        wanted = self._names.attributes
        return [
            n
            for n in namespace
            if n in wanted
            or (
                n not in BOOKKEEPING
                and (self._names.any_attribute or (special and n[:2] == "__"))
            )
        ]

    def _named(self, label: str, value: Any, names: Iterable[str]) -> None:
        """Compare attributes that are not in a dict, given their names."""
        found = [name for name in names if name in self._names.attributes]
        if found:
            self._note(Attributes(label, value, found), follow=False)

    # --- code --------------------------------------------------------------------

    def _globals(self, code: types.CodeType, code_globals: dict[str, Any]) -> None:
        """Compare the globals that code reads, and the modules that it imports."""
        module = str(code_globals.get("__name__", ""))
        if package_of(module) in TRUSTED:
            return
        names = names_in(code)
        known = self._globals_seen.setdefault(id(code_globals), set())
        new = sorted(names.globals - known)
        known.update(new)
        if new:
            self._note(Entries("", code_globals, new, form="the global {1!r}"))
        if names.modules:
            found = imported_modules(
                names.modules, str(code_globals.get("__package__") or module)
            )
            self._modules(found)

    def _modules(self, names: Iterable[str]) -> None:
        """Compare the modules that are imported under these names."""
        new = [n for n in names if n not in self._modules_seen]
        self._modules_seen.update(new)
        if new:
            self._note(Entries("", sys.modules, new, form="the module {1!r}"))

    def _visit(self, label: str, value: Any) -> None:
        """Follow the references of a value."""
        kind = type(value)
        if kind is Tensor:
            self.tensors.setdefault(id(value._data), []).append(value)
        elif issubclass(kind, types.FunctionType):
            self._function(label, value)
        elif issubclass(kind, type):
            self._class(value)
        elif issubclass(kind, types.ModuleType):
            self._module(value)
        elif package_of(str(kind.__module__)) == "plugrad":
            self._of_plugrad(label, value)
        else:
            self._object(label, value)

    def _function(self, label: str, function: types.FunctionType) -> None:
        """Compare a function that runs; if it is trusted, only follow references."""
        name = function.__name__
        trusted = package_of(str(function.__globals__.get("__name__", ""))) in TRUSTED
        if function.__dict__ or self._names.any_attribute:
            self._attributes(name, function.__dict__, function)
            self._waiting.append((name, function.__dict__.get("__wrapped__")))
        self._named(name, function, FUNCTION_ATTRIBUTES)
        if not trusted and id(function.__code__) not in self._ran:
            return  # code reads this function, but does not run it
        cells = zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        )
        for free, cell in cells:
            place = Attributes("", cell, ["cell_contents"], f"{free!r} of {name}")
            if trusted:  # the cell does not change, but its value may be the user's
                self._waiting += [(place.describe(0), x) for x in place.read()]
            elif id(cell) not in self._seen:
                self._seen[id(cell)] = cell
                self._note(place)
        if trusted:
            defaults = [*(function.__defaults__ or ())]
            defaults += (function.__kwdefaults__ or {}).values()
            self._waiting += [(f"a default of {name}", x) for x in defaults]
            return
        self._note(Attributes(name, function, ["__code__"], "the code of {}"), False)
        slots = ["__defaults__", "__kwdefaults__"]
        self._note(Attributes(name, function, slots, "a default of {}"))

    def _class(self, cls: type) -> None:
        """Compare the bases of a class, and those of its attributes that code reads."""
        if cls.__flags__ & IMMUTABLE_TYPE or is_trusted_class(cls):
            return
        label = f"class {cls.__name__}"
        self._note(Attributes(label, cls, ["__mro__"], "the bases of {}"))
        self._attributes(label, vars(cls), cls)
        self._named(label, cls, CLASS_ATTRIBUTES)
        self._waiting.append((f"the metaclass of {label}", type(cls)))

    def _module(self, module: types.ModuleType) -> None:
        """Compare those attributes of a module that code names."""
        if package_of(module.__name__) in TRUSTED:
            return
        namespace = vars(module)
        wanted = self._names.attributes
        names = [n for n in namespace if n in wanted]
        if self._names.any_attribute:  # values and tensors, not every imported object
            others = [n for n in namespace if n not in wanted and n not in BOOKKEEPING]
            names += [
                n for n in others if is_value(namespace[n]) or _is_tensor(namespace[n])
            ]
        absent: frozenset[str] = frozenset()
        if "__getattr__" in namespace:
            names.append("__getattr__")
            absent = self._names.attributes - namespace.keys()
        form = "attribute {1!r} of {0}"
        place = Entries(module.__name__, namespace, names, absent=absent, form=form)
        self._note(place)

    def _of_plugrad(self, label: str, value: Any) -> None:
        """Follow a plugrad object to the objects that the user put into it.

        Its own attributes are not compared: those that a call reads do not change.
        """
        state = getattr(type(value), PROTOCOL, None)
        if state is not None:
            self._waiting += [(label, x) for x in state(value)]

    # --- objects -----------------------------------------------------------------

    def _object(self, label: str, value: Any) -> None:
        """Compare the items of a container, and the attributes of an object."""
        cls = type(value)
        if cls in CONTAINERS:  # these types have no instance attributes
            self._container(label, value)
            return
        is_fixed = bool(cls.__flags__ & IMMUTABLE_TYPE)
        namespace = _dict_of(value)
        if not is_fixed:
            self._identity(label, value, namespace)
            if any(PROTOCOL in vars(base) for base in cls.__mro__):
                self._state(label, value)
                return
        if not self._container(label, value) and is_fixed:
            self._c_object(label, value)
        if namespace is not None:
            self._attributes(label, namespace, value)
        for base in cls.__mro__:
            slots = [n for n in self._selected(vars(base)) if _is_slot(vars(base)[n])]
            if slots and package_of(base.__module__) not in TRUSTED:
                self._note(Attributes(label, value, slots))

    def _identity(
        self, label: str, value: Any, namespace: dict[str, Any] | None
    ) -> None:
        """Compare the class of an object, and the identity of its attribute dict."""
        class_label = f"the class of {label}"
        code = "(type({0}))" if namespace is None else "(type({0}), {0}.__dict__)"
        get = _class_of if namespace is None else _class_and_dict_of
        place = Computed(class_label, value, get, code, fixed=True)
        self._note(place, follow=False)
        self._waiting.append((class_label, type(value)))

    def _state(self, label: str, value: Any) -> None:
        """Compare the values that ``__jit_state__`` of an object returns."""
        state = getattr(value, PROTOCOL)()
        if type(state) is not tuple:
            raise InvalidState(
                f"jit: {PROTOCOL} of {type(value).__name__} must return a tuple of "
                f"the values that calls read, got {type(state).__name__}"
            )
        get = lambda holder: getattr(holder, PROTOCOL)()
        self._note(Computed(f"the state of {label}", value, get, f"{{}}.{PROTOCOL}()"))

    def _container(self, label: str, value: Any) -> bool:
        """Compare the items of a container; return whether it is one."""
        cls = type(value)
        if issubclass(cls, tuple | frozenset):  # immutable
            items = enumerate(value)
            self._waiting += [
                (f"{label}[{n}]", x) for n, x in items if type(x) not in PLAIN
            ]
        elif issubclass(cls, dict):
            place = Entries(label, value, [*value], whole=True, form="{}[{!r}]")
            self._note(place)
            if issubclass(cls, defaultdict):
                factory = Attributes(label, value, ["default_factory"])
                self._note(factory)
        elif issubclass(cls, list | set | deque):
            self._note(Items(label, value))
        elif issubclass(cls, np.ndarray) and value.dtype.hasobject:
            get = lambda array: array.ravel().tolist()
            self._note(Computed(label, value, get, "{}.ravel().tolist()"))
        elif issubclass(cls, np.ndarray) or _has_buffer(value):
            self._note(Content(label, value))
        elif issubclass(cls, functools.partial):
            self._note(Attributes(label, value, ["func", "args", "keywords"]))
        elif issubclass(cls, random.Random) and cls is not random.SystemRandom:
            get = lambda source: (source.getstate(),)
            self._note(Computed(label, value, get, "({}.getstate(),)"))
        elif issubclass(cls, weakref.ref):
            if not isinstance(value(), type | None):
                self.reason = (
                    f"{label} is a weak reference, whose object jit would keep alive"
                )
        elif issubclass(cls, ContextVar):
            get = lambda var: (var.get(MISSING),)
            self._note(Computed(label, value, get, "({}.get(MISSING),)"))
        else:
            return False
        return True

    def _c_object(self, label: str, value: Any) -> None:
        """Follow the references of an object of a C type, such as a method."""
        if issubclass(type(value), OPAQUE):
            return
        if value is sys.settrace or value is sys.setprofile:
            self.sets_hooks = True
        if type(value) in (operator.attrgetter, operator.methodcaller):
            names = value.__reduce__()[1] if type(value) is operator.attrgetter else ()
            names = names or value.__reduce__()[1][:1]
            parts = [part for name in names for part in str(name).split(".")]
            wanted = self._names.attributes.union(parts)
            self._names = self._names._replace(attributes=wanted)
        for found in gc.get_referents(value):
            if not issubclass(type(found), type | types.ModuleType):
                self._waiting.append((label, found))


def _name_of(root: Any) -> str:
    if issubclass(type(root), types.FunctionType):
        return root.__qualname__
    if issubclass(type(root), types.MethodType):
        root = root.__self__
    return type(root).__name__


def _class_of(value: Any) -> tuple[Any, ...]:
    return (type(value),)


def _class_and_dict_of(value: Any) -> tuple[Any, ...]:
    return type(value), _dict_of(value)


def _dict_of(value: Any) -> dict[str, Any] | None:
    """Return the attribute dict of an object, without running code of its class."""
    if issubclass(type(value), threading.local):
        namespace: dict[str, Any] = vars(value)
        return namespace
    try:
        found: Any = object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        return None
    return found if issubclass(type(found), dict) else None


def _is_tensor(value: Any) -> bool:
    return type(value) is Tensor


def _is_slot(value: Any) -> bool:
    return issubclass(type(value), types.MemberDescriptorType)


def _has_buffer(value: Any) -> bool:
    if issubclass(type(value), str | bytes):
        return False
    try:
        memoryview(value)
    except (TypeError, ValueError, BufferError):
        return False
    return True
