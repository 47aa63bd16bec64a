"""Relevance inside a model: the relevance of the results of named scopes."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from plugrad.plugin import Tensor

from .flows import Flow

MAX_LISTED_SCOPES = 20  # in an error message


def names_of(who: str, at: str | Sequence[str]) -> tuple[str, ...]:
    """Return the distinct names in ``at``; errors begin with ``who``.

    Raises:
        TypeError: ``at`` is neither a string nor a sequence of strings.
        ValueError: A name is empty.

    """
    names: Any = (at,) if isinstance(at, str) else at
    if not isinstance(names, Sequence) or not all(isinstance(n, str) for n in names):
        raise TypeError(
            f"{who}: at must be the name of a scope or a list of names, got {at!r}"
        )
    if not all(names):
        raise ValueError(f"{who}: at={at!r} contains an empty name")
    return tuple(dict.fromkeys(names))


class Places:
    """Keeps the relevance of the result of each named scope.

    The flows come from the last run to the first, so the result of a scope is that of
    the first flow in it.

    Args:
        names: The names of scopes, or patterns for them.

    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._found: dict[str, Tensor] = {}
        self._several: dict[str, str] = {}  # kernels with several results, by name
        self._scopes: dict[str, None] = {}

    def __call__(self, flow: Flow) -> None:
        """Keep the relevance of a run's result, if this is the result of a scope."""
        scope = flow.site.scope
        self._scopes[scope] = None
        for name in self._names:
            if name in self._found or name in self._several:
                continue
            if is_inside(scope, name):
                if len(flow.results) == 1:
                    self._found[name] = flow.results[0].relevance()
                else:
                    self._several[name] = flow.site.kernel

    def relevance(self) -> dict[str, Tensor]:
        """Return the relevance of each scope's result, by the name of the scope.

        Raises:
            ValueError: A scope has no run that receives relevance, or its last one has
                several results.

        """
        for name in self._names:
            if name in self._several:
                raise ValueError(
                    f"attribute: at={name!r}: the scope ends with "
                    f"{self._several[name]}, which has several results; name a scope "
                    "that ends with one"
                )
            if name not in self._found:
                raise ValueError(
                    f"attribute: at={name!r}: no run in this scope receives relevance; "
                    f"{_listed([scope for scope in self._scopes if scope])}"
                )
        return {name: self._found[name] for name in self._names}


def is_inside(scope: str, pattern: str) -> bool:
    """Return whether a pattern matches a scope or an enclosing scope."""
    while scope:
        if fnmatchcase(scope, pattern):
            return True
        scope = scope.rpartition("/")[0]
    return False


def _listed(scopes: list[str]) -> str:
    """Return text that lists scopes in the order of the model."""
    if not scopes:
        return "all runs that do are outside of scopes; name parts with pg.name_scope"
    first = scopes[::-1][:MAX_LISTED_SCOPES]
    more = len(scopes) - len(first)
    return f"these scopes do: {', '.join(first)}" + (
        f" and {more} more" if more else ""
    )
