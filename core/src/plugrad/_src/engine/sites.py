"""Names of places in a model: ``name_scope``, and where a gradient override applies.

Contents: scopes and their patterns; ``Where``, the argument ``where=`` of overrides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from plugrad._src.registry.rules import Site

from .places import Same

SEPARATOR = "/"
MAX_CACHED_MATCHES = 4096  # answers to cache, by scope and patterns


def joined(outer: str, name: str) -> str:
    """Return the path of the scope ``name`` inside the scope ``outer``.

    If one of them is empty, the other one is returned.
    """
    if not outer or not name:
        return outer or name
    return f"{outer}{SEPARATOR}{name.lstrip(SEPARATOR)}"


def inside(outer: str, scope: str) -> str:
    """Return the part of a path that is inside the scope ``outer``.

    If the path does not begin with ``outer``, all of it is returned.
    """
    if not outer or scope == outer:
        return "" if outer else scope
    return scope.removeprefix(outer + SEPARATOR)


def common(scopes: Sequence[str]) -> str:
    """Return the path of the innermost scope around all of these scopes."""
    first, *others = scopes
    around = [{*enclosing(scope)} for scope in others]
    for path in enclosing(first):
        if all(path in paths for paths in around):
            return path
    return ""


def enclosing(scope: str) -> list[str]:
    """Return the paths of a scope and of all scopes around it, the innermost first."""
    found = []
    while scope:
        found.append(scope)
        scope = scope.rpartition(SEPARATOR)[0]
    return found


@lru_cache(MAX_CACHED_MATCHES)
def matches(scope: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a pattern matches a scope or one of the scopes around it."""
    from fnmatch import fnmatchcase  # only where it is needed

    return any(fnmatchcase(path, p) for path in enclosing(scope) for p in patterns)


class Where:
    """The runs to which an override applies.

    Args:
        who: The function that the user called, for errors.
        where: A pattern for scopes, or several; the number of a run; or a function of a
            ``Site`` that returns whether the override applies.

    Attributes:
        given: The argument.
        key: Places with equal keys select the same runs.
        reads_number: Whether the answer may depend on the number of the run.

    Raises:
        TypeError: ``where`` has any other type.
        ValueError: A pattern is empty, there is no pattern, or the number is negative.

    """

    def __init__(self, who: str, where: Any) -> None:
        self.given = where
        self.key: object = where
        self.applies: Callable[[Site], bool]
        self.reads_number = True
        if isinstance(where, str) or (
            isinstance(where, Sequence) and all(isinstance(p, str) for p in where)
        ):
            patterns = (where,) if isinstance(where, str) else tuple(where)
            if not patterns or not all(patterns):
                raise ValueError(
                    f"{who}: where={where!r} matches no scope; pass a pattern such as "
                    "'block.*', or None for all runs"
                )
            self.applies = lambda site: matches(site.scope, patterns)
            self.reads_number = False
            self.key = patterns
        elif isinstance(where, int) and not isinstance(where, bool):
            if where < 0:
                raise ValueError(
                    f"{who}: where={where} must not be negative: runs of a kernel are "
                    "counted from 0, and their total is not known in advance"
                )
            self.applies = lambda site: site.nth == where
        elif callable(where):
            self.applies = where
            self.key = Same(where)
        else:
            raise TypeError(
                f"{who}: where must be a pattern for scopes, several patterns, the "
                f"number of a run, or a function of a Site, got {where!r}"
            )

    def __repr__(self) -> str:
        return f"where={self.given!r}"
