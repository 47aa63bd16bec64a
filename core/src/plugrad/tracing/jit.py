"""``jit``: a function whose calls are recorded once and replayed.

Map: ``jit``; ``Jitted``, the function; ``Explanation``.
"""

from __future__ import annotations

import functools
import inspect
import os
import threading
import warnings
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar, cast, overload

from plugrad.engine.context import current
from plugrad.engine.dispatch import active
from plugrad.registry.contract import origin
from plugrad.registry.deprecation import outside
from plugrad.registry.registry import registry
from plugrad.tensor import arguments
from plugrad.tensor.tensor import Tensor

from .graph import DRAW, MOVE, Graph, Step
from .program import MISS, Call, Program
from .recorder import Recorded, plain
from .regions import Region
from .signature import Signature, difference, donated, signature

P = ParamSpec("P")
R = TypeVar("R", covariant=True)
KEPT = 64  # recordings of a function
TRIED = 8  # of these, how many check a call themselves before its key is computed
PATIENCE = 8  # retraces, after which one warning is due


@overload
def jit(
    f: Callable[P, R],
    *,
    static: Sequence[int | str] = (),
    donate: Sequence[int | str] = (),
    strict: bool = False,
) -> Jitted[P, R]: ...
@overload
def jit(
    f: None = None,
    *,
    static: Sequence[int | str] = (),
    donate: Sequence[int | str] = (),
    strict: bool = False,
) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...
def jit(
    f: Any = None, *, static: Any = (), donate: Any = (), strict: bool = False
) -> Any:
    """Return ``f`` as a function whose kernels are recorded once and then replayed.

    The first call with arguments of some shapes and dtypes runs ``f`` as it is. Later
    calls run only the kernels of the first one. If something forbids that (``item()``,
    an ``if`` on values, shapes that depend on values), ``f`` runs as it is each time;
    ``explain`` says why. ``PLUGRAD_JIT=0`` switches it off. It is also a decorator.

    Args:
        f: A function of tensors, numbers, text and trees of them (``plugrad.tree``).
        static: Positions and names of arguments that are compared as one value, and may
            be any hashable object.
        donate: Positions and names of arguments whose tensors the call uses up: it
            frees the memory of each after its last use. To use one later is an error.
        strict: Whether what forbids replay is an error.

    Returns:
        A function of the same arguments. ``explain(*args)`` returns what is replayed
        for these arguments, and ``clear()`` forgets all calls.

    Raises:
        TypeError: ``f`` is not a plain function, or ``static`` or ``donate`` does not
            fit it; in a call, if an argument is of a class that ``jit`` does not know.
        ValueError: In a call, with ``strict``, if it cannot be replayed.

    Example:
        >>> @pg.jit
        ... def norm(x):
        ...     return pg.sqrt(pg.sum(x * x))
        >>> norm(pg.asarray([3.0, 4.0])).item(), norm(pg.asarray([6.0, 8.0])).item()
        (5.0, 10.0)

    Source:
        ``jax.jit``.

    """
    if f is None:
        return functools.partial(jit, static=static, donate=donate, strict=strict)
    return Jitted(f, static, donate, strict)


class Jitted(Generic[P, R]):
    """A function under ``jit``."""

    __wrapped__: Callable[P, R]

    def __init__(
        self, f: Callable[P, R], static: Any, donate: Any, strict: bool
    ) -> None:
        arguments.function("jit", f)
        for kind in ("coroutine", "generator", "asyncgen"):
            if getattr(inspect, f"is{kind}function")(inspect.unwrap(f)):
                raise TypeError(f"jit: f must return its result, and is a {kind}")
        functools.update_wrapper(self, f, updated=())  # not the attributes of an object
        self._f, self._strict = f, arguments.flag("jit", "strict", strict)
        self._name = getattr(f, "__qualname__", type(f).__name__)
        self._static = set(_named("static", f, static))
        self._donate = _named("donate", f, donate)
        if both := self._static.intersection(self._donate):
            what = ", ".join({self._donate[name] for name in both})
            raise TypeError(f"jit: {what} is in static and in donate; name it in one")
        self._lock = threading.RLock()
        self._off = os.environ.get("PLUGRAD_JIT") == "0"
        self.clear()

    def clear(self) -> None:
        """Forget all recorded calls."""
        self._entries: tuple[Recorded, ...] = ()  # the latest first
        self._retraces: list[str] = []
        self._calls: tuple[Call, ...] = ()
        if self._off:
            self._calls = (lambda args, kwargs: self._f(*args, **kwargs),)

    def __set_name__(self, owner: type, name: str) -> None:
        self._static |= {0}  # self

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return ``f(*args, **kwargs)``: replay it if a call like it was recorded."""
        for call in self._calls:
            result = call(args, kwargs)
            if result is not MISS:
                return cast("R", result)
        return cast("R", self._found(args, kwargs))

    def explain(self, *args: P.args, **kwargs: P.kwargs) -> Explanation:
        """Return what is replayed for these arguments; call ``f`` if none is yet.

        Returns:
            An ``Explanation``: ``print`` shows the kernels and who runs them, what has
            been recorded anew and why, or why ``f`` runs as it is. ``to_dict()`` has
            the same for JSON, and ``graph.to_dot()`` draws the graph.

        """
        if self._off or _is_inside():
            why = "PLUGRAD_JIT=0" if self._off else "under a tape, an observer or vmap"
            return Explanation(self._name, None, why, 0, [], ())
        entry, sign, why = self._lookup(args, kwargs)
        if entry is None:
            self._record(sign, why, explained=True)
            entry = self._entries[0]
        program, why, again = self._loaded(entry), entry.reason, [*self._retraces]
        found = tuple([item for item in program.plan if isinstance(item, Region)])
        return Explanation(self._name, program.graph, why, entry.recorded, again, found)

    # --- calls that no entry takes -----------------------------------------------

    def _lookup(self, args: Any, kwargs: Any) -> tuple[Recorded | None, Signature, str]:
        """Return the entry for a call, its signature, and why there is no entry."""
        sign = signature(args, kwargs, self._static, active())
        fitting = [e for e in self._entries if e.sign.key == sign.key]
        stale = [(e.stale(), e) for e in fitting]
        valid = [e for why, e in stale if not why]
        why = difference(self._entries[0].sign, sign) if self._entries else ""
        return valid[0] if valid else None, sign, stale[0][0] if stale else why

    def _found(self, args: Any, kwargs: Any) -> Any:
        if _is_inside():
            return self._f(*args, **kwargs)
        entry, sign, why = self._lookup(args, kwargs)
        if entry is None:
            return self._record(sign, why)
        program = self._loaded(entry)
        self._remember(entry)
        if entry.graph is None:
            return self._f(*plain(sign.args), **plain(sign.kwargs))
        run = program.observed if current().observers else program.finish
        return run(*[x for x in sign.leaves if type(x) is Tensor])

    def _record(self, sign: Signature, why: str, explained: bool = False) -> Any:
        """Run a call for the first time, and remember what it did."""
        if why:
            self._retraces = [*self._retraces[-KEPT:], why]
        if why and len(self._retraces) == PATIENCE + 1:
            remedy = "see explain(...).retraces"
            if ": float " in why:
                remedy = "pass pg.asarray(x) in place of a Python float x"
            text = f"has been recorded {PATIENCE + 2} times, now because of {why}"
            text = f"jit: {self._name} {text}; {remedy}"
            warnings.warn(text, RuntimeWarning, stacklevel=outside())
        used_up = donated(sign, self._donate, self._name) if self._donate else {}
        entry = Recorded(self._f, sign, self._strict, used_up)
        entry.program = Program(entry, self._name)
        value, entry.value = entry.value, None  # the tensors need not live on
        tensors = [x for x in sign.leaves if type(x) is Tensor]
        for n, told in used_up.items() if entry.graph and not explained else ():
            tensors[n].dispose()
            tensors[n]._data = told
        entry.sign = sign._replace(args=(), kwargs={}, leaves=[])
        self._remember(entry)
        return value

    def _loaded(self, entry: Recorded) -> Program:
        """Return the program of a call, compiled."""
        with self._lock:
            if entry.program.call is None:
                entry.program.load()
        return entry.program

    def _remember(self, entry: Recorded) -> None:
        """Put an entry in front."""
        with self._lock:
            others = [e for e in self._entries if e is not entry]
            self._entries = (entry, *others[: KEPT - 1])
            calls = [e.program.call for e in self._entries[:TRIED]]
            self._calls = tuple([call for call in calls if call is not None])


def _named(option: str, f: Callable[..., Any], given: Any) -> dict[int | str, str]:
    """Return the names of some arguments, by their positions and their names."""
    found = dict[int | str, str]()
    for one in (given,) if isinstance(given, int | str) else given:
        names = [*inspect.signature(f).parameters]
        at = names.index(one) if one in names else one
        if not isinstance(at, int) or not 0 <= at < len(names):
            raise TypeError(f"jit: {option} has {one!r}, f takes {', '.join(names)}")
        found |= dict.fromkeys((at, names[at]), names[at])
    return found


def _is_inside() -> bool:
    """Return whether a call is part of something larger that sees each kernel."""
    context = current()
    seen = [o for o in context.observers if not getattr(o, "sees_regions", False)]
    return bool(context.tapes or seen or context.level is not None)


class Explanation(NamedTuple):
    """What runs for a call of a function under ``jit``.

    Attributes:
        name: The function.
        graph: The kernels that are replayed; None if the function runs as it is.
        reason: Why it runs as it is; empty if kernels are replayed.
        recorded: How many runs were recorded, before the passes.
        retraces: For each call that was recorded after the first, what differed.
        regions: The parts of the graph that a compiler has made one function of: each
            has its ``graph``, ``by`` whom, and the bytes ``saved`` in a call, which are
            those of intermediate results that are not written to memory.

    """

    name: str
    graph: Graph | None
    reason: str
    recorded: int
    retraces: list[str]
    regions: tuple[Region, ...]

    def _by(self, step: Step) -> str:
        """Return who runs a step: the number of its region, or what runs the kernel."""
        for n, region in enumerate(self.regions, 1):
            if step.outputs[0] in {s.outputs[0] for s in region.graph.steps}:
                return f"region {n}"
        return _who(step)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values, for JSON."""
        g, found = self.graph, self.regions
        rows = [g._row(s) | {"by": self._by(s)} for s in g.steps] if g else []
        parts = [{"by": r.by, "kernels": len(r.steps), "saved": r.saved} for r in found]
        return self._asdict() | {"graph": rows, "regions": parts}

    def __repr__(self) -> str:
        lines = [f"{self.name} runs as it is: {self.reason}"]
        if self.graph is not None:
            count = len(self.graph.steps)
            lines = [f"{self.name} replays {count} of {self.recorded} kernels"]
            lines += [f"  {line}" for line in self.graph._lines(self._by)]
        for n, r in enumerate(self.regions, 1):
            count = len(r.steps)
            what = f"{count} kernel{'s' * (count > 1)}, compiled by {r.by}"
            saved = f"; {r.saved:,} bytes are not written to memory" if r.saved else ""
            lines.append(f"region {n}: {what}{saved}")
        return "\n".join([*lines, *[f"recorded again: {w}" for w in self.retraces]])


def _who(step: Step) -> str:
    """Return the owner and the place of what runs a step."""
    if step.kernel in (MOVE, DRAW):
        return "plugrad"
    layer = registry.kernels[step.kernel.name, step.backend][0]
    return origin(layer.function, str(layer.owner))
