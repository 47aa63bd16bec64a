"""``jit``: record the calls of a function, and replay them once two did the same.

Contents: ``jit``; ``Jitted``, the function; ``Attempts``.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from types import MethodType
from typing import Any, Generic, ParamSpec, TypeVar, Unpack, cast, overload

from plugrad._src.engine.code import python_function
from plugrad._src.engine.context import current
from plugrad._src.engine.dispatch import active
from plugrad._src.engine.places import Slot
from plugrad._src.engine.precision import get_precision
from plugrad._src.engine.references import PROTOCOL
from plugrad._src.registry.deprecation import outside
from plugrad._src.tensor import arguments
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor

from .checking import check_replay
from .difference import Differ
from .explanation import JitExplanation
from .program import MISS, Call, ReplayProgram, is_signal
from .recorder import not_replayable
from .recording import Attempts, Recording, without_static
from .regions import Region, RegionPlan, compiled
from .signature import Signature, difference, donated, signature

P = ParamSpec("P")
R = TypeVar("R", covariant=True)
MAX_RECORDINGS = 64  # per function
MAX_FAST_CALLS = 8  # programs to try before the key of a call is computed
MAX_RETRACES = 8  # calls recorded anew without a warning; the next one warns
MAX_SLOTS = 4096  # captured tensors that become inputs, per function
MAX_ATTEMPTS = 8  # recordings of a signature, no two in a row the same
FIRST_REST_CALLS = 16  # calls that run eagerly after these attempts; doubled each time
MAX_REST_CALLS = 4096
# Values of environment variables that switch a feature off.
OFF = frozenset({"0", "false", "no", "off"})


@overload
def jit(
    f: Callable[P, R],
    *,
    static: Sequence[int | str] = (),
    donate: Sequence[int | str] = (),
    strict: bool = False,
    check: bool = False,
    frozen: Sequence[str] = (),
) -> Jitted[P, R]: ...
@overload
def jit(
    f: None = None,
    *,
    static: Sequence[int | str] = (),
    donate: Sequence[int | str] = (),
    strict: bool = False,
    check: bool = False,
    frozen: Sequence[str] = (),
) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...
def jit(
    f: Any = None,
    *,
    static: Any = (),
    donate: Any = (),
    strict: bool = False,
    check: bool = False,
    frozen: Any = (),
    **unknown: Unpack[Nothing],
) -> Any:
    """Return ``f`` as a function whose kernels are recorded and then replayed.

    The first two calls with given shapes and dtypes run ``f`` eagerly. If both did the
    same, later calls run only their kernels. If something prevents that (``item()``, an
    ``if`` on values, shapes that depend on values), ``f`` runs eagerly each time;
    ``explain`` says why. ``PLUGRAD_JIT=0`` switches ``jit`` off. ``jit`` is also a
    decorator.

    Args:
        f: A function of tensors, numbers, text and trees of them (``plugrad.tree``).
        static: Positions and names of arguments that are compared by value; they may be
            any hashable objects.
        donate: Positions and names of arguments whose tensors the call uses up: it
            frees the memory of each tensor after its last use. Using one of these
            tensors after the call is an error.
        strict: Whether a call that cannot be replayed is an error.
        check: Whether each call runs ``f`` and compares the run with a replay;
            ``PLUGRAD_JIT_CHECK=1`` sets it for all functions. This finds state that
            ``f`` reads and ``jit`` does not compare.
        frozen: The names of packages whose state calls do not depend on: their
            modules, functions, classes and objects are not compared before a replay.

    Returns:
        A function with the same arguments. ``explain(*args)`` describes the replay for
        these arguments, and ``clear()`` forgets all calls.

    Raises:
        TypeError: ``f`` is not a plain function, or ``static`` or ``donate`` does not
            fit it; in a call, if an argument is of a class that ``jit`` does not know.
        ValueError: In a call with ``strict``, if the call cannot be replayed.
        StaleReplay: In a call with ``check``, if a replay would differ.

    Example:
        >>> @pg.jit
        ... def norm(x):
        ...     return pg.sqrt(pg.sum(x * x))
        >>> norm(pg.asarray([3.0, 4.0])).item(), norm(pg.asarray([6.0, 8.0])).item()
        (5.0, 10.0)

    Source:
        ``jax.jit``.

    """
    if unknown:
        raise unexpected(jit, unknown)
    if f is None:
        return functools.partial(
            jit,
            static=static,
            donate=donate,
            strict=strict,
            check=check,
            frozen=frozen,
        )
    return Jitted(f, static, donate, strict=strict, check=check, frozen=frozen)


class Jitted(Generic[P, R]):
    """A function under ``jit``."""

    __wrapped__: Callable[P, R]

    def __init__(
        self,
        f: Callable[P, R],
        static: Any,
        donate: Any,
        *,
        strict: bool,
        check: bool = False,
        frozen: Any = (),
    ) -> None:
        arguments.function("jit", f)
        if (called := python_function(f)) is not None:
            called = inspect.unwrap(called)
            for kind in ("coroutine", "generator", "asyncgen"):
                if getattr(inspect, f"is{kind}function")(called):
                    raise TypeError(
                        f"jit: f must return its result; {kind} functions do not"
                    )
        self._name = type(f).__name__
        for name in functools.WRAPPER_ASSIGNMENTS:
            with suppress(AttributeError):  # no code of a class runs
                setattr(self, name, object.__getattribute__(f, name))
        self._name = vars(self).get("__qualname__", self._name)
        self.__wrapped__ = f
        self._f, self._strict = f, arguments.flag("jit", "strict", strict)
        self._static = set(_argument_names("static", f, static))
        self._donate = _argument_names("donate", f, donate)
        if both := self._static.intersection(self._donate):
            what = ", ".join({self._donate[name] for name in both})
            raise TypeError(
                f"jit: {what} is in both static and donate; name it in one of them"
            )
        self._frozen = arguments.package_names("jit", "frozen", frozen)
        self._lock = threading.RLock()
        self._method: Jitted[P, R] | None = None
        self._off = os.environ.get("PLUGRAD_JIT", "1").lower() in OFF
        checks = os.environ.get("PLUGRAD_JIT_CHECK", "0").lower() not in OFF
        self._check = arguments.flag("jit", "check", check) or checks
        self.clear()

    def clear(self) -> None:
        """Forget all recorded calls."""
        with self._lock:
            self._entries: tuple[Recording, ...] = ()  # the latest first
            self._retraces: list[str] = []
            self._calls: tuple[Call, ...] = ()
            self._attempts: list[Attempts] = []
            self._varying: dict[tuple[int, Any], Slot] = {}
            self._has_warned = False
            if self._method is not None:
                self._method.clear()
        if self._off:
            self._calls = (lambda args, kwargs: self._f(*args, **kwargs),)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if isinstance(self._f, staticmethod):
            return self
        method = self._as_method()
        return method if instance is None else MethodType(method, instance)

    def _as_method(self) -> Jitted[P, R]:
        """Return the same function with a static ``self``, for use as a method.

        It is another object, because the function may also be called as a function.
        """
        if 0 in self._static:
            return self
        if (found := self._method) is not None:
            return found
        with self._lock:
            if self._method is None:
                method = object.__new__(type(self))
                vars(method).update(vars(self))
                method._static = {*self._static, 0}
                method._lock = threading.RLock()
                method.clear()
                self._method = method
            return self._method

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Copy and pickle it like a function: by name if its module defines it."""
        try:
            found = attrgetter(self._name)(sys.modules[self.__module__])
        except (AttributeError, KeyError):
            found = None
        if found is self:
            return self._name
        options = {"static": (*self._static,), "donate": (*self._donate,)}
        flags = {"strict": self._strict, "check": self._check}
        frozen = sorted(self._frozen)
        return functools.partial(jit, **options, **flags, frozen=frozen), (self._f,)

    def __jit_state__(self) -> tuple[Callable[P, R]]:
        """Return the function: a surrounding ``jit`` compares the values it reads."""
        return (self.__wrapped__,)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return ``f(*args, **kwargs)``; replay a recording that matches."""
        for call in self._calls:
            result = call(args, kwargs)
            if result is not MISS:
                return cast("R", result)
        return cast("R", self._call_unmatched(args, kwargs))

    def explain(self, *args: P.args, **kwargs: P.kwargs) -> JitExplanation:
        """Explain the replay for these arguments; call ``f`` if it is not recorded yet.

        Returns:
            A ``JitExplanation``: ``print`` shows the kernels with the code that runs
            them, and why calls were recorded anew, or why ``f`` runs eagerly.
            ``to_dict()`` returns the same for JSON, and ``graph.to_dot()`` draws the
            graph.

        """
        if self._off or _is_inside():
            why = "PLUGRAD_JIT=0" if self._off else "under a tape, an observer or vmap"
            return JitExplanation(self._name, None, why, 0, [], ())
        entry, sign, why = self._lookup(args, kwargs)
        resting = self._resting(sign)
        if resting is not None:
            again = [*self._retraces]
            return JitExplanation(self._name, None, resting.reason, 0, again, ())
        if entry is None:
            entry = self._record(sign, None, why, explained=True)[0]
        graph = entry.graph
        plan = RegionPlan()
        if entry.confirmed:
            program = self._loaded(entry)
            graph, plan = program.graph, program.plan
        elif graph is not None:
            graph, plan = compiled(graph)
        regions = tuple([item for item in plan if isinstance(item, Region)])
        new_values = len(entry.assigned) + len(entry.rebound)
        return JitExplanation(
            self._name,
            graph,
            entry.reason,
            entry.recorded,
            [*self._retraces],
            regions,
            entry.confirmed,
            len(entry.recorder.draft.outputs) - new_values,
        )

    # --- calls that no entry matches ---------------------------------------------

    def _lookup(
        self, args: Any, kwargs: Any
    ) -> tuple[Recording | None, Signature, str]:
        """Return the entry for a call, or None; its signature; why it has no entry."""
        sign = signature(args, kwargs, self._static, active(), get_precision())
        fitting = [e for e in self._entries if e.sign.key == sign.key]
        stale = [(e.stale(sign), e) for e in fitting]
        valid = [e for why, e in stale if not why]
        if valid:  # entries whose captured tensors are arguments match fewer calls
            return max(valid, key=lambda entry: len(entry.shared)), sign, ""
        if fitting:
            slots = {slot.key: slot for slot in fitting[0].replaced()}
            with self._lock:
                found = [*(self._varying | slots).items()]
                self._varying = dict(found[-MAX_SLOTS:])
            return None, sign, stale[0][0]
        latest = self._entries[:1]  # another thread may clear them
        why = difference(latest[0].sign, sign) if latest else ""
        return None, sign, why

    def _call_unmatched(self, args: Any, kwargs: Any) -> Any:
        if _is_inside() and not _is_debugged():
            return self._f(*args, **kwargs)
        entry, sign, why = self._lookup(args, kwargs)
        resting = self._resting(sign)
        if resting is not None:
            resting.calls -= 1
            return self._run(sign)
        if entry is None or not entry.confirmed:
            return self._record(sign, entry, why)[1]
        if entry.graph is None:
            self._loaded(entry)
            self._remember(entry)
            return self._run(sign)
        if self._check or _is_debugged():
            return self._checked(entry, sign)
        return self._replay(entry, sign)

    def _run(self, sign: Signature) -> Any:
        """Run the function eagerly."""
        return self._f(*without_static(sign.args), **without_static(sign.kwargs))

    def _replay(self, entry: Recording, sign: Signature) -> Any:
        """Replay the first call, or an observed one, without ``ReplayProgram.call``."""
        program = self._loaded(entry)
        self._remember(entry)
        tensors = [x for x in sign.leaves if type(x) is Tensor]
        tensors += [slot.read() for slot in entry.inputs]
        run = program.observed if current().observers else program.finish
        try:
            return run(*tensors)
        except Exception as error:
            if not program.runs_again or is_signal(error):
                raise
        return self._run(sign)

    def _record(
        self,
        sign: Signature,
        before: Recording | None,
        why: str,
        explained: bool = False,
    ) -> tuple[Recording, Any]:
        """Run a call, and remember its recording.

        Args:
            sign: Its signature.
            before: An earlier recording that this one may confirm, or None.
            why: The difference from earlier calls; empty if there is none.
            explained: Whether ``explain`` runs the call; then donated tensors stay.

        Returns:
            The recording, and what the function returned.

        """
        if why:
            self._note_retrace(why)
        messages = donated(sign, self._donate, self._name) if self._donate else {}
        entry = Recording(
            self._f,
            sign,
            strict=self._strict,
            donated=messages,
            varying=self._varying.values(),
            with_lines=before is not None,
            frozen=self._frozen,
        )
        self._settle(entry, before)
        value = entry.value
        if entry.confirmed:
            entry.program = ReplayProgram(entry, self._name)
            entry.recorder.release()
        entry.value = None  # frees the tensors of the result
        if entry.reason == "" and not explained:
            _empty_donated(sign, messages)
        entry.sign = sign._replace(args=(), kwargs={}, leaves=[])
        self._remember(entry, before)
        return entry, value

    def _settle(self, entry: Recording, before: Recording | None) -> None:
        """Decide whether a recording is replayed, recorded again, or neither."""
        attempts = self._attempts_of(entry.sign)
        if before is not None and not entry.reason:
            if changed := before.references.changed():
                entry.reason = f"it changes {changed}, which it reads"
                self._rest(attempts, entry.reason)
                return
            differs = Differ(before, entry).difference
            entry.confirmed = not differs
        else:
            differs = entry.reason or (self._retraces[-1] if self._retraces else "")
        if entry.references.reason:
            remedy = f"pass it as an argument, or define {PROTOCOL} in its class"
            self._warn_once(f"{entry.references.reason}; {remedy}")
        if entry.reason and not entry.is_temporary:
            entry.confirmed = True
        elif entry.confirmed:
            attempts.recordings = attempts.rests = 0
            return
        attempts.recordings += 1
        if attempts.recordings >= MAX_ATTEMPTS:
            self._rest(attempts, f"what it does changes from call to call: {differs}")

    def _attempts_of(self, sign: Signature) -> Attempts:
        """Return the attempts to record a signature."""
        with self._lock:
            for found in self._attempts:
                if found.key == sign.key:
                    return found
            found = Attempts(sign.key)
            self._attempts = [found, *self._attempts[: MAX_RECORDINGS - 1]]
            return found

    def _resting(self, sign: Signature) -> Attempts | None:
        """Return the attempts if calls of a signature run eagerly for now, or None."""
        for found in self._attempts:
            if found.calls > 0 and found.key == sign.key:
                return found
        return None

    def _rest(self, attempts: Attempts, reason: str) -> None:
        """Let some calls of a signature run eagerly before another one is recorded."""
        if self._strict:
            raise not_replayable(reason)
        attempts.reason, attempts.recordings = reason, 0
        attempts.calls = min(FIRST_REST_CALLS << attempts.rests, MAX_REST_CALLS)
        attempts.rests += 1
        remedy = "pass it as an argument and return it, or hold it in a Variable"
        self._warn_once(f"{reason}; {remedy}")

    def _warn_once(self, why: str) -> None:
        """Warn that calls are not replayed, for a reason that the user can fix."""
        if not self._has_warned:
            self._has_warned = True
            text = f"jit: {self._name} is not replayed: {why}"
            warnings.warn(text, RuntimeWarning, stacklevel=outside())

    def _note_retrace(self, why: str) -> None:
        """Remember why a call is recorded anew; warn if it happens often."""
        with self._lock:
            retraces = [*self._retraces[-MAX_RECORDINGS:], why]
            self._retraces = retraces
        if len(retraces) != MAX_RETRACES + 1:
            return
        remedy = "see explain(...).retraces"
        if ": float " in why:
            remedy = "pass pg.asarray(x) in place of a Python float x"
        text = f"has been recorded {MAX_RETRACES + 2} times, now because of {why}"
        text = f"jit: {self._name} {text}; {remedy}"
        warnings.warn(text, RuntimeWarning, stacklevel=outside())

    def _checked(self, entry: Recording, sign: Signature) -> Any:
        """Run a call eagerly; raise if a replay of it would differ."""
        messages = donated(sign, self._donate, self._name) if self._donate else {}
        new = Recording(
            self._f,
            sign,
            donated=messages,
            varying=entry.varying,
            with_lines=True,
            hold_arrays=True,
            frozen=self._frozen,
        )
        check_replay(self._name, entry, self._loaded(entry), new)
        _empty_donated(sign, messages)
        return new.value

    def _loaded(self, entry: Recording) -> ReplayProgram:
        """Return the program of a call, compiled."""
        with self._lock:
            if entry.program.call is None:
                entry.program.load()
        return entry.program

    def _remember(self, entry: Recording, instead: Recording | None = None) -> None:
        """Put an entry first, in place of the entry ``instead``."""
        with self._lock:
            others = [e for e in self._entries if e is not entry and e is not instead]
            self._entries = (entry, *others[: MAX_RECORDINGS - 1])
            if self._varying:  # drop slots that no recording reads any more
                met = set[tuple[int, Any]]().union(
                    *[e.references.met for e in self._entries]
                )
                slots = self._varying.items()
                self._varying = {
                    k: slot for k, slot in slots if k in met or k[1] == "_data"
                }
            if self._check:
                return
            programs = [e.program for e in self._entries if e.confirmed]
            calls = [program.call for program in programs[:MAX_FAST_CALLS]]
            self._calls = tuple([call for call in calls if call is not None])


def _empty_donated(sign: Signature, messages: Mapping[int, str]) -> None:
    """Empty the donated tensors of a call."""
    tensors = [x for x in sign.leaves if type(x) is Tensor]
    for n, why in messages.items():
        tensors[n]._empty(why)


def _argument_names(
    option: str, f: Callable[..., Any], given: Any
) -> dict[int | str, str]:
    """Return the names of the arguments in ``given``, by position and by name."""
    found = dict[int | str, str]()
    for one in (given,) if isinstance(given, int | str) else given:
        names = [*inspect.signature(f).parameters]
        at = names.index(one) if one in names else one
        if not isinstance(at, int) or not 0 <= at < len(names):
            raise TypeError(
                f"jit: {option} contains {one!r}, which is not a parameter of f; f "
                f"takes {', '.join(names)}"
            )
        found |= dict.fromkeys((at, names[at]), names[at])
    return found


def _is_inside() -> bool:
    """Return whether surrounding code, such as a tape, must see each kernel."""
    context = current()
    seen = [o for o in context.observers if not getattr(o, "sees_regions", False)]
    return bool(context.tapes or seen or context.level is not None)


def _is_debugged() -> bool:
    """Return whether observers that check replays, and nothing else, watch a call."""
    context = current()
    checks = [getattr(o, "checks_replays", False) for o in context.observers]
    return bool(checks and all(checks) and not context.tapes and context.level is None)
