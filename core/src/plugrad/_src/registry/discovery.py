"""Find plugins by the entry points of installed distributions; import none of them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import importlib_metadata as metadata

from . import hooks
from .plugins import Plugin, canonical_name


class Announcement(NamedTuple):
    """A distribution that has entry points for plugrad."""

    distribution: str
    version: str
    requirement: str  # the versions of plugrad that it requires, such as ">=0.3"
    files: Any  # the distribution as an object of importlib_metadata


def found(known: Iterable[str]) -> list[Plugin]:
    """Return the plugins of all distributions except the ``known`` ones.

    If several distributions have the same name, the first on ``sys.path`` counts, as
    for imports.
    """
    seen = {*known}
    plugins = list[Plugin]()
    for announcement in announced():
        if announcement.distribution not in seen:
            seen.add(announcement.distribution)
            plugins += _read(*announcement)
    return sorted(plugins, key=lambda plugin: (plugin.distribution, plugin.name))


def announced() -> Iterator[Announcement]:
    """Yield the distributions with entry points for plugrad, shadowed ones included."""
    for files in _distributions():
        try:
            text = files.read_text("entry_points.txt") or ""
        except Exception:  # unreadable, so not a plugin
            continue
        if "[plugrad." in text:  # most other distributions are never parsed
            yield Announcement(*_metadata(files), files)


def version(distribution: str) -> str:
    """Return the installed version of a distribution; empty if it is not installed."""
    found = next(_distributions(name=distribution), None)
    return "" if found is None else _metadata(found)[1]


def _distributions(**what: str) -> Iterator[Any]:
    """Yield all installed distributions, or those of one name, finder by finder."""
    context = metadata.DistributionFinder.Context(**what)  # type: ignore[no-untyped-call]
    for finder in sys.meta_path:
        find = getattr(finder, "find_distributions", lambda _: ())
        try:
            distributions = [*find(context)]
        except Exception:  # a finder of another package may raise anything
            continue
        yield from distributions


def _metadata(files: Any) -> tuple[str, str, str]:
    """Return the name and version of a distribution, and the plugrad versions it needs.

    Parsing all of the metadata would take 100 times as long.
    """
    try:
        text = files.read_text("METADATA") or files.read_text("PKG-INFO") or ""
    except Exception:
        text = ""
    head = text.partition("\n\n")[0]
    fields = dict(re.findall(r"^(Name|Version): *(\S+)", head, re.MULTILINE))
    needs = re.search(
        r"^Requires-Dist: *plugrad *([(<>=!~][^;\n]*)", head, re.MULTILINE
    )
    return (
        canonical_name(fields.get("Name", str(files))),
        fields.get("Version", ""),
        needs[1].strip(" ()") if needs else "",
    )


def _read(name: str, version: str, requirement: str, files: Any) -> Iterator[Plugin]:
    """Yield the plugins that one distribution announces."""
    try:
        for entry in files.entry_points:
            if not entry.group.startswith("plugrad."):
                continue
            plugin = Plugin(name, version, entry.name, entry.value)
            if entry.group != hooks.GROUP:
                plugin.refuse(*_other_surface(name, entry.group))
            plugin.requirement = requirement
            yield plugin
    except Exception as error:
        plugin = Plugin(name, version)
        plugin.fail(error)
        yield plugin


def _other_surface(distribution: str, group: str) -> tuple[str, str]:
    """Return why another entry-point group is not loaded, and what to upgrade."""
    surface = group.removeprefix("plugrad.v")
    if not surface.isdigit():
        return f"it is in group {group}, but plugins are in {hooks.GROUP}", ""
    older = int(surface) < int(hooks.GROUP.removeprefix("plugrad.v"))
    return (
        f"it is built for the plugin surface {group}, and plugrad {version('plugrad')} "
        f"has {hooks.GROUP}",
        distribution if older else "plugrad",
    )


def is_too_old(core: str, requirement: str) -> bool:
    """Return whether a version of the core is below what a plugin requires.

    A core newer than the plugin allows is accepted, because the surface is the same.
    """
    if not requirement:
        return False
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version

    try:
        have = Version(core)
        return any(
            have < (lowest := Version(spec.version.removesuffix(".*")))
            or (spec.operator == ">" and have == lowest)
            for spec in SpecifierSet(requirement)
            if spec.operator in (">=", ">", "==", "~=")
        )
    except (InvalidSpecifier, InvalidVersion):
        return False  # pip could not read it either
