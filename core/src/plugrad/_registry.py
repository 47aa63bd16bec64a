"""The process-wide registry: contracts, backends, kernels and gradients, in layers.

``(kernel name, backend name) -> implementations``, best first: the user's over
extensions over the owner. ``kernel -> rules``: the user's over the backend's over the
core's. Writers hold the lock, check everything and then commit; readers take no lock,
because every table they read is replaced and never changed.

Map of ``Registry``: contracts, plugins, opening, kernels, gradients. The entries that
it keeps are in ``_entries``.
"""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ._entries import (
    EXTENSION,
    OWNER,
    USER,
    BackendUnavailable,
    Function,
    Layer,
    OpenBackend,
    Phase,
    Plugin,
)
from ._hooks import Backend, Extension, Functions, GradientPack, Runtime
from ._kernel import Kernel, Rules, rules, suggest


class Registry:
    """Everything that is registered; ``registry`` is the only instance in use."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.core = Plugin("plugrad", phase=Phase.REGISTERED)
        self.user = Plugin("user", phase=Phase.REGISTERED)
        self.plugins: list[Plugin] = []
        self.contracts: dict[str, Kernel] = {}
        self.opened: dict[str, OpenBackend] = {}
        self.kernels: dict[tuple[str, str], list[Layer]] = {}
        # Plans of recorded runs, made by the engine; a new one when a gradient changes.
        self.plans: dict[tuple[Any, ...], Any] = {}
        self._claims: dict[str, list[tuple[Backend, Plugin]]] = {}
        self._extensions: list[tuple[Extension, Plugin]] = []
        self._packs: dict[str, tuple[GradientPack, Plugin]] = {}
        self._user_gradients: list[tuple[str, str | None, Rules]] = []
        self._own_gradients: dict[tuple[str, str], Rules] = {}

    # --- contracts ---------------------------------------------------------------

    def declare(self, kernels: Iterable[Kernel], owner: Plugin, who: str = "") -> None:
        """Add contracts, all or none; ``who`` asks, for messages."""
        with self.lock:
            kernels, who = list(kernels), who or str(owner)
            for kernel in kernels:
                if owner is not self.core and "." not in kernel.name:
                    raise ValueError(
                        f"{who}: kernel {kernel.name!r} from outside the core needs "
                        f"a dotted name, such as 'mylib.{kernel.name}'"
                    )
                known = self.contracts.get(kernel.name, kernel)
                if known.contract != kernel.contract:
                    raise ValueError(
                        f"{who}: {kernel} is already declared as {known}, with other "
                        "inputs, attributes or flags; give yours another name"
                    )
            new = {k.name: k for k in kernels if k.name not in self.contracts}
            self.contracts = {**self.contracts, **new}

    def contract(self, name: str, who: str) -> Kernel:
        """Return a contract by name, or raise with a suggestion."""
        try:
            return self.contracts[name]
        except (KeyError, TypeError):
            hint = suggest(str(name), self.contracts)
            raise ValueError(f"{who}: unknown kernel {name!r}{hint}") from None

    # --- plugins -----------------------------------------------------------------

    def register(
        self,
        owner: Plugin,
        backends: Sequence[Backend] = (),
        extensions: Sequence[Extension] = (),
        packs: Sequence[GradientPack] = (),
    ) -> None:
        """Add what hooks returned, all or nothing."""
        with self.lock:
            for values, kind in (
                (backends, Backend),
                (extensions, Extension),
                (packs, GradientPack),
            ):
                for value in values:
                    if not isinstance(value, kind):
                        raise TypeError(
                            f"{owner}: a hook must return a list of {kind.__name__}, "
                            f"got {value!r} in it"
                        )
            for backend in backends:
                if not re.fullmatch(r"[a-z][a-z0-9_-]*", str(backend.name)):
                    raise ValueError(
                        f"backend of {owner}: bad name {backend.name!r}; use letters, "
                        "all lower-case, digits, - and _"
                    )
            for pack in packs:
                if pack.name in self._packs:
                    other = self._packs[pack.name][1]
                    raise ValueError(
                        f"{owner}: gradient pack {pack.name!r} is already there, "
                        f"from {other}; block one of them with PLUGRAD_BLOCK"
                    )
            contracts = [k for backend in backends for k in backend.contracts]
            contracts += [k for extension in extensions for k in extension.contracts]
            self.declare(contracts, owner)
            for backend in backends:
                self._claims.setdefault(backend.name, []).append((backend, owner))
            self._extensions += [(extension, owner) for extension in extensions]
            self._packs |= {pack.name: (pack, owner) for pack in packs}

    def adopt(self, backend: Backend) -> None:
        """Add a backend of the user's, who may have several; each fails alone."""
        with self.lock:
            if backend.name in self._claims:
                raise ValueError(
                    f"backend {backend.name!r} is already registered; remove_backend "
                    "it first, or choose another name"
                )
            owner = Plugin("user", name=backend.name, phase=Phase.REGISTERED)
            self.register(owner, [backend])

    def settle(self) -> None:
        """Block whoever claims a backend that belongs to ``plugrad-<name>``."""
        for name, claims in self._claims.items():
            rightful = [p for _, p in claims if _normal(p.distribution) == _home(name)]
            for _, plugin in claims if rightful else ():
                if plugin not in rightful:
                    plugin.block(f"backend {name!r} belongs to {rightful[0]}")

    def backends(self) -> list[str]:
        """Return the names of usable backends, best first."""
        usable = {
            name: max(b.priority for b, _ in found)
            for name, claims in self._claims.items()
            if (found := [c for c in claims if c[1].usable])
        }
        return sorted(usable, key=lambda name: (-usable[name], name))

    def owner(self, name: str) -> Plugin | None:
        """Return who brings a backend, usable or not; None for an unknown one."""
        claims = self._claims.get(name, [])
        plugins = sorted((p for _, p in claims), key=lambda p: not p.usable)
        return plugins[0] if plugins else None

    def claimed(self) -> list[tuple[Backend, Plugin]]:
        """Return all backends that anyone claims, usable or not, best first."""
        claims = [claim for claims in self._claims.values() for claim in claims]
        return sorted(claims, key=lambda claim: (-claim[0].priority, claim[0].name))

    # --- opening -----------------------------------------------------------------

    def open(self, name: str, who: str = "backend") -> OpenBackend:
        """Return a backend, opened at its first use; ``who`` asks, for messages."""
        found = self.opened.get(name)
        if found is not None:
            return found
        with self.lock:
            if name in self.opened:
                return self.opened[name]
            backend, owner = self._claim(name, who)
            try:
                opened = self._open(backend, owner)
            except (Exception, SystemExit) as error:  # it must not end the program
                owner.fail(error)
                raise self._unavailable(name, owner) from error
            self.opened = {**self.opened, name: opened}
            owner.phase = Phase.OPENED
            return opened

    def close(self, name: str) -> None:
        """Forget a backend and everything its owner and its extensions brought."""
        with self.lock:
            self.known(name, "remove_backend")
            del self._claims[name]
            opened = self.opened.get(name)
            self.opened = {n: b for n, b in self.opened.items() if n != name}
            dropped = [
                self.kernels.pop(key) for key in [*self.kernels] if key[1] == name
            ]
            for own in [key for key in self._own_gradients if key[1] == name]:
                del self._own_gradients[own]
            self.plans = {}
        if opened is not None:
            opened.table = {}
            opened.scalars = {}
            for layer in (layer for layers in dropped for layer in layers):
                if layer.dispose is not None:
                    layer.dispose()
            if opened.runtime.close is not None:
                opened.runtime.close()

    def _claim(self, name: str, who: str) -> tuple[Backend, Plugin]:
        claims = self._claims.get(name, [])
        usable = [claim for claim in claims if claim[1].usable]
        if len(usable) > 1:
            names = " and ".join(p.distribution for _, p in usable)
            raise BackendUnavailable(
                f"{who}: {name!r} is claimed by {names}; set PLUGRAD_BLOCK to one"
            )
        if usable:
            return usable[0]
        for plugin in [*(p for _, p in claims), *self.plugins]:
            if name in (plugin.name, *(b.name for b, p in claims if p is plugin)):
                raise self._unavailable(name, plugin) from plugin.error
        raise self._unknown(name, who)

    def _unavailable(self, name: str, plugin: Plugin) -> BackendUnavailable:
        return BackendUnavailable(
            f"backend {name!r} of {plugin} {_STATES.get(plugin.phase, plugin.phase)}: "
            f"{plugin.reason}"
        )

    def _open(self, backend: Backend, owner: Plugin) -> OpenBackend:
        runtime = backend.open()
        if not isinstance(runtime, Runtime):
            raise TypeError(
                f"open of {backend.name!r} must return a Runtime: {runtime!r}"
            )
        opened = OpenBackend(backend.name, owner, runtime)
        for name in runtime.host_kernels:
            self.contract(name, f"host kernels of {owner}")
        if runtime.host is not None:
            self.known(runtime.host, f"host of {backend.name!r}, from {owner}")
        self._check(runtime.kernels, f"kernels of {owner}")
        own = {
            (name, backend.name): rules(
                self.contract(name, f"gradients of {owner}"), functions, str(owner)
            )
            for name, functions in runtime.gradients.items()
        }
        layers = {
            name: list(found)  # the user's, who may have been here first
            for (name, of), found in self.kernels.items()
            if of == backend.name
        }
        extensions = self._open_extensions(backend.name)
        for name, (function, plugin) in extensions.items():
            layers.setdefault(name, []).append(Layer(EXTENSION, function, plugin))
            plugin.phase = Phase.OPENED
        for name, function in runtime.kernels.items():
            layers.setdefault(name, []).append(Layer(OWNER, function, owner))
        table = {
            n: runtime.wrap(found[0].function) for n, found in layers.items() if found
        }
        opened.table = table  # all is checked: from here on nothing raises
        self.kernels.update({(n, backend.name): found for n, found in layers.items()})
        self._own_gradients.update(own)
        self.plans = {}
        return opened

    def _open_extensions(self, backend: str) -> dict[str, tuple[Function, Plugin]]:
        """Return the kernels of extensions; a broken one takes only itself down."""
        tables = []
        for extension, plugin in self._extensions:
            if extension.backend == backend and plugin.usable:
                try:
                    table = extension.open()
                    self._check(table, f"kernels of {plugin}")
                    tables.append((table, plugin))
                except (Exception, SystemExit) as error:
                    plugin.fail(error)
        names = [name for table, _ in tables for name in table]
        twice = {name for name in names if names.count(name) > 1}
        merged: dict[str, tuple[Function, Plugin]] = {}
        for table, plugin in tables:
            if clash := twice & set(table):
                plugin.block(
                    f"{', '.join(sorted(clash))} on {backend!r} is also extended by "
                    "another plugin; set PLUGRAD_BLOCK to one of them"
                )
                continue
            merged |= {name: (function, plugin) for name, function in table.items()}
        return merged

    def _check(self, table: Mapping[str, Function], who: str) -> None:
        for name, function in table.items():
            _fits(self.contract(name, who), function, who)

    # --- kernels -----------------------------------------------------------------

    def add_kernel(
        self,
        name: str,
        backend: str,
        function: Function,
        dispose: Callable[[], None] | None = None,
    ) -> None:
        """Add the user's implementation over all others."""
        with self.lock:
            _fits(self.contract(name, "register_kernel"), function, "register_kernel")
            self.known(backend, "register_kernel")
            layer = Layer(USER, function, self.user, dispose)
            under = self.kernels.get((name, backend), [])
            self.kernels[name, backend] = [layer, *under]
            self._refresh(name, backend)

    def drop_kernel(self, name: str, backend: str) -> None:
        """Remove the user's last implementation; what was under it shows again."""
        with self.lock:
            self.contract(name, "unregister_kernel")
            self.known(backend, "unregister_kernel")
            layers = self.kernels.get((name, backend))
            if not layers or layers[0].rank != USER:
                raise ValueError(
                    f"unregister_kernel: {name!r} on {backend!r} was not registered by "
                    "you with register_kernel"
                )
            self.kernels[name, backend] = layers[1:]
            self._refresh(name, backend)
        if layers[0].dispose is not None:
            layers[0].dispose()

    def known(self, backend: str, who: str) -> None:
        """Raise unless there is a backend of this name, open or not."""
        if backend not in self._claims:
            raise self._unknown(backend, who)

    def _unknown(self, backend: object, who: str) -> BackendUnavailable:
        hint = suggest(str(backend), self._claims)
        names = ", ".join(self.backends()) or "none; try `pip install plugrad-cpu`"
        return BackendUnavailable(
            f"{who}: unknown backend {backend!r}{hint}; installed: {names}"
        )

    def _refresh(self, name: str, backend: str) -> None:
        if opened := self.opened.get(backend):
            table = {k: f for k, f in opened.table.items() if k != name}
            if layers := self.kernels[name, backend]:
                table[name] = opened.runtime.wrap(layers[0].function)
            opened.table = table

    # --- gradients ---------------------------------------------------------------

    def add_gradient(self, name: str, backend: str | None, table: Rules) -> None:
        """Put the user's rules on top."""
        with self.lock:
            if backend is not None:
                self.known(backend, "register_gradient")
            self._user_gradients.append((name, backend, table))
            self.plans = {}

    def drop_gradient(self, name: str, backend: str | None) -> None:
        """Remove the user's last rules; what was under them shows again."""
        with self.lock:
            self.contract(name, "unregister_gradient")
            for i, (kernel, of, _) in reversed([*enumerate(self._user_gradients)]):
                if (kernel, of) == (name, backend):
                    del self._user_gradients[i]
                    self.plans = {}
                    return
        where = f" for {backend!r}" if backend is not None else ""
        raise ValueError(
            f"unregister_gradient: no gradient of {name!r}{where} is registered by you"
        )

    def rule_layers(self, kernel: Kernel, backend: str) -> list[tuple[str, Rules]]:
        """Return whose rules apply, "core" first and the last of the "user" last."""
        with self.lock:
            layers = [
                ("core", kernel.gradient),
                ("backend", self._own_gradients.get((kernel.name, backend), {})),
                *(
                    ("user", table)
                    for name, of, table in self._user_gradients
                    if name == kernel.name and of in (None, backend)
                ),
            ]
        return [(whose, table) for whose, table in layers if table]

    def pack(self, name: str) -> dict[str, Rules]:
        """Return the rules of a gradient pack by kernel."""
        if name not in self._packs or not self._packs[name][1].usable:
            hint = suggest(str(name), self._packs)
            names = ", ".join(sorted(self._packs)) or "none"
            raise ValueError(
                f"use_gradients: unknown pack {name!r}{hint}; installed: {names}"
            )
        pack, owner = self._packs[name]
        return {
            kernel: rules(
                self.contract(kernel, f"pack {name!r} of {owner}"),
                functions,
                f"{owner}, pack {name!r}",
                linear=pack.linear,
            )
            for kernel, functions in pack.open().items()
        }

    def user_rules(
        self, who: str, name: str, functions: Functions, linear: bool
    ) -> Rules:
        """Check the user's gradient functions."""
        kernel = self.contract(name, who)
        if not functions:
            inputs = ", ".join(kernel.inputs)
            raise ValueError(f"{who}: no function is given for {kernel}; name {inputs}")
        return rules(kernel, functions, "user", linear=linear)


# How messages say in which phase a plugin is.
_STATES = {Phase.FAILED: "has failed", Phase.BLOCKED: "is blocked"}

registry = Registry()


def _fits(kernel: Kernel, function: Function, who: str) -> None:
    """Raise unless ``function`` can be called as ``kernel`` is run."""
    if not callable(function):
        raise TypeError(f"{who}: {kernel} needs a function, got {function!r}")
    try:
        signature = inspect.signature(function)
    except ValueError:
        return  # some built-in functions have none
    positional = len(kernel.inputs) or 1  # without inputs: the backend's Arrays
    takes = getattr(function, "nin", positional)  # a ufunc's outputs look like inputs
    if takes != positional and kernel.variadic is None:
        raise ValueError(f"{who}: {function!r} takes {takes} inputs, not as {kernel}")
    try:
        signature.bind(*[None] * positional, **dict.fromkeys(kernel.attrs))
    except TypeError as error:
        raise ValueError(
            f"{who}: {function!r} does not fit {kernel}: {error}"
        ) from None


def _normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _home(backend: str) -> str:
    return _normal(f"plugrad-{backend}")
