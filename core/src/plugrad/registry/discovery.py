"""Plugins from entry points: found at import, called when a registry is first needed.

Nothing a plugin does can break the import, the others, or the user's program: every
step is taken for one plugin at a time, and what it raises is kept with its phase.
``load_setuptools_entrypoints`` of pluggy would do none of this.

Map: ``discover`` and what it reads; ``load`` and how one plugin is staged; the
variables of the environment.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import importlib_metadata as metadata
import pluggy

from . import hooks
from .contract import suggest
from .deprecation import outside
from .entries import Phase, Plugin, normal, running
from .registry import registry

VARIABLES = ("BACKEND", "PLUGINS", "BLOCK", "GRADIENTS", "FALLBACK", "COMPILED")
PATIENCE = 60.0  # seconds that a thread waits while another one loads plugins
HOOKS = ("plugrad_backends", "plugrad_kernels", "plugrad_gradients")

manager = pluggy.PluginManager("plugrad")
manager.add_hookspecs(hooks)
_pending: list[Plugin] = [registry.core]  # which needs nothing but its version


# --- discovery -------------------------------------------------------------------


class Announcement(NamedTuple):
    """A distribution that has entry points for plugrad."""

    distribution: str
    version: str
    files: Any  # what importlib_metadata found


def discover() -> None:
    """Read the entry points of all distributions; imports nothing.

    Of several distributions of one name the first on ``sys.path`` counts, as it does
    for imports. Called again, it adds what has been installed meanwhile.
    """
    seen = {plugin.distribution for plugin in registry.plugins}
    found: list[Plugin] = []
    for one in announced():
        if one.distribution not in seen:
            seen.add(one.distribution)
            found += _read(*one)
    found.sort(key=lambda plugin: (plugin.distribution, plugin.name))
    _pending.extend(found)
    registry.plugins += found


def announced() -> Iterator[Announcement]:
    """Yield the distributions with entry points for plugrad, shadowed ones included."""
    for files in _distributions():
        try:
            text = files.read_text("entry_points.txt") or ""
        except Exception:  # unreadable, and so nobody's plugin
            continue
        if "[plugrad." in text:  # the files of most neighbours are never parsed
            yield Announcement(*_named(files), files)


def version(distribution: str) -> str:
    """Return the version that is installed, or nothing."""
    found = next(_distributions(name=distribution), None)
    return "" if found is None else _named(found)[1]


def _distributions(**what: str) -> Iterator[Any]:
    """Yield what is installed, with the name or all of it, finder by finder."""
    context = metadata.DistributionFinder.Context(**what)  # type: ignore[no-untyped-call]
    for finder in sys.meta_path:
        find = getattr(finder, "find_distributions", lambda _: ())
        try:
            distributions = [*find(context)]
        except Exception:  # the finder of a stranger: what it knows, nobody does
            continue
        yield from distributions


def _named(files: Any) -> tuple[str, str]:
    """Return name and version; parsing all of the metadata takes a hundred times it."""
    try:
        text = files.read_text("METADATA") or files.read_text("PKG-INFO") or ""
    except Exception:
        text = ""
    head = text.partition("\n\n")[0]
    fields = dict(re.findall(r"^(Name|Version): *(\S+)", head, re.MULTILINE))
    return normal(fields.get("Name", str(files))), fields.get("Version", "")


def _read(name: str, version: str, files: Any) -> Iterator[Plugin]:
    """Yield the plugins that one distribution announces."""
    try:
        for entry in files.entry_points:
            if not entry.group.startswith("plugrad."):
                continue
            plugin = Plugin(name, version, entry.name, entry.value)
            if entry.group != hooks.GROUP:
                plugin.phase = Phase.INCOMPATIBLE
                api = entry.group.removeprefix("plugrad.v")
                plugin.reason = (
                    f"for API {api}, this is {hooks.GROUP.removeprefix('plugrad.v')}"
                    if api.isdigit()
                    else f"in group {entry.group}, and plugins are in {hooks.GROUP}"
                )
            yield plugin
    except Exception as error:
        plugin = Plugin(name, version)
        plugin.fail(error)
        yield plugin


# --- loading ---------------------------------------------------------------------


def load(name: str | None = None) -> None:
    """Import what was discovered, call its hooks and register what they return.

    Args:
        name: Somebody asks for it; if nobody has it, look for what has been installed
            since plugrad was imported.

    """
    if _pending:
        _load()
    if name is not None and not registry.knows(name):
        with registry.lock:
            importlib.invalidate_caches()
            discover()
        _load()


def _load() -> None:
    if not registry.lock.acquire(timeout=PATIENCE):
        raise RuntimeError(
            f"{running[-1] if running else 'plugrad'} has been loading in another "
            f"thread for {PATIENCE:g} s; if it waits for a module that this thread is "
            "importing, run no ops while that is imported"
        )
    try:
        if not _pending:
            return  # another thread has done it
        if running:
            raise RuntimeError(
                f"{running[-1]} uses plugrad's engine while it is loaded; a light "
                "module returns descriptors, and what needs tensors goes into `open`"
            )
        allowed, blocked = names_in("PLUGRAD_PLUGINS"), names_in("PLUGRAD_BLOCK")
        for plugin in _pending:
            if plugin.phase is not Phase.DISCOVERED:
                continue  # out, or loaded before an interrupt
            if blocked & _names(plugin):
                plugin.block("named in PLUGRAD_BLOCK")
            elif allowed and not allowed & _names(plugin):
                plugin.block("not named in PLUGRAD_PLUGINS")
            else:
                _register(plugin)
        if not registry.core.version:
            registry.core.version = version("plugrad")
        registry.settle()
        _pending.clear()  # last: other threads take it for "all is there"
    finally:
        registry.lock.release()
    for message in mistakes():
        warnings.warn(message, stacklevel=outside())


def _register(plugin: Plugin) -> None:
    """Stage what a plugin brings, and commit it; on any error nothing is left."""
    try:
        registry.register(plugin, *plugin.call(_staged, plugin))
        plugin.phase = Phase.REGISTERED
    except BaseException as error:
        known = manager.get_plugin(_key(plugin))
        if known is not None:
            manager.unregister(known)
        if isinstance(error, KeyboardInterrupt):
            plugin.phase = Phase.DISCOVERED  # and loaded at the next occasion
            raise
        plugin.fail(error)  # SystemExit, too: a plugin must not end the program


def _staged(plugin: Plugin) -> list[list[Any]]:
    """Import a plugin and return what its hooks return: a list for each hook."""
    name, _, attribute = plugin.module.partition(":")
    module: Any = importlib.import_module(name)
    for part in filter(None, attribute.split(".")):
        module = getattr(module, part)
    plugin.phase = Phase.IMPORTED
    manager.register(module, _key(plugin))
    found = {name: getattr(module, name, None) for name in dir(module)}
    marked = [name for name, value in found.items() if hasattr(value, "plugrad_impl")]
    for name in marked:
        if name not in HOOKS:
            raise TypeError(
                f"{plugin.module}: unknown hook {name}{suggest(name, HOOKS)}"
            )
    for name in HOOKS:
        if callable(found.get(name)) and name not in marked:
            raise TypeError(f"{plugin.module}: {name} needs the decorator @hookimpl")
    if not marked:
        raise TypeError(f"{plugin.module} has no hook; there are {', '.join(HOOKS)}")
    return [_call(hook, module) if hook in marked else [] for hook in HOOKS]


def _key(plugin: Plugin) -> str:
    return f"{plugin.distribution}:{plugin.name}"


def _call(hook: str, module: object) -> list[Any]:
    """Call one hook of one plugin; pluggy would stop at the first that raises."""
    others = [plugin for plugin in manager.get_plugins() if plugin is not module]
    results = manager.subset_hook_caller(hook, others)()
    for result in results or [None]:  # pluggy leaves None out
        if not isinstance(result, list | tuple):
            raise TypeError(f"{hook} must return a list, got {result!r}")
    return [value for result in results for value in result]


# --- the environment -------------------------------------------------------------


def names_in(variable: str) -> set[str]:
    """Return the comma-separated names in an environment variable."""
    return {normal(n.strip()) for n in os.environ.get(variable, "").split(",")} - {""}


def _names(plugin: Plugin) -> set[str]:
    return {normal(plugin.name), plugin.distribution}


def mistakes() -> list[str]:
    """Return what is wrong with the variables; ``PLUGRAD_<NAME>_*`` is a backend's."""
    known = [f"PLUGRAD_{name}" for name in VARIABLES]
    backends = {plugin.name for plugin in registry.plugins}
    backends |= {entry.value.name for entry in registry.claimed()}
    prefixes = tuple(f"PLUGRAD_{n.upper().replace('-', '_')}_" for n in backends if n)
    found = [
        f"{variable} is not used by plugrad{suggest(variable, known)}"
        for variable in sorted(os.environ)
        if variable.startswith("PLUGRAD_")
        and variable not in known
        and not variable.startswith(prefixes)
    ]
    if (compiled := os.environ.get("PLUGRAD_COMPILED", "1")) not in ("0", "1"):
        found.append(f"PLUGRAD_COMPILED={compiled}: use 0 or 1")
    names = {name for plugin in registry.plugins for name in _names(plugin)} - {""}
    for variable in ("PLUGRAD_PLUGINS", "PLUGRAD_BLOCK"):
        found += [
            f"{variable} names {name!r}, and no such plugin is installed"
            f"{suggest(name, names)}"
            for name in sorted(names_in(variable) - names)
        ]
    return found
