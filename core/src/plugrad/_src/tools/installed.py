"""Checks that ``doctor`` makes on installed files: distributions, plugin imports.

Contents: ``duplicates`` (a distribution found twice); ``unmet`` (requirements that are
not met); ``private_imports`` (imports of private modules).
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import importlib_metadata as metadata
from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion

from plugrad._src.registry import discovery

# Private dotted names in plugrad; names with two underscores are public.
_PRIVATE = re.compile(r"plugrad\.(?:\w+\.)*_(?!_)")


def duplicates() -> list[str]:
    """Return a remark on each distribution with plugins that is found more than once.

    An editable installation is found as the same version in two folders, which is fine.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    for name, version, _, files in discovery.announced():
        found.setdefault(name, []).append((version, str(files.locate_file(""))))
    remarks = []
    for name, ((counts, first), *others) in found.items():
        for version, folder in others:
            one = os.path.realpath(folder) == os.path.realpath(first)
            if one and version != counts:
                remarks.append(
                    f"{name} is installed as {counts} and as {version} in {folder}, as "
                    "an interrupted update leaves it; reinstall it"
                )
            elif one and folder != first:
                remarks.append(
                    f"{name} is found through {first} and {folder}, which are one "
                    "folder; it counts once"
                )
            elif version != counts:
                remarks.append(
                    f"{name} {counts} in {first} hides {version} in {folder}; "
                    "uninstall one of them"
                )
    return remarks


class Need(NamedTuple):
    """An unmet requirement: the name, and the wanted and installed versions."""

    name: str
    wanted: str
    have: str

    def __str__(self) -> str:
        there = f"and {self.have} is" if self.have else "which is not"
        return f"{self.name}{self.wanted}, {there} installed"

    @property
    def argument(self) -> str:
        """The requirement to install; any version if the distribution is missing."""
        return f"{self.name}{self.wanted}" if self.have else self.name


def unmet(distribution: str) -> list[Need]:
    """Return the requirements of a distribution that this environment does not meet.

    Requirements of extras, and for other platforms, are ignored.
    """
    missing = []
    for text in metadata.distribution(distribution).requires or ():
        try:
            needed = Requirement(text)
            if needed.marker is not None and not needed.marker.evaluate({"extra": ""}):
                continue
            have = discovery.version(needed.name)
            if not have or not needed.specifier.contains(have, prereleases=True):
                missing.append(Need(needed.name, str(needed.specifier), have))
        except (InvalidRequirement, InvalidVersion):
            continue  # pip could not read it either
    return missing


def private_imports(package: str) -> Iterator[str]:
    """Yield the imports of private plugrad modules in loaded modules of ``package``."""
    for name, module in sorted(sys.modules.items()):
        path = getattr(module, "__file__", None) or ""
        if name.partition(".")[0] == package and path.endswith(".py"):
            for node in ast.walk(ast.parse(Path(path).read_text("utf-8"))):
                for imported, line in _imported(node):
                    if _PRIVATE.match(imported):
                        yield f"{name} imports {imported} ({path}:{line})"


def _imported(node: ast.AST) -> list[tuple[str, int]]:
    """Return the dotted names that a statement imports, each with its line."""
    if isinstance(node, ast.Import):
        return [(alias.name, node.lineno) for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [(f"{node.module}.{alias.name}", node.lineno) for alias in node.names]
    return []
