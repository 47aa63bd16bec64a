"""Checks of arguments other than tensors; they return plain Python values.

They accept Python and NumPy scalars, and sequences of them. ``op`` and ``name`` are for
messages. Neither a bool nor 1.0 is accepted as an integer.

Contents: ``integers`` and ``integer``; ``entries`` and ``several``; ``sizes``;
``number``, ``real``, ``finite`` and ``positive``; ``flag``, ``path``, ``choice`` and
``function``; ``misfit``, about shapes.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np

Ints = int | Sequence[int]
Axis = Ints | None
OneAxis = int | None
Margins = Sequence[Sequence[int]]  # (before, after) for each axis

_ONLY_INT = frozenset({int})
_TRUTH = frozenset({bool, np.bool_})
# Maximum number of elements: the size in bytes of the widest dtype fits into 64 bits.
_MAX_ELEMENTS = 2**59


def integers(op: str, name: str, given: Any) -> tuple[int, ...]:
    """Return one or several integers as a tuple of int."""
    kind = type(given)
    if kind is int:
        return (given,)
    if (kind is tuple or kind is list) and _ONLY_INT.issuperset(map(type, given)):
        return tuple(given)
    try:
        found = [given] if (listed := entries(given)) is None else listed
        if _TRUTH.isdisjoint(map(type, found)):
            return tuple(map(operator.index, found))
    except (TypeError, ValueError):  # ValueError: a tensor that is not a scalar
        pass
    raise TypeError(f"{op}: {name} must be integers, got {given!r}")


def entries(given: Any) -> list[Any] | None:
    """Return the elements of a sequence or an array; None for text and other values."""
    kind = type(given)
    shape = getattr(given, "shape", None)
    if kind is tuple or kind is list or (shape and isinstance(shape, tuple)):
        return list(given)
    text = isinstance(given, str | bytes | bytearray)
    return list(given) if isinstance(given, Sequence) and not text else None


def several(op: str, name: str, given: Any) -> list[Any]:
    """Return the elements of a sequence or another ordered iterable."""
    if type(given) is list or type(given) is tuple:
        return list(given)
    unfit = isinstance(given, str | bytes | Mapping | Set) or not np.iterable(given)
    if unfit or getattr(given, "shape", None) == ():
        raise TypeError(f"{op}: {name} must be a sequence, got {given!r}")
    return list(given)


def integer(op: str, name: str, given: Any, least: int | None = None) -> int:
    """Return one integer, ``least`` or more; a list of one is not accepted."""
    try:
        if type(given) in _TRUTH:
            raise TypeError
        found = operator.index(given)
    except (TypeError, ValueError):  # ValueError: a tensor that is not a scalar
        raise TypeError(f"{op}: {name} must be an integer, got {given!r}") from None
    if least is not None and found < least:
        raise ValueError(f"{op}: {name} {found} must be {least} or more")
    if least is not None and found > _MAX_ELEMENTS:
        raise ValueError(f"{op}: {name} {found} is too large for any memory")
    return found


def sizes(op: str, given: Any, name: str = "shape") -> tuple[int, ...]:
    """Return a shape as a tuple of int; 3 is short for (3,)."""
    found = integers(op, name, given)
    if found and min(found) < 0:
        raise ValueError(f"{op}: {name} {given!r} must not be negative")
    if math.prod(filter(None, found)) > _MAX_ELEMENTS:
        raise ValueError(f"{op}: {name} {given!r} is too large for any memory")
    return found


def number(op: str, name: str, given: object) -> int | float | complex:
    """Return a scalar as a Python number."""
    plain = given.item() if isinstance(given, np.generic) else given
    if not isinstance(plain, int | float | complex):
        hint = "; take its item()" if hasattr(given, "shape") else ""
        raise TypeError(f"{op}: {name} must be a number, got {given!r}{hint}")
    if isinstance(plain, int) and plain.bit_length() > 1023:
        raise OverflowError(f"{op}: {name} {plain} is too large for every dtype")
    return plain


def real(op: str, name: str, given: object) -> float:
    """Return a scalar as a real Python number."""
    plain = given if type(given) is float else number(op, name, given)
    if isinstance(plain, complex):
        raise TypeError(f"{op}: {name} must be real, got {plain}")
    return plain


def finite(
    op: str,
    name: str,
    given: object,
    *,
    least: float | None = None,
    most: float = math.inf,
) -> float:
    """Return a finite number from ``least`` to ``most``."""
    plain = float(real(op, name, given))
    low = -math.inf if least is None else least
    if not (math.isfinite(plain) and low <= plain <= most):
        rule = "finite" if least is None else f"{least} or more, and finite"
        rule = rule if most == math.inf else f"from {least} to {most}"
        raise ValueError(f"{op}: {name} must be {rule}, got {plain}")
    return plain


def positive(op: str, name: str, given: object) -> float:
    """Return a finite number above 0."""
    plain = float(real(op, name, given))
    if not 0 < plain < math.inf:
        raise ValueError(f"{op}: {name} must be positive and finite, got {plain}")
    return plain


def flag(op: str, name: str, given: object) -> bool:
    """Return a truth value: a bool, or 0 or 1."""
    if type(given) is bool:
        return given
    if not isinstance(given, int | np.integer | np.bool_) or given not in (0, 1):
        raise TypeError(f"{op}: {name} must be True or False, got {given!r}")
    return bool(given)


def path(op: str, given: Any) -> Any:
    """Return the path of a file; a file descriptor is not accepted."""
    try:
        return os.fspath(given)
    except TypeError:
        raise TypeError(
            f"{op}: a path must be a str or an os.PathLike, got {given!r}"
        ) from None


def choice(op: str, name: str, given: object, *known: str) -> str:
    """Return ``given`` if it is one of the words ``known``."""
    if not isinstance(given, str) or given not in known:
        words = ", ".join(map(repr, known[:-1]))
        raise ValueError(f"{op}: {name} {given!r}: use {words} or {known[-1]!r}")
    return given


def function(op: str, given: object) -> None:
    """Raise unless ``given`` is callable."""
    if not callable(given):
        raise TypeError(f"{op}: expected a function, got {given!r}")


def misfit(op: str, rule: str, *given: Any) -> ValueError:
    """Return the error about shapes of ``given`` that break ``rule``."""
    shapes = [str(getattr(x, "shape", x)) for x in given]
    many = "s" if len(shapes) > 1 else ""
    return ValueError(f"{op}: {rule}; got shape{many} {' and '.join(shapes)}")


def package_names(op: str, name: str, value: object) -> frozenset[str]:
    """Return the names of packages; raise unless ``value`` is one or a sequence."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple | set | frozenset):
        raise TypeError(
            f"{op}: {name} must be a sequence of package names, got {value!r}"
        )
    for one in names:
        if not isinstance(one, str) or not one.isidentifier():
            raise TypeError(
                f"{op}: {name} must contain names of top-level packages, such as "
                f"'keras', got {one!r}"
            )
    return frozenset(names)
