"""Hints in error messages about names of other libraries; ``foreign`` lists them.

After plugrad has been imported, this code runs only for error messages.

Contents: ``rows``; keywords; attributes of tensors; dtypes and devices.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, NoReturn, TypedDict, TypeVar, cast

from . import foreign

F = TypeVar("F", bound=Callable[..., Any])


class Nothing(TypedDict):
    """No keywords: type checkers ignore a parameter ``**unknown: Unpack[Nothing]``."""


def rows(table: str) -> Iterator[tuple[list[str], str]]:
    """Yield the names and the hint of each row of a table with these two columns."""
    for line in table.strip().splitlines():
        names, hint = line.split(" | ")
        yield names.split(), hint


@functools.cache
def by_name(table: str) -> dict[str, str]:
    """Return a dict from the names in a table to their hints."""
    return {name: hint for names, hint in rows(table) for name in names}


# --- keywords --------------------------------------------------------------------


def unexpected(
    function: Callable[..., Any], unknown: Mapping[str, object]
) -> TypeError:
    """Return the error about keywords that a function does not accept.

    Python's own error cannot contain a hint. So the parameters of an op with keywords
    end with ``**unknown: Unpack[Nothing]``.
    """
    known = keywords(function)
    given = " and ".join(map(repr, unknown))
    many = "keyword arguments" if len(unknown) > 1 else "an unexpected keyword argument"
    what = f"unexpected {many}" if len(unknown) > 1 else many
    hints = "".join(f"; {keyword_hint(word, known)}" for word in unknown)
    return TypeError(f"{function.__qualname__}() got {what} {given}{hints}")


def hinted(function: F) -> F:
    """Return a function whose errors about unknown keywords suggest the right ones.

    A table in plugrad lists the keywords that users of NumPy, PyTorch, JAX and
    TensorFlow know. The wrapper adds a fraction of a microsecond to each call: use it
    for functions that a program calls rarely, such as those that make an optimizer.

    Example:
        >>> from plugrad import plugin
        >>> @plugin.hinted
        ... def descent(learning_rate):
        ...     return learning_rate
        >>> try:
        ...     descent(lr=0.1)
        ... except TypeError as error:
        ...     print(str(error).partition("; ")[2])
        lr= is learning_rate= here

    """
    known = keywords(function)

    @functools.wraps(function)
    def checked(*args: Any, **named: Any) -> Any:
        if unknown := {word: x for word, x in named.items() if word not in known}:
            raise unexpected(function, unknown)
        return function(*args, **named)

    return cast("F", checked)


def keywords(function: Callable[..., Any]) -> list[str]:
    """Return the keywords that a function accepts."""
    return [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]


def keyword_hint(word: str, known: list[str]) -> str:
    """Return a hint about a keyword, given the keywords that a function accepts."""
    everywhere = ""
    for line in foreign.KEYWORDS.strip().splitlines():
        names, here, hint = map(str.strip, line.split("|"))
        if word not in names.split():
            continue
        if not here:
            everywhere = f"{word}=: {hint}"
        fitting = [name for name in here.split() if name in known]
        if fitting:
            return f"{word}= is {hint or f'{fitting[0]}='} here"
    return everywhere or _similar_keyword(word, known)


def _similar_keyword(word: str, known: list[str]) -> str:
    """Return the most similar keyword, or all keywords."""
    import difflib  # only for errors

    matches = difflib.get_close_matches(word, known, n=1)
    if matches:
        return f"did you mean {matches[0]}=?"
    return f"it has {', '.join(f'{name}=' for name in known)}"


def hide_unknown(function: Any) -> None:
    """Leave ``**unknown`` out of the signature that ``help`` and editors show."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_flags & inspect.CO_VARKEYWORDS == 0:
        return
    signature = inspect.signature(function)
    parameters = [*signature.parameters.values()]
    if parameters[-1].name == "unknown":
        function.__signature__ = signature.replace(parameters=parameters[:-1])


# --- attributes of tensors -------------------------------------------------------


def attributes() -> set[str]:
    """Return the names of functions and of tensor attributes of NumPy and PyTorch."""
    found = {name for names, _ in rows(foreign.METHODS) for name in names}
    for line in foreign.FUNCTIONS.strip().splitlines():
        here, numpy, torch, *_ = line.split("|")
        if here.strip():
            found |= {name.rpartition(".")[2] for name in f"{numpy} {torch}".split()}
    return found


class Absent:
    """A method or an attribute of tensors in other libraries.

    ``Tensor.__getattr__`` would slow down every access to every attribute; this
    descriptor runs only if its name is looked up or assigned. It raises an
    AttributeError, so ``hasattr`` returns False.
    """

    __slots__ = ("name",)

    name: str

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        names = import_module("plugrad._src.tools.names")  # only where it is needed
        raise AttributeError(names.method_message(self.name, owner.__name__))

    def __set__(self, instance: object, value: object) -> NoReturn:
        self.__get__(instance, type(instance))

    def __repr__(self) -> str:
        return f"<absent: {by_name(foreign.METHODS).get(self.name, 'a function')}>"


class ForeignNames:
    """Attributes of tensors in other libraries: each raises an error with a hint."""

    __slots__ = ()


for _name in attributes():
    setattr(ForeignNames, _name, Absent(_name))


# --- dtypes and devices ----------------------------------------------------------

DTYPE_NAMES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 "
    "float16 bfloat16 float32 float64 complex64 complex128 string"
)


def dtype_hint(given: object) -> str:
    """Return the hint about a dtype of another library; empty if there is none."""
    text = given if isinstance(given, str) else repr(given)
    words = re.findall(r"\w+", text)
    known = by_name(foreign.DTYPES)
    return next((f"write {known[word]}" for word in words if word in known), "")


def device_hint(given: object) -> str:
    """Return the hint about a device of another library; empty if there is none."""
    text = given if isinstance(given, str) else repr(given)
    known = by_name(foreign.DEVICES)
    if found := [known[w] for w in re.findall(r"[A-Za-z]+", text) if w in known]:
        return found[0]
    words = re.findall(r"\w+", text)  # x.to(torch.float32)
    dtypes = {*by_name(foreign.DTYPES), *DTYPE_NAMES.split(), "dtype"}
    return "`x.astype(dtype)` changes the dtype" if dtypes & {*words} else ""
