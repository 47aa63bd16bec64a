"""Find plugins: the entry points of installed distributions. Imports none of them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import importlib_metadata as metadata

from . import hooks
from .plugins import Phase, Plugin, canonical_name
from .registry import registry


class Announcement(NamedTuple):
    """A distribution that has entry points for plugrad."""

    distribution: str
    version: str
    files: Any  # what importlib_metadata found


def discover() -> None:
    """Read the entry points of all distributions, without importing any.

    Of several distributions of one name the first on ``sys.path`` counts, as it does
    for imports. A further call adds what has been installed since.
    """
    seen = {plugin.distribution for plugin in registry.plugins}
    found: list[Plugin] = []
    for one in announced():
        if one.distribution not in seen:
            seen.add(one.distribution)
            found += _read(*one)
    found.sort(key=lambda plugin: (plugin.distribution, plugin.name))
    registry.pending += found
    registry.plugins += found


def announced() -> Iterator[Announcement]:
    """Yield the distributions with entry points for plugrad, shadowed ones included."""
    for files in _distributions():
        try:
            text = files.read_text("entry_points.txt") or ""
        except Exception:  # unreadable, so not a plugin
            continue
        if "[plugrad." in text:  # most other distributions are never parsed
            yield Announcement(*_named(files), files)


def version(distribution: str) -> str:
    """Return the version that is installed, or an empty string."""
    found = next(_distributions(name=distribution), None)
    return "" if found is None else _named(found)[1]


def _distributions(**what: str) -> Iterator[Any]:
    """Yield the installed distributions, of one name or all, finder by finder."""
    context = metadata.DistributionFinder.Context(**what)  # type: ignore[no-untyped-call]
    for finder in sys.meta_path:
        find = getattr(finder, "find_distributions", lambda _: ())
        try:
            distributions = [*find(context)]
        except Exception:  # a foreign finder: its names are not known
            continue
        yield from distributions


def _named(files: Any) -> tuple[str, str]:
    """Return name and version; parsing all of the metadata takes 100 times as long."""
    try:
        text = files.read_text("METADATA") or files.read_text("PKG-INFO") or ""
    except Exception:
        text = ""
    head = text.partition("\n\n")[0]
    fields = dict(re.findall(r"^(Name|Version): *(\S+)", head, re.MULTILINE))
    return canonical_name(fields.get("Name", str(files))), fields.get("Version", "")


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
