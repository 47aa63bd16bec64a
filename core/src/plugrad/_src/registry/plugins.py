"""Plugins: their contents, their phases, and the owner of each name.

Contents: ``Phase``; ``Plugin`` and how its code is called; ``Entry``, a backend or pack
that it provides; ``Claims``, which gives each name one owner.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import copy_context
from enum import StrEnum
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from plugrad._src.tensor.explained import explained, replacing
from plugrad._src.tensor.hints import device_hint

from . import install
from .contract import suggest

if TYPE_CHECKING:
    from .hooks import Backend, GradientPack, KernelPack

T = TypeVar("T")
V = TypeVar("V", bound="Backend | KernelPack | GradientPack")
N = TypeVar("N", bound="Backend | GradientPack")


class Phase(StrEnum):
    """The phase that a plugin, or one of its entries, has reached."""

    DISCOVERED = "discovered"
    IMPORTED = "imported"
    REGISTERED = "registered"
    OPENED = "opened"
    BLOCKED = "blocked"
    INCOMPATIBLE = "incompatible"
    FAILED = "failed"

    @property
    def is_excluded(self) -> bool:
        """Whether plugins and entries in this phase are not in use."""
        return self in (Phase.BLOCKED, Phase.INCOMPATIBLE, Phase.FAILED)


# The phase in words, for messages.
STATES = {phase: f"is {phase}" for phase in Phase} | {Phase.FAILED: "has failed"}
# The plugins whose code is being called, innermost last. The registry is locked as long
# as there is one.
running: list[Plugin] = []
# Callbacks of ``doctor``, called whenever ``running`` changes.
running_callbacks: list[Callable[[], None]] = []
_skipping = False  # whether a KeyboardInterrupt ends only the plugin


class Plugin:
    """The owner of registrations: an installed plugin, the core, or the user.

    Attributes:
        phase: The phase reached. If a plugin has several entries, each has a phase of
            its own, and the plugin is in use as long as one of them is.
        reason: Why the plugin, or a part of it, is left out.
        requirement: The versions of plugrad that its distribution requires: ``>=0.3``.
        outdated: The distribution to upgrade, if the plugin is refused because of it.
        error: The exception that its code raised, with its traceback.
        seconds: The time that its code has taken, to load and to open.
        notes: Forbidden actions of its code, whose effects have been undone.

    """

    distribution: str
    version: str
    name: str
    module: str
    phase: Phase
    reason: str
    outdated: str
    seconds: float

    def __init__(
        self,
        distribution: str,
        version: str = "",
        name: str = "",
        module: str = "",
        phase: Phase = Phase.DISCOVERED,
    ) -> None:
        self.distribution, self.version = distribution, version
        self.name, self.module = name, module
        self.phase, self.reason = phase, ""
        self.requirement = self.outdated = ""
        self.error: BaseException | None = None
        self.seconds = 0.0
        self.notes: list[str] = []
        self.entries: list[Entry[Any]] = []

    @property
    def usable(self) -> bool:
        """Whether its registrations are in use."""
        return not self.phase.is_excluded

    def block(self, reason: str) -> None:
        """Leave the plugin out for a reason that is not an error."""
        self.phase, self.reason = Phase.BLOCKED, reason

    def refuse(self, reason: str, outdated: str = "") -> None:
        """Leave the plugin out, because it does not fit this version of plugrad."""
        advice = f"; upgrade {outdated}" if outdated else ""
        self.phase = Phase.INCOMPATIBLE
        self.reason = f"{reason}{advice}"
        self.outdated = outdated

    def fail(self, error: BaseException) -> None:
        """Leave the plugin out, and keep the error with its traceback."""
        self.phase, self.error, self.reason = (
            Phase.FAILED,
            error,
            self.describe_error(error),
        )

    def missing_module(self, error: BaseException | None) -> str:
        """Return the missing module of its own package; "" if none is missing."""
        name = error.name if isinstance(error, ModuleNotFoundError) else None
        package = self.module.partition(":")[0].partition(".")[0]
        return name if name and package == name.partition(".")[0] else ""

    def describe_error(self, error: BaseException) -> str:
        """Return the reason to report for an error in its code."""
        if missing := self.missing_module(error):
            return (
                f"it is installed only in part, {missing} is missing; reinstall "
                f"{self.distribution}"
            )
        return described(error)

    def call(self, function: Callable[..., T], *values: Any) -> T:
        """Call code of the plugin, and undo its changes to the context.

        NumPy's error state is a part of the context.
        """
        context = copy_context()
        before = np.geterr()
        start = perf_counter()
        running.append(self)
        for callback in running_callbacks:
            callback()
        try:
            return context.run(function, *values)
        except KeyboardInterrupt as error:
            if not _skipping:
                raise
            raise RuntimeError("KeyboardInterrupt while its code ran") from error
        finally:
            running.pop()
            for callback in running_callbacks:
                callback()
            self.seconds += perf_counter() - start
            if context.run(np.geterr) != before:
                self.note(
                    "sets NumPy's error state, which has been restored; use "
                    "np.errstate around the code that needs it"
                )

    def note(self, text: str) -> None:
        """Record a remark about its code, each text only once."""
        if text not in self.notes:
            self.notes.append(text)

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}".rstrip()

    def __repr__(self) -> str:
        shown = {name: v for name, v in vars(self).items() if name != "entries"}
        return f"Plugin({', '.join([f'{name}={v!r}' for name, v in shown.items()])})"


@contextlib.contextmanager
def skipping() -> Iterator[None]:
    """Inside the block, treat a KeyboardInterrupt in a plugin's code as its failure.

    A command continues with the other plugins, whether the plugin raised the interrupt
    or the user sent it.
    """
    global _skipping
    before, _skipping = _skipping, True
    try:
        yield
    finally:
        _skipping = before


def described(error: BaseException) -> str:
    """Return the reason to report for an error."""
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def printable(text: str) -> str:
    """Return ``text`` with control characters escaped; line breaks are kept.

    plugrad does not control the names, versions and messages of plugins.
    """
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


class Entry(Generic[V]):
    """A backend, a kernel pack or a gradient pack that a plugin provides.

    If it fails, the other entries of the plugin remain in use. ``content`` is the
    opened gradient pack; for other entries it is None.
    """

    owner: Plugin
    phase: Phase
    reason: str

    def __init__(self, value: V, owner: Plugin) -> None:
        self.value, self.owner = value, owner
        self.phase, self.reason = Phase.REGISTERED, ""
        self.content: Any = None
        owner.entries.append(self)

    @property
    def usable(self) -> bool:
        """Whether it is in use."""
        return not self.phase.is_excluded and self.owner.usable

    def open(self) -> Any:
        """Return the result of ``open``, after a check of its type."""
        from .hooks import Backend, Runtime

        kind = Runtime if isinstance(self.value, Backend) else Mapping
        found = self.owner.call(self.value.open)
        if not isinstance(found, kind):
            raise TypeError(
                f"open of {self} must return a {kind.__name__}, got {found!r}"
            )
        return found

    def opened(self, content: Any = None) -> None:
        """Record that the entry has been opened."""
        self.content = content
        self.phase = self.owner.phase = Phase.OPENED

    def block(self, reason: str) -> None:
        """Leave the entry out for a reason that is not an error."""
        self._leave(Phase.BLOCKED, reason, None)

    def fail(self, error: BaseException) -> None:
        """Leave the entry out, and keep the error with its traceback."""
        self._leave(Phase.FAILED, self.owner.describe_error(error), error)

    def _leave(self, phase: Phase, reason: str, error: BaseException | None) -> None:
        self.phase = phase
        self.reason = reason
        owner = self.owner
        owner.error = error or owner.error
        if all(entry.phase.is_excluded for entry in owner.entries):
            owner.phase, owner.reason = phase, reason
        else:
            owner.reason = f"{self} {STATES[phase]}: {reason}"

    def __str__(self) -> str:
        from .hooks import Backend, KernelPack

        if isinstance(self.value, KernelPack):
            return f"kernel pack of {self.value.backend!r}"
        kind = "backend" if isinstance(self.value, Backend) else "pack"
        return f"{kind} {self.value.name!r}"


class Claims(Generic[N]):
    """The owners of backends, or of gradient packs, by name.

    A name belongs to the distribution ``plugrad-<name>``. If there is none and several
    others claim the name, none of them gets it until all but one are blocked. Messages
    say how to install the names that are ``published`` with plugrad.
    """

    kind: str
    published: Sequence[str]

    def __init__(
        self, kind: str, error: type[Exception], published: Sequence[str] = ()
    ) -> None:
        self.kind = kind
        self.error = error
        self.published = published
        # Replaced and never changed, for readers in other threads.
        self.entries: dict[str, list[Entry[N]]] = {}

    def add(self, entry: Entry[N]) -> None:
        """Record the claim of an entry."""
        name = entry.value.name
        self.entries = {**self.entries, name: [*self.entries.get(name, ()), entry]}

    def drop(self, name: str) -> None:
        """Remove all claims of a name."""
        self.entries = {n: claims for n, claims in self.entries.items() if n != name}

    def settle(self, plugins: Iterable[Plugin]) -> None:
        """Leave at most one owner for each name."""
        plugins = list(plugins)
        for name, claims in self.entries.items():
            at_home = [
                p
                for p in plugins
                if p.distribution == canonical_name(f"plugrad-{name}")
            ]
            own = [entry for entry in claims if entry.owner in at_home]
            home = [entry.owner for entry in own] or [
                plugin  # which entries it has is unknown
                for plugin in at_home
                if plugin.phase in (Phase.FAILED, Phase.INCOMPATIBLE)
                and not plugin.entries
            ]
            rivals = own if home else claims
            names = " and ".join(str(entry.owner) for entry in rivals)
            for entry in claims:
                if entry.phase is not Phase.REGISTERED:
                    continue  # it is already in use, or left out
                if entry not in rivals:
                    entry.block(f"{self.kind} {name!r} belongs to {home[0]}")
                elif len(rivals) > 1:
                    entry.block(
                        f"{self.kind} {name!r} is claimed by {names}; set "
                        "PLUGRAD_BLOCK to all but one of them"
                    )

    def find(self, name: Any, who: str, plugins: Iterable[Plugin] = ()) -> Entry[N]:
        """Return the entry that owns a name; ``who`` is the caller, for messages."""
        if not isinstance(name, str):
            raise self.unknown(name, who)
        claims = self.entries.get(name, [])
        for entry in claims:
            if entry.usable:
                return entry
        out: list[Plugin | Entry[N]] = [
            plugin for plugin in plugins if plugin.name == name and not plugin.entries
        ]
        out += [entry if entry.phase.is_excluded else entry.owner for entry in claims]
        if out and out[0].phase is Phase.REGISTERED:
            raise self.error(
                f"{who}: {out[0]} provides no {self.kind} {name!r}; all its hooks "
                "return empty lists"
            )
        if out:
            raise self.unavailable(name, out[0]) from _owner(out[0]).error
        raise self.unknown(name, who)

    def unavailable(self, name: str, out: Plugin | Entry[N]) -> Exception:
        """Return the error about a name whose owner is left out."""
        owner = _owner(out)
        error = self.error(
            f"{self.kind} {name!r} of {owner} {STATES[out.phase]}: {out.reason}"
        )
        failed, cause = out.phase is Phase.FAILED, owner.error
        if failed and cause is not None and hasattr(cause, "__notes__"):
            return replacing(cause, error)  # keeps notes, such as links
        if failed and not owner.missing_module(cause):
            return explained(error, "plugin-has-failed")
        if failed:
            return explained(error, "plugin-is-installed-only-in-part")
        if out.phase is Phase.INCOMPATIBLE:
            return explained(error, "plugin-is-incompatible")
        return error

    def unknown(self, name: object, who: str) -> Exception:
        """Return the error about a name that is not claimed."""
        hint = suggest(str(name), self.entries)
        names = ", ".join(self.usable())
        device = device_hint(name) if self.kind == "backend" else ""
        wanted = [x for x in self.published if x == str(name) or f'"{x}"' in device]
        wanted = [one for one in wanted if one not in self.usable()]
        if not names:
            wanted += self.published[:1]
        advice = f"; try {install.advice(f'plugrad-{wanted[0]}')}" if wanted else ""
        error = self.error(
            f"{who}: unknown {self.kind} {name!r}{hint}; installed: "
            f"{names or 'none'}{device and f'; {device}'}{advice}"
        )
        if self.kind == "backend":
            return explained(error, "unknown-backend")
        return error

    def usable(self) -> list[str]:
        """Return the names that have an owner."""
        return sorted(n for n, es in self.entries.items() if any(e.usable for e in es))


def _owner(claimant: Plugin | Entry[Any]) -> Plugin:
    return claimant if isinstance(claimant, Plugin) else claimant.owner


def canonical_name(distribution: str) -> str:
    """Return the normalized name of a distribution, as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", distribution).lower()
