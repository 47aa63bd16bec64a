"""Load the installed plugins; an error in one plugin does not affect the others.

The registry calls ``load`` at its first query. ``discovery`` finds the plugins; then
``load`` takes these steps for one plugin at a time: import it, call its hooks, check
what they return and register it. Finally, it decides which plugin owns each name. The
registry opens a backend at its first use.

An exception that a plugin raises is stored with its phase: it cannot break the import
of plugrad, other plugins or the user's program. pluggy's
``load_setuptools_entrypoints`` does none of this.

Contents: ``load``; the steps of one plugin; environment variables.
"""

from __future__ import annotations

import importlib
import os
import warnings
from typing import Any

import pluggy

from . import discovery, hooks
from .contract import suggest
from .deprecation import outside
from .plugins import Phase, Plugin, canonical_name, running
from .registry import registry

VARIABLES = (
    "BACKEND",
    "PLUGINS",
    "BLOCK",
    "GRADIENTS",
    "FALLBACK",
    "COMPILED",
    "JIT",
    "JIT_CHECK",
)
# Seconds that a thread waits for another one that is loading plugins.
LOAD_TIMEOUT_S = 60.0
HOOKS = ("plugrad_backends", "plugrad_kernels", "plugrad_gradients")

manager = pluggy.PluginManager("plugrad")
manager.add_hookspecs(hooks)


def load(name: str | None = None) -> None:
    """Register the plugins that have been found but not loaded yet.

    Args:
        name: A name that is not registered. If it is given, plugins that have been
            installed since the last search are loaded as well.

    """
    if registry.pending:
        _load()
    if name is not None:
        with registry.lock:
            importlib.invalidate_caches()
            registry.search()
        _load()


def _load() -> None:
    if not registry.lock.acquire(timeout=LOAD_TIMEOUT_S):
        raise RuntimeError(
            f"{running[-1] if running else 'plugrad'} has been loading in another "
            f"thread for {LOAD_TIMEOUT_S:g} s; if it is waiting for a module that "
            "this thread is importing, do not run ops during that import"
        )
    try:
        if not registry.pending:
            return  # another thread has loaded them
        if running:
            raise RuntimeError(
                f"{running[-1]} uses plugrad's engine while it is loaded; an "
                "entry-point module returns descriptors; move code that needs "
                "tensors into `open`"
            )
        registry.search_once()
        if not registry.core.version:
            registry.core.version = discovery.version("plugrad")
        allowed = names_in("PLUGRAD_PLUGINS")
        blocked = names_in("PLUGRAD_BLOCK")
        for plugin in registry.pending:
            if plugin.phase is not Phase.DISCOVERED:
                continue  # left out, or loaded before an interrupt
            if blocked & _names(plugin):
                plugin.block("named in PLUGRAD_BLOCK")
            elif allowed and not allowed & _names(plugin):
                plugin.block("not named in PLUGRAD_PLUGINS")
            elif discovery.is_too_old(registry.core.version, plugin.requirement):
                needs = f"it needs plugrad{plugin.requirement}"
                have = f"plugrad {registry.core.version} is installed"
                plugin.refuse(f"{needs}, and {have}", "plugrad")
            else:
                _load_plugin(plugin)
        registry.settle()
        registry.pending.clear()  # last: other threads read it as "all is loaded"
    finally:
        registry.lock.release()
    for message in mistakes():
        warnings.warn(message, stacklevel=outside())


# --- one plugin ------------------------------------------------------------------


def _load_plugin(plugin: Plugin) -> None:
    """Import a plugin, call its hooks and register it; an error undoes all of this."""
    try:
        registry.register(plugin, *plugin.call(_import_and_call_hooks, plugin))
        plugin.phase = Phase.REGISTERED
    except BaseException as error:
        known = manager.get_plugin(_key(plugin))
        if known is not None:
            manager.unregister(known)
        if isinstance(error, KeyboardInterrupt):
            plugin.phase = Phase.DISCOVERED  # the next query loads it
            raise
        plugin.fail(error)  # even SystemExit: a plugin must not end the program


def _import_and_call_hooks(plugin: Plugin) -> list[list[Any]]:
    """Import a plugin and return the results of its hooks; this runs its own code."""
    module = _import(plugin)
    plugin.phase = Phase.IMPORTED
    marked = _marked_hooks(plugin, module)
    manager.register(module, _key(plugin))
    return [_call_hook(hook, module) if hook in marked else [] for hook in HOOKS]


def _import(plugin: Plugin) -> Any:
    """Import what an entry point names: ``module`` or ``module:attribute``."""
    name, _, attribute = plugin.module.partition(":")
    found: Any = importlib.import_module(name)
    for part in filter(None, attribute.split(".")):
        found = getattr(found, part)
    return found


def _marked_hooks(plugin: Plugin, module: Any) -> list[str]:
    """Return the hooks that a module implements; raise if one is not allowed."""
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
        raise TypeError(
            f"{plugin.module} defines no hook; define one of {', '.join(HOOKS)}"
        )
    return marked


def _call_hook(hook: str, module: object) -> list[Any]:
    """Call one hook of one plugin.

    pluggy calls a hook of all plugins in one go, and stops at the first that raises.
    Here each plugin is called alone, through a caller that excludes the others, so that
    an error belongs to the plugin that raised it.
    """
    others = [plugin for plugin in manager.get_plugins() if plugin is not module]
    results = manager.subset_hook_caller(hook, others)()
    for result in results or [None]:  # pluggy leaves None out
        if not isinstance(result, list | tuple):
            raise TypeError(f"{hook} must return a list, got {result!r}")
    return [value for result in results for value in result]


def _key(plugin: Plugin) -> str:
    return f"{plugin.distribution}:{plugin.name}"


# --- the environment -------------------------------------------------------------


def names_in(variable: str) -> set[str]:
    """Return the comma-separated names in an environment variable."""
    return {
        canonical_name(n.strip()) for n in os.environ.get(variable, "").split(",")
    } - {""}


def _names(plugin: Plugin) -> set[str]:
    return {canonical_name(plugin.name), plugin.distribution}


def mistakes() -> list[str]:
    """Describe mistakes in environment variables.

    Variables ``PLUGRAD_<NAME>_*`` belong to the backend of that name.
    """
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
