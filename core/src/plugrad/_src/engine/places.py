"""Places: where code reads its values, and whether these values have changed.

Contents: ``same_value``; ``Place`` and its kinds; ``Slot``, one value that each call
reads anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

PLAIN = (type(None), bool, int, float, complex, str, bytes)
MISSING: Any = object()
# The errors raised by reading a value that no longer exists.
GONE = AttributeError, ValueError, LookupError, ReferenceError, RuntimeError, TypeError

LITERAL_KEYS = str, int  # types of dict keys that generated code writes as literals
MAX_PARTS = 8  # values to compare one by one; more are compared faster as lists of ids


def is_value(x: Any) -> bool:
    """Return whether ``x`` is compared by value rather than by identity.

    A container is compared by value if all of its items are.
    """
    kind = type(x)
    if kind in (tuple, frozenset, list, set):
        return all(map(is_value, x))
    if kind is dict:
        return all(map(is_value, x)) and all(map(is_value, x.values()))
    if issubclass(kind, np.generic) or kind is np.ndarray:
        return not x.dtype.hasobject
    return kind in PLAIN


def exact(x: Any) -> Any:
    """Return a key that distinguishes 0.0 from -0.0 and 1 from True.

    The key of a float contains its ``repr``, so NaN equals NaN.
    """
    kind = type(x)
    if kind in (tuple, list):
        return kind, tuple(map(exact, x))
    if kind in (frozenset, set):
        return kind, frozenset(map(exact, x))
    if kind is dict:  # the order of its keys matters
        return kind, tuple([(exact(key), exact(value)) for key, value in x.items()])
    if issubclass(kind, np.generic) or kind is np.ndarray:
        return kind, x.shape, x.dtype.str, x.tobytes()
    return kind, repr(x) if kind in (float, complex) else x


def same_value(x: Any, y: Any) -> bool:
    """Return whether ``jit`` may treat ``x`` and ``y`` as the same value."""
    if x is y:
        return True
    if type(x) is not type(y):
        return False
    try:
        return is_value(x) and is_value(y) and bool(exact(x) == exact(y))
    except RecursionError:  # a container that contains itself
        return False


# --- places ----------------------------------------------------------------------


class Place:
    """Some values of an object, as they were when first read.

    Attributes:
        label: What the object is, for messages.
        holder: The object.
        names: A name for each value: an index, a key, or the name of an attribute.
        values: The values found; MISSING for a name without a value.

    """

    __slots__ = ("holder", "label", "names", "values")

    holder: Any
    label: str

    def __init__(self, label: str, holder: Any, names: Iterable[Any] = ()) -> None:
        self.label, self.holder = label, holder
        self.names: list[Any] = [*names]
        self.values: list[Any] = []

    def read(self) -> list[Any]:
        """Return the current values."""
        return []

    def expression(self, holder: str) -> str:
        """Return code that yields the values; empty if only ``read`` can do it."""
        return ""

    def parts(self, holder: str) -> list[str] | None:
        """Return code for each value.

        A few values are faster to compare one by one than as a list. Return None for
        more than ``MAX_PARTS`` values, or if their number may change.
        """
        return None

    def describe(self, index: int) -> str:
        """Describe the place of one value, for messages; -1 stands for all values."""
        return self.label

    def slot(self, index: int) -> Slot | None:
        """Return the slot of one value; None if it cannot be read alone."""
        return None

    @property
    def slots_of(self) -> Any:
        """The holder of the slots of this place."""
        return self.holder

    def remember(self) -> None:
        """Read the values."""
        self.values = self.read()

    def differing(self) -> list[int]:
        """Return the indices of changed values; [-1] if their number has changed."""
        try:
            now = self.read()
        except GONE:
            return [-1]
        if len(now) != len(self.values):
            return [-1]
        pairs = enumerate(zip(self.values, now, strict=True))
        return [index for index, (x, y) in pairs if not same_value(x, y)]

    def changed(self) -> str:
        """Describe the first changed value; return an empty string if there is none."""
        found = self.differing()
        return self.describe(found[0]) if found else ""


class Items(Place):
    """The items of a list, a set, a deque or the like."""

    __slots__ = ()

    def read(self) -> list[Any]:
        """Return all items."""
        return [*self.holder]

    def remember(self) -> None:
        """Read the items, and number them."""
        self.values = self.read()
        self.names = [*range(len(self.values))]

    def expression(self, holder: str) -> str:
        """Return code that yields the items."""
        return holder

    def describe(self, index: int) -> str:
        """Return the place of an item, for messages."""
        return (
            f"{self.label}[{index}]" if index >= 0 else f"the contents of {self.label}"
        )

    def slot(self, index: int) -> Slot | None:
        """Return the slot of an item; None for a container without indices."""
        if not issubclass(type(self.holder), list | deque):
            return None
        return Slot(self.describe(index), self.holder, index, "item")


class SomeItems(Place):
    """The length of a list and some of its items; slots read the other items."""

    __slots__ = ()

    def read(self) -> list[Any]:
        """Return the number of items, and the selected items."""
        return [len(self.holder), *[self.holder[n] for n in self.names]]

    def expression(self, holder: str) -> str:
        """Return code that yields the same values as ``read``."""
        parts = [f"len({holder})", *[f"{holder}[{n}]" for n in self.names]]
        return f"({', '.join(parts)},)"

    def describe(self, index: int) -> str:
        """Return the place of an item, for messages."""
        if index <= 0:
            return f"the length of {self.label}"
        return f"{self.label}[{self.names[index - 1]}]"

    def slot(self, index: int) -> Slot | None:
        """Return the slot of an item; None for the length."""
        if index <= 0:
            return None
        return Slot(self.describe(index), self.holder, self.names[index - 1], "item")


class Entries(Place):
    """Values of a dict by their keys.

    Attributes:
        owner: The object whose attributes the dict contains, or the dict itself.
        whole: Whether the keys of the dict are compared as well; they come first.
        absent: Names that the dict must not have, because code reads them elsewhere.
        form: The format of the label and the name of a value in messages.

    """

    __slots__ = ("absent", "form", "owner", "whole")

    absent: frozenset[str]
    form: str
    owner: Any
    whole: bool

    def __init__(
        self,
        label: str,
        holder: Any,
        names: Iterable[Any],
        *,
        owner: Any = None,
        whole: bool = False,
        absent: frozenset[str] = frozenset(),
        form: str = "{}.{}",
    ) -> None:
        super().__init__(label, holder, names)
        self.owner = holder if owner is None else owner
        self.whole = whole
        self.absent = absent
        self.form = form

    @property
    def slots_of(self) -> Any:
        """The dict; for a class, the class itself.

        The ``__dict__`` of a class is a new object at each access.
        """
        return self.owner if issubclass(type(self.owner), type) else self.holder

    @property
    def _key_count(self) -> int:
        """The number of values that are keys."""
        return len(self.values) - len(self.names)

    def read(self) -> list[Any]:
        """Return the keys, if they are compared, and the values."""
        keys = [*self.holder] if self.whole else []
        return keys + [self.holder.get(name, MISSING) for name in self.names]

    def expression(self, holder: str) -> str:
        """Return code that yields the same values as ``read``."""
        if self.whole and len(self.names) == len(self.holder):
            return f"(*{holder}, *{holder}.values())"
        if not all(type(name) in LITERAL_KEYS for name in self.names):
            return ""
        parts = [f"*{holder}"] if self.whole else []
        parts += [f"{holder}.get({name!r}, MISSING)" for name in self.names]
        return f"({', '.join(parts)},)" if parts else "()"

    def parts(self, holder: str) -> list[str] | None:
        """Return code for each value; None if the keys are compared as well."""
        if self.whole or len(self.names) > MAX_PARTS:
            return None
        return [f"{holder}.get({name!r}, MISSING)" for name in self.names]

    def differing(self) -> list[int]:
        """Return the indices of changed values; [-1] if the keys have changed."""
        if not self.absent.isdisjoint(self.holder):
            return [-1]
        return super().differing()

    def describe(self, index: int) -> str:
        """Return the place of a value, for messages."""
        if index < self._key_count:
            return f"the contents of {self.label}"
        return self.form.format(self.label, self.names[index - self._key_count])

    def slot(self, index: int) -> Slot | None:
        """Return the slot of a value; None if it is a key."""
        if (
            index < self._key_count
            or type(name := self.names[index - self._key_count]) not in LITERAL_KEYS
        ):
            return None
        how = "class" if issubclass(type(self.owner), type) else "entry"
        return Slot(self.describe(index), self.slots_of, name, how)


class Attributes(Place):
    """Attributes that are not in a dict: those of cells and functions, and slots.

    Attributes:
        form: The format of the label and the name of a value in messages.

    """

    __slots__ = ("form",)

    form: str

    def __init__(
        self, label: str, holder: Any, names: Iterable[str], form: str = "{}.{}"
    ) -> None:
        super().__init__(label, holder, names)
        self.form = form

    def read(self) -> list[Any]:
        """Return the attributes."""
        return [attribute_of(self.holder, name) for name in self.names]

    def expression(self, holder: str) -> str:
        """Return code for the attributes; empty if one is missing."""
        if any(x is MISSING for x in self.values):
            return ""
        return f"({', '.join(f'{holder}.{name}' for name in self.names)},)"

    def parts(self, holder: str) -> list[str] | None:
        """Return code for each attribute."""
        if len(self.names) > MAX_PARTS:
            return None
        return [f"{holder}.{name}" for name in self.names]

    def describe(self, index: int) -> str:
        """Return the place of an attribute, for messages."""
        return self.form.format(self.label, self.names[index])

    def slot(self, index: int) -> Slot | None:
        """Return the slot of an attribute."""
        return Slot(self.describe(index), self.holder, self.names[index], "attribute")


def attribute_of(holder: Any, name: str) -> Any:
    """Return an attribute; MISSING if there is none, as in an empty cell."""
    try:
        return getattr(holder, name)
    except GONE:
        return MISSING


class Computed(Place):
    """The result of a function of the object, such as its class or its state.

    Attributes:
        get: The function; it returns a tuple.
        code: Code that yields the tuple.
        fixed: Whether the code is a tuple display such as ``(type({0}), {0}.x)``.

    """

    __slots__ = ("code", "fixed", "get")

    code: str
    fixed: bool

    def __init__(
        self,
        label: str,
        holder: Any,
        get: Callable[[Any], Any],
        code: str,
        *,
        fixed: bool = False,
    ) -> None:
        super().__init__(label, holder)
        self.get = get
        self.code = code
        self.fixed = fixed

    def read(self) -> list[Any]:
        """Return the entries of the tuple that the function returns."""
        return [*self.get(self.holder)]

    def expression(self, holder: str) -> str:
        """Return code that yields the same values as ``read``."""
        return self.code.format(holder)

    def parts(self, holder: str) -> list[str] | None:
        """Return code for each value if the code is a tuple display."""
        if not self.fixed:
            return None
        return [part.format(holder) for part in self.code[1:-1].split(", ") if part]


class Content(Place):
    """The bytes of an array, or of another object with a buffer."""

    __slots__ = ()

    def read(self) -> list[Any]:
        """Return the bytes; for an array, its shape and dtype come first."""
        if issubclass(type(self.holder), np.ndarray):
            header = str(self.holder.shape), self.holder.dtype.str
            return [*header, self.holder.tobytes()]
        return [bytes(memoryview(self.holder).cast("B"))]

    def expression(self, holder: str) -> str:
        """Return an empty string, because the bytes are a new object each time."""
        return ""


class Same:
    """A key that is equal only for the same objects in the same order."""

    __slots__ = ("ids", "values")

    ids: tuple[int, ...]
    values: tuple[object, ...]

    def __init__(self, *values: object) -> None:
        self.values, self.ids = values, (*map(id, values),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.ids == self.ids

    def __hash__(self) -> int:
        return hash(self.ids)


class Slot:
    """One value of a place, which each call reads anew.

    Attributes:
        label: The place of the value, for messages.
        holder: The object that has the value.
        name: The index, the key, or the name of the attribute.

    """

    __slots__ = ("_code", "_get", "holder", "label", "name")

    holder: Any
    label: str
    name: Any

    def __init__(self, label: str, holder: Any, name: Any, how: str) -> None:
        self.label = label
        self.holder = holder
        self.name = name
        self._code, self._get = _ACCESS[how]

    @property
    def key(self) -> tuple[int, Any]:
        """A key that identifies the slot as long as its holder exists."""
        return id(self.holder), self.name

    def expression(self, holder: str) -> str:
        """Return code that reads the value."""
        return self._code.format(holder, self.name)

    def read(self) -> Any:
        """Return the value; MISSING if there is none."""
        try:
            return self._get(self.holder, self.name)
        except GONE:
            return MISSING


_ACCESS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "item": ("{}[{!r}]", lambda holder, index: holder[index]),
    "entry": ("{}.get({!r})", lambda holder, key: holder.get(key, MISSING)),
    "attribute": ("{}.{}", getattr),
    "class": (
        "{}.__dict__.get({!r})",
        lambda cls, name: vars(cls).get(name, MISSING),
    ),
    "tensor": ("{0}", lambda tensor, _: tensor),
}
