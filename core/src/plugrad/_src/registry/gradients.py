"""Layers of gradients: user rules override backend rules, which override core rules.

Map of ``GradientRegistry``: packs; gradients of backends; gradients of the user; the
layers of a kernel.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .contract import Functions, Kernel, VJPs, suggest, vjp_rules
from .plugins import Claims, Entry, Phase

if TYPE_CHECKING:
    from .hooks import GradientPack


class PackInfo(NamedTuple):
    """The gradients that a pack overrides, or why it cannot be used.

    Attributes:
        name: The name for ``use_gradients`` and ``set_gradients``.
        owner: The distribution that provides it, with its version.
        overrides: The inputs whose gradients it replaces, by kernel.
        reason: Why it cannot be used; empty if it can.

    """

    name: str
    owner: str
    overrides: Mapping[str, tuple[str, ...]]
    reason: str


class GradientRegistry:
    """The gradients of all kernels, in layers."""

    def __init__(
        self,
        lock: Any,
        contract: Callable[[str, str], Kernel],
        known: Callable[[Any, str], None],
        load: Callable[[Any], None],
    ) -> None:
        self.lock = lock
        self._contract = contract
        self._known = known
        self._load = load
        self.packs: Claims[GradientPack] = Claims(
            "pack", ValueError, ("gradient-packs",)
        )
        # The engine's plans of recorded runs; a new dict whenever a gradient changes.
        self.plans: dict[tuple[Any, ...], Any] = {}
        self._user: list[tuple[str, str | None, VJPs]] = []
        self._of_backends: dict[tuple[str, str], VJPs] = {}
        # Backends for which a kernel pack has gradients.
        self._changed_by_packs: frozenset[str] = frozenset()
        # The packs of the process; None before PLUGRAD_GRADIENTS has been read.
        self._process: list[tuple[str | None, Mapping[str, VJPs]]] | None = None

    # --- packs -------------------------------------------------------------------

    def pack(
        self, name: str, who: str, kernels: Sequence[str] | str | None = None
    ) -> Mapping[str, VJPs]:
        """Return the rules of a gradient pack by kernel, or those of ``kernels``."""
        self._load(name)
        with self.lock:
            entry = self.packs.find(name, who)
            if entry.phase is not Phase.OPENED:
                self._open_pack(entry)
        return self.selected(entry.content, f"pack {name!r}", who, kernels)

    def selected(
        self,
        layer: Mapping[str, VJPs],
        what: str,
        who: str,
        kernels: Sequence[str] | str | None,
    ) -> Mapping[str, VJPs]:
        """Return the rules of ``kernels``, or of all kernels if it is None."""
        if kernels is None:
            return layer
        wanted = (kernels,) if isinstance(kernels, str) else tuple(kernels)
        for kernel in wanted:
            if kernel not in layer:
                raise ValueError(
                    f"{who}: {what} has no gradient of {kernel!r}"
                    f"{suggest(str(kernel), layer)}; it has {', '.join(layer)}"
                )
        return {kernel: layer[kernel] for kernel in wanted}

    def _open_pack(self, entry: Entry[GradientPack]) -> None:
        who = f"{entry.owner}, {entry}"
        pack = entry.value
        try:
            found = self.vjp_rules_of(entry.open(), who, linear=pack.linear)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            entry.fail(error)
            raise self.packs.unavailable(pack.name, entry) from error
        entry.opened(found)

    def vjp_rules_of(
        self, table: Mapping[str, Functions], who: str, *, linear: bool = True
    ) -> dict[str, VJPs]:
        """Return the gradient functions of a plugin as rules, by kernel."""
        return {
            name: vjp_rules(self._contract(name, who), functions, who, linear=linear)
            for name, functions in table.items()
        }

    def described(self) -> list[PackInfo]:
        """Return a description of each pack, sorted by name; this opens the packs."""
        self._load(None)
        found = []
        for name, claims in sorted(self.packs.entries.items()):
            for entry in claims:
                table: Mapping[str, VJPs] = {}
                try:
                    if entry.usable:
                        table = self.pack(name, "gradient_packs")
                except ValueError as error:
                    reason = entry.reason or str(error)
                else:
                    reason = entry.reason or entry.owner.reason if not table else ""
                overrides = {kernel: tuple(rules) for kernel, rules in table.items()}
                found.append(PackInfo(name, str(entry.owner), overrides, reason))
        return found

    def set_process(
        self, packs: Iterable[Mapping[str, VJPs]], backend: str | None, who: str
    ) -> None:
        """Let packs override the user's gradients; replace the packs set before."""
        with self.lock:
            if backend is not None:
                self._known(backend, who)
            self._process = [(backend, layer) for layer in packs]
            self.plans = {}

    def _of_process(self) -> list[tuple[str | None, Mapping[str, VJPs]]]:
        if self._process is None:
            names = os.environ.get("PLUGRAD_GRADIENTS", "").split(",")
            packs = [name.strip() for name in names if name.strip()]
            layers = [self.pack(name, "PLUGRAD_GRADIENTS") for name in packs]
            self._process = [(None, layer) for layer in layers]
        return self._process

    # --- backends ----------------------------------------------------------------

    def open(
        self,
        backend: str,
        own: Mapping[str, VJPs],
        of_packs: Sequence[Mapping[str, VJPs]],
    ) -> None:
        """Add the gradients of a backend, and then those of kernel packs for it."""
        with self.lock:
            if any(of_packs):
                self._changed_by_packs |= {backend}
            for layer in (own, *of_packs):
                for name, table in layer.items():
                    under = self._of_backends.get((name, backend), {})
                    self._of_backends[name, backend] = {**under, **table}
            self.plans = {}

    def close(self, backend: str) -> None:
        """Remove all gradients of a backend, and of kernel packs for it."""
        with self.lock:
            kept = {k: v for k, v in self._of_backends.items() if k[1] != backend}
            self._of_backends = kept
            self._changed_by_packs -= {backend}
            self._user = [g for g in self._user if g[1] != backend]
            self.plans = {}

    # --- the user's --------------------------------------------------------------

    def checked(
        self,
        who: str,
        kernel: Kernel,
        functions: Functions,
        linear: bool,
        *,
        in_block: bool = False,
    ) -> VJPs:
        """Check the user's gradient functions, and return them as rules."""
        if not functions:
            inputs = ", ".join(kernel.inputs)
            raise ValueError(
                f"{who}: expected at least one gradient function for {kernel}; pass "
                f"one by the name of its input ({inputs})"
            )
        return vjp_rules(kernel, functions, "user", linear=linear, in_block=in_block)

    def add(self, name: str, backend: str | None, table: VJPs) -> None:
        """Let the user's rules override all others."""
        with self.lock:
            if backend is not None:
                self._known(backend, "register_gradient")
            self._user = [*self._user, (name, backend, table)]
            self.plans = {}

    def drop(self, name: str, backend: str | None) -> None:
        """Remove the user's latest rules; those that they overrode apply again."""
        with self.lock:
            self._contract(name, "unregister_gradient")
            for i, (kernel, only, _) in reversed([*enumerate(self._user)]):
                if (kernel, only) == (name, backend):
                    self._user = [*self._user[:i], *self._user[i + 1 :]]
                    self.plans = {}
                    return
        where = f" for {backend!r}" if backend is not None else ""
        raise ValueError(
            "unregister_gradient: you have not registered a gradient of "
            f"{name!r}{where}"
        )

    # --- layers ------------------------------------------------------------------

    def are_original(self, backend: str) -> bool:
        """Return whether only the core and the backend itself define its gradients."""
        with self.lock:
            only_for = [only for _, only, _ in self._user]
            only_for += [only for only, _ in self._of_process()]
            changed = any(only in (None, backend) for only in only_for)
            return not changed and backend not in self._changed_by_packs

    def layers(self, kernel: Kernel, backend: str) -> list[tuple[str, VJPs]]:
        """Return the layers "core", "backend", "user", "process"; the last wins."""
        with self.lock:
            layers = [
                ("core", kernel.gradient),
                ("backend", self._of_backends.get((kernel.name, backend), {})),
            ]
            for name, only, table in self._user:
                if name == kernel.name and only in (None, backend):
                    layers.append(("user", table))
            for only, pack in self._of_process():
                if only in (None, backend):
                    layers.append(("process", pack.get(kernel.name, {})))
        return [(whose, table) for whose, table in layers if table]
