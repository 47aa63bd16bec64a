"""Scopes: the active backend, tapes, observers and overrides in force.

A Python context variable contains them. An asyncio task sees its own scopes and those
in which it was created. So does a thread if threads inherit the context
(``sys.flags.thread_inherit_context``); otherwise a thread starts without scopes. To run
a function in another thread inside the current scopes, run it in a copy of the context:
``executor.submit(contextvars.copy_context().run, function)``.

Contents: ``Run`` (what observers can read); ``Context``, and the variable that contains
it; ``Scope``, which changes it for a block; notifying observers.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, Token
from time import perf_counter
from typing import Any, NamedTuple, TypeVar, cast

from plugrad._src.registry.backend import OpenBackend
from plugrad._src.registry.contract import Kernel
from plugrad._src.tensor import arguments
from plugrad._src.tensor.tensor import Tensor

from .layers import Overrides
from .sites import joined
from .tape import Outputs, Tape

F = TypeVar("F", bound=Callable[..., Any])


class Move(NamedTuple):
    """Values moved from one backend to another."""

    source: str
    target: str
    bytes: int
    start: float
    seconds: float


class Run:
    """A run that is observed; ``running()`` returns it while it lasts.

    Attributes:
        kernel: Its contract; ``plugrad.To`` for ``x.to(backend)``.
        backend: The active one.
        parent: The run whose decomposition contains this one, or None.
        how: "implementation", "decomposition", "host" or "fallback"; "region" where
            ``jit`` runs kernels as one function.
        where: The backend that did the work.
        start: The start, in seconds of ``perf_counter``.
        seconds: The duration, including nested runs.
        inner: The duration of the nested runs and their observers, in seconds.
        moves: The values that had to be moved between backends for this run.

    """

    __slots__ = (
        "backend",
        "how",
        "inner",
        "kernel",
        "moves",
        "parent",
        "seconds",
        "start",
        "where",
    )

    backend: OpenBackend
    how: str
    inner: float
    kernel: Kernel
    parent: Run | None
    seconds: float
    start: float
    where: OpenBackend

    def __init__(self, kernel: Kernel, backend: OpenBackend, parent: Run | None):
        self.kernel = kernel
        self.backend = self.where = backend
        self.parent = parent
        self.how = "implementation"
        self.moves: list[Move] = []
        self.seconds = self.inner = 0.0
        self.start = perf_counter()


class Context:
    """The state of all scopes around one place in the program.

    A context never changes, except ``PROCESS``, the defaults of the process.

    Attributes:
        backend: The active backend; None leaves the choice to ``PROCESS``.
        tapes: The tapes that record runs, outermost first.
        observers: Called after a run with its kernel, inputs, attributes and outputs;
            ``running()`` returns more details. An observer may have these methods.
            ``made`` is called with each tensor that no run has made, ``keep`` with each
            tensor that outlives the block, ``failed`` with the error of a run, and
            ``read`` with a description if values that are being differentiated are
            read. ``gradient`` returns a context manager in which one gradient is
            computed. ``outside`` returns an observer for an ``outside()`` block, which
            hides all other observers.
        overrides: The gradients that override all others.
        precision: The precision of float32 products; None leaves it to ``PROCESS``.
        quiet: Whether there is neither a tape nor an observer; for the fast paths.
        tape: The tape, if there is exactly one and no observer; for the fast path.
        level: The innermost running ``vmap``, or None.
        scope: The names of the ``name_scope`` blocks, joined by ``/``.
        under: The context in which the innermost scope was entered.
        changes: The changes of that scope; the identity of this dict identifies it.

    """

    __slots__ = (
        "backend",
        "changes",
        "level",
        "observers",
        "overrides",
        "precision",
        "quiet",
        "scope",
        "tape",
        "tapes",
        "under",
    )

    def __init__(self, under: Context, changes: Mapping[str, Any]) -> None:
        self.under: Context = under
        self.changes: Mapping[str, Any] = changes
        self.backend: OpenBackend | None = changes.get("backend", under.backend)
        self.tapes: tuple[Tape, ...] = changes.get("tapes", under.tapes)
        self.level: Any = changes.get("level", under.level)
        self.scope: str = changes.get("scope", under.scope)
        self.precision: str | None = changes.get("precision", under.precision)
        self.observers: tuple[Callable[..., None], ...]
        self.observers = changes.get("observers", under.observers)
        if "observer" in changes:
            self.observers += (changes["observer"],)
        self.overrides: Overrides | None = changes.get("overrides", under.overrides)
        if "override" in changes:
            self.overrides = changes["override"].stacked_on(under.overrides)
        if "name" in changes:
            self.scope = joined(under.scope, changes["name"])
        self._see_who_watches()

    def _see_who_watches(self) -> None:
        tapes, observers = self.tapes, self.observers
        self.quiet: bool = not tapes and not observers
        self.tape: Tape | None = tapes[0] if len(tapes) == 1 and not observers else None

    def without(self, other: Context) -> Context | None:
        """Return this context without the scope that made ``other``.

        Return None if this context is not inside that scope.
        """
        if self.changes is other.changes:
            return self.under
        under = None if self is OUTERMOST else self.under.without(other)
        return None if under is None else Context(under, self.changes)

    def undo(self) -> None:
        """Undo the changes in place: the scope was left in another thread or task."""
        for name in self.__slots__:
            if name not in ("under", "changes"):
                setattr(self, name, getattr(self.under, name))
        self.changes = {}


OUTERMOST = Context.__new__(Context)  # outside of all scopes
OUTERMOST.backend = None
OUTERMOST.overrides = None
OUTERMOST.under = OUTERMOST
OUTERMOST.level, OUTERMOST.precision = None, None
OUTERMOST.scope = ""
OUTERMOST.tapes = ()
OUTERMOST.observers = ()
OUTERMOST.changes = {}
OUTERMOST._see_who_watches()

# The defaults of the process, in force unless a scope chooses otherwise. A scope copies
# its fields from ``OUTERMOST`` when it is entered, but these defaults may change later.
PROCESS = Context(OUTERMOST, {"precision": "float32"})

# A context variable: threads and tasks of asyncio have contexts of their own.
_current: ContextVar[Context] = ContextVar("plugrad", default=OUTERMOST)
_running: ContextVar[Run | None] = ContextVar("plugrad.run", default=None)
current = _current.get  # the context of the caller
running = _running.get  # the run around the caller; None if none is observed
set_running = _running.set
set_current = _current.set


def copied(under: Context, changes: Mapping[str, Any]) -> Context:
    """Return a context inside ``under``; the caller must change its slots accordingly.

    This takes half the time of ``Context(under, changes)``.
    """
    inside = Context.__new__(Context)
    inside.under = under
    inside.changes = changes
    inside.backend, inside.overrides = under.backend, under.overrides
    inside.level, inside.precision = under.level, under.precision
    inside.scope, inside.tapes = under.scope, under.tapes
    inside.observers = under.observers
    inside.quiet, inside.tape = under.quiet, under.tape
    return inside


class _InThread(threading.local):
    """The state of a thread, shared by all contexts in which it runs.

    Attributes:
        hook: The object that collects the code that runs; paused while kernels run.

    """

    hook: Any = None


in_thread = _InThread()


def make_default(backend: OpenBackend | None) -> None:
    """Make ``backend`` the default of the process; None resets it."""
    PROCESS.backend = backend


class Scope:
    """Change parts of the context inside the ``with`` block.

    The change is visible to the thread, or the asyncio task, that enters the block.
    Each scope undoes its own change, in whichever order scopes are left.
    """

    __slots__ = ("changes", "inside", "token")

    def __init__(self, **changes: Any) -> None:
        self.changes: dict[str, Any] = changes
        self.inside: Context | None = None
        self.token: Token[Context] | None = None

    def __jit_state__(self) -> tuple[Any, ...]:
        """Return what the user put into this scope: backends, gradients, observers."""
        return tuple(self.changes.values())

    def __enter__(self) -> None:
        if self.inside is not None:
            raise RuntimeError(
                "this scope of plugrad (use_backend, override_gradient, ...) has been "
                "entered already; create a new one for a nested block"
            )
        self.inside = Context(current(), self.changes)
        self.token = _current.set(self.inside)

    def __exit__(self, *_: object) -> None:
        inside, token = self.inside, self.token
        self.inside = self.token = None
        if inside is None or token is None:
            raise RuntimeError("this scope of plugrad has not been entered")
        now = current()
        rest = inside.under if now is inside else now.without(inside)
        try:
            _current.reset(token)
            if now is inside:
                return
        except ValueError:  # it was entered in another thread or task
            inside.undo()
        if rest is None:
            inside.undo()
        # If there is a ``rest``, an inner scope ends later, as in a suspended
        # generator.
        _current.set(now if rest is None else rest)


class UserScope(Scope):
    """A scope for users: also a decorator, with a warning if it is never entered.

    As a decorator it is in force while the function runs, even an ``async`` one.
    """

    __slots__ = ("__weakref__", "entered", "what")

    def __init__(self, what: str, **changes: Any) -> None:
        self.what: str = what
        self.entered: bool = False
        super().__init__(**changes)

    def __enter__(self) -> None:
        self.entered = True
        super().__enter__()

    def copy(self) -> Scope:
        """Return a new scope that does the same."""
        return Scope(**self.changes)

    def __call__(self, function: F) -> F:
        """Return a function that runs ``function`` inside this scope."""
        self.entered = True
        return decorated(self.what, self.copy, function)

    def __del__(self) -> None:
        if not getattr(self, "entered", True):  # True if __init__ has failed
            warnings.warn(
                f"{self.what}(...) changes nothing by itself; write `with "
                f"{self.what}(...):`, or use it as a decorator",
                RuntimeWarning,
                stacklevel=2,  # at the line that drops the last reference
            )


def decorated(what: str, copy: Callable[[], Scope], function: F) -> F:
    """Return a function that runs each call of ``function`` inside a new scope."""
    import inspect  # only for decorators

    arguments.function(what, function)
    kinds = inspect.isgeneratorfunction, inspect.isasyncgenfunction
    if any(is_kind(function) for is_kind in kinds):
        raise TypeError(
            f"{what}: cannot decorate a generator, which pauses while the scope is in "
            "force; use `with` inside it, around code without yield"
        )

    @functools.wraps(function)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with copy():
            return function(*args, **kwargs)

    @functools.wraps(function)
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        with copy():
            return await function(*args, **kwargs)

    return cast("F", awaited if inspect.iscoroutinefunction(function) else inside)


def tapes() -> tuple[Tape, ...]:
    """Return the tapes in force, outermost first."""
    return current().tapes


def all_tapes(context: Context) -> tuple[Tape, ...]:
    """Return the tapes of a context, and those that ``vmap`` hides in it."""
    found = context.tapes
    while context.level is not None:
        context = context.level.context
        found += context.tapes
    return found


def made_outside(x: Tensor) -> bool:
    """Return whether a ``vmap`` is running and ``x`` was made outside of it."""
    level = current().level
    return level is not None and cast("Any", x._home).depth < level.depth


def taping(tapes: tuple[Tape, ...]) -> Scope:
    """Record on exactly these tapes inside the block; observers continue."""
    return Scope(tapes=tapes)


def call(tapes: tuple[Tape, ...], f: Callable[..., Any], xs: Sequence[Any]) -> Any:
    """Return ``f(*xs)``, run inside ``taping(tapes)``."""
    before = current()
    inside = copied(before, {"tapes": tapes})
    inside.tapes = tapes
    inside._see_who_watches()
    _current.set(inside)
    try:
        return f(*xs)
    finally:
        if current() is inside:
            _current.set(before)
        else:  # f has left a scope open, for example in a suspended generator
            _current.set(current().without(inside) or before)


class switched:
    """Inside the block, switch to ``context``, which surrounds the current context."""

    __slots__ = ("before", "context")

    def __init__(self, context: Context) -> None:
        self.context = context

    def __enter__(self) -> Context:
        self.before = current()
        _current.set(self.context)
        return self.context

    def __exit__(self, *_: object) -> None:
        _current.set(self.before)


def lifted(backend: OpenBackend) -> OpenBackend:
    """Return ``backend`` or, inside ``vmap``, the batching backend over it."""
    level = current().level
    return backend if level is None else cast("OpenBackend", level.lifted(backend))


def observed_run(
    work: Callable[..., Outputs],
    kernel: Kernel,
    backend: OpenBackend,
    inputs: tuple[Any, ...],
    attrs: dict[str, Any],
) -> Outputs:
    """Return ``work(kernel, inputs, attrs, True)``, and notify the observers."""
    parent = running()
    hook = in_thread.hook
    run = Run(kernel, backend, parent)
    _running.set(run)
    if hook is not None:
        hook.pause()
    try:
        outputs = work(kernel, inputs, attrs, True)
        run.seconds = perf_counter() - run.start
    except Exception as error:
        notify("failed", error)
        raise
    else:
        for observer in current().observers:
            observer(kernel, inputs, attrs, outputs)
    finally:
        _running.set(parent)
        if hook is not None:
            hook.resume()
        if parent is not None:
            parent.inner += perf_counter() - run.start
    return outputs


def notify_kept(x: Tensor) -> Tensor:
    """Notify the observers in force that ``x`` outlives their blocks."""
    notify("keep", x)
    return x


def notify(what: str, value: object) -> None:
    """Call the method ``what`` of each observer in force that has it."""
    for observer in current().observers:
        method = getattr(observer, what, None)
        if method is not None:
            method(value)


def notify_outer(what: str, *values: object) -> Any:
    """Call the method ``what`` of the observers that are in force outside any ``vmap``.

    Returns:
        The result from the last observer that has the method; None if none has it.

    """
    context = current()
    answer = None
    while context.level is not None:  # which hides observers
        context = context.level.context
    for observer in context.observers:
        method = getattr(observer, what, None)
        if method is not None:
            answer = method(*values)
    return answer
