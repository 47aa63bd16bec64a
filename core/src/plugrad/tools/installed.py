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

import importlib_metadata as metadata

from plugrad import _discovery


def shadows() -> list[str]:
    """Return which distributions with plugins are there more than once.

    The same version in two folders is how an editable installation looks.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    for name, version, files in _discovery.announced():
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


def unmet(distribution: str) -> list[str]:
    """Return the requirements that are not met; those with markers are not looked at.

    Versions are compared by their release numbers; ``1.0rc1`` counts as ``1.0``.
    """
    missing = []
    for requirement in metadata.distribution(distribution).requires or ():
        match = re.match(
            r"([\w.-]+)\s*(?:\[[^]]*\])?\s*\(?([^;)]*)\)?\s*(;?)", requirement
        )
        if match is None or match[3]:
            continue
        name, wanted = match[1], match[2].strip()
        version = _discovery.version(name)
        if not version:
            missing.append(f"{name}{wanted}, which is not installed")
            continue
        if not all(_meets(version, part) for part in wanted.split(",") if part.strip()):
            missing.append(f"{name}{wanted}, and {version} is installed")
    return missing


def _meets(version: str, clause: str) -> bool:
    match = re.match(r"\s*(===|==|!=|~=|<=|>=|<|>)\s*(\d+(?:\.\d+)*)(\.\*)?", clause)
    have = _release(version)
    if match is None or not have:
        return True  # a form that is not read here: no verdict
    operator, text, any_ = match.groups()
    wanted = _release(text)
    if any_ or operator == "~=":
        head = wanted if any_ else wanted[:-1]
        begins = (*have, *[0] * len(head))[: len(head)] == head
        return (
            not begins
            if operator == "!="
            else begins and (bool(any_) or have >= wanted)
        )
    size = max(len(have), len(wanted))
    a, b = ((*v, *[0] * (size - len(v))) for v in (have, wanted))
    return {
        "==": a == b,
        "===": a == b,
        "!=": a != b,
        "<": a < b,
        "<=": a <= b,
        ">": a > b,
        ">=": a >= b,
    }[operator]


def _release(version: str) -> tuple[int, ...]:
    match = re.match(r"(?:\d+!)?(\d+(?:\.\d+)*)", version)
    return tuple(map(int, match[1].split("."))) if match else ()


def internals(package: str) -> Iterator[str]:
    """Yield where loaded modules of ``package`` import private modules of plugrad."""
    for name, module in sorted(sys.modules.items()):
        path = getattr(module, "__file__", None) or ""
        if name.partition(".")[0] == package and path.endswith(".py"):
            with open(path, encoding="utf-8") as file:
                tree = ast.parse(file.read())
            for node in ast.walk(tree):
                for imported in _imported(node):
                    if _private(imported):
                        yield f"{name} imports {imported} ({path}:{node.lineno})"  # type: ignore[attr-defined]


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level and node.module:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def _private(name: str) -> bool:
    """Return whether a dotted name is in plugrad, and not for others."""
    top, *parts = name.split(".")
    if top != "plugrad" or not parts:
        return False
    return parts[0] in ("ops", "tools") or any(
        part.startswith("_") and not part.startswith("__") for part in parts
    )
