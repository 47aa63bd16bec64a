"""The parameters of functions that users and plugins pass: rules, decompositions."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

CO_VARARGS = 4  # as in ``inspect``


def parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the parameter names; a code object is read 50x faster than a signature."""
    if isinstance(function, FunctionType):
        code = function.__code__
        starred = bool(code.co_flags & CO_VARARGS)
        count = code.co_argcount + code.co_kwonlyargcount + starred
        names = code.co_varnames[:count]
        if starred:  # the code object lists *xs last
            positional = code.co_argcount
            names = (*names[:positional], names[-1], *names[positional:-1])
        return names
    from inspect import signature

    try:
        return tuple(signature(function).parameters)
    except (TypeError, ValueError):
        raise TypeError(
            f"expected a function with named parameters, got {function!r}"
        ) from None


def with_defaults(function: Callable[..., Any]) -> set[str]:
    """Return the names of the parameters that have a default value."""
    if isinstance(function, FunctionType):
        if not function.__defaults__ and not function.__kwdefaults__:
            return set()
        code = function.__code__
        names = code.co_varnames[: code.co_argcount]
        count = len(function.__defaults__ or ())
        return {*names[len(names) - count :], *(function.__kwdefaults__ or ())}
    from inspect import Parameter, signature

    parameters = signature(function).parameters.values()
    return {p.name for p in parameters if p.default is not Parameter.empty}
