"""``name_scope``: names for parts of a model; errors show them in a note."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Token
from typing import Any, TypeVar

from .context import Context, F, Scope, copied, current, decorated, set_current
from .sites import joined

R = TypeVar("R")
IN_SCOPE = "in scope"  # the first words of the note on an error


class NameScope(Scope):
    """A scope with a name; an error that leaves the scope shows the name in a note."""

    __slots__ = ("name",)

    inside: Context | None
    token: Token[Context] | None

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.inside = None

    def __jit_state__(self) -> tuple[Any, ...]:
        """Return an empty tuple: a named scope contains no object of the user."""
        return ()

    def __enter__(self) -> None:
        if self.inside is not None:
            raise RuntimeError(
                f"name_scope: the scope {self.name!r} has been entered already; create "
                "a new one for a nested block"
            )
        under = current()
        self.inside = inside = copied(under, {"name": self.name})
        inside.scope = joined(under.scope, self.name)
        self.token = set_current(inside)

    def __exit__(self, *exception: object) -> None:
        inside = self.inside
        super().__exit__()
        error = exception[1]
        if error is not None and inside is not None and isinstance(error, Exception):
            note_scope(error, inside.scope)

    def copy(self) -> Scope:
        """Return a new scope that does the same."""
        return NameScope(self.name)

    def __call__(self, function: F) -> F:
        """Return a function that runs ``function`` inside this scope."""
        return decorated("name_scope", self.copy, function)


def run_in_scope(
    name: str, function: Callable[..., R], /, *args: Any, **kwargs: Any
) -> R:
    """Return ``function(*args, **kwargs)``, run inside ``name_scope(name)``.

    It costs less than a block: without a tape or an observer nothing depends on the
    scope, so it is not entered. An error in ``function`` names the scope in any case.
    Use it for parts of a model that run no code of the user, such as the nodes of a
    graph.

    Args:
        name: The name of the scope.
        function: A function.
        args: Its arguments.
        kwargs: Its keyword arguments.

    Returns:
        The result of the function.

    Example:
        >>> from plugrad import plugin
        >>> plugin.run_in_scope("head/relu", pg.relu, pg.asarray([-1.0, 2.0]))
        Tensor([0., 2.], dtype=float32, backend='cpu')

    """
    before = current()
    if before.quiet:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            note_scope(error, joined(before.scope, name))
            raise
    with NameScope(name):
        return function(*args, **kwargs)


def note_scope(error: Exception, scope: str) -> None:
    """Note the scope of a failed run in its error, unless the error names a scope."""
    notes = getattr(error, "__notes__", ())
    if scope and not any(str(note).startswith(IN_SCOPE) for note in notes):
        error.add_note(f"{IN_SCOPE} {scope!r}")
