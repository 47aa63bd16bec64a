"""Signatures of kernels: their grammar, and the kinds of inputs and attributes.

A signature declares each input and each attribute, and after a colon its kind::

    "Sum(x: number; axis: axes, keepdims: bool)"
    "Conv2D(x: number, filter: x; geometry: Windows) -> y"
    "Select(condition: bool, t, e: t)"
    "MirrorPad(x; paddings: pairs, mode: 'reflect' | 'symmetric')"

The kind of an input is

- a dtype (``int32``), one of NumPy's abstract dtypes (``bool integer floating
  complexfloating inexact number string``), or several of these joined by ``|``;
- or the name of an input to its left: both inputs then have the same dtype.

The tensors of a variadic input have one dtype. Without a kind, an input may have any
dtype.

The kinds of attributes are the keys of ``KINDS``, or words in quotes. An attribute
without a kind is any hashable value. An attribute that a later version of a contract
adds has a default, a literal without a comma::

    "Cumsum(x: number; axis: axis, reverse: bool = False)"

Contents: ``parse``; the kinds of inputs; the kinds of attributes.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Container, Sequence
from typing import Any

from plugrad import geometry
from plugrad._src.tensor.arguments import (
    choice,
    flag,
    integer,
    integers,
    number,
    real,
    sizes,
)
from plugrad._src.tensor.dtypes import DTYPES, DType, canonical, dtype_kind, named
from plugrad._src.tensor.explained import explained

# --- the grammar -----------------------------------------------------------------


Words = tuple[str, ...]
Kinds = dict[str, str]
Defaults = dict[str, Any]  # of attributes
_PATTERN = re.compile(r"([^\s();]+)\(([^();]*)(?:;([^();]*))?\)(?: *-> *([^();:]+))?")


def parse(signature: Any) -> tuple[str, Words, Words, Words, Kinds, Defaults]:
    """Return name, inputs, attributes, outputs, kinds and defaults of a signature.

    Inputs and outputs keep their marks, ``*xs`` and ``bias?``. Kinds are as written;
    ``""`` means that there is none.

    Raises:
        TypeError: It is not a string.
        ValueError: It does not follow the grammar, or it names an unknown kind.

    """
    found = _PATTERN.fullmatch(signature) if isinstance(signature, str) else None
    if found is None:
        raise (ValueError if isinstance(signature, str) else TypeError)(
            f"kernel {signature!r}: a signature is a str such as "
            "'Name(x, bias?; axis: axis) -> y'"
        )
    name, inputs, attrs, outputs = found.groups(default="")
    kinds: dict[str, str] = {}
    attrs, defaults = _without_defaults(signature, attrs)
    return (
        name,
        _declared(signature, inputs, kinds, _is_dtype, kinds),
        _declared(signature, attrs, kinds, _is_attribute),
        tuple([word.strip() for word in outputs.split(",")])
        if outputs.strip()
        else ("y",),
        kinds,
        defaults,
    )


def _without_defaults(signature: str, text: str) -> tuple[str, dict[str, Any]]:
    """Return the attributes without their defaults, and the defaults by name."""
    if "=" not in text:
        return text, {}
    from ast import literal_eval

    declared, defaults = [], {}
    for word in text.split(","):
        attribute, equals, default = word.partition("=")
        declared.append(attribute)
        if not equals:
            continue
        name = attribute.partition(":")[0].strip()
        try:
            defaults[name] = literal_eval(default.strip())
        except (ValueError, SyntaxError):
            raise ValueError(
                f"kernel {signature!r}: the default of {name!r} must be a literal, "
                f"such as False, 1.0 or 'same', got {default.strip()!r}"
            ) from None
    return ",".join(declared), defaults


def _declared(
    signature: str,
    text: str,
    kinds: dict[str, str],
    known: Callable[[str], bool],
    others: Container[str] = (),
) -> Words:
    """Return the names in ``text``, and add their kinds to ``kinds``.

    A kind must satisfy ``known``, or be in ``others``.
    """
    names = []
    for word in text.split(",") if text.strip() else ():
        name, colon, kind = word.partition(":")
        name = name.strip()
        if colon:
            kind = " ".join(kind.split())
            if kind not in others and not known(kind):
                raise ValueError(
                    f"kernel {signature!r}: {name!r} has the unknown kind {kind!r}; "
                    "help(plugrad.plugin.Kernel) lists the kinds of inputs and "
                    "attributes"
                )
        kinds[name.strip("*?")] = kind
        names.append(name)
    return tuple(names)


# --- inputs ----------------------------------------------------------------------

# The names of abstract dtypes in NumPy -> the letters of their kinds.
ABSTRACT = {
    "bool": "b",
    "integer": "iu",
    "floating": "f",
    "complexfloating": "c",
    "inexact": "fc",
    "number": "iufc",
    "string": "O",
}


@functools.cache  # a few kinds occur in most signatures
def _is_dtype(kind: str) -> bool:
    return all([p in ABSTRACT or p in DTYPES for p in kind.split(" | ")])


def check_dtype(who: str, name: str, dtype: DType, kind: str) -> None:
    """Raise a TypeError unless ``dtype``, that of the input ``name``, has this kind."""
    for part in kind.split(" | "):
        if dtype_kind(dtype) in ABSTRACT.get(part, "") or named(dtype) == part:
            return
    raise TypeError(f"{who}: {name!r} must be {kind}, got {named(dtype)}")


# --- attributes ------------------------------------------------------------------

_INT64_END = 2**63  # kernels count in int64; this is one more than its maximum


def _is_attribute(kind: str) -> bool:
    return kind in KINDS or kind.removesuffix("?") in KINDS or kind.startswith("'")


def canonical_attribute(
    who: str, name: str, value: Any, kind: str, shape: Sequence[int]
) -> Any:
    """Return an attribute in the form that kernels get.

    Args:
        who: The kernel, for messages.
        name: The name of the attribute.
        value: The value that was given.
        kind: The kind that the signature declares, or ``""``.
        shape: The shape of the first input, for axes.

    Raises:
        TypeError: ``value`` is not of this kind.
        ValueError: It is out of range.

    """
    if kind.endswith("?"):
        if value is None:
            return None
        kind = kind.removesuffix("?")
    if kind.startswith("'"):
        return choice(who, name, value, *[w.strip(" '") for w in kind.split("|")])
    if kind:
        return KINDS[kind](who, name, value, shape)
    try:
        hash(value)
    except TypeError:
        raise TypeError(
            f"{who}: {name} must be hashable, got {value!r}; use a tuple for a list"
        ) from None
    return value


def _int(who: str, name: str, value: Any, _: Any) -> int:
    found = integer(who, name, value)
    if not -_INT64_END <= found < _INT64_END:
        raise ValueError(f"{who}: {name} {found} does not fit into 64 bits")
    return found


def _ints(who: str, name: str, value: Any, _: Any) -> tuple[int, ...]:
    found = integers(who, name, value)
    if any(not -_INT64_END <= one < _INT64_END for one in found):
        raise ValueError(f"{who}: {name} {value!r} does not fit into 64 bits")
    return found


def _float(who: str, name: str, value: Any, _: Any) -> float:
    try:
        return float(real(who, name, value))
    except OverflowError:
        raise OverflowError(f"{who}: {name} {value} is too large for a float") from None


def _scalar(who: str, name: str, value: Any, _: Any) -> complex | bytes:
    if isinstance(value, str | bytes):
        return value.encode() if isinstance(value, str) else bytes(value)
    return number(who, name, value)


def _dtype(who: str, name: str, value: Any, _: Any) -> DType:
    try:
        return canonical(value)
    except TypeError as error:
        raise TypeError(f"{who}: {name}: {error}") from None


def _str(who: str, name: str, value: Any, _: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{who}: {name} must be a str, got {value!r}")
    return value


def _one_axis(who: str, name: str, value: Any, rank: int) -> int:
    axis = integer(who, name, value)
    if not -rank <= axis < rank:
        room = f"{-rank}..{rank - 1}" if rank else "there is none"
        error = ValueError(
            f"{who}: {name} {axis} is out of range for rank {rank}: {room}"
        )
        raise explained(error, "axis-out-of-range")
    return axis % rank


def _permutation(who: str, name: str, value: Any, shape: Sequence[int]) -> Any:
    rank = len(shape)
    found = tuple([_one_axis(who, name, n, rank) for n in integers(who, name, value)])
    if sorted(found) != [*range(rank)]:
        raise ValueError(
            f"{who}: {name} {value!r} must name each of the {rank} axes once"
        )
    return found


def _pairs(who: str, name: str, value: Any, shape: Sequence[int]) -> Any:
    count = 1 if value is None or not hasattr(value, "__len__") else len(value)
    return geometry.pairs(who, name, value, count)


def _instance(kind: str) -> Callable[..., Any]:
    def check(who: str, name: str, value: Any, _: Any) -> Any:
        if not isinstance(value, getattr(geometry, kind)):
            raise TypeError(
                f"{who}: {name} must be plugrad.geometry.{kind}, got {value!r}"
            )
        return value

    return check


KINDS: dict[str, Callable[[str, str, Any, Sequence[int]], Any]] = {
    "bool": lambda who, name, value, _: flag(who, name, value),
    "int": _int,
    "size": lambda who, name, value, _: integer(who, name, value, 0),
    "float": _float,
    "number": lambda who, name, value, _: number(who, name, value),
    "scalar": _scalar,
    "str": _str,
    "dtype": _dtype,
    "axis": lambda who, name, value, shape: _one_axis(who, name, value, len(shape)),
    "axes": lambda who, name, value, shape: geometry.axes(who, value, len(shape)),
    "new_axis": lambda who, name, v, shape: _one_axis(who, name, v, len(shape) + 1),
    "permutation": _permutation,
    "shape": lambda who, name, value, _: sizes(who, value, name),
    "ints": _ints,
    "pairs": _pairs,
    **{kind: _instance(kind) for kind in ("Windows", "Resizing", "Rotation")},
}
