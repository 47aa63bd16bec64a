"""Plugins from entry points: found at import, called when a registry is first needed.

Nothing a plugin does can break the import, the others, or the user's program: every
step is taken for one plugin at a time, and what it raises is kept with its phase.
``load_setuptools_entrypoints`` of pluggy would do none of this.
"""

from __future__ import annotations

import importlib
import os
import re
import warnings
from collections.abc import Iterator
from typing import Any

import importlib_metadata as metadata
import pluggy

from . import _hooks
from ._entries import Phase, Plugin
from ._kernel import suggest
from ._registry import registry

VARIABLES = ("BACKEND", "PLUGINS", "BLOCK", "FALLBACK")
HOOKS = ("plugrad_backends", "plugrad_kernels", "plugrad_gradients")

manager = pluggy.PluginManager("plugrad")
manager.add_hookspecs(_hooks)
_pending: list[Plugin] = []


def discover() -> None:
    """Read the entry points of all distributions; imports nothing."""
    seen = set()
    for found in metadata.distributions():
        try:
            text = found.read_text("entry_points.txt") or ""
        except Exception:  # unreadable, and so nobody's plugin
            continue
        if "[plugrad." not in text:  # the files of most neighbours are never parsed
            continue
        name, version = _named(found)
        if name not in seen:  # the same directory may be on sys.path twice
            seen.add(name)
            _pending.extend(_read(found, name, version))
    _pending.sort(key=lambda plugin: (plugin.distribution, plugin.name))
    registry.plugins += _pending


def _named(found: Any) -> tuple[str, str]:
    """Return name and version; parsing all of the metadata takes a hundred times it."""
    try:
        text = found.read_text("METADATA") or found.read_text("PKG-INFO") or ""
    except Exception:
        text = ""
    head = text.partition("\n\n")[0]
    fields = dict(re.findall(r"^(Name|Version): *(\S+)", head, re.MULTILINE))
    return fields.get("Name", str(found)), fields.get("Version", "")


def _read(found: Any, name: str, version: str) -> Iterator[Plugin]:
    """Yield the plugins that one distribution announces."""
    try:
        for entry in found.entry_points:
            if not entry.group.startswith("plugrad."):
                continue
            plugin = Plugin(name, version, entry.name, entry.value)
            if entry.group != _hooks.GROUP:
                plugin.phase = Phase.INCOMPATIBLE
                plugin.reason = f"made for {entry.group}, this is {_hooks.GROUP}"
            yield plugin
    except Exception as error:
        plugin = Plugin(name, version)
        plugin.fail(error)
        yield plugin


def load() -> None:
    """Import what was discovered, call its hooks and register what they return."""
    if not _pending:
        return
    with registry.lock:
        pending = _pending[:]
        _pending.clear()
        _check_environment()
        allowed, blocked = names_in("PLUGRAD_PLUGINS"), names_in("PLUGRAD_BLOCK")
        for plugin in pending:
            mine = {plugin.name, plugin.distribution}
            if blocked & mine:
                plugin.block("named in PLUGRAD_BLOCK")
            elif allowed and not allowed & mine:
                plugin.block("not named in PLUGRAD_PLUGINS")
            if plugin.usable:
                _register(plugin)
        registry.settle()
        registry.core.version = metadata.version("plugrad")


def _register(plugin: Plugin) -> None:
    module = None
    try:
        module = importlib.import_module(plugin.module)
        plugin.phase = Phase.IMPORTED
        manager.register(module, f"{plugin.distribution}:{plugin.name}")
        manager.check_pending()  # a misspelt hook
        if not manager.get_hookcallers(module):
            hooks = ", ".join(HOOKS)
            raise TypeError(f"{plugin.module} has no hook; there are {hooks}")
        registry.register(plugin, *(_call(hook, module) for hook in HOOKS))
        plugin.phase = Phase.REGISTERED
    except (Exception, SystemExit) as error:  # a plugin must not end the program
        plugin.fail(error)
        if module is not None and manager.is_registered(module):
            manager.unregister(module)


def _call(hook: str, module: object) -> list[Any]:
    """Call one hook of one plugin; pluggy would stop at the first that raises."""
    others = [plugin for plugin in manager.get_plugins() if plugin is not module]
    values: list[Any] = []
    for result in manager.subset_hook_caller(hook, others)():
        if not isinstance(result, list | tuple):
            raise TypeError(f"{hook} must return a list, got {result!r}")
        values += result
    return values


def names_in(variable: str) -> set[str]:
    """Return the comma-separated names in an environment variable."""
    return {n.strip() for n in os.environ.get(variable, "").split(",") if n.strip()}


def _check_environment() -> None:
    """Warn of a misspelt variable; ``PLUGRAD_<BACKEND>_*`` belongs to that backend."""
    backends = {plugin.name.upper() for plugin in registry.plugins}
    known = [f"PLUGRAD_{name}" for name in VARIABLES]
    for variable in os.environ:
        if not variable.startswith("PLUGRAD_") or variable in known:
            continue
        if variable.split("_")[1] not in backends:
            warnings.warn(
                f"{variable} is not used by plugrad{suggest(variable, known)}",
                stacklevel=2,
            )
