"""What is in force: the active backend, tapes, observers and overrides, by scopes.

Map: ``Run`` (what observers may ask); ``Context`` and where it is kept; ``Scope``,
which changes it for a block; telling observers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, NamedTuple

from ._entries import OpenBackend
from ._kernel import Kernel, Rules
from ._registry import registry
from ._tape import Outputs, Plan, Tape
from ._tensor import Tensor


class Move(NamedTuple):
    """Values that went from one backend to another."""

    source: str
    target: str
    bytes: int
    start: float
    seconds: float


class Run:
    """A run that somebody observes; ``state.run`` while it goes on.

    Attributes:
        kernel: Its contract; ``plugrad.To`` for ``x.to(backend)``.
        backend: The active one.
        parent: The run in whose decomposition this one happens, or None.
        how: "implementation", "decomposition", "host" or "fallback".
        where: The backend that did the work.
        start: In seconds of ``perf_counter``.
        seconds: From start to end, with the runs inside.
        inner: The seconds of those, their observers included.
        moves: The values that had to be moved for it.

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

    def __init__(self, kernel: Kernel, backend: OpenBackend, parent: Run | None):
        self.kernel = kernel
        self.backend = self.where = backend
        self.parent = parent
        self.how = "implementation"
        self.moves: list[Move] = []
        self.seconds = self.inner = 0.0
        self.start = perf_counter()


class Overrides:
    """The gradients that the scopes of a thread put over all others, inner last.

    Each layer holds for one backend, or for all of them (None).
    """

    def __init__(
        self, layers: tuple[tuple[str | None, Mapping[str, Rules]], ...]
    ) -> None:
        self.layers = layers
        self.plans: dict[tuple[Any, ...], Plan | None] = {}
        self.under = registry.plans  # another object once a gradient has changed


class Context:
    """What scopes decide, for a thread or, outside of all scopes, for the process.

    Attributes:
        backend: The active backend; None leaves the choice to the process' default.
        tapes: They record runs, outermost first.
        observers: Called after a run with its kernel, inputs, attributes and outputs;
            ``state.run`` tells more. Methods ``made``, ``keep`` and ``failed``, if any,
            are told what no run has made, what outlives its block, a run's error.
        overrides: Gradients over all others.
        ready: The active backend while nobody watches, else None: for fast paths.
        tape: The tape, if there is one and nobody else watches: for the fast path.

    """

    __slots__ = ("backend", "observers", "overrides", "ready", "tape", "tapes")

    def __init__(
        self,
        backend: OpenBackend | None = None,
        tapes: tuple[Tape, ...] = (),
        observers: tuple[Callable[..., None], ...] = (),
        overrides: Overrides | None = None,
    ) -> None:
        self.backend = backend
        self.tapes = tapes
        self.observers = observers
        self.overrides = overrides
        self.ready = self.tape = None
        if not tapes and not observers:
            self.ready = backend or State.context.backend
        elif len(tapes) == 1 and not observers:
            self.tape = tapes[0]


class State(threading.local):
    """The context of each thread; that of the class is the process' default.

    ``run`` is the run that this thread is in, as far as anybody observes it.
    """

    context: Context
    run: Run | None = None


state = State()
State.context = Context.__new__(Context)  # whose __init__ asks for the default
State.context.__init__()  # type: ignore[misc]


def make_default(backend: OpenBackend | None) -> None:
    """Make ``backend`` the process' default; None leaves the choice open."""
    State.context = Context()  # the old default must not come in its place
    State.context = Context(backend)


class Scope:
    """Change some of the context, in this thread, inside the ``with`` block."""

    __slots__ = ("before", "changes", "inside")

    def __init__(self, **changes: Any) -> None:
        self.changes = changes

    def __enter__(self) -> None:
        self.before = vars(state).get("context")
        now, changes = state.context, self.changes
        self.inside = state.context = Context(
            changes.get("backend", now.backend if self.before else None),
            changes.get("tapes", now.tapes),
            changes.get("observers", now.observers),
            changes.get("overrides", now.overrides),
        )

    def __exit__(self, *_: object) -> None:
        if state.context is not self.inside:
            raise RuntimeError(
                "scopes of plugrad (use_backend, override_gradient, ...) must be left "
                "in the reverse order in which they were entered, by the same thread"
            )
        if self.before is None:
            del state.context
        else:
            state.context = self.before


def tapes() -> tuple[Tape, ...]:
    """Return the tapes of this thread, outermost first."""
    return state.context.tapes


def taping(tapes: tuple[Tape, ...]) -> Scope:
    """Record on exactly these tapes inside the block; observers go on."""
    return Scope(tapes=tapes)


def call(tapes: tuple[Tape, ...], f: Callable[..., Any], xs: Sequence[Any]) -> Any:
    """Return ``f(*xs)``, run inside ``taping(tapes)``; half the price of the scope."""
    before, now = vars(state).get("context"), state.context
    backend = now.backend if before else None
    inside = Context(backend, tapes, now.observers, now.overrides)
    state.context = inside
    try:
        return f(*xs)
    finally:
        if before is None:
            del state.context
        else:
            state.context = before


def observing(observer: Callable[..., None]) -> Scope:
    """Call ``observer`` after every run inside the block."""
    return Scope(observers=(*state.context.observers, observer))


def observed_run(
    work: Callable[..., Outputs],
    kernel: Kernel,
    backend: OpenBackend,
    inputs: tuple[Any, ...],
    attrs: dict[str, Any],
) -> Outputs:
    """Return ``work(kernel, inputs, attrs, True)``, and tell the observers."""
    parent = state.run
    state.run = run = Run(kernel, backend, parent)
    try:
        outputs = work(kernel, inputs, attrs, True)
        run.seconds = perf_counter() - run.start
    except Exception as error:
        tell("failed", error)
        raise
    else:
        for observer in state.context.observers:
            observer(kernel, inputs, attrs, outputs)
    finally:
        state.run = parent
        if parent is not None:
            parent.inner += perf_counter() - run.start
    return outputs


def keep(x: Tensor) -> Tensor:
    """Tell the observers of this thread that ``x`` outlives their blocks."""
    tell("keep", x)
    return x


def tell(what: str, value: object) -> None:
    """Call the method ``what`` of the observers of this thread that have one."""
    for observer in state.context.observers:
        told = getattr(observer, what, None)
        if told is not None:
            told(value)
