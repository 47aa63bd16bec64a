"""Signatures: the properties that calls must share to use the same recording.

``engine.references`` finds the values other than arguments that a function reads.

Contents: ``value_key``, by which values are compared; ``Static``; ``Signature`` of a
call; keys of leaves and structures; ``difference``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from plugrad._src.engine.places import PLAIN, Same, exact, is_value
from plugrad._src.ops.basis._convert import asarray
from plugrad._src.ops.basis.variable import Variable
from plugrad._src.registry.backend import OpenBackend
from plugrad._src.tensor.dtypes import named
from plugrad._src.tensor.tensor import Tensor
from plugrad._src.tensor.tree import LEAF, Structure, split

# Classes whose objects are compared by identity. Changes of the objects are detected in
# other ways, or do not matter.
FUNCTIONS = FunctionType, MethodType, BuiltinFunctionType, np.ufunc
IDENTITY = *FUNCTIONS, type, ModuleType, Variable, Enum, np.dtype, type(Ellipsis)


def value_key(value: Any) -> Any:
    """Return a key: ``jit`` may treat values with equal keys as the same value."""
    kind = type(value)
    if kind in PLAIN or issubclass(kind, np.generic | np.ndarray):
        return exact(value) if is_value(value) else Same(value)
    if kind is Tensor:
        return kind, Same(value, value._data)
    if kind is dict:
        return kind, value_key([*value]), value_key([*value.values()])
    if kind in (list, tuple):
        kinds = {*map(type, value)}
        if kinds == {Tensor}:
            return kind, Same(*value, *[x._data for x in value])
        return kind, *(value if kinds == {str} else map(value_key, value))
    if kind in (set, frozenset):
        return kind, frozenset(map(value_key, value))
    return Same(value)


# --- arguments -------------------------------------------------------------------


class Static:
    """A static argument: it is one leaf even if its value is a container."""

    __slots__ = ("value",)

    value: Any

    def __init__(self, value: Any) -> None:
        self.value = value


class Signature(NamedTuple):
    """A call as ``jit`` sees it.

    Attributes:
        args: The positional arguments, with tensors in place of NumPy arrays.
        kwargs: The named arguments.
        leaves: The leaves of ``(args, kwargs)``.
        structure: The structure of ``(args, kwargs)``.
        key: A key: calls with equal keys have the same signature.

    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    leaves: list[Any]
    structure: Structure
    key: tuple[Any, ...]


def signature(
    args: Any,
    kwargs: Any,
    static: Collection[int | str],
    backend: OpenBackend,
    precision: str,
) -> Signature:
    """Return the signature of a call on a backend at a precision.

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
    key = structure_key(structure), tuple(keys), backend, precision
    return Signature(args, kwargs, leaves, structure, key)


def leaf_key(x: Any) -> Any:
    """Return a key that equal leaves share; raise a TypeError for unknown classes."""
    if type(x) is Tensor:
        return Tensor, x.shape, x.dtype, x._alive()
    static = isinstance(x, Static)
    value = x.value if static else x
    if isinstance(value, IDENTITY):
        return Same(value)
    if isinstance(value, set | frozenset) and not static:
        return type(value), frozenset(map(leaf_key, value))
    key = value_key(value)
    if not isinstance(key, Same):
        return key
    own_hash: Any = type(value).__hash__
    if static and own_hash is None:  # for example the ``self`` of a dataclass
        return Same(value)
    if not static and own_hash is object.__hash__:
        raise TypeError("its objects may change unseen")
    # Equal decimals, times and ranges may still differ: Decimal("1.0") equals "1.00".
    own_repr: Any = type(value).__repr__
    if static or own_repr is object.__repr__:
        return type(value), value, hash(value)
    return type(value), value, hash(value), repr(value)


def structure_key(structure: Structure) -> Any:
    """Return a key of the structure that includes the order of dict keys.

    The order of a dict determines the order of runs.
    """
    if structure is LEAF:
        return LEAF
    children = tuple([structure_key(child) for child in structure._children])
    keys = (
        value_key(structure._keys),
        value_key(structure._order),
    )  # ``value_key`` distinguishes 1 from True
    return structure._class, keys, value_key(structure._static), children


def argument(path: str) -> str:
    """Return the place of a leaf of ``(args, kwargs)``, for messages."""
    first, _, rest = path[4:].partition("]")
    return f"argument {first}{rest}"


def donated(sign: Signature, names: Mapping[Any, str], of: str) -> dict[int, str]:
    """Return the error texts of the donated tensors, by the indices of the tensors."""
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
    """Describe the first difference of a call from an earlier one, for messages."""
    if old.key[0] != new.key[0]:
        return f"the structure of the arguments: {old.structure!r}, {new.structure!r}"
    pairs = zip(old.key[1], new.key[1], new.structure.paths(), strict=True)
    for before, now, path in pairs:
        if before != now:
            return f"{argument(path)}: {described(before)}, {described(now)}"
    if old.key[2] is not new.key[2]:
        return f"the active backend: {old.key[2].name}, {new.key[2].name}"
    return f"the precision: {old.key[3]}, {new.key[3]}"


def described(key: Any) -> str:
    """Return the key of a leaf as text."""
    if isinstance(key, Same):
        return repr(key.values[0])
    if key[0] is Tensor and len(key) == 4:
        _, shape, dtype, home = key
        return f"{named(dtype)} of shape {shape} on {home.name}"
    try:
        return f"{key[0].__name__} {key[1]}"
    except ValueError:  # more digits than Python writes
        return f"{key[0].__name__} of many digits"
