"""Functions on trees: nested dicts, lists, tuples and dataclasses of tensors.

The parameters of a model are such a tree, and gradients have its structure::

    params = pg.tree.map(lambda p, g: p - 0.1 * g, params, pg.grad(loss)(params))

Containers are dicts, lists, tuples, namedtuples, dataclasses, and objects of the
classes passed to ``register``. None is a container without leaves. Everything else is a
leaf: tensors, Variables, arrays, numbers, text. ``grad``, ``vjp``, ``jvp``,
``custom_grad`` and similar functions accept the same trees.

- Containers keep their class, and dicts the order of their keys. The leaves of a dict
  are in the order of the sorted keys if these are all text or all numbers, so that
  equal dicts have equal lists of leaves.
- All fields of a dataclass are children, except those declared
  ``dataclasses.field(metadata={"static": True})``: these are part of the structure. A
  dataclass is rebuilt from its fields; ``__init__`` and ``__post_init__`` do not run.

The names are those of ``jax.tree``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ._src.public import publish
from ._src.tensor import tree as _tree
from ._src.tensor.arguments import function
from ._src.tensor.tree import Flatten, IsLeaf, Structure, Unflatten

__all__ = [
    "Structure",
    "flatten",
    "leaves",
    "map",
    "register",
    "structure",
    "unflatten",
]

C = TypeVar("C")


def map(f: Callable[..., Any], tree: Any, /, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """Return the tree of ``f(leaf, *others)`` for each leaf of ``tree``.

    Args:
        f: A function of a leaf, and of the counterparts of the leaf in ``rest``.
        tree: A tree.
        rest: Trees with the containers of ``tree``, and anything in place of its
            leaves. A list or tuple fits any sequence of the same length, and a dict
            any dict with the same keys, in any order.
        is_leaf: A function that returns whether an object is treated as a leaf although
            it is a container: ``is_leaf=lambda x: x is None``.

    Returns:
        A tree with the structure of ``tree``.

    Raises:
        ValueError: The containers of one of ``rest`` differ from those of ``tree``; the
            message says where.

    Example:
        >>> pg.tree.map(lambda x, y: x + y, {"a": 1, "b": [2]}, {"b": [20], "a": 10})
        {'a': 11, 'b': [22]}

    """
    function("tree.map", f)
    found, structure = _tree.split(tree, is_leaf)
    others = [structure.match(other, "tree.map: the trees differ") for other in rest]
    return structure([f(*xs) for xs in zip(found, *others, strict=True)])


def flatten(tree: Any, /, *, is_leaf: IsLeaf = None) -> tuple[list[Any], Structure]:
    """Return the leaves of ``tree``, and its structure.

    Args:
        tree: A tree.
        is_leaf: As in ``map``.

    Returns:
        The list of leaves, and the ``Structure`` from which ``unflatten`` rebuilds the
        tree.

    Example:
        >>> leaves, structure = pg.tree.flatten({"w": 1.0, "b": (2.0, None)})
        >>> leaves
        [2.0, 1.0]
        >>> pg.tree.unflatten(structure, [20.0, 10.0])
        {'w': 10.0, 'b': (20.0, None)}

    """
    return _tree.split(tree, is_leaf)


def unflatten(structure: Structure, leaves: Iterable[Any], /) -> Any:
    """Return the tree with this structure and these leaves, as before ``flatten``.

    Args:
        structure: A structure, from ``flatten`` or ``structure``.
        leaves: Its leaves, in the order of ``flatten``.

    Returns:
        A tree.

    Raises:
        ValueError: The number of leaves differs from that of the structure.

    Example:
        >>> pg.tree.unflatten(pg.tree.structure([0, (0, 0)]), "abc")
        ['a', ('b', 'c')]

    """
    if not isinstance(structure, Structure):
        raise TypeError(
            "tree.unflatten: expected a structure from tree.structure, got "
            f"{type(structure).__name__}; pass the leaves as the second argument"
        )
    return structure(leaves)


def leaves(tree: Any, /, *, is_leaf: IsLeaf = None) -> list[Any]:
    """Return the leaves of ``tree``.

    Args:
        tree: A tree.
        is_leaf: As in ``map``.

    Returns:
        A list.

    Example:
        >>> pg.tree.leaves({"w": 1.0, "b": [2.0, None]})
        [2.0, 1.0]

    """
    return _tree.split(tree, is_leaf)[0]


def structure(tree: Any, /, *, is_leaf: IsLeaf = None) -> Structure:
    """Return the structure of ``tree``: its containers, without its leaves.

    Args:
        tree: A tree.
        is_leaf: As in ``map``.

    Returns:
        A structure, for ``unflatten``. Structures can be compared with ``==``.

    Example:
        >>> pg.tree.structure({"a": 1, "b": 2}) == pg.tree.structure({"b": 3, "a": 4})
        True

    """
    return _tree.split(tree, is_leaf)[1]


def register(cls: type[C], flatten: Flatten, unflatten: Unflatten, /) -> None:
    """Make the objects of a class containers, in trees and for gradients.

    Objects of its subclasses are not included. Dataclasses and namedtuples are
    containers without being registered. Register such a class, or a subclass of dict,
    list or tuple, to take its objects apart in another way.

    Args:
        cls: The class.
        flatten: A function that takes an object and returns ``(children, static)``: its
            children, and its other data. Static data belong to the structure and are
            compared by ``==``.
        unflatten: A function ``(static, children)`` that returns the object again. The
            children may be anything, such as None for an integer in a gradient.

    Raises:
        TypeError: ``cls`` is not a class.
        ValueError: ``cls`` is registered already, or a built-in container, or Tensor.

    Example:
        >>> class Scale:
        ...     def __init__(self, factor):
        ...         self.factor = factor
        >>> pg.tree.register(
        ...     Scale, lambda s: ((s.factor,), None), lambda _, factors: Scale(*factors)
        ... )
        >>> pg.grad(lambda s: s.factor * 3.0)(Scale(2.0)).factor.item()
        3.0

    """
    if not isinstance(cls, type):
        raise TypeError(f"tree.register: expected a class, got {cls!r}")
    function("tree.register", flatten)
    function("tree.register", unflatten)
    if cls in _tree.KINDS:
        raise ValueError(
            f"tree.register: {cls.__name__} is already a container or a leaf; "
            "register a class of your own"
        )
    _tree.register(cls, flatten, unflatten)


publish(globals())
