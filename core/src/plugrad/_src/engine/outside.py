"""``outside``: a block that no surrounding scope reaches.

Map: ``outside``; the scope that it returns; who may see what runs in it.
"""

from __future__ import annotations

from typing import Any

from .context import Context, Run, Scope, UserScope, current, running, set_running

__all__ = ["outside"]


def outside() -> UserScope:
    """Return a block that runs apart from the scopes around it.

    Inside the ``with`` block, no surrounding tape, ``vmap``, ``profile``, ``debug``,
    ``tidy`` or ``jit`` is in force, nor any backend, precision or gradient that a
    surrounding block has chosen: code runs as at the start of the program, on the
    default backend of the process. Use it to log or debug in the middle of a function,
    or to load something once that has to outlive the call. It is also a decorator.

    What is computed inside is a constant for the surrounding code: no gradient goes
    through it. ``jit`` does not record it, and a replay does not repeat it. If the
    block computes with or reads tensors that change from call to call, the jitted
    function is not replayed but runs unchanged, so that its results stay correct.

    Returns:
        A context manager.

    Raises:
        ValueError: Inside, if a tensor is used that a surrounding ``vmap`` maps: its
            values differ between the examples.

    Example:
        >>> def f(x):
        ...     with pg.outside():
        ...         size = pg.sum(pg.abs(x))  # a constant
        ...     return pg.sum(x / size)
        >>> pg.grad(f)(pg.asarray([1.0, 3.0]))
        Tensor([0.25, 0.25], dtype=float32, backend='cpu')

    """
    return _Outside()


class _Outside(UserScope):
    """The scope of ``outside``, which depends on where it is entered."""

    __slots__ = ("run",)

    run: Run | None

    def __init__(self) -> None:
        super().__init__("outside")

    def __enter__(self) -> None:
        self.changes = {
            "backend": None,
            "tapes": (),
            "observers": _bystanders(current()),
            "overrides": None,
            "level": None,
            "precision": None,
        }
        super().__enter__()
        self.run = running()
        set_running(None)

    def __exit__(self, *error: object) -> None:
        is_innermost = current() is self.inside
        super().__exit__(*error)
        if is_innermost:  # else another context, or a later scope, has its own run
            set_running(self.run)

    def copy(self) -> Scope:
        return _Outside()


def _bystanders(context: Context) -> tuple[Any, ...]:
    """Return the observers that are notified of what runs in the block.

    The method ``outside`` of each surrounding observer makes one; the surrounding
    observers include those that ``vmap`` hides.
    """
    observers = context.observers
    while context.level is not None:
        context = context.level.context
        observers += context.observers
    makers = [getattr(observer, "outside", None) for observer in observers]
    return tuple([make() for make in makers if make is not None])
