"""Trees: nested containers, taken apart into leaves and rebuilt from other leaves.

A container is a dict, list, tuple, namedtuple or dataclass, an object of a registered
class, or None, which is empty. Everything else is a leaf. ``plugrad.tree`` has the
public functions.

Contents: ``flatten`` to tensors, for gradients; ``split``; ``Structure``; the kinds of
containers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from .tensor import Tensor

Build = Callable[[Any], Any]
IsLeaf = Callable[[Any], bool] | None


def flatten(tree: Any, leaf: Callable[[Any], Tensor]) -> tuple[list[Tensor], Build]:
    """Return the leaves as tensors, and a function that rebuilds the tree from leaves.

    ``leaf`` turns a leaf that is not a tensor into one.
    """
    if isinstance(tree, Tensor):
        return [tree], _only
    if type(tree) is tuple and all([type(x) is Tensor for x in tree]):
        return list(tree), tuple
    leaves, structure = split(tree)
    return [x if isinstance(x, Tensor) else leaf(x) for x in leaves], structure


def _only(leaves: list[Any]) -> Any:
    return leaves[0]


def split(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], Structure]:
    """Return the leaves as they are, and the structure."""
    leaves: list[Any] = []
    return leaves, _split(tree, leaves, is_leaf)


def _split(tree: Any, leaves: list[Any], is_leaf: IsLeaf) -> Structure:
    """Append the leaves to ``leaves``; return the structure."""
    kind = None if is_leaf is not None and is_leaf(tree) else kind_of(tree)
    if kind is None:
        leaves.append(tree)
        return LEAF
    parts = kind.split(tree)
    before = len(leaves)
    children = []
    for child in parts[1]:
        if type(child) is Tensor:
            leaves.append(child)
            children.append(LEAF)
        else:
            children.append(_split(child, leaves, is_leaf))
    return Structure(kind, type(tree), parts, children, len(leaves) - before)


# --- structures ------------------------------------------------------------------


class Structure:
    """The containers of a tree, without its leaves.

    Two structures are equal if they have the same classes, keys and static data. The
    order of the keys of a dict does not matter.

    Attributes:
        num_leaves: The number of leaves.

    Example:
        >>> structure = pg.tree.structure({"w": 1.0, "b": (2.0, None)})
        >>> structure, structure.num_leaves
        (Structure({'b': (*, None), 'w': *}), 2)

    """

    __slots__ = (
        "_children",
        "_class",
        "_keys",
        "_kind",
        "_order",
        "_static",
        "num_leaves",
    )

    def __init__(
        self,
        kind: type[Kind] | None,
        cls: Any,
        parts: Parts,
        children: list[Structure],
        num_leaves: int,
    ) -> None:
        self._kind = kind
        self._class = cls
        self._children = children
        self._keys, _, self._static, self._order = parts
        self.num_leaves: int = num_leaves

    def __call__(self, leaves: Iterable[Any]) -> Any:
        """Return the tree with these leaves."""
        given = list(leaves)
        if len(given) != self.num_leaves:
            raise ValueError(
                f"tree.unflatten: {self!r} has {self.num_leaves} leaves, got "
                f"{len(given)}; pass one for each *"
            )
        return self._build(iter(given))

    def _build(self, leaves: Iterator[Any]) -> Any:
        if self._kind is None:
            return next(leaves)
        children = [
            next(leaves) if child is LEAF else child._build(leaves)
            for child in self._children
        ]
        return self._kind.build(self, children)

    def paths(self) -> list[str]:
        """Return the path of each leaf, such as ``['layers'][1].bias``."""
        if self._kind is None:
            return [""]
        return [
            self._kind.step(key) + path
            for key, child in zip(self._keys, self._children, strict=True)
            for path in child.paths()
        ]

    def match(self, tree: Any, what: str, *, none_fills: bool = False) -> list[Any]:
        """Return the part of ``tree`` at the position of each leaf.

        A list or tuple fits any sequence of the same length, and a dict any dict with
        the same keys. With ``none_fills``, None fits any container, and all parts in
        its place are None.

        Raises:
            ValueError: The containers differ. The message begins with ``what``.

        """
        found: list[Any] = []
        if (path := self._match(tree, found, none_fills)) is not None:
            place, expected, got = path
            at = f" at {place}" if place else ""
            raise ValueError(f"{what}{at}: expected {expected}, got {got}")
        return found

    def _match(
        self, tree: Any, found: list[Any], none_fills: bool
    ) -> tuple[str, str, str] | None:
        """Append the part of ``tree`` at the position of each leaf to ``found``.

        Return None, or the first difference: its path, the expected part, and the
        actual one.
        """
        kind = self._kind
        if kind is None:
            found.append(tree)
            return None
        if tree is None and none_fills:
            found += [None] * self.num_leaves
            return None
        parts = kind.match(self, tree)
        if parts is None:
            expected = kind.describe(self._class, self._keys, self._static)
            return "", expected, describe(tree)
        for key, child, part in zip(self._keys, self._children, parts, strict=True):
            if differs := child._match(part, found, none_fills):
                path, expected, got = differs
                return kind.step(key) + path, expected, got
        return None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Structure):
            return NotImplemented
        return (
            self._class is other._class
            and self._keys == other._keys
            and bool(self._static == other._static)
            and self._children == other._children
        )

    def __hash__(self) -> int:
        return hash((self._class, self._keys, *self._children))

    def __repr__(self) -> str:
        return f"Structure({self._text()})"

    def _text(self) -> str:
        if self._kind is None:
            return "*"
        texts = [child._text() for child in self._children]
        return self._kind.text(self._class, self._keys, texts)


def describe(tree: Any) -> str:
    """Describe ``tree`` without its contents, for messages."""
    kind = kind_of(tree)
    if kind is None:
        return type(tree).__name__
    keys, _, static, _ = kind.split(tree)
    return kind.describe(type(tree), keys, static)


# --- kinds of containers ---------------------------------------------------------

Flatten = Callable[[Any], tuple[Iterable[Any], Any]]
Unflatten = Callable[[Any, tuple[Any, ...]], Any]
SORTED = (str, int, float, bytes)  # a dict with keys of one such type is sorted

Keys = tuple[Any, ...]
# The parts of a container: the keys of its children, in the order of the leaves; the
# children; static data that is compared, or None; the keys of a dict in its own order.
Parts = tuple[Keys, Sequence[Any], Any, Keys]


class Kind:
    """One kind of container."""

    @staticmethod
    def step(key: Any) -> str:
        """Return the step from the container to a child in a path."""
        return f"[{key!r}]"

    @staticmethod
    def split(tree: Any) -> Parts:
        """Return the parts of a container."""
        raise NotImplementedError

    @staticmethod
    def build(layout: Structure, children: list[Any]) -> Any:
        """Return a container like that of ``layout``, with these children."""
        raise NotImplementedError

    @classmethod
    def match(kind, layout: Structure, tree: Any) -> Sequence[Any] | None:
        """Return the children of ``tree``, in order; None if it does not fit."""
        if type(tree) is not layout._class:
            return None
        keys, children, static, _ = kind.split(tree)
        return children if keys == layout._keys and static == layout._static else None

    @classmethod
    def describe(kind, cls: type, keys: Keys, static: Any) -> str:
        """Describe the container without its children, for messages."""
        return cls.__name__

    @classmethod
    def text(kind, cls: type, keys: Keys, texts: list[str]) -> str:
        """Return the container as text, given the texts of its children."""
        fields = [f"{k}={text}" for k, text in zip(keys, texts, strict=True)]
        return f"{cls.__name__}({', '.join(fields)})"


class _Nothing(Kind):
    """The container None, which is empty."""

    @staticmethod
    def split(tree: Any) -> Parts:
        return (), (), None, ()

    @staticmethod
    def build(layout: Structure, children: list[Any]) -> Any:
        return None

    @classmethod
    def describe(kind, cls: type, keys: Keys, static: Any) -> str:
        return "None"

    @classmethod
    def text(kind, cls: type, keys: Keys, texts: list[str]) -> str:
        return "None"


class _Dict(Kind):
    """Dicts; rebuilt with their class and their order, without calling the class."""

    @staticmethod
    def split(tree: Any) -> Parts:
        keys = order = tuple(tree)
        if len(kinds := set(map(type, order))) == 1 and kinds.issubset(SORTED):
            keys = tuple(sorted(order))
        factory = tree.default_factory if isinstance(tree, defaultdict) else None
        return keys, [tree[key] for key in keys], factory, order

    @staticmethod
    def build(layout: Structure, children: list[Any]) -> Any:
        values = dict(zip(layout._keys, children, strict=True))
        cls = layout._class
        if cls is dict:
            same = layout._order == layout._keys
            return values if same else {key: values[key] for key in layout._order}
        made = cls.__new__(cls)
        if isinstance(made, defaultdict):
            made.default_factory = layout._static
        for key in layout._order:
            made[key] = values[key]
        return made

    @classmethod
    def match(kind, layout: Structure, tree: Any) -> Sequence[Any] | None:
        if kind_of(tree) is not kind or tree.keys() != set(layout._keys):
            return None
        return [tree[key] for key in layout._keys]

    @classmethod
    def describe(kind, cls: type, keys: Keys, static: Any) -> str:
        listed = ", ".join(map(repr, keys))
        return f"{cls.__name__} with keys {listed}" if keys else f"empty {cls.__name__}"

    @classmethod
    def text(kind, cls: type, keys: Keys, texts: list[str]) -> str:
        items = [f"{k!r}: {text}" for k, text in zip(keys, texts, strict=True)]
        inside = f"{{{', '.join(items)}}}"
        return inside if cls is dict else f"{cls.__name__}({inside})"


class _Ordered(Kind):
    """Lists and tuples."""

    @staticmethod
    def split(tree: Any) -> Parts:
        return tuple(range(len(tree))), tree, None, ()

    @staticmethod
    def build(layout: Structure, children: list[Any]) -> Any:
        return layout._class(children)

    @classmethod
    def match(kind, layout: Structure, tree: Any) -> Sequence[Any] | None:
        fits = type(tree) is layout._class or kind_of(tree) is _Ordered
        return tree if fits and len(tree) == len(layout._keys) else None

    @classmethod
    def describe(kind, cls: type, keys: Keys, static: Any) -> str:
        return f"{cls.__name__} of {len(keys)}"

    @classmethod
    def text(kind, cls: type, keys: Keys, texts: list[str]) -> str:
        if cls is tuple:
            return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"
        inside = f"[{', '.join(texts)}]"
        return inside if cls is list else f"{cls.__name__}({inside})"


class _Named(_Ordered):
    """Namedtuples; a list or tuple of the same length matches as well."""

    describe, text = Kind.describe, Kind.text

    @staticmethod
    def step(key: Any) -> str:
        return f".{key}"

    @staticmethod
    def split(tree: Any) -> Parts:
        return tree._fields, tree, None, ()

    @staticmethod
    def build(layout: Structure, children: list[Any]) -> Any:
        return layout._class._make(children)


class _Fields(Kind):
    """Dataclasses; rebuilt field by field, without calling the class."""

    @staticmethod
    def step(key: Any) -> str:
        return f".{key}"

    @staticmethod
    def split(tree: Any) -> Parts:
        from dataclasses import fields

        keys = []
        children = []
        static = []
        for field in fields(tree):
            value = getattr(tree, field.name)
            if field.metadata.get("static"):
                static.append((field.name, value))
            else:
                keys.append(field.name)
                children.append(value)
        return tuple(keys), children, tuple(static), ()

    @staticmethod
    def build(layout: Structure, children: list[Any]) -> Any:
        made: object = object.__new__(layout._class)
        for name, value in zip(layout._keys, children, strict=True):
            object.__setattr__(made, name, value)
        for name, value in layout._static:
            object.__setattr__(made, name, value)
        return made

    @classmethod
    def describe(kind, cls: type, keys: Keys, static: Any) -> str:
        listed = ", ".join(f"{name}={value!r}" for name, value in static)
        return f"{cls.__name__}({listed})" if listed else cls.__name__


class _Registered(Kind):
    """Objects of classes that ``plugrad.tree.register`` knows."""

    @staticmethod
    def split(tree: Any) -> Parts:
        found: Any = _REGISTERED[type(tree)][0](tree)
        if not isinstance(found, tuple) or len(found) != 2:
            raise TypeError(
                f"tree.register: flatten of {type(tree).__name__} must return "
                f"(children, static), got {found!r}"
            )
        children = list(found[0])
        return tuple(range(len(children))), children, found[1], ()

    @staticmethod
    def build(layout: Structure, children: list[Any]) -> Any:
        return _REGISTERED[layout._class][1](layout._static, tuple(children))

    @classmethod
    def describe(kind, cls: type, keys: Keys, static: Any) -> str:
        shown = "" if static is None else f"({static!r})"
        return f"{cls.__name__}{shown} of {len(keys)}"

    @classmethod
    def text(kind, cls: type, keys: Keys, texts: list[str]) -> str:
        return f"{cls.__name__}({', '.join(texts)})"


def kind_of(tree: Any) -> type[Kind] | None:
    """Return the kind of container; None for a leaf."""
    cls = type(tree)
    if cls in KINDS:
        return KINDS[cls]
    if isinstance(tree, dict):
        return _Dict
    if isinstance(tree, list | tuple):
        return _Named if hasattr(cls, "_fields") else _Ordered
    return _Fields if hasattr(cls, "__dataclass_fields__") else None


def register(cls: type, flatten: Flatten, unflatten: Unflatten) -> None:
    """Make the objects of a class containers of their own kind."""
    _REGISTERED[cls] = (flatten, unflatten)
    KINDS[cls] = _Registered


_REGISTERED: dict[type, tuple[Flatten, Unflatten]] = {}
KINDS: dict[type, type[Kind] | None] = {Tensor: None, type(None): _Nothing}
KINDS |= {dict: _Dict, list: _Ordered, tuple: _Ordered}
LEAF = Structure(None, object, ((), (), None, ()), [], 1)
