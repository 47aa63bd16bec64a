"""What doctor reads from disk: distributions and the imports in a plugin's modules.

Map: ``shadows`` (a distribution found twice); ``unmet`` (what one requires and does not
have); ``internals`` (where a plugin imports what is not public).
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator
from itertools import zip_longest
from operator import eq, ge, gt, le, lt, ne
from pathlib import Path
from typing import NamedTuple

import importlib_metadata as metadata

from plugrad.registry import discovery

_REQUIREMENT = re.compile(r"([\w.-]+)\s*(?:\[[^]]*\])?\s*\(?([^;)]*)\)?\s*(;?)")
_CLAUSE = re.compile(r"\s*(===|==|!=|~=|<=|>=|<|>)\s*(\d+(?:\.\d+)*)(\.\*)?")
_COMPARISONS = {"==": eq, "===": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
# Dotted names in plugrad that are not for others; those with two underscores are.
_PRIVATE = re.compile(r"plugrad\.(?:(?:ops|tools)\b|(?:\w+\.)*_(?!_))")


def shadows() -> list[str]:
    """Return which distributions with plugins are there more than once.

    The same version in two folders is how an editable installation looks.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    for name, version, files in discovery.announced():
        found.setdefault(name, []).append((version, str(files.locate_file(""))))
    told = []
    for name, ((counts, first), *others) in found.items():
        for version, folder in others:
            one = os.path.realpath(folder) == os.path.realpath(first)
            if one and version != counts:
                told.append(
                    f"{name} is there as {counts} and as {version} in {folder}, as an "
                    "interrupted update leaves it; reinstall it"
                )
            elif one and folder != first:
                told.append(
                    f"{name} is found through {first} and {folder}, which are one "
                    "folder; it counts once"
                )
            elif version != counts:
                told.append(
                    f"{name} {counts} in {first} hides {version} in {folder}; "
                    "uninstall one of them"
                )
    return told


class Need(NamedTuple):
    """A requirement that is not met: of what, the versions, and the one there is."""

    name: str
    wanted: str
    have: str

    def __str__(self) -> str:
        there = f"and {self.have} is" if self.have else "which is not"
        return f"{self.name}{self.wanted}, {there} installed"

    @property
    def argument(self) -> str:
        """What pip is to install."""
        return f"'{self.name}{self.wanted}'" if self.have else self.name


def unmet(distribution: str) -> list[Need]:
    """Return the requirements that are not met; those with markers are not looked at.

    Versions are compared by their release numbers; ``1.0rc1`` counts as ``1.0``.
    """
    missing = []
    for requirement in metadata.distribution(distribution).requires or ():
        match = _REQUIREMENT.match(requirement)
        if match is None or match[3]:
            continue
        name, wanted = match[1], match[2].strip()
        have = discovery.version(name)
        if not (have and all(_meets(have, clause) for clause in wanted.split(","))):
            missing.append(Need(name, wanted, have))
    return missing


def _meets(version: str, clause: str) -> bool:
    match, have = _CLAUSE.match(clause), _release(version)
    if match is None or not have:
        return True  # a form that is not read here: no verdict
    sign, text, star = match.groups()
    wanted = _release(text)
    a, b = zip(*zip_longest(have, wanted, fillvalue=0), strict=True)
    if star or sign == "~=":
        head = len(wanted) if star else len(wanted) - 1
        begins = a[:head] == b[:head]
        if sign == "!=":
            return not begins
        return begins and (bool(star) or a >= b)
    return _COMPARISONS[sign](a, b)


def _release(version: str) -> tuple[int, ...]:
    match = re.match(r"(?:\d+!)?(\d+(?:\.\d+)*)", version)
    return tuple(map(int, match[1].split("."))) if match else ()


def internals(package: str) -> Iterator[str]:
    """Yield where loaded modules of ``package`` import private modules of plugrad."""
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
