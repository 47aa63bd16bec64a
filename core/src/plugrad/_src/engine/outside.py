"""``outside``: a block that no surrounding scope reaches.

Contents: ``outside``; the scope that it returns; the observers of the runs in it.
"""

from __future__ import annotations

from typing import Any

from .context import Context, Run, Scope, UserScope, current, running, set_running

__all__ = ["outside"]


def outside() -> UserScope:
    """Return a context manager whose block runs apart from the scopes around it.

    Inside the ``with`` block, no surrounding tape, ``vmap``, ``profile``, ``debug``,
    ``tidy`` or ``jit`` is in force, nor any backend, precision or gradient that a
    surrounding block has chosen: code runs as at the start of the program, on the
    default backend of the process. Use it to log or debug in the middle of a function,
    or to load, once, data that must outlive the call. It is also a decorator.

    Results of the block are constants for the surrounding code: no gradient flows
    through them. ``jit`` does not record the block, and a replay does not repeat it. If
    the block uses tensors that change from call to call, the jitted function is not
    replayed but runs eagerly, so that its results stay correct.

    Returns:
        A context manager.

    Raises:
        ValueError: In the block, if it uses a tensor that a surrounding ``vmap`` maps,
            because its values differ between the examples.

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
        if is_innermost:  # otherwise, another context or an inner scope sets the run
            set_running(self.run)

    def copy(self) -> Scope:
        return _Outside()


def _bystanders(context: Context) -> tuple[Any, ...]:
    """Return the observers of the runs in the block.

    The method ``outside`` of each surrounding observer returns one of them. The
    surrounding observers include those that ``vmap`` hides.
    """
    observers = context.observers
    while context.level is not None:
        context = context.level.context
        observers += context.observers
    makers = [getattr(observer, "outside", None) for observer in observers]
    return tuple([make() for make in makers if make is not None])
