"""The process-wide registry: contracts, backends, kernels and gradients, in layers.

It maps ``(kernel name, backend name)`` to implementations, best first: those of the
user override those of kernel packs, which override those of the backend's owner. It
maps kernels to gradient rules: those of the user override those of the backend, which
override those of the core. Writers hold the lock, check everything and then commit.
Readers take no lock, because the tables that they read are replaced and never changed.

Map of ``Registry``: contracts, plugins, opening, kernels. The class of its entries is
in ``plugins``, and gradients are in ``gradients``.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from plugrad._src.tensor.explained import explained

from .backend import (
    KERNEL_PACK,
    OWNER,
    USER,
    BackendUnavailable,
    Function,
    KernelLayer,
    OpenBackend,
    takes_bfloat16,
)
from .contract import Kernel, VJPs, suggest
from .gradients import GradientRegistry
from .plugins import Claims, Entry, Phase, Plugin

if TYPE_CHECKING:
    from .hooks import Backend, GradientPack, KernelPack

# A kernel pack, its kernels, and its gradients.
Opened = tuple["Entry[KernelPack]", Mapping[str, Function], dict[str, VJPs]]


class Registry:
    """Everything that is registered; ``registry`` is the only instance in use."""

    core: Plugin
    user: Plugin

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.core = Plugin("plugrad", phase=Phase.REGISTERED)
        self.user = Plugin("user", phase=Phase.REGISTERED)
        self._plugins: list[Plugin] = []
        self._searched = False
        self._contracts: dict[str, Kernel] = {}
        self.opened: dict[str, OpenBackend] = {}
        self.kernels: dict[tuple[str, str], list[KernelLayer]] = {}
        self.owners: dict[str, Plugin] = {}  # the declarer of each contract
        self._backends: Claims[Backend] = Claims(
            "backend", BackendUnavailable, ("cpu", "wasm", "opencl")
        )
        self._kernel_packs: list[Entry[KernelPack]] = []
        self._opening: list[Entry[Backend]] = []
        self.gradients = GradientRegistry(
            self.lock, self.contract, self.known, self.load
        )
        # Plugins that are not loaded yet. The core is among them, because its version
        # has not been read.
        self.pending: list[Plugin] = [self.core]

    # --- contracts ---------------------------------------------------------------

    @property
    def contracts(self) -> dict[str, Kernel]:
        """All contracts by name; the dict is replaced when one is declared."""
        self.load()
        return self._contracts

    @contracts.setter
    def contracts(self, contracts: dict[str, Kernel]) -> None:
        self._contracts = contracts

    def declare(self, kernels: Iterable[Kernel], owner: Plugin, who: str = "") -> None:
        """Add contracts, all or none; ``who`` is named in messages."""
        with self.lock:
            who = who or str(owner)
            if owner is self.user:
                self.load()
            new: dict[str, Kernel] = {}
            for kernel in kernels:
                if not isinstance(kernel, Kernel):
                    raise TypeError(f"{who}: contracts must be Kernels, got {kernel!r}")
                if owner is not self.core and "." not in kernel.name:
                    raise ValueError(
                        f"{who}: kernel {kernel.name!r} from outside the core needs "
                        f"a dotted name, such as 'mylib.{kernel.name}'"
                    )
                known = self._contracts.get(kernel.name) or new.setdefault(
                    kernel.name, kernel
                )
                if known is not kernel and known.contract != kernel.contract:
                    raise ValueError(
                        f"{who}: {kernel} is already declared as {known}, with other "
                        "inputs, attributes or flags; give yours another name"
                    )
            self._contracts = {**self._contracts, **new}
            self.owners = self.owners | dict.fromkeys(new, owner)

    def contract(self, name: str, who: str) -> Kernel:
        """Return a contract by name, or raise with a suggestion."""
        try:
            return self.contracts[name]
        except (KeyError, TypeError):
            hint = self.suggest_kernel(str(name))
            error = ValueError(f"{who}: unknown kernel {name!r}{hint}")
            raise explained(error, "unknown-kernel") from None

    def suggest_kernel(self, name: str) -> str:
        """Return a hint about an unknown kernel: a similar name, ignoring case."""
        by_lower = {known.lower(): known for known in self.contracts}
        return suggest(by_lower.get(name.lower(), name), self.contracts)

    # --- plugins -----------------------------------------------------------------

    @property
    def plugins(self) -> list[Plugin]:
        """All plugins that are installed."""
        self.search_once()
        return self._plugins

    def search_once(self) -> None:
        """Find the installed plugins, unless they were searched for before."""
        if not self._searched:
            self.search()

    def search(self) -> None:
        """Find the plugins that have been installed since the last search."""
        with self.lock:
            discovery = import_module("plugrad._src.registry.discovery")
            found = discovery.found({p.distribution for p in self._plugins})
            self.pending += found
            self._plugins += found
            self._searched = True

    def load(self, name: Any = None) -> None:
        """Load the plugins that are pending; every query calls this method.

        If ``name`` is unknown, look for plugins that have been installed since the last
        search.
        """
        if self.pending:
            _loading().load()
        if isinstance(name, str) and not self._knows(name):
            _loading().load(name)

    def register(
        self,
        owner: Plugin,
        backends: Sequence[Backend] = (),
        kernel_packs: Sequence[KernelPack] = (),
        packs: Sequence[GradientPack] = (),
    ) -> None:
        """Register all that a plugin's hooks returned; nothing if there is an error."""
        from .hooks import Backend, GradientPack, KernelPack

        groups = (backends, Backend), (kernel_packs, KernelPack), (packs, GradientPack)
        for values, kind in groups:
            for value in values:
                if not isinstance(value, kind):
                    raise TypeError(
                        f"{owner}: a hook must return a list of {kind.__name__}, but "
                        f"the list contains {value!r}"
                    )
        for named in (backends, packs):
            names = [value.name for value in named]
            if twice := {name for name in names if names.count(name) > 1}:
                raise ValueError(f"{owner}: provides {', '.join(sorted(twice))} twice")
        with self.lock:
            contracts = [kernel for b in backends for kernel in b.contracts]
            contracts += [kernel for e in kernel_packs for kernel in e.contracts]
            self.declare(contracts, owner)
            for backend in backends:
                self._backends.add(Entry(backend, owner))
            for pack in packs:
                self.gradients.packs.add(Entry(pack, owner))
            self._kernel_packs += [
                Entry(kernel_pack, owner) for kernel_pack in kernel_packs
            ]

    def adopt(self, backend: Backend) -> None:
        """Add a user's backend, with an owner of its own, so that it can fail alone."""
        self.load()
        with self.lock:
            if backend.name in self._backends.entries:
                raise ValueError(
                    f"backend {backend.name!r} is already registered; call "
                    "remove_backend first, or choose another name"
                )
            owner = Plugin("user", name=backend.name, phase=Phase.REGISTERED)
            self.register(owner, [backend])

    def settle(self) -> None:
        """Decide which plugin owns each name that several claim."""
        with self.lock:
            self._backends.settle(self.plugins)
            self.gradients.packs.settle(self.plugins)

    def _knows(self, name: str) -> bool:
        """Return whether a backend, a pack or a plugin has this name."""
        known = [*self._backends.entries, *self.gradients.packs.entries]
        known += [n for p in self.plugins for n in (p.name, p.distribution)]
        return name in known

    def plugin(self, name: Any, who: str) -> Plugin:
        """Return a plugin by its name or distribution, or raise with a suggestion."""
        self.load()
        for plugin in self.plugins:
            if isinstance(name, str) and name in (plugin.name, plugin.distribution):
                return plugin
        names = [plugin.name or plugin.distribution for plugin in self.plugins]
        raise ValueError(
            f"{who}: unknown plugin {name!r}{suggest(str(name), names)}; installed: "
            f"{', '.join(names) or 'none'}"
        )

    def backends(self) -> list[str]:
        """Return the names of usable backends, best first, without internal ones."""
        return [entry.value.name for entry in self.listed() if entry.usable]

    def listed(self) -> list[Entry[Backend]]:
        """Return the backends that users see, usable or not, best first."""
        return [e for e in self.claimed() if not e.value.name.startswith("_")]

    def claimed(self) -> list[Entry[Backend]]:
        """Return all backends that plugins claim, usable or not, best first."""
        self.load()
        claims = [e for claims in self._backends.entries.values() for e in claims]
        return sorted(claims, key=lambda e: (-e.value.priority, e.value.name))

    def kernel_packs(self, backend: str) -> list[Entry[KernelPack]]:
        """Return the kernel packs that plugins provide, usable or not."""
        return [entry for entry in self._kernel_packs if entry.value.backend == backend]

    def unload(self, plugin: Plugin) -> None:
        """Remove all registrations of a plugin; its backends must be closed."""
        with self.lock:
            plugin.block("removed with remove_plugin")
            for (name, backend), layers in [*self.kernels.items()]:
                left = [layer for layer in layers if layer.owner is not plugin]
                if len(left) < len(layers):
                    self.kernels = {**self.kernels, (name, backend): left}
                    self._refresh(name, backend)

    # --- opening -----------------------------------------------------------------

    def open(self, name: Any, who: str = "backend") -> OpenBackend:
        """Return a backend, opened at its first use; ``who`` is named in messages."""
        found = self.opened.get(name) if isinstance(name, str) else None
        if found is not None:
            return found
        self.load(name)
        with self.lock:
            if isinstance(name, str) and name in self.opened:
                return self.opened[name]
            entry = self._backends.find(name, who, self.plugins)
            if entry in self._opening:
                raise RuntimeError(
                    f"backend {name!r} of {entry.owner} is used by its own `open`; "
                    "run no ops there, or run them on another backend with "
                    "use_backend"
                )
            self._opening.append(entry)
            try:
                opened = self._open(entry)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # even SystemExit: do not exit
                entry.fail(error)
                raise self._backends.unavailable(name, entry) from error
            finally:
                self._opening.pop()
            self.opened = {**self.opened, name: opened}
            entry.opened()
            return opened

    def close(self, name: str) -> None:
        """Remove a backend and everything that was registered for it."""
        with self.lock:
            self.known(name, "remove_backend")
            self._backends.drop(name)
            opened = self.opened.get(name)
            self.opened = {n: b for n, b in self.opened.items() if n != name}
            own = {
                key: layers for key, layers in self.kernels.items() if key[1] == name
            }
            dropped = [layer for layers in own.values() for layer in layers]
            self.kernels = {k: v for k, v in self.kernels.items() if k not in own}
            self.gradients.close(name)
        with contextlib.ExitStack() as stack:  # each is called, whatever others raise
            if opened is not None:
                opened.table, opened.in_place, opened.scalars = {}, {}, {}
                opened.takes_bfloat16 = frozenset()
                stack.callback(opened.runtime.close or (lambda: None))
            for layer in dropped:
                stack.callback(layer.dispose or (lambda: None))

    def _open(self, entry: Entry[Backend]) -> OpenBackend:
        backend = entry.value
        owner = entry.owner
        runtime = entry.open()
        opened = OpenBackend(backend.name, owner, runtime)
        for name in runtime.host_kernels or ():
            self.contract(name, f"host kernels of {owner}")
        if runtime.host is not None:
            self.known(runtime.host, f"host of {backend.name!r}, from {owner}")
        own_kernels = self.check(runtime.kernels, f"kernels of {owner}")
        own_gradients = self.gradients.vjp_rules_of(runtime.gradients, f"{owner}")
        layers = {
            name: list(found)  # the user's, which may be registered already
            for (name, of), found in self.kernels.items()
            if of == backend.name
        }
        entries: list[Entry[KernelPack]] = []
        pack_gradients: list[dict[str, VJPs]] = []
        for pack, kernels, gradients in self._open_kernel_packs(backend.name):
            entries.append(pack)
            pack_gradients.append(gradients)
            for name, function in kernels.items():
                layer = KernelLayer(KERNEL_PACK, function, pack.owner)
                layers.setdefault(name, []).append(layer)
        for name, function in own_kernels.items():
            layers.setdefault(name, []).append(KernelLayer(OWNER, function, owner))
        # Everything is checked: after this, nothing raises.
        opened.use({self.contracts[n]: f[0].function for n, f in layers.items() if f})
        opened_kernels = {(n, backend.name): found for n, found in layers.items()}
        self.kernels = self.kernels | opened_kernels
        self.gradients.open(backend.name, own_gradients, pack_gradients)
        for pack in entries:
            pack.opened()
        return opened

    def _open_kernel_packs(self, backend: str) -> list[Opened]:
        """Return the kernels of kernel packs; a broken pack affects no other."""
        found: list[Opened] = []
        for entry in self.kernel_packs(backend):
            if entry.usable:
                try:
                    functions = self.check(entry.open(), f"kernels of {entry.owner}")
                    given = entry.owner.call(entry.value.gradients)
                    gradients = self.gradients.vjp_rules_of(given, f"{entry.owner}")
                    found.append((entry, functions, gradients))
                except KeyboardInterrupt:
                    raise
                except BaseException as error:
                    entry.fail(error)
        accepted: list[Opened] = []
        for entry, kernels, gradients in found:
            names = set()
            rivals = []
            for other, their_kernels, their_gradients in found:
                both = (set(kernels) & set(their_kernels)) | (
                    set(gradients) & set(their_gradients)
                )
                if other is not entry and both:
                    names |= both
                    rivals.append(str(other.owner))
            if names:
                entry.block(
                    f"{', '.join(sorted(names))} on {backend!r} is also extended by "
                    f"{' and '.join(rivals)}; set PLUGRAD_BLOCK to all but one of them"
                )
            else:
                accepted.append((entry, kernels, gradients))
        return accepted

    def check(self, table: Mapping[str, Function], who: str) -> dict[str, Function]:
        """Return functions that fit the contracts; raise if one cannot be adapted."""
        fitting = {}
        for name, function in table.items():
            kernel = self.contract(name, who)
            fitting[name] = _fitting_function(kernel, function, who)
            in_place = getattr(function, "in_place", None)
            if in_place is not None:
                _fitting_function(kernel, in_place, f"{who}, in place")
        return fitting

    # --- kernels -----------------------------------------------------------------

    def add_kernel(
        self,
        name: str,
        backend: str,
        function: Function,
        dispose: Callable[[], None] | None = None,
    ) -> None:
        """Let the user's implementation override all others."""
        with self.lock:
            function = self.check({name: function}, "register_kernel")[name]
            self.known(backend, "register_kernel")
            layer = KernelLayer(USER, function, self.user, dispose)
            under = self.kernels.get((name, backend), [])
            self.kernels = {**self.kernels, (name, backend): [layer, *under]}
            self._refresh(name, backend)

    def drop_kernel(self, name: str, backend: str) -> None:
        """Remove the user's last implementation; the one it overrode applies again."""
        with self.lock:
            self.contract(name, "unregister_kernel")
            self.known(backend, "unregister_kernel")
            layers = self.kernels.get((name, backend))
            if not layers or layers[0].rank != USER:
                raise ValueError(
                    f"unregister_kernel: {name!r} on {backend!r} was not registered by "
                    "you with register_kernel"
                )
            self.kernels = {**self.kernels, (name, backend): layers[1:]}
            self._refresh(name, backend)
        if layers[0].dispose is not None:
            layers[0].dispose()

    def known(self, backend: Any, who: str) -> None:
        """Raise unless there is a backend of this name, open or not."""
        self.load()
        if not isinstance(backend, str) or backend not in self._backends.entries:
            raise self._backends.unknown(backend, who)

    def _refresh(self, name: str, backend: str) -> None:
        if opened := self.opened.get(backend):
            table = {k: f for k, f in opened.table.items() if k != name}
            in_place = {k: f for k, f in opened.in_place.items() if k != name}
            with_bfloat16 = opened.takes_bfloat16 - {name}
            if layers := self.kernels[name, backend]:
                kernel = self.contracts[name]
                table[name] = opened.wrapped(kernel, layers[0].function)
                in_place |= opened.in_place_of(kernel, layers[0].function)
                if takes_bfloat16(layers[0].function):
                    with_bfloat16 |= {name}
            opened.table, opened.in_place = table, in_place
            opened.takes_bfloat16 = with_bfloat16


registry = Registry()
gradient_registry = registry.gradients  # for the accelerators


def _loading() -> Any:
    """Return the module that loads plugins; importing plugrad does not need it."""
    return import_module("plugrad._src.registry.loading")


def _fitting_function(kernel: Kernel, function: Function, who: str) -> Function:
    """Return a function with the signature of ``kernel``, or raise.

    A function that was written before the contract gained an attribute with a default
    does not accept the attribute. The function returned in its place calls it for the
    default, and declines other values.
    """
    import inspect  # only where a function is checked

    if not callable(function):
        raise TypeError(f"{who}: {kernel} needs a function, got {function!r}")
    positional = len(kernel.inputs) or 1  # without inputs: the backend's Arrays
    # The signature of a ufunc lists its outputs like inputs.
    takes = getattr(function, "nin", positional)
    if takes != positional and kernel.variadic is None:
        raise ValueError(
            f"{who}: {function!r} takes {takes} inputs, but {kernel} passes "
            f"{positional}"
        )
    try:
        signature = inspect.signature(function)
    except ValueError:
        return function  # some built-in functions have none, such as NumPy 2.1's ufuncs
    parameters = signature.parameters
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    new = {
        name: default
        for name, default in kernel.defaults.items()
        if name not in parameters and not takes_all
    }
    given = [name for name in kernel.attrs if name not in new]
    try:
        signature.bind(*[None] * positional, **dict.fromkeys(given))
    except TypeError as error:
        raise ValueError(
            f"{who}: {function!r} does not fit {kernel}: {error}"
        ) from None
    return _before_new_attributes(new, function) if new else function


def _before_new_attributes(new: Mapping[str, Any], function: Function) -> Function:
    """Return ``function``, declining all values of new attributes but the defaults."""

    @functools.wraps(function)
    def call(*natives: Any, **attrs: Any) -> Any:
        for name, default in new.items():
            value = attrs.pop(name)
            if type(value) is not type(default) or value != default:
                return NotImplemented
        return function(*natives, **attrs)

    vars(call).pop("in_place", None)  # it does not take the new attributes
    return call
